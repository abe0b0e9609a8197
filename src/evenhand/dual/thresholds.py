"""Parity of the shares above a few thresholds alone."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from evenhand._utils.text import listed
from evenhand._utils.typing import FloatArray
from evenhand._utils.validation import as_floats
from evenhand.dual.notion import ParityNotion

Numbers = tuple[float, ...]


@dataclass(frozen=True)
class Thresholds(ParityNotion):
    """Equal share of predictions above each of a few thresholds, and nothing else.

    It bounds `max_t |P(prediction > t | group) - P(prediction > t)|` over the thresholds t that are named,
    where "cdf" bounds it over all of them: what many rules ask for (a share that is selected, paid more than
    an amount, scored above the median), at a lower price.

    Parameters
    ----------
    thresholds : float or sequence of floats, default=()
        In the units of the outcome. A prediction that equals one is not above it.
    quantiles : float or sequence of floats, default=()
        Levels in (0, 1) of the scores that the parity step starts from: `fit` finds the numbers
        (`parity_.cutoffs`), and they stay. As a metric, of the predictions of everybody.
        Without thresholds and quantiles it is the median.
    quantile_values : tuple of floats, default=None
        What `fit` found for the quantiles; not for you to set.

    Examples
    --------
    >>> from evenhand import ParityRegressor, Thresholds
    >>> from evenhand.datasets import make_population
    >>> data = make_population(2000, n_groups=2, random_state=0)
    >>> labels = {"sensitive_features": data.sensitive_features}
    >>> model = ParityRegressor(parity=Thresholds([0.0, 0.4]), epsilon=0.05)
    >>> model = model.fit(data.data, data.target, **labels)
    >>> model.certificate_.parity, model.certificate_.out_of_sample.expected.round(2).tolist()
    ('thresholds', [0.05, 0.0...])
    """

    thresholds: Sequence[float] = ()
    quantiles: Sequence[float] = ()
    quantile_values: Numbers | None = field(default=None, compare=False, repr=False)

    name = "thresholds"
    gap_name = "gap in the share above a threshold"
    short_name = "gap"
    distance_name = gap_name

    def __post_init__(self) -> None:
        thresholds = _numbers(self.thresholds, "thresholds")
        quantiles = _numbers(self.quantiles, "quantiles")
        if any(not 0.0 < level < 1.0 for level in quantiles):
            raise ValueError(f"quantiles must lie strictly between 0 and 1: got {self.quantiles!r}.")
        if not thresholds and not quantiles:
            quantiles = (0.5,)
        object.__setattr__(self, "thresholds", thresholds)  # a list or a number is what most people write
        object.__setattr__(self, "quantiles", quantiles)

    def faults(self) -> Iterator[str]:
        """A number for each quantile, where there are any."""
        found = self.quantile_values
        if found is None:
            return
        if not isinstance(found, tuple) or len(found) != len(self.quantiles):
            yield "it has not one number for each quantile"
        elif not all(type(value) is float and np.isfinite(value) for value in found):
            yield "its quantiles are not numbers"

    @property
    def cutoffs(self) -> FloatArray:
        """All thresholds in the units of the outcome, increasing; quantiles need a fit first."""
        if self.quantiles and self.quantile_values is None:
            raise ValueError(
                f"{self!r} asks for quantiles, whose numbers are found by fit: take the notion of a fitted "
                "model (parity_), or name thresholds."
            )
        return np.unique([*self.thresholds, *(self.quantile_values or ())])

    def resolve(self, scores: FloatArray, weights: FloatArray | None) -> ParityNotion:
        """The same notion with the numbers of its quantiles; once they are found they stay."""
        if not self.quantiles or self.quantile_values is not None:
            return self
        if scores.ndim != 1:
            raise ValueError(
                "Classes have no quantiles: name thresholds between the numbers of the classes, which count "
                f"from 0, such as Thresholds([0.5]). Got {self!r}."
            )
        return replace(self, quantile_values=_quantiles(scores, weights, self.quantiles))

    def idle(self, atoms: FloatArray) -> str | None:
        """Why the notion asks for nothing on these atoms: all lie on one side of every threshold."""
        if self.operator(atoms).any():
            return None
        cutoffs = listed([f"{cutoff:g}" for cutoff in self.cutoffs])
        return (
            f"Predictions lie between {atoms[0]:g} and {atoms[-1]:g}, so that the share above {cutoffs} is "
            "the same in every group"
        )

    def read(self, text: str) -> ParityNotion:
        """Numbers are thresholds, and percentages quantiles: `"600,50%"`."""
        parts = [part.strip() for part in text.split(",")]
        try:
            levels = [float(part[:-1]) / 100.0 for part in parts if part.endswith("%")]
            return Thresholds([float(part) for part in parts if not part.endswith("%")], levels)
        except ValueError as error:
            raise ValueError(
                "parity 'thresholds:...' takes numbers, or percentages for quantiles, with commas between: "
                f"'thresholds:600,50%'. Got {text!r}."
            ) from error

    def operator(self, atoms: FloatArray) -> FloatArray:
        """A row for each share that thresholds tell apart: two between the same atoms are one."""
        n_above = len(atoms) - np.searchsorted(atoms, self.cutoffs, side="right")
        told = np.unique(n_above[(n_above > 0) & (n_above < len(atoms))])
        if not len(told):
            return np.zeros((1, len(atoms)))
        above: FloatArray = (np.arange(len(atoms)) >= len(atoms) - told[:, None]).astype(np.float64)
        return above

    @property
    def asks(self) -> str:
        """What is asked for, a sentence in which "{epsilon}" stands for the tolerance."""
        return (
            f"The share of predictions above {self.places()} may differ between a group and everybody by at "
            "most {epsilon}. Of other thresholds nothing is asked."
        )

    @property
    def meaning(self) -> str:
        """What the gap of a group is, a sentence."""
        which = "threshold" if len(self.thresholds) + len(self.quantiles) == 1 else "of these thresholds"
        return (
            f"The gap of a group is the difference between the share of its predictions above the {which} "
            "and the share of everybody's" + ("." if which == "threshold" else ", where it is largest.")
        )

    def places(self) -> str:
        """The thresholds in words."""
        known = self.quantile_values or (None,) * len(self.quantiles)
        words = [f"{value:g}" for value in self.thresholds]
        for level, value in zip(self.quantiles, known, strict=True):
            name = "the median" if level == 0.5 else f"the {100 * level:g} % quantile"
            words.append(name if value is None else f"{name} of the scores ({value:g})")
        return listed(words, "and")


def _numbers(given: Any, name: str) -> Numbers:
    values = as_floats([] if given is None else given, name)
    values = np.atleast_1d(values)
    if values.ndim != 1 or not np.isfinite(values).all():
        raise ValueError(f"{name} must be finite numbers in one dimension: got {given!r}.")
    return tuple(np.unique(values).tolist())


def _quantiles(scores: FloatArray, weights: FloatArray | None, levels: Sequence[float]) -> Numbers:
    """The smallest score that at least a share `level` of the weight does not exceed."""
    order = np.argsort(scores, kind="stable")
    mass = np.cumsum(np.ones(len(scores)) if weights is None else weights[order])
    places = np.searchsorted(mass, np.array(levels) * mass[-1] * (1.0 - 1e-12))
    return tuple(scores[order][np.minimum(places, len(order) - 1)].tolist())
