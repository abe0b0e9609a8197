"""The facts that a report states, as plain data: the page and the model card are two ways to print them."""

from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np

from evenhand._utils.typing import FloatArray, IntArray

FEWEST_JUDGED = 30  # rows: the gap of a smaller group is noise, and no headline rests on it
DIGITS = 12  # of a number in JSON: more than any reader needs, fewer than rounding leaves


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """What the model was asked for."""

    parity: str
    metric: str  # the distance that the notion bounds
    gap: str  # what that distance is called, after "largest"
    asks: str  # what the notion asks for, a sentence
    meaning: str  # what the gap of a group is, a sentence
    epsilon: tuple[float, ...]  # of each group of the fit
    groups: tuple[str, ...]  # of the fit
    aware: bool  # the group is looked at when predicting
    has_target: bool  # risks are against outcomes, and not against the scores
    error: str  # what the risk is called
    classes: bool  # predictions are classes, which have no mean
    squared: bool  # the risk is a squared error, and what is gained on a constant R^2
    within: str = ""  # among whom groups are compared; empty where it is among all rows


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """A group of the report's rows."""

    name: str
    rows: int
    share: float
    epsilon: float | None  # None where the rows' labels are not those of the fit
    judged: bool  # has rows enough to say something of its gap
    stratum: int = 0  # groups of one stratum are compared with each other


@dataclass(frozen=True, slots=True, eq=False)
class Effects:
    """What one set of predictions does: before, or at one tolerance."""

    epsilon: float | None  # None before
    fitted: bool  # the model as it is
    converged: bool
    risk: float
    largest_gap: float  # over the groups that are judged, as the next two
    farthest: int  # place of that group
    largest_ks: float
    gap: FloatArray  # in the asked distance, (n_groups,) as all below
    ks: FloatArray
    mean: FloatArray
    group_risk: FloatArray
    shares: IntArray  # of each charted group, of each of several strata and of everybody, in millionths


@dataclass(frozen=True, slots=True, eq=False)
class Scale:
    """The horizontal axis of the distributions."""

    bars: bool  # few values, each with a bar of its own
    names: tuple[str, ...]  # of the bars
    centres: FloatArray  # (n_bins,)
    edges: FloatArray  # (n_bins + 1,)


@dataclass(frozen=True, slots=True, eq=False)
class Proof:
    """A certificate: what it says, and the numbers behind it."""

    sentences: tuple[str, ...]
    numbers: dict[str, Any] | None  # None where there is no certificate, and the sentence says why


@dataclass(frozen=True, slots=True, eq=False)
class Outlook:
    """A group's distance: asked for, foreseen, proved and shown. None is for what is not known."""

    name: str
    asked: float | None
    expected: float | None  # for new people, by what was measured at the fit
    bound: float | None  # at most, with the confidence that was asked for at the fit
    proved: float | None  # at most, by the report's rows
    shown: float  # by these rows
    noise: float  # shown by groups of this size that are drawn at random


@dataclass(frozen=True, slots=True, eq=False)
class Mode:
    """One way to predict: without parity, without the group, with it, or a constant."""

    name: str
    ours: bool  # the model of the report
    largest_gap: float  # over the groups that are judged
    risk: float
    gap: FloatArray  # (n_groups,), as `rates`
    rate: float | None = None  # share selected; None where nothing says who is
    rates: FloatArray | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Modes:
    """The same parity with the group and without, side by side."""

    sentences: tuple[str, ...]
    found: tuple[Mode, ...]  # empty where there is nothing to compare with


@dataclass(frozen=True, slots=True, eq=False)
class Feature:
    """A column of the rows."""

    name: str
    kind: str
    missing: int
    summary: str


@dataclass(frozen=True, slots=True, eq=False)
class Data:
    """The rows that the report is made from."""

    n_rows: int
    n_features: int
    weighted: bool
    features: tuple[Feature, ...]  # the first of them
    outcome: str  # a summary, empty where outcomes are not known
    scores: str


@dataclass(frozen=True, slots=True, eq=False)
class Facts:
    """All that a report states."""

    title: str
    made: str  # when
    model: str  # its class
    asked: Asked
    groups: tuple[Group, ...]
    charted: tuple[int, ...]  # places of the groups with curves, the farthest before first
    scale: Scale
    before: Effects
    tolerances: tuple[Effects, ...]  # by epsilon
    own: int  # place of the model's own among them
    path_note: str  # where the other tolerances come from, or why there are none
    outlook: tuple[Outlook, ...]  # as `groups`
    out_of_sample: Proof  # the estimate of the fit for new data
    held_out: Proof
    optimisation: Proof
    calibration: Proof
    rates: Proof  # who is selected, and impact ratios
    modes: Modes  # with the group, and without
    constant_risk: float  # of the best prediction that is the same for everybody
    pair: str  # the largest gap between two groups, a sentence
    data: Data
    settings: dict[str, str]
    versions: dict[str, str]

    @property
    def after(self) -> Effects:
        """The model as it is."""
        return self.tolerances[self.own]

    def gain(self, effects: Effects | Mode) -> float | None:
        """`1 - risk / risk of the best constant`, which is R^2 for squared error; None without outcomes."""
        if not self.asked.has_target or not self.constant_risk > 0:
            return None
        return 1.0 - effects.risk / self.constant_risk

    @property
    def unjudged(self) -> tuple[Group, ...]:
        """Groups with too few rows."""
        return tuple(group for group in self.groups if not group.judged)


def to_plain(value: Any) -> Any:
    """Dicts, lists, text and finite numbers, ready for JSON; None for what is not finite.

    >>> to_plain({"a": np.array([1.0, np.nan]), "b": (np.int64(2), 1 / 3)})
    {'a': [1.0, None], 'b': [2, 0.333333333333]}
    """
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, dict):
        return {str(key): to_plain(each) for key, each in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return to_plain(value.tolist())
    if isinstance(value, list | tuple):
        return [to_plain(each) for each in value]
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if np.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)
