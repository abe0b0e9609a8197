"""SHAP on evenhand's predictions, as docs/how-to/explaining.md has it (`make test-mlflow` has shap)."""

import matplotlib as mpl
import numpy as np
import pytest
from numpy.testing import assert_allclose

pytest.importorskip("shap", reason="make test-mlflow has an environment with shap")

import shap
from sklearn.linear_model import LinearRegression, LogisticRegression

import evenhand as eh
from tests.page_lines import silent_blocks

pytestmark = pytest.mark.filterwarnings("default")  # what SHAP warns of is its own


@pytest.fixture(scope="module")
def people():
    return eh.datasets.make_population(600, n_groups=2, separation=2.0, random_state=0)


def test_attributions_add_up_to_the_mean_and_the_proxy_of_the_group_loses(people):
    model = eh.ParityRegressor(LinearRegression(), LogisticRegression(), confidence=None, random_state=0)
    model.fit(people.data, people.target, sensitive_features=people.sensitive_features)
    explained = []
    for predict in (model.predict_mean, model.estimator_.predict):
        found = shap.Explainer(predict, people.data[:60], seed=0)(people.data[:40])
        assert_allclose(found.base_values + found.values.sum(axis=1), predict(people.data[:40]), atol=1e-9)
        explained.append(np.abs(found.values).mean(axis=0))
    after, before = explained
    assert before.argmax() == 0  # the first feature tells the group
    assert after[0] < before[0] / 2


def test_attributions_add_up_to_the_chance_of_a_decision(people):
    judge = eh.ParityClassifier(confidence=None, random_state=0)
    judge.fit(people.data, people.target > 0.1, sensitive_features=people.sensitive_features)

    def chance(X):
        return judge.predict_proba(X)[:, 1]

    found = shap.Explainer(chance, people.data[:60], seed=0)(people.data[:20])
    assert_allclose(found.base_values + found.values.sum(axis=1), chance(people.data[:20]), atol=1e-9)


def test_the_block_of_the_page_runs(people, project_root):
    mpl.use("Agg")
    X, groups = people.data, people.sensitive_features
    model = eh.ParityRegressor(confidence=None, random_state=0).fit(
        X, people.target, sensitive_features=groups
    )
    judge = eh.ParityClassifier(confidence=None, random_state=0)
    judge.fit(X, people.target > 0.1, sensitive_features=groups)
    names = {"model": model, "judge": judge, "data": people, "X": X}
    (block,) = silent_blocks(project_root / "docs" / "how-to" / "explaining.md")
    exec(block, names)
    explained = names["values"]
    assert_allclose(
        explained.base_values + explained.values.sum(axis=1), model.predict_mean(X[:5]), atol=1e-9
    )
