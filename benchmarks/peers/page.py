"""Write docs/comparison.md from what a run left: every figure on it comes from the stored results."""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from benchmarks.peers.matching import CONSTANT, OURS, PLAIN, Panel, panels
from benchmarks.peers.pictures import pictures
from benchmarks.peers.store import Results
from benchmarks.peers.summary import HEAD, VERDICTS, Judged, judge, lines, settings
from benchmarks.peers.words import FOLDS, HOW_MEASURED, INTRODUCTION, LIMITS, READING, WHY

PAGE = Path(__file__).resolve().parents[2] / "docs" / "comparison.md"
TASK_NAMES = {"regression": "numbers (regression)", "classification": "decisions (classification)"}
NOT_PEERS = (PLAIN, CONSTANT)
FIRST_SWEEP = (
    0.0,
    0.02,
    0.05,
    0.1,
    0.2,
    0.35,
)  # of ours; the page says how many losses the denser one took away


def write_page(results: Results, path: Path = PAGE) -> None:
    """Write the page."""
    path.write_text(render(results))


def render(results: Results) -> str:
    """The whole page."""
    judged = judge(results)
    parts = [
        "# Comparison with other libraries",
        INTRODUCTION.format(**results.about, **_sizes(results)),
        "## In short",
        *short(results, judged),
        READING,
        *tables(results, judged),
        "## Where each wins, and why",
        *wins(results, judged),
        *of_folds(results),
        "## Difference at each peer's strictest setting",
        "Our risk minus the peer's at the peer's distance, in points of the constant's risk, with half the "
        "width of the 95 % interval; negative is ours ahead. **Bold**: the interval has one sign.",
        *strictest(results, judged),
        "## How many are selected",
        *rates(results),
        "## How it was measured",
        HOW_MEASURED.format(**results.about, **_behind(results, judged)),
        *about_methods(results),
        *failures(results),
        "## What it does not show",
        LIMITS,
    ]
    return "\n\n".join(parts) + "\n"


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table in Markdown."""
    head = list(head)
    body = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(row) + " |" for row in body)


def short(results: Results, judged: list[Judged]) -> Iterator[str]:
    """Counts over all peers, by mode and task."""
    rows = []
    for task, mode in settings(results):
        own = [each for each in judged if (each.panel.task, each.panel.mode) == (task, mode)]
        own = [each for each in own if each.point.method not in NOT_PEERS]
        found = Counter(each.comparison.verdict for each in own)
        rows.append([mode, TASK_NAMES[task], str(len(own)), *(str(found[verdict]) for verdict in VERDICTS)])
    yield table(
        ["the group at prediction", "of", "points of peers", "ours ahead", "level", "ours behind"], rows
    )


def tables(results: Results, judged: list[Judged]) -> Iterator[str]:
    """One for each task and mode, and the pictures."""
    for task, mode in settings(results):
        yield f"### {TASK_NAMES[task].capitalize()}, {mode}"
        yield table(HEAD, lines(results, judged, task, mode))
    yield "### Pictures"
    for task, learner, name in pictures(results):
        shown = f"{task.capitalize()}, {learner} learner: risk against distance of every method"
        yield f"![{shown}](figures/{name})"


def wins(results: Results, judged: list[Judged]) -> Iterator[str]:
    """For each method: where we are behind it, point by point, and the reason."""
    for method in results.values("method"):
        own = [each for each in judged if each.point.method == method]
        behind = [each for each in own if each.comparison.verdict == "behind"]
        if method in NOT_PEERS and not behind:
            continue
        yield f"**{method}.** {WHY[method]}"
        if method == OURS:
            continue
        found = Counter(each.comparison.verdict for each in own)
        if not behind:
            yield (
                f"At {len(own)} points it is nowhere ahead of ours: ours is ahead at {found['ahead']}, "
                f"level at {found['level']}."
            )
            continue
        beyond = sum(each.point.distance(each.panel.everybody) < _smallest(each.panel) for each in behind)
        yield (
            f"It is ahead of ours at {len(behind)} of {len(own)} points (ours at {found['ahead']}), "
            f"{beyond} of them at a distance below our smallest:"
        )
        yield table(
            [
                "where",
                "setting",
                "distance",
                "our smallest",
                "its risk, %",
                "ours there, %",
                "difference, points",
            ],
            map(_win, behind),
        )


def of_folds(results: Results) -> Iterator[str]:
    """What the folds alone do at the strictest setting."""
    found = results.about.get("folds")
    if not found:
        return
    yield "### How much of it is the folds"
    yield FOLDS
    names = list(dict.fromkeys(each["method"] for each in found))
    cells = {
        (each["data"], each["method"]): f"{each['distance']:.4f}, {100 * each['risk']:.2f}" for each in found
    }
    data = dict.fromkeys(each["data"] for each in found)
    yield table(
        ["gap net of chance, errors %", *names],
        [[one, *(cells[one, name] for name in names)] for one in data],
    )


def _win(each: Judged) -> list[str]:
    panel, point = each.panel, each.point
    kept, unit = panel.everybody, panel.unit()
    risk = point.risk(kept) / unit
    return [
        f"{panel.task}, {panel.mode}, {panel.data}, {panel.learner}",
        f"{point.knob:g}",
        f"{point.distance(kept):.3f}",
        f"{_smallest(panel):.3f}",
        f"{100 * risk:.1f}",
        f"{100 * (risk + each.comparison.difference):.1f}",
        difference(each),
    ]


def _smallest(panel: Panel) -> float:
    """Of our distances."""
    return min(point.distance(panel.everybody) for point in panel.of(OURS))


def difference(each: Judged) -> str:
    """With half of the interval's width; bold where the interval has one sign."""
    found = each.comparison
    text = f"{100 * found.difference:+.1f} ± {100 * found.half_width:.1f}"
    return text if found.verdict == "level" else f"**{text}**"


def strictest(results: Results, judged: list[Judged]) -> Iterator[str]:
    """One row for each data set and learner, one column for each peer."""
    for task, mode in settings(results):
        own = [each for each in judged if (each.panel.task, each.panel.mode) == (task, mode)]
        own = [each for each in own if each.point.method not in NOT_PEERS]
        names = list(dict.fromkeys(each.point.method for each in own))
        cells: dict[tuple[str, str], dict[str, str]] = {}
        for each in own:  # the strictest comes first
            cells.setdefault((each.panel.data, each.panel.learner), {}).setdefault(
                each.point.method, difference(each)
            )
        yield f"{TASK_NAMES[task].capitalize()}, {mode}:"
        rows = [
            [", ".join(where), *(found.get(name, "") for name in names)] for where, found in cells.items()
        ]
        yield table(["data, learner", *names], rows)


def rates(results: Results) -> Iterator[str]:
    """Selection rates of decisions at each method's strictest setting, linear learner."""
    yield (
        "Share of decisions for 1, linear learner, each method at its strictest setting (parity can be "
        "reached by selecting fewer: [rates](how-to/rates.md) has what evenhand does against that)."
    )
    for mode in ("unaware", "aware"):
        own = [each for each in panels(results) if each.task == "classification" and each.mode == mode]
        own = [each for each in own if each.learner == "linear"]
        names = list(dict.fromkeys(point.method for panel in own for point in panel.points))
        rows = []
        for panel in own:
            found = [next((point.rates for point in panel.of(name)), None) for name in names]
            rows.append(
                [panel.data, *("" if some is None else f"{100 * np.mean(some):.0f} %" for some in found)]
            )
        yield table([mode, *names], rows)


def about_methods(results: Results) -> Iterator[str]:
    """How each is used, with its settings and versions."""
    versions = results.about["versions"]
    rows = [
        [
            each["name"],
            f"{each['package']} {versions[each['package']]}",
            f"{each['setting']}: {', '.join(f'{knob:g}' for knob in each['knobs'])}"
            if each["setting"]
            else "",
            each["how"],
        ]
        for each in results.methods
    ]
    yield table(["method", "version", "settings tried", "how it is used"], rows)
    for task, data in results.about["data"].items():
        yield table([TASK_NAMES[task], "what"], data.items())


def failures(results: Results) -> Iterator[str]:
    """What a method raised, and how often; a point counts only where every seed has it."""
    found = Counter(
        (each["method"], each["task"], each["mode"], each["data"], each["learner"], each["failure"])
        for each in results.records
        if "failure" in each
    )
    if not found:
        yield "No fit of any method failed."
        return
    yield "Fits that failed; where any seed fails, that point is left out:"
    rows = [[name, f"{task}, {mode}, {data}, {learner}", str(count), f"`{text}`"]
            for (name, task, mode, data, learner, text), count in found.items()]  # fmt: skip
    yield table(["method", "where", "fits", "what it said"], rows)


def _behind(results: Results, judged: list[Judged]) -> dict[str, int]:
    """Points of peers that ours is behind at, and as many with the sweep of the first run."""
    fewer = [each for each in results.records if each["method"] != OURS or each["knob"] in FIRST_SWEEP]
    first = judge(Results(results.about, results.methods, fewer, []))
    return {
        name: sum(each.comparison.verdict == "behind" and each.point.method not in NOT_PEERS for each in some)
        for name, some in (("behind_now", judged), ("behind_six", first))
    }


def _sizes(results: Results) -> dict[str, object]:
    records = results.records
    return {"n_fits": len(records), "minutes": round(results.about["cpu_seconds"] / 60)}
