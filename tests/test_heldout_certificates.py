import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

from evenhand import ParityPostprocessor, ParityRegressor
from evenhand.certificates import certify_held_out, certify_plugin
from evenhand.certificates.deviations import mean_excess_width, share_interval
from evenhand.certificates.heldout import lower_bounds
from evenhand.datasets import make_population
from evenhand.metrics import ks_unfairness, unfairness
from reproduction.coverage import (
    QUICK_COVERAGE,
    QUICK_RATE,
    CoverageConfig,
    RateConfig,
    coverage,
    main,
    rate,
    read_csv,
    slopes,
    write_csv,
)


@pytest.fixture(scope="module")
def fitted():
    pile = make_population(2000, 3, random_state=0)
    return ParityPostprocessor(epsilon=0.02, atoms=31).fit(pile.scores, pile.group_proba)


@pytest.fixture(scope="module")
def held():
    return make_population(3000, 3, random_state=1)


# the held-out certificate


def test_the_estimate_is_the_distance_that_the_metrics_report(fitted, held):
    pmf = fitted.predict_pmf(held.scores, held.group_proba)
    values = fitted.predict(held.scores, held.group_proba)
    for given in (pmf, values, held.scores):
        certificate = certify_held_out(given, held.sensitive_features)
        expected = ks_unfairness(given, held.sensitive_features)
        np.testing.assert_allclose(certificate.estimate, list(expected.values()), atol=1e-12)
        assert (certificate.lower <= certificate.estimate).all()
        assert (certificate.upper >= certificate.estimate).all()
        assert certificate.n_rows == 3000


def test_a_model_and_its_pmf_have_one_certificate(fitted, held):
    pmf = fitted.predict_pmf(held.scores, held.group_proba)
    direct = certify_held_out(pmf.astype(np.float32), held.sensitive_features)
    by_model = certify_held_out(fitted, held.sensitive_features, X=(held.scores, held.group_proba))
    np.testing.assert_allclose(by_model.upper, direct.upper, atol=1e-6)
    model = ParityRegressor(LinearRegression(), LogisticRegression(), atoms=21)
    model.fit(held.data, held.target, sensitive_features=held.sensitive_features)
    named = certify_held_out(model, held.sensitive_features, X=held.data)
    assert named.kind == "pmf"
    assert named.groups == (0, 1, 2)


def test_the_verdict_follows_the_bounds():
    rng = np.random.default_rng(0)
    groups = rng.integers(2, size=4000)
    apart = certify_held_out(rng.normal(size=4000) + 2 * groups, groups, epsilon=0.1)
    alike = certify_held_out(rng.normal(size=4000), groups, epsilon=0.1)
    unsure = certify_held_out(rng.normal(size=40), groups[:40], epsilon=0.1)
    assert (apart.refuted, apart.holds) == (True, False)
    assert (alike.refuted, alike.holds) == (False, True)
    assert (unsure.refuted, unsure.holds) == (False, False)
    assert "beyond epsilon" in str(apart)
    assert "within epsilon = 0.1." in str(alike)
    assert "cannot tell" in str(unsure)
    assert json.loads(json.dumps(apart.to_dict()))["delta"] == 0.05
    assert list(apart.frame("pandas").columns)[-1] == "epsilon"


def test_what_is_just_met_is_not_refuted():
    values, groups = np.tile([0.0, 1.0], 200), np.repeat([0, 1], 200)  # the same values in both
    found = certify_held_out(values, groups, epsilon=0.0)
    assert found.lower.tolist() == [0.0, 0.0]
    assert not found.refuted


def test_the_table_of_a_notebook_has_a_column_for_what_was_asked_for():
    values, groups = np.tile([0.0, 1.0], 200), np.repeat([0, 1], 200)
    plain = certify_held_out(values, groups)._repr_html_()
    asked = certify_held_out(values, groups, epsilon=0.123)._repr_html_()
    for text, wanted in ((plain, False), (asked, True)):
        assert ("Asked for (epsilon)" in text) is wanted
        assert ("0.123" in text) is wanted
    assert asked.count("<th") == plain.count("<th") + 1


@pytest.mark.parametrize(("n_groups", "n_gaps"), [(2, 1), (3, 3), (5, 5)])
def test_gaps_share_the_level_of_the_lower_bounds(n_groups, n_gaps):
    sample = SimpleNamespace(
        strata=lambda: [np.arange(n_groups)],
        totals=lambda: np.full(n_groups, 300 * n_groups),
        estimate=lambda: np.full(n_groups, 0.4),
        counts=np.full(n_groups, 300),
        unit=1.0,
        metric="mean",
    )
    _, high = share_interval(300, 300 * n_groups, 0.01 / n_groups)
    width = mean_excess_width(300, 300 * (n_groups - 1), 0.05 / n_gaps)
    expected = (1 - high) * (0.4 / (1 - 1 / n_groups) - width)
    np.testing.assert_allclose(lower_bounds(sample, 0.05, 0.01), expected)


def test_a_group_of_one_row_gets_a_wide_and_honest_bound():
    certificate = certify_held_out(np.arange(100.0), ["a"] + ["b"] * 99)
    assert certificate.upper[0] > 0.9
    assert (certificate.lower == 0).all()
    assert (certificate.upper <= 1).all()


def test_known_atoms_sharpen_bounds_only_when_few():
    rng = np.random.default_rng(0)
    values, groups = rng.integers(2, size=500).astype(float), rng.integers(2, size=500)
    values += groups
    without = certify_held_out(values, groups).lower
    assert (certify_held_out(values, groups, atoms=[0.0, 1.0, 2.0]).lower > without).all()
    assert (certify_held_out(values, groups, atoms=np.arange(500.0)).lower == without).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"predictions": np.array([0.1, np.nan, 0.3, 0.4])}, "NaN"),
        ({"predictions": np.full((4, 2), 0.4)}, "row 0 has the sum 0.8"),
        ({"predictions": np.full((4, 2), np.nan)}, "must be probabilities"),
        ({"predictions": np.full((3, 2), 0.5)}, "has 4 rows, but there are 3: it needs one label per row"),
        ({"predictions": np.full((5, 2), 0.5)}, "has 4 rows, but there are 5: it needs one label per row"),
        ({"predictions": np.zeros((2, 2, 2))}, r"shape \(2, 2, 2\)"),
        ({"predictions": np.empty(0)}, "got shape"),
        ({"sensitive_features": ["a"] * 4}, "two groups or more"),
        ({"sensitive_features": [None] * 4}, "missing in every row"),
        ({"delta": 0.0}, "delta"),
        ({"atoms": [0.0, 1.0]}, "not among the atoms"),
        ({"predictions": ParityPostprocessor()}, "needs X="),
    ],
)
def test_bad_input_of_a_certificate_is_refused(change, message):
    good = {"predictions": [0.1, 0.2, 0.3, 0.4], "sensitive_features": ["a", "a", "b", "b"]}
    with pytest.raises(ValueError, match=message):
        certify_held_out(**(good | change))
    with pytest.raises(ValueError, match="No epsilon"):
        _ = certify_held_out(**good).holds


# groups without rows


def test_nothing_holds_for_a_group_without_held_out_rows(fitted, held):
    some = held.sensitive_features < 2
    rows = held.scores[some], held.group_proba[some]
    certificate = certify_held_out(fitted, held.sensitive_features[some], X=rows, epsilon=0.5)
    assert certificate.groups == (0, 1, 2)
    assert certificate.absent == (2,)
    assert certificate.within.tolist() == [True, True, False]
    assert not certificate.holds
    assert not certificate.refuted
    assert (certificate.upper[2], certificate.lower[2]) == (1.0, 0.0)
    assert "Group 2 has no held-out rows: nothing is proved about it." in str(certificate)
    plain = json.loads(json.dumps(certificate.to_dict(), allow_nan=False))
    assert plain["estimate"][2] is None
    assert plain["absent"] == ["2"]


@pytest.mark.parametrize(
    "told", [{"groups": ["a", "b", "c"], "epsilon": 1.0}, {"epsilon": {"a": 1.0, "b": 1.0, "c": 1.0}}]
)
def test_absent_groups_are_named_by_groups_or_by_the_tolerances(told):
    certificate = certify_held_out(np.arange(100.0), ["a", "b"] * 50, **told)
    assert certificate.absent == ("c",)
    assert not certificate.holds  # even at the largest tolerance that there is
    with pytest.raises(ValueError, match="groups that groups= does not name: 'b'"):
        certify_held_out(np.arange(4.0), list("aabb"), groups=["a", "c"])


def test_a_single_group_in_the_rows_says_little_and_holds_nothing():
    certificate = certify_held_out(np.arange(50.0), ["a"] * 50, groups=["a", "b"], epsilon=0.2)
    assert 0.05 < certificate.upper[0] < 0.1  # most of everybody is in it
    assert certificate.upper[1] == 1.0
    assert not certificate.holds


# the other distances, and the sides


@pytest.mark.parametrize("metric", ["ks", "tv", pytest.param("w1", marks=pytest.mark.slow), "sup", "mean"])
@pytest.mark.parametrize("kind", ["pmf", "values"])
def test_every_distance_is_bounded_and_seldom_missed(metric, kind):
    rng = np.random.default_rng(8)
    atoms = np.array([0.0, 1.0, 2.0, 5.0])
    pool = rng.dirichlet(np.full(4, 0.5), size=3000)
    groups = (rng.random(3000) < 0.2 + 0.4 * pool[:, 0]).astype(int)  # the pool is the population
    truth = np.array(list(unfairness(pool, groups, atoms, metric=metric).values()))
    failed, widths = 0, []
    for _ in range(200):
        rows = rng.integers(3000, size=300)
        given = pool[rows]
        if kind == "values":
            given = atoms[(rng.random((300, 1)) > np.cumsum(given, axis=1)[:, :-1]).sum(axis=1)]
        asked = {"atoms": atoms, "metric": metric, "delta": 0.3}
        found = certify_held_out(given, groups[rows], **asked)
        proved = certify_held_out(given, groups[rows], method="hoeffding", **asked)
        failed += bool((found.upper < truth).any() or (found.lower > truth).any())
        assert (found.upper >= found.estimate).all()
        widths.append((found.upper - found.estimate) / (proved.upper - proved.estimate))
    assert failed <= 200 * 0.3
    assert np.mean(widths) < 0.9  # narrower than what Hoeffding's inequality gives


def test_one_side_may_have_all_of_delta():
    rng = np.random.default_rng(3)
    groups = rng.integers(2, size=2000)
    values = rng.normal(size=2000) + groups
    both, upper, lower = (certify_held_out(values, groups, side=side) for side in ("both", "upper", "lower"))
    assert (upper.upper < both.upper).all()
    assert (upper.lower == 0).all()
    assert (lower.lower > both.lower).all()
    assert (lower.upper == 1).all()


# the plug-in certificate


def test_true_scores_and_probabilities_cost_little_more_than_noise(fitted, held):
    certificate = certify_plugin(
        fitted, held.sensitive_features, held.target, scores=held.scores, group_proba=held.group_proba
    )
    assert (certificate.parity_cost_shown <= 2 * certificate.calibration.parity_cost_floor).all()
    assert (certificate.parity_cost_shown < certificate.parity_cost_ceiling).all()
    assert (certificate.violation_shown < certificate.violation_bound).all()
    assert "can add at least about" in str(certificate)
    assert "and at most about" in str(certificate)
    assert certificate.score_error_shown < 0.05 < certificate.score_error_ceiling
    assert certificate.imbalance_error_shown < certificate.imbalance_error_ceiling
    assert certificate.lemma_parity_bound is None  # the lemma's own form is that of "pmf"
    assert "Group 2" in str(certificate)
    json.dumps(certificate.to_dict())


def test_an_error_that_alternates_between_distinct_scores_is_shown_and_within_the_ceiling():
    """Ten scores, tau = 0.5 and a truth of 0.5 -+ 0.3 by turns: the true TV violation is 0.3."""
    levels, truth = np.linspace(-1, 1, 10), 0.5 + 0.3 * np.where(np.arange(10) % 2, 1, -1)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        fit, new = rng.integers(10, size=(2, 2000))
        proba = np.full((2000, 2), 0.5)
        model = ParityPostprocessor(parity="tv", epsilon=0.05, atoms=levels).fit(levels[fit], proba)
        groups = (rng.random(2000) < truth[new]).astype(int)
        certificate = certify_plugin(model, groups, scores=levels[new], group_proba=proba)
        pmf = model.predict_pmf(levels, proba[:10])
        violation = 0.5 * np.abs((1 - truth / 0.5) @ pmf / 10).sum()
        assert violation == pytest.approx(0.3, abs=0.01)
        assert certificate.violation_shown == pytest.approx(0.3, abs=0.05)
        assert (certificate.violation_bound >= violation).all()


@pytest.mark.parametrize("parity", ["cdf", "pmf"])
def test_wrong_inputs_stay_within_the_bounds_on_violation_and_risk(parity):
    """The truth is known here: scores are off by a curve, and probabilities are drawn to each other."""
    pile = make_population(40_000, 2, random_state=3)
    scores = np.clip(pile.scores + 0.1 * np.sin(3 * pile.scores), -1, 1)
    proba = pile.group_proba**0.6
    proba /= proba.sum(axis=1, keepdims=True)
    model = ParityPostprocessor(parity=parity, epsilon=0.01, atoms=21, bounds=(-1, 1), beta=200)
    model.fit(scores, proba)
    certificate = certify_plugin(
        model, pile.sensitive_features, pile.target, scores=scores, group_proba=proba
    )
    pmf = model.predict_pmf(scores, proba)
    imbalance = 1 - pile.group_proba / pile.group_proba.mean(axis=0)
    violation = pmf.T @ imbalance / len(pmf)
    violation = np.cumsum(violation, axis=0) if parity == "cdf" else violation
    assert (np.abs(violation).max(axis=0) <= certificate.violation_bound + 0.01).all()
    assert np.abs(violation).max() > 0.011  # the certificate of the fit alone would be wrong

    best = ParityPostprocessor(parity=parity, epsilon=0.01, atoms=21, bounds=(-1, 1), beta=20_000)
    best.fit(pile.scores, pile.group_proba)
    costs = (pile.scores[:, None] - model.atoms_) ** 2
    risk = (pmf * costs).sum(axis=1).mean()
    gap = risk - best.certificate_.lower_bound
    assert gap <= certificate.risk_gap_bound
    if parity == "pmf":
        assert certificate.risk_gap_bound <= certificate.lemma_risk_bound
        excess = np.maximum(np.abs(violation) - 0.01, 0)
        assert np.linalg.norm(excess) <= certificate.lemma_parity_bound


def test_a_regressor_certifies_from_its_own_features(held):
    model = ParityRegressor(LinearRegression(), LogisticRegression(), atoms=21, parity="mean")
    model.fit(held.data, held.target, sensitive_features=held.sensitive_features)
    certificate = certify_plugin(model, held.sensitive_features, X=held.data)
    assert certificate.risk_gap_bound is None
    assert (certificate.violation_bound >= certificate.violation).all()
    with pytest.raises(ValueError, match="has not seen: 7"):
        certify_plugin(model, np.where(held.sensitive_features == 0, 7, 1), X=held.data)
    with pytest.raises(ValueError, match="needs the held-out rows"):
        certify_plugin(model, held.sensitive_features)


# the study


@pytest.mark.slow
def test_certificates_hold_as_often_as_they_say_on_a_known_population():
    columns = coverage(QUICK_COVERAGE)
    # at most delta, with three standard errors of the share for the 60 repetitions
    allowed = 0.05 + 3 * np.sqrt(0.05 * 0.95 / QUICK_COVERAGE.n_repetitions)
    assert max(columns["failed"]) <= allowed
    assert max(columns["failed_lower"]) <= allowed
    far = [ratio for ratio, kind, n in zip(*_picked(columns), strict=True) if kind == "scores" and n == 3000]
    assert max(far) < 2.5  # and bounds are of use


def _picked(columns):
    return columns["ratio"], columns["kind"], columns["n_rows"]


def test_unfairness_falls_with_the_rows_and_the_study_writes_it_down(tmp_path):
    pytest.importorskip("matplotlib").use("agg")
    columns = rate(replace(QUICK_RATE, settings=QUICK_RATE.settings[:2]))
    table = slopes(columns)
    by_name = dict(zip(table["setting"], table["norm"], strict=True))
    assert -0.8 < by_name["cdf, 41 atoms"] < -0.3
    covered = coverage(CoverageConfig(sizes=(100, 200), n_repetitions=2, n_pool=2000, n_fit=500))
    write_csv(columns, tmp_path / "rate.csv")
    write_csv(covered, tmp_path / "coverage.csv")
    np.testing.assert_allclose(read_csv(tmp_path / "rate.csv")["norm"], columns["norm"], rtol=1e-5)
    main(["--part", "figure", str(tmp_path), str(tmp_path)])
    assert (tmp_path / "coverage.png").stat().st_size > 10_000


@pytest.mark.slow
def test_the_full_study_of_certificates_and_of_the_rate():
    columns = coverage(CoverageConfig())
    allowed = 0.05 + 3 * np.sqrt(0.05 * 0.95 / 500)
    assert max(columns["failed"]) <= allowed
    assert max(columns["failed_lower"]) <= allowed
    full = RateConfig()
    table = slopes(rate(replace(full, settings=full.settings[:2])))
    by_name = dict(zip(table["setting"], zip(table["norm"], table["ks"], strict=True), strict=True))
    assert -0.85 < by_name["pmf, 41 atoms"][0] < -0.4  # at least about as fast as 1 / sqrt(T)
    assert -0.85 < by_name["cdf, 41 atoms"][0] < -0.4
    assert by_name["cdf, 41 atoms"][1] < -0.35
