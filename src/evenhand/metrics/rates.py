"""How often each group is selected, or scored above a threshold, and its rate over the highest one."""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from evenhand._utils.frames import make_frame
from evenhand._utils.labels import label_text
from evenhand._utils.markup import html_block
from evenhand._utils.scalars import as_number
from evenhand._utils.text import some_words
from evenhand._utils.typing import AnyArray, FloatArray
from evenhand.metrics._inputs import as_weights
from evenhand.metrics.attributes import Attribute, read_attributes
from evenhand.metrics.intervals import Intervals, check_level, mean_intervals
from evenhand.metrics.membership import Membership
from evenhand.metrics.resampling import effective_sizes
from evenhand.metrics.selecting import Selection, read_selection

FOUR_FIFTHS = 0.8  # of the highest rate: below, the Uniform Guidelines of 1978 see adverse impact
SMALL_SHARE = 0.02  # of the rows: smaller categories may be set apart under New York's rules
LEVELLED = 0.8  # of the share selected before: below, parity was reached by selecting fewer
MOST_TOLD = 30  # groups of a table that is printed


@dataclass(frozen=True, slots=True, eq=False)
class RateTable:
    """Rates of the groups of one attribute, or of a combination of several, and their impact ratios."""

    attribute: str  # empty where it has no name
    groups: tuple[Hashable, ...]
    rows: FloatArray  # of each group, whatever their weights, (n_groups,) as all below
    rate: Intervals
    ratio: Intervals  # to the highest rate; NaN for groups that are set apart
    apart: AnyArray  # too small a share of the rows to be compared
    n_unknown: int = 0  # rows that are left out, as their group is missing
    within: bool = False  # groups are `(stratum, group)`, compared within their stratum
    before: FloatArray | None = None  # the rates of other predictions

    @property
    def names(self) -> tuple[str, ...]:
        """The groups as text."""
        return tuple(label_text(group, within=self.within) for group in self.groups)

    @property
    def lowest(self) -> int | None:
        """Place of the group with the lowest impact ratio; None where no ratio is known."""
        known = np.isfinite(self.ratio.estimate)
        return int(np.nanargmin(self.ratio.estimate)) if known.any() else None

    def records(self) -> Iterator[dict[str, Any]]:
        """The columns of New York's published audits for each group, with intervals."""
        for place, name in enumerate(self.names):
            rate, ratio = self.rate, self.ratio
            record = {
                "attribute": self.attribute,
                "group": name,
                "rows": int(self.rows[place]),
                "selected": float(self.rows[place] * rate.estimate[place]),
                "rate": float(rate.estimate[place]),
                "rate_low": float(rate.low[place]),
                "rate_high": float(rate.high[place]),
                "impact_ratio": float(ratio.estimate[place]),
                "impact_ratio_low": float(ratio.low[place]),
                "impact_ratio_high": float(ratio.high[place]),
                "set_apart": bool(self.apart[place]),
            }
            if self.before is not None:
                record["rate_before"] = float(self.before[place])
            yield record

    def sentence(self) -> str:
        """The lowest impact ratio, and what the four-fifths line says of it."""
        place = self.lowest
        by = f" by {self.attribute}" if self.attribute else ""
        if place is None:
            return f"No impact ratio{by}: nobody was selected."
        value, low, high = (float(getattr(self.ratio, end)[place]) for end in ("estimate", "low", "high"))
        side = "below" if value < FOUR_FIFTHS else "above" if value > FOUR_FIFTHS else "on"
        sure = high < FOUR_FIFTHS or low > FOUR_FIFTHS
        return (
            f"Lowest impact ratio{by}: {value:.3f} for {self.names[place]}, {100 * self.ratio.level:g} % "
            f"interval [{low:.3f}, {high:.3f}], {side} the four-fifths line, "
            + ("and so is the whole interval." if sure else "but the interval has both sides of it.")
        )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SelectionRates:
    """Selection or scoring rates by group, and impact ratios; see `selection_rates`, which makes it."""

    meaning: str  # what a rate is the share of, such as "above the median, 3.2"
    tables: tuple[RateTable, ...]  # of each attribute, and last of their combination where there are several
    overall: float  # of all rows whose group is known
    overall_before: float = np.nan  # of other predictions
    by_median: bool = False  # predictions are compared with the median of all

    @property
    def levelled_down(self) -> bool:
        """Far fewer are selected than before, where that is not a matter of their own median."""
        return not self.by_median and self.overall < LEVELLED * self.overall_before

    def warnings(self) -> list[str]:
        """What to ask where parity came with fewer people selected; empty otherwise."""
        if not self.levelled_down:
            return []
        return [
            "Far fewer are selected than before: parity was reached in part by levelling down. Ask whether "
            "that is meant. ParityClassifier(min_rate=...) keeps the share up, at a price in errors."
        ]

    def frame(self, backend: str | None = None) -> Any:
        """One row for each attribute and group, as a data frame: rows, selected, rate and impact ratio.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"} or None, default=None
            The first of them that is installed by default.
        """
        rows = [record for table in self.tables for record in table.records()]
        return make_frame({name: [row[name] for row in rows] for name in rows[0]}, backend)

    def to_dict(self) -> dict[str, Any]:
        """Plain Python numbers and text, ready for JSON; None for what is not known."""
        return {
            "meaning": self.meaning,
            "overall": self.overall,
            "overall_before": self.overall_before if np.isfinite(self.overall_before) else None,
            "tables": [
                {
                    "attribute": table.attribute,
                    "unknown": table.n_unknown,
                    "groups": [
                        {name: _plain(value) for name, value in record.items() if name != "attribute"}
                        for record in table.records()
                    ],
                }
                for table in self.tables
            ],
        }

    def notes(self) -> list[str]:
        """Which groups are set apart, and how many rows have no group."""
        told = []
        for table in self.tables:
            by = f" by {table.attribute}" if table.attribute else ""
            small = [name for name, apart in zip(table.names, table.apart, strict=True) if apart]
            if small:
                told.append(
                    f"Set apart{by}, with less than {100 * SMALL_SHARE:g} % of the rows: "
                    f"{some_words(small, 5)}."
                )
            if table.n_unknown:
                told.append(f"{table.n_unknown} rows are not counted{by}: their group is not known.")
        return told

    def sentences(self) -> list[str]:
        """The lowest ratio of each table, and the notes."""
        return [*self.warnings(), *(table.sentence() for table in self.tables), *self.notes()]

    def __str__(self) -> str:
        lines = [f"Share of {self.meaning}: {100 * self.overall:.1f} % of all"]
        for table in self.tables:
            width = max(5, *map(len, table.names[:MOST_TOLD]))
            lines.append(
                f"{table.attribute or 'group':<{width}}  {'rows':>7} {'rate':>7} {'ratio':>7}  interval"
            )
            for record in list(table.records())[:MOST_TOLD]:
                ratio = f"{record['impact_ratio']:7.3f}  {_between(record)}"
                told = f"{'':7}  set apart" if record["set_apart"] else ratio
                lines.append(f"{record['group']:<{width}}  {record['rows']:7d} {record['rate']:7.3f} {told}")
        return "\n".join([*lines, *self.sentences()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """A table for each attribute, in the columns of New York's published audits."""
        heads = ("Rows", "Selected", "Rate", "Impact ratio", "Interval")
        return "".join(
            html_block(
                f"Share of {self.meaning}",
                (table.attribute or "Group", *heads),
                map(_cells, table.records()),
                self.sentences() if table is self.tables[-1] else (),
            )
            for table in self.tables
        )


def selection_rates(
    predictions: ArrayLike,
    sensitive_features: Any,
    atoms: ArrayLike | None = None,
    *,
    threshold: float | None = None,
    selected: Any = None,
    baseline: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    level: float = 0.95,
    min_share: float = SMALL_SHARE,
) -> SelectionRates:
    """Share of each group that is selected, and its impact ratio: that share over the highest group's.

    What New York's Local Law 144 asks audits to publish: for decisions the selection rate, for scores the
    scoring rate (the share above the median of all), for each attribute and for their combinations, with
    the number of rows whose group is not known, and categories of less than 2 % set apart.

    The interval of a ratio is made from those of the two rates (Wilson's for values, Student's for chances)
    by the method of variance estimates recovery, and allows for any group to be the highest one in truth.
    Thresholds, the median too, are taken as given.

    Parameters
    ----------
    predictions : array of shape (n,) or (n, n_atoms)
        Decisions, scores, or the probability of each atom (class) in each row.
    sensitive_features : array or data frame of shape (n,) or (n, n_columns)
        Group of each row, or probabilities of groups; of several columns of labels each has a table, and
        their combinations one more. Rows with a missing label are left out, and counted.
    atoms : array of shape (n_atoms,), optional
        Value, or class, of each column; needed with probabilities.
    threshold : float, optional
        Rates are the share above it. By default the median of all predictions; of two values, the larger one
        is selected.
    selected : label or list of labels, optional
        Predictions that count as selected, in place of a threshold; needed for decisions in words.
    baseline : array of shape (n,) or (n, n_atoms), optional
        Other predictions for the same rows, whose rates stand beside (`rate_before`).
    sample_weight : array of shape (n,), optional
    level : float, default=0.95
        Of the intervals, each on its own.
    min_share : float, default=0.02
        Groups with a smaller share of the rows have a rate and no ratio, and are not the highest one.

    Examples
    --------
    >>> from evenhand.metrics import selection_rates
    >>> hired = ["yes"] * 40 + ["no"] * 60 + ["yes"] * 30 + ["no"] * 70
    >>> found = selection_rates(hired, ["M"] * 100 + ["F"] * 100, selected="yes")
    >>> print(found)
    Share of decisions for yes: 35.0 % of all
    group     rows    rate   ratio  interval
    F          100   0.300   0.750  0.512 to 1.000
    M          100   0.400   1.000  0.913 to 1.000
    Lowest impact ratio: 0.750 for F, 95 % interval [0.512, 1.000], below the four-fifths line, but the
    interval has both sides of it.
    """
    check_level(level)
    if not 0.0 <= as_number(min_share, "min_share") <= 1.0:
        raise ValueError(f"min_share must lie between 0 and 1: got {min_share!r}.")
    chosen = read_selection(predictions, atoms, threshold, selected, sample_weight)
    n_rows = len(chosen.chances)
    before = None if baseline is None else chosen.same_of(baseline, atoms)
    attributes = read_attributes(sensitive_features, n_rows, as_weights(sample_weight, n_rows))
    return make_rates(chosen, before, attributes, level, min_share)


def make_rates(
    chosen: Selection,
    before: FloatArray | None,
    attributes: list[Attribute],
    level: float,
    min_share: float = SMALL_SHARE,
) -> SelectionRates:
    """Rates of rows that are read already; `before` is the chance of each under other predictions."""
    tables = tuple(_table(chosen.chances, before, each, level, min_share) for each in attributes)
    last = attributes[-1]
    weights = last.members.weights
    overall = float(np.average(chosen.chances[last.rows], weights=weights))
    was = np.nan if before is None else float(np.average(before[last.rows], weights=weights))
    return SelectionRates(chosen.meaning, tables, overall, was, chosen.by_median)


def _table(
    chances: FloatArray, before: FloatArray | None, attribute: Attribute, level: float, min_share: float
) -> RateTable:
    members = attribute.members
    own = chances[attribute.rows]
    rate = rate_intervals(own, members, level)
    totals = members.totals()[:-1]
    strata = np.zeros(len(totals), np.int64) if members.strata is None else members.strata
    apart = np.zeros(len(totals), bool)
    ends = np.full((3, len(totals)), np.nan)
    for stratum in np.unique(strata):
        inside = np.flatnonzero(strata == stratum)
        small = totals[inside] < min_share * totals[inside].sum()
        if not small.all():  # where every group is small, they are compared all the same
            apart[inside] = small
            inside = inside[~small]
        wide = rate_intervals(own, members, 1.0 - (1.0 - level) / max(1, len(inside) - 1))
        found = (rate.estimate, rate.low, rate.high, wide.low, wide.high)
        ends[:, inside] = impact_ratios(*(each[inside] for each in found))
    was = None if before is None else (members.totals(before[attribute.rows]) / members.totals())[:-1]
    return RateTable(
        attribute.name,
        members.labels,
        members.counts.astype(np.float64),
        rate,
        Intervals("impact ratio", "variance recovery", level, members.labels, *ends),
        apart,
        n_unknown=len(chances) - members.n_rows,
        within=members.strata is not None,
        before=was,
    )


def rate_intervals(chances: FloatArray, members: Membership, level: float) -> Intervals:
    """Rate of each group: Wilson's interval for rows that are selected or not, Student's for chances."""
    if not np.isin(chances, (0.0, 1.0)).all():
        found = mean_intervals("rate", chances, members, level, floor=0.0)
        return Intervals(
            "rate", "student", level, found.labels, found.estimate, found.low, np.minimum(found.high, 1.0)
        )
    rate = (members.totals(chances) / members.totals())[:-1]
    sizes, z = effective_sizes(members)[0], float(ndtri(0.5 + 0.5 * level))
    spread = z * np.sqrt(rate * (1.0 - rate) / sizes + (z / (2.0 * sizes)) ** 2)
    middle, scale = rate + z**2 / (2.0 * sizes), 1.0 + z**2 / sizes
    low = np.where(rate > 0.0, np.clip((middle - spread) / scale, 0.0, rate), 0.0)
    high = np.where(rate < 1.0, np.clip((middle + spread) / scale, rate, 1.0), 1.0)
    return Intervals("rate", "wilson", level, members.labels, rate, low, high)


def impact_ratios(
    rate: FloatArray, low: FloatArray, high: FloatArray, wide_low: FloatArray, wide_high: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Each rate over the highest one with its interval, from the intervals of the rates.

    The ratio in truth is the smallest of a group's ratios to any group. So the smallest of the lower ends is
    above it as seldom as that for the right group alone: no allowance for several is needed. The upper end is
    against the group that is highest here, which of several equal ones chance has chosen: it is made from
    wider intervals, at a level that allows for as many comparisons.
    """
    highest = int(np.argmax(rate))
    if rate[highest] == 0.0:
        nothing = np.full(len(rate), np.nan)
        return nothing, nothing, nothing
    product, top = rate[:, None] * rate, rate * rate[highest]
    own, other = (low * (2.0 * rate - low))[:, None], high * (2.0 * rate - high)
    most, least = wide_high * (2.0 * rate - wide_high), float((wide_low * (2.0 * rate - wide_low))[highest])
    with np.errstate(divide="ignore", invalid="ignore"):
        # Roots of (rate_g - r rate_h)^2 = (rate_g - low_g)^2 + r^2 (high_h - rate_h)^2, and the like, for r.
        lower = own / (product + np.sqrt(np.maximum(product**2 - own * other, 0.0)))
        upper = (top + np.sqrt(np.maximum(top**2 - most * least, 0.0))) / least
    lower[rate == 0.0] = 0.0
    np.fill_diagonal(lower, 1.0)
    upper[highest] = 1.0
    ratio = rate / rate[highest]
    return ratio, np.minimum(lower.min(axis=1), ratio), np.clip(upper, ratio, 1.0)


def _between(record: dict[str, Any]) -> str:
    return f"{record['impact_ratio_low']:.3f} to {record['impact_ratio_high']:.3f}"


def _cells(record: dict[str, Any]) -> tuple[str, ...]:
    """A line of the table for notebooks."""
    figures = (record["group"], f"{record['rows']}", f"{record['selected']:.0f}", f"{record['rate']:.3f}")
    if record["set_apart"]:
        return (*figures, "set apart", "")
    return (*figures, f"{record['impact_ratio']:.3f}", _between(record))


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and not np.isfinite(value) else value
