"""Small tools without a word of the method: files, frames, extras, progress, types, checks of arrays."""
