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
# a pipeline is written by its parts only where one of ours is inside; skops writes the others
_OF_SCIKIT_LEARN: dict[tuple[str, str], type] = {
    ("model", "Pipeline"): Pipeline,
    **{("splitter", name): cls for name, cls in SPLITTERS.items()},
}


def find_class(kind: str, name: str) -> type | None:
    """The class of this kind that a file calls `name`, if there is one by now."""
    if (kind, name) in _OF_SCIKIT_LEARN:
        return _OF_SCIKIT_LEARN[kind, name]
    cls = stored_classes().get(name)
    return cls if cls is not None and kind_of(cls) == kind else None


def kind_of(cls: type) -> str | None:
    """How a class that takes part is written: as "object", "model" or "enum"; None where it is a base."""
    if issubclass(cls, Enum):
        return "enum"
    if is_object(cls):
        return "object"
    return "model" if _is_model(cls) else None


def is_object(cls: type) -> bool:
    """Whether a class says what it consists of: a dataclass, and not one that merely inherits from one."""
    declared = "__dataclass_fields__" in vars(cls) and not inspect.isabstract(cls)
    return declared and issubclass(cls, Stored) and not issubclass(cls, BaseEstimator)


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
