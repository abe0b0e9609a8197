"""Calibration errors of group probabilities, and their effect on parity."""

from collections.abc import Hashable, Iterator, Sequence, Sized
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from evenhand._utils.markup import html_block
from evenhand._utils.stored import Stored
from evenhand._utils.typing import AnyArray, FloatArray, IntArray
from evenhand._utils.validation import Labels, check_group_proba, check_prior, check_scores, check_weights
from evenhand.calibration.joint import log

N_DRAWS = 200  # simulated samples behind a noise floor
LIMIT_LEVEL = 0.95  # probability that exact group probabilities stay below the limit
BLOCK_ENTRIES = 1 << 22  # simulated rows in memory at once
EXACT_ENTRIES = 1_000_000  # rows times samples up to which every row is simulated
# Minimum variance of the hits of a cell for a normal approximation. With three standard deviations hardly any
# sum is negative. The hits of a rare group are divided by its small share, and can all be in one cell.
NORMAL_VARIANCE = 9.0
MOST_DOUBT = 0.05  # maximum probability of an exception in rows that are nearly certain
ROWS_OF_A_VALUE = 20  # mean number of rows per distinct value from which every value is a bin


@dataclass(frozen=True, slots=True, eq=False)
class CalibrationDiagnosis(Stored):
    """Calibration of group probabilities, and the effect of calibration errors on parity.

    `parity_cost_floor` and `parity_cost_limit` are the mean and the 95% quantile of `parity_cost` over
    simulated samples of the same size in which the given probabilities are correct. The floor has not been
    subtracted from `parity_cost`. `diagnose_calibration` defines the figures.
    """

    groups: Labels
    n_rows: int
    uses_scores: bool  # the parity costs also depend on the scores
    mean_proba: FloatArray  # mean tau_s, (n_groups,) like the next arrays
    observed_share: FloatArray  # share of group s among the rows, q_s
    group_prior: FloatArray  # prior of group s, p_s
    calibration_error: FloatArray  # mean over bins of |mean tau_s - share of s|
    largest_error: FloatArray  # the same quantity in the worst bin
    parity_cost: FloatArray  # lower estimate of how much the true violation can exceed the certified one
    parity_cost_floor: FloatArray
    parity_cost_limit: FloatArray
    lemma_term: FloatArray  # E^1/2 |t_hat_s - t_s|^2 (Lemma 5.1)
    curve_proba: FloatArray  # mean tau_s in each bin, (n_groups, n_bins); nan if a bin is empty
    curve_share: FloatArray  # share of group s in each bin, (n_groups, n_bins)
    curve_count: IntArray  # number of rows in each bin, (n_groups, n_bins)
    log_loss: float  # mean of -log tau of the row's group, with tau at least 1e-6
    brier_score: float  # mean over rows of the sum over groups of (tau_s - 1{S = s})^2

    def faults(self) -> Iterator[str]:
        """Check that there is one figure for each group."""
        arrays = [getattr(self, part.name) for part in fields(self) if part.type in (FloatArray, IntArray)]
        if not all(isinstance(array, np.ndarray) and len(array) == len(self.groups) for array in arrays):
            yield "its figures are not one for each group"

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python numbers, lists and strings, ready for JSON; nan becomes None."""
        plain: dict[str, Any] = {}
        for name in (field.name for field in fields(self)):
            value = getattr(self, name)
            plain[name] = _without_nan(value.tolist()) if isinstance(value, np.ndarray) else value
        plain["groups"] = [str(group) for group in self.groups]
        return plain

    def __str__(self) -> str:
        """Return a table by group and a conclusion."""
        return "\n".join([f"{self._title()}:", *_table(self), self._verdict()])

    def _repr_html_(self) -> str:
        """Return the table and the conclusion for notebooks."""
        heads = (
            "Group",
            "Mean probability",
            "Share of rows",
            "Calibration error",
            "Effect on the gap (parity cost)",
        )
        return html_block(self._title(), heads, _table_rows(self)[1:], [self._verdict()])

    def _title(self) -> str:
        return (
            f"Calibration of the group probabilities on {self.n_rows:,} rows (in brackets: expected from "
            "sampling noise alone)"
        )

    def _verdict(self) -> str:
        above = [
            str(group)
            for group, cost, limit in zip(self.groups, self.parity_cost, self.parity_cost_limit, strict=True)
            if cost > limit
        ]
        verdict = (
            f"Miscalibrated beyond sampling noise: {', '.join(above)}. True violations can exceed the "
            f"certified ones by {self.parity_cost.max():.3g} or more: recalibrate the group probabilities."
            if above
            else "No miscalibration beyond sampling noise."
        )
        blind = "" if self.uses_scores else " Errors that depend on the scores are not detected: pass scores."
        return verdict + blind


def diagnose_calibration(
    group_proba: ArrayLike,
    codes: ArrayLike,
    groups: Sequence[Hashable],
    group_prior: ArrayLike,
    n_bins: int = 10,
    *,
    scores: ArrayLike | None = None,
    n_score_bins: int = 5,
    sample_weight: ArrayLike | None = None,
    seed: int = 0,
) -> CalibrationDiagnosis:
    """Compare group probabilities with known groups, and estimate how their errors affect parity.

    Parameters
    ----------
    group_proba : array of shape (n_rows, n_groups)
        Group probabilities of rows on which neither the classifier nor its recalibration was fitted.
    codes : array of shape (n_rows,)
        Known group of each row, as the position of its column in `group_proba`.
    groups : sequence of n_groups labels
        Labels of the columns of `group_proba`.
    group_prior : array of shape (n_groups,)
        Prior p of the groups, as used in post-processing.
    n_bins : int, default=10
        Number of quantile bins of each tau_s. Equal values are in the same bin.
    scores : array of shape (n_rows,), default=None
        Scores of the rows, for the parity costs. Without them the parity costs miss errors that depend on
        the scores.
    n_score_bins : int, default=5
        Number of bins of the scores within each bin of tau_s.
    sample_weight : array of shape (n_rows,), default=None
        Weights of the rows. None: all rows have the same weight.
    seed : int, default=0
        Seed of the simulated samples for the floors and limits.

    Returns
    -------
    diagnosis : CalibrationDiagnosis
        Calibration errors and parity costs by group.

    Notes
    -----
    Parity requires that any event about the prediction, such as "at most y", is as likely in group s as in
    the population. A policy gives this event a probability h(x) in [0, 1]. The true violation and the
    violation in the solver are

        E[h] - E[h 1{S = s}] / q_s        and        E[h] - E[h tau_s] / p_s,

    where q_s is the true share and p_s the prior. They differ by `E[h d_s]`, where
    `d_s = E[tau_s / p_s - 1{S = s} / q_s | scores, tau]`, because h depends on x only through scores and tau.
    The largest absolute difference over all h in [0, 1] is `max(E[d_s]_+, E[d_s]_-)`, which equals

        parity_cost_s = (E|d_s| + |E d_s|) / 2     <=     lemma_term_s = E^1/2 |d_s|^2.

    If `p_s` is the mean of tau_s (the default in post-processing), the cost is half of `E|d_s|`. It is all of
    `E|d_s|` only if tau errs in one direction. With the exact d_s, the true "cdf" and "tv" violations, and
    that of each atom, exceed the certified ones by at most the parity cost. The second figure is the term of
    group s in Lemma 5.1, `E^1/2 |t_hat - t|^2` (root of the sum of squares over groups), where t is replaced
    by its mean given scores and tau. The remaining error of tau costs accuracy, not parity.

    The mean in d_s is estimated in bins: quantiles of tau_s, each split by quantiles of `scores` if given.
    Values that many rows share are separate bins. **So the parity cost is a lower estimate, not a bound**:
    errors that change sign within a bin cancel (`certify_plugin` has an upper bound), and sampling noise
    increases it. Compare it with `parity_cost_floor`, its mean for exact probabilities. **Without the scores
    a cost near zero is weak evidence**: a constant tau_s = q_s is calibrated, but the scores may still
    differ between groups.

    Examples
    --------
    >>> import numpy as np
    >>> from evenhand.calibration import diagnose_calibration
    >>> rng = np.random.default_rng(0)
    >>> share = rng.uniform(size=4000)
    >>> codes = (rng.uniform(size=4000) < share).astype(int)
    >>> proba = np.column_stack([1 - share, share])
    >>> print(diagnose_calibration(proba, codes, ["a", "b"], proba.mean(axis=0), scores=share))
    Calibration of the group probabilities on 4,000 rows (in brackets: expected from sampling noise alone):
      group  mean proba   share  calibration error      parity cost
          a      0.5034  0.4955             0.0127  0.0344 (0.0344)
          b      0.4966  0.5045             0.0127  0.0345 (0.0348)
    No miscalibration beyond sampling noise.
    """
    known = _check_known_rows(group_proba, codes, sample_weight, scores)
    labels = tuple(groups)
    if len(labels) != known.n_groups:
        raise ValueError(f"groups has {len(labels)} labels, but group_proba has {known.n_groups} columns.")
    prior = check_prior(group_prior, labels)
    if n_bins < 1 or n_score_bins < 1:
        raise ValueError(f"n_bins and n_score_bins must be at least 1: got {n_bins} and {n_score_bins}.")
    rng = np.random.default_rng(seed)
    by_group: dict[str, list[Any]] = {}
    for cells, simulated, share in zip(
        *_cells_of_groups(known, n_bins, n_score_bins, rng), prior, strict=True
    ):
        for name, value in _describe(cells, simulated, float(share)).items():
            by_group.setdefault(name, []).append(value)
    hits = known.codes[:, None] == np.arange(len(labels))
    own = known.proba[np.arange(known.n_rows), known.codes]
    return CalibrationDiagnosis(
        groups=labels,
        n_rows=known.n_rows,
        uses_scores=scores is not None,
        mean_proba=known.weights @ known.proba,
        observed_share=known.shares(),
        group_prior=prior,
        log_loss=-float(known.weights @ log(own)),
        brier_score=float(known.weights @ ((known.proba - hits) ** 2).sum(axis=1)),
        **{name: np.array(values) for name, values in by_group.items()},
    )


@dataclass(frozen=True, slots=True, eq=False)
class _KnownRows:
    """Rows of positive weight with known group; every group has rows."""

    proba: FloatArray  # (n_rows, n_groups)
    codes: IntArray  # column of each row's group, (n_rows,)
    weights: FloatArray  # (n_rows,), sum to one
    scores: FloatArray | None = None  # (n_rows,)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.codes)

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return int(self.proba.shape[1])

    def shares(self) -> FloatArray:
        """Return the weighted share of each group."""
        shares: FloatArray = np.bincount(self.codes, self.weights, minlength=self.n_groups).astype(np.float64)
        return shares


@dataclass(frozen=True, slots=True, eq=False)
class _Cells:
    """The rows sorted by cell; a cell is a bin of tau_s, or a part of a bin by score."""

    proba: FloatArray  # tau_s, (n_rows,)
    hits: AnyArray  # whether the group is s, (n_rows,)
    weights: FloatArray  # (n_rows,), sum to one
    starts: IntArray  # first row of each cell, (n_cells,)
    members: FloatArray  # 1 where a cell belongs to a bin, (n_cells, n_bins)

    @classmethod
    def of(cls, known: _KnownRows, group: int, n_bins: int, n_score_bins: int) -> "_Cells":
        """Make bins by quantiles of tau_s, split by its values if these are few, then by the scores."""
        proba = known.proba[:, group]
        bins = _quantile_bins(proba, known.weights, n_bins)
        cells = _cut(bins, proba, known.weights, 1)
        if known.scores is not None:
            cells = _cut(cells, known.scores, known.weights, n_score_bins)
        order = np.argsort(cells, kind="stable")
        _, starts = np.unique(cells[order], return_index=True)
        members = (bins[order][starts][:, None] == np.arange(n_bins)).astype(np.float64)
        return cls(proba[order], known.codes[order] == group, known.weights[order], starts, members)

    def mirrored(self) -> "_Cells":
        """Return the cells of the other of two groups, sorted by its probabilities."""
        starts = len(self.proba) - np.append(self.starts[1:], len(self.proba))[::-1]
        members = self.members[::-1, ::-1]
        return _Cells(1.0 - self.proba[::-1], ~self.hits[::-1], self.weights[::-1], starts, members)

    def sums(self, values: AnyArray) -> FloatArray:
        """Return the weighted sums over each cell of values of shape (..., n_rows)."""
        total: FloatArray = np.add.reduceat(values * self.weights, self.starts, axis=-1)
        return total

    def simulated_sums(self, rng: np.random.Generator) -> FloatArray:
        """Return the sums of the hits in simulated samples where tau is correct, (N_DRAWS, n_cells).

        Small tables are simulated row by row. In large tables the sum of a cell is drawn at once: from a
        normal distribution or, if all rows of the cell are nearly certain, as Poisson counts of exceptions.
        """
        if len(self.proba) * N_DRAWS <= EXACT_ENTRIES:
            return self._draw_rows(rng)
        doubt = np.minimum(self.proba, 1.0 - self.proba)
        variance = self.sums(self.weights * doubt * (1.0 - doubt))
        noise = rng.standard_normal((N_DRAWS, len(self.starts)))
        sums: FloatArray = self.sums(self.proba) + np.sqrt(variance) * noise
        thin = variance < NORMAL_VARIANCE * np.maximum.reduceat(self.weights, self.starts) ** 2
        certain = np.maximum.reduceat(doubt, self.starts) <= MOST_DOUBT
        if (thin & certain).any():
            sums[:, thin & certain] = self._some(thin & certain)._draw_exceptions(rng)
        if (thin & ~certain).any():
            sums[:, thin & ~certain] = self._some(thin & ~certain)._draw_rows(rng)
        return sums

    def _draw_exceptions(self, rng: np.random.Generator) -> FloatArray:
        """Draw the sums of hits of nearly certain rows, from Poisson counts of exceptions."""
        likely = self.proba > 0.5
        chances = np.cumsum(np.minimum(self.proba, 1.0 - self.proba))
        number = rng.poisson(N_DRAWS * chances[-1])
        rows = np.searchsorted(chances, chances[-1] * rng.random(number), side="right")
        rows = np.minimum(rows, len(chances) - 1)
        cells = np.searchsorted(self.starts, rows, side="right") - 1
        changes = np.where(likely, -self.weights, self.weights)[rows]
        sums = np.tile(self.sums(likely), (N_DRAWS, 1))
        np.add.at(sums, (rng.integers(N_DRAWS, size=number), cells), changes)
        return sums

    def _draw_rows(self, rng: np.random.Generator) -> FloatArray:
        size = max(1, BLOCK_ENTRIES // len(self.proba))
        blocks = [min(size, N_DRAWS - start) for start in range(0, N_DRAWS, size)]
        draws = (rng.random((n, len(self.proba)), dtype=np.float32) for n in blocks)
        return np.concatenate([self.sums(block < self.proba) for block in draws])

    def _some(self, wanted: AnyArray) -> "_Cells":
        """Return some of the cells, with their rows."""
        sizes = np.diff(self.starts, append=len(self.proba))
        rows = np.repeat(wanted, sizes)
        starts = np.cumsum(sizes[wanted]) - sizes[wanted]
        return _Cells(self.proba[rows], self.hits[rows], self.weights[rows], starts, self.members[wanted])


def _quantile_bins(values: FloatArray, weights: FloatArray, n_bins: int) -> IntArray:
    """Return the bin of each row, 0..n_bins-1, of about equal weight; equal values share a bin."""
    _, positions = np.unique(values, return_inverse=True)
    mass = np.bincount(positions, weights)
    middle = (np.cumsum(mass) - 0.5 * mass) / mass.sum()
    bins: IntArray = np.minimum((middle * n_bins).astype(np.int64), n_bins - 1)[positions]
    return bins


def _cut(cells: IntArray, values: FloatArray, weights: FloatArray, n_bins: int) -> IntArray:
    """Split each cell by its values if many rows share them, otherwise by their quantiles."""
    finer = np.empty_like(cells)
    n_cells = 0
    for number in np.unique(cells):
        rows = cells == number
        distinct, places = np.unique(values[rows], return_inverse=True)
        if len(distinct) > max(n_bins, len(places) // ROWS_OF_A_VALUE):
            places = _quantile_bins(values[rows], weights[rows], n_bins)
        finer[rows] = n_cells + places
        n_cells += int(places.max()) + 1
    return finer


def _cells_of_groups(
    known: _KnownRows, n_bins: int, n_score_bins: int, rng: np.random.Generator
) -> tuple[list[_Cells], list[FloatArray]]:
    """Return the cells of each group, and simulated sums of its hits in them.

    With two groups, one is the complement of the other, so the cells of one are enough.
    """
    distinct = 1 if known.n_groups == 2 else known.n_groups
    cells = [_Cells.of(known, group, n_bins, n_score_bins) for group in range(distinct)]
    sums = [each.simulated_sums(rng) for each in cells]
    if known.n_groups == 2:
        cells.append(cells[0].mirrored())
        sums.append((cells[0].sums(np.ones_like(cells[0].proba)) - sums[0])[:, ::-1])
    return cells, sums


def _describe(cells: _Cells, simulated_sums: FloatArray, prior: float) -> dict[str, Any]:
    """Return the figures of one group with floor and limit, and its calibration curve."""
    described: dict[str, Any] = _figures(cells, cells.sums(cells.hits), prior)
    simulated = _parity_cost(_excess(cells, simulated_sums, prior))
    described["parity_cost_floor"] = simulated.mean()
    described["parity_cost_limit"] = np.quantile(simulated, LIMIT_LEVEL)
    mass, proba, hits = (
        cells.sums(v) @ cells.members for v in (np.ones_like(cells.proba), cells.proba, cells.hits)
    )
    mass = np.where(mass > 0, mass, np.nan)
    rows = np.diff(cells.starts, append=len(cells.proba)) @ cells.members
    return described | {
        "curve_proba": proba / mass,
        "curve_share": hits / mass,
        "curve_count": rows.astype(np.int64),
    }


def _figures(cells: _Cells, hits: FloatArray, prior: float) -> dict[str, float]:
    """Return calibration errors and parity cost for the weighted sums of hits, (n_cells,)."""
    mass, proba = cells.sums(np.ones_like(cells.proba)), cells.sums(cells.proba)
    bin_mass = mass @ cells.members
    bin_errors = np.abs((proba - hits) @ cells.members)
    excess = _excess(cells, hits, prior)
    filled = bin_mass > 0
    return {
        "calibration_error": bin_errors.sum(),
        "largest_error": (bin_errors[filled] / bin_mass[filled]).max(),
        "parity_cost": _parity_cost(excess),
        # root of the sum of squares over the mass; hypot avoids overflow in cells of tiny weight
        "lemma_term": np.hypot.reduce(excess / np.sqrt(mass)),
    }


def _excess(cells: _Cells, hits: FloatArray, prior: float) -> FloatArray:
    """Return the mass of each cell times d_s, for weighted sums of hits (..., n_cells)."""
    share = hits.sum(axis=-1, keepdims=True)
    share = np.where(share > 0, share, prior)  # a simulated sample may lack the group
    excess: FloatArray = cells.sums(cells.proba) / prior - hits / share
    return excess


def _parity_cost(excess: FloatArray) -> Any:
    """Return `(E|d_s| + |E d_s|) / 2` over the cells."""
    return 0.5 * (np.abs(excess).sum(axis=-1) + np.abs(excess.sum(axis=-1)))


def _table_rows(diagnosis: CalibrationDiagnosis) -> list[tuple[str, ...]]:
    """Return the table header, and shares, calibration error and parity cost of each group."""
    rows: list[tuple[str, ...]] = [("group", "mean proba", "share", "calibration error", "parity cost")]
    for s, group in enumerate(diagnosis.groups):
        rows.append(
            (
                str(group),
                f"{diagnosis.mean_proba[s]:.4f}",
                f"{diagnosis.observed_share[s]:.4f}",
                f"{diagnosis.calibration_error[s]:.4f}",
                f"{diagnosis.parity_cost[s]:.4f} ({diagnosis.parity_cost_floor[s]:.4f})",
            )
        )
    return rows


def _table(diagnosis: CalibrationDiagnosis) -> list[str]:
    """Return the table as lines with aligned columns."""
    rows = _table_rows(diagnosis)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  " + "  ".join(map(str.rjust, row, widths)) for row in rows]


def _without_nan(values: Any) -> Any:
    if isinstance(values, list):
        return [_without_nan(value) for value in values]
    return None if values != values else values


def _check_known_rows(
    group_proba: ArrayLike,
    codes: ArrayLike,
    sample_weight: ArrayLike | None = None,
    scores: ArrayLike | None = None,
) -> _KnownRows:
    """Check the rows and return them as arrays, without rows of weight zero."""
    proba = _as_proba(group_proba)
    groups_of_rows = _check_codes(codes, proba)
    weights = np.full(len(proba), 1.0 / len(proba))
    if sample_weight is not None:
        _require_length(np.asarray(sample_weight), "sample_weight", proba)
        weights = check_weights(sample_weight, len(proba))
    checked_scores = None
    if scores is not None:
        checked_scores = check_scores(scores)
        _require_length(checked_scores, "scores", proba)
    used = weights > 0
    if not used.all():
        proba, groups_of_rows, weights = proba[used], groups_of_rows[used], weights[used]
        checked_scores = None if checked_scores is None else checked_scores[used]
    counts = np.bincount(groups_of_rows, minlength=proba.shape[1])
    if counts.min() == 0:
        raise ValueError(
            f"No row has the group of column {int(counts.argmin())} of group_proba (counts: "
            f"{', '.join(map(str, counts))}). Calibration needs rows of every group."
        )
    return _KnownRows(proba, groups_of_rows, weights, checked_scores)


def _as_proba(group_proba: ArrayLike) -> FloatArray:
    """Check the probabilities and return them as float64, with rows that sum to one."""
    n_rows = len(group_proba) if isinstance(group_proba, Sized) else 0
    if n_rows == 0:
        raise ValueError("group_proba is empty: pass at least one row.")
    return check_group_proba(group_proba, n_rows)[0]


def _check_codes(codes: ArrayLike, proba: FloatArray) -> IntArray:
    array = np.asarray(codes)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ValueError(
            f"codes must be integers of shape (n_rows,), the column of each row's group: got "
            f"{array.dtype} of shape {array.shape}."
        )
    _require_length(array, "codes", proba)
    if array.min() < 0 or array.max() >= proba.shape[1]:
        raise ValueError(
            f"codes must lie in 0..{proba.shape[1] - 1}, the columns of group_proba: got "
            f"{array.min()} to {array.max()}."
        )
    return array.astype(np.int64)


def _require_length(values: AnyArray, name: str, proba: FloatArray) -> None:
    if values.shape[:1] != (len(proba),):
        raise ValueError(f"{name} has shape {values.shape}, but group_proba has {len(proba)} rows.")
