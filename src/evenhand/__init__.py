"""Predictions whose distribution is the same in every group, without the group at prediction time."""

from evenhand import baselines, certificates, costs, datasets, metrics, outofcore, plots, solvers
from evenhand._kernels.chunks import get_num_threads, set_num_threads
from evenhand._version import __version__
from evenhand.audit import audit
from evenhand.estimators import ParityClassifier, ParityRegressor, table_pipeline
from evenhand.frontier import frontier
from evenhand.io import load, save
from evenhand.postprocessor import ParityPostprocessor
from evenhand.reporting import model_card, report

__all__ = [
    "ParityClassifier",
    "ParityPostprocessor",
    "ParityRegressor",
    "__version__",
    "audit",
    "baselines",
    "certificates",
    "costs",
    "datasets",
    "frontier",
    "get_num_threads",
    "load",
    "metrics",
    "model_card",
    "outofcore",
    "plots",
    "report",
    "save",
    "set_num_threads",
    "solvers",
    "table_pipeline",
]
