"""Rows of a parity step and predictions for them: in memory, as tensors on a device, or sent to one.

torch is imported only when a tensor or a device is passed.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from evenhand._utils.tensor_rows import TensorRows, check_tensors, check_tensors_of
from evenhand._utils.tensors import import_torch, is_tensor, like
from evenhand._utils.typing import FloatArray
from evenhand._utils.validation import Labels, Rows, check_rows, check_rows_of, check_strata, column_labels
from evenhand.data.draws import HashArray, uniforms_from_rows
from evenhand.dual.cost_terms import FARTHEST
from evenhand.dual.costs import Cost
from evenhand.dual.grid import Grid
from evenhand.dual.notion import ParityNotion
from evenhand.dual.parity import find_parity, resolve_parity
from evenhand.dual.policy import SoftmaxPolicy
from evenhand.dual.problem import DualProblem
from evenhand.dual.step import ParityStep, choose_grid

StepRows: TypeAlias = Rows | TensorRows
Uniforms: TypeAlias = Callable[[HashArray], Any]  # draws of rows by a key


def read_rows(
    scores: Any, group_proba: Any, sample_weight: Any, strata: Any, cost: Cost, device: Any
) -> StepRows:
    """Check the rows of `fit`; tensors stay on their device if the cost can be computed on tensors."""
    codes, labels = None, None
    tensors = is_tensor(scores) or is_tensor(group_proba)
    if strata is not None:
        columns = tuple(range(group_proba.shape[1])) if tensors else column_labels(group_proba)
        codes, labels = check_strata(strata, columns)
    options: dict[str, Any] = {"groups": labels, "strata": codes, "n_classes": cost.n_classes}
    if not tensors:
        return check_rows(scores, group_proba, sample_weight, **options)
    rows = check_tensors(scores, group_proba, sample_weight, **options, work=device)
    return rows if stays_on_device(cost) else rows.in_memory()


def check_device(device: Any) -> None:
    """Check that PyTorch can use the device."""
    if device is None:
        return
    torch = import_torch()
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, TypeError) as error:
        raise ValueError(f"device={device!r} cannot be used: {error}") from error


def stays_on_device(cost: Cost) -> bool:
    """Whether the cost can be computed on tensors, so that fit and predictions stay on their device."""
    from evenhand.dual.torch_design import is_for_tensors

    return is_for_tensors(cost)


def as_arrays(rows: StepRows) -> Rows:
    """Return the rows in memory."""
    return rows if isinstance(rows, Rows) else rows.in_memory()


def in_memory(values: Any) -> Any:
    """Convert tensors to arrays in memory; return everything else unchanged."""
    if not is_tensor(values):
        return values
    torch = import_torch()
    tensor = values if isinstance(values, torch.Tensor) else torch.from_dlpack(values)
    return tensor.detach().cpu().numpy()


def grid_of(atoms: Any, bounds: Any, rows: StepRows, cost: Cost) -> Grid:
    """Return the grid of atoms for these parameters and rows."""
    if isinstance(rows, Rows):
        return choose_grid(atoms, bounds, rows.scores, rows.weights, cost)
    from evenhand.dual.torch_grid import choose_tensor_grid

    return choose_tensor_grid(atoms, bounds, rows, cost)


def parity_of(parity: str | ParityNotion, rows: StepRows) -> str | ParityNotion:
    """Return the parity notion, fitted to the scores if it depends on them."""
    if isinstance(rows, TensorRows):
        if type(find_parity(parity)).resolve is ParityNotion.resolve:
            return parity
        rows = rows.in_memory()
    return resolve_parity(parity, rows.scores, rows.weights)


def count_outside(grid: Grid, rows: StepRows) -> int:
    """Return the number of scores outside the bounds."""
    if isinstance(rows, Rows):
        return grid.count_outside(rows.scores)
    from evenhand.dual import torch_grid

    return torch_grid.count_outside(grid, rows)


def problem_of(step: ParityStep, rows: StepRows, device: Any) -> DualProblem:
    """Return the dual problem of a step on rows, with sums computed in memory or on the device."""
    if device is None:
        return step.problem(as_arrays(rows))  # in memory, compiled loops are faster than torch
    if isinstance(rows, Rows):
        from evenhand.dual.torch_rows import place_rows

        return step.problem(place_rows(step.rows(rows), device))
    from evenhand.dual.torch_design import place_tensors

    return step.problem(place_tensors(step, rows, device))


def within_floats(rows: StepRows, grid: Grid) -> StepRows:
    """Clip scores so far from the atoms that their squares overflow, for measures that do not clip."""
    if not isinstance(rows, Rows) or rows.scores.ndim > 1 or np.abs(rows.scores).max() <= FARTHEST:
        return rows
    scores = np.clip(rows.scores, grid.centre - FARTHEST, grid.centre + FARTHEST)
    return replace(rows, scores=scores)


def predict(
    policy: SoftmaxPolicy,
    groups: Labels,
    scores: Any,
    group_proba: Any,
    method: str,
    levels: Callable[[int, Uniforms], Any] | None = None,
) -> Any:
    """What a method of the policy answers for these rows, as an array of the library of `scores`.

    `levels` gets the number of rows and a function from a key to the draws of the rows.
    """
    n_classes = policy.cost.n_classes
    if not (is_tensor(scores) or is_tensor(group_proba)):
        rows = check_rows_of(scores, group_proba, groups, policy.strata, n_classes)
        return _predict_arrays(policy, rows, method, levels)
    tensors = check_tensors_of(scores, group_proba, groups, policy.strata, n_classes)
    if not stays_on_device(policy.cost):  # the cost is a function of arrays
        answer = import_torch().from_numpy(_predict_arrays(policy, tensors.in_memory(), method, levels))
        return like(scores, answer.to(tensors.device, tensors.scores.dtype))
    from evenhand.dual.torch_policy import TensorPolicy

    bound = TensorPolicy(policy, tensors)
    more = () if levels is None else (levels(bound.n_rows, bound.uniforms),)
    return like(scores, getattr(bound, method)(*more))


def _predict_arrays(policy: SoftmaxPolicy, rows: Rows, method: str, levels: Any) -> Any:
    def uniforms(key: HashArray) -> FloatArray:
        scaled = rows.scores
        if scaled.ndim == 1:
            with np.errstate(over="ignore"):  # scores beyond all bounds are in one cell
                scaled = policy.grid.scale(scaled)
        return uniforms_from_rows(scaled, rows.group_proba, key)

    more = () if levels is None else (levels(len(rows.scores), uniforms),)
    return getattr(policy, method)(rows.scores, rows.group_proba, *more)
