"""Experiments: a frozen configuration in, columns and a figure out.

`reproduce` runs those of the paper; `coverage` studies the certificates.
"""

from reproduction.reproduction import reproduce

__all__ = ["reproduce"]
