"""People with the same features share their luck unless each row has an id: fit says so, ids mend it."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import evenhand as eh
from evenhand.data.draws import key_from
from evenhand.exceptions import SharedDrawsWarning

DATA = eh.datasets.make_population(2000, n_groups=2, random_state=0)
COARSE = np.round(DATA.data[:, :2])  # few sets of features
LABELS = {"sensitive_features": DATA.sensitive_features}


def fitted(X):
    return eh.ParityRegressor(epsilon=0.05, confidence=None, atoms=31).fit(X, DATA.target, **LABELS)


def test_fit_recommends_ids_where_features_repeat():
    n_distinct = len(np.unique(COARSE, axis=0))
    words = rf"2,000 rows of X have {n_distinct} different sets.*predict\(X, ids=\.\.\.\).*--id"
    with pytest.warns(SharedDrawsWarning, match=words) as caught:
        model = fitted(COARSE)
    assert caught[0].filename == __file__
    draws = pd.DataFrame(COARSE).assign(
        shared=model.predict(COARSE), own=model.predict(COARSE, ids=np.arange(2000))
    )
    counts = draws.groupby([0, 1])[["shared", "own"]].nunique()
    assert counts.shared.max() == 1 < counts.own.max()


def test_shared_luck_shows_larger_distances_than_the_model_has():
    with pytest.warns(SharedDrawsWarning):
        model = fitted(COARSE)
    groups, pmf = DATA.sensitive_features, model.predict_pmf(COARSE)
    truth = max(eh.metrics.ks_unfairness(pmf, groups, model.atoms_).values())
    shown = {"shared": [], "own": []}
    for key in range(20):
        model.step_ = replace(model.step_, draw_key=key_from(key))
        for kind, ids in (("shared", None), ("own", np.arange(2000))):
            draws = model.predict(COARSE, ids=ids)
            shown[kind].append(max(eh.metrics.ks_unfairness(draws, groups).values()))
    assert abs(np.mean(shown["own"]) - truth) < 0.03
    assert np.mean(shown["shared"]) > np.mean(shown["own"])


def test_rows_that_differ_say_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted(DATA.data)
        fitted(np.vstack([DATA.data[:1900], DATA.data[:100]]))  # a few that repeat


def test_the_command_line_draws_by_the_id_of_the_fit(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = pd.DataFrame(COARSE, columns=["a", "b"]).assign(
        person=[f"p{place}" for place in range(2000)], group=np.array(["A", "B"])[DATA.sensitive_features]
    )
    table.assign(wage=DATA.target).to_csv("people.csv", index=False)
    table.drop(columns="group").to_csv("new.csv", index=False)
    table.drop(columns=["group", "person"]).to_csv("nameless.csv", index=False)
    data = ("people.csv", "-y", "wage", "-s", "group")
    for option, advised in (("--drop", True), ("--id", False)):
        told = run("fit", *data, option, "person", "-o", "m.evenhand", "--force", "--confidence", "none")
        assert told.code == 0, told.err
        assert ("--id on the command line" in told.err) is advised
    model = eh.load("m.evenhand")
    assert model.id_column_ == "person"
    features = table[["a", "b"]]
    by_id = model.predict(features, ids=table.person)
    for extra in ((), ("--id", "person")):
        assert run("predict", "m.evenhand", "new.csv", "-o", "scored.csv", "--force", *extra).code == 0
        np.testing.assert_allclose(pd.read_csv("scored.csv").prediction, by_id, rtol=1e-12)
    assert run("predict", "m.evenhand", "nameless.csv", "-o", "scored.csv", "--force").code == 0
    np.testing.assert_allclose(pd.read_csv("scored.csv").prediction, model.predict(features), rtol=1e-12)
    assert run("audit", *data, "--model", "m.evenhand").code == 0


def test_merging_on_the_command_line_does_not_advise_itself(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    groups = np.array(["A", "B"], dtype=object)[DATA.sensitive_features]
    groups[:3] = "rare"
    pd.DataFrame(DATA.data).assign(wage=DATA.target, group=groups).to_csv("people.csv", index=False)
    told = run("fit", "people.csv", "-y", "wage", "-s", "group", "--merge-small", "-o", "m.evenhand")
    assert told.code != 0
    assert "still too few: other (3)" in told.err
    assert "--merge-small" not in told.err
