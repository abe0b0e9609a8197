"""ParityRegressor: as natural as any scikit-learn model, and at parity."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge, RidgeCV
from sklearn.model_selection import KFold, PredefinedSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from evenhand import ParityPostprocessor, ParityRegressor, frontier
from evenhand.datasets import load_adult, load_communities, load_law_school, make_population
from evenhand.metrics import ks_unfairness
from tests.regressors import fit_simple, people, simple


@pytest.fixture(scope="module")
def data():
    return people()


@pytest.fixture(scope="module")
def fitted():
    return fit_simple()


def test_one_line_wraps_a_model_and_brings_the_groups_together(data, fitted):
    test = make_population(20_000, n_groups=2, separation=2.0, random_state=1)
    before = ks_unfairness(
        LinearRegression().fit(data.data, data.target).predict(test.data), test.sensitive_features
    )
    after = ks_unfairness(fitted.predict_pmf(test.data), test.sensitive_features)
    assert max(before.values()) > 0.2
    assert max(after.values()) < 0.08  # epsilon 0.05, and the noise of 1500 rows
    draws = ks_unfairness(fitted.predict(test.data), test.sensitive_features)
    assert max(draws.values()) < 0.09


def test_the_defaults_take_missing_values_and_fit_without_any_argument(data):
    X = data.data.copy()
    X[::7, 1] = np.nan
    model = ParityRegressor().fit(X, data.target, sensitive_features=data.sensitive_features)
    assert isinstance(model.estimator_[-1], RidgeCV)
    assert model.score(X, data.target) > 0.3


def test_rows_without_labels_are_where_the_parity_step_happens(data):
    pile = make_population(4000, n_groups=2, random_state=2).data
    model = simple(confidence=None)
    model.fit(data.data, data.target, sensitive_features=data.sensitive_features, X_unlabeled=pile)
    regressor = LinearRegression().fit(data.data, data.target)
    classifier = LogisticRegression().fit(data.data, data.sensitive_features)
    by_hand = ParityPostprocessor().fit(regressor.predict(pile), classifier.predict_proba(pile))
    np.testing.assert_allclose(model.multipliers_, by_hand.multipliers_, atol=1e-8)
    np.testing.assert_array_equal(model.atoms_, by_hand.atoms_)


def test_labelled_rows_are_scored_by_models_that_have_not_seen_them(data):
    """A nearest neighbour knows its own rows by heart: only other folds' answers can be off."""

    class Memory(BaseEstimator):
        def fit(self, X, y):
            self.known_ = {row.tobytes(): value for row, value in zip(X, y, strict=True)}
            return self

        def predict(self, X):
            return np.array([self.known_.get(row.tobytes(), 0.0) for row in X])

    model = ParityRegressor(Memory(), LogisticRegression(), calibration=None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = model._frontier_rows(data.data, data.target, sensitive_features=data.sensitive_features).rows
    np.testing.assert_array_equal(rows.scores, 0.0)


def test_a_model_that_is_already_fitted_is_used_as_it_is(data):
    regressor = Ridge().fit(data.data, data.target)
    classifier = LogisticRegression().fit(data.data, np.where(data.sensitive_features == 1, "b", "a"))
    groups = np.where(data.sensitive_features == 1, "b", "a")
    model = ParityRegressor(FrozenEstimator(regressor), FrozenEstimator(classifier), confidence=None)
    model.fit(data.data, data.target, sensitive_features=groups, sample_weight=np.ones(len(groups)))
    by_hand = ParityPostprocessor().fit(
        regressor.predict(data.data), classifier.predict_proba(data.data), sample_weight=np.ones(len(groups))
    )
    np.testing.assert_allclose(model.multipliers_, by_hand.multipliers_, atol=1e-8)
    with pytest.raises(ValueError, match="sensitive_estimator was fitted on the groups 'a', 'b'"):
        model.fit(data.data, data.target, sensitive_features=data.sensitive_features + 5)


def test_pipelines_and_boosted_trees_work_and_take_weights(data):
    weights = np.random.default_rng(0).uniform(0.5, 2.0, len(data.target))
    model = ParityRegressor(
        make_pipeline(StandardScaler(), Ridge()), HistGradientBoostingClassifier(max_iter=5), cv=2
    )
    model.fit(data.data, data.target, sensitive_features=data.sensitive_features, sample_weight=weights)
    plain = clone(model).fit(data.data, data.target, sensitive_features=data.sensitive_features)
    assert not np.array_equal(model.multipliers_, plain.multipliers_)


def test_several_columns_make_groups_of_their_combinations(data):
    columns = pd.DataFrame({"g": data.sensitive_features, "young": data.data[:, 0] > 0})
    model = simple(epsilon={(0, False): 0.1, (0, True): 0.2, (1, False): 0.1, (1, True): 0.1})
    model.fit(data.data, data.target, sensitive_features=columns)
    assert model.groups_.tolist() == [(0, False), (0, True), (1, False), (1, True)]
    assert np.all(model.certificate_.violation <= model.certificate_.epsilon + 1e-6)
    again = clone(model).fit(data.data, data.target, sensitive_features=pl.from_pandas(columns))
    np.testing.assert_array_equal(model.predict(data.data), again.predict(data.data))


def test_a_small_group_is_named_or_merged(data):
    groups = data.sensitive_features.astype(object)
    groups[:4] = "rare"
    groups[4:9] = "scarce"
    groups = groups.astype(str)
    with pytest.raises(ValueError, match=r"min_group_size=10 rows: 'rare' \(4 rows\), 'scarce' \(5 rows\)"):
        simple().fit(data.data, data.target, sensitive_features=groups)
    with pytest.raises(ValueError, match=r"'other' \(9 rows\)"):
        simple(small_groups="merge").fit(data.data, data.target, sensitive_features=groups)
    merged = simple(small_groups="merge", min_group_size=8).fit(
        data.data, data.target, sensitive_features=groups
    )
    assert merged.groups_.tolist() == ["0", "1", "other"]


def test_the_group_is_refused_at_prediction_unless_the_model_is_aware(data, fitted):
    with pytest.raises(ValueError, match="sensitive_features is not used to predict"):
        fitted.predict(data.data, sensitive_features=data.sensitive_features)
    aware = simple(aware=True).fit(data.data, data.target, sensitive_features=data.sensitive_features)
    with pytest.raises(ValueError, match="This model is aware"):
        aware.predict(data.data)
    with pytest.raises(ValueError, match="has not seen: 7"):
        aware.predict(data.data[:1], sensitive_features=[7])
    pmf = aware.predict_pmf(data.data, sensitive_features=data.sensitive_features)
    assert max(ks_unfairness(pmf, data.sensitive_features).values()) < 0.06
    assert aware.sensitive_estimator_ is None


def test_an_aware_model_needs_the_groups_of_the_pile(data):
    with pytest.raises(ValueError, match="every row of X_unlabeled: pass sensitive_features_unlabeled"):
        simple(aware=True).fit(
            data.data, data.target, sensitive_features=data.sensitive_features, X_unlabeled=data.data
        )
    with pytest.raises(ValueError, match="without X_unlabeled"):
        simple().fit(
            data.data,
            data.target,
            sensitive_features=data.sensitive_features,
            sensitive_features_unlabeled=data.sensitive_features,
        )


@pytest.mark.parametrize("method", ["sigmoid", "isotonic", "joint"])
def test_recalibration_corrects_a_classifier_that_is_too_timid(method):
    """Of our own, or by the wrapper of scikit-learn."""

    class TooTimid(ClassifierMixin, BaseEstimator):
        def fit(self, X, y):
            self.inner_ = LogisticRegression().fit(X, y)
            self.classes_ = self.inner_.classes_
            return self

        def predict_proba(self, X):
            proba = self.inner_.predict_proba(X) ** 0.3
            return proba / proba.sum(axis=1, keepdims=True)

    data = make_population(6000, n_groups=2, separation=2.0, random_state=3)
    costs = []
    recalibrated = (TooTimid(), "joint")
    if method != "joint":
        recalibrated = (CalibratedClassifierCV(TooTimid(), method=method), None)
    for classifier, calibration in ((TooTimid(), None), recalibrated):
        model = ParityRegressor(LinearRegression(), classifier, calibration=calibration, confidence=None)
        model.fit(data.data, data.target, sensitive_features=data.sensitive_features)
        costs.append(model.certificate_.calibration.parity_cost.max())
        fresh = make_population(20_000, n_groups=2, separation=2.0, random_state=4)
        pmf = model.predict_pmf(fresh.data)
        costs.append(max(ks_unfairness(pmf, fresh.sensitive_features).values()))
    before, ks_before, after, ks_after = costs
    assert after < 0.5 * before
    assert ks_after < 0.5 * ks_before


def test_the_diagnosis_uses_known_groups_of_the_pile(data):
    pile = make_population(3000, n_groups=2, random_state=2)
    model = simple().fit(
        data.data,
        data.target,
        sensitive_features=data.sensitive_features,
        X_unlabeled=pile.data,
        sensitive_features_unlabeled=pile.sensitive_features,
    )
    assert model.certificate_.calibration.n_rows == 3000
    assert "Calibration" in str(model.certificate_)


def test_folds_of_the_users_own_are_used_or_refused(data):
    groups = data.sensitive_features
    simple(cv=KFold(3, shuffle=True, random_state=0)).fit(data.data, data.target, sensitive_features=groups)
    fold = np.where(groups == 1, 0, 1)  # one group in one fold
    with pytest.raises(ValueError, match="no row of group 1 to learn from in fold 0"):
        simple(cv=PredefinedSplit(fold)).fit(data.data, data.target, sensitive_features=groups)
    half = [(np.arange(700), np.arange(700, 1500))]
    with pytest.raises(ValueError, match="cv must score every row exactly once: it scores 800 of 1500"):
        simple(cv=half).fit(data.data, data.target, sensitive_features=groups)
    with pytest.raises(ValueError, match="at most the size of the smallest group"):
        simple(cv=1000).fit(data.data, data.target, sensitive_features=groups)


def test_a_warm_start_ends_at_the_same_answer(data):
    model = simple(warm_start=True).fit(data.data, data.target, sensitive_features=data.sensitive_features)
    first = model.multipliers_
    again = model.fit(data.data, data.target, sensitive_features=data.sensitive_features)
    assert again.result_.n_iter == 0
    np.testing.assert_allclose(again.multipliers_, first)


GROUPS = {
    "communities, four groups": (load_communities, ["race"]),
    "law school, all codes": (load_law_school, ["race"]),
    "adult, sex and race": (load_adult, ["sensitive_features", "race"]),
}


@pytest.mark.parametrize("case", GROUPS)
def test_many_groups_of_the_papers_data_from_pandas_and_polars(data_home, case):
    load, columns = GROUPS[case]
    bunch = load(data_home=data_home)
    rows = np.random.default_rng(0).permutation(len(bunch.target))[:4000]
    y, names = bunch.target[rows], [str(name) for name in bunch.feature_names]
    groups = {column: np.asarray(bunch[column])[rows] for column in columns}
    answers = []
    for library in (pd, pl):
        table = library.DataFrame(dict(zip(names, bunch.data[rows].T, strict=True)))
        labels = library.DataFrame(groups)
        model = ParityRegressor(
            Ridge(),
            make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
            atoms=31,
            beta="paper",  # eight groups at the automatic one take their time
            min_group_size=30,
            small_groups="merge",
        )
        model.fit(table, y, sensitive_features=labels)
        assert len(model.groups_) >= 3
        assert np.all(model.certificate_.violation <= 0.05 + 1e-6)
        path = frontier(clone(model), table, y, sensitive_features=labels, epsilons=[0.02, 0.2])
        assert path.risk[0] > path.risk[1]
        answers.append((model.predict(table), path.models[0].predict(table), path.risk))
    for from_pandas, from_polars in zip(*answers, strict=True):
        np.testing.assert_array_equal(from_pandas, from_polars)


@pytest.mark.slow
def test_parity_holds_on_a_million_fresh_rows_of_a_known_population():
    pile = make_population(100_000, n_groups=3, separation=1.5, random_state=1)
    model = ParityPostprocessor(parity="cdf", epsilon=0.02).fit(pile.scores, pile.group_proba)
    fresh = make_population(1_000_000, n_groups=3, separation=1.5, random_state=2)
    draws = model.predict(fresh.scores, fresh.group_proba)
    assert max(ks_unfairness(draws, fresh.sensitive_features).values()) <= 0.02 + 0.01
