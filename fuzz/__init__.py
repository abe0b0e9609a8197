"""Hostile input for the public functions, tables and files: `python -m fuzz --seconds 20`."""
