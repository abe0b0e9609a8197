"""Blocks of code on pages that take a model and rows for granted: each runs, with rows made up here."""

from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import evenhand as eh
from tests.page_lines import silent_blocks

NAMES = np.array(["north", "south"])


def regression():
    """What pages on numbers take for granted."""
    fit, test = (eh.datasets.make_population(700, n_groups=2, random_state=seed) for seed in (0, 1))
    groups, others = NAMES[fit.sensitive_features], NAMES[test.sensitive_features]
    model = eh.ParityRegressor(epsilon=0.2, random_state=0)
    model.fit(fit.data, fit.target, sensitive_features=groups)
    step = eh.ParityPostprocessor(epsilon=0.2, random_state=0).fit(fit.scores, fit.group_proba)
    return {
        "eh": eh,
        "fit": fit,
        "test_rows": test,
        "model": model,
        "regressor": model,
        "step": step,
        "X": fit.data,
        "y": fit.target,
        "sensitive_features": groups,
        "groups_fit": groups,
        "scores": fit.scores,
        "group_proba": fit.group_proba,
        "X_test": test.data,
        "y_test": test.target,
        "S_test": others,
    }


def for_certificates():
    names = regression()
    return names | {"models": [names["model"]]}


def for_plots():
    names = regression()
    test = names["test_rows"]
    old, new = names["model"].estimator_.predict(names["X"]), names["model"].predict(names["X"])
    given = {"scores": test.scores, "group_proba": test.group_proba, "y": test.target}
    given["sensitive_features"] = names["S_test"]
    return names | {"old": old, "new": new, "test": given}


def for_reports():
    names = regression()
    return names | {"groups": names["S_test"]}


def for_streams():
    names = regression()
    chunks = [names["X_test"][:300], names["X_test"][300:]]
    return names | {"groups": names["groups_fit"], "rows_without_labels": chunks}


def for_tables():
    names = regression()
    Path("people").mkdir()
    people = pd.DataFrame(names["X_test"], columns=list("abcd"))
    X = pd.DataFrame(names["X"], columns=list("abcd"))
    people.assign(id=np.arange(len(people))).to_parquet("people/1.parquet")
    return names | {
        "X": X,
        "groups": names["groups_fit"],
        "source": "people/",
        "x": {"a": 1.0},
        "outcome": 2.0,
    }


def for_notions():
    people = eh.datasets.make_class_population(1500, random_state=0)
    frame = pd.DataFrame({"sex": NAMES[people.sensitive_features], "origin": people.second_attribute})
    return {
        "eh": eh,
        "ParityClassifier": eh.ParityClassifier,
        "ParityRegressor": eh.ParityRegressor,
        "X": pd.DataFrame(people.data, columns=people.feature_names),
        "y": np.where(people.target == 1, "repaid", "late"),
        "amount": people.class_proba[:, 1],
        "group": frame["sex"],
        "frame": frame,
        "estimator": LogisticRegression(),
        "sensitive_estimator": LogisticRegression(),
    }


def for_rates():
    rng = np.random.default_rng(0)
    people = pd.DataFrame({"sex": rng.choice(["f", "m"], 500), "race": rng.choice(["a", "b", "c"], 500)})
    return {"people": people, "decisions": rng.choice(["yes", "no"], 500), "scores": rng.normal(600, 50, 500)}


PAGES = {
    "concepts/certificates.md": for_certificates,
    "concepts/notions.md": for_notions,
    "how-to/out-of-core.md": for_tables,
    "how-to/plots.md": for_plots,
    "how-to/rates.md": for_rates,
    "how-to/report.md": for_reports,
    "how-to/streams.md": for_streams,
    "reference/model-file.md": regression,
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("page", PAGES)
def test_the_blocks_of_the_page_run(page, project_root, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    mpl.use("Agg")
    names = PAGES[page]() | {"__name__": "page"}
    blocks = silent_blocks(project_root / "docs" / page)
    assert blocks
    for block in blocks:
        exec(block, names)
