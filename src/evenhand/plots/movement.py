"""Who moved: new against old score, group by group."""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenhand._utils.frames import make_frame
from evenhand._utils.typing import FloatArray, IntArray
from evenhand._utils.validation import Labels
from evenhand.metrics import Membership
from evenhand.metrics._inputs import Blocks, as_vector
from evenhand.plots.rows import ModelRows, count_unknown, members_of, pmf_of
from evenhand.plots.style import (
    GREY,
    INK,
    OTHERS,
    Display,
    figure_headline,
    group_marker,
    group_panels,
    headline,
    name_of,
    named_places,
    short,
    signed,
    tidy,
)

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)  # quantiles of the new scores in each bin of old ones
ROWS_A_BIN = 15.0  # fewer do not show a band
MOST_BINS = 12


@dataclass(frozen=True, slots=True, eq=False)
class Moves:
    """New scores of one group in bins of the old ones."""

    old: FloatArray  # mean old score of each bin, (n_bins,)
    mean: FloatArray  # mean new score of each bin, (n_bins,)
    quantiles: FloatArray  # of the new scores, (n_bins, len(LEVELS))
    weight: FloatArray  # of each bin in the group, sums to one, (n_bins,)

    @property
    def mean_move(self) -> float:
        """Mean of new less old over the group."""
        return float(self.weight @ (self.mean - self.old))


@dataclass(frozen=True, eq=False)
class MovementDisplay(Display):
    """New against old score: the median and two bands in each group, readable for any number of rows.

    Each group's rows are cut into bins of equal weight by their old score. The bands hold half, and nine in
    ten, of the new scores of a bin.

    Parameters
    ----------
    groups : tuple of labels
    moves : tuple of Moves
        One for each group.
    value_name : str
        What is predicted, with its unit.
    n_unknown : int
        Rows whose group is missing, which are left out.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes (one, or an array of them) and Figure, once `plot` was called

    Examples
    --------
    >>> import numpy as np
    >>> from evenhand.plots import MovementDisplay
    >>> old = np.arange(100.0)
    >>> shown = MovementDisplay.from_predictions(old, old + 2.0, np.repeat(["a", "b"], 50))
    >>> [float(each.mean_move) for each in shown.moves]
    [2.0, 2.0]
    """

    groups: tuple[Hashable, ...]
    moves: tuple[Moves, ...]
    value_name: str = "score"
    n_unknown: int = 0

    @classmethod
    def from_predictions(
        cls,
        old: Any,
        new: Any,
        sensitive_features: Any,
        *,
        atoms: Any = None,
        sample_weight: Any = None,
        n_bins: int | None = None,
        value_name: str = "score",
    ) -> "MovementDisplay":
        """Display of two predictions for the same rows.

        Parameters
        ----------
        old : array of shape (n_rows,)
        new : array of shape (n_rows,) or (n_rows, n_atoms)
            Values, such as means or draws, or the probability of each atom: as if all were drawn.
        sensitive_features : array or data frame of shape (n_rows,) or (n_rows, n_columns)
            Labels, in one column or several; or the probability of each group where the label is not known,
            columns of numbers that sum to one. Rows whose group is missing are left out, and counted.
        atoms : array of shape (n_atoms,), optional
            Value of each column of a pmf.
        sample_weight : array of shape (n_rows,), optional
        n_bins : int, default=None
            In each group; by default up to 12, with 15 rows or more in each.
        value_name : str
            Stands after "Old" and "New" beside the axes.
        """
        values = as_vector("old", old)
        members = members_of(sensitive_features, len(values), sample_weight)
        bins = _Bins.of(values, members, n_bins)
        if np.ndim(new) == 2:
            moves = bins.moves_of_blocks(*pmf_of(new, "new", len(values), atoms))
        else:
            moves = bins.moves_of_values(as_vector("new", new, len(values)))
        return cls(members.labels, moves, value_name, count_unknown(members))

    @classmethod
    def from_model(
        cls,
        model: Any,
        *rows: Any,
        sample_weight: Any = None,
        n_bins: int | None = None,
        value_name: str | None = None,
        label: Hashable = None,
        **named: Any,
    ) -> "MovementDisplay":
        """Display of scores, and of what a fitted model draws for them: `from_model(model, X, groups)`.

        Of a classifier it is the probability of one class, and the chance that it is decided for.

        Parameters
        ----------
        model : estimator
            Fitted, with a parity step or as a baseline of this package; in a pipeline or a search, too.
        *rows, **named
            `X, sensitive_features`, or for a `ParityPostprocessor` `scores, group_proba,
            sensitive_features`, in this order or by these names. Groups are as in `from_predictions`;
            without them a row counts in each group of the model by its probability of being in it.
        sample_weight, n_bins
            As in `from_predictions`.
        value_name : str, default=None
            As in `from_predictions`; "score", or "chance of <class>" by default.
        label : label of a class, default=None
            Of a classifier; the last of its classes by default.
        """
        read = ModelRows.read(model, rows, named, sample_weight)
        if read.before is None or not isinstance(read.after, Iterator):
            raise TypeError(
                f"{type(model).__name__} does not tell what its predictions were before: pass both to "
                "MovementDisplay.from_predictions(old, new, sensitive_features)."
            )
        if read.classes is None:
            bins = _Bins.of(read.before, read.members, n_bins)
            moves = bins.moves_of_blocks(read.after, read.atoms)
            return cls(read.members.labels, moves, value_name or "score", count_unknown(read.members))
        place = len(read.classes) - 1 if label is None else _place_of(label, read.classes)
        new = np.concatenate([block[:, place] for _, block in read.after])
        moves = _Bins.of(read.before[:, place], read.members, n_bins).moves_of_values(new)
        name = value_name or f"chance of {name_of(read.classes[place])}"
        return cls(read.members.labels, moves, name, count_unknown(read.members))

    def frame(self, backend: str | None = None) -> Any:
        """One row for each bin of each group: old score, mean and quantiles of the new one, share of rows.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"} or None, default=None
            The first of them that is installed by default.
        """
        names = [name_of(group, 10_000) for group in self.groups]
        quantiles = np.concatenate([each.quantiles for each in self.moves])
        columns = {
            "group": np.repeat(names, [len(each.old) for each in self.moves]),
            "old": np.concatenate([each.old for each in self.moves]),
            "mean": np.concatenate([each.mean for each in self.moves]),
            **{f"q{round(100 * level):02d}": quantiles[:, i] for i, level in enumerate(LEVELS)},
            "share": np.concatenate([each.weight for each in self.moves]),
        }
        return make_frame(columns, backend)

    def plot(self, ax: Any = None) -> "MovementDisplay":
        """Draw a panel for each group in a figure of its own, or the medians of all groups into `ax`.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
        """
        if ax is not None:
            self._draw_all(ax)
            return self._drawn(ax)
        axes = group_panels(len(self.groups), side=2.0)
        for place, panel in enumerate(axes):
            self._draw_group(panel, place)
        figure = axes[0].figure
        figure_headline(figure, self._sentence())
        figure.supxlabel(f"Old {self.value_name}", fontsize="medium")
        figure.supylabel(f"New {self.value_name}", fontsize="medium")
        return self._drawn(axes)

    def _limits(self) -> tuple[float, float]:
        values = np.concatenate([np.append(each.old, each.quantiles) for each in self.moves])
        low, high = float(values.min()), float(values.max())
        margin = 0.04 * (high - low) or 0.5
        return low - margin, high + margin

    def _sentence(self) -> str:
        most = max(range(len(self.groups)), key=lambda place: abs(self.moves[place].mean_move))
        move = self.moves[most].mean_move
        way = "up" if move > 0 else "down"
        left_out = f" ({self.n_unknown} rows without a group left out)" if self.n_unknown else ""
        name = name_of(self.groups[most])
        return f"Group {name} moves most: {way} by {short(abs(move))} on average{left_out}"

    def _draw_group(self, ax: Any, place: int) -> None:
        moves = self.moves[place]
        self._square(ax)
        for low, high, alpha in ((0, 4, 0.18), (1, 3, 0.35)):
            edges = moves.quantiles[:, low], moves.quantiles[:, high]
            ax.fill_between(moves.old, *edges, color=INK, alpha=alpha, linewidth=0)
        ax.plot(moves.old, moves.quantiles[:, 2], color=INK, linewidth=1.4, marker="o", markersize=3)
        if place == 0:
            self._explain(ax, moves)
        title = f"{name_of(self.groups[place])}\n{signed(moves.mean_move)} on average"
        ax.set_title(title, loc="left", fontsize="small")

    def _explain(self, ax: Any, moves: Moves) -> None:
        note = "line: median\nbands: 50 %, 90 %\nthin: unchanged"
        above = np.mean(moves.quantiles[:, 2]) > np.mean(moves.old)
        place, ha, va = ((0.97, 0.03), "right", "bottom") if above else ((0.03, 0.97), "left", "top")
        ax.text(*place, note, transform=ax.transAxes, ha=ha, va=va, fontsize=6.5, color=GREY)

    def _draw_all(self, ax: Any) -> None:
        self._square(ax)
        sizes = np.abs([moves.mean_move for moves in self.moves])
        named = named_places(sizes)
        rest = [place for place in range(len(self.groups)) if place not in named]
        for place in rest:
            label = f"{len(rest)} others: up to {short(sizes[rest].max())}" if place == rest[0] else None
            ax.plot(self.moves[place].old, self.moves[place].quantiles[:, 2], label=label, **OTHERS)
        for place in named:
            moves = self.moves[place]
            label = f"{name_of(self.groups[place])}: {signed(moves.mean_move)}"
            style = group_marker(place)
            ax.plot(moves.old, moves.quantiles[:, 2], label=label, linewidth=1.4, **style)
            band = moves.quantiles[:, 1], moves.quantiles[:, 3]
            if len(self.groups) <= 3:  # more bands hide each other
                ax.fill_between(moves.old, *band, color=style["color"], alpha=0.15, linewidth=0)
        ax.set_xlabel(f"Old {self.value_name}")
        ax.set_ylabel(f"New {self.value_name} (median)")
        ax.legend(fontsize=7, frameon=False, title="Mean move", title_fontsize=7, handlelength=3)
        headline(ax, self._sentence())

    def _square(self, ax: Any) -> None:
        tidy(ax)
        limits = self._limits()
        ax.plot(limits, limits, color=GREY, linewidth=0.8)
        ax.set_xlim(limits)
        ax.set_ylim(limits)
        ax.set_aspect("equal")


@dataclass(frozen=True, slots=True, eq=False)
class _Bins:
    """Bin of each row in each group, by its old score."""

    old: FloatArray
    members: Membership
    places: list[IntArray]  # for each group, (n_rows,)
    counts: list[int]

    @classmethod
    def of(cls, old: FloatArray, members: Membership, n_bins: int | None) -> "_Bins":
        if n_bins is not None and n_bins < 1:
            raise ValueError(f"n_bins must be at least 1: got {n_bins}.")
        points, positions = np.unique(old, return_inverse=True)
        places, counts = [], []
        for group in range(len(members.labels)):
            column = members.column(group)
            mass = np.bincount(positions, column, minlength=len(points))
            n_rows = float(column.sum() ** 2 / (column**2).sum())  # as many rows of equal weight
            wanted = n_bins or int(np.clip(n_rows / ROWS_A_BIN, 1, MOST_BINS))
            middle = (np.cumsum(mass) - 0.5 * mass) / mass.sum()
            cells = np.minimum((middle * wanted).astype(np.int64), wanted - 1)
            _, cells = np.unique(cells[mass > 0], return_inverse=True)  # none is empty
            of_point = np.zeros(len(points), dtype=np.int64)
            of_point[mass > 0] = cells
            places.append(of_point[positions])
            counts.append(int(cells.max()) + 1)
        return cls(old, members, places, counts)

    def moves_of_values(self, new: FloatArray) -> tuple[Moves, ...]:
        """Moves to plain values."""
        order = np.argsort(new, kind="stable")
        return tuple(self._moves(group, new, order) for group in range(len(self.counts)))

    def _moves(self, group: int, new: FloatArray, order: IntArray) -> Moves:
        column, places = self.members.column(group), self.places[group]
        n_bins = self.counts[group]
        mass, old, mean = (
            np.bincount(places, column * values, minlength=n_bins)
            for values in (np.ones_like(new), self.old, new)
        )
        inside = order[column[order] > 0]
        quantiles = np.empty((n_bins, len(LEVELS)))
        for cell in range(n_bins):
            rows = inside[places[inside] == cell]
            quantiles[cell] = _quantiles(new[rows], column[rows])
        return Moves(old / mass, mean / mass, quantiles, mass / mass.sum())

    def moves_of_blocks(self, blocks: Blocks, atoms: FloatArray) -> tuple[Moves, ...]:
        """Moves to all that a pmf may draw."""
        masses = [np.zeros((n_bins, len(atoms))) for n_bins in self.counts]
        old = [np.zeros(n_bins) for n_bins in self.counts]
        for rows, pmf in blocks:
            for group, n_bins in enumerate(self.counts):
                column, places = self.members.column(group, rows), self.places[group][rows]
                masses[group] += ((places[:, None] == np.arange(n_bins)) * column[:, None]).T @ pmf
                old[group] += np.bincount(places, column * self.old[rows], minlength=n_bins)
        return tuple(_moves_of_masses(*each, atoms) for each in zip(masses, old, strict=True))


def _moves_of_masses(masses: FloatArray, old: FloatArray, atoms: FloatArray) -> Moves:
    total = masses.sum(axis=1)
    quantiles = np.stack([_quantiles(atoms, row) for row in masses])
    return Moves(old / total, masses @ atoms / total, quantiles, total / total.sum())


def _place_of(label: Hashable, classes: Labels) -> int:
    if label not in classes:
        raise ValueError(f"label must be one of the classes {', '.join(map(str, classes))}: got {label!r}.")
    return classes.index(label)


def _quantiles(points: FloatArray, masses: FloatArray) -> FloatArray:
    """Smallest point whose cumulated share reaches each level; the points are sorted."""
    reached = np.cumsum(masses)
    slip = 1e-12  # of the sum
    places = np.searchsorted(reached / reached[-1], np.array(LEVELS) - slip)
    return points[np.minimum(places, len(points) - 1)]
