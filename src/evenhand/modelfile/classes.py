"""Which classes a file may name: those that take part (`Stored`), and a few of scikit-learn.

Compiled loops trust the shapes that they are given, so what a class says of itself (`faults`) is asked when
a file is read, not when its model predicts.
"""

import dataclasses
import inspect
from collections.abc import Iterator
from enum import Enum
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    ShuffleSplit,
    StratifiedGroupKFold,
    StratifiedKFold,
    StratifiedShuffleSplit,
)
from sklearn.pipeline import Pipeline

from evenhand._utils.stored import Stored, find_fault, is_own, stored_classes

_SPLITTERS = (GroupKFold, KFold, ShuffleSplit, StratifiedGroupKFold, StratifiedKFold, StratifiedShuffleSplit)
SPLITTERS: dict[str, type] = {cls.__name__: cls for cls in _SPLITTERS}


def models() -> dict[str, type]:
    """Classes of the kind `model`: a pipeline is written so only where one of ours is inside."""
    return {name: cls for name, cls in stored_classes().items() if _is_model(cls)} | {"Pipeline": Pipeline}


def enums() -> dict[str, type[Enum]]:
    """Classes of the kind `enum`."""
    return {name: cls for name, cls in stored_classes().items() if issubclass(cls, Enum)}


def objects() -> dict[str, type[Stored]]:
    """Classes of the kind `object`: dataclasses, and not those that merely inherit from one."""
    return {name: cls for name, cls in stored_classes().items() if is_object(cls)}


def is_object(cls: type) -> bool:
    """Whether a class says by its own fields what it consists of."""
    return issubclass(cls, Stored) and "__dataclass_fields__" in vars(cls) and not inspect.isabstract(cls)


def is_model(value: Any) -> bool:
    """Whether `value` is a model of this package, or a pipeline with one inside."""
    if type(value) is Pipeline:
        return any(is_model(step) for _, step in value.steps)
    return _is_model(type(value))


def parameters(cls: type) -> list[str]:
    """What the constructor takes: the fields of a dataclass, or its parameters."""
    if is_object(cls):
        return [field.name for field in dataclasses.fields(cls) if field.init]
    return list(inspect.signature(cls).parameters)


def fault_of(value: Any) -> str | None:
    """The first thing that is wrong with a value that was read, or is to be saved, or None."""
    if type(value) is Pipeline:
        return next(_pipeline_faults(value), None)
    return find_fault(value) if isinstance(value, Stored) else None


def _is_model(cls: type) -> bool:
    ours = issubclass(cls, Stored) and issubclass(cls, BaseEstimator) and is_own(cls)
    return ours and "__init__" in vars(cls)  # which the bases of estimators do not have


def _pipeline_faults(pipeline: Pipeline) -> Iterator[str]:
    if pipeline.memory is not None:
        yield "it has a memory, which belongs to one machine (set_params(memory=None) drops it)"
    steps = pipeline.steps
    if type(steps) is not list or not all(type(step) is tuple and len(step) == 2 for step in steps):
        yield "its steps are not pairs"
