"""Risk and unfairness while a solver runs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenhand._utils.frames import make_frame
from evenhand._utils.typing import FloatArray
from evenhand.plots.style import (
    EMPHASIS,
    GREY,
    MARKERS,
    Display,
    group_line,
    headline,
    name_of,
    spread_out,
    subplots,
    tidy,
)

LABEL_GAP = 10.0  # points between the labels of two lines
PANELS = ("unfairness", "risk")
WORK = "Work of the solver: rows looked at (gradients of single rows)"


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """What one solver had reached after some of its work."""

    name: str
    n_gradient_rows: FloatArray  # single-row gradients so far, increasing, (n_records,)
    risk: FloatArray  # (n_records,)
    unfairness: FloatArray  # (n_records,)


@dataclass(frozen=True, eq=False)
class ConvergenceDisplay(Display):
    """Unfairness and risk against the single-row gradients that a solver has evaluated.

    `evenhand.history.History` records a fit for it.

    Parameters
    ----------
    runs : tuple of Run
        One for each solver.
    epsilon : float or None
        What was asked for, drawn as a line under the unfairness.
    risk_name, unfairness_name : str
        Labels of the axes.
    measured_on : str
        Which rows the numbers are of, and what is known of them: "598 rows with known groups".

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes (one, or an array of them) and Figure, once `plot` was called

    Examples
    --------
    >>> from evenhand.plots import ConvergenceDisplay
    >>> shown = ConvergenceDisplay.from_runs({"sgd": ([10, 100], [0.2, 0.3], [0.5, 0.1])}, epsilon=0.05)
    >>> shown.frame("pandas")["unfairness"].tolist()
    [0.5, 0.1]
    """

    runs: tuple[Run, ...]
    epsilon: float | None = None
    risk_name: str = "Risk (mean squared error)"
    unfairness_name: str = "Largest KS distance\nof a group to all rows"
    measured_on: str = ""

    @classmethod
    def from_runs(
        cls,
        runs: Mapping[str, tuple[Any, Any, Any]],
        *,
        epsilon: float | None = None,
        risk_name: str = "Risk (mean squared error)",
        unfairness_name: str = "Largest KS distance\nof a group to all rows",
        measured_on: str = "",
    ) -> "ConvergenceDisplay":
        """Display of arrays.

        Parameters
        ----------
        runs : dict of name -> (n_gradient_rows, risk, unfairness)
            Three arrays of the same length for each solver.
        epsilon : float, optional
        risk_name, unfairness_name, measured_on : str
        """
        made = []
        for name, columns in runs.items():
            rows, risk, unfairness = (np.asarray(column, dtype=np.float64) for column in columns)
            if rows.ndim != 1 or len(rows) == 0 or not rows.shape == risk.shape == unfairness.shape:
                raise ValueError(
                    f"Run {name!r} needs three arrays of the same length, at least 1: got shapes "
                    f"{rows.shape}, {risk.shape} and {unfairness.shape}."
                )
            made.append(Run(name, rows, risk, unfairness))
        if not made:
            raise ValueError("runs is empty: give at least one.")
        return cls(tuple(made), epsilon, risk_name, unfairness_name, measured_on)

    def __add__(self, other: "ConvergenceDisplay") -> "ConvergenceDisplay":
        """The runs of both in one picture."""
        runs = (*self.runs, *other.runs)
        rows = "; ".join(dict.fromkeys(each for each in (self.measured_on, other.measured_on) if each))
        return ConvergenceDisplay(runs, self.epsilon, self.risk_name, self.unfairness_name, rows)

    def frame(self, backend: str | None = None) -> Any:
        """One row for each record of each run.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"} or None, default=None
            The first of them that is installed by default.
        """
        columns: dict[str, Any] = {
            "solver": np.repeat([run.name for run in self.runs], [len(run.risk) for run in self.runs])
        }
        for name in ("n_gradient_rows", "risk", "unfairness"):
            columns[name] = np.concatenate([getattr(run, name) for run in self.runs])
        return make_frame(columns, backend)

    def plot(self, ax: Any = None) -> "ConvergenceDisplay":
        """Draw unfairness above risk in a figure of its own, or into `ax`.

        Parameters
        ----------
        ax : matplotlib Axes or pair of them, default=None
            One Axes takes the unfairness alone.
        """
        if ax is not None and not isinstance(ax, np.ndarray | list | tuple):
            self._panel(ax, "unfairness")
            ax.set_xlabel(WORK)
            headline(ax, self._sentence())
            return self._drawn(ax)
        axes = (
            subplots(2, 1, size=(6.4, 4.6), sharex=True)[:, 0] if ax is None else np.asarray(ax, dtype=object)
        )
        for panel, what in zip(axes, PANELS, strict=True):
            self._panel(panel, what)
        axes[-1].set_xlabel(WORK)
        headline(axes[0], self._sentence())
        return self._drawn(axes)

    def _sentence(self) -> str:
        last = min(self.runs, key=lambda run: run.unfairness[-1])
        goal = "" if self.epsilon is None else f" (asked for: {self.epsilon:.2g})"
        where = f", measured on {self.measured_on}" if self.measured_on else ""
        rows = f"{int(last.n_gradient_rows[-1]):,}".replace(",", "\N{THIN SPACE}")
        reached = f"{name_of(last.name)} ends at a distance of {last.unfairness[-1]:.2g}{goal}"
        return f"{reached} after {rows} gradients{where}"

    def _panel(self, ax: Any, what: str) -> None:
        tidy(ax)
        for place, run in enumerate(self.runs):
            marker = MARKERS[place % len(MARKERS)] if len(run.risk) < 30 else ""
            width = EMPHASIS if len(self.runs) == 1 else 1.4
            style = {**group_line(place), "linewidth": width, "marker": marker, "markersize": 3.5}
            ax.plot(run.n_gradient_rows, getattr(run, what), **style)
        ax.set_xscale("log")
        ax.set_ylabel(self.unfairness_name if what == "unfairness" else self.risk_name)
        ax.margins(y=0.1)
        if what == "unfairness":
            ax.set_ylim(bottom=0.0)
            if self.epsilon is not None:
                ax.axhline(self.epsilon, color=GREY, linewidth=1.0, linestyle=(0, (4, 2)), zorder=1)
        self._label_ends(ax, what)

    def _label_ends(self, ax: Any, what: str) -> None:
        """Name each run at the right of its last point, and what was asked for."""
        ends = [float(getattr(run, what)[-1]) for run in self.runs]
        texts = [f"{name_of(run.name)} {end:.3g}" for run, end in zip(self.runs, ends, strict=True)]
        colours = [group_line(place)["color"] for place in range(len(ends))]
        if what == "unfairness" and self.epsilon is not None:
            ends, texts = [*ends, self.epsilon], [*texts, f"asked for {self.epsilon:.2g}"]
            colours.append(GREY)
        low, high = ax.get_ylim()
        height = 72.0 * ax.get_position().height * ax.figure.get_figheight()
        places = spread_out(np.array(ends), LABEL_GAP * (high - low) / height)
        for text, place, colour in zip(texts, places, colours, strict=True):
            # Outside the axes, where no line can cross it.
            ax.annotate(
                text, (1.0, place), (4, 0), xycoords=("axes fraction", "data"), textcoords="offset points",
                va="center", fontsize=7.5, color=colour, annotation_clip=False,
            )  # fmt: skip
