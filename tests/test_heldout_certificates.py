import json
from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

from evenhand import ParityPostprocessor, ParityRegressor
from evenhand.certificates import certify_held_out, certify_plugin
from evenhand.certificates.deviations import excess_width, share_interval, shortfall_width, sum_tail
from evenhand.datasets import make_population
from evenhand.metrics import ks_unfairness
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


# the widths


@pytest.mark.parametrize(("n", "k"), [(500, 500), (20, 900), (1, 3)])
def test_the_tail_of_the_sum_agrees_with_simulation(n, k):
    rng = np.random.default_rng(0)
    first, second = (np.sqrt(np.log(2 / rng.random(400_000)) / (2 * size)) for size in (n, k))
    for level in (0.5, 0.05, 0.005):
        x = np.quantile(first + second, 1 - level)
        assert sum_tail(x, n, k) == pytest.approx(level, rel=5 / np.sqrt(level * 400_000))
        assert sum_tail(x, n, k) == pytest.approx(sum_tail(x, k, n))


def test_the_width_of_averages_is_the_mean_beyond_the_quantile():
    rng = np.random.default_rng(1)
    total = sum(np.sqrt(np.log(2 / rng.random(1_000_000)) / (2 * size)) for size in (300, 700))
    quantile, averaged = (excess_width(300, 700, 0.05, averaged=flag) for flag in (False, True))
    assert averaged == pytest.approx(total[total > quantile].mean(), rel=2e-3)
    assert quantile < averaged < 1.15 * quantile


def test_a_width_beats_two_separate_bounds_and_shrinks_as_the_root():
    split = np.sqrt(np.log(4 / 0.05) / 2) * 2 / np.sqrt(500)
    assert excess_width(500, 500, 0.05, averaged=False) < 0.85 * split
    large = excess_width(50_000, 50_000, 0.05, averaged=True)
    assert large == pytest.approx(excess_width(500, 500, 0.05, averaged=True) / 10)
    assert excess_width(1, 1, 0.05, averaged=True) == 1.0


def test_the_interval_of_a_share_misses_no_more_often_than_it_may():
    from scipy.stats import binom

    counts = np.arange(41)
    low, high = np.array([share_interval(count, 40, 0.05) for count in counts.tolist()]).T
    for share in (0.01, 0.2, 0.5, 0.9):
        chance = binom.pmf(counts, 40, share)
        assert chance[low > share].sum() <= 0.05
        assert chance[high < share].sum() <= 0.05


@pytest.mark.parametrize("averaged", [False, True])
def test_a_gap_is_off_by_more_than_its_width_no_more_often_than_it_may(averaged):
    # rows with their own two-step distributions, groups of 40 and 60 rows, a grid of 200 points
    rng = np.random.default_rng(2)
    points = np.linspace(0, 1, 200)
    width = excess_width(40, 60, 0.2, averaged=averaged)
    deviations = np.empty(2000)
    for i in range(len(deviations)):
        centres = rng.random(100)
        if averaged:  # a uniform centre, then a step up on either side of it: the mean is uniform on a circle
            other = (centres + 0.3) % 1.0
            rows = 0.5 * (centres[:, None] <= points) + 0.5 * (other[:, None] <= points)
        else:
            rows = (centres[:, None] <= points).astype(float)
        deviations[i] = np.abs(rows[:40].mean(axis=0) - rows[40:].mean(axis=0)).max()
    failed = (deviations > width).mean()
    assert failed <= 0.2
    if not averaged:  # within reach of the level: equal populations, where the two errors are one bridge
        assert np.quantile(deviations, 0.8) > 0.6 * width


def test_the_upper_width_is_near_what_one_point_needs():
    """Groups on 0 and 1: there is one point, the gap's error is normal, and both sides of zero are far."""
    rng = np.random.default_rng(3)
    shares, sizes = np.array([0.3, 0.7]), np.array([400, 600])
    seen = rng.binomial(sizes, shares, size=(200_000, 2)) / sizes
    hidden = 0.4 - np.abs(seen[:, 1] - seen[:, 0])
    width = shortfall_width(400, 600, 0.05)
    assert (hidden > width).mean() <= 0.05
    assert np.quantile(hidden, 0.95) > 0.6 * width


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


def test_a_group_of_one_row_gets_a_wide_and_honest_bound():
    certificate = certify_held_out(np.arange(100.0), ["a"] + ["b"] * 99)
    assert certificate.upper[0] > 0.99
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
        ({"sensitive_features": ["a", "b", None, "b"]}, "missing"),
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


# the plug-in certificate


def test_true_scores_and_probabilities_cost_little_more_than_noise(fitted, held):
    certificate = certify_plugin(
        fitted, held.sensitive_features, held.target, scores=held.scores, group_proba=held.group_proba
    )
    assert (certificate.parity_cost <= 2 * certificate.calibration.parity_cost_floor).all()
    assert certificate.score_error_shown < 0.05 < certificate.score_error_ceiling
    assert certificate.imbalance_error_shown < certificate.imbalance_error_ceiling
    assert certificate.lemma_parity_bound is None  # the lemma's own form is that of "pmf"
    assert "Group 2" in str(certificate)
    json.dumps(certificate.to_dict())


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
