"""Who is ahead, counted: one line for each peer, task and mode."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from benchmarks._support import show_table
from benchmarks.peers.matching import OURS, Comparison, Panel, Point, panels
from benchmarks.peers.store import Results

VERDICTS = ("ahead", "level", "behind")


@dataclass(frozen=True, eq=False)
class Judged:
    """A peer's point, and our curve against it."""

    panel: Panel
    point: Point
    comparison: Comparison


def judge(results: Results) -> list[Judged]:
    """Every point of every peer."""
    return [
        Judged(panel, point, panel.compare(point))
        for panel in panels(results)
        for point in panel.points
        if point.method != OURS
    ]


def settings(results: Results) -> Iterator[tuple[str, str]]:
    """Task and mode of each table, unaware first."""
    for mode in ("unaware", "aware"):
        for task in ("regression", "classification"):
            if any(each["task"] == task and each["mode"] == mode for each in results.records):
                yield task, mode


def lines(results: Results, judged: list[Judged], task: str, mode: str) -> Iterator[list[str]]:
    """One row for each peer: points, verdicts, median difference, seconds, memory, failures."""
    for method in results.values("method", results.select(task=task, mode=mode)):
        own = [
            each
            for each in judged
            if (each.panel.task, each.panel.mode, each.point.method) == (task, mode, method)
        ]
        found = Counter(each.comparison.verdict for each in own)
        middle = np.median([each.comparison.difference for each in own]) if own else np.nan
        failed = sum("failure" in each for each in results.select(task=task, mode=mode, method=method))
        verdicts = ["", "", "", "", ""]
        if method != OURS:
            counts = (str(found[verdict]) for verdict in VERDICTS)
            verdicts = [str(len(own)), *counts, f"{100 * middle:+.1f}" if own else ""]
        times = (_seconds(results, task, mode, method, learner) for learner in ("linear", "boosted"))
        memory = _megabytes(results, task, mode, method)
        yield [method, *verdicts, *times, memory, str(failed) if failed else ""]


HEAD = [
    "method", "points", "ours ahead", "level", "ours behind", "median difference",
    "s, linear", "s, boosted", "MB",
    "failures",
]  # fmt: skip


def print_summary(results: Results) -> None:
    """The tables, on the terminal."""
    judged = judge(results)
    for task, mode in settings(results):
        print(f"\n{task}, {mode}: our risk minus each peer's at its own distance, constant = 100")
        show_table(HEAD, lines(results, judged, task, mode))


def _seconds(results: Results, task: str, mode: str, method: str, learner: str) -> str:
    """Median over data sets and seeds of the first value of the knob."""
    records = results.select(task=task, mode=mode, method=method, learner=learner)
    if not records:
        return ""
    first = records[0]["knob"]  # the strictest
    found = [each["seconds"] for each in records if each["knob"] == first and "seconds" in each]
    return f"{np.median(found):.2f}" if found else ""


def _megabytes(results: Results, task: str, mode: str, method: str) -> str:
    for each in results.memory:
        if (each["task"], each["mode"], each["method"]) == (task, mode, method) and "megabytes" in each:
            return f"{each['megabytes']:.0f}"
    return ""
