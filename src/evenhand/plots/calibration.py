"""Group probabilities against what was observed, with the noise that exact ones would show."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenhand._utils.frames import make_frame
from evenhand._utils.typing import FloatArray, IntArray
from evenhand.calibration import CalibrationDiagnosis
from evenhand.plots.style import (
    GREY,
    INK,
    MARK,
    PALE,
    Display,
    figure_headline,
    group_marker,
    group_panels,
    headline,
    name_of,
    tidy,
)

LEVEL = 0.95  # share of the bins of exact probabilities inside the band


@dataclass(frozen=True, eq=False)
class CalibrationDisplay(Display):
    """Observed share of each group against its probability, one point for each bin of rows.

    The band holds 95 % of such points where the probabilities are exact: quantiles of a binomial with
    the bin's mean probability and number of rows, which is a little wider than need be.

    Parameters
    ----------
    groups : tuple of labels
    proba, share : arrays of shape (n_groups, n_bins)
        Mean probability and observed share of the rows in each bin; NaN where a bin is empty.
    count : array of shape (n_groups, n_bins)
    low, high : arrays of shape (n_groups, n_bins)
        The band.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes (one, or an array of them) and Figure, once `plot` was called

    Examples
    --------
    >>> from evenhand.plots import CalibrationDisplay
    >>> shown = CalibrationDisplay.from_curves(["a"], [[0.2, 0.5]], [[0.21, 0.9]], [[100, 100]])
    >>> shown.outside
    array([[False,  True]])
    """

    groups: tuple[Hashable, ...]
    proba: FloatArray
    share: FloatArray
    count: IntArray
    low: FloatArray
    high: FloatArray

    @classmethod
    def from_curves(
        cls, groups: Sequence[Hashable], proba: Any, share: Any, count: Any
    ) -> "CalibrationDisplay":
        """Display of known curves, with their band.

        Parameters
        ----------
        groups : sequence of n_groups labels
        proba, share, count : arrays of shape (n_groups, n_bins)
        """
        # Imported here: scipy.stats is slow to import, and `import evenhand` does not need it.
        from scipy.stats import binom

        shape = (len(groups), -1)
        proba, share, count = (np.asarray(table).reshape(shape) for table in (proba, share, count))
        filled = count > 0
        likely = np.where(filled, np.clip(proba, 0.0, 1.0), 0.5)
        tail = (1.0 - LEVEL) / 2
        low, high = (
            np.where(filled, binom.ppf(level, count, likely) / np.maximum(count, 1), np.nan)
            for level in (tail, 1.0 - tail)
        )
        return cls(tuple(groups), proba, share, count, low, high)

    @classmethod
    def from_diagnosis(cls, diagnosis: CalibrationDiagnosis) -> "CalibrationDisplay":
        """Display of the calibration curves of a diagnosis.

        Parameters
        ----------
        diagnosis : CalibrationDiagnosis
            Such as `model.certificate_.calibration`.
        """
        return cls.from_curves(
            diagnosis.groups, diagnosis.curve_proba, diagnosis.curve_share, diagnosis.curve_count
        )

    @property
    def outside(self) -> Any:
        """Whether a point lies outside its band, (n_groups, n_bins); False where a bin is empty."""
        slip = 1e-12  # of the division by the count
        return (self.share < self.low - slip) | (self.share > self.high + slip)

    def frame(self, backend: str | None = None) -> Any:
        """One row for each bin of each group that has rows.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"} or None, default=None
            The first of them that is installed by default.
        """
        filled = self.count.ravel() > 0
        names = [name_of(group, 10_000) for group in self.groups]
        columns = {"group": np.repeat(names, self.count.shape[1])[filled]}
        for name in ("proba", "share", "count", "low", "high", "outside"):
            columns[name] = getattr(self, name).ravel()[filled]
        return make_frame(columns, backend)

    def plot(self, ax: Any = None) -> "CalibrationDisplay":
        """Draw a panel for each group in a figure of its own, or the points of all groups into `ax`.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
        """
        if ax is not None:
            self._draw_all(ax)
            return self._drawn(ax)
        axes = group_panels(len(self.groups), side=1.9, shared=False)
        for place, panel in enumerate(axes):
            self._draw_group(panel, place)
        figure = axes[0].figure
        figure_headline(figure, self._sentence())
        figure.supxlabel("Probability of the group", fontsize="medium")
        figure.supylabel("Observed share", fontsize="medium")
        return self._drawn(axes)

    def _sentence(self) -> str:
        outside, n_bins = int(self.outside.sum()), int((self.count > 0).sum())
        chance = (1.0 - LEVEL) * n_bins
        by_chance = "fewer than 1" if chance < 0.95 else f"about {chance:.0f}"
        lie = "bins lies" if outside == 1 else "bins lie"
        return f"{outside} of {n_bins} {lie} outside the 95 % noise band (chance: {by_chance})"

    def _draw_group(self, ax: Any, place: int) -> None:
        known = self.count[place] > 0
        order = np.flatnonzero(known)[np.argsort(self.proba[place][known])]
        proba, share, low, high, outside = (
            table[place][order] for table in (self.proba, self.share, self.low, self.high, self.outside)
        )
        ax.fill_between(proba, low, high, color=PALE, linewidth=0)
        ax.plot([0, 1], [0, 1], color=GREY, linewidth=0.8, scalex=False, scaley=False)
        ax.plot(proba, share, color=INK, linewidth=1.0, marker="o", markersize=3.5)
        ax.plot(proba[outside], share[outside], color=MARK, linestyle="", marker="D", markersize=6)
        _square(ax, np.concatenate([proba, share, low, high]))
        n_outside = int(outside.sum())
        note = f"{n_outside} outside" if n_outside else "all inside"
        ax.set_title(f"{name_of(self.groups[place])}\n{note}", loc="left", fontsize="small")

    def _draw_all(self, ax: Any) -> None:
        ax.plot([0, 1], [0, 1], color=GREY, linewidth=0.8)
        for place, group in enumerate(self.groups):
            known = self.count[place] > 0
            order = np.flatnonzero(known)[np.argsort(self.proba[place][known])]
            style = group_marker(place) | {"linewidth": 1.0, "markerfacecolor": "white"}
            points = self.proba[place][order], self.share[place][order]
            (line,) = ax.plot(*points, label=name_of(group), **style)
            out = self.outside[place][order]
            full = {**style, "linestyle": "", "markerfacecolor": line.get_color(), "markersize": 6}
            ax.plot(points[0][out], points[1][out], **full)
        _square(ax, np.array([0.0, 1.0]))
        ax.set_xlabel("Probability of the group")
        ax.set_ylabel("Observed share")
        ax.legend(loc="upper left", fontsize=7, frameon=False, title="Filled: outside its noise band")
        ax.get_legend().get_title().set_fontsize(7)
        headline(ax, self._sentence())


def _square(ax: Any, shown: FloatArray) -> None:
    """The same range on both axes; small groups have their points in a corner of the unit square."""
    tidy(ax)
    low, high = float(shown.min()), float(shown.max())
    margin = 0.05 * max(high - low, 0.02)
    for axis in ("x", "y"):
        ax.set(**{f"{axis}lim": (low - margin, high + margin)})
        ax.locator_params(axis=axis, nbins=3)
    ax.set_aspect("equal")
