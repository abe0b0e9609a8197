"""Data of rows that does not depend on a model: groups, random draws and samples."""
