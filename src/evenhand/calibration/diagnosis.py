"""How far group probabilities are from calibrated, and what that can cost in parity."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from evenhand._utils.markup import html_block
from evenhand._utils.stored import Stored
from evenhand._utils.typing import AnyArray, FloatArray, IntArray
from evenhand._utils.validation import Labels, check_prior
from evenhand.calibration.rows import KnownRows, check_known_rows, log

N_DRAWS = 200  # simulated samples behind a noise floor
LIMIT_LEVEL = 0.95  # exact probabilities stay below the limit this often
BLOCK_ENTRIES = 1 << 22  # simulated rows held at once
EXACT_ENTRIES = 1_000_000  # rows times samples up to which every row is simulated
# Of the hits of a cell, from which they are drawn as a normal: three deviations, so that hardly any sum is
# negative. A rare group is divided by its share, and may have all of its hits in one cell.
NORMAL_VARIANCE = 9.0
MOST_DOUBT = 0.05  # of rows that are nearly certain
ROWS_OF_A_VALUE = 20  # with as many rows for each distinct value on average, every value is a bin


@dataclass(frozen=True, slots=True, eq=False)
class CalibrationDiagnosis(Stored):
    """How far group probabilities are from the groups of the rows, and what that can cost in parity.

    `_floor` is the mean of a figure, and `_limit` its 95 % quantile, over samples of the same size in which
    the given probabilities are the truth. No floor has been subtracted from anything.
    See `diagnose_calibration` for what each figure means.
    """

    groups: Labels
    n_rows: int
    uses_scores: bool  # the parity costs look at the scores too
    mean_proba: FloatArray  # mean tau_s, (n_groups,) as all below
    observed_share: FloatArray  # q_s
    group_prior: FloatArray  # p_s
    calibration_error: FloatArray  # mean over bins of |mean tau_s - share of s|
    calibration_error_floor: FloatArray
    calibration_error_limit: FloatArray
    largest_error: FloatArray  # the same, in the worst bin
    largest_error_floor: FloatArray
    largest_error_limit: FloatArray
    parity_cost: FloatArray  # what bins show that a violation can exceed what tau says: a least value
    parity_cost_floor: FloatArray
    parity_cost_limit: FloatArray
    lemma_term: FloatArray  # E^1/2 |t_hat_s - t_s|^2 (Lemma 5.1)
    lemma_term_floor: FloatArray
    lemma_term_limit: FloatArray
    curve_proba: FloatArray  # mean tau_s of each bin, (n_groups, n_bins); nan where a bin is empty
    curve_share: FloatArray  # share of s among its rows
    curve_count: IntArray  # number of its rows
    log_loss: float  # mean of -log tau of the row's group, raised to 1e-6 first
    brier_score: float  # mean over rows of the sum over groups of (tau_s - 1{S = s})^2

    def faults(self) -> Iterator[str]:
        """Figures for each group."""
        arrays = [getattr(self, part.name) for part in fields(self) if part.type in (FloatArray, IntArray)]
        if not all(isinstance(array, np.ndarray) and len(array) == len(self.groups) for array in arrays):
            yield "its figures are not one for each group"

    def to_dict(self) -> dict[str, Any]:
        """Plain Python numbers, lists and strings, ready for JSON; nan becomes None."""
        plain: dict[str, Any] = {}
        for name in (field.name for field in fields(self)):
            value = getattr(self, name)
            plain[name] = _without_nan(value.tolist()) if isinstance(value, np.ndarray) else value
        plain["groups"] = [str(group) for group in self.groups]
        return plain

    def __str__(self) -> str:
        """A small table by group and one sentence."""
        return "\n".join([f"{self._title()}:", *_table(self), self._verdict()])

    def _repr_html_(self) -> str:
        """The table for notebooks, and the sentence."""
        heads = (
            "Group",
            "Mean probability",
            "Share of rows",
            "Calibration error",
            "Adds to a gap (parity cost)",
        )
        return html_block(self._title(), heads, _table_rows(self)[1:], [self._verdict()])

    def _title(self) -> str:
        return f"Calibration of the group probabilities on {self.n_rows} rows (in brackets: noise alone)"

    def _verdict(self) -> str:
        above = [
            str(group)
            for group, cost, limit in zip(self.groups, self.parity_cost, self.parity_cost_limit, strict=True)
            if cost > limit
        ]
        verdict = (
            f"More than noise for {', '.join(above)}: calibrate, or expect that violations can exceed those "
            f"certified by {self.parity_cost.max():.3g} or more."
            if above
            else "No more than calibrated probabilities would show on as many rows."
        )
        blind = "" if self.uses_scores else " The scores were not given, so errors tied to them are not seen."
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
    """Compare group probabilities with known groups, and bound what their error does to parity.

    Parity asks that any event about the prediction, say "at most y", is as likely in group s as in
    all. A policy gives it a chance h(x) in [0, 1], so the true violation and the one that the solver sees
    are

        E[h] - E[h 1{S = s}] / q_s        and        E[h] - E[h tau_s] / p_s,

    with q_s the true share and p_s the prior. They differ by `E[h d_s]`, where
    `d_s = E[tau_s / p_s - 1{S = s} / q_s | scores, tau]`, since h sees x only through these. Over all h in
    [0, 1] the largest absolute value of that is `max(E[d_s]_+, E[d_s]_-)`, or

        parity_cost_s = (E|d_s| + |E d_s|) / 2     <=     lemma_term_s = E^1/2 |d_s|^2.

    So half of E|d_s| is right when `p_s` is the mean of tau_s (the default of the post-processing), and all
    of it only when tau errs to one side. With the exact d_s, the true "cdf" and "tv" violations, and that of
    each atom, exceed the certified ones by that at most. The second is the term of group s in Lemma 5.1,
    `E^1/2 |t_hat - t|^2` (root of the sum of squares over groups), with t replaced by its mean given
    what the policy sees: the rest of tau's error costs accuracy, not parity.

    The mean that defines d_s is taken over bins: quantiles of tau_s, each split by quantiles of `scores` if
    given; values that many rows share are bins by themselves. **So the figure is a least value, not a
    bound**: bins hide what changes sign inside them (`certify_plugin` has a ceiling), and only noise adds to
    them: compare with `parity_cost_floor`, which is what exact probabilities would show. **Without the scores
    a cost near zero proves little**: a constant tau_s = q_s is calibrated, yet scores may tell groups apart.

    Parameters
    ----------
    group_proba : array of shape (n_rows, n_groups)
        Probabilities of rows that neither the classifier nor its calibrator was fitted on.
    codes : array of shape (n_rows,)
        Known group of each row, as its column of `group_proba`.
    groups : sequence of n_groups labels
    group_prior : array of shape (n_groups,)
        p, as the post-processing uses it.
    n_bins : int
        Number of quantile bins of each tau_s; equal values share one.
    scores : array of shape (n_rows,), optional
        The regressor's scores of these rows, for the parity costs.
    n_score_bins : int
        Number of bins of the scores inside each bin of tau_s.
    sample_weight : array of shape (n_rows,), optional
    seed : int
        Of the simulated samples behind the floors.

    Examples
    --------
    >>> import numpy as np
    >>> from evenhand.calibration import diagnose_calibration
    >>> rng = np.random.default_rng(0)
    >>> share = rng.uniform(size=4000)
    >>> codes = (rng.uniform(size=4000) < share).astype(int)
    >>> proba = np.column_stack([1 - share, share])
    >>> print(diagnose_calibration(proba, codes, ["a", "b"], proba.mean(axis=0), scores=share))
    Calibration of the group probabilities on 4000 rows (in brackets: noise alone):
      group  mean proba   share  calibration error      parity cost
          a      0.5034  0.4955    0.0127 (0.0156)  0.0344 (0.0344)
          b      0.4966  0.5045    0.0127 (0.0156)  0.0345 (0.0348)
    No more than calibrated probabilities would show on as many rows.
    """
    known = check_known_rows(group_proba, codes, sample_weight, scores)
    labels = tuple(groups)
    if len(labels) != known.n_groups:
        raise ValueError(f"groups has {len(labels)} labels, but group_proba {known.n_groups} columns.")
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
class _Cells:
    """The rows in order of their cell: a bin of tau_s, or a part of it by score."""

    proba: FloatArray  # tau_s, (n_rows,)
    hits: AnyArray  # whether the group is s, (n_rows,)
    weights: FloatArray  # (n_rows,), sum to one
    starts: IntArray  # first row of each cell, (n_cells,)
    members: FloatArray  # 1 where a cell belongs to a bin, (n_cells, n_bins)

    @classmethod
    def of(cls, known: KnownRows, group: int, n_bins: int, n_score_bins: int) -> "_Cells":
        """Bins by quantiles of tau_s, cut by its values where these are few, then by the scores."""
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
        """The same of the other group of two, from its lowest probabilities on."""
        starts = len(self.proba) - np.append(self.starts[1:], len(self.proba))[::-1]
        members = self.members[::-1, ::-1]
        return _Cells(1.0 - self.proba[::-1], ~self.hits[::-1], self.weights[::-1], starts, members)

    def sums(self, values: AnyArray) -> FloatArray:
        """Weighted sums over the cells of values of shape (..., n_rows)."""
        total: FloatArray = np.add.reduceat(values * self.weights, self.starts, axis=-1)
        return total

    def simulated_sums(self, rng: np.random.Generator) -> FloatArray:
        """Sums of the hits in samples where tau is the truth, (N_DRAWS, n_cells).

        Row by row in small tables. In large ones the sum of a cell is drawn at once: as a normal, or, where
        all of its rows are nearly certain, as Poisson numbers of exceptions.
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
        """Sums of hits of rows that are nearly certain: Poisson numbers of exceptions, each of a row."""
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
        """Some of the cells, with their rows."""
        sizes = np.diff(self.starts, append=len(self.proba))
        rows = np.repeat(wanted, sizes)
        starts = np.cumsum(sizes[wanted]) - sizes[wanted]
        return _Cells(self.proba[rows], self.hits[rows], self.weights[rows], starts, self.members[wanted])


def _quantile_bins(values: FloatArray, weights: FloatArray, n_bins: int) -> IntArray:
    """Bin of each row, 0..n_bins-1, about equal in weight; equal values share one."""
    _, positions = np.unique(values, return_inverse=True)
    mass = np.bincount(positions, weights)
    middle = (np.cumsum(mass) - 0.5 * mass) / mass.sum()
    bins: IntArray = np.minimum((middle * n_bins).astype(np.int64), n_bins - 1)[positions]
    return bins


def _cut(cells: IntArray, values: FloatArray, weights: FloatArray, n_bins: int) -> IntArray:
    """Each cell cut by its values, if many rows share them, or else by their quantiles; in order of both."""
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
    known: KnownRows, n_bins: int, n_score_bins: int, rng: np.random.Generator
) -> tuple[list[_Cells], list[FloatArray]]:
    """The cells of each group, and simulated sums of its hits in them.

    Of two groups one is all that the other is not, so that the cells of one do for both.
    """
    distinct = 1 if known.n_groups == 2 else known.n_groups
    cells = [_Cells.of(known, group, n_bins, n_score_bins) for group in range(distinct)]
    sums = [each.simulated_sums(rng) for each in cells]
    if known.n_groups == 2:
        cells.append(cells[0].mirrored())
        sums.append((cells[0].sums(np.ones_like(cells[0].proba)) - sums[0])[:, ::-1])
    return cells, sums


def _describe(cells: _Cells, simulated_sums: FloatArray, prior: float) -> dict[str, Any]:
    """The figures of one group with their floors and limits, and its curve."""
    observed = _figures(cells, cells.sums(cells.hits)[None], prior)
    simulated = _figures(cells, simulated_sums, prior)
    described: dict[str, Any] = {}
    for name, value in observed.items():
        described[name] = value[0]
        described[name + "_floor"] = simulated[name].mean()
        described[name + "_limit"] = np.quantile(simulated[name], LIMIT_LEVEL)
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


def _figures(cells: _Cells, hits: FloatArray, prior: float) -> dict[str, FloatArray]:
    """Errors and costs for each of several weighted sums of hits, (n_samples, n_cells)."""
    mass, proba = cells.sums(np.ones_like(cells.proba)), cells.sums(cells.proba)
    bin_mass = mass @ cells.members
    bin_errors = np.abs((proba - hits) @ cells.members)
    share = hits.sum(axis=1, keepdims=True)
    share = np.where(share > 0, share, prior)  # a simulated sample may lack the group
    excess = proba / prior - hits / share  # mass of the cell times d_s
    filled = bin_mass > 0
    return {
        "calibration_error": bin_errors.sum(axis=1),
        "largest_error": (bin_errors[:, filled] / bin_mass[filled]).max(axis=1),
        "parity_cost": 0.5 * (np.abs(excess).sum(axis=1) + np.abs(excess.sum(axis=1))),
        # the root of the sum of squares over the mass: of a cell of next to no weight a square is infinite
        "lemma_term": np.hypot.reduce(excess / np.sqrt(mass), axis=1),
    }


def _table_rows(diagnosis: CalibrationDiagnosis) -> list[tuple[str, ...]]:
    """Heads, then shares, calibration error and parity cost of each group."""
    rows: list[tuple[str, ...]] = [("group", "mean proba", "share", "calibration error", "parity cost")]
    for s, group in enumerate(diagnosis.groups):
        rows.append(
            (
                str(group),
                f"{diagnosis.mean_proba[s]:.4f}",
                f"{diagnosis.observed_share[s]:.4f}",
                f"{diagnosis.calibration_error[s]:.4f} ({diagnosis.calibration_error_floor[s]:.4f})",
                f"{diagnosis.parity_cost[s]:.4f} ({diagnosis.parity_cost_floor[s]:.4f})",
            )
        )
    return rows


def _table(diagnosis: CalibrationDiagnosis) -> list[str]:
    """The same in aligned columns."""
    rows = _table_rows(diagnosis)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  " + "  ".join(map(str.rjust, row, widths)) for row in rows]


def _without_nan(values: Any) -> Any:
    if isinstance(values, list):
        return [_without_nan(value) for value in values]
    return None if values != values else values
