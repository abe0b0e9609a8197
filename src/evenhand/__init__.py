"""Predictions whose distribution is the same in every group, without the group at prediction time."""

from evenhand import certificates, datasets, metrics, solvers
from evenhand._kernels.chunks import get_num_threads, set_num_threads
from evenhand._version import __version__
from evenhand.postprocessor import ParityPostprocessor

__all__ = [
    "ParityPostprocessor",
    "__version__",
    "certificates",
    "datasets",
    "get_num_threads",
    "metrics",
    "set_num_threads",
    "solvers",
]
