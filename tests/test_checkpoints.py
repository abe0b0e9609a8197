"""Streams over tables: interrupted, killed and resumed, they end in the model of a run that was not."""

import multiprocessing
import os
import signal
import time

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.tree import DecisionTreeRegressor

from evenhand import ParityPostprocessor, ParityRegressor, load, save
from evenhand._utils import atomic
from evenhand.datasets import make_population
from evenhand.exceptions import InterruptWarning
from evenhand.modelfile import ModelFileError
from evenhand.tables import TableProgress, checkpoints, stream_table

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")  # forks, Python 3.12

N_ROWS, BLOCK = 12_000, 500
DATA = make_population(N_ROWS, 3, random_state=0)
FRAME = pd.DataFrame(np.column_stack([DATA.scores, DATA.group_proba]), columns=["score", "a", "b", "c"])
NAMES = {"scores": "score", "group_proba": ["a", "b", "c"]}
STREAM = {"block_rows": BLOCK, **NAMES}


@pytest.fixture(scope="module")
def table_path(tmp_path_factory):
    path = tmp_path_factory.mktemp("stream") / "rows.parquet"
    FRAME.to_parquet(path, row_group_size=1300)
    return path


@pytest.fixture(scope="module")
def expected(table_path, tmp_path_factory):
    """The checkpoint of a run that nothing stopped."""
    path = tmp_path_factory.mktemp("expected") / "stream.evenhand"
    stream_table(make_step(), table_path, checkpoint=path, **STREAM)
    return path.read_bytes()


def make_step(**settings):
    return ParityPostprocessor(**{"epsilon": 0.02, "random_state": 1, **settings})


def test_a_streamed_table_gives_the_model_of_partial_fit(table_path):
    streamed = stream_table(make_step(), table_path, **STREAM)
    by_hand = make_step().partial_fit(FRAME["score"], FRAME[["a", "b", "c"]])
    assert streamed.multipliers_.tobytes() == by_hand.multipliers_.tobytes()
    assert streamed.stream_.n_rows == N_ROWS


@pytest.mark.parametrize("stop", [1, 499, 500, 2600, 11_999])
def test_a_stream_that_ended_early_goes_on_where_it_was(stop, table_path, tmp_path):
    path = tmp_path / "stream.evenhand"
    stream_table(make_step(), FRAME[:stop], checkpoint=path, **STREAM)
    resumed = stream_table(make_step(), table_path, checkpoint=path, resume=True, **STREAM)
    at_once = stream_table(make_step(), table_path, **STREAM)
    assert resumed.multipliers_.tobytes() == at_once.multipliers_.tobytes()
    assert resumed.stream_.n_rows == N_ROWS


def test_a_checkpoint_is_a_model_file_that_predicts(expected, tmp_path, table_path):
    path = tmp_path / "stream.evenhand"
    path.write_bytes(expected)
    model = load(path)
    streamed = stream_table(make_step(), table_path, **STREAM)
    drawn = model.predict(DATA.scores, DATA.group_proba)
    np.testing.assert_array_equal(drawn, streamed.predict(DATA.scores, DATA.group_proba))
    again = stream_table(make_step(), table_path, checkpoint=path, resume=True, **STREAM)
    assert again.multipliers_.tobytes() == streamed.multipliers_.tobytes()  # nothing was left to do
    assert path.read_bytes() == expected


def test_checkpoints_come_after_so_many_rows_and_at_the_end(table_path, tmp_path, monkeypatch):
    rows = []
    monkeypatch.setattr(checkpoints, "save", lambda model, path: rows.append(model.table_position_))
    stream_table(make_step(), table_path, checkpoint=tmp_path / "x", every_rows=3200, **STREAM)
    assert rows == [3500, 7000, 10_500, N_ROWS]


def test_checkpoints_come_after_so_many_seconds(table_path, tmp_path, monkeypatch):
    rows, clock = [], iter(range(1000))
    monkeypatch.setattr(checkpoints, "save", lambda model, path: rows.append(model.table_position_))
    monkeypatch.setattr(checkpoints, "monotonic", lambda: float(next(clock)))
    stream_table(make_step(), table_path, checkpoint=tmp_path / "x", every_seconds=7, **STREAM)
    assert len(rows) >= 3
    assert rows[-1] == N_ROWS


def test_a_checkpoint_that_is_there_is_not_overwritten_unasked(table_path, tmp_path):
    path = tmp_path / "stream.evenhand"
    stream_table(make_step(), FRAME[:BLOCK], checkpoint=path, **STREAM)
    before = path.read_bytes()
    with pytest.raises(FileExistsError, match="resume=True"):
        stream_table(make_step(), table_path, checkpoint=path, **STREAM)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"resume": True}, "pass checkpoint="),
        ({"every_rows": 5}, "pass checkpoint="),
        ({"checkpoint": "x", "every_rows": 0}, "every_rows must be positive"),
        ({"checkpoint": "x", "every_seconds": -1.0}, "every_seconds must be positive"),
        ({"block_rows": 0}, "block_rows must be a positive integer"),
    ],
)
def test_settings_without_a_meaning_are_refused(settings, message, table_path):
    step = make_step()
    with pytest.raises(ValueError, match=message):
        stream_table(step, table_path, **{**NAMES, **settings})
    assert not hasattr(step, "policy_")


def test_a_checkpoint_of_another_model_is_refused(table_path, tmp_path):
    path = tmp_path / "stream.evenhand"
    stream_table(make_step(), FRAME[:BLOCK], checkpoint=path, **STREAM)
    resume = {"checkpoint": path, "resume": True, **STREAM}
    with pytest.raises(ValueError, match=r"epsilon=0.02, but the model has epsilon=0.1"):
        stream_table(make_step(epsilon=0.1), table_path, **resume)
    with pytest.raises(ValueError, match="only 100 rows, but 500 were read"):
        stream_table(make_step(), FRAME[:100], **resume)
    refitted = stream_table(make_step(), FRAME, **STREAM).fit(DATA.scores, DATA.group_proba)
    for model in (refitted, make_step().fit(DATA.scores, DATA.group_proba)):
        save(model, path)
        with pytest.raises(ModelFileError, match="no checkpoint"):
            stream_table(make_step(), table_path, **resume)


def test_a_bad_block_is_named_and_leaves_the_model_as_after_the_block_before(tmp_path):
    path, step, frame = tmp_path / "stream.evenhand", make_step(), FRAME.copy()
    frame.loc[5200, "score"] = np.nan
    with pytest.raises(ValueError, match="must be finite") as caught:
        stream_table(step, frame, checkpoint=path, every_rows=BLOCK, **STREAM)
    assert caught.value.__notes__ == ["This is about rows 5000 to 5499 of the table."]
    assert step.stream_.n_rows == step.table_position_ == 5000
    mended = stream_table(make_step(), FRAME, checkpoint=path, resume=True, **STREAM)
    at_once = stream_table(make_step(), FRAME, **STREAM)
    assert mended.multipliers_.tobytes() == at_once.multipliers_.tobytes()


def test_ctrl_c_leaves_a_usable_model_and_its_checkpoint(table_path, tmp_path, expected):
    path, step = tmp_path / "stream.evenhand", make_step()

    def interrupt(now):
        if now.done == 5000:
            signal.raise_signal(signal.SIGINT)

    with pytest.warns(InterruptWarning, match="after row 5000"):
        stream_table(step, table_path, checkpoint=path, progress=interrupt, **STREAM)
    assert step.stream_.n_rows == 5000
    assert np.isfinite(step.predict(DATA.scores, DATA.group_proba)).all()
    seen = []
    stream_table(make_step(), table_path, checkpoint=path, resume=True, progress=seen.append, **STREAM)
    assert seen[0] == TableProgress("stream", 5500, N_ROWS)
    assert path.read_bytes() == expected


def test_ctrl_c_before_the_first_block_is_an_interrupt_like_any_other():
    def chunks():
        signal.raise_signal(signal.SIGINT)
        yield FRAME

    step = make_step()
    with pytest.raises(KeyboardInterrupt):
        stream_table(step, chunks(), **STREAM)
    assert not hasattr(step, "policy_")


def test_an_estimator_with_its_models_goes_on_from_its_checkpoint(tmp_path):
    frame = pd.DataFrame(DATA.data, columns=[f"x{i}" for i in range(DATA.data.shape[1])])
    models = DecisionTreeRegressor(max_depth=4), LogisticRegression()
    model = ParityRegressor(*models, beta="paper", random_state=0)  # a tree scores rows it has seen better
    model.fit(frame[:2000], DATA.target[:2000], sensitive_features=DATA.sensitive_features[:2000])
    save(model, tmp_path / "fitted")
    path, trusted = tmp_path / "stream.evenhand", ["sklearn.tree._tree.Tree"]

    def fresh():
        return load(tmp_path / "fitted", trusted=trusted)

    stream_table(fresh(), frame[:7000], checkpoint=path, block_rows=BLOCK)
    resumed = stream_table(fresh(), frame, checkpoint=path, resume=True, trusted=trusted, block_rows=BLOCK)
    at_once = stream_table(fresh(), frame, block_rows=BLOCK)
    assert resumed.multipliers_.tobytes() == at_once.multipliers_.tobytes()
    np.testing.assert_array_equal(resumed.predict(frame), at_once.predict(frame))
    other = ParityRegressor(LinearRegression(), epsilon=0.3, beta="paper")
    with pytest.raises(ValueError, match="epsilon"):
        stream_table(other, frame, checkpoint=path, resume=True, trusted=trusted)


# kills

FORK = multiprocessing.get_context("fork")  # no imports to wait for: kills fall on the work


def run_stream(table, path, crash=None):
    """One life of a process: stream, save after every block, and maybe die at a point of a save."""
    if crash is not None:
        crash()
    stream_table(make_step(), table, checkpoint=path, every_rows=BLOCK, resume=True, **STREAM)


def live(table, path, seconds=None, crash=None):
    """Start a process, kill it after `seconds`, and return its exit code."""
    process = FORK.Process(target=run_stream, args=(table, path, crash))
    process.start()
    process.join(seconds)
    if process.is_alive():
        os.kill(process.pid, signal.SIGKILL)
        process.join()
    return process.exitcode


def place(path):
    """How far the checkpoint is; it must be whole wherever there is one."""
    return load(path).table_position_ if path.exists() else 0


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def dying_at(name, call, *, after=False):
    """A crash at the `call`-th use of a function of `os` while saving."""

    def install():
        original, calls = getattr(atomic.os, name), iter(range(call + 1))

        def deadly(*args):
            last = next(calls, None) == call - 1
            if last and not after:
                die()
            result = original(*args)
            if last:
                die()
            return result

        setattr(atomic.os, name, deadly)

    return install


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("name", ["fsync", "replace", "open"])
def test_a_kill_at_any_step_of_a_save_loses_no_checkpoint(name, after, table_path, tmp_path, expected):
    path = tmp_path / "stream.evenhand"
    assert live(table_path, path, crash=dying_at(name, 3, after=after)) == -signal.SIGKILL
    reached = place(path)
    # fsync and open are called for the file and for its folder, replace once for a save
    assert reached in ({2 * BLOCK, 3 * BLOCK} if name == "replace" else {BLOCK})
    assert live(table_path, path) == 0
    assert path.read_bytes() == expected
    assert os.listdir(tmp_path) == [path.name]


def test_what_a_kill_in_the_first_save_left_is_removed(table_path, tmp_path, expected):
    path = tmp_path / "stream.evenhand"
    assert live(table_path, path, crash=dying_at("replace", 1)) == -signal.SIGKILL
    assert [name.endswith(".tmp") for name in os.listdir(tmp_path)] == [True]
    assert live(table_path, path) == 0
    assert path.read_bytes() == expected
    assert os.listdir(tmp_path) == [path.name]


def test_random_kills_end_in_the_same_model(table_path, tmp_path, expected):
    path, rng, reached, n_kills = tmp_path / "stream.evenhand", np.random.default_rng(0), 0, 0
    for _ in range(12):
        n_kills += live(table_path, path, seconds=rng.uniform(0.0, 0.25)) == -signal.SIGKILL
        assert reached <= place(path) <= N_ROWS
        reached = place(path)
    assert n_kills > 0
    assert live(table_path, path) == 0
    assert path.read_bytes() == expected


def test_a_save_leaves_no_time_without_a_checkpoint(table_path, tmp_path):
    path = tmp_path / "stream.evenhand"
    stream_table(make_step(), FRAME[:BLOCK], checkpoint=path, **STREAM)
    process = FORK.Process(target=run_stream, args=(table_path, path))
    process.start()
    places = []
    while process.is_alive():
        places.append(place(path))  # a reader at any moment finds a whole file
        time.sleep(0.001)
    process.join()
    assert process.exitcode == 0
    assert places == sorted(places)
    assert place(path) == N_ROWS


@pytest.mark.parametrize("place", [2, 700])
def test_a_checkpoint_with_other_atoms_is_refused_however_many_or_near_they_are(place, tmp_path):
    path = tmp_path / "stream.evenhand"
    atoms = np.linspace(-3.0, 3.0, 1501)
    rows = [(FRAME["score"].to_numpy()[:100], FRAME[["a", "b", "c"]].to_numpy()[:100])]
    stream_table(ParityPostprocessor(atoms=atoms), rows, checkpoint=path)
    others = atoms.copy()
    others[place] += 1e-10
    with pytest.raises(ValueError, match="made with atoms="):
        stream_table(ParityPostprocessor(atoms=others), rows, checkpoint=path, resume=True)


def test_a_table_that_cannot_be_opened_leaves_the_model_as_it_was(tmp_path):
    path = tmp_path / "stream.evenhand"
    rows = [(FRAME["score"].to_numpy()[:100], FRAME[["a", "b", "c"]].to_numpy()[:100])]
    stream_table(ParityPostprocessor(), rows, checkpoint=path)
    model = ParityPostprocessor()
    before = dict(vars(model))
    with pytest.raises(FileNotFoundError):
        stream_table(model, tmp_path / "gone.parquet", checkpoint=path, resume=True)
    assert vars(model) == before


STREAMED = make_population(3000, n_groups=2, random_state=5)


def rows_of(n_rows, shift=0.0):
    """A frame of rows, of which the last ones may be changed."""
    scores = STREAMED.scores[:n_rows].copy()
    scores[900:1000] += shift
    return pd.DataFrame(
        {
            "score": scores,
            "other": STREAMED.target[:n_rows],
            "a": STREAMED.group_proba[:n_rows, 0],
            "b": STREAMED.group_proba[:n_rows, 1],
        }
    )


def stream_rows(path, frame, **changed):
    asked = {"scores": "score", "group_proba": ["a", "b"], "half_life": 5000.0, **changed}
    return stream_table(
        ParityPostprocessor(atoms=5), frame, checkpoint=path, resume=path.exists(), block_rows=400, **asked
    )


@pytest.mark.parametrize(
    ("frame", "changed", "words"),
    [
        (rows_of(3000, shift=0.1), {}, "Rows 800 to 999 of the table are not those"),
        (rows_of(3000)[1:], {}, "Rows 800 to 999 of the table are not those"),
        (rows_of(900), {}, "only 900 rows, but 1000 were read"),
        (rows_of(800), {}, "only 800 rows, but 1000 were read"),
        (rows_of(3000), {"half_life": 7000.0}, r"half_life=5000\.0, and now half_life=7000\.0"),
        (rows_of(3000), {"half_life": None}, "now half_life=None"),
        (rows_of(3000), {"scores": "other"}, "scores='score', and now scores='other'"),
        (rows_of(3000), {"group_proba": ["b", "a"]}, "group_proba="),
    ],
    ids=["changed", "moved", "cut", "cut off", "half-life", "none", "column", "columns"],
)
def test_a_stream_is_not_resumed_on_other_rows_or_in_another_way(frame, changed, words, tmp_path):
    path = tmp_path / "stream.evenhand"
    stream_rows(path, rows_of(1000))
    before = path.read_bytes()
    with pytest.raises(ValueError, match=words):
        stream_rows(path, frame, **changed)
    assert path.read_bytes() == before
    resumed = stream_rows(path, rows_of(3000))
    at_once = stream_rows(tmp_path / "whole.evenhand", rows_of(3000))
    assert (resumed.multipliers_ == at_once.multipliers_).all()


def test_rows_of_an_iterator_are_compared_as_they_go_by(tmp_path):
    path = tmp_path / "stream.evenhand"
    stream_rows(path, rows_of(1000))
    chunks = (rows_of(3000)[start : start + 70] for start in range(0, 3000, 70))
    resumed = stream_rows(path, chunks)
    at_once = stream_rows(tmp_path / "whole.evenhand", rows_of(3000))
    assert (resumed.multipliers_ == at_once.multipliers_).all()
