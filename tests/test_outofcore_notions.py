"""Tables with strata, classes and other costs, and the estimators that make them."""

import pickle

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

from evenhand import load
from evenhand.estimators.streaming import BLOCK_ROWS
from evenhand.tables import batch, fit_table, iter_predictions, predict_table, spool, stream_table
from tests.notions import CASES, ESTIMATORS, every_case, excess_on, fitted, people

N_ROWS = 6000


def write_table(case, folder):
    """The rows of a case as a Parquet file, and the names that tell its columns."""
    scores, columns = case.rows(N_ROWS)
    of_scores = {"score": scores} if scores.ndim == 1 else {f"p{i}": scores[:, i] for i in range(3)}
    groups = {f"g{i}": column for i, column in enumerate(columns.T)}
    path = folder / "rows.parquet"
    pa.parquet.write_table(pa.table({**of_scores, **groups, "note": ["x"] * N_ROWS}), path)
    names = {"scores": "score" if scores.ndim == 1 else list(of_scores), "group_proba": list(groups)}
    frame = pd.DataFrame(groups)
    return path, names, scores, frame


@pytest.fixture
def small_memory(monkeypatch):
    monkeypatch.setattr(batch, "MEMORY_NUMBERS", 5000)
    monkeypatch.setattr(spool, "BLOCK_ROWS", 1024)


@every_case
def test_a_table_gives_the_model_of_fit_and_its_predictions_bit_for_bit(case, tmp_path):
    path, names, scores, frame = write_table(case, tmp_path)
    expected = case.model().fit(scores, frame, strata=case.strata)
    model = fit_table(case.model(), path, strata=case.strata, **names)
    assert model.tilt_.tobytes() == expected.tilt_.tobytes()
    assert model.groups_.tolist() == expected.groups_.tolist()
    assert model.certificate_.risk == expected.certificate_.risk
    drawn = np.concatenate(list(iter_predictions(model, path, block_rows=700, **names)))
    np.testing.assert_array_equal(drawn, expected.predict(scores, frame))


@every_case
def test_a_fit_on_a_map_ends_where_a_fit_in_memory_ends(case, tmp_path, small_memory):
    path, names, scores, frame = write_table(case, tmp_path)
    model = case.model().set_params(atoms=case.settings.get("atoms", 15))
    expected = model.fit(scores, frame, strata=case.strata)
    mapped = fit_table(case.model(), path, strata=case.strata, **names)
    np.testing.assert_array_equal(mapped.atoms_, expected.atoms_)
    np.testing.assert_allclose(mapped.group_prior_, expected.group_prior_, rtol=1e-12)
    assert mapped.certificate_.excess.max() <= 1e-5
    # both gaps are below tol on the scale of the atoms
    unit = mapped.policy_.cost.unit(mapped.policy_.grid)
    assert abs(mapped.certificate_.entropic_risk - expected.certificate_.entropic_risk) <= 4e-6 * unit


@every_case
def test_a_table_followed_is_the_stream_of_its_rows(case, tmp_path):
    path, names, scores, frame = write_table(case, tmp_path)
    given = {} if case.strata is None else {"strata": case.strata}
    expected = case.model().partial_fit(scores, frame, **given)
    checkpoint = tmp_path / "stream.evenhand"
    head = pa.parquet.read_table(path).slice(0, 2 * BLOCK_ROWS)
    settings = {"checkpoint": checkpoint, "strata": case.strata, **names}
    stream_table(case.model(), head, block_rows=512, **settings)
    resumed = stream_table(case.model(), path, block_rows=512, resume=True, **settings)
    assert resumed.tilt_.tobytes() == expected.tilt_.tobytes()
    assert load(checkpoint).stream_.n_rows == N_ROWS


@pytest.mark.parametrize("name", ESTIMATORS)
def test_an_estimator_fits_follows_and_predicts_files(name, tmp_path):
    frame, path = people(3 * BLOCK_ROWS, seed=1)[0], tmp_path / "people.parquet"
    frame.assign(note="x", who=np.arange(len(frame))).to_parquet(path)
    model = fit_table(pickle.loads(fitted(name)), path)
    step = model.postprocessor_
    assert excess_on(step, *model.predict_scores(frame)) <= 1.001
    written = tmp_path / "out.parquet"
    assert predict_table(model, path, written, keep=["who"], block_rows=1000) == len(frame)
    drawn = pa.parquet.read_table(written)["prediction"].to_pylist()
    np.testing.assert_array_equal(drawn, model.predict(frame))
    method = "predict_proba" if hasattr(model, "classes_") else "predict_mean"
    chances = np.concatenate(list(iter_predictions(model, path, method=method, block_rows=1000)))
    np.testing.assert_allclose(chances, getattr(model, method)(frame), atol=1e-12)
    expected = pickle.loads(fitted(name)).partial_fit(frame)
    checkpoint = tmp_path / "stream.evenhand"
    followed = stream_table(pickle.loads(fitted(name)), path, checkpoint=checkpoint)
    assert followed.tilt_.tobytes() == expected.tilt_.tobytes()
    np.testing.assert_array_equal(load(checkpoint).predict(frame), expected.predict(frame))


def test_a_checkpoint_of_another_notion_is_refused(tmp_path):
    frame, path = people(600, seed=1)[0], tmp_path / "stream.evenhand"
    stream_table(pickle.loads(fitted("odds")), frame, checkpoint=path)
    with pytest.raises(ValueError, match="criterion='equalized_odds'"):
        stream_table(
            pickle.loads(fitted("classifier")).set_params(epsilon=0.05), frame, checkpoint=path, resume=True
        )


def test_a_table_without_any_row_of_a_stratum_leaves_the_model_as_it_was():
    model = pickle.loads(fitted("conditional"))
    before = pickle.dumps(vars(model))
    with pytest.raises(ValueError, match="no mass"):
        fit_table(model, people(500, seed=1)[0].assign(branch=1.0))
    with pytest.raises(ValueError, match="strata are for a ParityPostprocessor"):
        fit_table(model, people(500, seed=1)[0], strata=[0])
    assert pickle.dumps(vars(model)) == before


def test_strata_need_a_label_for_each_column():
    case = CASES["given a factor"]
    with pytest.raises(ValueError, match="one label per column"):
        fit_table(case.model(), [case.rows(100)], strata=[0, 0, 1])
