"""Tables bigger than memory give the models of tables in memory."""

import gc
import os
import signal
import threading

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.tree import DecisionTreeRegressor

from evenhand import ParityRegressor
from evenhand._utils.validation import Rows
from evenhand.dual.costs import Squared
from evenhand.dual.grid import uniform_grid
from evenhand.dual.step import ParityStep
from evenhand.exceptions import ClippingWarning, ConvergenceWarning, InterruptWarning
from evenhand.tables import TableProgress, batch, fit_table, iter_predictions, predict_table, spool
from evenhand.tables.sources import open_source
from tests.tables import DATA, GROUPS, N_ROWS, NAMES, TABLE, fit_in_memory, make_step, write_table


@pytest.fixture(scope="module")
def table_path(tmp_path_factory):
    return write_table(tmp_path_factory.mktemp("table") / "rows.parquet")


@pytest.fixture(scope="module")
def regression():
    """A fitted regressor, and a frame of unlabelled rows."""
    frame = pd.DataFrame(DATA.data, columns=[f"x{i}" for i in range(DATA.data.shape[1])])
    known = slice(0, 2000)
    model = ParityRegressor(LinearRegression(), LogisticRegression(), epsilon=0.05, random_state=3)
    model.fit(frame[known], DATA.target[known], sensitive_features=DATA.sensitive_features[known])
    return model, frame[2000:].reset_index(drop=True)


@pytest.fixture
def small_memory(monkeypatch):
    monkeypatch.setattr(batch, "MEMORY_NUMBERS", 5000)  # 1000 rows of three groups
    monkeypatch.setattr(spool, "BLOCK_ROWS", 1024)


def assert_same_model(one, other):
    assert one.groups_.tolist() == other.groups_.tolist()
    for name in ("atoms_", "multipliers_", "group_prior_", "tilt_"):
        assert getattr(one, name).tobytes() == getattr(other, name).tobytes(), name


# sources


def every_source(folder):
    """The same table in every shape that it may come in."""
    pieces = folder / "pieces"
    pieces.mkdir()
    for number, start in enumerate(range(0, N_ROWS, 2500)):
        pa.parquet.write_table(TABLE.slice(start, 2500), pieces / f"{number:03}.parquet", row_group_size=900)
    arrow = folder / "rows.arrow"
    with pa.ipc.new_file(arrow, TABLE.schema) as writer:
        writer.write_table(TABLE, max_chunksize=800)
    frame = TABLE.to_pandas()
    return {
        "folder": pieces,
        "text": str(pieces / "000.parquet").replace("pieces/000.parquet", "pieces"),
        "dataset": pa.dataset.dataset(pieces),
        "Arrow file": arrow,
        "Arrow table": TABLE,
        "Arrow reader": pa.RecordBatchReader.from_batches(TABLE.schema, TABLE.to_batches(max_chunksize=1234)),
        "pandas": frame,
        "polars": pl.from_pandas(frame),
        "iterator of pandas": (frame[start : start + 999] for start in range(0, N_ROWS, 999)),
        "list of polars": [
            pl.from_pandas(frame[:10]),
            pl.from_pandas(frame[10:10]),
            pl.from_pandas(frame[10:]),
        ],
    }


def test_every_kind_of_source_gives_the_model_of_fit_bit_for_bit(table_path, tmp_path):
    expected = fit_in_memory(make_step())
    for kind, source in {"file": table_path, **every_source(tmp_path)}.items():
        fitted = fit_table(make_step(), source, **NAMES)
        assert_same_model(fitted, expected)
        assert fitted.certificate_.risk == expected.certificate_.risk, kind


def test_tuples_of_arrays_are_chunks_too():
    chunks = (
        (DATA.scores[start : start + 77], DATA.group_proba[start : start + 77])
        for start in range(0, N_ROWS, 77)
    )
    assert_same_model(fit_table(make_step(), chunks), make_step().fit(DATA.scores, DATA.group_proba))


@pytest.mark.parametrize("start", [0, 1, 1699, 1700, 1701, 5999, 6000])
@pytest.mark.parametrize("block_rows", [400, 499, 1700, 10_000])
def test_blocks_are_counted_from_the_start_and_hold_every_row_once(table_path, start, block_rows):
    blocks = list(open_source(table_path, ["who"]).blocks(block_rows, start))
    sizes = [block.num_rows for block in blocks]
    assert len(set(sizes[:-1])) <= 1
    assert all(block.column_names == ["who"] for block in blocks)
    whole = np.concatenate([block["who"].to_numpy() for block in blocks]) if blocks else np.arange(0)
    np.testing.assert_array_equal(whole, np.arange(10_000 + start, 10_000 + N_ROWS))


def test_only_the_columns_that_are_needed_are_read(table_path, monkeypatch):
    read = []
    original = open_source

    def spy(source, columns, **options):
        read.append(columns)
        return original(source, columns, **options)

    monkeypatch.setattr("evenhand.tables.model_inputs.open_source", spy)
    fit_table(make_step(), table_path, **NAMES)
    assert read == [["score", *GROUPS]]


@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        (17, TypeError, "path of a CSV, Parquet"),
        ("no/such/file", FileNotFoundError, "No such file or folder"),
        ([], ValueError, "no rows"),
        ([object()], TypeError, "gives frames"),
        (pd.DataFrame({"score": [0.1]}), Exception, "a|b|c"),
    ],
)
def test_a_source_that_is_no_table_is_refused_and_the_model_stays_as_it_was(source, error, message):
    step = fit_in_memory(make_step())
    before = dict(vars(step))
    with pytest.raises(error, match=message):
        fit_table(step, source, **NAMES)
    assert vars(step) == before


def test_a_missing_column_is_named_before_anything_is_read(table_path):
    with pytest.raises(ValueError, match="no column nothing"):
        fit_table(make_step(), table_path, scores="nothing", group_proba=GROUPS)
    with pytest.raises(ValueError, match="pass scores="):
        fit_table(make_step(), table_path)
    with pytest.raises(ValueError, match="list of names"):
        fit_table(make_step(), table_path, scores="score", group_proba="abc")


def test_a_bad_block_in_the_middle_leaves_the_model_as_it_was():
    step = fit_in_memory(make_step())
    before = dict(vars(step))
    frame = TABLE.to_pandas()
    frame.loc[5000, "score"] = np.nan
    with pytest.raises(ValueError, match="scores must be finite"):
        fit_table(step, frame, **NAMES)
    assert vars(step) == before


# more rows than are held in memory


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"parity": "pmf", "epsilon": [0.01, 0.02, 0.03]},
        {"parity": "mean"},
        {"atoms": np.linspace(-1, 1, 31)},
    ],
    ids=["cdf", "pmf", "mean", "own atoms"],
)
def test_a_fit_on_a_map_ends_where_a_fit_in_memory_ends(settings, table_path, small_memory):
    expected = fit_in_memory(make_step(**settings))
    mapped = fit_table(make_step(**settings), table_path, **NAMES)
    assert mapped.beta_ == expected.beta_
    np.testing.assert_array_equal(mapped.atoms_, expected.atoms_)
    np.testing.assert_allclose(mapped.group_prior_, expected.group_prior_, rtol=1e-12)
    assert mapped.certificate_.excess.max() <= 1e-6
    # both gaps are below tol on the scale of the atoms
    scale = mapped.policy_.grid.half_width**2
    assert abs(mapped.certificate_.entropic_risk - expected.certificate_.entropic_risk) <= 4e-6 * scale


def test_a_map_gathers_and_sums_what_a_problem_in_memory_does(small_memory):
    rows = Rows(DATA.scores, DATA.group_proba, (0, 1, 2), None)

    grid = uniform_grid(-1.0, 1.0, 11)
    step = ParityStep(grid, "cdf", Squared(), rows.group_mass(), None, epsilon=np.zeros(3), beta=10.0)
    expected, chosen = step.rows(rows), np.array([0, 5, 1023, 1024, 3000, N_ROWS - 1])
    with spool.Spool() as rows_on_disk:
        for start in range(0, N_ROWS, 700):
            part = slice(start, start + 700)
            rows_on_disk.append(Rows(DATA.scores[part], DATA.group_proba[part], rows.groups, None), None)
        np.testing.assert_allclose(rows_on_disk.group_mass(), rows.group_mass(), rtol=1e-12)
        with rows_on_disk.mapped(step.rows) as mapped:
            np.testing.assert_allclose(mapped.mean_constant(), expected.mean_constant(), rtol=1e-12)
            found, wanted = mapped.take(chosen), expected.take(chosen)
            for name in ("design", "constant", "weights"):
                np.testing.assert_allclose(getattr(found, name), getattr(wanted, name), rtol=1e-12)
            np.testing.assert_allclose(mapped.sample(6).design, expected.sample(6).design, atol=1e-12)


def test_weights_of_a_map_count_and_rows_of_weight_zero_do_not(table_path, small_memory):
    expected = fit_in_memory(make_step(), weights=TABLE["weight"].to_numpy())
    mapped = fit_table(make_step(), table_path, sample_weight="weight", **NAMES)
    np.testing.assert_allclose(mapped.group_prior_, expected.group_prior_, rtol=1e-12)
    np.testing.assert_allclose(mapped.certificate_.risk, expected.certificate_.risk, rtol=1e-3)
    assert mapped.certificate_.excess.max() <= 1e-6


def test_what_fit_reports_a_map_reports_too(table_path, small_memory):
    with pytest.warns(ClippingWarning) as expected:
        in_memory = fit_in_memory(make_step(bounds=(-0.3, 0.3)))
    with pytest.warns(ClippingWarning) as mapped:
        out_of_core = fit_table(make_step(bounds=(-0.3, 0.3)), table_path, **NAMES)
    assert [str(w.message) for w in mapped] == [str(w.message) for w in expected]
    assert out_of_core.n_clipped_ == in_memory.n_clipped_ > 0
    with pytest.warns(ConvergenceWarning, match="stopped after 1 iterations"):
        fit_table(make_step(max_iter=1, tol=1e-12), table_path, **NAMES)
    with pytest.raises(ValueError, match=r'solver="lp" holds all its rows'):
        fit_table(make_step(solver="lp"), table_path, **NAMES)


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="this system does not list open files")
def test_nothing_is_left_open_or_running(table_path, small_memory, tmp_path):
    opened = len(os.listdir("/proc/self/fd"))
    fit_table(make_step(), table_path, folder=tmp_path, **NAMES)
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == opened
    assert not [thread for thread in threading.enumerate() if "release" in thread.name]
    assert list(tmp_path.iterdir()) == []


# estimators


def test_an_estimator_keeps_its_models_and_fits_its_parity_step_on_the_table(regression, tmp_path):
    model, frame = regression
    path = tmp_path / "people.parquet"
    frame.assign(note="x").to_parquet(path)
    before = model.step_
    expected = make_step(random_state=3).fit(*model.predict_scores(frame))
    try:
        estimator = model.estimator_
        assert fit_table(model, path) is model
        assert model.estimator_ is estimator
        np.testing.assert_allclose(model.tilt_, expected.tilt_, atol=1e-6)
        assert model.certificate_.calibration is not None
        assert model.certificate_.risk == model.certificate_.risk
    finally:
        model.step_ = before


def test_models_fitted_on_arrays_take_the_columns_in_the_order_asked_for(tmp_path):
    X = DATA.data
    model = ParityRegressor(DecisionTreeRegressor(max_depth=3), LogisticRegression(), random_state=0)
    model.fit(X, DATA.target, sensitive_features=DATA.sensitive_features)
    names = [f"x{i}" for i in range(X.shape[1])]
    table = pa.table(
        {name: X[:, i] for i, name in reversed(list(enumerate(names)))} | {"other": ["o"] * N_ROWS}
    )
    drawn = np.concatenate(list(iter_predictions(model, table, columns=names, block_rows=700)))
    np.testing.assert_array_equal(drawn, model.predict(X))


def test_an_aware_model_reads_the_group_from_its_column(tmp_path):
    frame = pd.DataFrame(DATA.data, columns=[f"x{i}" for i in range(DATA.data.shape[1])])
    model = ParityRegressor(LinearRegression(), aware=True)
    model.fit(frame, DATA.target, sensitive_features=DATA.sensitive_features)
    with_group = frame.assign(group=DATA.sensitive_features)
    drawn = np.concatenate(list(iter_predictions(model, with_group, sensitive_features="group")))
    np.testing.assert_array_equal(drawn, model.predict(frame, sensitive_features=DATA.sensitive_features))


# progress and Ctrl-C


def test_progress_counts_the_rows_and_the_steps(table_path, tmp_path, small_memory, monkeypatch):
    monkeypatch.setattr(batch, "BLOCK_ROWS", 2000)
    seen = []
    step = fit_table(make_step(), table_path, progress=seen.append, **NAMES)
    assert [now.done for now in seen if now.stage == "read"] == [2000, 4000, 6000]
    assert seen[0] == TableProgress("read", 2000, N_ROWS)
    assert [now.done for now in seen if now.stage == "solve"][-1] == step.result_.n_iter
    predict_table(step, table_path, tmp_path / "out", progress=seen.append, block_rows=5000, **NAMES)
    assert seen[-2:] == [TableProgress("predict", 5000, N_ROWS), TableProgress("predict", N_ROWS, N_ROWS)]


def test_a_bar_shows_rows_and_steps(table_path, capsys):
    fit_table(make_step(), table_path, progress=True, **NAMES)
    shown = capsys.readouterr().err
    assert "read: 100%" in shown
    assert "solve" in shown


def test_ctrl_c_while_reading_fits_the_rows_that_were_read(table_path, monkeypatch):
    monkeypatch.setattr(batch, "BLOCK_ROWS", 2000)

    def interrupt(now):
        if now.stage == "read" and now.done == 4000:
            signal.raise_signal(signal.SIGINT)

    with pytest.warns(InterruptWarning, match="first 4000 rows"):
        stopped = fit_table(make_step(), table_path, progress=interrupt, **NAMES)
    first = make_step().fit(DATA.scores[:4000], DATA.group_proba[:4000])
    assert stopped.multipliers_.tobytes() == first.multipliers_.tobytes()


def test_ctrl_c_while_solving_keeps_the_last_iterate(table_path, small_memory):
    def interrupt(now):
        if now.stage == "solve":
            signal.raise_signal(signal.SIGINT)

    with pytest.warns(ConvergenceWarning, match="stopped"):
        stopped = fit_table(make_step(tol=1e-12), table_path, progress=interrupt, **NAMES)
    assert np.isfinite(stopped.predict_mean(DATA.scores, DATA.group_proba)).all()


def test_ctrl_c_before_the_first_block_is_an_interrupt_like_any_other():
    def chunks():
        signal.raise_signal(signal.SIGINT)
        yield TABLE

    step = make_step()
    with pytest.raises(KeyboardInterrupt):
        fit_table(step, chunks(), **NAMES)
    assert not hasattr(step, "policy_")
