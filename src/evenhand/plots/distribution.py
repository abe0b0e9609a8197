"""Predictions by group, before and after: densities, distributions, and the largest gap between them."""

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evenhand._utils.frames import make_frame
from evenhand._utils.typing import AnyArray, FloatArray
from evenhand._utils.validation import Labels, check_epsilon
from evenhand.metrics import GroupMasses
from evenhand.metrics._inputs import as_vector
from evenhand.metrics.masses import Predictions
from evenhand.plots.rows import ModelRows, chance_gaps, count_unknown, members_of, pmf_of
from evenhand.plots.spread import Spread, common_edges, full_height, points_of
from evenhand.plots.style import (
    EMPHASIS,
    GREY,
    OTHERS,
    PALE,
    QUIET,
    Display,
    group_line,
    headline,
    name_of,
    named_places,
    subplots,
    tidy,
)

SHORT = 14  # characters of a name that fits into the title
KINDS = ("density", "cdf")
BACKDROP: dict[str, Any] = {"facecolor": "white", "edgecolor": "none", "framealpha": 0.8}
SHEER: dict[str, Any] = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.8}
LIMIT = "#f2d16b"  # of what was asked for: light enough to read through, in grey too
LEGEND_WIDTH, ENTRY_HEIGHT = 0.52, 0.065  # of a legend and of a line of it, as shares of the axes
RIDGE = 0.82  # height of the highest density, in the distance between two groups


@dataclass(frozen=True, eq=False)
class DistributionDisplay(Display):
    """Predictions' distribution by group, before and after, with the largest gap between curves.

    The gap of a group is its Kolmogorov-Smirnov distance to all rows, `max_t |F_s(t) - F(t)|`, or for
    decisions between classes the largest difference in the share of one class; it is computed from all
    rows, even where fewer points are drawn. Beside it stand what was asked for (epsilon) and what chance
    alone would show: the mean gap of groups of the same sizes that are drawn at random.

    Parameters
    ----------
    groups : tuple of labels
    stages : tuple of Spread
        In the order in which they are drawn, usually before and after.
    value_name : str
        What is predicted, with its unit.
    epsilon : array of shape (n_groups,), optional
        The gap that was asked for.
    classes : tuple of labels, optional
        Names of the values, where these are classes.
    n_unknown : int
        Rows whose group is missing, which are in no curve.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes (one, or an array of them) and Figure, once `plot` was called

    Examples
    --------
    >>> from evenhand.plots import DistributionDisplay
    >>> display = DistributionDisplay.from_predictions(
    ...     [1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 1.0, 2.0], ["a", "a", "b", "b"]
    ... )
    >>> [stage.gap.tolist() for stage in display.stages]
    [[0.5, 0.5], [0.0, 0.0]]
    """

    groups: tuple[Hashable, ...]
    stages: tuple[Spread, ...]
    value_name: str = "Prediction"
    epsilon: FloatArray | None = None
    classes: Labels | None = None
    n_unknown: int = 0

    @classmethod
    def from_predictions(
        cls,
        before: Any,
        after: Any,
        sensitive_features: Any,
        *,
        atoms: Any = None,
        sample_weight: Any = None,
        epsilon: Any = None,
        n_bins: int = 40,
        names: tuple[str, str] = ("Before", "After"),
        value_name: str = "Prediction",
    ) -> "DistributionDisplay":
        """Display of two sets of predictions for the same rows, or of one.

        Parameters
        ----------
        before : array of shape (n_rows,)
        after : array of shape (n_rows,) or (n_rows, n_atoms), or None
            Values, or the probability of each atom; None to look at `before` alone.
        sensitive_features : array or data frame of shape (n_rows,) or (n_rows, n_columns)
            Labels, in one column or several; or the probability of each group where the label is not known,
            columns of numbers that sum to one. Rows whose group is missing are left out, and counted.
        atoms : array of shape (n_atoms,), optional
            Value of each column of a pmf.
        sample_weight : array of shape (n_rows,), optional
        epsilon : float, array of shape (n_groups,) or dict, optional
            The gap that was asked for, to be drawn.
        n_bins : int
            Of the densities.
        names : pair of str
            What the two sets are called.
        value_name : str
            Label of the horizontal axis, with the unit.
        """
        values = as_vector("before", before)
        members = members_of(sensitive_features, len(values), sample_weight)
        sets = [Predictions.read(values, None)]
        if after is not None and np.ndim(after) == 2:
            _, grid = pmf_of(after, "after", len(values), atoms)
            sets.append(Predictions.read(after, grid))
        elif after is not None:
            sets.append(Predictions.read(as_vector("after", after, len(values)), None))
        tables = [(each.masses(members), chance_gaps(each, members)) for each in sets]
        asked = None if epsilon is None else np.array(check_epsilon(epsilon, members.labels))
        shown = cls._from_tables(tables, n_bins, names, value_name, asked)
        return replace(shown, n_unknown=count_unknown(members))

    @classmethod
    def from_model(
        cls,
        model: Any,
        *rows: Any,
        sample_weight: Any = None,
        n_bins: int = 40,
        value_name: str = "Prediction",
        **named: Any,
    ) -> "DistributionDisplay":
        """Display of rows before and after a fitted model: `from_model(model, X, sensitive_features)`.

        "Before" is what the parity step starts from; of a model without one only its predictions are
        drawn. The distribution is read block by block, so that memory does not grow with the rows.

        Parameters
        ----------
        model : estimator
            Fitted: of this package, in a pipeline or a search, or any other with `predict`.
        *rows, **named
            `X, sensitive_features`, or for a `ParityPostprocessor` `scores, group_proba,
            sensitive_features`, in this order or by these names. Groups are as in `from_predictions`;
            without them a row counts in each group of the model by its probability of being in it.
        sample_weight, n_bins, value_name
            As in `from_predictions`.

        Examples
        --------
        >>> from evenhand import ParityRegressor
        >>> from evenhand.datasets import make_population
        >>> data = make_population(600, n_groups=2, random_state=0)
        >>> model = ParityRegressor(confidence=None).fit(
        ...     data.data, data.target, sensitive_features=data.sensitive_features
        ... )
        >>> shown = DistributionDisplay.from_model(model, data.data, data.sensitive_features)
        >>> [stage.name for stage in shown.stages], shown.epsilon
        (['Before', 'After'], array([0.05, 0.05]))
        """
        read = ModelRows.read(model, rows, named, sample_weight)
        metric = "ks" if read.classes is None else "sup"
        before = read.cheapest()
        tables = [read.measured(metric)]
        if before is not None:
            tables.insert(0, (before.masses(read.members), chance_gaps(before, read.members, metric)))
        names = ("Predictions",) if before is None else ("Before", "After")
        shown = cls._from_tables(tables, n_bins, names, value_name, read.epsilon(metric), read.classes)
        return replace(shown, n_unknown=count_unknown(read.members))

    @classmethod
    def _from_tables(
        cls,
        tables: list[tuple[GroupMasses, FloatArray]],
        n_bins: int,
        names: tuple[str, ...],
        value_name: str,
        epsilon: FloatArray | None,
        classes: Labels | None = None,
    ) -> "DistributionDisplay":
        has_classes = classes is not None
        edges = common_edges([table for table, _ in tables], n_bins, has_classes)
        stages = [
            Spread.from_masses(name, table.masses, points_of(table), edges, chance, has_classes)
            for name, (table, chance) in zip(names, tables, strict=False)
        ]
        return cls(tables[0][0].labels, tuple(stages), value_name, epsilon, classes)

    def frame(self, backend: str | None = None, *, of: str = "gaps") -> Any:
        """The numbers of the picture as a data frame.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"} or None, default=None
            The first of them that is installed by default.
        of : {"gaps", "cdf", "density"}
            The gap of each group and where it is, what chance alone shows and what was asked for (nan where
            that is not known); the curves of the groups and of all rows at the points drawn; or their
            densities by bin.
        """
        if of not in ("gaps", *KINDS):
            raise ValueError(f"of must be 'gaps', 'cdf' or 'density': got {of!r}.")
        asked = np.full(len(self.groups), np.nan) if self.epsilon is None else self.epsilon
        parts = [stage.columns(self._names(), of, asked) for stage in self.stages]
        return make_frame(
            {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}, backend
        )

    def plot(self, ax: Any = None, *, kind: str | None = None) -> "DistributionDisplay":
        """Draw densities above distributions, a column for each stage, in a figure of its own or in `ax`.

        Parameters
        ----------
        ax : matplotlib Axes or array of them, default=None
            One Axes takes the last stage alone, as its "cdf" if no kind is named. An array has a row for
            each kind and a column for each stage.
        kind : {"density", "cdf"} or None, default=None
            One of the two; None is both.
        """
        if kind is not None and kind not in KINDS:
            raise ValueError(f"kind must be 'density' or 'cdf': got {kind!r}.")
        if ax is not None and not isinstance(ax, np.ndarray | list | tuple):
            self._panel(ax, kind or "cdf", self.stages[-1])
            return self._drawn(ax)
        kinds = KINDS if kind is None else (kind,)
        shape = len(kinds), len(self.stages)
        axes = self._axes(kinds) if ax is None else np.asarray(ax, dtype=object).reshape(shape)
        for row, one in enumerate(kinds):
            for column, stage in enumerate(self.stages):
                self._panel(axes[row, column], one, stage, titled=row == 0, first=column == 0)
                axes[row, column].set_xlabel(self.value_name if row == shape[0] - 1 else "")
        return self._drawn(axes)

    def _axes(self, kinds: tuple[str, ...]) -> AnyArray:
        height = {"density": 0.6 + 0.4 * len(self.groups), "cdf": 2.5}
        heights = [height[kind] for kind in kinds]
        size = (0.6 + 3.3 * len(self.stages), 0.5 + sum(heights))
        return subplots(
            len(kinds), len(self.stages), size=size, sharex=True, sharey="row", height_ratios=heights
        )

    def _names(self) -> list[str]:
        return [name_of(group, 10_000) for group in self.groups]

    def _panel(self, ax: Any, kind: str, stage: Spread, *, titled: bool = True, first: bool = True) -> None:
        tidy(ax, grid=kind == "cdf")
        if kind == "density":
            self._draw_densities(ax, stage, first)
        else:
            self._draw_curves(ax, stage, first)
        ax.set_xlim(stage.edges[0], stage.edges[-1])
        if self.classes is not None:
            ax.set_xticks(stage.points, [name_of(label) for label in self.classes])
        ax.set_xlabel(self.value_name)
        if titled:
            name = name_of(self.groups[stage.worst])
            whose = f" ({name})" if len(name) <= SHORT else ""  # else the bold line tells
            headline(ax, f"{stage.name}: the largest gap is {stage.gap[stage.worst]:.2g}{whose}")

    def _draw_densities(self, ax: Any, stage: Spread, first: bool) -> None:
        """A ridge for each group, the outline of all rows over it; bins that tower over the rest are cut."""
        full = full_height([one.density for one in self.stages])
        n_groups = len(self.groups)
        for place in range(n_groups):
            floor = n_groups - 1.0 - place
            heights = np.minimum(stage.density[[place, -1]] / full, 1.0)
            ridge, all_rows = (floor + self._ridge() * heights).tolist()
            line = {**group_line(place), "linestyle": "-"}
            ax.stairs(ridge, stage.edges, baseline=floor, fill=True, alpha=0.35, color=line["color"])
            ax.stairs(ridge, stage.edges, baseline=floor, linewidth=QUIET, **line)
            ax.stairs(
                all_rows, stage.edges, baseline=None, color="black", linewidth=0.9, linestyle=(0, (2, 1))
            )
            self._note_spike(ax, stage, place, full)
            self._note_gap(ax, stage, place)
        ax.set_ylim(-0.04, n_groups + 0.4)
        ax.set_yticks(range(n_groups), [name_of(group) for group in reversed(self.groups)], fontsize="small")
        ax.tick_params(axis="y", length=0, labelleft=first)
        ax.spines["left"].set_visible(False)
        if first:
            note = {"ha": "left", "va": "top", "fontsize": 7, "color": GREY, "transform": ax.transAxes}
            what = "shares of classes" if stage.has_classes else "densities"
            left_out = f" ({self.n_unknown} without a group left out)" if self.n_unknown else ""
            ax.text(0.0, 1.0, f"{what}; dashed: all rows{left_out}", **note)

    def _ridge(self) -> float:
        """Height of a ridge that is full; classes fill its whole width, and leave room for a note above."""
        return RIDGE if self.classes is None else 0.55

    def _note_spike(self, ax: Any, stage: Spread, place: int, full: float) -> None:
        """Say what share of the group is in its highest bin, where that bin was cut."""
        density = stage.density[place]
        here = int(density.argmax())
        if density[here] <= full * (1.0 + 1e-9):
            return
        middle, top = stage.edges[here : here + 2].mean(), len(self.groups) - 1.0 - place + RIDGE
        share = density[here] * np.diff(stage.edges)[here]
        side = "left" if here < len(density) / 2 else "right"
        text = f"\N{UPWARDS ARROW} {100 * share:.0f} % here"
        ax.annotate(
            text, (middle, top), (4 if side == "left" else -4, -1), textcoords="offset points",
            ha=side, va="top", fontsize=7, bbox={**SHEER, "pad": 0.5},
        )  # fmt: skip

    def _note_gap(self, ax: Any, stage: Spread, place: int) -> None:
        floor, side = len(self.groups) - 1.0 - place, _emptier_side(stage.density[place])
        above, between = (0.3, "\n") if self.classes is None else (0.6, ", ")
        note = {"va": "bottom", "fontsize": 7, "transform": ax.get_yaxis_transform(), "bbox": SHEER}
        note |= {"ha": "left" if side == 0.0 else "right"}
        chance = f"{between}chance {stage.chance[place]:.2g}" if np.isfinite(stage.chance[place]) else ""
        ax.text(side, floor + above, f"gap {stage.gap[place]:.2g}{chance}", color=GREY, **note)

    def _draw_curves(self, ax: Any, stage: Spread, first: bool) -> None:
        """The distributions, the farthest group in bold, and a bar where it is farthest from all rows."""
        ax.plot(*stage.curve(-1), color=PALE, linewidth=4.5, label="all rows")
        named = named_places(stage.gap)
        for place in named:
            width = EMPHASIS if place == stage.worst else QUIET
            name = f"{name_of(self.groups[place])}: {stage.gap[place]:.2g}"
            ax.plot(*stage.curve(place), linewidth=width, label=name, **group_line(place))
        rest = [place for place in range(len(self.groups)) if place not in named]
        for place in rest:
            label = f"{len(rest)} others: up to {stage.gap[rest].max():.2g}" if place == rest[0] else None
            ax.plot(*stage.curve(place), label=label, zorder=1.9, **OTHERS)
        self._draw_limits(ax, stage)
        n_entries = len(ax.get_legend_handles_labels()[1])
        corner = "upper left" if stage.has_classes else _emptier_corner(stage, n_entries)
        beside_legend = corner == "upper left" and not stage.has_classes
        _draw_gap(ax, stage, right=beside_legend or stage.gap_at[stage.worst] < stage.edges.mean())
        # Shares of classes fill the width: the legend stands above them.
        top = max(one.curve(place)[1].max() for one in self.stages for place in range(len(self.groups)))
        ax.set_ylim(-0.02, top / (0.98 - ENTRY_HEIGHT * (n_entries + 1)) if stage.has_classes else 1.02)
        ax.set_yticks(np.linspace(0.0, 1.0, 6)[: 1 + int(np.ceil(5 * min(top, 1.0) - 1e-9))])
        if first:
            ax.set_ylabel("Share of rows in it" if stage.has_classes else "Share of rows up to it")
        title = "Gap to all rows"
        ax.legend(loc=corner, fontsize=7, title=title, title_fontsize=7, handlelength=2.6, **BACKDROP)

    def _draw_limits(self, ax: Any, stage: Spread) -> None:
        """Around all rows: as far as the farthest group may be, and as far as chance alone puts it."""
        along, middle = stage.curve(-1)
        if self.epsilon is not None:
            asked = float(self.epsilon[stage.worst])
            band = {"facecolor": LIMIT, "edgecolor": "0.55", "alpha": 0.45, "linewidth": 0.7, "zorder": 1.2}
            ax.fill_between(along, middle - asked, middle + asked, label=f"asked for: {asked:.2g}", **band)
        chance = float(stage.chance[stage.worst])
        if np.isfinite(chance):
            edge = {"color": "black", "linewidth": 0.8, "linestyle": (0, (1, 2)), "zorder": 1.8}
            ax.plot(along, middle - chance, label=f"chance alone: {chance:.2g}", **edge)
            ax.plot(along, middle + chance, **edge)


def _emptier_corner(stage: Spread, n_entries: int) -> str:
    """Of the two corners that distributions leave empty, the one where a legend hides less of them."""
    wide, high = LEGEND_WIDTH, ENTRY_HEIGHT * (n_entries + 1)
    along = np.linspace(0.0, 1.0, 101)
    values = stage.edges[0] + along * (stage.edges[-1] - stage.edges[0])
    curves = np.stack([np.interp(values, stage.points, cdf) for cdf in stage.cdf])
    lower = ((along > 1.0 - wide) & (curves < high)).mean()
    upper = ((along < wide) & (curves > 1.0 - high)).mean()
    return "lower right" if lower <= upper else "upper left"


def _emptier_side(density: FloatArray) -> float:
    """0 for the left end of a ridge, 1 for the right: where a note hides less."""
    quarter = max(1, len(density) // 4)
    return 0.0 if density[:quarter].max() < density[-quarter:].max() else 1.0


def _draw_gap(ax: Any, stage: Spread, *, right: bool) -> None:
    """A bar between the farthest group and all rows, with its length to the right or to the left of it."""
    at, worst, ends = stage.gap_at[stage.worst], stage.worst, stage.ends_of_gap()
    ax.plot([at, at], ends, color="black", linewidth=1.6, marker="_", markersize=8, zorder=6)
    ax.annotate(
        f"{stage.gap[worst]:.2g}",
        (at, ends.mean()),
        (6 if right else -6, 0),
        textcoords="offset points",
        ha="left" if right else "right",
        va="center",
        fontsize="small",
        fontweight="bold",
        bbox={"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.8},
        zorder=7,
    )
