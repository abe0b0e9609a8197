"""The paper's experiments: cells that are computed once, frames, the page, and `python -m reproduction`."""

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from evenhand._utils.progress import listening
from evenhand.cli.terminal import Terminal
from reproduction import reproduce, rows
from reproduction.__main__ import main, make_parser
from reproduction.analysis import Curves, _beside, _matched, curves
from reproduction.comparison import compute_comparison
from reproduction.frames import (
    read_about,
    read_commit,
    read_csv,
    to_columns,
    write_csv,
    write_frame,
)
from reproduction.page import frame_path, write_page
from reproduction.published import DATASETS, published
from reproduction.published_tables import outside
from reproduction.rows import prepare
from reproduction.runner import Cell, made_at, run_cells
from reproduction.studies import FULL, QUICK, STUDIES

COUNTER = """
    import sys, time
    from pathlib import Path
    from reproduction.runner import Cell, run_cells

    folder = Path(sys.argv[1])

    def compute(cell):
        with (folder / "computed.txt").open("a") as log:
            log.write(f"{cell.split}\\n")
        time.sleep(float(sys.argv[2]))
        return [{"value": cell.split}]

    cells = [Cell("study", "data", split, "method") for split in range(5)]
    rows = run_cells(cells, compute, folder / "cells")
    assert [row["value"] for row in rows] == [0, 1, 2, 3, 4]
"""


@pytest.fixture
def checkout_on_path(project_root, monkeypatch):
    """Let other processes import `reproduction`, which is not installed."""
    monkeypatch.setenv("PYTHONPATH", str(project_root), prepend=os.pathsep)


def compute_square(cell):
    return [{"square": cell.split**2, "extra": cell["extra"]}]


def make_cells(n_cells=3, extra="a"):
    return [Cell("study", "data", split, "method", (("extra", extra),)) for split in range(n_cells)]


def never(*arguments):
    raise AssertionError("this was to be read, not computed")


def test_rows_come_in_the_order_of_the_cells_with_their_names(tmp_path):
    found = run_cells(make_cells()[::-1], compute_square, tmp_path)
    assert found[0] == {"dataset": "data", "split": 2, "method": "method", "square": 4, "extra": "a"}
    assert [row["square"] for row in found] == [4, 1, 0]


def test_a_finished_cell_is_never_computed_again(tmp_path):
    first = run_cells(make_cells(), compute_square, tmp_path)
    assert run_cells(make_cells(), never, tmp_path) == first


@pytest.mark.parametrize("keep", [0, 1, 40, -1])
def test_a_cell_that_was_cut_short_is_computed_again(tmp_path, keep):
    first = run_cells(make_cells(), compute_square, tmp_path)
    broken = tmp_path / f"{make_cells()[1].key}.json"
    broken.write_bytes(broken.read_bytes()[:keep])
    again = []
    assert run_cells(make_cells(), lambda cell: again.append(cell) or compute_square(cell), tmp_path) == first
    assert again == make_cells()[1:2]
    assert run_cells(make_cells(), never, tmp_path) == first
    broken.write_text("[]")
    with pytest.raises(FileNotFoundError, match="holds no finished cell"):
        made_at(make_cells(), tmp_path)


def test_a_cell_with_other_settings_is_another_cell(tmp_path):
    run_cells(make_cells(), compute_square, tmp_path)
    others = run_cells(make_cells(extra="b"), compute_square, tmp_path)
    assert {row["extra"] for row in others} == {"b"}


def test_a_failed_cell_leaves_the_finished_ones_and_nothing_of_its_own(tmp_path):
    def compute(cell):
        if cell.split == 2:
            raise RuntimeError("no")
        return compute_square(cell)

    with pytest.raises(RuntimeError, match="no"):
        run_cells(make_cells(), compute, tmp_path)
    assert len(list(tmp_path.iterdir())) == 2
    run_cells(make_cells(2), never, tmp_path)


def test_a_cell_whose_solver_was_interrupted_is_not_kept(tmp_path):
    def compute(cell):
        with contextlib.suppress(KeyboardInterrupt):  # as a solver does, to return what it has
            signal.raise_signal(signal.SIGINT)
        return compute_square(cell)

    with pytest.raises(KeyboardInterrupt):
        run_cells(make_cells(), compute, tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.slow
def test_a_killed_run_loses_only_the_cell_that_was_running(tmp_path, checkout_on_path):
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(COUNTER))
    command = [sys.executable, str(script), str(tmp_path)]
    with subprocess.Popen([*command, "0.4"]) as running:
        while len(list((tmp_path / "cells").glob("*.json"))) < 2:
            assert running.poll() is None
            time.sleep(0.02)
        running.send_signal(signal.SIGKILL)
    finished = len(list((tmp_path / "cells").glob("*.json")))
    begun = len((tmp_path / "computed.txt").read_text().split())
    subprocess.run([*command, "0"], check=True)
    computed = [int(line) for line in (tmp_path / "computed.txt").read_text().split()]
    assert 2 <= finished < 5
    assert set(computed) == set(range(5))
    assert len(computed) == begun + 5 - finished  # what was stored was not computed again


def test_progress_counts_what_was_there_and_every_cell_after(tmp_path):
    seen = []
    run_cells(make_cells(2), compute_square, tmp_path)
    run_cells(make_cells(4), compute_square, tmp_path, progress=lambda *told: seen.append(told[:2]))
    assert seen == [(2, 4), (3, 4), (4, 4)]


@pytest.mark.slow
def test_processes_give_the_same_rows_as_one(tmp_path):
    def compute(cell):  # not a function of this module, which other processes cannot import
        return [{"draw": float(np.random.default_rng(cell.split).random())}]

    one = run_cells(make_cells(4), compute, tmp_path / "one")
    assert run_cells(make_cells(4), compute, tmp_path / "two", n_jobs=2) == one


def test_a_frame_comes_back_with_how_it_was_made(tmp_path):
    columns = to_columns([{"name": "a", "value": 0.5, "n": 3}, {"name": "b", "n": 4}])
    write_frame(columns, tmp_path / "frame.csv", {"command": "x"})
    back = read_csv(tmp_path / "frame.csv")
    assert back["name"] == ["a", "b"]
    assert back["n"] == [3, 4]
    assert back["value"][0] == 0.5
    assert np.isnan(back["value"][1])
    assert read_about(tmp_path / "frame.csv") == {"command": "x"}


def test_numbers_survive_a_csv_whatever_their_size(tmp_path):
    values = [2.0**-512, 1e22, -3.5, float("inf"), 7]
    write_csv({"value": values}, tmp_path / "frame.csv")
    np.testing.assert_allclose(read_csv(tmp_path / "frame.csv")["value"], values, rtol=1e-5)


def test_cells_of_a_scale_are_distinct_and_the_quick_ones_are_fewer():
    for study in STUDIES.values():
        full, quick = list(study.cells(FULL)), list(study.cells(QUICK))
        assert len({cell.key for cell in full}) == len(full)
        assert len(quick) <= len(full)


def test_cells_say_at_which_commits_they_were_computed(tmp_path, monkeypatch):
    for commit, n_cells in (("first", 2), ("second", 3)):
        monkeypatch.setattr("reproduction.runner.read_commit", lambda commit=commit: commit)
        run_cells(make_cells(n_cells), compute_square, tmp_path)
    assert made_at(make_cells(2), tmp_path) == ["first"]
    assert made_at(make_cells(3), tmp_path) == ["first", "second"]


def test_a_run_in_a_checkout_knows_its_commit(project_root):
    if not (project_root / ".git").exists():
        pytest.skip("this copy is no checkout")
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=project_root, check=True, capture_output=True, text=True
    )
    assert head.stdout.startswith(read_commit().removesuffix("-dirty"))


def test_a_run_without_the_library_that_draws_stops_before_it_computes(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    monkeypatch.setattr("reproduction.reproduction.run_cells", never)
    with pytest.raises(ImportError, match=r"evenhand\[plot\]"):
        reproduce(tmp_path, only="synthetic")


def test_a_point_outside_says_in_which_measure_and_how_far():
    told = published("lawschool").ours
    off = np.array([-1.0, 1.0]) * told.risk_std[0]  # so that our deviation is the published one
    row = _beside(told, 0, told.risk[0] + 2.0 * told.risk_std[0] + off, np.full(2, told.ks[0]))
    assert (row["off"], row["ks_errors"]) == (pytest.approx(2.0), 0.0)
    assert row["risk_errors"] == pytest.approx(2.0 / np.sqrt(1 / 10 + 1 / 2))
    assert outside(row, 1.0) == "risk by 2.6 s.e."


def test_only_names_a_study():
    with pytest.raises(ValueError, match="Valid names: convergence, published, comparison"):
        reproduce("nowhere", only="comparision")


def test_reproduce_writes_frame_figure_and_page_and_computes_nothing_twice(tmp_path, monkeypatch):
    page = reproduce(tmp_path, quick=True, only=iter(["synthetic"]), n_jobs=1)
    assert "figures/reproduction-synthetic.png" in page.read_text()
    assert (tmp_path / "figures" / "reproduction-synthetic.png").stat().st_size > 10_000
    about = read_about(frame_path(tmp_path, "synthetic"))
    assert {"command", "commit", "computed_at", "date", "machine", "scale", "seeds", "versions"} <= set(about)
    assert about["command"] == 'make reproduce ARGS="--quick --only synthetic"'
    assert str(tmp_path) not in page.read_text() + json.dumps(about)
    before = frame_path(tmp_path, "synthetic").read_text()
    monkeypatch.setattr("reproduction.synthetic.make_paper_synthetic", never)
    reproduce(tmp_path, quick=True, only="synthetic", n_jobs=1)
    assert frame_path(tmp_path, "synthetic").read_text() == before


def test_the_published_figures_are_the_ones_that_were_handed_over(project_root):
    shared = project_root.parent / "shared" / "published-figures.json"
    if not shared.exists():
        pytest.skip(f"{shared} is not here")
    own = json.loads((Path(rows.__file__).parent / "published.json").read_text())
    for dataset, table in json.loads(shared.read_text()).items():
        for name, value in table.items():
            kept = own[dataset][name]
            assert kept == value if not isinstance(value, dict) else value.items() <= kept.items()


def test_the_page_in_the_docs_is_made_of_the_frames_there_and_of_nothing_else(
    project_root, tmp_path, monkeypatch
):
    docs = project_root / "docs"
    results = sorted(docs.glob("results/reproduction-*"))
    if not results:
        pytest.skip("no frames: the docs are not part of this copy")
    (tmp_path / "results").mkdir()
    for path in results:
        (tmp_path / "results" / path.name).write_bytes(path.read_bytes())
    for name in ("prepare", "prepare_bunch", "_load"):
        monkeypatch.setattr(rows, name, never)
    assert write_page(tmp_path).read_text() == (docs / "reproduction.md").read_text()
    drawn = {path.name for path in (tmp_path / "figures").iterdir()}
    assert drawn == {path.name for path in docs.glob("figures/reproduction-*")}


def test_every_command_that_stands_beside_a_frame_can_be_given_again(project_root):
    for path in sorted(project_root.glob("docs/results/reproduction-*.csv")):
        about = read_about(path)
        options = re.fullmatch(r'make reproduce(?: ARGS="(.*)")?', about["command"])[1]
        asked = make_parser().parse_args(shlex.split(options or ""))
        assert asked.only is None or about["study"] in asked.only
        assert asked.quick == (about["scale"] == "quick")


def test_the_command_computes_what_is_asked_for_and_prints_where_the_page_is(tmp_path, capsys):
    asked = ["--out", str(tmp_path), "--quick", "--only", "synthetic", "-j", "1"]
    main(asked)
    page = tmp_path / "reproduction.md"
    assert capsys.readouterr().out == f"{page}\n"
    assert frame_path(tmp_path, "synthetic").exists()
    assert "![" in page.read_text()
    cells = {path: path.stat().st_mtime_ns for path in (tmp_path / ".cells").iterdir()}
    main(asked)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / ".cells").iterdir()} == cells


def test_the_command_hands_its_options_on_and_tells_how_far_it_is(monkeypatch):
    called, heard = {}, []

    def record(out, *, progress, **options):
        progress(3, 12, "a cell")
        called.update(out=out, **options)
        return "page"

    monkeypatch.setattr("reproduction.__main__.reproduce", record)
    monkeypatch.setattr(Terminal, "working", lambda *_: contextlib.nullcontext())
    with listening(lambda *told: heard.append(told)):
        main(["--out", "paper", "--only", "timing", "oracle", "--only", "solvers", "--jobs", "2"])
    assert called == {"out": "paper", "quick": False, "only": ["timing", "oracle", "solvers"], "n_jobs": 2}
    assert heard == [("cells", 3, 12)]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--only", "nothing"], ["'nothing'", *STUDIES]),
        (["--jobs", "0"], ["must be a positive whole number: got '0'"]),
        (["--fast"], ["unrecognized arguments: --fast"]),
    ],
)
def test_a_wrong_command_is_answered_with_one_line(capsys, arguments, words):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    told = capsys.readouterr()
    assert (told.out, told.err.count("\n")) == ("", 1)
    assert [word for word in words if word not in told.err] == []


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (FileNotFoundError("adult.csv was not found"), 1, "adult.csv was not found"),
        (ImportError("Plotting needs matplotlib"), 1, "Plotting needs matplotlib"),
        (KeyboardInterrupt(), 130, "goes on where this one stopped"),
    ],
)
def test_a_run_that_cannot_go_on_says_so_in_one_line(capsys, monkeypatch, error, code, words):
    def fail(*arguments, **options):
        raise error

    monkeypatch.setattr("reproduction.__main__.reproduce", fail)
    with pytest.raises(SystemExit) as ended:
        main([])
    assert ended.value.code == code
    told = capsys.readouterr()
    assert (told.out, told.err.count("\n")) == ("", 1)
    assert words in told.err


def test_a_matched_difference_of_flat_curves_is_the_paired_t_test():
    rng = np.random.default_rng(0)
    ours, other = rng.normal(size=(2, 10, 1))
    ks = np.tile(np.linspace(0.1, 0.5, 4), (10, 1))
    pair = [Curves(ks[0], ks, np.broadcast_to(risk, ks.shape)) for risk in (ours, other)]
    expected = ttest_1samp((ours - other).ravel(), 0.0).confidence_interval(0.95)
    for row in _matched(*pair):
        assert row["difference"] == pytest.approx((ours - other).mean())
        assert (row["low"], row["high"]) == pytest.approx(tuple(expected))


def test_risk_is_read_off_the_mean_curve():
    found = Curves(np.arange(3.0), np.array([[0.0, 0.2, 0.4]]), np.array([[3.0, 1.0, 0.0]]))
    np.testing.assert_allclose(found.risk_at(np.array([0.1, 0.3])), [2.0, 0.5])


def test_the_published_budget_and_grid_are_what_is_run():
    studies = [*STUDIES["comparison"].cells(FULL), *STUDIES["published"].cells(FULL)]
    for cell in (cell for cell in studies if cell.method in ("paper", "variant_published")):
        told = published(cell.dataset)
        assert cell["budget"] == told.budget
        assert set(told.ours.exponents) <= set(cell["exponents"])


def test_a_comparison_on_one_data_set_measures_what_its_names_say(data_home, tmp_path):
    wanted = ("base", "paper", "cdf", "adw_2", "barycentre")
    cells = [
        cell
        for cell in STUDIES["comparison"].cells(QUICK)
        if cell.dataset == "communities" and cell.split == 0 and cell.method in wanted
    ]
    frame = to_columns(run_cells(cells, compute_comparison, tmp_path))
    split = prepare("communities", "text", 0)
    test = split.split.test
    scores = split.regressor.predict(split.features[test])
    base = curves(frame, "communities", "text", "base")
    assert base.risk[0, 0] == pytest.approx(np.mean((scores - split.target[test]) ** 2))
    for method in wanted[1:]:
        found = curves(frame, "communities", "text", method)
        assert found.ks[0].min() < 0.5 * base.ks[0, 0]  # parity was gained
        assert found.risk[0, found.ks[0].argmin()] > base.risk[0, 0]  # at a price


def test_the_two_names_of_a_data_set_agree():
    assert set(DATASETS) == set(rows.LOADERS)
