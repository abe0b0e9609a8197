"""One call on any predictions: how unequal they are between groups, and how sure that is."""

import html
from collections.abc import Hashable
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from evenhand._utils.frames import make_frame
from evenhand._utils.labels import label_text, read_groups
from evenhand._utils.scalars import make_generator
from evenhand._utils.typing import FloatArray
from evenhand.evaluation.audited import INTERVAL, Audited, Columns, audit_part, possible_columns
from evenhand.metrics._inputs import as_weights
from evenhand.metrics.attributes import Attribute, read_attributes
from evenhand.metrics.distances import Metric, find_distance
from evenhand.metrics.intervals import Intervals, check_draws
from evenhand.metrics.losses import Loss, constant_risk
from evenhand.metrics.membership import Membership
from evenhand.metrics.pairs import Pair, checked_masses, farthest_pairs
from evenhand.metrics.price import price_sentence
from evenhand.metrics.rates import SelectionRates, make_rates
from evenhand.metrics.selecting import read_selection

HEADS = {"risk": "Risk", "average": "Mean"}  # of measures that are no distances


@dataclass(frozen=True, slots=True, eq=False)
class Floor:
    """What a model at parity would show in groups of these sizes, by chance alone, (n_groups,) each."""

    mean: FloatArray
    high: FloatArray  # the quantile at the level of the audit


@dataclass(frozen=True, slots=True, eq=False)
class Possible:
    """What a distance may be whatever the probabilities of groups hide, (n_groups,) each."""

    least: FloatArray
    most: FloatArray


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
    risk: float = np.nan  # of all rows; NaN without outcomes
    baseline_risk: float = np.nan
    constant_risk: float = np.nan  # of the best prediction that is the same for everybody
    within: bool = False  # groups are `(stratum, group)`, compared with everybody of their stratum
    rates: SelectionRates | None = None  # who is selected, and impact ratios
    pairs: dict[str, Pair] = field(default_factory=dict)  # the two groups farthest apart, by distance
    n_unknown: int = 0  # rows whose group is missing: they are in none of the measures
    possible: dict[str, Possible] | None = None  # of the distances, where groups are known by probabilities

    @property
    def names(self) -> tuple[str, ...]:
        """The groups as text."""
        return tuple(label_text(group, within=self.within) for group in self.groups)

    @property
    def r2(self) -> float:
        """`1 - risk / constant_risk`: R^2 where the loss is squared; NaN without outcomes."""
        return 1.0 - self.risk / self.constant_risk if self.constant_risk > 0 else np.nan

    @property
    def verdict(self) -> str:
        """One sentence for each group, the largest KS distance first, then pairs, rates and the baseline."""
        lines = self.sentences() + self.pair_sentences()
        if self.rates is not None:
            lines += self.rates.sentences()
        if self.baseline is not None:
            lines.append(self._comparison())
        if np.isfinite(self.r2):
            lines.append(price_sentence(self.risk, self.baseline_risk, self.constant_risk))
        return "\n".join(lines)

    def sentences(self, metric: str = "ks") -> list[str]:
        """One sentence for each group by the distance that `metric` names, the largest first."""
        order = np.argsort(-self.measures[metric].estimate, kind="stable")
        return [self._sentence(int(group), metric) for group in order]

    def pair_sentences(self, metric: str = "ks") -> list[str]:
        """The distance between the two groups farthest apart by `metric`, which no epsilon bounds.

        Empty where the groups were not compared by it.
        """
        return [self.pairs[metric].sentence(metric, self.within)] if metric in self.pairs else []

    def __str__(self) -> str:
        return f"Audit of {self._counted()}\n{self.verdict}"

    __repr__ = __str__

    def _counted(self) -> str:
        unknown = f", and {self.n_unknown} of unknown group left out" if self.n_unknown else ""
        return f"{self.n_rows} rows in {len(self.groups)} groups{unknown}"

    def frame(self, backend: str | None = None) -> Any:
        """One row for each group and measure, as a data frame.

        `floor` and `floor_high` are the mean and the quantile (at `level`) of the distance under chance
        alone; `baseline` is the measure of the other predictions, NaN where there are none. Where groups
        are known by probabilities, `least` and `most` are what is possible whatever these hide.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"} or None, default=None
            The first of them that is installed by default.
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
            "n_unknown": self.n_unknown,
            "level": self.level,
            "groups": list(self.names),
            "sizes": self.sizes.tolist(),
            "shares": self.shares.tolist(),
            "measures": clean,
            "pairs": {name: [pair.distance, *pair.names(self.within)] for name, pair in self.pairs.items()},
            "risk": _plain(self.risk),
            "constant_risk": _plain(self.constant_risk),
            "r2": _plain(self.r2),
            "rates": None if self.rates is None else self.rates.to_dict(),
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
            f"<table><caption>{self._counted()}; {100 * self.level:g}&nbsp;% intervals; in brackets, what "
            f"chance alone would show</caption><thead><tr><th>Group</th><th>Rows</th>{heads}</tr></thead>"
            f"<tbody>{body}</tbody></table><p>{words}</p>"
        )

    def _html_row(self, group: int) -> str:
        cells = [f"<th>{html.escape(self.names[group])}</th><td>{self.sizes[group]:.0f}</td>"]
        for name, found in self.measures.items():
            floor = f" ({_short(self.floors[name].mean[group])})" if name in self.floors else ""
            between = f"{_short(found.low[group])} to {_short(found.high[group])}"
            if self.possible is not None and name in self.possible:
                possible = self.possible[name]
                between += f"<br>possible: {_short(possible.least[group])} to {_short(possible.most[group])}"
            cells.append(f"<td>{_short(found.estimate[group])}{floor}<br><small>{between}</small></td>")
        return f"<tr>{''.join(cells)}</tr>"

    def _rows(self) -> list[dict[str, Any]]:
        nothing = np.full(len(self.groups), np.nan)
        rows = []
        for group, label in enumerate(self.names):
            for name, found in self.measures.items():
                floor = self.floors.get(name, Floor(nothing, nothing))
                other = nothing if self.baseline is None else self.baseline.get(name, nothing)
                rows.append(
                    {
                        "group": label,
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
                if self.possible is not None:
                    found_possible = self.possible.get(name, Possible(nothing, nothing))
                    rows[-1] |= {
                        "least": float(found_possible.least[group]),
                        "most": float(found_possible.most[group]),
                    }
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
            f"{find_distance(metric).title} for group {self.names[group]} is {_short(estimate)}, "
            f"{100 * self.level:g} % interval [{_short(found.low[group])}, {_short(found.high[group])}]; a "
            f"perfectly equal model would show about {_short(floor.mean[group])} at this size: {judged}."
            f"{self._hidden(group, metric)}"
        )

    def _hidden(self, group: int, metric: str) -> str:
        """What the proxy may hide, in words."""
        if self.possible is None or metric not in self.possible:
            return ""
        found = self.possible[metric]
        return (
            f" Whatever the probabilities of groups hide, it is between {_short(found.least[group])} and "
            f"{_short(found.most[group])}."
        )

    def _comparison(self) -> str:
        assert self.baseline is not None
        now, before = self.measures["ks"].estimate.max(), self.baseline["ks"].max()
        text = f"The largest KS is {_short(now)}, and {_short(before)} for the baseline"
        if "risk" in self.measures:
            text += f"; the risk is {_short(self.risk)}, and {_short(self.baseline_risk)} for the baseline"
        return text + "."


def audit(
    predictions: ArrayLike,
    sensitive_features: Any,
    *,
    y: ArrayLike | None = None,
    baseline: ArrayLike | None = None,
    atoms: ArrayLike | None = None,
    given: Any = None,
    threshold: float | None = None,
    selected: Any = None,
    proxy: Any = None,
    sample_weight: ArrayLike | None = None,
    loss: Loss = "squared",
    parity: Metric | None = None,
    level: float = 0.95,
    n_boot: int = 200,
    random_state: int = 0,
) -> Audit:
    """Measure any predictions, group by group, and say how sure the numbers are.

    Intervals of KS are distribution-free for plain values where rows are labelled and of equal weight; for
    a pmf, whose rows vary much less than such a bound allows for, and for the other distances they come
    from a bootstrap; those of risk and mean are Student's. Each holds at `level` on its own: of twenty
    groups, one may lie outside at 95 %. `certificates.certify_held_out` bounds all groups at once.
    Distances of registered parity notions (`evenhand.parity`) are measured too. Distances are between a group
    and everybody, as an epsilon is; `pairs` has those between two groups, which fairlearn tells. `rates` has
    the share of each group that is selected and its impact ratio, in the form of New York's Local Law 144.

    Parameters
    ----------
    predictions : array of shape (n, n_atoms) or (n,)
        Probability of each atom in each row, or one value for each row.
    sensitive_features : array or data frame of shape (n,) or (n, n_columns)
        Group of each row; of several columns, every combination that is there is a group. Rows whose group is
        missing are counted, and left out. Or, where the group is not known, the probability of each, columns
        of floats that sum to one in every row: then what these may hide is measured, too
        (docs/how-to/groups.md).
    y : array of shape (n,), optional
        Observed targets; without them there is no risk.
    baseline : array of shape (n,) or (n, n_atoms), optional
        Other predictions for the same rows, to compare with.
    atoms : array of shape (n_atoms,), optional
        Value of each column; needed with a pmf.
    given : array or data frame of shape (n,) or (n, n_columns), optional
        Stratum of each row, say a legitimate factor or the true outcome: groups are then compared with
        everybody of their stratum, and called `(stratum, group)`.
    threshold, selected
        Who counts as selected in `rates`, as in `metrics.selection_rates`: by default the larger of two
        values, or those above the median.
    proxy : array or data frame of shape (n,) or (n, n_columns), optional
        With probabilities of groups, what they were made from, as in `metrics.unfairness_bounds`.
    sample_weight : array of shape (n,), optional
        Weight of each row.
    loss : {"squared", "absolute", "zero_one"} or callable, default="squared"
        As in `evenhand.metrics.risk`.
    parity : str or parity notion, optional
        A notion whose own distance is measured beside the others, such as `evenhand.Thresholds([...])`.
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
    >>> import numpy as np
    >>> from evenhand import audit
    >>> rng = np.random.default_rng(0)
    >>> groups = np.repeat(["A", "B"], [1000, 500])
    >>> found = audit(rng.normal(size=1500) + 0.3 * (groups == "B"), groups)
    >>> print(found.verdict.splitlines()[0])
    KS for group B is 0.131, 95 % interval [0.0517, 0.217]; a perfectly equal model would show about
    0.0305 at this size: an imbalance beyond what chance explains.
    """
    check_draws(n_boot, level)
    draws = make_generator(random_state)
    own = Audited.read("predictions", predictions, y, atoms, loss, parity=parity)
    n_rows = own.given.n_rows
    weights = as_weights(sample_weight, n_rows)
    other = None if baseline is None else Audited.read("baseline", baseline, y, atoms, loss, n_rows, parity)
    known, members = Membership.read_known(sensitive_features, n_rows, weights)
    weights = members.weights if isinstance(sensitive_features, Membership) else weights
    together = known, members
    own, other = own.part(known), None if other is None else other.part(known)
    cells = None if proxy is None else read_groups(proxy, n_rows, "proxy").take(known).codes
    if given is not None:
        members = members.within(read_groups(given, n_rows, "given").take(known))
    columns: Columns = {}
    for groups, rows, part in members.parts():
        rng = deepcopy(draws)  # the same draws in every stratum
        found, of_part = audit_part(own.part(rows), part, level, n_boot, rng)
        of_part |= possible_columns(own.part(rows), part, None if cells is None else cells[rows])
        if other is not None:
            estimates = other.part(rows).estimates(part)
            of_part |= {(name, "baseline"): each for name, each in estimates.items()}
        for column, values in of_part.items():
            columns.setdefault(column, np.empty(len(members.labels)))[groups] = values
    methods = {name: each.method for name, each in found.items()}
    other_risk = np.nan if other is None else other.risk(members)
    attributes = read_attributes(sensitive_features, n_rows, weights, together)
    if given is not None:
        attributes = [Attribute("", known, members)]
    chosen = read_selection(predictions, atoms, threshold, selected, weights, checked=True)
    before = None if baseline is None else chosen.same_of(baseline, atoms, checked=True)
    audited = _assemble(members, columns, level, methods, own.risk(members), other_risk)
    if y is not None:
        seen = np.asarray(y, dtype=np.float64)[known]
        constant = constant_risk(seen, members.weights, loss=loss, atoms=atoms)
        audited = replace(audited, constant_risk=constant)
    return replace(
        audited,
        n_unknown=n_rows - members.n_rows,
        rates=make_rates(chosen, before, attributes, level),
        pairs=farthest_pairs(checked_masses(own.given, members), own.distances),
    )


def _assemble(
    members: Membership,
    columns: Columns,
    level: float,
    methods: dict[str, str],
    risk: float,
    other_risk: float,
) -> Audit:
    measures = {}
    for name, method in methods.items():
        estimate, low, high = (columns[name, part] for part in INTERVAL)
        measures[name] = Intervals(name, method, level, members.labels, estimate, low, high)
    floors = [name for name, part in columns if part == "floor"]
    totals = members.totals()[:-1]
    return Audit(
        groups=members.labels,
        n_rows=members.n_rows,
        sizes=columns["rows", "size"],
        shares=totals / totals.sum(),
        level=level,
        measures=measures,
        floors={name: Floor(columns[name, "floor"], columns[name, "floor_high"]) for name in floors},
        baseline={name: each for (name, part), each in columns.items() if part == "baseline"} or None,
        risk=risk,
        baseline_risk=other_risk,
        within=members.strata is not None,
        possible={
            name: Possible(each, columns[name, "most"])
            for (name, part), each in columns.items()
            if part == "least"
        }
        or None,
    )


def _short(number: float) -> str:
    return f"{number:.3g}"


def _plain(value: Any) -> Any:
    return value if isinstance(value, str) or np.isfinite(value) else None
