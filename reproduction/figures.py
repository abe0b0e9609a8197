"""Draw the figures of the reproduction from the frames, and from nothing else."""

from collections.abc import Callable
from typing import Any

import numpy as np

from evenhand._utils.typing import AnyArray
from evenhand.plots.style import (
    COLOURS,
    EMPHASIS,
    GREY,
    INK,
    MARKERS,
    figure_headline,
    group_line,
    group_marker,
    headline,
    subplots,
    tidy,
)
from reproduction.analysis import (
    SETTINGS,
    Curves,
    against_published,
    curves,
    paired_differences,
    solver_table,
    spread,
)
from reproduction.frames import Columns, numbers, unique, where
from reproduction.published import DATASETS, TITLES, published

KS_LABEL = "KS distance of the minority"
RISK_LABEL = "Risk (mean squared error)"
NAMES = {
    "base": "base model",
    "paper": "the paper's method (pmf, stochastic)",
    "pmf": "pmf, exact",
    "cdf": "cdf, the paper's models and beta",
    "cdf_sharp": "cdf, the paper's models, our beta",
    "cdf_default": "cdf, our models and beta",
    "cdf_default_both": "the same with the labels of both parts",
    "adw_1": "ADW-1",
    "adw_2": "ADW-2",
    "barycentre": "barycentre (sees the group)",
}


def draw_convergence(frame: Columns) -> Any:
    """Unfairness and risk along the iterations; mean and one standard deviation over the splits."""
    axes = subplots(2, 3, size=(11.0, 5.4), sharex="col")
    for column, dataset in enumerate(DATASETS):
        table = where(frame, dataset=dataset)
        shape = len(unique(table, "split")), -1
        iteration = numbers(table, "iteration").reshape(shape)[0]
        for ax, name in zip(axes[:, column], ("ks_minority", "risk"), strict=True):
            values = numbers(table, name).reshape(shape)
            mean, std = values.mean(axis=0), spread(values)
            ax.fill_between(iteration, mean - std, mean + std, color=INK, alpha=0.15, linewidth=0)
            ax.plot(iteration, mean, color=INK, linewidth=EMPHASIS)
            tidy(ax)
        headline(axes[0, column], f"{TITLES[dataset]}: {_change(table, shape)}")
        axes[1, column].set_xlabel("Gradients of single rows")
        axes[0, column].set_ylim(bottom=0.0)
    axes[0, 0].set_ylabel(KS_LABEL)
    axes[1, 0].set_ylabel(RISK_LABEL)
    return axes[0, 0].figure


def _change(table: Columns, shape: tuple[int, int]) -> str:
    first, last = numbers(table, "ks_minority").reshape(shape).mean(axis=0)[[0, -1]]
    return f"KS {first:.2f} \N{RIGHTWARDS ARROW} {last:.2f}"


def draw_published(frame: Columns) -> Any:
    """Our runs of the paper's method on both kinds of split, with the published points."""
    axes = subplots(1, 3, size=(11.0, 4.4))[0]
    for ax, dataset in zip(axes, DATASETS, strict=True):
        paper = published(dataset).ours
        bars = {"xerr": paper.ks_std, "yerr": paper.risk_std, "elinewidth": 0.8, "ecolor": "0.7"}
        look = {"color": GREY, "marker": "s", "markerfacecolor": "white", "linestyle": "", "markersize": 6}
        ax.errorbar(paper.ks, paper.risk, label="published, with its deviation", zorder=1, **look, **bars)
        _line(ax, curves(frame, dataset, "code", "paper"), "ours, 80/10/10 as the code", 0)
        _line(ax, curves(frame, dataset, "text", "paper"), "ours, 40/40/20 as the text", 1)
        _finish(ax, TITLES[dataset])
    axes[0].set_ylabel(RISK_LABEL)
    table = against_published(frame)
    met = {name: where(table, setting=name)["within"] for name in list(SETTINGS)[:2]}
    counts = [f"{sum(within)} of {len(within)} with {name}" for name, within in met.items()]
    return _with_legend(axes, f"Within one published deviation in risk and distance: {', '.join(counts)}")


def draw_comparison(frame: Columns) -> Any:
    """All methods on the paper's 40/40/20 splits: means over the splits, measured on the test rows."""
    axes = subplots(1, 3, size=(11.0, 4.9))[0]
    for ax, dataset in zip(axes, DATASETS, strict=True):
        for place, method in enumerate(("cdf_default", "adw_2", "paper", "adw_1", "cdf", "barycentre")):
            _line(ax, curves(frame, dataset, "text", method), NAMES[method], place)
        base = curves(frame, dataset, "text", "base")
        point = {"color": "black", "marker": "*", "markersize": 11, "linestyle": ""}
        ax.plot(base.ks.mean(), base.risk.mean(), label=NAMES["base"], zorder=4, **point)
        _finish(ax, TITLES[dataset])
    axes[0].set_ylabel(RISK_LABEL)
    return _with_legend(axes, "Lower left is better: risk against unfairness on test rows, mean over splits")


def _line(ax: Any, found: Curves, label: str, place: int) -> None:
    ks, risk = found.ks.mean(axis=0), found.risk.mean(axis=0)
    width = EMPHASIS if place == 0 else 1.2
    ax.plot(ks, risk, **{**group_marker(place), "markersize": 3.5, "linewidth": width}, label=label)


def draw_differences(frame: Columns) -> Any:
    """Ours less the other's risk at matched distances, with intervals over the splits."""
    table = paired_differences(frame)
    panels = [(dataset, "test") for dataset in DATASETS]
    panels += [(dataset, "others") for dataset in unique(where(table, rows="others"), "dataset")]
    axes = subplots(2, 3, size=(11.0, 6.4)).ravel()
    shown = {("cdf", "paper"): 0, ("cdf_default", "adw_2"): 1, ("cdf_default_both", "adw_1"): 2}
    for ax, (dataset, rows) in zip(axes, panels, strict=False):
        for (ours, other), place in shown.items():
            part = where(table, dataset=dataset, rows=rows, ours=ours, other=other)
            level, mean, low, high = (numbers(part, name) for name in ("level", "difference", "low", "high"))
            look = {"color": COLOURS[place], "marker": MARKERS[place], "markersize": 4.5, "linestyle": ""}
            label = f"{NAMES[ours]}, less {NAMES[other]}"
            ax.errorbar(level, mean, yerr=[mean - low, high - mean], elinewidth=1.2, label=label, **look)
        ax.axhline(0.0, color=GREY, linewidth=1.0)
        where_measured = "test rows" if rows == "test" else "10 000 further rows"
        _finish(ax, f"{TITLES[dataset]}, {where_measured}")
    for spare in axes[len(panels) :]:
        spare.remove()
    for ax in axes[::3]:
        ax.set_ylabel("Difference in risk")
    return _with_legend(axes, "Below zero ours costs less at the same distance; 95 % intervals", columns=1)


def draw_solvers(frame: Columns) -> Any:
    """The stochastic solvers: risk against unfairness, and the violation that is left."""
    table = solver_table(frame)
    axes = subplots(2, 3, size=(11.0, 7.2))
    for column, dataset in enumerate(DATASETS):
        for place, solver in enumerate(unique(table, "solver")):
            part = where(table, dataset=dataset, solver=solver)
            epsilon, ks, risk, violation = (
                numbers(part, name) for name in ("epsilon", "ks", "risk", "violation")
            )
            look = {**group_marker(place), "markersize": 4.0, "linewidth": 1.2}
            axes[0, column].plot(ks, risk, **look, label=solver)
            axes[1, column].plot(epsilon, violation, **look)
        limits = np.array([epsilon.min(), epsilon.max()])
        axes[1, column].plot(limits, limits, color=GREY, linewidth=0.8, linestyle=":")
        axes[1, column].set(xscale="log", yscale="log", xlabel="epsilon (dotted: violation = epsilon)")
        tidy(axes[1, column])
        _finish(axes[0, column], TITLES[dataset])
    axes[0, 0].set_ylabel(RISK_LABEL)
    axes[1, 0].set_ylabel("Largest violation on the rows of the fit")
    return _with_legend(
        axes.ravel(), "The paper's solvers at its budgets, mean over splits and seeds", columns=6
    )


def draw_synthetic(frame: Columns) -> Any:
    """Distributions of the predictions of four groups, before and after."""
    axes = subplots(1, 3, size=(11.0, 3.9), sharey=True)[0]
    for ax, method in zip(axes, ("base", "paper", "cdf"), strict=True):
        table = where(frame, method=method)
        for place, group in enumerate(unique(table, "group")):
            part = where(table, group=group)
            atom, mass = numbers(part, "atom"), numbers(part, "mass")
            density = _smoothed(mass) / (atom[1] - atom[0])
            ax.plot(atom, density, **group_line(place), linewidth=1.6, label=f"group {group}")
        headline(ax, f"{NAMES[method].split(' (')[0].split(',')[0]}: largest KS {max(table['ks']):.2f}")
        ax.set_xlabel("Prediction, scaled to [\N{MINUS SIGN}1, 1]")
        tidy(ax)
    axes[0].set_ylabel("Density on the test rows")
    return _with_legend(axes, "Four groups that are intervals of the first feature", columns=4)


def _smoothed(mass: AnyArray) -> AnyArray:
    """A running mean over five atoms, which shows the shape of the distribution."""
    return np.convolve(np.pad(mass, 2, mode="edge"), np.full(5, 0.2), mode="valid")


def _finish(ax: Any, title: str) -> None:
    headline(ax, title)
    ax.set_xlabel(KS_LABEL)
    tidy(ax)


def _with_legend(axes: AnyArray, text: str, columns: int = 4) -> Any:
    """The figure with one legend below all panels and a sentence above them."""
    figure = axes[0].figure
    handles, labels = axes[0].get_legend_handles_labels()
    look = {"frameon": False, "fontsize": "small"}
    figure.legend(handles, labels, loc="outside lower center", ncols=min(columns, len(labels)), **look)
    figure_headline(figure, text)
    return figure


FIGURES: dict[str, tuple[str, Callable[[Columns], Any]]] = {  # name -> (study, draw)
    "convergence": ("convergence", draw_convergence),
    "published": ("comparison", draw_published),
    "comparison": ("comparison", draw_comparison),
    "differences": ("matched", draw_differences),
    "solvers": ("solvers", draw_solvers),
    "synthetic": ("synthetic", draw_synthetic),
}
