"""Experiments: a frozen configuration in, columns and a figure out."""
