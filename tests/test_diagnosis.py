"""What is said of group probabilities that are not calibrated."""

import json
import pickle

import numpy as np
import pytest
from scipy.special import expit, logit, softmax
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, mean_squared_error

from evenhand.calibration import diagnose_calibration, diagnosis
from tests.calibrated import draw_codes, population

PROBA = np.array([[0.7, 0.3], [0.2, 0.8], [0.5, 0.5]])


def diagnose(proba, codes, **options):
    return diagnose_calibration(proba, codes, range(proba.shape[1]), proba.mean(axis=0), **options)


@pytest.mark.parametrize("n_groups", [2, 4])
@pytest.mark.parametrize("weighted", [False, True])
def test_calibrated_probabilities_are_at_their_noise_floor(n_groups, weighted):
    above = []
    for seed in range(30):
        logits, truth, codes = population(n_groups, 1_500, seed=2 * seed)
        weights = np.random.default_rng(seed).uniform(0.1, 2.0, 1_500) if weighted else None
        found = diagnose(truth, codes, scores=logits[:, 0], sample_weight=weights)
        assert (found.parity_cost_floor < found.parity_cost_limit).all()
        above.append((found.parity_cost > found.parity_cost_limit).mean())
        assert (found.parity_cost < 2.5 * found.parity_cost_floor).all()
    assert np.mean(above) < 0.12  # 0.05 is what the limit is for; the figures of a sample go together


def test_a_distorted_classifier_stands_far_above_the_floor_until_it_is_calibrated():
    logits, _, codes = population(3, 8_000)
    fresh, _, fresh_codes = population(3, 8_000, seed=9)
    distorted = softmax(3 * fresh, axis=1)
    before = diagnose(distorted, fresh_codes)
    recalibration = LogisticRegression().fit(np.log(softmax(3 * logits, axis=1)), codes)
    after = diagnose(recalibration.predict_proba(np.log(distorted)), fresh_codes)
    assert (before.parity_cost > 8 * before.parity_cost_limit).all()
    assert (before.calibration_error > 8 * after.calibration_error).all()
    assert (after.parity_cost < 2 * after.parity_cost_limit).all()
    assert "Miscalibrated beyond sampling noise: 0, 1, 2" in str(before)
    assert after.log_loss < before.log_loss
    assert after.brier_score < before.brier_score


def test_the_figures_are_those_of_a_plain_loop_over_bins():
    logits, _, codes = population(3, 1_000)
    proba, prior = softmax(2 * logits, axis=1), np.array([0.3, 0.3, 0.4])
    found = diagnose_calibration(proba, codes, "abc", prior, n_bins=5)
    for group in range(3):
        bins = np.array_split(np.argsort(proba[:, group]), 5)
        tau = np.array([proba[rows, group].mean() for rows in bins])
        share = np.array([(codes[rows] == group).mean() for rows in bins])
        d = tau / prior[group] - share / (codes == group).mean()
        np.testing.assert_allclose(found.curve_proba[group], tau)
        np.testing.assert_allclose(found.curve_share[group], share)
        np.testing.assert_array_equal(found.curve_count[group], 200)
        assert found.calibration_error[group] == pytest.approx(np.abs(tau - share).mean())
        assert found.largest_error[group] == pytest.approx(np.abs(tau - share).max())
        assert found.parity_cost[group] == pytest.approx(max(d.clip(0).mean(), -d.clip(max=0).mean()))
        assert found.lemma_term[group] == pytest.approx(np.sqrt((d**2).mean()))
    assert found.log_loss == pytest.approx(log_loss(codes, proba))
    assert found.brier_score == pytest.approx(3 * mean_squared_error(np.eye(3)[codes], proba))


def true_excess(policies, truth, proba, prior, group):
    """True violation minus the one that `proba` claims, of each policy `h` on a whole population."""
    true = policies.mean(axis=1) - policies @ truth[:, group] / truth[:, group].sum()
    claimed = policies.mean(axis=1) - policies @ proba[:, group] / len(proba) / prior[group]
    return true - claimed


def random_policies(scores, proba, rng, n_policies=300):
    """Chances of an event, as functions of what a policy sees: steep and soft, of random directions."""
    seen = np.column_stack([scores / scores.std(), logit(proba.clip(1e-9, 1 - 1e-9))])
    directions = rng.normal(size=(seen.shape[1], n_policies)) * rng.exponential(3.0, n_policies)
    return expit(directions.T @ seen.T + rng.normal(scale=2.0, size=(n_policies, 1)))


@pytest.mark.parametrize("n_groups", [2, 3])
@pytest.mark.parametrize("prior_of", ["tau", "truth"])
def test_the_parity_cost_bounds_the_true_extra_violation_of_any_policy(n_groups, prior_of):
    rng = np.random.default_rng(0)
    logits, truth, codes = population(n_groups, 60_000)
    proba = softmax(2.0 * logits + 0.4 * np.arange(n_groups), axis=1)
    scores = logits[:, 0] + rng.normal(size=len(logits))
    prior = (proba if prior_of == "tau" else truth).mean(axis=0)
    found = diagnose_calibration(proba, codes, range(n_groups), prior, scores=scores)
    policies = random_policies(scores, proba, rng)
    for group in range(n_groups):
        excess = np.abs(true_excess(policies, truth, proba, prior, group))
        assert excess.max() > 0.2 * found.parity_cost[group]
        assert excess.max() <= found.parity_cost[group] + found.parity_cost_floor[group]
        assert found.parity_cost[group] <= found.lemma_term[group]


@pytest.mark.parametrize("prior_of", ["tau", "truth"])
def test_the_worst_policy_reaches_the_parity_cost(prior_of):
    logits, truth, codes = population(2, 200_000)
    proba = softmax(2.0 * logits + [0.0, 0.4], axis=1)
    prior = (proba if prior_of == "tau" else truth).mean(axis=0)
    found = diagnose_calibration(proba, codes, range(2), prior, n_bins=20)
    for group in range(2):
        d = proba[:, group] / prior[group] - truth[:, group] / truth[:, group].mean()
        worst = np.abs(true_excess(np.stack([d > 0, d < 0]), truth, proba, prior, group)).max()
        assert found.parity_cost[group] == pytest.approx(worst, rel=0.03)
        half = 0.5 * np.abs(d).mean()
        if prior_of == "tau":  # d has mean zero: half of E|d| is the most that any policy can reach
            assert worst == pytest.approx(half)
        else:
            assert worst > 1.05 * half


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("sharpness", [1.0, 6.0])
def test_floors_of_large_tables_are_those_of_simulated_rows(weighted, sharpness, monkeypatch):
    logits, _, codes = population(3, 12_000)
    proba = softmax(sharpness * logits, axis=1)  # sharp ones have cells that are all but certain
    weights = np.random.default_rng(0).uniform(0.1, 2.0, 12_000) if weighted else None
    found = []
    for most in (0, 10**9):
        monkeypatch.setattr(diagnosis, "EXACT_ENTRIES", most)
        drawn = [
            diagnose(proba, codes, scores=logits[:, 0], sample_weight=weights, seed=seed)
            for seed in range(15)
        ]
        found.append(drawn)
    for name in ("parity_cost_floor", "parity_cost_limit"):
        normal, exact = (np.array([getattr(each, name) for each in drawn]) for drawn in found)
        noise = np.sqrt((normal.var(axis=0) + exact.var(axis=0)) / 14)
        np.testing.assert_array_less(
            np.abs(normal.mean(axis=0) - exact.mean(axis=0)), 4 * noise + 0.01 * exact.mean(axis=0)
        )


def test_the_cells_of_one_of_two_groups_do_for_the_other():
    logits, _, codes = population(2, 2_001)
    proba = softmax(2 * logits, axis=1)
    weights = np.random.default_rng(0).uniform(0.1, 2.0, 2_001)
    two = diagnose(proba, codes, scores=logits[:, 0], sample_weight=weights)
    turned = diagnose(proba[:, ::-1], 1 - codes, scores=logits[:, 0], sample_weight=weights)
    for name in ("calibration_error", "largest_error", "parity_cost", "lemma_term", "curve_share"):
        np.testing.assert_allclose(getattr(two, name), getattr(turned, name)[::-1], rtol=1e-9)
    np.testing.assert_allclose(two.parity_cost_floor, turned.parity_cost_floor[::-1], rtol=0.1)
    np.testing.assert_allclose(two.curve_proba[0], 1.0 - two.curve_proba[1][::-1])


def test_only_with_the_scores_is_an_uninformative_classifier_found_out():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=20_000)
    truth = np.column_stack([expit(-4 * scores), expit(4 * scores)])
    codes = draw_codes(truth, 1)
    constant = np.full((20_000, 2), 0.5)  # calibrated, and blind to what the scores tell
    blind, seeing = diagnose(constant, codes), diagnose(constant, codes, scores=scores)
    low_scores = (scores < 0)[None].astype(float)
    violation = np.abs(true_excess(low_scores, truth, constant, np.full(2, 0.5), 1))
    assert violation > 0.35
    assert blind.parity_cost[1] <= blind.parity_cost_limit[1] + 0.02
    # the middle of five bins of the scores hides the change of sign inside it
    assert 0.9 * violation < seeing.parity_cost[1]
    finer = diagnose(constant, codes, scores=scores, n_score_bins=20)
    assert violation <= finer.parity_cost[1] + finer.parity_cost_floor[1]
    assert "pass scores" in str(blind)
    assert "pass scores" not in str(seeing)


@pytest.mark.parametrize("weighted", [False, True])
def test_floors_of_a_rare_group_are_those_of_simulated_rows(weighted, monkeypatch):
    rng = np.random.default_rng(0)
    u, scores = rng.normal(size=(2, 6_000))
    weights = np.exp(1.5 * rng.normal(size=6_000))
    # a handful of hits, in one cell without weights; shares of rows with weights of all sizes
    rare = 0.003 * np.exp(u - 0.5) if weighted else expit(4 * u - 14)
    proba = np.column_stack([1 - rare, rare])
    codes = (np.arange(6_000) == rare.argmax()).astype(int)
    monkeypatch.setattr(diagnosis, "N_DRAWS", 2_000)
    found = []
    for most in (1, 10**12):
        monkeypatch.setattr(diagnosis, "EXACT_ENTRIES", most)
        found.append(diagnose(proba, codes, scores=scores, sample_weight=weights if weighted else None))
    for name in ("parity_cost_floor", "parity_cost_limit"):
        # of 2000 draws; 12 000 bring the two within 1 %
        np.testing.assert_allclose(getattr(found[0], name)[1], getattr(found[1], name)[1], rtol=0.1)


def test_a_weight_counts_like_as_many_rows_in_the_figures():
    logits, _, codes = population(2, 300)
    proba, times = softmax(2 * logits, axis=1), np.random.default_rng(0).integers(0, 4, 300)
    prior = np.array([0.5, 0.5])
    weighted = diagnose_calibration(proba, codes, "ab", prior, 4, sample_weight=times)
    repeated = diagnose_calibration(proba.repeat(times, axis=0), codes.repeat(times), "ab", prior, 4)
    for name in ("calibration_error", "largest_error", "parity_cost", "lemma_term", "curve_share"):
        np.testing.assert_allclose(getattr(weighted, name), getattr(repeated, name))
    assert weighted.log_loss == pytest.approx(repeated.log_loss)
    # copies of a row tell no more than the row: their floor takes them for independent, and is lower
    assert (weighted.parity_cost_floor > repeated.parity_cost_floor).all()


def test_few_rows_and_ties_leave_empty_bins_and_no_trouble():
    proba = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5], [0.5, 0.5], [0.5, 0.5]], dtype=np.float32)
    found = diagnose(proba, np.array([0, 1, 0, 1, 0]))
    assert found.curve_count.sum(axis=1).tolist() == [5, 5]
    assert np.array_equal(np.isnan(found.curve_proba), found.curve_count == 0)
    assert np.isfinite(found.parity_cost_limit).all()
    never = np.column_stack([np.ones(50), np.zeros(50)])  # a group that the classifier never sees
    found = diagnose_calibration(never, np.r_[np.zeros(40, int), np.ones(10, int)], "ab", [0.8, 0.2])
    assert found.parity_cost[1] == pytest.approx(1.0)  # nothing is known about its violation
    assert np.isfinite(found.parity_cost_floor).all()


def test_a_diagnosis_repeats_itself_and_becomes_json_and_text():
    _, truth, codes = population(2, 500)
    first, second = (diagnose(truth, codes, n_bins=700).to_dict() for _ in range(2))
    assert json.loads(json.dumps(first, allow_nan=False)) == second
    assert first["groups"] == ["0", "1"]
    named = diagnose_calibration(truth, codes, ["women", "men"], truth.mean(axis=0))
    lines = str(named).splitlines()
    assert len({len(line) for line in lines[1:4]}) == 1
    assert lines[2].split()[0] == "women"
    assert pickle.loads(pickle.dumps(named)).to_dict() == named.to_dict()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"groups": "abc"}, "groups has 3 labels, but group_proba has 2 columns"),
        ({"group_prior": [0.5, 0.6]}, "group_prior must sum to one"),
        ({"group_prior": [1.0, 0.0]}, "group_prior must be positive"),
        ({"n_bins": 0}, "n_bins and n_score_bins must be at least 1"),
        ({"scores": [1.0, 2.0]}, "scores has shape"),
        ({"scores": [1.0, 2.0, np.nan]}, "scores must be finite"),
        ({"codes": [0, 0, 0]}, "No row has the group of column 1"),
    ],
)
def test_a_diagnosis_refuses_bad_input(options, message):
    arguments = {"group_proba": PROBA, "codes": [0, 1, 1], "groups": "ab", "group_prior": [0.5, 0.5]}
    with pytest.raises(ValueError, match=message):
        diagnose_calibration(**(arguments | options))
