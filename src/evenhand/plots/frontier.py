"""Risk against unfairness, a point for each tolerance."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from evenhand._utils.frames import make_frame
from evenhand._utils.typing import FloatArray
from evenhand.plots.labels import Obstacles, PointLabel, place_labels
from evenhand.plots.style import (
    GREY,
    INK,
    MARK,
    MARKERS,
    PALE,
    Display,
    headline,
    name_of,
    short,
    subplots,
    tidy,
)

FAR = 0.8  # a constant farther above the points, in their range, is told at the border and not drawn to scale
EPSILON = "\N{GREEK SMALL LETTER EPSILON}"


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
    chance : float, optional
        What the distance would be on as many rows, on average, were the groups alike: nothing nearer to zero
        can be told from parity.
    constant_risk : float, optional
        Risk of the best constant, which is at parity whatever the groups are: the most that parity may cost.

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
    chance: float | None = None
    constant_risk: float | None = None

    def frame(self, backend: str | None = None) -> Any:
        """The points as a data frame; the last row, without epsilon, is the base model.

        Before it stand the baselines, the best constant and chance (which has no risk), as far as known.
        Intervals have columns of their own, `risk_low` and so on, where they were given.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"} or None, default=None
            The first of them that is installed by default.
        """
        others = {name: np.atleast_2d(np.transpose(points)) for name, points in self.baselines.items()}
        if self.constant_risk is not None:
            others["best constant"] = np.array([[0.0, self.constant_risk]])
        if self.chance is not None:
            others["chance alone"] = np.array([[self.chance, np.nan]])
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
        labels = [*self._draw_chance(ax), *self._draw_constant(ax), *self._labels()]
        place_labels(ax, labels, self._obstacles())
        return self._drawn(ax)

    def _sentence(self) -> str:
        least = int(np.argmin(self.unfairness))
        arrow = "\N{RIGHTWARDS ARROW}"
        distance = f"distance {self.base_unfairness:.2g} {arrow} {self.unfairness[least]:.2g}"
        if self.chance is not None:
            distance += f" (chance alone: {self.chance:.2g})"
        name = self.risk_name.partition(" (")[0]
        name = name[:1].lower() + name[1:]
        risk = f"{name} {short(self.base_risk)} {arrow} {short(self.risk[least])}"
        if self.constant_risk is not None:
            risk += f" (best constant: {short(self.constant_risk)})"
        return f"The price of parity: {distance}, {risk}"

    def _draw_intervals(self, ax: Any) -> None:
        style = {"color": INK, "alpha": 0.35, "linewidth": 1.0, "zorder": 1}
        if self.risk_interval is not None:
            ax.vlines(self.unfairness, *self.risk_interval, **style)
        if self.unfairness_interval is not None:
            ax.hlines(self.risk, *self.unfairness_interval, **style)
        if self.risk_interval is not None or self.unfairness_interval is not None:
            # Above the axes, where nothing is drawn.
            note = {"fontsize": 7, "color": GREY, "ha": "right", "va": "bottom", "transform": ax.transAxes}
            ax.text(1.0, 1.005, f"thin bars: {self.interval_name}", **note)

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

    def _draw_chance(self, ax: Any) -> list[PointLabel]:
        """Shade the distances that cannot be told from parity."""
        if self.chance is None:
            return []
        ax.axvspan(0.0, self.chance, color=PALE, alpha=0.5, linewidth=0, zorder=0)
        ax.axvline(self.chance, color=GREY, linewidth=0.8, linestyle=(0, (1, 2)), zorder=1)
        low, high = ax.get_ylim()
        return [PointLabel("chance alone", (self.chance, low + 0.02 * (high - low)), GREY)]

    def _draw_constant(self, ax: Any) -> list[PointLabel]:
        """A line at the risk of the best constant, or a word at the border where that is far above."""
        if self.constant_risk is None:
            return []
        (left, right), (low, high) = ax.get_xlim(), ax.get_ylim()
        text, height = f"best constant {short(self.constant_risk)}", self.constant_risk
        shown = max(high, height + 0.08 * (high - low))
        if height > high + FAR * (high - low):
            text, height, shown = f"\N{UPWARDS ARROW} {text}, above the picture", high, high
        else:
            ax.axhline(height, color=GREY, linewidth=1.0, linestyle=(0, (4, 2)), zorder=1)
        ax.set_ylim(min(low, height - 0.08 * (high - low)), shown)
        return [PointLabel(text, (left + 0.75 * (right - left), height), GREY)]

    def _labels(self) -> list[PointLabel]:
        """Names of the base model, of the others, and of as many points as there is room for."""
        labels = [PointLabel("base model", (self.base_unfairness, self.base_risk), MARK)]
        for name, (unfairness, risk) in self.baselines.items():
            end = float(np.ravel(unfairness)[-1]), float(np.ravel(risk)[-1])
            labels.append(PointLabel(name_of(name, 28), end, "0.25"))
        n_points = len(self.epsilon)
        for place in dict.fromkeys((0, n_points - 1, *range(1, n_points - 1))):
            text = f"{f'{EPSILON} = ' if place == 0 else ''}{self.epsilon[place]:.2g}"
            point = float(self.unfairness[place]), float(self.risk[place])
            labels.append(PointLabel(text, point, GREY, needed=place in (0, n_points - 1)))
        return labels

    def _obstacles(self) -> Obstacles:
        points = np.column_stack([self.unfairness, self.risk])
        found = Obstacles([*map(tuple, points), (self.base_unfairness, self.base_risk)], [points])
        for unfairness, risk in self.baselines.values():
            other = np.column_stack([np.ravel(unfairness), np.ravel(risk)])
            found.markers += map(tuple, other)
            found.lines.append(other)
        for place, (x, y) in enumerate(points):
            if self.risk_interval is not None:
                found.bars.append(np.array([[x, low_high[place]] for low_high in self.risk_interval]))
            if self.unfairness_interval is not None:
                found.bars.append(np.array([[low_high[place], y] for low_high in self.unfairness_interval]))
        far = 1e3 * max(1.0, float(self.unfairness.max()))
        if self.constant_risk is not None:
            found.lines.append(np.array([[0.0, self.constant_risk], [far, self.constant_risk]]))
        return found
