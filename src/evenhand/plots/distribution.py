"""Predictions by group, before and after: densities, distributions, and the largest gap between them."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenhand._utils.frames import make_frame
from evenhand._utils.typing import AnyArray, FloatArray
from evenhand.metrics import GroupMasses
from evenhand.metrics._inputs import as_vector
from evenhand.plots.rows import PolicyModel, members_of, model_blocks, pmf_of
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

MOST_POINTS = 800  # of a curve, at most: more do not show
TRIMMED = 0.001  # share of the rows on each side that may lie beyond the picture
SHORT = 14  # characters of a name that fits into the title
KINDS = ("density", "cdf")
BACKDROP: dict[str, Any] = {"facecolor": "white", "edgecolor": "none", "framealpha": 0.8}
RIDGE = 0.82  # height of the highest density, in the distance between two groups


@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """How one set of predictions is spread over the groups; the last row of a table is all rows."""

    name: str
    points: FloatArray  # where the curves are known, increasing, (n_points,)
    cdf: FloatArray  # share of predictions up to each point, (n_groups + 1, n_points)
    edges: FloatArray  # of the bins, (n_bins + 1,)
    density: FloatArray  # (n_groups + 1, n_bins)
    gap: FloatArray  # Kolmogorov-Smirnov distance of each group to all rows, (n_groups,)
    gap_at: FloatArray  # where it is reached first, (n_groups,)

    @classmethod
    def from_masses(cls, name: str, masses: FloatArray, points: FloatArray, edges: FloatArray) -> "Spread":
        """The stage in which each group has some mass at each point, (n_groups, n_points)."""
        every = np.vstack([masses, masses.sum(axis=0)])
        cdf = np.cumsum(every / every.sum(axis=1, keepdims=True), axis=1)
        distance = np.abs(cdf[:-1] - cdf[-1])
        places = distance.argmax(axis=1)
        kept = _shown(points, cdf[-1], places)
        # A point's mass is spread over the cell around it: bins that do not match the atoms would comb.
        borders = cell_borders(points)
        reached = np.stack([np.interp(edges, borders, np.append(0.0, curve)) for curve in cdf])
        density = np.diff(reached, axis=1) / np.diff(edges)
        return cls(name, points[kept], cdf[:, kept], edges, density, distance.max(axis=1), points[places])

    @property
    def worst(self) -> int:
        """Place of the group with the largest gap."""
        return int(self.gap.argmax())


@dataclass(frozen=True, eq=False)
class DistributionDisplay(Display):
    """Predictions' distribution by group, before and after, with the largest gap between curves.

    The gap of a group is its Kolmogorov-Smirnov distance to all rows, `max_t |F_s(t) - F(t)|`; it is
    computed from all rows, even where fewer points are drawn.

    Parameters
    ----------
    groups : tuple of labels
    stages : tuple of Spread
        In the order in which they are drawn, usually before and after.
    value_name : str
        What is predicted, with its unit.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes (one, or an array of them) and Figure, once `plot` was called

    Examples
    --------
    >>> display = DistributionDisplay.from_predictions(
    ...     [1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 1.0, 2.0], ["a", "a", "b", "b"]
    ... )
    >>> [stage.gap.tolist() for stage in display.stages]
    [[0.5, 0.5], [0.0, 0.0]]
    """

    groups: tuple[Hashable, ...]
    stages: tuple[Spread, ...]
    value_name: str = "Prediction"

    @classmethod
    def from_predictions(
        cls,
        before: Any,
        after: Any,
        sensitive_features: Any,
        *,
        atoms: Any = None,
        sample_weight: Any = None,
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
            columns of numbers that sum to one.
        atoms : array of shape (n_atoms,), optional
            Value of each column of a pmf.
        sample_weight : array of shape (n_rows,), optional
        n_bins : int
            Of the densities.
        names : pair of str
            What the two sets are called.
        value_name : str
            Label of the horizontal axis, with the unit.
        """
        values = as_vector("before", before)
        members = members_of(sensitive_features, len(values), sample_weight)
        tables = [GroupMasses.of_values(values, members)]
        if after is not None and np.ndim(after) == 2:
            blocks, grid = pmf_of(after, "after", len(values), atoms)
            tables.append(GroupMasses.of_blocks(blocks, members, grid))
        elif after is not None:
            tables.append(GroupMasses.of_values(as_vector("after", after, len(values)), members))
        return cls._from_tables(tables, n_bins, names, value_name)

    @classmethod
    def from_model(
        cls,
        model: PolicyModel,
        scores: Any,
        group_proba: Any,
        sensitive_features: Any = None,
        *,
        sample_weight: Any = None,
        n_bins: int = 40,
        value_name: str = "Prediction",
    ) -> "DistributionDisplay":
        """Display of scores, and of what a fitted `ParityPostprocessor` makes of them.

        Its distribution is read block by block, so that memory does not grow with the rows.

        Parameters
        ----------
        model : ParityPostprocessor
        scores : array of shape (n_rows,)
        group_proba : array of shape (n_rows, n_groups)
        sensitive_features : array or data frame, optional
            As in `from_predictions`. Without it a row counts in each group by `group_proba`.
        sample_weight, n_bins, value_name
            As in `from_predictions`.
        """
        values = as_vector("scores", scores)
        members = members_of(sensitive_features, len(values), sample_weight, group_proba)
        blocks = model_blocks(model, values, group_proba)
        after = GroupMasses.of_blocks(blocks, members, model.atoms_)
        tables = [GroupMasses.of_values(values, members), after]
        return cls._from_tables(tables, n_bins, ("Before", "After"), value_name)

    @classmethod
    def _from_tables(
        cls, tables: list[GroupMasses], n_bins: int, names: tuple[str, str], value_name: str
    ) -> "DistributionDisplay":
        if n_bins < 1:
            raise ValueError(f"n_bins must be at least 1: got {n_bins}.")
        ranges = np.array([_range(table) for table in tables])
        edges = np.linspace(ranges[:, 0].min(), ranges[:, 1].max(), n_bins + 1)
        stages = [
            Spread.from_masses(name, table.masses, _points(table), edges)
            for name, table in zip(names, tables, strict=False)
        ]
        return cls(tables[0].labels, tuple(stages), value_name)

    def frame(self, backend: str | None = None, *, of: str = "gaps") -> Any:
        """The numbers of the picture as a data frame.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"} or None, default=None
            The first of them that is installed by default.
        of : {"gaps", "cdf", "density"}
            The gap of each group and where it is; the curves of the groups and of all rows at the points
            drawn; or their densities by bin.
        """
        if of not in ("gaps", *KINDS):
            raise ValueError(f"of must be 'gaps', 'cdf' or 'density': got {of!r}.")
        parts = [_columns(stage, self._names(), of) for stage in self.stages]
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
        ax.set_xlabel(self.value_name)
        if titled:
            name = name_of(self.groups[stage.worst])
            whose = f" ({name})" if len(name) <= SHORT else ""  # else the bold line tells
            headline(ax, f"{stage.name}: the largest gap is {stage.gap[stage.worst]:.2g}{whose}")

    def _draw_densities(self, ax: Any, stage: Spread, first: bool) -> None:
        """A ridge for each group, the outline of all rows over it."""
        highest = max(one.density.max() for one in self.stages)
        n_groups = len(self.groups)
        for place in range(n_groups):
            floor = n_groups - 1.0 - place
            ridge, all_rows = (floor + RIDGE * stage.density[[place, -1]] / highest).tolist()
            line = {**group_line(place), "linestyle": "-"}
            ax.stairs(ridge, stage.edges, baseline=floor, fill=True, alpha=0.35, color=line["color"])
            ax.stairs(ridge, stage.edges, baseline=floor, linewidth=QUIET, **line)
            ax.stairs(
                all_rows, stage.edges, baseline=None, color="black", linewidth=0.9, linestyle=(0, (2, 1))
            )
        for place in range(n_groups):
            floor = n_groups - 1.0 - place
            side = _emptier_side(stage.density[place])
            note = {"va": "bottom", "fontsize": 7, "transform": ax.get_yaxis_transform()}
            note |= {"ha": "left" if side == 0.0 else "right"}
            ax.text(side, floor + 0.42, f"gap {stage.gap[place]:.2g}", color=GREY, **note)
        ax.set_ylim(-0.04, n_groups + 0.4)
        ax.set_yticks(range(n_groups), [name_of(group) for group in reversed(self.groups)], fontsize="small")
        ax.tick_params(axis="y", length=0, labelleft=first)
        ax.spines["left"].set_visible(False)
        if first:
            note = {"ha": "left", "va": "top", "fontsize": 7, "color": GREY, "transform": ax.transAxes}
            ax.text(0.0, 1.0, "densities; dashed: all rows", **note)

    def _draw_curves(self, ax: Any, stage: Spread, first: bool) -> None:
        """The distributions, the farthest group in bold, and a bar where it is farthest from all rows."""
        ax.step(stage.points, stage.cdf[-1], where="post", color=PALE, linewidth=4.5, label="all rows")
        named = named_places(stage.gap)
        for place in named:
            width = EMPHASIS if place == stage.worst else QUIET
            name = f"{name_of(self.groups[place])}: {stage.gap[place]:.2g}"
            line = group_line(place)
            ax.step(stage.points, stage.cdf[place], where="post", linewidth=width, label=name, **line)
        rest = [place for place in range(len(self.groups)) if place not in named]
        for place in rest:
            label = f"{len(rest)} others: up to {stage.gap[rest].max():.2g}" if place == rest[0] else None
            ax.step(stage.points, stage.cdf[place], where="post", label=label, zorder=1.9, **OTHERS)
        _draw_gap(ax, stage)
        ax.set_ylim(-0.02, 1.02)
        if first:
            ax.set_ylabel("Share of rows up to it")
        # Of the two corners that a distribution leaves empty, the emptier.
        position = np.interp(np.linspace(stage.edges[0], stage.edges[-1], 50), stage.points, stage.cdf[-1])
        corner = "lower right" if position.mean() > 0.4 else "upper left"
        title = "Gap to all rows"
        ax.legend(loc=corner, fontsize=7, title=title, title_fontsize=7, handlelength=2.6, **BACKDROP)


def _emptier_side(density: FloatArray) -> float:
    """0 for the left end of a ridge, 1 for the right: where a note hides less."""
    quarter = max(1, len(density) // 4)
    return 0.0 if density[:quarter].max() < density[-quarter:].max() else 1.0


def _draw_gap(ax: Any, stage: Spread) -> None:
    """A bar between the farthest group and all rows, with its length."""
    at, worst = stage.gap_at[stage.worst], stage.worst
    here = int(np.searchsorted(stage.points, at))
    ends = stage.cdf[[worst, -1], here]
    ax.plot([at, at], ends, color="black", linewidth=1.6, marker="_", markersize=8, zorder=6)
    right = at < stage.edges.mean()
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


def _points(table: GroupMasses) -> FloatArray:
    assert table.points is not None
    return table.points


def cell_borders(points: FloatArray) -> FloatArray:
    """Borders half way between points; the outer cells are as wide as their inner halves."""
    if len(points) == 1:
        half = 0.5 * max(abs(float(points[0])), 1.0) * 0.1
        return np.array([points[0] - half, points[0] + half])
    middles = points[:-1] + np.diff(points) / 2
    first, last = 2 * points[0] - middles[0], 2 * points[-1] - middles[-1]
    return np.concatenate([[first], middles, [last]])


def _range(table: GroupMasses) -> tuple[float, float]:
    """What the picture covers: all but the outermost rows, where these are far away."""
    points = _points(table)
    total = np.cumsum(table.masses.sum(axis=0))
    low, high = np.searchsorted(total / total[-1], [TRIMMED, 1.0 - TRIMMED])
    borders = cell_borders(points)
    return float(borders[low]), float(borders[min(int(high), len(points) - 1) + 1])


def _shown(points: FloatArray, all_rows: FloatArray, needed: AnyArray) -> AnyArray:
    """Places of the points to draw: dense in value and in share, and all that are needed."""
    if len(points) <= MOST_POINTS:
        return np.arange(len(points))
    steps = np.linspace(0.0, 1.0, MOST_POINTS // 2)
    by_share = np.searchsorted(all_rows, steps)
    by_value = np.searchsorted(points, points[0] + steps * (points[-1] - points[0]))
    places = np.concatenate([by_share, by_value, needed, [0, len(points) - 1]])
    return np.unique(np.minimum(places, len(points) - 1))


def _columns(stage: Spread, groups: list[str], of: str) -> dict[str, AnyArray]:
    if of == "gaps":
        columns = {"group": np.array(groups), "gap": stage.gap, "gap_at": stage.gap_at}
    else:
        table = stage.cdf if of == "cdf" else stage.density
        where = {"value": stage.points} if of == "cdf" else {"low": stage.edges[:-1], "high": stage.edges[1:]}
        columns = {"group": np.repeat([*groups, "all rows"], table.shape[1])}
        columns |= {name: np.tile(values, len(groups) + 1) for name, values in where.items()}
        columns[of] = table.ravel()
    return {"stage": np.repeat(stage.name, len(columns["group"])), **columns}
