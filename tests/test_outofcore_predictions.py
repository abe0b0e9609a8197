"""Tables bigger than memory give the predictions of tables in memory, or leave the old file."""

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
import pytest

from evenhand.tables import iter_predictions, predict_table
from tests.tables import DATA, N_ROWS, NAMES, TABLE, fit_in_memory, make_step, write_table


@pytest.fixture(scope="module")
def table_path(tmp_path_factory):
    return write_table(tmp_path_factory.mktemp("table") / "rows.parquet")


@pytest.mark.parametrize("method", ["predict", "predict_mean", "predict_quantile", "predict_pmf"])
def test_a_table_of_predictions_holds_what_the_model_predicts_at_once(method, table_path, tmp_path):
    step = fit_in_memory(make_step(atoms=11))
    options = {"q": 0.25} if method == "predict_quantile" else {}
    target = tmp_path / "out.parquet"
    n_rows = predict_table(
        step, table_path, target, method=method, keep=["who"], block_rows=700, **NAMES, **options
    )
    written = pa.parquet.read_table(target)
    assert n_rows == written.num_rows == N_ROWS
    assert written.column_names == ["who", "prediction"]
    expected = getattr(step, method)(DATA.scores, DATA.group_proba, **options)
    found = np.array(written["prediction"].to_pylist())
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(written["who"].to_numpy(), TABLE["who"].to_numpy())


def test_draws_by_id_and_fresh_draws_do_not_depend_on_the_blocks(table_path, tmp_path):
    step, ids = fit_in_memory(make_step()), TABLE["who"].to_numpy()
    target = tmp_path / "out.parquet"
    predict_table(step, table_path, target, ids="who", block_rows=999, **NAMES)
    written = pa.parquet.read_table(target)
    expected = step.predict(DATA.scores, DATA.group_proba, ids=ids)
    np.testing.assert_array_equal(written["prediction"].to_numpy(), expected)
    fresh = np.concatenate(list(iter_predictions(step, table_path, random_state=5, block_rows=999, **NAMES)))
    np.testing.assert_array_equal(fresh, step.predict(DATA.scores, DATA.group_proba, random_state=5))


def test_a_failure_while_predicting_leaves_the_old_file_and_nothing_else(tmp_path):
    step, target = fit_in_memory(make_step()), tmp_path / "out.parquet"
    target.write_bytes(b"old")
    (tmp_path / ".out.parquet.0123456789abcdef.tmp").touch()
    frame = TABLE.to_pandas()
    frame.loc[4000, "a"] = np.nan
    with pytest.raises(ValueError, match="group_proba must be finite"):
        predict_table(step, frame, target, block_rows=500, **NAMES)
    with pytest.raises(ValueError, match="no rows"):
        predict_table(step, frame[:0], target, **NAMES)
    with pytest.raises(ValueError, match="another name="):
        predict_table(step, frame, target, keep=["who"], name="who", **NAMES)
    with pytest.raises(ValueError, match="method must be one of"):
        predict_table(step, frame, target, method="predict_everything", **NAMES)
    assert target.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [target]
