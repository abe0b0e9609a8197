"""Predictions whose distribution is the same in every group, without the group at prediction time."""

from evenhand import certificates, costs, datasets, metrics, outofcore, plots, solvers
from evenhand._kernels.chunks import get_num_threads, set_num_threads
from evenhand._version import __version__
from evenhand.audit import audit
from evenhand.estimators import ParityClassifier, ParityRegressor
from evenhand.frontier import frontier
from evenhand.io import load, save
from evenhand.postprocessor import ParityPostprocessor

__all__ = [
    "ParityClassifier",
    "ParityPostprocessor",
    "ParityRegressor",
    "__version__",
    "audit",
    "certificates",
    "costs",
    "datasets",
    "frontier",
    "get_num_threads",
    "load",
    "metrics",
    "outofcore",
    "plots",
    "save",
    "set_num_threads",
    "solvers",
]
