"""One call on any predictions: how unequal they are between groups, and how sure that is."""

import html
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from evenhand._kernels.blas import one_blas_thread
from evenhand._utils.frames import make_frame
from evenhand._utils.typing import FloatArray
from evenhand._utils.validation import check_group_proba
from evenhand.metrics._inputs import as_weights
from evenhand.metrics.distances import METRICS, find_distance, group_distances, own_distances
from evenhand.metrics.intervals import (
    Intervals,
    bootstrap_intervals,
    check_level,
    dkw_intervals,
    mean_intervals,
)
from evenhand.metrics.losses import Loss, row_losses
from evenhand.metrics.masses import GroupMasses, Membership, Predictions, membership_of
from evenhand.metrics.resampling import MOST_POINTS, effective_sizes, noise_floor

FEWEST_PER_ATOM = 5  # rows: with fewer, TV and sup count coincidences and not imbalance
HEADS = {"risk": "Risk", "average": "Mean"}  # of measures that are no distances


@dataclass(frozen=True, slots=True, eq=False)
class Floor:
    """What a model at parity would show in groups of these sizes, by chance alone, (n_groups,) each."""

    mean: FloatArray
    high: FloatArray  # the quantile at the level of the audit


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Audit:
    """Risk, mean and distances from parity of some predictions, group by group.

    See `audit`, which makes it. Printed, it is the verdict in words; `frame()` holds the numbers.
    """

    groups: tuple[Hashable, ...]
    n_rows: int
    sizes: FloatArray  # rows that count in each group, by Kish's formula where they are weighted
    shares: FloatArray  # of each group in the weight of all rows
    level: float
    measures: dict[str, Intervals]  # "risk" (with y), "average", and distances to all rows by their names
    floors: dict[str, Floor]  # of the distances
    baseline: dict[str, FloatArray] | None = None  # the same measures of other predictions, (n_groups,)

    @property
    def verdict(self) -> str:
        """One sentence for each group, the largest KS distance first, and what changed from the baseline."""
        lines = self.sentences()
        if self.baseline is not None:
            lines.append(self._comparison())
        return "\n".join(lines)

    def sentences(self, metric: str = "ks") -> list[str]:
        """One sentence for each group by any of the distances, the largest first."""
        order = np.argsort(-self.measures[metric].estimate, kind="stable")
        return [self._sentence(int(group), metric) for group in order]

    def __str__(self) -> str:
        return f"Audit of {self.n_rows} rows in {len(self.groups)} groups\n{self.verdict}"

    __repr__ = __str__

    def frame(self, backend: str | None = None) -> Any:
        """One row for each group and measure, as a data frame.

        `floor` and `floor_high` are the mean and the quantile (at `level`) of the distance under chance
        alone; `baseline` is the measure of the other predictions, NaN where there are none.
        """
        rows = self._rows()
        return make_frame({name: [row[name] for row in rows] for name in rows[0]}, backend)

    def to_dict(self) -> dict[str, Any]:
        """Plain Python numbers, lists and strings, ready for JSON; None for what is not finite."""
        clean = [
            {name: _plain(value) for name, value in row.items() if name not in ("rows", "share")}
            for row in self._rows()
        ]
        return {
            "n_rows": self.n_rows,
            "level": self.level,
            "groups": [str(group) for group in self.groups],
            "sizes": self.sizes.tolist(),
            "shares": self.shares.tolist(),
            "measures": clean,
            "verdict": self.verdict,
        }

    def _repr_html_(self) -> str:
        """A table of groups by measures, with intervals and floors, and the verdict below."""
        heads = "".join(
            f"<th>{html.escape(HEADS.get(name) or find_distance(name).title)}</th>" for name in self.measures
        )
        body = "".join(self._html_row(group) for group in range(len(self.groups)))
        words = "<br>".join(html.escape(line) for line in self.verdict.split("\n"))
        return (
            f"<table><caption>{self.n_rows} rows; {100 * self.level:g}&nbsp;% intervals; in brackets, what "
            f"chance alone would show</caption><thead><tr><th>Group</th><th>Rows</th>{heads}</tr></thead>"
            f"<tbody>{body}</tbody></table><p>{words}</p>"
        )

    def _html_row(self, group: int) -> str:
        cells = [f"<th>{html.escape(str(self.groups[group]))}</th><td>{self.sizes[group]:.0f}</td>"]
        for name, found in self.measures.items():
            floor = f" ({_short(self.floors[name].mean[group])})" if name in self.floors else ""
            between = f"{_short(found.low[group])} to {_short(found.high[group])}"
            cells.append(f"<td>{_short(found.estimate[group])}{floor}<br><small>{between}</small></td>")
        return f"<tr>{''.join(cells)}</tr>"

    def _rows(self) -> list[dict[str, Any]]:
        nothing = np.full(len(self.groups), np.nan)
        rows = []
        for group, label in enumerate(self.groups):
            for name, found in self.measures.items():
                floor = self.floors.get(name, Floor(nothing, nothing))
                other = nothing if self.baseline is None else self.baseline.get(name, nothing)
                rows.append(
                    {
                        "group": str(label),
                        "rows": float(self.sizes[group]),
                        "share": float(self.shares[group]),
                        "measure": name,
                        "estimate": float(found.estimate[group]),
                        "low": float(found.low[group]),
                        "high": float(found.high[group]),
                        "method": found.method,
                        "floor": float(floor.mean[group]),
                        "floor_high": float(floor.high[group]),
                        "baseline": float(other[group]),
                    }
                )
        return rows

    def _sentence(self, group: int, metric: str) -> str:
        found, floor = self.measures[metric], self.floors[metric]
        estimate = found.estimate[group]
        if found.low[group] > 0:
            judged = "an imbalance beyond what chance explains"
        elif estimate > floor.high[group]:
            judged = "more than chance usually shows, but the interval reaches parity: more rows would tell"
        else:
            judged = "chance alone can show as much"
        return (
            f"{find_distance(metric).title} for group {self.groups[group]} is {_short(estimate)}, "
            f"{100 * self.level:g} % interval [{_short(found.low[group])}, {_short(found.high[group])}]; a "
            f"perfectly equal model would show about {_short(floor.mean[group])} at this size: {judged}."
        )

    def _comparison(self) -> str:
        assert self.baseline is not None
        now, before = self.measures["ks"].estimate.max(), self.baseline["ks"].max()
        text = f"The largest KS is {_short(now)}, and {_short(before)} for the baseline"
        if "risk" in self.measures:
            shares = self.shares / self.shares.sum()
            own, other = shares @ self.measures["risk"].estimate, shares @ self.baseline["risk"]
            text += f"; the risk is {_short(own)}, and {_short(other)} for the baseline"
        return text + "."


def audit(
    predictions: ArrayLike,
    sensitive_features: Any,
    *,
    y: ArrayLike | None = None,
    baseline: ArrayLike | None = None,
    atoms: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    loss: Loss = "squared",
    level: float = 0.95,
    n_boot: int = 200,
    random_state: int = 0,
) -> Audit:
    """Measure any predictions, group by group, and say how sure the numbers are.

    Intervals of KS are distribution-free for plain values where rows are labelled and of equal weight; for
    a pmf, whose rows vary much less than such a bound allows for, and for the other distances they come
    from a bootstrap; those of risk and mean are Student's. Each holds at `level` on its own: of twenty
    groups, one may lie outside at 95 %. `certificates.certify_held_out` bounds all groups at once.
    Distances of registered parity notions (`evenhand.parity`) are measured too.

    Parameters
    ----------
    predictions : array of shape (n, n_atoms) or (n,)
        Probability of each atom in each row, or one value for each row.
    sensitive_features : array of shape (n,) or (n, n_groups)
        Group of each row; or, where it is not known, the probability of each group, whose errors of
        calibration the audit cannot see.
    y : array of shape (n,), optional
        Observed targets; without them there is no risk.
    baseline : array of shape (n,) or (n, n_atoms), optional
        Other predictions for the same rows, to compare with.
    atoms : array of shape (n_atoms,), optional
        Value of each column; needed with a pmf.
    sample_weight : array of shape (n,), optional
        Weight of each row.
    loss : {"squared", "absolute", "zero_one"} or callable, default="squared"
        As in `evenhand.metrics.risk`.
    level : float, default=0.95
        Of the intervals, and of the upper quantile of the noise floor.
    n_boot : int, default=200
        Bootstrap draws, and draws of random groups for the noise floor.
    random_state : int, default=0

    Returns
    -------
    Audit

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> groups = np.repeat(["A", "B"], [1000, 500])
    >>> found = audit(rng.normal(size=1500) + 0.3 * (groups == "B"), groups)
    >>> print(found.verdict.splitlines()[0])
    KS for group B is 0.131, 95 % interval [0.0517, 0.217]; a perfectly equal model would show about
    0.0305 at this size: an imbalance beyond what chance explains.
    """
    check_level(level, n_boot)
    read = Predictions.read(predictions, atoms)
    if read.points is None:
        raise ValueError("audit needs the atoms of a pmf: pass atoms=, the value of each of its columns.")
    members = _membership(sensitive_features, read.n_rows, as_weights(sample_weight, read.n_rows))
    groups = read.masses(members)
    names = _distances_for(read)
    rng = np.random.default_rng(random_state)
    measures: dict[str, Intervals] = {}
    if y is not None:
        floor = 0.0 if isinstance(loss, str) else -np.inf
        measures["risk"] = mean_intervals(
            "risk", row_losses(y, predictions, atoms, loss), members, level, floor
        )
    measures["average"] = mean_intervals("average", _row_means(read), members, level)
    measures |= bootstrap_intervals(names, read, members, groups, level=level, n_boot=n_boot, rng=rng)
    if members.counts_rows and read.pmf is None:
        measures["ks"] = dkw_intervals(read, members, groups, level)
    floors = _floors(names, read, members, groups, level, n_boot, rng)
    other = None if baseline is None else _baseline(baseline, members, y, atoms, loss)
    totals = groups.masses.sum(axis=1)
    sizes, _ = effective_sizes(members)
    shares = totals / totals.sum()
    return Audit(groups.labels, read.n_rows, sizes, shares, level, measures, floors, other)


def _membership(sensitive_features: Any, n_rows: int, weights: FloatArray | None) -> Membership:
    """Labels, or probabilities where there is a column for each group."""
    shape = getattr(sensitive_features, "shape", None) or np.shape(sensitive_features)
    if len(shape) == 2 and shape[1] > 1:
        shares, labels = check_group_proba(sensitive_features, n_rows)
        return Membership(labels, shares=shares, weights=weights)
    labels_only = np.asarray(sensitive_features)
    return membership_of(labels_only[:, 0] if len(shape) == 2 else labels_only, n_rows, weights)


def _distances_for(predictions: Predictions) -> tuple[str, ...]:
    """All distances; of values with hardly any ties, those that do not count coincidences."""
    tied = predictions.pmf is not None or predictions.n_points * FEWEST_PER_ATOM <= predictions.n_rows
    norms = (find_distance(name) for name in (*METRICS, *own_distances()))
    return tuple(each.name for each in norms if each.norm is not None and (tied or not each.needs_ties))


def _row_means(predictions: Predictions) -> FloatArray:
    """Expected prediction of each row, (n_rows,)."""
    assert predictions.points is not None
    if predictions.places is not None:
        return predictions.points[predictions.places]
    means = np.empty(predictions.n_rows)
    with one_blas_thread():
        for rows, block in predictions.blocks():
            means[rows] = block @ predictions.points
    return means


def _floors(
    names: tuple[str, ...],
    predictions: Predictions,
    members: Membership,
    groups: GroupMasses,
    level: float,
    n_draws: int,
    rng: np.random.Generator,
) -> dict[str, Floor]:
    merged = predictions.merged(MOST_POINTS)
    centre = groups if merged is predictions else merged.masses(members)
    drawn = noise_floor(names, merged, members, centre, n_draws=n_draws, rng=rng)
    return {
        name: Floor(draws.mean(axis=0), np.quantile(draws, level, axis=0)) for name, draws in drawn.items()
    }


def _baseline(
    baseline: ArrayLike, members: Membership, y: ArrayLike | None, atoms: ArrayLike | None, loss: Loss
) -> dict[str, FloatArray]:
    """Measures of other predictions for the same rows, without intervals."""
    read = Predictions.read(baseline, atoms)
    n_rows = len(members.codes if members.codes is not None else np.asarray(members.shares))
    if read.n_rows != n_rows:
        raise ValueError(f"baseline needs one prediction per row: got {read.n_rows} for {n_rows} rows.")
    groups = read.masses(members)
    found = {name: group_distances(groups, name) for name in _distances_for(read)}
    found["average"] = mean_intervals("average", _row_means(read), members, 0.95).estimate
    if y is not None:
        losses = row_losses(y, baseline, atoms, loss)
        found["risk"] = mean_intervals("risk", losses, members, 0.95).estimate
    return found


def _short(number: float) -> str:
    return f"{number:.3g}"


def _plain(value: Any) -> Any:
    return value if isinstance(value, str) or np.isfinite(value) else None
