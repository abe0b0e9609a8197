"""Compiled loops over rows. Arrays and scalars in, arrays out; no objects.

Rows are taken `LANES` at a time and lie side by side in memory, so that every inner loop runs over
rows and vectorises by itself: sums and maxima over atoms need no horizontal step. The NumPy twin of
each kernel is in `reference.py`.
"""

from evenhand._kernels import compiling

__all__ = ["compiling"]  # loaded for what it does: it tells of the first compilation
