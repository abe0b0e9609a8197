"""Run the paper's experiments in one call, and write their frames, their figures and the page."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from reproduction.frames import count_cores, describe_run, to_columns, write_frame
from reproduction.freshness import digest_cells
from reproduction.page import frame_path, require_plots, write_page
from reproduction.runner import Progress, made_at, run_cells
from reproduction.studies import FULL, QUICK, STUDIES

CELLS = ".cells"  # subfolder of the output folder that holds the finished cells


def reproduce(
    out: str | Path,
    *,
    quick: bool = False,
    only: str | Iterable[str] | None = None,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> Path:
    """Run the paper's experiments, and write their frames, their figures and the page that explains them.

    A run can be stopped at any time and called again: what is finished is not computed again. The data
    sets must be where `evenhand.datasets` finds them; its loaders fetch them with `download_if_missing=True`.

    Parameters
    ----------
    out : path
        Folder of `results/` (a CSV for each study and a JSON that says how it was made), `figures/`,
        `reproduction.md` and the finished cells.
    quick : bool, default=False
        Use fewer splits and tolerances, in about a fifth of the time.
    only : str or iterable of str, default=None
        Names of studies: convergence, published, comparison, matched, solvers, synthetic, oracle,
        timing. None: all.
    n_jobs : int or None, default=None
        Cells computed at the same time; None is the number of cores. Times are measured one by one.
    progress : callable, default=None
        `progress(done, total, name)`, called at the start and after every cell.

    Returns
    -------
    Path
        The page, made of the frames that are there.
    """
    require_plots()  # first, so that a long run does not fail at its end for want of a library
    out = Path(out)
    scale = QUICK if quick else FULL
    names = _names(only)
    chosen = [STUDIES[name] for name in names]
    plans = [list(study.cells(scale)) for study in chosen]
    total, before = sum(map(len, plans)), 0
    about = describe_run(_command(quick, None if only is None else names), scale=scale.name)
    for study, cells in zip(chosen, plans, strict=True):
        report = None if progress is None else _shifted(progress, before, total)
        jobs = 1 if study.alone else n_jobs or count_cores()
        rows = run_cells(cells, study.compute, out / CELLS, n_jobs=jobs, progress=report)
        made: dict[str, Any] = {"study": study.name, "seeds": sorted({cell.split for cell in cells})}
        made |= {"computed_at": made_at(cells, out / CELLS), "cells": digest_cells(cells)}
        write_frame(to_columns(rows), frame_path(out, study.name), about | made)
        before += len(cells)
    return write_page(out)


def _names(only: str | Iterable[str] | None) -> list[str]:
    if only is None:
        return list(STUDIES)
    names = [only] if isinstance(only, str) else list(dict.fromkeys(only))
    unknown = [name for name in names if name not in STUDIES]
    if unknown or not names:
        wrong = f"got {unknown[0]!r}" if unknown else "got none"
        raise ValueError(f"only must name studies: {wrong}. Valid names: {', '.join(STUDIES)}.")
    return names


def _command(quick: bool, names: list[str] | None) -> str:
    """The command that makes the same frames; without the folder, which may be a path of this machine."""
    options = ["--quick"] * quick + (["--only", *names] if names else [])
    return f'make reproduce ARGS="{" ".join(options)}"' if options else "make reproduce"


def _shifted(progress: Progress, before: int, total: int) -> Progress:
    """Report the progress of one study as that of the whole run."""

    def report(done: int, _: int, name: str) -> None:
        progress(before + done, total, name)

    return report
