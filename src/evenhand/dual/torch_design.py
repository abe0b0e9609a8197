"""Rows of tensors as a problem takes them: what `ImbalanceModel` and the costs do for arrays."""

from typing import Any

import numpy as np
import torch

from evenhand._utils.tensor_rows import TensorRows
from evenhand.dual.cost_terms import clip_within_reach
from evenhand.dual.costs import Cost, CostMatrix, Squared
from evenhand.dual.grid import Grid
from evenhand.dual.imbalance import ImbalanceModel, stratum_sums
from evenhand.dual.step import ParityStep
from evenhand.dual.torch_rows import TorchRows, empty_columns, settle


def is_for_tensors(cost: Cost) -> bool:
    """Whether a cost has a form for tensors: all but the squared one and matrices are functions of arrays."""
    return type(cost) in (Squared, CostMatrix)


def kept_columns(imbalance: ImbalanceModel, proba: Any) -> Any:
    """Imbalance of the kept groups, (n_kept, n_rows): `ImbalanceModel.kept_rows`."""
    kept = imbalance.kept.tolist()
    prior = torch.from_numpy(imbalance.group_prior).to(proba.device)
    shares = proba[:, kept] / prior[kept]
    if imbalance.strata is None:
        return (1.0 - shares).T
    strata = imbalance.strata
    totals = torch.zeros((len(proba), int(strata.max()) + 1), dtype=proba.dtype, device=proba.device)
    for group, stratum in enumerate(strata.tolist()):
        totals[:, stratum] += proba[:, group]
    whole = torch.from_numpy(stratum_sums(imbalance.group_prior, strata)[imbalance.kept]).to(proba.device)
    return (totals[:, strata[imbalance.kept].tolist()] / whole - shares).T


def design_columns(imbalance: ImbalanceModel, grid: Grid, scores: Any, proba: Any) -> Any:
    """Design of checked rows in float64, (n_kept + n_features, n_rows).

    Features of a cost matrix are all class probabilities but the first; of the squared cost, scaled scores.
    """
    if scores.ndim == 2:
        features = scores[:, 1:].T
    else:
        features = ((scores.clamp(*grid.bounds) - grid.centre) / grid.half_width)[None]
    return torch.cat([kept_columns(imbalance, proba), features])


def require_reach(grid: Grid, scores: Any) -> None:
    """Refuse scores so far from the atoms that their squares overflow."""
    if scores.ndim == 1:
        clip_within_reach(grid, np.array([float(end) for end in scores.aminmax()]))


def place_tensors(step: ParityStep, rows: TensorRows, device: Any = None) -> TorchRows:
    """Rows of tensors on their device, or on another; streamed through it where it has no room for them."""
    require_reach(step.grid, rows.scores)
    imbalance = ImbalanceModel.from_prior(step.group_prior, step.strata)
    real = torch.float64 if rows.scores.dtype == torch.float64 else torch.float32
    n_features = 1 if rows.scores.ndim == 1 else rows.scores.shape[1] - 1
    home, keeps_samples = settle(rows.device if device is None else device)
    shape = len(imbalance.kept) + n_features + (rows.weights is not None), rows.n_rows
    columns = empty_columns(shape, real, home, rows.device)
    for some, scores, proba in rows.blocks():
        design = design_columns(imbalance, step.grid, scores, proba)
        columns[: len(design), some].copy_(design)
    weights = None
    if rows.weights is not None:
        weights = columns[-1].copy_(rows.weights)
        columns = columns[:-1]
    constant = None if rows.scores.ndim == 1 else torch.zeros_like(columns[-1])
    return TorchRows(columns, constant, weights, len(imbalance.kept), home, keeps_samples)
