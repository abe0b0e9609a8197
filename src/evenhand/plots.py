"""Displays: `.frame()` holds the numbers of a picture, `.plot()` draws them."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from evenhand._frames import make_frame
from evenhand._optional import import_optional
from evenhand._typing import FloatArray

# The house look: one dark ink for the subject, one warm mark for what it is compared with, grey for the rest.
# The two differ in lightness and in shape, so that neither a printer nor colour blindness confuses them.
INK = "#20506e"
MARK = "#d95f02"
GREY = "#6b6b6b"
LABEL_GAP = 0.08  # share of the axes' side: points nearer to a labelled one stay unlabelled


@dataclass(eq=False)
class FrontierDisplay:
    """Risk against the largest distance between a group and all rows, one point for each epsilon.

    Parameters
    ----------
    epsilon, risk, unfairness : arrays of shape (n_points,)
        In the order in which the line connects the points.
    base_risk, base_unfairness : float
        Of the scores before the parity step.
    risk_name, unfairness_name : str
        Labels of the axes.

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
    title: str = "The price of parity: one point for each tolerance \N{GREEK SMALL LETTER EPSILON}"
    ax_: Any = field(default=None, init=False, repr=False)
    figure_: Any = field(default=None, init=False, repr=False)

    def frame(self, backend: str | None = None) -> Any:
        """The points as a data frame; the last row, without epsilon, is the base model.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"} or None, default=None
            The first of them that is installed by default.
        """
        columns = {
            "epsilon": np.append(self.epsilon, np.nan),
            "risk": np.append(self.risk, self.base_risk),
            "unfairness": np.append(self.unfairness, self.base_unfairness),
        }
        return make_frame(columns, backend)

    def plot(self, ax: Any = None) -> "FrontierDisplay":
        """Draw into `ax`, or into a figure of its own.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
        """
        if ax is None:
            pyplot = import_optional("matplotlib.pyplot", extra="plot", purpose="Plotting")
            _, ax = pyplot.subplots(figsize=(6.4, 4.2), layout="constrained")
        line = {"color": INK, "linewidth": 1.6, "marker": "o", "markersize": 4.5}
        base = {"color": MARK, "linestyle": "", "marker": "D", "markersize": 8}
        ax.plot(self.unfairness, self.risk, **line, clip_on=False, zorder=3)  # whole markers at zero too
        ax.plot(self.base_unfairness, self.base_risk, **base, zorder=2)
        _tidy(ax)
        ax.set_xlabel(self.unfairness_name)
        ax.set_ylabel(self.risk_name)
        ax.set_title(self.title, loc="left", fontsize="medium", pad=16)  # room for the scale of large risks
        ax.margins(x=0.12, y=0.14)
        ax.set_xlim(left=0.0)
        self._label(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _label(self, ax: Any) -> None:
        """Name the base model, and the points that are far enough apart to be named."""
        base = self.base_unfairness, self.base_risk
        style = {"textcoords": "offset points", "fontsize": "small"}
        ax.annotate("base model", base, (0, -9), ha="center", va="top", color=MARK, **style)
        for place in self._apart(ax):
            point = self.unfairness[place], self.risk[place]
            name = "\N{GREEK SMALL LETTER EPSILON} = " if place == 0 else ""
            ax.annotate(f"{name}{self.epsilon[place]:.2g}", point, (5, 4), color=GREY, **style)

    def _apart(self, ax: Any) -> list[int]:
        """Points whose labels have room, both ends first."""
        places = ax.transAxes.inverted().transform(
            ax.transData.transform(np.column_stack([self.unfairness, self.risk]))
        )
        kept: list[int] = []
        for place in (0, len(places) - 1, *range(1, len(places) - 1)):
            if all(np.linalg.norm(places[place] - places[other]) > LABEL_GAP for other in kept):
                kept.append(place)
        return kept


def _tidy(ax: Any) -> None:
    """Two axes and a faint grid, no box."""
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    ax.grid(color="0.92", linewidth=0.8)
    ax.set_axisbelow(True)
