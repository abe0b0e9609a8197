import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom
from sklearn.linear_model import LinearRegression, LogisticRegression

from evenhand import ParityPostprocessor, ParityRegressor
from evenhand.certificates import certify_held_out, certify_plugin, certify_sequence
from evenhand.certificates.deviations import excess_width, share_interval, shortfall_width, sum_tail
from evenhand.certificates.melding import confidence, melded_bounds, share_confidence
from evenhand.datasets import make_population
from evenhand.metrics import Membership, ks_unfairness, unfairness
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


def _melded(n, k, x, y, level, share=None):
    hits, others = np.asarray(x, float).ravel(), np.asarray(y, float).ravel()
    share = share_confidence(0, 10**12) if share is None else share
    return melded_bounds(confidence(n + 1, *(hits + 1,) * 3), confidence(k + 1, *(others,) * 3), share, level)


@pytest.mark.parametrize(("n", "k"), [(1, 5), (3, 7), (10, 10), (5, 30), (30, 5), (20, 20)])
@pytest.mark.parametrize("level", [0.01, 0.05, 0.2, 0.5])
def test_two_shares_are_beyond_their_melded_bound_no_more_often_than_the_level(n, k, level):
    """The exact chance, added up over all outcomes, for pairs of shares on a grid and next to their ends."""
    grid = np.r_[0, 0.001, 0.01, np.linspace(0.05, 0.95, 19), 0.99, 0.999, 1]
    x, y = np.meshgrid(np.arange(n + 1), np.arange(k + 1), indexing="ij")
    bounds = _melded(n, k, x, y, level).reshape(x.shape)
    first, second = (binom.pmf(np.arange(size + 1)[:, None], size, grid) for size in (n, k))
    gaps = grid[:, None] - grid
    failed = bounds[:, :, None, None] < gaps - 1e-7
    chance = np.einsum("xf,yg,xyfg->fg", first, second, failed)
    assert chance.max() <= level + 1e-9
    assert chance.max() > 0.85 * level  # and it is no wider than it need be


@pytest.mark.parametrize("n_rows", [9, 16])
@pytest.mark.parametrize("level", [0.02, 0.05, 0.2, 0.45])
def test_a_share_times_a_gap_is_beyond_its_melded_bound_no_more_often_than_the_level(n_rows, level):
    grid = np.r_[0, 0.01, np.linspace(0.1, 0.9, 9), 0.99, 1]
    bounds = [np.ones((1, n_rows + 1))]  # without rows of the group nothing is known
    for n in range(1, n_rows + 1):
        x, y = np.meshgrid(np.arange(n + 1), np.arange(n_rows - n + 1), indexing="ij")
        share = share_confidence(n, n_rows)
        bounds.append(_melded(n, n_rows - n, x, y, level, share).reshape(x.shape))
    for p in (0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 0.98):
        target = (1 - p) * (grid[:, None] - grid)
        chance = np.zeros_like(target)
        for n, found in enumerate(bounds):
            first, second = (binom.pmf(np.arange(size + 1)[:, None], size, grid) for size in (n, n_rows - n))
            failed = found[:, :, None, None] < target - 1e-6
            chance += binom.pmf(n, n_rows, p) * np.einsum("xf,yg,xyfg->fg", first, second, failed)
        assert chance.max() <= level + 1e-9


@pytest.mark.parametrize(
    ("n", "k", "x", "y"),
    [(500, 500, 250, 240), (20, 980, 0, 0), (980, 20, 500, 8), (5, 5, 5, 0), (100, 0, 50, 0)],
)
def test_a_melded_bound_is_the_quantile_of_independent_beta_variables(n, k, x, y):
    rng, size = np.random.default_rng(0), 400_000
    share = rng.beta(n, k + 1, size)
    first = rng.beta(x + 1, n - x, size) if x < n else 1.0
    second = rng.beta(y, k - y + 1, size) if y else 0.0
    for level in (0.005, 0.05, 0.45):
        found = _melded(n, k, x, y, level, share_confidence(n, n + k))[0]
        beyond = ((1 - share) * (first - second) > found).mean()
        assert beyond == pytest.approx(level, abs=4 * np.sqrt(level / size) + 0.004 * level)


def test_the_confidence_distribution_of_a_mean_has_the_moments_of_dirichlet_weights():
    rng = np.random.default_rng(1)
    values = np.r_[rng.beta(0.5, 2.0, size=30), 1.0]
    found = confidence(31, *(np.array([(values**power).sum()]) for power in (1, 2, 3)))
    means = rng.dirichlet(np.ones(31), size=400_000) @ values
    mean, variance, third = (part[0] for part in found.cumulants())
    assert mean == pytest.approx(means.mean(), abs=3e-4)
    assert variance == pytest.approx(means.var(), rel=0.01)
    assert third == pytest.approx(((means - means.mean()) ** 3).mean(), rel=0.05)
    for level in (0.01, 0.05, 0.5):
        assert (means > found.quantiles(np.array([1 - level]))[0, 0]).mean() == pytest.approx(level, rel=0.12)


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


@pytest.mark.parametrize("metric", ["ks", "tv", "w1", "sup", "mean"])
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


# a choice among several


def test_the_last_of_a_sequence_that_passes_is_chosen(held):
    groups = held.sensitive_features
    pmfs = [_step(shift, groups) for shift in (0.0, 0.02, 0.3, 0.0)]
    found = certify_sequence(pmfs, groups, epsilon=0.1, atoms=[0.0, 1.0])
    assert found.chosen == 1
    assert found.n_tested == 3  # the last would pass, but comes after one that does not
    single = certify_held_out(pmfs[1], groups, epsilon=0.1, side="upper")
    assert (found.upper[1] <= single.upper).all()  # no union over groups is paid
    assert "predictor 1 and those before it" in str(found)
    json.dumps(found.to_dict(), allow_nan=False)
    none = certify_sequence(iter(pmfs[2:]), groups, epsilon=0.1)
    assert (none.chosen, none.n_tested) == (None, 1)
    absent = certify_sequence(pmfs, groups, epsilon=1.0, groups=[0, 1, 2, 3])
    assert absent.chosen is None
    assert "no held-out rows of 3" in str(absent)


def _step(shift, groups):
    chance = 0.5 + shift * (groups == 0)
    return np.column_stack([1 - chance, chance])


def test_a_sequence_is_judged_within_strata():
    rng = np.random.default_rng(4)
    stratum, group = rng.integers(2, size=(2, 6000))
    chance = 0.2 + 0.6 * stratum  # depends on the stratum alone, which depends on nothing
    biased = chance + 0.3 * group * (stratum == 0)
    pmfs = [np.column_stack([1 - p, p]) for p in (chance, biased)]
    found = certify_sequence(pmfs, group, strata=stratum, epsilon=0.05)
    assert found.chosen == 0
    assert found.groups == ((0, 0), (0, 1), (1, 0), (1, 1))
    assert (found.upper[1] > 0.1).tolist() == [True, True, False, False]
    members = Membership(found.groups, stratum * 2 + group, strata=np.array([0, 0, 1, 1]))
    again = certify_sequence(pmfs, members, epsilon=0.05)
    np.testing.assert_allclose(again.upper, found.upper)
    for group_, inside in ((1, stratum == 0), (3, stratum == 1)):
        alone = certify_sequence([pmfs[1][inside]], group[inside], epsilon=0.05)
        assert alone.upper[0, 1] == pytest.approx(found.upper[1, group_])


def test_what_is_chosen_is_beyond_epsilon_no_more_often_than_it_may():
    """Ten predictors, of which the fourth is the first just beyond epsilon: the hardest to tell."""
    rng = np.random.default_rng(5)
    delta, wrong = 0.2, 0
    for _ in range(300):
        groups = np.repeat([0, 1], [150, 250])
        draws = rng.random((10, 400))
        shifts = 0.2 * np.arange(1, 11) / 4  # a gap of 0.2 is 0.1 or so from everybody
        values = (draws < 0.4 + np.minimum(shifts, 0.5)[:, None] * groups).astype(float)
        found = certify_sequence(
            list(values), groups, epsilon=[0.2 * 250 / 400, 0.2 * 150 / 400], delta=delta
        )
        wrong += found.chosen is not None and found.chosen >= 3
    assert wrong <= delta * 300


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"candidates": []}, "one candidate"),
        ({"delta": 1.0}, "delta"),
        ({"metric": "w2"}, "metric must be one of"),
    ],
)
def test_bad_input_of_a_sequence_is_refused(change, message):
    good = {"candidates": [[0.1, 0.2]], "sensitive_features": ["a", "b"], "epsilon": 0.1}
    with pytest.raises(ValueError, match=message):
        certify_sequence(**(good | change))


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
