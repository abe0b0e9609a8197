"""Rows of a parity step in memory or on a device."""
