"""Scorers of searches, with metadata routing and without."""

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

import evenhand as eh
from evenhand.exceptions import ToleranceWarning
from evenhand.metrics import unfairness

DATA = eh.datasets.make_population(900, n_groups=2, random_state=0)
X = pd.DataFrame(DATA.data, columns=DATA.feature_names, index=[f"p{place}" for place in range(900)])
Y, GROUPS = DATA.target, pd.Series(np.array(["A", "B"])[DATA.sensitive_features], index=X.index)
FOLDS = KFold(3, shuffle=True, random_state=0)
EPSILONS = [0.01, 0.05, 0.3]


def quick(**settings):
    return eh.ParityRegressor(**{"epsilon": 0.05, "confidence": None, "atoms": 31, **settings})


def search(scoring, **settings):
    return GridSearchCV(
        quick(), {"epsilon": EPSILONS}, scoring=scoring, cv=FOLDS, error_score="raise", **settings
    )


def by_hand(groups, epsilon=0.05, **settings):
    """The mean over the folds, from the definition; None: by the model's own probabilities."""
    found = []
    for train, test in FOLDS.split(X):
        model = quick(epsilon=epsilon, **settings)
        model.fit(X.iloc[train], Y[train], sensitive_features=GROUPS.iloc[train])
        told = {"sensitive_features": GROUPS.iloc[test]} if model.aware else {}
        who = model.predict_scores(X.iloc[test])[1] if groups is None else groups.iloc[test]
        pmf = model.predict_pmf(X.iloc[test], **told)
        found.append(-max(unfairness(pmf, who, model.atoms_).values()))
    return np.mean(found)


def test_a_search_by_score_alone_ends_at_the_largest_epsilon():
    found = search(None).fit(X, Y, sensitive_features=GROUPS)
    assert found.best_params_ == {"epsilon": 0.3}


@pytest.mark.parametrize("routing", [False, True])
@pytest.mark.parametrize("given", ["nothing", "series"])
def test_a_search_within_a_limit_finds_the_best_that_keeps_it(routing, given):
    known = GROUPS if given == "series" else None
    scoring = {
        "score": eh.scoring.model_scorer(known),
        "parity": eh.scoring.parity_scorer(sensitive_features=known),
    }
    with config_context(enable_metadata_routing=routing):
        found = search(scoring, refit=eh.scoring.best_within(0.12)).fit(X, Y, sensitive_features=GROUPS)
    results = found.cv_results_
    wanted = by_hand(GROUPS if routing or known is not None else None)
    assert results["mean_test_parity"][1] == pytest.approx(wanted)
    assert found.best_params_ == {"epsilon": 0.05}
    assert results["mean_test_score"].argmax() == 2
    assert not np.isnan(results["mean_test_parity"]).any()


def test_the_nearest_is_taken_where_none_is_within_the_limit():
    scoring = {"score": eh.scoring.model_scorer(), "parity": eh.scoring.parity_scorer()}
    with pytest.warns(ToleranceWarning, match="nearest"):
        found = search(scoring, refit=eh.scoring.best_within(0.0)).fit(X, Y, sensitive_features=GROUPS)
    assert found.best_params_ == {"epsilon": 0.01}


def test_cross_validation_takes_it_too():
    scorer = eh.scoring.parity_scorer(sensitive_features=GROUPS)
    params = {"sensitive_features": GROUPS}
    found = cross_val_score(quick(), X, Y, cv=FOLDS, scoring=scorer, params=params, error_score="raise")
    assert found.mean() == pytest.approx(by_hand(GROUPS))
    aware = cross_val_score(
        quick(aware=True), X, Y, cv=FOLDS, scoring=scorer, params=params, error_score="raise"
    )
    assert aware.mean() == pytest.approx(by_hand(GROUPS, aware=True))
    own = eh.scoring.model_scorer(GROUPS)
    assert cross_val_score(quick(aware=True), X, Y, cv=FOLDS, scoring=own, params=params).min() > 0.5


def test_pipelines_and_other_models_and_metrics():
    scorer = eh.scoring.parity_scorer("w1", GROUPS)
    pipeline = make_pipeline(StandardScaler(), quick(parity="w1"))
    pipeline.fit(X, Y, parityregressor__sensitive_features=GROUPS)
    pmf = pipeline[-1].predict_pmf(pipeline[:-1].transform(X))
    wanted = unfairness(pmf, GROUPS, pipeline[-1].atoms_, metric="w1")
    assert scorer(pipeline, X, Y) == pytest.approx(-max(wanted.values()))
    assert eh.scoring.model_scorer()(pipeline, X, Y) == pytest.approx(pipeline.score(X, Y))
    plain = LinearRegression().fit(X, Y)
    wanted = unfairness(plain.predict(X), GROUPS)
    assert eh.scoring.parity_scorer(sensitive_features=GROUPS)(plain, X, Y) == -max(wanted.values())
    with pytest.raises(ValueError, match="LinearRegression does not know the groups"):
        eh.scoring.parity_scorer()(plain, X, Y)
    with pytest.raises(ValueError, match="index of X, or name columns"):
        eh.scoring.parity_scorer(sensitive_features=GROUPS.to_numpy())(plain, X, Y)
    named = X.assign(sex=GROUPS)
    model = quick(aware=True).fit(X, Y, sensitive_features=GROUPS)
    assert eh.scoring.parity_scorer(sensitive_features=GROUPS)(model, X, Y) > -0.1
    assert (
        eh.scoring.parity_scorer(sensitive_features="sex")._groups(named, None).equals(GROUPS.rename("sex"))
    )


def test_the_recipe_of_the_docs_runs_as_it_stands(project_root):
    page = (project_root / "docs" / "how-to" / "search.md").read_text()
    names = {}
    with threadpool_limits(1, user_api="openmp"):  # threads of trees wait for each other on a busy machine
        exec(page.split("```python\n")[1].split("```")[0], names)
    assert names["chosen"].epsilon == 0.05


def test_strata_are_measured_within():
    table = X.assign(town=np.arange(900) % 2)
    model = quick(conditional_on="town").fit(table, Y, sensitive_features=GROUPS)
    pmf = model.predict_pmf(table)
    wanted = unfairness(pmf, GROUPS, model.atoms_, given=table.town)
    found = eh.scoring.parity_scorer(sensitive_features=GROUPS)(model, table, Y)
    assert found == pytest.approx(-max(wanted.values()))
    assert -0.06 < eh.scoring.parity_scorer()(model, table, Y) < 0.0
