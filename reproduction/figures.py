"""Draw the figures of the reproduction from the frames, and from nothing else."""

from collections.abc import Callable
from typing import Any

import numpy as np

from evenhand._utils.typing import AnyArray
from evenhand.plots.style import (
    COLOURS,
    EMPHASIS,
    GREY,
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
    ablation_table,
    against_published,
    curves,
    paired_differences,
    solver_table,
    spread,
)
from reproduction.frames import Columns, numbers, unique, where
from reproduction.published import DATASETS, TITLES, published
from reproduction.published_tables import HALF, SWITCHES, count_met

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
    "variant_published": "the paper's method by the published formulas",
}
SHORT_NAMES = {  # above narrow panels
    "base": "base model",
    "variant_published": "published formulas",
    "paper": "our solver",
    "cdf": "cdf, exact",
}
SHOWN_SETTINGS = {  # in the figure of published points, the first two of them counted
    "by the published formulas": "by the published formulas",
    "ours": "by our solver of the paper's method",
    "exact optimum": "exact optimum",
}


def draw_convergence(frame: Columns) -> Any:
    """Unfairness of both groups and risk along the iterations; mean and one deviation over the splits."""
    axes = subplots(2, 3, size=(11.0, 5.8), sharex="col")
    for column, dataset in enumerate(DATASETS):
        table = where(frame, dataset=dataset)
        shape = len(unique(table, "split")), -1
        iteration = numbers(table, "iteration").reshape(shape)[0]
        lines = ((0, "ks_minority", 0, "minority"), (0, "ks_majority", 1, "majority"), (1, "risk", 0, None))
        for row, name, place, label in lines:
            ax, look = axes[row, column], group_line(place)
            values = numbers(table, name).reshape(shape)
            mean, std = values.mean(axis=0), spread(values)
            ax.fill_between(iteration, mean - std, mean + std, color=look["color"], alpha=0.15, linewidth=0)
            ax.plot(iteration, mean, **look, linewidth=EMPHASIS, label=label)
            tidy(ax)
        headline(axes[0, column], f"{TITLES[dataset]}: {_change(table, shape)}")
        axes[1, column].set_xlabel("Gradients of single rows")
        axes[1, column].locator_params(axis="x", nbins=5)
        axes[0, column].set_ylim(bottom=0.0)
    axes[0, 0].set_ylabel("KS distance from all rows")
    axes[1, 0].set_ylabel(RISK_LABEL)
    return _with_legend(
        axes.ravel(), "The minority's distance falls, and risk pays for it; bands are one deviation"
    )


def _change(table: Columns, shape: tuple[int, int]) -> str:
    first, last = numbers(table, "ks_minority").reshape(shape).mean(axis=0)[[0, -1]]
    return f"KS {first:.2f} \N{RIGHTWARDS ARROW} {last:.2f}"


def draw_published(frame: Columns) -> Any:
    """The published points with half and whole deviations, and the runs on the same splits."""
    axes = subplots(1, 3, size=(11.0, 4.6))[0]
    for ax, dataset in zip(axes, DATASETS, strict=True):
        paper = published(dataset).ours
        look = {"color": GREY, "marker": "s", "markerfacecolor": "white", "linestyle": "", "markersize": 6}
        for share, width, colour in ((1.0, 0.8, "0.8"), (HALF, 2.4, "0.6")):
            bars = {"xerr": share * paper.ks_std, "yerr": share * paper.risk_std, "elinewidth": width}
            label = "published, with half and whole deviations" if share == HALF else None
            ax.errorbar(paper.ks, paper.risk, label=label, zorder=1, ecolor=colour, **look, **bars)
        for place, (setting, label) in enumerate(SHOWN_SETTINGS.items()):
            _line(ax, curves(frame, dataset, *SETTINGS[setting]), label, place)
        _finish(ax, TITLES[dataset])
    axes[0].set_ylabel(RISK_LABEL)
    table = against_published(frame)
    counts = []
    for setting, label in list(SHOWN_SETTINGS.items())[:2]:
        part = where(table, setting=setting)
        counts.append(f"{count_met(part, HALF)} of {len(part['off'])} {label}")
    return _with_legend(axes, f"Within half a published deviation in risk and distance: {', '.join(counts)}")


def draw_ablation(frame: Columns) -> Any:
    """Communities with one of the published formulas put right, beside the published mean."""
    table = where(ablation_table(frame), dataset="communities")
    switches = unique(table, "switch")
    axes = subplots(1, 2, size=(11.0, 4.6), sharey=True)[0]
    for ax, name, label in zip(axes, ("risk", "ks"), (RISK_LABEL, KS_LABEL), strict=True):
        for place, exponent in enumerate((6, 8)):
            part = where(table, exponent=exponent)
            told = published("communities").ours
            at = told.exponents.tolist().index(exponent)
            mean, half = getattr(told, name)[at], HALF * getattr(told, f"{name}_std")[at]
            ax.axvspan(mean - half, mean + half, color=COLOURS[place], alpha=0.15, linewidth=0)
            ax.axvline(mean, color=COLOURS[place], linewidth=0.8)
            look = {"color": COLOURS[place], "marker": MARKERS[place], "linestyle": "", "markersize": 6}
            ax.plot(
                numbers(part, name),
                range(len(switches)),
                **look,
                label=f"epsilon = 2^\N{MINUS SIGN}{exponent}",
            )
        ax.set_yticks(range(len(switches)), [SWITCHES[switch] for switch in switches])
        ax.set_xlabel(label)
        ax.locator_params(axis="x", nbins=6)
        tidy(ax)
    axes[0].invert_yaxis()
    text = "Communities: lines and bands are the published means and half deviations"
    return _with_legend(axes, text)


def draw_comparison(frame: Columns) -> Any:
    """All methods on the paper's 40/40/20 splits: means and deviations over the splits, on the test rows."""
    axes = subplots(1, 3, size=(11.0, 4.9))[0]
    for ax, dataset in zip(axes, DATASETS, strict=True):
        for place, method in enumerate(("cdf_default", "adw_2", "paper", "adw_1", "cdf", "barycentre")):
            _line(ax, curves(frame, dataset, "text", method), NAMES[method], place, bars=True)
        base = curves(frame, dataset, "text", "base")
        point = {"color": "black", "marker": "*", "markersize": 11, "linestyle": ""}
        ax.plot(base.ks.mean(), base.risk.mean(), label=NAMES["base"], zorder=4, **point)
        _finish(ax, TITLES[dataset])
    axes[0].set_ylabel(RISK_LABEL)
    text = "Lower left is better: risk against unfairness on test rows, mean and one deviation over splits"
    return _with_legend(axes, text)


def _line(ax: Any, found: Curves, label: str, place: int, bars: bool = False) -> None:
    ks, risk = found.ks.mean(axis=0), found.risk.mean(axis=0)
    look = {**group_marker(place), "markersize": 3.5, "linewidth": EMPHASIS if place == 0 else 1.2}
    ax.plot(ks, risk, **look, label=label)
    if bars:
        _deviations(ax, (ks, spread(found.ks)), (risk, spread(found.risk)), look["color"])


def _deviations(ax: Any, ks: tuple[AnyArray, AnyArray], risk: tuple[AnyArray, AnyArray], colour: str) -> None:
    """One standard deviation to either side of each point, thin, below the lines."""
    look = {"linestyle": "", "elinewidth": 0.7, "ecolor": colour, "alpha": 0.35, "zorder": 1}
    ax.errorbar(ks[0], risk[0], xerr=ks[1], yerr=risk[1], **look)


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
    """The stochastic solvers, ours and by the published formulas, and the violation that ours leave."""
    table = solver_table(frame)
    axes = subplots(3, 3, size=(11.0, 10.4))
    for column, dataset in enumerate(DATASETS):
        for place, solver in enumerate(unique(where(table, by="own"), "solver")):
            look = {**group_marker(place), "markersize": 4.0, "linewidth": 1.2}
            for row, by in enumerate(("own", "published")):
                part = where(table, dataset=dataset, by=by, solver=solver)
                if part["solver"]:
                    _solver_line(axes[row, column], part, look, solver)
            if (told := published(dataset).solvers.get(solver)) is not None:
                points = {**look, "markersize": 7.0, "markerfacecolor": "none", "linestyle": ""}
                axes[1, column].plot(told.ks, told.risk, **points)
            part = where(table, dataset=dataset, by="own", solver=solver)
            epsilon = numbers(part, "epsilon")
            axes[2, column].plot(epsilon, numbers(part, "violation"), **look)
        limits = np.array([epsilon.min(), epsilon.max()])
        axes[2, column].plot(limits, limits, color=GREY, linewidth=0.8, linestyle=":")
        axes[2, column].set(xscale="log", yscale="log", xlabel="epsilon (dotted: violation = epsilon)")
        tidy(axes[2, column])
        _finish(axes[0, column], f"{TITLES[dataset]}: ours")
        open_points = ", open: published" if published(dataset).solvers else ""
        _finish(axes[1, column], f"{TITLES[dataset].partition(' and ')[0]}: theirs{open_points}")
    for ax in axes[:2, 0]:
        ax.set_ylabel(RISK_LABEL)
    axes[2, 0].set_ylabel("Ours: largest violation on the rows of the fit")
    text = "The paper's solvers on its splits, ours and by the published formulas; bars are one deviation"
    return _with_legend(axes.ravel(), text, columns=6)


def _solver_line(ax: Any, part: Columns, look: dict[str, Any], label: str) -> None:
    ks, risk = numbers(part, "ks"), numbers(part, "risk")
    ax.plot(ks, risk, **look, label=label)
    _deviations(ax, (ks, numbers(part, "ks_spread")), (risk, numbers(part, "risk_spread")), look["color"])


def draw_synthetic(frame: Columns) -> Any:
    """Distributions of the predictions of four groups, before and after."""
    methods = unique(frame, "method")
    axes = subplots(1, len(methods), size=(11.0, 3.9), sharey=True)[0]
    for ax, method in zip(axes, methods, strict=True):
        table = where(frame, method=method)
        for place, group in enumerate(unique(table, "group")):
            part = where(table, group=group)
            atom, mass = numbers(part, "atom"), numbers(part, "mass")
            density = _smoothed(mass) / (atom[1] - atom[0])
            ax.plot(atom, density, **group_line(place), linewidth=1.6, label=f"group {group}")
        headline(ax, f"{SHORT_NAMES[method]}: KS {max(table['ks']):.3f}")
        ax.set_xlabel("Prediction, scaled to [\N{MINUS SIGN}1, 1]")
        tidy(ax)
    axes[0].set_ylabel("Density on the test rows")
    text = "Four groups that are intervals of the first feature, with the largest KS distance of a group"
    return _with_legend(axes, text, columns=4)


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
    "published": ("published", draw_published),
    "ablation": ("published", draw_ablation),
    "comparison": ("comparison", draw_comparison),
    "differences": ("matched", draw_differences),
    "solvers": ("solvers", draw_solvers),
    "synthetic": ("synthetic", draw_synthetic),
}
