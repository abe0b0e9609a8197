"""What moved one person: the distribution before and after, and each group's push below it."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from evenhand._utils.frames import make_frame
from evenhand._utils.typing import FloatArray
from evenhand._utils.validation import Labels
from evenhand.plots.style import (
    EMPHASIS,
    GREY,
    INK,
    MARK,
    OTHERS,
    PALE,
    Display,
    figure_headline,
    group_line,
    name_of,
    named_places,
    subplots,
    tidy,
)


@dataclass(frozen=True, eq=False)
class PushDisplay(Display):
    """One person's distribution before and after the parity step, and what pushed it there.

    Above are the probabilities of the predictions, below what each group's constraint forgives of the cost of
    each: a prediction with a push of 9 is treated as if its squared error were 9 smaller. Pushes are drawn
    around zero at their mean over the predictions, which changes nothing; they add up to the sum. Made by
    `explain(...)[row].display()`.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes (two) and Figure, once `plot` was called
    """

    groups: tuple[str, ...]
    atoms: FloatArray  # (n_atoms,)
    before: FloatArray  # probabilities, (n_atoms,)
    after: FloatArray
    pushes: FloatArray  # in the units of the cost, (n_groups, n_atoms)
    sentence: str = ""
    score: float | None = None
    classes: Labels | None = None
    cost_name: str = "squared error"

    def frame(self, backend: str | None = None) -> Any:
        """One row for each prediction: probabilities, the push of each group, and their sum.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"} or None, default=None
            The first of them that is installed by default.
        """
        labels = self.atoms if self.classes is None else [str(label) for label in self.classes]
        columns = {"atom": labels, "before": self.before, "after": self.after}
        columns |= {f"push: {name}": row for name, row in zip(self.groups, self.pushes, strict=True)}
        return make_frame(columns | {"sum": self.pushes.sum(axis=0)}, backend)

    def plot(self, ax: Any = None) -> "PushDisplay":
        """Draw into two Axes, or into a figure of its own.

        Parameters
        ----------
        ax : array of two matplotlib Axes, default=None
        """
        axes = subplots(2, 1, size=(6.4, 4.8), sharex=True).ravel() if ax is None else np.ravel(ax)
        if len(axes) != 2:
            raise ValueError(f"ax must be two Axes, one above the other: got {len(axes)}.")
        self._draw_distributions(axes[0])
        self._draw_pushes(axes[1])
        if self.classes is not None:
            axes[1].set_xticks(self.atoms, [name_of(label) for label in self.classes])
        axes[1].set_xlabel("Decision" if self.classes is not None else "Prediction")
        if ax is None:
            figure_headline(axes[0].figure, self.sentence[:1].upper() + self.sentence[1:])
        return self._drawn(axes)

    def _draw_distributions(self, ax: Any) -> None:
        # Bars as wide as the atoms are apart, so that fine grids read as areas.
        width = float(np.diff(self.atoms).min()) * (0.36 if self.classes is not None else 1.0)
        shift = width / 2 if self.classes is not None else 0.0
        ax.bar(self.atoms - shift, self.before, width, color=PALE, label="without parity")
        ax.bar(self.atoms + shift, self.after, width, color=INK, label="predicted")
        if self.score is not None:
            ax.axvline(self.score, color=MARK, linestyle="--", linewidth=1.2, label="score")
        ax.set_ylabel("Probability")
        ax.legend(frameon=False, fontsize="small")
        tidy(ax)

    def _draw_pushes(self, ax: Any) -> None:
        centred = self.pushes - self.pushes.mean(axis=1, keepdims=True)
        named = set(named_places(np.ptp(centred, axis=1)))
        marker = {"marker": "o"} if self.classes is not None else {}
        for place, row in enumerate(centred):
            style = group_line(place) if place in named else OTHERS
            label = f"push of {name_of(self.groups[place])}" if place in named else None
            ax.plot(self.atoms, row, **style, **marker, label=label)
        ax.plot(
            self.atoms,
            centred.sum(axis=0),
            color=GREY,
            linewidth=EMPHASIS,
            alpha=0.5,
            zorder=1.5,
            label="sum",
        )
        ax.axhline(0.0, color="0.8", linewidth=0.8, zorder=0)
        ax.set_ylabel(f"{self.cost_name.capitalize()}\nforgiven")
        ax.legend(frameon=False, fontsize="small")
        tidy(ax)
