"""ParityRegressor: as natural as any scikit-learn model, and at parity."""

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge, RidgeCV
from sklearn.model_selection import GridSearchCV, KFold, PredefinedSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from evenhand import ParityPostprocessor, ParityRegressor, frontier, get_num_threads, set_num_threads
from evenhand.datasets import load_adult, load_communities, load_law_school, make_population
from evenhand.exceptions import ClippingWarning, OutlierWarning
from evenhand.metrics import ks_unfairness, risk


@pytest.fixture(scope="module")
def data():
    return make_population(1500, n_groups=2, separation=2.0, random_state=0)


def simple(**options):
    return ParityRegressor(LinearRegression(), LogisticRegression(), **options)


@pytest.fixture(scope="module")
def fitted(data):
    return simple().fit(data.data, data.target, sensitive_features=data.sensitive_features)


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
    model = simple().fit(data.data, data.target, sensitive_features=data.sensitive_features, X_unlabeled=pile)
    regressor = LinearRegression().fit(data.data, data.target)
    classifier = LogisticRegression().fit(data.data, data.sensitive_features)
    by_hand = ParityPostprocessor().fit(regressor.predict(pile), classifier.predict_proba(pile))
    np.testing.assert_allclose(model.postprocessor_.multipliers_, by_hand.multipliers_, atol=1e-8)
    np.testing.assert_array_equal(model.postprocessor_.atoms_, by_hand.atoms_)


def test_labelled_rows_are_scored_by_models_that_have_not_seen_them(data):
    """A nearest neighbour knows its own rows by heart: only other folds' answers can be off."""

    class Memory(BaseEstimator):
        def fit(self, X, y):
            self.known_ = {row.tobytes(): value for row, value in zip(X, y, strict=True)}
            return self

        def predict(self, X):
            return np.array([self.known_.get(row.tobytes(), 0.0) for row in X])

    model = ParityRegressor(Memory(), LogisticRegression())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = model._learn(data.data, data.target, data.sensitive_features).rows
    np.testing.assert_array_equal(rows.scores, 0.0)


def test_a_model_that_is_already_fitted_is_used_as_it_is(data):
    regressor = Ridge().fit(data.data, data.target)
    classifier = LogisticRegression().fit(data.data, np.where(data.sensitive_features == 1, "b", "a"))
    groups = np.where(data.sensitive_features == 1, "b", "a")
    model = ParityRegressor(FrozenEstimator(regressor), FrozenEstimator(classifier))
    model.fit(data.data, data.target, sensitive_features=groups, sample_weight=np.ones(len(groups)))
    by_hand = ParityPostprocessor().fit(
        regressor.predict(data.data), classifier.predict_proba(data.data), sample_weight=np.ones(len(groups))
    )
    np.testing.assert_allclose(model.postprocessor_.multipliers_, by_hand.multipliers_, atol=1e-8)
    with pytest.raises(ValueError, match="sensitive_estimator knows the groups 'a', 'b'"):
        model.fit(data.data, data.target, sensitive_features=data.sensitive_features + 5)


def test_pipelines_and_boosted_trees_work_and_take_weights(data):
    weights = np.random.default_rng(0).uniform(0.5, 2.0, len(data.target))
    model = ParityRegressor(
        make_pipeline(StandardScaler(), Ridge()), HistGradientBoostingClassifier(max_iter=5), cv=2
    )
    model.fit(data.data, data.target, sensitive_features=data.sensitive_features, sample_weight=weights)
    plain = clone(model).fit(data.data, data.target, sensitive_features=data.sensitive_features)
    assert not np.array_equal(model.postprocessor_.multipliers_, plain.postprocessor_.multipliers_)


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
    with pytest.raises(ValueError, match="pass sensitive_features_unlabeled with X_unlabeled"):
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


@pytest.mark.parametrize("calibration", ["sigmoid", "isotonic", "temperature"])
def test_calibration_mends_a_classifier_that_is_too_timid(calibration):
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
    for method in (None, calibration):
        model = ParityRegressor(LinearRegression(), TooTimid(), calibration=method)
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


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_frames_give_the_same_numbers_as_arrays(data, fitted, make):
    names = [f"x{j}" for j in range(data.data.shape[1])]
    frame = make({name: data.data[:, j] for j, name in enumerate(names)})
    groups = make({"s": data.sensitive_features})["s"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # LinearRegression on polars may warn of names
        model = simple().fit(frame, data.target, sensitive_features=groups)
        np.testing.assert_allclose(model.predict(frame), fitted.predict(data.data), rtol=1e-9, atol=1e-12)
        assert model.feature_names_in_.tolist() == names
        with pytest.raises(ValueError, match="feature names"):
            model.predict(
                frame.rename(columns={"x0": "z"}) if make is pd.DataFrame else frame.rename({"x0": "z"})
            )
    with pytest.raises(ValueError, match="features"):
        fitted.predict(data.data[:, :2])


def test_sparse_tables_go_to_models_that_take_them(data, fitted):
    table = sparse.csr_array(data.data)
    model = simple().fit(table, data.target, sensitive_features=data.sensitive_features)
    np.testing.assert_allclose(model.predict_mean(table), fitted.predict_mean(data.data), atol=1e-6)


def test_the_same_person_gets_the_same_answer_in_any_batch_and_order(data, fitted):
    answers = fitted.predict(data.data)
    order = np.random.default_rng(0).permutation(len(answers))
    np.testing.assert_array_equal(fitted.predict(data.data[order]), answers[order])
    alone = [fitted.predict(data.data[[row]])[0] for row in range(40)]
    np.testing.assert_array_equal(alone, answers[:40])
    loaded = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(loaded.predict(data.data), answers)


def test_the_number_of_threads_changes_nothing(data, fitted):
    before, answers = get_num_threads(), []
    try:
        for n_threads in (1, 3):
            set_num_threads(n_threads)
            model = clone(fitted).fit(data.data, data.target, sensitive_features=data.sensitive_features)
            answers.append(model.predict_pmf(data.data))
    finally:
        set_num_threads(before)
    np.testing.assert_array_equal(*answers)


def test_ids_and_seeds_choose_other_draws(data, fitted):
    ids = np.arange(len(data.data))
    by_id = fitted.predict(data.data, ids=ids)
    np.testing.assert_array_equal(fitted.predict(data.data[::-1], ids=ids[::-1]), by_id[::-1])
    fresh = fitted.predict(data.data, random_state=0)
    np.testing.assert_array_equal(fitted.predict(data.data, random_state=0), fresh)
    assert (fresh != by_id).mean() > 0.1
    with pytest.raises(ValueError, match="pass one"):
        fitted.predict(data.data, random_state=0, ids=ids)
    with pytest.raises(ValueError, match="ids has 2 values"):
        fitted.predict(data.data, ids=[1, 2])


def test_every_way_to_predict_is_read_off_the_pmf(data, fitted):
    pmf, atoms = fitted.predict_pmf(data.data), fitted.postprocessor_.atoms_
    np.testing.assert_allclose(fitted.predict_mean(data.data), pmf @ atoms, atol=1e-9)
    median = atoms[(pmf.cumsum(axis=1) < 0.5).sum(axis=1)]
    np.testing.assert_array_equal(fitted.predict_quantile(data.data), median)
    assert np.isin(fitted.predict(data.data), atoms).all()
    expected = 1 - risk(data.target, pmf, atoms) / np.var(data.target)
    assert fitted.score(data.data, data.target) == pytest.approx(expected)


def test_the_units_of_the_target_change_nothing_but_the_units(data, fitted):
    dollars = simple().fit(data.data, 1000.0 * data.target + 5e4, sensitive_features=data.sensitive_features)
    np.testing.assert_allclose(
        dollars.predict(data.data), 1000.0 * fitted.predict(data.data) + 5e4, rtol=1e-9
    )


def test_parameters_of_nested_models_are_reached_and_cloned(data):
    model = simple(epsilon=0.1).set_params(estimator__fit_intercept=False, sensitive_estimator__C=0.5)
    copied = clone(model)
    assert copied.get_params()["estimator__fit_intercept"] is False
    assert copied.epsilon == 0.1
    assert "ParityRegressor" in model._repr_html_()


def test_a_grid_search_routes_the_groups():
    data = make_population(400, n_groups=2, random_state=0)
    grid = {"epsilon": [0.02, 1.0], "estimator__fit_intercept": [True, False]}
    with sklearn.config_context(enable_metadata_routing=True):
        search = GridSearchCV(simple(), grid, cv=3)
        search.fit(data.data, data.target, sensitive_features=data.sensitive_features)
        assert search.best_params_["epsilon"] == 1.0
        pipeline = make_pipeline(StandardScaler(), simple())
        pipeline.fit(data.data, data.target, sensitive_features=data.sensitive_features)
    assert pipeline.predict(data.data).shape == (400,)
    plain = make_pipeline(StandardScaler(), simple())
    plain.fit(data.data, data.target, parityregressor__sensitive_features=data.sensitive_features)
    np.testing.assert_array_equal(plain.predict(data.data), pipeline.predict(data.data))


def test_jobs_run_at_the_same_time_and_change_nothing(data, fitted):
    model = simple(n_jobs=2).fit(data.data, data.target, sensitive_features=data.sensitive_features)
    np.testing.assert_array_equal(model.predict(data.data), fitted.predict(data.data))


def test_permutation_importance_reads_the_model(data, fitted):
    found = permutation_importance(fitted, data.data, data.target, n_repeats=2, random_state=0)
    assert found.importances_mean.max() > 0.01


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
    first = model.postprocessor_.multipliers_
    again = model.fit(data.data, data.target, sensitive_features=data.sensitive_features)
    assert again.postprocessor_.result_.n_iter == 0
    np.testing.assert_allclose(again.postprocessor_.multipliers_, first)


BAD = {
    "groups are missing": ({"sensitive_features": None}, "sensitive_features is missing"),
    "groups are too few": ({"sensitive_features": [0, 1]}, "sensitive_features has 2 rows, but X has 1500"),
    "one group only": ({"sensitive_features": np.zeros(1500)}, "needs two groups or more"),
    "a label is missing": ({"sensitive_features": [None] * 10 + [1] * 1490}, "missing in 10 rows"),
    "target too short": ({"y": np.zeros(3)}, "inconsistent numbers of samples"),
    "target missing": ({"y": None}, "requires y"),
    "target with NaN": ({"y": np.full(1500, np.nan)}, "NaN"),
    "three rows": (
        {"X": np.zeros((3, 2)), "y": np.zeros(3), "sensitive_features": [0, 1, 1]},
        "fewer than min_group_size=10 rows",
    ),
    "weights too short": ({"sample_weight": [1.0]}, "sample_weight has 1 rows"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_says_what_is_wrong_and_leaves_nothing_half_fitted(data, case):
    change, message = BAD[case]
    arguments = {"X": data.data, "y": data.target, "sensitive_features": data.sensitive_features} | change
    model = simple()
    with pytest.raises(ValueError, match=message):
        model.fit(arguments.pop("X"), arguments.pop("y"), **arguments)
    assert not [name for name in vars(model) if name.endswith("_")]
    with pytest.raises(NotFittedError):
        model.predict(data.data)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sensitive_estimator": LinearSVC()}, "must have predict_proba: LinearSVC has none"),
        ({"small_groups": "drop"}, "small_groups must be"),
        ({"calibration": "magic"}, "isotonic, sigmoid, temperature"),
        ({"parity": "equal"}, "Unknown parity 'equal'"),
        ({"epsilon": {"z": 0.1}}, "unknown group"),
    ],
)
def test_bad_settings_say_what_is_wrong(data, options, message):
    model = simple().set_params(**options)
    with pytest.raises(ValueError, match=message):
        model.fit(data.data, data.target, sensitive_features=data.sensitive_features)


def test_missing_values_are_the_base_models_to_refuse(data):
    X = data.data.copy()
    X[0, 0] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        simple().fit(X, data.target, sensitive_features=data.sensitive_features)


def test_a_constant_target_is_predicted_as_it_is(data):
    model = simple().fit(data.data, np.full(1500, 3.0), sensitive_features=data.sensitive_features)
    np.testing.assert_allclose(model.predict(data.data), 3.0, atol=1e-6)


def test_wild_targets_are_pointed_out_and_a_robust_model_keeps_them_out(data):
    target = data.target.copy()
    target[7] = 1e12

    class Robust(LinearRegression):
        def fit(self, X, y):
            return super().fit(X, np.clip(y, -1.0, 1.0))

    robust = ParityRegressor(Robust(), LogisticRegression())
    with pytest.warns(OutlierWarning, match=r"1 value.* far beyond the others, the first 1e\+12"):
        robust.fit(data.data, target, sensitive_features=data.sensitive_features)
    plain = clone(robust).fit(data.data, data.target, sensitive_features=data.sensitive_features)
    np.testing.assert_allclose(robust.predict_mean(data.data), plain.predict_mean(data.data), atol=0.02)


def test_a_wild_score_is_clipped_and_counted_and_spoils_nothing_else(data, fitted):
    class OneWild(LinearRegression):
        def predict(self, X):
            return np.where(X[:, 0] == data.data[7, 0], 1e12, super().predict(X))

    model = ParityRegressor(OneWild(), LogisticRegression())
    with pytest.warns(ClippingWarning, match="1 of 1500 scores"):
        model.fit(data.data, data.target, sensitive_features=data.sensitive_features)
    assert model.postprocessor_.n_clipped_ == 1
    others = np.arange(1500) != 7
    moved = np.abs(model.predict_mean(data.data[others]) - fitted.predict_mean(data.data[others]))
    assert moved.mean() < 0.002
    assert moved.max() < 0.1  # a few rows change from one atom to the next


def test_a_classifier_that_came_fitted_is_matched_by_label_and_never_by_position(data):
    classifier = LogisticRegression().fit(data.data, 1 - data.sensitive_features)  # 0 and 1, but of what?
    model = ParityRegressor(LinearRegression(), FrozenEstimator(classifier))
    with pytest.raises(ValueError, match="sensitive_estimator knows the groups 0, 1"):
        model.fit(data.data, data.target, sensitive_features=np.where(data.sensitive_features == 1, "m", "f"))


def test_labels_missing_in_the_pandas_way_are_counted(data):
    labels = pd.Series(data.sensitive_features == 1, dtype="boolean")
    labels[3] = pd.NA
    with pytest.raises(ValueError, match="sensitive_features is missing in 1 rows, the first of them row 3"):
        simple().fit(data.data, data.target, sensitive_features=labels)


def test_a_group_whose_rows_weigh_nothing_is_not_there(data):
    weights = np.where(data.sensitive_features == 1, 0.0, 1.0)
    with pytest.raises(ValueError, match=r"needs two groups or more: all .* are in group 0"):
        simple().fit(
            data.data, data.target, sensitive_features=data.sensitive_features, sample_weight=weights
        )


def test_a_pile_that_lacks_a_group_is_diagnosed_on_the_labelled_rows(data):
    pile = data.data[data.sensitive_features == 0]
    model = simple().fit(
        data.data,
        data.target,
        sensitive_features=data.sensitive_features,
        X_unlabeled=pile,
        sensitive_features_unlabeled=np.zeros(len(pile), int),
    )
    assert model.certificate_.calibration.n_rows == 1500
    with pytest.raises(ValueError, match="gives group 1 no mass"):
        simple(aware=True).fit(
            data.data,
            data.target,
            sensitive_features=data.sensitive_features,
            X_unlabeled=pile,
            sensitive_features_unlabeled=np.zeros(len(pile), int),
        )


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
