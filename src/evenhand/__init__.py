"""Predictions whose distribution is the same in every group, without the group at prediction time."""

from evenhand import baselines, certificates, datasets, metrics, plots, solvers
from evenhand._kernels.chunks import get_num_threads, set_num_threads
from evenhand._utils.version import __version__
from evenhand.dual import costs, parity
from evenhand.dual.thresholds import Thresholds
from evenhand.estimators import ParityClassifier, ParityRegressor, table_pipeline
from evenhand.estimators.postprocessor import ParityPostprocessor
from evenhand.evaluation import scoring
from evenhand.evaluation.audit import audit
from evenhand.evaluation.frontier import frontier
from evenhand.modelfile import load, save
from evenhand.reporting import model_card, report
from evenhand.tables import outofcore

__all__ = [
    "ParityClassifier",
    "ParityPostprocessor",
    "ParityRegressor",
    "Thresholds",
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
    "parity",
    "plots",
    "report",
    "save",
    "scoring",
    "set_num_threads",
    "solvers",
    "table_pipeline",
]
