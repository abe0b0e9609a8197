"""The paper's experiments, run again; they belong to the checkout and are not installed with evenhand.

`reproduce` runs them all. Two studies beside them are run by name: `python -m reproduction.coverage` (how
often certificates fail) and `python -m reproduction.streams` (parity along a stream).
"""

from reproduction.reproduction import reproduce

__all__ = ["reproduce"]
