"""The adapter for river: its checks, parity on new rows, and labels that come for some rows only."""

import contextlib
import pickle

import numpy as np
import pandas as pd
import pytest

river = pytest.importorskip("river")
from river import checks, compose, datasets, evaluate, linear_model, metrics, preprocessing, tree  # noqa: E402

from evenhand.datasets import make_population  # noqa: E402
from evenhand.estimators.postprocessor import ParityPostprocessor  # noqa: E402
from evenhand.estimators.streaming import Drift  # noqa: E402
from evenhand.metrics import ks_unfairness  # noqa: E402
from evenhand.river import ParityRegressor  # noqa: E402

DATA = make_population(8000, n_groups=2, separation=2.0, random_state=0)
NEW = make_population(3000, n_groups=2, separation=2.0, random_state=1)
NAMES = [f"x{i}" for i in range(DATA.data.shape[1])]


def records(data):
    return [dict(zip(NAMES, row, strict=True)) for row in data.data.tolist()]


def make_model(**settings):
    return ParityRegressor(
        preprocessing.StandardScaler() | linear_model.LinearRegression(),
        preprocessing.StandardScaler() | linear_model.LogisticRegression(),
        **{"epsilon": 0.02, "seed": 3, **settings},
    )


def learn(model, n_rows, outcome_every=1, group_every=1):
    for i, x in zip(range(n_rows), records(DATA), strict=False):
        y = DATA.target[i] if i % outcome_every == 0 else None
        model.learn_one(x, y, group=int(DATA.sensitive_features[i]) if i % group_every == 0 else None)
    return model


@pytest.fixture(scope="module")
def learned():
    return learn(make_model(), 8000)


def weekend(x):
    """A group for river's data set of polls, which has none."""
    return None if "ordinal_date" not in x else x["ordinal_date"] % 7 < 2


def models_for_checks():
    for models in ParityRegressor._unit_test_params():
        for feature in (None, weekend):
            yield ParityRegressor(**models, group_feature=feature, warm_up=20, min_group_size=2)


def all_checks():
    for model in models_for_checks():
        name = f"{type(model.regressor).__name__}-{getattr(model.group_feature, '__name__', 'no group')}"
        for check in checks.yield_checks(model):
            yield pytest.param(model, check, id=f"{name}-{check.__name__}")


def test_rivers_checks_reach_the_parity_step():
    for model in models_for_checks():
        for x, y in datasets.TrumpApproval().take(200):
            model.learn_one(x, y)
        assert (model.step is not None) == (model.group_feature is not None)


@pytest.mark.parametrize(("model", "check"), list(all_checks()))
def test_rivers_own_checks_pass(model, check):
    assert check.__name__ not in model._unit_test_skips()
    check(model.clone())


def test_predictions_on_new_rows_are_near_parity(learned):
    drawn = np.array([learned.predict_one(x) for x in records(NEW)])
    base = np.array([learned.regressor.predict_one(x) for x in records(NEW)])
    before = max(ks_unfairness(base, NEW.sensitive_features).values())
    after = max(ks_unfairness(drawn, NEW.sensitive_features).values())
    assert before > 0.2
    # epsilon, and three standard deviations of a distribution function of the 1000 rows of the smaller group
    assert after < 0.02 + 3 * 0.5 / np.sqrt(1000)
    assert set(drawn) <= set(learned.step.atoms_)


def test_many_rows_are_what_single_rows_are(learned):
    frame = pd.DataFrame(NEW.data[:300], columns=NAMES, index=range(5, 305))
    many = learned.predict_many(frame)
    assert many.index.equals(frame.index)
    assert many.tolist() == [learned.predict_one(x) for x in records(NEW)[:300]]
    batch = make_model()
    for start in range(0, 8000, 750):
        part = slice(start, start + 750)
        frame = pd.DataFrame(DATA.data[part], columns=NAMES)
        groups = pd.Series(DATA.sensitive_features[part].astype(int))
        batch.learn_many(frame, pd.Series(DATA.target[part]), group=groups)
    assert batch.step.multipliers_.tobytes() == learned.step.multipliers_.tobytes()


def test_rows_without_outcome_or_group_still_teach_the_parity_step(learned):
    model = learn(make_model(), 4000, outcome_every=3, group_every=2)
    assert model.step.stream_.n_rows > 2500
    drawn = np.array([model.predict_one(x) for x in records(NEW)])
    assert max(ks_unfairness(drawn, NEW.sensitive_features).values()) < 0.02 + 3 * 0.5 / np.sqrt(1000)


def test_neither_model_sees_the_feature_that_holds_the_group():
    seen = []

    class Spy(tree.HoeffdingTreeRegressor):
        def learn_one(self, x, y, **kwargs):
            seen.append(set(x))
            super().learn_one(x, y, **kwargs)

    model = ParityRegressor(Spy(), linear_model.LogisticRegression(), group_feature="who", warm_up=50)
    for i, x in enumerate(records(DATA)[:400]):
        given = {**x, "who": bool(DATA.sensitive_features[i])}
        model.learn_one(given, DATA.target[i])
        assert "who" in given
    assert seen == [set(NAMES)] * 400
    assert "who" not in model.classifier.weights
    x = records(NEW)[0]
    assert model.step is not None
    assert (
        model.predict_one(x)
        == model.predict_one({**x, "who": True})
        == model.predict_one({**x, "who": False})
    )


def test_before_the_parity_step_predictions_are_those_of_the_regressor():
    model = learn(make_model(warm_up=500), 300)
    x = records(NEW)[0]
    assert model.step is None
    assert model.predict_one(x) == model.regressor.predict_one(x)
    assert model.predict_pmf_one(x) == {model.predict_one(x): 1.0}


def test_the_distribution_of_a_row_is_what_is_drawn_from(learned):
    pmf = learned.predict_pmf_one(records(NEW)[0])
    np.testing.assert_allclose(sum(pmf.values()), 1.0)
    assert list(pmf) == learned.step.atoms_.tolist()


def test_a_group_that_comes_late_starts_the_parity_step_anew():
    model = learn(make_model(warm_up=200), 1000)
    assert model.step.n_groups_ == 2
    for x, y in zip(records(NEW)[:9], NEW.target, strict=False):
        model.learn_one(x, y, group=7)
    assert model.step.n_groups_ == 2
    learn(model, 1)
    model.learn_one(records(NEW)[9], 0.0, group=7)
    assert model.step is None
    learn(model, 300)
    assert model.step.n_groups_ == 3
    with_dict = learn(make_model(warm_up=200, epsilon={0: 0.1, 1: 0.2}), 500)
    assert sorted(with_dict.step.epsilon_) == [0.1, 0.2]


def test_scores_that_are_not_finite_stay_out_of_the_parity_step():
    model = learn(make_model(warm_up=200), 600)
    n_rows = model.step.stream_.n_rows + len(model._waiting)
    model.learn_one({name: float("nan") for name in NAMES}, None, group=1)
    assert np.isnan(model.predict_one({name: float("nan") for name in NAMES}))
    assert model.step.stream_.n_rows + len(model._waiting) == n_rows


def test_it_works_in_rivers_pipelines_and_evaluations_and_survives_a_pickle(learned):
    model = compose.Pipeline(preprocessing.StandardScaler(), make_model(group_feature=None, warm_up=300))
    rows = records(DATA)[:1500]
    stream = (
        (x, y, {"group": int(g)}) for x, y, g in zip(rows, DATA.target, DATA.sensitive_features, strict=False)
    )
    score = evaluate.progressive_val_score(stream, model, metrics.MSE())
    assert score.get() < 1.0
    assert model["ParityRegressor"].step is not None
    again = pickle.loads(pickle.dumps(learned))
    assert [again.predict_one(x) for x in records(NEW)[:20]] == [
        learned.predict_one(x) for x in records(NEW)[:20]
    ]


def test_rows_that_the_parity_step_refuses_are_kept_and_count_once(monkeypatch):
    """The step fails at its first rows and in the middle; each time the same row comes again."""
    model, unharmed = make_model(warm_up=200), learn(make_model(warm_up=200), 2000)
    partial_fit, calls = ParityPostprocessor.partial_fit, iter(range(100))

    def fail_at_times(step, *rows, **options):
        if next(calls) in (0, 1, 7):
            raise MemoryError("no room")
        return partial_fit(step, *rows, **options)

    monkeypatch.setattr(ParityPostprocessor, "partial_fit", fail_at_times)
    n_failures = 0
    for x, y, group in zip(records(DATA)[:2000], DATA.target, DATA.sensitive_features, strict=False):
        while True:
            try:
                model.learn_one(x, y, group=int(group))
                break
            except MemoryError:
                n_failures += 1
    assert n_failures == 3
    assert model.step.stream_.n_rows == unharmed.step.stream_.n_rows
    assert model._waiting == unharmed._waiting
    assert model.step.multipliers_.tobytes() == unharmed.step.multipliers_.tobytes()
    assert model.regressor["LinearRegression"].weights == unharmed.regressor["LinearRegression"].weights


def test_a_callback_that_raises_loses_no_row_and_counts_none_twice(monkeypatch):
    partial_fit = ParityPostprocessor.partial_fit

    def find_drift_always(step, *rows, on_drift, **options):
        partial_fit(step, *rows, **options)
        on_drift(Drift(step.stream_.n_rows, "prior", 0, 0.5, 0.6))

    def stop(drift):
        raise StopIteration(drift)

    monkeypatch.setattr(ParityPostprocessor, "partial_fit", find_drift_always)
    heard = []
    unharmed = learn(make_model(warm_up=200, on_drift=heard.append), 900)
    model = make_model(warm_up=200, on_drift=stop)
    for x, y, group in zip(records(DATA)[:900], DATA.target, DATA.sensitive_features, strict=False):
        with contextlib.suppress(StopIteration):
            model.learn_one(x, y, group=int(group))
    assert [drift.n_rows for drift in heard] == [128, 256, 384, 512, 640]
    assert model.step.stream_.n_rows == unharmed.step.stream_.n_rows == 640
    assert model._waiting == unharmed._waiting
    assert model._n_rows == 900
    assert model.predict_one(records(NEW)[0]) == unharmed.predict_one(records(NEW)[0])


def test_a_group_without_a_tolerance_is_named():
    model = ParityRegressor(
        linear_model.LinearRegression(),
        linear_model.LogisticRegression(),
        epsilon={0: 0.1},
        warm_up=50,
    )
    data = make_population(400, n_groups=2, random_state=0)
    groups = pd.Series(data.sensitive_features)
    with pytest.raises(ValueError, match=r"epsilon has no value for \[1\]"):
        model.learn_many(pd.DataFrame(data.data), pd.Series(data.target), groups)
