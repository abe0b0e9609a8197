import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats
from sklearn import config_context
from sklearn.linear_model import LinearRegression
from sklearn.metrics import make_scorer, mean_absolute_error
from sklearn.model_selection import cross_validate

from evenhand.metrics import METRICS, distance_to, ks_unfairness, parity_score, risk, unfairness

ROWS = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(-5, 5), st.integers(1, 3)), min_size=2, max_size=40
).filter(lambda rows: len({row[0] for row in rows}) == 2)


def columns(rows):
    return [np.array(column) for column in zip(*rows, strict=True)]


def scipy_ks(first, second):
    """The two-sample statistic; SciPy's p-value, which warns on some small samples, is not wanted."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return stats.ks_2samp(first, second).statistic


@given(ROWS)
def test_ks_to_all_rows_is_scipys_two_sample_statistic_times_the_share_of_the_others(rows):
    groups, values, _ = columns(rows)
    for group, distance in ks_unfairness(values, groups).items():
        apart = scipy_ks(values[groups == group], values[groups != group])
        assert distance == pytest.approx(apart * np.mean(groups != group), abs=1e-12)


@given(ROWS)
def test_pairs_agree_with_scipy(rows):
    groups, values, _ = columns(rows)
    first, second = values[groups == "a"], values[groups == "b"]
    ks = scipy_ks(first, second)
    assert ks_unfairness(values, groups, pairwise=True) == pytest.approx({("a", "b"): ks}, abs=1e-12)
    w1 = unfairness(values, groups, metric="w1", pairwise=True)[("a", "b")]
    assert w1 == pytest.approx(stats.wasserstein_distance(first, second), abs=1e-12)
    mean = unfairness(values, groups, metric="mean", pairwise=True)[("a", "b")]
    assert mean == pytest.approx(abs(first.mean() - second.mean()), abs=1e-12)


@pytest.mark.parametrize("metric", METRICS)
@given(rows=ROWS)
def test_whole_weights_repeat_rows_in_every_metric(metric, rows):
    groups, values, times = columns(rows)
    weighted = unfairness(values, groups, metric=metric, sample_weight=times)
    repeated = unfairness(np.repeat(values, times), np.repeat(groups, times), metric=metric)
    assert weighted == pytest.approx(repeated, abs=1e-7)  # W2 is the root of what rounds to 1e-16


def test_w2_is_the_cheapest_transport_by_linear_programming():
    rng = np.random.default_rng(0)
    pmf, atoms, groups = rng.dirichlet(np.ones(5), size=12), np.sort(rng.normal(size=5)), np.arange(12) % 2
    costs = (atoms[:, None] - atoms) ** 2
    own, every = pmf[groups == 0].mean(axis=0), pmf.mean(axis=0)
    ones = np.ones((1, 5))
    margins = np.vstack([np.kron(np.eye(5), ones), np.kron(ones, np.eye(5))])
    plan = optimize.linprog(costs.ravel(), A_eq=margins[:-1], b_eq=np.concatenate([own, every])[:-1])
    assert unfairness(pmf, groups, atoms, metric="w2")[0] == pytest.approx(np.sqrt(plan.fun), rel=1e-6)


def test_w2_of_equally_many_values_is_that_of_the_sorted_ones():
    rng = np.random.default_rng(1)
    first, second = np.sort(rng.normal(size=(2, 200)), axis=1)
    groups = np.repeat(["a", "b"], 200)
    found = unfairness(np.concatenate([first, second]), groups, metric="w2", pairwise=True)
    assert found[("a", "b")] == pytest.approx(np.sqrt(np.mean((first - second) ** 2)))


@pytest.mark.parametrize("metric", METRICS)
def test_the_distance_of_a_pmf_is_what_many_draws_of_it_show(metric):
    rng = np.random.default_rng(2)
    pmf, atoms, groups = rng.dirichlet(np.full(5, 0.3), size=20), np.arange(5.0), np.arange(20) % 3
    repeats = 20_000
    drawn = (rng.random((repeats, 20, 1)) > pmf.cumsum(axis=1)[None, :, :-1]).sum(axis=2)
    found = unfairness(pmf, groups, atoms, metric=metric)
    sampled = unfairness(atoms[drawn.ravel()], np.tile(groups, repeats), metric=metric)
    assert found == pytest.approx(sampled, abs=0.03)


def test_the_largest_atom_gap_is_by_hand():
    found = unfairness([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]], ["a", "b", "b"], metric="sup")
    assert found == pytest.approx({"a": 0.5, "b": 0.25})


def test_risk_by_other_losses_is_the_double_sum():
    rng = np.random.default_rng(3)
    pmf, atoms, target = rng.dirichlet(np.ones(4), size=30), np.arange(4.0), rng.normal(size=30)
    gaps = np.abs(atoms - target[:, None])
    assert risk(target, pmf, atoms, loss="absolute") == pytest.approx((pmf * gaps).sum(axis=1).mean())
    cubic = risk(target, pmf, atoms, loss=lambda y, v: np.abs(v - y) ** 3)
    assert cubic == pytest.approx((pmf * gaps**3).sum(axis=1).mean())
    assert risk(target, pmf @ atoms, loss="absolute") == pytest.approx(
        mean_absolute_error(target, pmf @ atoms)
    )


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        ("cubic", "loss must be one of"),
        (lambda y, v: 1.0, "one number for each pair"),
        (lambda y, v: v + np.nan, "NaN"),
    ],
)
def test_risk_refuses_losses_that_are_none(loss, message):
    with pytest.raises(ValueError, match=message):
        risk([0.0, 1.0], [0.0, 1.0], loss=loss)


def test_the_parity_score_is_a_scorer_through_metadata_routing():
    rng = np.random.default_rng(4)
    features, groups = rng.normal(size=(90, 2)), np.arange(90) % 3
    target = features @ [1.0, 2.0] + groups
    with config_context(enable_metadata_routing=True):
        scorer = make_scorer(parity_score).set_score_request(sensitive_features=True)
        found = cross_validate(
            LinearRegression(),
            features,
            target,
            cv=3,
            scoring={"parity": scorer},
            params={"sensitive_features": groups},
            return_estimator=True,
            return_indices=True,
        )
    for score, model, rows in zip(
        found["test_parity"], found["estimator"], found["indices"]["test"], strict=True
    ):
        expected = max(ks_unfairness(model.predict(features[rows]), groups[rows]).values())
        assert score == pytest.approx(-expected)


def test_risk_and_the_distance_to_all_rows_work_in_the_metric_frame_of_fairlearn():
    fairlearn = pytest.importorskip("fairlearn.metrics")
    rng = np.random.default_rng(5)
    values, target, groups = rng.normal(size=120), rng.normal(size=120), np.repeat(["a", "b"], [40, 80])
    weights = rng.random(120)
    frame = fairlearn.MetricFrame(
        metrics={"risk": risk, "ks": distance_to(values, sample_weight=weights)},
        y_true=target,
        y_pred=values,
        sensitive_features=groups,
        sample_params={"risk": {"sample_weight": weights}, "ks": {"sample_weight": weights}},
    )
    expected = unfairness(values, groups, sample_weight=weights)
    assert frame.by_group["ks"].to_dict() == pytest.approx(expected)
    assert frame.overall["ks"] == pytest.approx(0.0, abs=1e-12)
    own = risk(target[:40], values[:40], sample_weight=weights[:40])
    assert frame.by_group["risk"]["a"] == pytest.approx(own)


def test_a_group_whose_rows_have_no_weight_is_named():
    with pytest.raises(ValueError, match="No row counts in group 'b'"):
        ks_unfairness([1.0, 2.0], ["a", "b"], sample_weight=[1.0, 0.0])
