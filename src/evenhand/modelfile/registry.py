"""The closed list of classes that a model file may name, and what must hold for what it holds of them.

A file can say nothing that is not here. Compiled loops trust the shapes that they are given, so shapes
are checked when a file is read, not when its model predicts.
"""

from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any

import numpy as np
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    ShuffleSplit,
    StratifiedGroupKFold,
    StratifiedKFold,
    StratifiedShuffleSplit,
)
from sklearn.pipeline import Pipeline

from evenhand.calibration import CalibrationDiagnosis, Calibrator, JointCalibrator
from evenhand.certificates import Certificate
from evenhand.dual.costs import Absolute, CostMatrix, Huber, Pinball, Squared
from evenhand.dual.grid import Support
from evenhand.dual.policy import SoftmaxPolicy
from evenhand.dual.step import ParityStep
from evenhand.estimators import ParityClassifier, ParityRegressor
from evenhand.estimators.cells import Notion
from evenhand.estimators.postprocessor import ParityPostprocessor
from evenhand.estimators.selection import Selection
from evenhand.estimators.streaming import Moments, Monitor, Record, Stream
from evenhand.modelfile import stream_faults, term_faults
from evenhand.modelfile.term_faults import is_floats
from evenhand.solvers import AcSa, AcSa2, Auto, Batch, Lbfgs, Oracle, Sgd, Sgd3, SolverResult, Status
from evenhand.solvers.schedules import Phase
from evenhand.solvers.stochastic import StochasticSolver, StochasticState


def _by_name(*classes: type) -> dict[str, type]:
    return {cls.__name__: cls for cls in classes}


# a pipeline is written this way only where one of ours is inside; skops writes the others
MODELS: dict[str, type] = _by_name(ParityClassifier, ParityPostprocessor, ParityRegressor, Pipeline)
OBJECTS: dict[str, type] = _by_name(
    Absolute,
    AcSa,
    AcSa2,
    Auto,
    Batch,
    CalibrationDiagnosis,
    Calibrator,
    Certificate,
    CostMatrix,
    Huber,
    JointCalibrator,
    Lbfgs,
    Moments,
    Monitor,
    Notion,
    Oracle,
    ParityStep,
    Phase,
    Pinball,
    Record,
    Selection,
    Sgd,
    Sgd3,
    SoftmaxPolicy,
    SolverResult,
    Squared,
    StochasticState,
    Stream,
    Support,
)
SPLITTERS: dict[str, type] = _by_name(
    GroupKFold, KFold, ShuffleSplit, StratifiedGroupKFold, StratifiedKFold, StratifiedShuffleSplit
)
ENUMS: dict[str, type[Enum]] = {"Status": Status}


def is_ours(value: Any) -> bool:
    """Whether `value` is a model of this package, or a pipeline with one inside."""
    if type(value) is Pipeline:
        return any(is_ours(step) for _, step in value.steps)
    return type(value) in MODELS.values()


def find_fault(value: object) -> str | None:
    """Why a value that was read cannot be what its class says, or None."""
    faults = _FAULTS.get(type(value).__name__)
    return None if faults is None else next(faults(value), None)


def _support_faults(support: Any) -> Iterator[str]:
    if not is_floats(support.atoms, 1) or len(support.atoms) < 2:
        yield "its atoms are not a list of numbers"
    elif not np.isfinite(support.atoms).all() or np.diff(support.atoms).min() <= 0:
        yield "its atoms are not finite and increasing"
    bounds = support.bounds
    if type(bounds) is not tuple or [type(bound) for bound in bounds] != [float, float]:
        yield "its bounds are not two numbers"


def _policy_faults(policy: Any) -> Iterator[str]:
    if type(policy.support) is not Support:
        yield "it has no support"
    elif not is_floats(policy.tilt, 2) or not is_floats(policy.group_prior, 1):
        yield "its tilt or its prior is not an array of numbers"
    elif policy.tilt.shape != (len(policy.support.atoms), len(policy.group_prior)):
        yield "the shapes of its atoms, prior and tilt do not agree"
    elif not np.all(policy.group_prior > 0):
        yield "its prior is not positive"
    if type(policy.temperature) is not float:
        yield "its temperature is not a number"
    yield from term_faults.strata_faults(policy.strata, policy.group_prior)
    yield from term_faults.cost_faults(policy.cost, len(policy.tilt))


def _notion_faults(notion: Any) -> Iterator[str]:
    labels = (notion.names, notion.groups, *(notion.groups if type(notion.groups) is tuple else ()))
    optional = (notion.classes, notion.outcomes, notion.factors)
    if any(type(part) is not tuple for part in labels) or any(
        part is not None and type(part) is not tuple for part in optional
    ):
        yield "its labels are not listed"
    elif len(notion.names) != len(notion.groups) or not notion.names:
        yield "it does not have groups for each attribute"
    elif notion.outcomes is not None and not set(notion.outcomes) <= set(notion.classes or ()):
        yield "its outcomes are not among its classes"
    if type(notion.separate) is not bool or type(notion.joint) is not bool:
        yield "its switches are not yes or no"


def _postprocessor_faults(model: Any) -> Iterator[str]:
    fitted = {name for name in vars(model) if name.endswith("_")}
    if not fitted:
        return
    if missing := sorted({"atoms_", "draw_key_", "groups_", "multipliers_", "policy_", "step_"} - fitted):
        yield f"it has no {', '.join(missing)}"
    elif type(model.policy_) is not SoftmaxPolicy:
        yield "its policy_ is not a policy"
    elif not _is_step_of(model.step_, model.policy_):
        yield "its step_ is not the step of its policy"
    else:
        key = model.draw_key_
        if not isinstance(key, np.ndarray) or key.dtype != np.uint64 or key.shape != (2,):
            yield "its draw_key_ is not a key"
        yield from _group_faults(model, len(model.policy_.group_prior))
        yield from _model_stream_faults(model)


def _is_step_of(step: Any, policy: SoftmaxPolicy) -> bool:
    return type(step) is ParityStep and step.group_prior.shape == policy.group_prior.shape


def _model_stream_faults(model: Any) -> Iterator[str]:
    stream = getattr(model, "stream_", None)
    if stream is None:
        return
    if type(stream) is not Stream:
        yield "its stream_ is not a stream"
    elif len(stream.step.group_prior) != len(model.policy_.group_prior):
        yield "its stream_ has other groups"
    else:
        solver = model.solver
        size = solver.batch_size if isinstance(solver, StochasticSolver) else 1
        yield from stream_faults.unfinished_faults(stream, size)


def _estimator_faults(model: Any) -> Iterator[str]:
    fitted = {name for name in vars(model) if name.endswith("_")}
    if not fitted:
        return
    postprocessor = getattr(model, "postprocessor_", None)
    if missing := sorted({"estimator_", "postprocessor_", "groups_", "notion_"} - fitted):
        yield f"it has no {', '.join(missing)}"
    elif type(postprocessor) is not ParityPostprocessor or not hasattr(postprocessor, "policy_"):
        yield "its postprocessor_ is not a fitted one"
    elif type(model.notion_) is not Notion:
        yield "its notion_ is not a notion"
    else:
        yield from _group_faults(model, len(postprocessor.policy_.group_prior))
        if len(model.notion_.cells()) != len(postprocessor.policy_.group_prior):
            yield "its notion_ does not have the cells of its policy"
    if type(getattr(model, "outcome_calibrator_", None)) not in (type(None), JointCalibrator):
        yield "its outcome_calibrator_ is not one"
    if type(model) is ParityClassifier and not _are_classes(model):
        yield "its classes_ are not those of its atoms"


def _are_classes(model: Any) -> bool:
    classes = getattr(model, "classes_", None)
    atoms = model.postprocessor_.policy_.support.atoms
    return isinstance(classes, np.ndarray) and classes.shape == atoms.shape == (int(atoms[-1]) + 1,)


def _pipeline_faults(model: Any) -> Iterator[str]:
    if model.memory is not None:
        yield "it has a memory, which belongs to one machine (set_params(memory=None) drops it)"
    steps = model.steps
    if type(steps) is not list or not all(type(step) is tuple and len(step) == 2 for step in steps):
        yield "its steps are not pairs"


def _group_faults(model: Any, n_groups: int) -> Iterator[str]:
    groups = model.groups_
    if not isinstance(groups, np.ndarray) or groups.shape != (n_groups,):
        yield f"its groups_ are not {n_groups} labels"


_FAULTS: dict[str, Callable[[Any], Iterator[str]]] = {
    "Support": _support_faults,
    "SoftmaxPolicy": _policy_faults,
    "ParityPostprocessor": _postprocessor_faults,
    "ParityClassifier": _estimator_faults,
    "ParityRegressor": _estimator_faults,
    "CostMatrix": term_faults.cost_matrix_faults,
    "JointCalibrator": term_faults.joint_calibrator_faults,
    "Notion": _notion_faults,
    "Pipeline": _pipeline_faults,
    "Phase": stream_faults.phase_faults,
    "StochasticState": stream_faults.walk_faults,
    "Moments": stream_faults.moments_faults,
    "ParityStep": stream_faults.step_faults,
    "Stream": stream_faults.stream_faults,
}
