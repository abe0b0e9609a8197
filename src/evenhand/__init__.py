"""Predictions whose distribution is the same in every group, without the group at prediction time."""

import importlib
from typing import TYPE_CHECKING

from evenhand._utils.version import __version__

if TYPE_CHECKING:  # what the names below are; they are loaded when they are first asked for
    from evenhand import (
        baselines,
        certificates,
        costs,
        datasets,
        exceptions,
        metrics,
        parity,
        plots,
        scoring,
        solvers,
        tables,
    )
    from evenhand._kernels.chunks import get_num_threads, set_num_threads
    from evenhand.dual.thresholds import Thresholds
    from evenhand.estimators import ParityClassifier, ParityRegressor, table_pipeline
    from evenhand.estimators.postprocessor import ParityPostprocessor
    from evenhand.evaluation.audit import audit
    from evenhand.evaluation.explaining import explain
    from evenhand.evaluation.frontier import frontier
    from evenhand.modelfile import load, save
    from evenhand.onnx_export import export_onnx
    from evenhand.reporting import model_card, report

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
    "exceptions",
    "explain",
    "export_onnx",
    "frontier",
    "get_num_threads",
    "load",
    "metrics",
    "model_card",
    "parity",
    "plots",
    "report",
    "save",
    "scoring",
    "set_num_threads",
    "solvers",
    "table_pipeline",
    "tables",
]

_HOMES = {
    "ParityClassifier": "evenhand.estimators",
    "ParityPostprocessor": "evenhand.estimators.postprocessor",
    "ParityRegressor": "evenhand.estimators",
    "Thresholds": "evenhand.dual.thresholds",
    "audit": "evenhand.evaluation.audit",
    "export_onnx": "evenhand.onnx_export",
    "explain": "evenhand.evaluation.explaining",
    "frontier": "evenhand.evaluation.frontier",
    "get_num_threads": "evenhand._kernels.chunks",
    "load": "evenhand.modelfile",
    "model_card": "evenhand.reporting",
    "report": "evenhand.reporting",
    "save": "evenhand.modelfile",
    "set_num_threads": "evenhand._kernels.chunks",
    "table_pipeline": "evenhand.estimators",
}  # the others are modules and packages of their own


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'evenhand' has no attribute {name!r}")
    home = _HOMES.get(name)
    if home is None:
        return importlib.import_module(f"evenhand.{name}")
    found = getattr(importlib.import_module(home), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
