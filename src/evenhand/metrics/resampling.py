"""What chance does to the distances: bootstrap draws of the masses, and groups drawn at random.

Rows are never copied: a draw counts each of them a Poisson(1) number of times (resampling with a random
total, which the distributions divide out), so that draws are products of a small matrix with the rows, or,
for labelled values, Poisson counts of the cells themselves.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from scipy.special import gammaln

from evenhand._kernels.blas import one_blas_thread
from evenhand._utils.typing import AnyArray, FloatArray
from evenhand.metrics.distances import Metric, distances_between, find_distance, pairs_of, settle_metric
from evenhand.metrics.masses import GroupMasses, Predictions
from evenhand.metrics.membership import Membership

MOST_POINTS = 4096  # draws of values see no more: of a distribution function, a step of 1/4096 may hide
MOST_ENTRIES = 1 << 24  # of the masses of draws at a time: 128 MB
MOST_DRAWN = 1000  # rows of a random group; those of larger ones are scaled, as sums of many rows are normal
POISSON_LEVELS = 1 << 16


def _poisson_table() -> FloatArray:
    """Poisson(1) numbers by a uniform one of 16 bits: ten times as fast, and off by 2^-16 at most."""
    numbers = np.arange(12)
    below = np.cumsum(np.exp(-1.0 - gammaln(numbers + 1.0)))
    return np.searchsorted(below, (np.arange(POISSON_LEVELS) + 0.5) / POISSON_LEVELS).astype(np.float64)


def poisson_ones(rng: np.random.Generator, shape: tuple[int, int], dtype: Any) -> AnyArray:
    """Poisson(1) numbers."""
    uniform = rng.integers(POISSON_LEVELS, size=shape, dtype=np.uint16)
    return _poisson_table().astype(dtype)[uniform]


def effective_sizes(members: Membership) -> tuple[FloatArray, FloatArray]:
    """Rows that count in each group, and those that count outside, by Kish's formula for weights."""
    own, rest = [], []
    for group in range(len(members.labels)):
        inside = members.column(group)
        weights = np.ones(len(inside)) if members.weights is None else members.weights
        own.append(_kish(inside))
        rest.append(_kish(weights - inside))
    return np.array(own), np.array(rest)


def _kish(weights: FloatArray) -> float:
    largest = float(weights.max(initial=0.0))
    if largest <= 0.0:
        return 0.0
    scaled = weights / largest  # only ratios count, and squares of tiny weights would vanish
    return float(scaled.sum()) ** 2 / float(scaled @ scaled)


def bootstrap_masses(
    predictions: Predictions, members: Membership, n_boot: int, rng: np.random.Generator
) -> Iterator[FloatArray]:
    """Masses of resampled rows, (n_some_draws, n_groups, n_points), until there are `n_boot` draws."""
    step = max(1, MOST_ENTRIES // (len(members.labels) * predictions.n_points))
    draw = _draw_cells if predictions.pmf is None and members.shares is None else _draw_rows
    for start in range(0, n_boot, step):
        with one_blas_thread():  # on a busy machine threads that wait for each other take far longer
            masses = draw(predictions, members, min(step, n_boot - start), rng)
        yield masses


def _draw_cells(
    predictions: Predictions, members: Membership, n_draws: int, rng: np.random.Generator
) -> FloatArray:
    """Poisson counts of the cells; where weights differ, with the right mean and variance in each."""
    sums = predictions.masses(members).masses
    if members.weights is None:
        return rng.poisson(sums, size=(n_draws, *sums.shape)).astype(np.float64)
    squared = Membership(members.labels, codes=members.codes, weights=members.weights**2)
    squares = predictions.masses(squared).masses
    unit = np.divide(squares, sums, out=np.zeros_like(sums), where=sums > 0)
    counts = np.divide(sums, unit, out=np.zeros_like(sums), where=unit > 0)
    return unit * rng.poisson(counts, size=(n_draws, *sums.shape))


def _draw_rows(
    predictions: Predictions, members: Membership, n_draws: int, rng: np.random.Generator
) -> FloatArray:
    """Sums over rows, each counted a Poisson number of times."""
    n_groups = len(members.labels)
    masses = np.zeros((n_draws, n_groups, predictions.n_points))
    for rows, block in predictions.blocks():
        times = poisson_ones(rng, (n_draws, block.shape[0]), block.dtype)
        if members.shares is not None:
            for group in range(n_groups):
                masses[:, group] += (times * members.column(group, rows).astype(block.dtype)) @ block
            continue
        if members.weights is not None:
            times *= members.weights[rows].astype(block.dtype)
        codes = members.codes[rows]
        for group in np.unique(codes):
            inside = np.flatnonzero(codes == group)
            masses[:, group] += times[:, inside] @ block[inside]
    return masses


def bootstrap_deviations(
    metrics: Sequence[Metric],
    predictions: Predictions,
    members: Membership,
    groups: GroupMasses,
    *,
    n_boot: int,
    rng: np.random.Generator,
    pairwise: bool = False,
) -> dict[str, FloatArray]:
    """How far each draw is from the sample, in each metric, (n_boot, n_contrasts).

    It is the distance between the draw's difference of two distributions and the sample's, which bounds
    how far the two distances can differ; for W2, which is no norm, the two distributions' ways add up.
    A draw in which a group has no rows is infinitely far.
    """
    n_groups = len(members.labels)
    first, second = pairs_of(n_groups) if pairwise else (list(range(n_groups)), [n_groups] * n_groups)
    sample = _with_everybody(groups.masses)
    asked = [find_distance(metric) for metric in metrics]
    found: dict[str, list[FloatArray]] = {distance.name: [] for distance in asked}
    for masses in bootstrap_masses(predictions, members, n_boot, rng):
        drawn = _with_everybody(masses)
        change = drawn - sample
        gap = change[:, first] - change[:, second]
        for distance in asked:
            if distance.norm is not None:
                deviation = distance.norm(gap, groups.points)
            else:
                moved = distances_between(distance.name, drawn, sample, groups.points)
                deviation = moved[:, first] + moved[:, second]
            empty = np.isnan(gap).any(axis=-1)
            found[distance.name].append(np.where(empty, np.inf, deviation))
    return {name: np.concatenate(parts) for name, parts in found.items()}


def _with_everybody(masses: FloatArray) -> FloatArray:
    """Distributions of the groups, and last that of all rows, (..., n_groups + 1, n_points)."""
    every = np.concatenate([masses, masses.sum(axis=-2, keepdims=True)], axis=-2)
    totals = every.sum(axis=-1, keepdims=True)
    distributions: FloatArray = np.divide(every, totals, out=np.full_like(every, np.nan), where=totals > 0)
    return distributions


def noise_floor(
    metrics: Sequence[Metric],
    predictions: Predictions,
    members: Membership,
    groups: GroupMasses,
    *,
    n_draws: int,
    rng: np.random.Generator,
) -> dict[str, FloatArray]:
    """Distances of groups of the same sizes drawn at random from all rows, (n_draws, n_groups).

    This is the permutation distribution of each norm, exact for labelled rows of equal weight up to
    `MOST_DRAWN` rows. Otherwise `MOST_DRAWN` rows or as many as the group's weights are worth are drawn,
    and the distances scaled: a permutation gives the difference `sum_i a_i pmf_i` the covariance of the
    rows times `sum_i a_i^2`, where a_i is what row i counts in the group less what it counts in all.
    `predictions` may be those of a random part of the rows, which are then drawn from.
    """
    n_rows, n_groups, n_there = members.n_rows, len(members.labels), predictions.n_rows
    everybody = groups.everybody()
    if members.weights is not None or n_there < n_rows:  # a permutation has no weights
        alone = Membership(("all",), codes=np.zeros(n_there, dtype=np.int64))
        everybody = predictions.masses(alone).everybody()
    asked = [
        find_distance(settle_metric(metric, groups.points, groups.masses.sum(axis=0))) for metric in metrics
    ]
    floor = {distance.name: np.zeros((n_draws, n_groups)) for distance in asked}
    weights = np.full(n_rows, 1.0 / n_rows) if members.weights is None else members.weights
    weights = weights / weights.sum()
    for group in range(n_groups):
        inside = members.column(group)
        spread = float(((inside / inside.sum() - weights) ** 2).sum())
        if n_there == 1 or spread * n_rows < 1e-12:  # the group is everybody
            continue
        size = round(min(max(1.0 / (spread + 1.0 / n_rows), 1.0), MOST_DRAWN, n_there - 1))
        scale = np.sqrt(spread / (1.0 / size - 1.0 / n_there))
        for draw in range(n_draws):
            rows = rng.choice(n_there, size, replace=False, shuffle=False)
            gap = predictions.some(rows) - everybody
            for distance in asked:
                assert distance.norm is not None
                floor[distance.name][draw, group] = scale * distance.norm(gap, predictions.points)
    return floor
