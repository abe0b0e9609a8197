"""Write `reproduction.md` from the saved frames, without computing any of them again."""

import re
from collections.abc import Callable, Mapping
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from evenhand._utils.optional import import_optional
from reproduction.analysis import (
    PAIRS,
    below_published,
    curves,
    measured_on,
    oracle_table,
    paired_differences,
    solver_table,
    solvers_against_published,
    timing_table,
)
from reproduction.figures import FIGURES, NAMES
from reproduction.frames import Columns, numbers, read_about, read_csv, to_rows, unique, where
from reproduction.markdown import markdown_table
from reproduction.published import DATASETS, TITLES, published
from reproduction.published_tables import HALF, published_tables

PREFIX = "reproduction-"  # of the names of frames and figures
ALWAYS = "always"  # name of the block that needs no frame
DPI = 110


def frame_path(out: Path, study: str) -> Path:
    """Path of the frame of a study."""
    return out / "results" / f"{PREFIX}{study}.csv"


def write_page(out: Path) -> Path:
    """Draw the figures of all frames in `out/results`, and write `out/reproduction.md` around them.

    The words are those of `page.md`, whose blocks are named after the studies; a block whose frame is not
    there is left out.
    """
    words = files("reproduction").joinpath("page.md").read_text()
    opening, *blocks = re.split(r"<!-- (\w+) -->\n", words)
    names, texts = blocks[::2], blocks[1::2]
    frames = {name: read_csv(frame_path(out, name)) for name in names if frame_path(out, name).exists()}
    draw_figures(frames, out / "figures")
    page = [Template(opening).substitute(provenance=_provenance(out, frames))]
    for name, text in zip(names, texts, strict=True):
        if name in frames:
            page.append(Template(text).substitute(TABLES[name](frames[name])))
        elif name == ALWAYS:
            page.append(text)
    path = out / "reproduction.md"
    path.write_text("".join(page))
    return path


def require_plots() -> Any:
    """matplotlib, or an error that names the extra to install."""
    return import_optional("matplotlib.pyplot", extra="plot", purpose="Plotting")


def draw_figures(frames: dict[str, Columns], folder: Path) -> None:
    """Draw and save the figures of the frames that were found."""
    pyplot = require_plots()
    folder.mkdir(parents=True, exist_ok=True)
    for name, (study, draw) in FIGURES.items():
        if study in frames:
            figure = draw(frames[study])
            figure.savefig(folder / f"{PREFIX}{name}.png", dpi=DPI)
            pyplot.close(figure)


def _provenance(out: Path, frames: Mapping[str, Columns]) -> str:
    """A table of how and when each frame was made."""
    rows = []
    for study, frame in frames.items():
        about = read_about(frame_path(out, study))
        machine = f"{about['machine']['cores']} cores, {about['machine']['processor']}"
        splits = max(len(unique(where(frame, **scheme), "split")) for scheme in _schemes(frame))
        link = f"[{study}](results/{PREFIX}{study}.csv)"
        # The cells of the first frames did not record their commit, which may be older than the run's.
        commits = ", ".join(about.get("computed_at", [f"put together at {about['commit']}"]))
        rows.append([link, f"`{about['command']}`", about["date"], commits, splits, machine])
    head = ["frame", "made again by", "made on", "at commit", "splits", "machine"]
    return markdown_table(head, rows)


def _schemes(frame: Columns) -> list[dict[str, str]]:
    """The schemes of splits in a frame, as conditions on its rows; none where it has one alone."""
    return [{"scheme": scheme} for scheme in unique(frame, "scheme")] or [{}]


def _convergence(frame: Columns) -> dict[str, str]:
    rows = []
    for dataset in DATASETS:
        table = where(frame, dataset=dataset)
        shape = len(unique(table, "split")), -1
        measures = {"ks_minority": "KS, minority", "ks_majority": "KS, majority", "risk": "risk"}
        for name, label in measures.items():
            values = numbers(table, name).reshape(shape)
            ends = values[:, [0, -1]].mean(axis=0)
            moved = np.sign(values[:, -1] - values[:, 0])
            agree = int((moved == (1 if name == "risk" else -1)).sum())
            rows.append([TITLES[dataset], label, *map(_short, ends), f"{agree} of {len(values)}"])
    head = ["data set", "measure", "before", "after T", "splits in which KS fell, or risk rose"]
    return {"convergence": markdown_table(head, rows)}


def _comparison(frame: Columns) -> dict[str, str]:
    return {
        "adw": _adw(frame),
        "published_means": _published_means(frame),
        "calibration": _calibration(frame),
    }


def _matched(frame: Columns) -> dict[str, str]:
    return {"matched": _matched_table(frame), "tightest": _tightest(frame)}


def _adw(frame: Columns) -> str:
    """Published and own ADW at the published tolerances, and least squares without an intercept."""
    rows = []
    for dataset in DATASETS:
        plain = curves(frame, dataset, "text", "base_plain").risk.mean()
        for name in ("adw_1", "adw_2"):
            paper, found = getattr(published(dataset), name), curves(frame, dataset, "text", name)
            for place, exponent in enumerate(paper.exponents):
                mine = int(np.argmin(np.abs(-np.log2(found.epsilon) - exponent)))
                theirs = [f"{paper.risk[place]:.5f}", f"{paper.ks[place]:.3f}"]
                ours = [f"{found.risk[:, mine].mean():.5f}", f"{found.ks[:, mine].mean():.3f}"]
                cells = [f"{TITLES[dataset]}, {NAMES[name]}", int(exponent), *theirs, *ours]
                rows.append([*cells, "" if place else f"{plain:.5f}"])
    head = ["method", "i", "published risk", "KS", "our risk", "KS", "risk of least squares, no intercept"]
    return markdown_table(head, rows)


def _matched_table(frame: Columns) -> str:
    table = paired_differences(frame)
    rows = []
    for (ours, other), shared in PAIRS.items():
        for dataset in DATASETS:
            for measured in unique(where(table, dataset=dataset), "rows"):
                part = where(table, dataset=dataset, rows=measured, ours=ours, other=other)
                rows.append(
                    [f"`{ours}` \N{MINUS SIGN} `{other}`", shared, TITLES[dataset], measured, *_verdict(part)]
                )
    head = [
        "difference", "what they share", "data set", "rows", "mean difference", "at or below", "surely below",
        "surely above",
    ]  # fmt: skip
    return markdown_table(head, rows)


def _verdict(part: Columns) -> list[str]:
    difference, low, high = (numbers(part, name) for name in ("difference", "low", "high"))
    n = len(difference)
    counts = [f"{int(hits.sum())} of {n}" for hits in (difference <= 0, high < 0, low > 0)]
    share = difference.sum() / numbers(part, "other_risk").sum()
    return [f"{difference.mean():+.5f} ({share:+.1%})", *counts]


def _tightest(frame: Columns) -> str:
    """The smallest mean distance of each method, and its mean risk there."""
    methods = ("cdf", "cdf_default", "cdf_default_both", "paper", "adw_1", "adw_2")
    rows = []
    for dataset in DATASETS:
        for on in measured_on(frame, dataset):
            found = [curves(frame, dataset, "text", method, on) for method in methods]
            ends = [(each.ks.mean(axis=0).argmin(), each) for each in found]
            cells = [f"{one.ks[:, at].mean():.3f} ({one.risk[:, at].mean():.5f})" for at, one in ends]
            rows.append([TITLES[dataset], "others" if on else "test", *cells])
    return markdown_table(["data set", "rows", *(f"`{method}`" for method in methods)], rows)


def _published_means(frame: Columns) -> str:
    table = below_published(frame)
    rows = []
    for dataset in DATASETS:
        for name in unique(table, "published"):
            part = where(table, dataset=dataset, published=name)
            ratio = numbers(part, "ours_risk") / numbers(part, "risk")
            if len(ratio):
                shown = f"{int((ratio <= 1.0).sum())} of {len(ratio)}"
                rows.append([TITLES[dataset], name, shown, f"{ratio.mean():.3f}", f"{ratio.max():.3f}"])
    head = ["data set", "published method", "points at or below", "mean ratio of risks", "largest ratio"]
    return markdown_table(head, rows)


def _calibration(frame: Columns) -> str:
    methods = {
        "cdf": "the paper's classifier, raw",
        "cdf_sigmoid": "sigmoid",
        "cdf_isotonic": "isotonic",
        "cdf_default": "our models and beta, raw",
    }
    rows = []
    for dataset in DATASETS:
        on = measured_on(frame, dataset)[-1]
        for method, name in methods.items():
            found = curves(frame, dataset, "text", method, on)
            asked = [int(np.argmin(np.abs(found.epsilon - level))) for level in (0.0, 0.06, 0.1)]
            reached = [f"{found.ks[:, place].mean():.3f}" for place in asked]
            rows.append([TITLES[dataset], name, *reached, f"{found.risk[:, asked[-1]].mean():.5f}"])
    head = ["data set", "group probabilities", "asked 0", "asked 0.06", "asked 0.1", "risk at 0.1"]
    return markdown_table(head, rows)


def _solvers(frame: Columns) -> dict[str, str]:
    table = where(solver_table(frame), by="own")
    tightest = min(unique(table, "epsilon"))
    rows = []
    for row in to_rows(where(table, epsilon=tightest)):
        measured = [f"{row[name]:.4f}" for name in ("ks", "ks_over_seeds", "violation", "gradient_map")]
        rows.append([TITLES[row["dataset"]], f"`{row['solver']}`", f"{row['risk']:.5f}", *measured])
    head = ["data set", "solver", "risk", "KS", "KS, deviation over seeds", "violation", "gradient map"]
    return {"solvers": markdown_table(head, rows), "five_solvers": _five_solvers(frame)}


def _five_solvers(frame: Columns) -> str:
    """Risk and KS of each solver at each tolerance: published, by the published formulas, ours."""
    rows = []
    for row in to_rows(solvers_against_published(frame)):
        names = ("told", "published", "own")
        shown = [f"{row[f'{name}_risk']:.4f} / {row[f'{name}_ks']:.3f}" for name in names]
        risk_off = abs(row["published_risk"] - row["told_risk"]) / row["risk_std"]
        ks_off = abs(row["published_ks"] - row["told_ks"]) / row["ks_std"]
        met = "yes" if max(risk_off, ks_off) <= HALF else "no"
        rows.append([f"`{row['solver']}`", row["exponent"], *shown, met])
    head = ["solver", "i", "published", "by the published formulas", "ours", "formulas within half"]
    return markdown_table(head, rows)


def _synthetic(frame: Columns) -> dict[str, str]:
    rows = []
    for method in unique(frame, "method"):
        table = where(frame, method=method)
        distances = [where(table, group=group)["ks"][0] for group in unique(table, "group")]
        rows.append([NAMES[method], *(f"{ks:.3f}" for ks in distances)])
    head = ["model", *(f"group {group}" for group in unique(frame, "group"))]
    return {"synthetic": markdown_table(head, rows)}


def _oracle(frame: Columns) -> dict[str, str]:
    rows = []
    for row in to_rows(oracle_table(frame)):
        shown = [f"{row['excess']:.6f}", f"{row['relative']:+.2%}", f"{row['missed']:+.5f}"]
        rows.append([TITLES[row["dataset"]], row["parity"], row["solver"], *shown])
    head = ["data set", "parity", "solver", "cost above the program", "of its cost", "most above epsilon"]
    return {"oracle": markdown_table(head, rows)}


def _timing(frame: Columns) -> dict[str, str]:
    published_name = {"paper": "dp_postproc", "adw_1": "adw_1", "adw_2": "adw_2"}
    rows = []
    for row in to_rows(timing_table(frame)):
        paper = published(row["dataset"]).seconds
        told, ratios = "", ["", ""]
        if name := published_name.get(row["method"]):
            mean, deviation = paper[name]
            told = f"{mean:.2f} \N{PLUS-MINUS SIGN} {deviation:.2f}"
            ratios = [f"{paper[other][0] / mean:.1f}" for other in ("adw_1", "adw_2")]
        ours = [f"{row[f'{name}_over_it']:.1f}" for name in ("adw_1", "adw_2")]
        cells = [TITLES[row["dataset"]], NAMES[row["method"]], f"{row['seconds']:.3f}", told]
        rows.append([*cells, *ours, *ratios])
    head = ["data set", "method", "seconds", "published seconds", "ADW-1 / it", "ADW-2 / it"]
    return {"timing": markdown_table([*head, "published: ADW-1 / it", "ADW-2 / it"], rows)}


def _short(value: float) -> str:
    return f"{value:.4f}"


TABLES: dict[str, Callable[[Columns], dict[str, str]]] = {  # block of page.md -> the tables in it, by name
    "published": published_tables,
    "comparison": _comparison,
    "matched": _matched,
    "convergence": _convergence,
    "solvers": _solvers,
    "timing": _timing,
    "synthetic": _synthetic,
    "oracle": _oracle,
}
