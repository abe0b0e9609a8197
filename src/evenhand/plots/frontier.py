"""Risk against unfairness, a point for each tolerance."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from evenhand._utils.frames import make_frame
from evenhand._utils.typing import AnyArray, FloatArray
from evenhand.plots.style import GREY, INK, MARK, MARKERS, Display, headline, name_of, subplots, tidy

LABEL_GAP = 0.08  # share of the axes' side: points nearer to a labelled one stay unlabelled


@dataclass(frozen=True, eq=False)
class FrontierDisplay(Display):
    """Risk against the largest distance between a group and all rows, one point for each epsilon.

    Parameters
    ----------
    epsilon, risk, unfairness : arrays of shape (n_points,)
        In the order in which the line connects the points.
    base_risk, base_unfairness : float
        Of the scores before the parity step.
    risk_name, unfairness_name : str
        Labels of the axes.
    title : str, optional
        By default the first and the last risk and distance in words.
    risk_interval, unfairness_interval : arrays of shape (2, n_points), optional
        Lower and upper ends of an interval around each point, such as one of confidence.
    interval_name : str
        What these intervals are.
    baselines : dict of name -> (unfairness, risk), optional
        Other methods: two numbers, or two arrays for a line of points.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure, once `plot` was called
    """

    epsilon: FloatArray
    risk: FloatArray
    unfairness: FloatArray
    base_risk: float
    base_unfairness: float
    risk_name: str = "Risk (mean squared error)"
    unfairness_name: str = "Largest KS distance between a group and all rows"
    title: str | None = None
    risk_interval: FloatArray | None = None
    unfairness_interval: FloatArray | None = None
    interval_name: str = "95 % intervals"
    baselines: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)

    def frame(self, backend: str | None = None) -> Any:
        """The points as a data frame; the last row, without epsilon, is the base model.

        Intervals have columns of their own, `risk_low` and so on, where they were given.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"} or None, default=None
            The first of them that is installed by default.
        """
        others = {name: np.atleast_2d(np.transpose(points)) for name, points in self.baselines.items()}
        extra = np.concatenate([np.empty((0, 2)), *others.values()])
        n_extra = len(extra) + 1
        names = ["evenhand"] * len(self.risk)
        names += [name for name, points in others.items() for _ in points]
        columns: dict[str, Any] = {
            "name": [*names, "base model"],
            "epsilon": np.append(self.epsilon, np.full(n_extra, np.nan)),
            "risk": np.concatenate([self.risk, extra[:, 1], [self.base_risk]]),
            "unfairness": np.concatenate([self.unfairness, extra[:, 0], [self.base_unfairness]]),
        }
        for name in ("risk", "unfairness"):
            ends = getattr(self, f"{name}_interval")
            if ends is not None:
                for side, values in zip(("low", "high"), ends, strict=True):
                    columns[f"{name}_{side}"] = np.append(values, np.full(n_extra, np.nan))
        return make_frame(columns, backend)

    def plot(self, ax: Any = None) -> "FrontierDisplay":
        """Draw into `ax`, or into a figure of its own.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
        """
        if ax is None:
            ax = subplots(size=(6.4, 4.2))[0, 0]
        line = {"color": INK, "linewidth": 1.6, "marker": "o", "markersize": 4.5}
        base = {"color": MARK, "linestyle": "", "marker": "D", "markersize": 8}
        ax.plot(self.unfairness, self.risk, **line, clip_on=False, zorder=3)  # whole markers at zero too
        ax.plot(self.base_unfairness, self.base_risk, **base, zorder=2)
        self._draw_intervals(ax)
        self._draw_baselines(ax)
        tidy(ax)
        ax.set_xlabel(self.unfairness_name)
        ax.set_ylabel(self.risk_name)
        headline(ax, self.title or self._sentence(), pad=16)  # room for the scale of large risks
        ax.margins(x=0.12, y=0.14)
        ax.set_xlim(left=0.0)
        self._label(ax)
        return self._drawn(ax)

    def _sentence(self) -> str:
        least = int(np.argmin(self.unfairness))
        arrow = "\N{RIGHTWARDS ARROW}"
        distance = f"distance {self.base_unfairness:.2g} {arrow} {self.unfairness[least]:.2g}"
        return f"The price of parity: {distance}, risk {self.base_risk:.2g} {arrow} {self.risk[least]:.2g}"

    def _draw_intervals(self, ax: Any) -> None:
        style = {"color": INK, "alpha": 0.35, "linewidth": 1.0, "zorder": 1}
        if self.risk_interval is not None:
            ax.vlines(self.unfairness, *self.risk_interval, **style)
        if self.unfairness_interval is not None:
            ax.hlines(self.risk, *self.unfairness_interval, **style)
        if self.risk_interval is not None or self.unfairness_interval is not None:
            note = {"fontsize": "small", "color": GREY, "transform": ax.transAxes}
            ax.text(0.02, 0.03, f"thin bars: {self.interval_name}", **note)

    def _draw_baselines(self, ax: Any) -> None:
        for place, points in enumerate(self.baselines.values()):
            marker = MARKERS[1:][place % (len(MARKERS) - 1)]
            style = {
                "color": GREY,
                "marker": marker,
                "markersize": 6,
                "linewidth": 1.0,
                "linestyle": (0, (4, 2)),
            }
            ax.plot(*points, markerfacecolor="white", zorder=2, clip_on=False, **style)

    def _label(self, ax: Any) -> None:
        """Name the base model, the others, and the points that are far enough apart to be named."""
        base = self.base_unfairness, self.base_risk
        style = {"textcoords": "offset points", "fontsize": "small"}
        ax.annotate("base model", base, (0, -9), ha="center", va="top", color=MARK, **style)
        taken = []
        for name, (unfairness, risk) in self.baselines.items():
            end = float(np.ravel(unfairness)[-1]), float(np.ravel(risk)[-1])
            ax.annotate(name_of(name, 28), end, (7, 0), va="center", color="0.25", **style)
            taken.append(end)
        kept = self._apart(ax, taken)
        for place in kept:
            point = self.unfairness[place], self.risk[place]
            name = "\N{GREEK SMALL LETTER EPSILON} = " if place == kept[0] else ""
            ax.annotate(f"{name}{self.epsilon[place]:.2g}", point, (5, 4), color=GREY, **style)

    def _apart(self, ax: Any, taken: list[tuple[float, float]]) -> list[int]:
        """Points whose labels have room, both ends first."""
        places = _in_axes(ax, np.column_stack([self.unfairness, self.risk]))
        others = list(_in_axes(ax, np.array(taken))) if taken else []
        kept: list[int] = []
        for place in (0, len(places) - 1, *range(1, len(places) - 1)):
            near = [*others, *(places[other] for other in kept)]
            if all(np.linalg.norm(places[place] - other) > LABEL_GAP for other in near):
                kept.append(place)
        return kept


def _in_axes(ax: Any, points: FloatArray) -> AnyArray:
    """Points as shares of the axes' sides."""
    places: AnyArray = ax.transAxes.inverted().transform(ax.transData.transform(points))
    return places
