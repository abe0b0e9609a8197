"""Tables that are not what a model needs: refused, with the place of the fault."""

import numpy as np
import pandas as pd
import pytest

from evenhand import ParityPostprocessor
from evenhand.datasets import make_population
from evenhand.tables import fit_table, iter_predictions, predict_table

DATA = make_population(300, n_groups=2, random_state=0)
NAMES = {"scores": "score", "group_proba": ["a", "b"]}


def write_rows(path):
    frame = pd.DataFrame({"score": DATA.scores, "a": DATA.group_proba[:, 0], "b": DATA.group_proba[:, 1]})
    frame.to_parquet(path)
    return path


def test_a_file_without_a_column_that_the_others_have_is_refused_and_not_read_as_gaps(tmp_path):
    (tmp_path / "part=1").mkdir()
    write_rows(tmp_path / "part=1" / "rows.parquet")
    step = fit_table(ParityPostprocessor(), tmp_path, **NAMES)
    # what the name of a folder tells is a column of its files
    assert predict_table(step, tmp_path, tmp_path / "scored.parquet", keep=["part"], **NAMES) == 300
    with pytest.raises(ValueError, match=r"scored\.parquet has no column score, a, b"):
        iter_predictions(step, tmp_path, **NAMES)


def test_ids_are_refused_where_nothing_is_drawn(tmp_path):
    path = write_rows(tmp_path / "rows.parquet")
    step = fit_table(ParityPostprocessor(), path, **NAMES)
    with pytest.raises(ValueError, match="ids= is for the draws of predict"):
        predict_table(step, path, tmp_path / "out.parquet", method="predict_mean", ids="score", **NAMES)


def test_an_error_while_predicting_says_which_rows_it_is_about():
    scores = DATA.scores.copy()
    step = ParityPostprocessor().fit(scores, DATA.group_proba)
    scores[150] = np.nan
    with pytest.raises(ValueError, match="scores") as refused:
        list(iter_predictions(step, [(scores, DATA.group_proba)], block_rows=100))
    assert "rows 100 to 199 of the table" in refused.value.__notes__[0]
