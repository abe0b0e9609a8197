"""Draw the frontiers: risk against distance for every method, one picture for each task and learner."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

from matplotlib.pyplot import close

from benchmarks.peers.matching import CONSTANT, OURS, PLAIN, Panel, panels
from benchmarks.peers.store import Results
from evenhand.plots.style import COLOURS, EMPHASIS, GREY, INK, MARKERS, QUIET, figure_headline, subplots, tidy

FIGURES = Path(__file__).resolve().parents[2] / "docs" / "figures"
MODES = ("unaware", "aware")
PEER_MARKERS = (*MARKERS[1:], "<", ">", "*", "h")
TITLES = {
    "regression": "Squared error, as a share of the constant's, against the distance of groups net of chance",
    "classification": "Errors, as a share of the constant's, against the gap between groups net of chance",
}


def pictures(results: Results) -> Iterator[tuple[str, str, str]]:
    """Task, learner and file name of every picture."""
    for task in results.values("task"):
        for learner in results.values("learner"):
            yield task, learner, f"comparison-{task}-{learner}.png"


def write_pictures(results: Results, folder: Path = FIGURES) -> None:
    """Draw them all."""
    found = panels(results)
    for task, learner, name in pictures(results):
        own = [panel for panel in found if (panel.task, panel.learner) == (task, learner)]
        title = (
            f"{TITLES[task]}: {learner} learner. Down and to the left is better; the constant is at (0, 1)."
        )
        figure = draw(own, title)
        figure.savefig(folder / name, dpi=100)
        close(figure)
        _shrink(folder / name)


def draw(own: list[Panel], title: str) -> Any:
    """Unaware above, aware below, one column for each data set."""
    data = list(dict.fromkeys(panel.data for panel in own))
    names = [
        name
        for name in dict.fromkeys(point.method for panel in own for point in panel.points)
        if name != OURS
    ]
    looks = {
        name: _look(place)
        for place, name in enumerate(each for each in names if each not in (PLAIN, CONSTANT))
    }
    axes = subplots(len(MODES), len(data), size=(3.0 * len(data), 7.4))
    figure = axes[0, 0].figure
    for panel in own:
        ax = axes[MODES.index(panel.mode), data.index(panel.data)]
        draw_panel(ax, panel, looks)
        ax.set_title(f"{panel.data}, {panel.mode}", loc="left", fontsize=9)
    for ax in axes[:, 0]:
        ax.set_ylabel("risk / the constant's")
    for ax in axes[-1]:
        ax.set_xlabel("distance net of chance")
    handles = {
        name: line for ax in axes.flat for line, name in zip(*ax.get_legend_handles_labels(), strict=True)
    }
    figure.legend(
        handles.values(), handles.keys(), loc="outside lower center", ncols=4, fontsize=8, frameon=False
    )
    figure_headline(figure, title)
    return figure


def draw_panel(ax: Any, panel: Panel, looks: dict[str, dict[str, Any]]) -> None:
    """Our curve with its points, and each peer's points."""
    unit, kept = panel.unit(), panel.everybody
    for point in panel.of(PLAIN):
        at = point.distance(kept), point.risk(kept) / unit
        ax.plot(*at, "x", color=GREY, markersize=8, label=PLAIN, zorder=4)
    for name, look in looks.items():
        points = sorted((point.distance(kept), point.risk(kept) / unit) for point in panel.of(name))
        if points:
            ax.plot(*zip(*points, strict=True), **look, label=name)
    distances, risks = panel.curve()
    ax.plot(distances, risks / unit, color=INK, linewidth=EMPHASIS, zorder=3)
    ours = [(point.distance(kept), point.risk(kept) / unit) for point in panel.of(OURS)]
    ax.plot(*zip(*ours, strict=True), "o", color=INK, markersize=5, zorder=5)
    ax.plot([], [], "o-", color=INK, linewidth=EMPHASIS, label=OURS)
    shown = [point.risk(kept) / unit for point in panel.points if point.method != CONSTANT]
    margin = 0.05 * (max(shown) - min(shown))
    ax.set_ylim(min(shown) - margin, max(shown) + margin)  # the constant, at 1, would press the rest together
    tidy(ax)


def _look(place: int) -> dict[str, Any]:
    return {
        "color": COLOURS[1:][place % (len(COLOURS) - 1)],
        "marker": PEER_MARKERS[place % len(PEER_MARKERS)],
        "markersize": 5,
        "linewidth": QUIET,
        "linestyle": ":",
    }


def _shrink(path: Path) -> None:
    """A palette of 256 colours: a third of the bytes."""
    from PIL import Image

    image = Image.open(path).convert("RGB")
    image.quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)
