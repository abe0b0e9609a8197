import numpy as np
import pytest
from scipy import stats

from evenhand.metrics import dkw_radius, ks_unfairness, risk, risk_interval, unfairness, unfairness_interval
from evenhand.metrics.distances import METRICS
from evenhand.metrics.masses import Membership, Predictions
from evenhand.metrics.resampling import bootstrap_masses, noise_floor, poisson_ones

SHARES = (0.2, 0.8)


def population(rng, n_rows, shift):
    """Rows with one of two binomial pmfs, the first more often in group 0; `truth` is its KS."""
    codes = (rng.random(n_rows) < SHARES[1]).astype(int)
    centres = np.where(rng.random(n_rows) < 0.5 + shift * (codes == 0), 3, 5)
    return codes, PMFS[centres], centres


PMFS = stats.binom.pmf(np.arange(9), 8, np.linspace(0.02, 0.98, 9)[:, None])


def truth(shift):
    """KS of group 0 to all, of the population above."""
    mixture = [(0.5 + extra) * PMFS[3] + (0.5 - extra) * PMFS[5] for extra in (shift, 0.0)]
    everybody = SHARES[0] * mixture[0] + SHARES[1] * mixture[1]
    return np.abs(np.cumsum(mixture[0] - everybody)).max()


@pytest.mark.parametrize("method", ["dkw", "bootstrap"])
@pytest.mark.parametrize("shift", [0.0, 0.4])
def test_intervals_of_a_randomised_predictor_cover_the_population(method, shift):
    rng = np.random.default_rng(0)
    missed = 0
    for seed in range(150):
        codes, pmf, _ = population(rng, 200, shift)
        found = unfairness_interval(pmf, codes, method=method, n_boot=100, random_state=seed)
        missed += not found.low[0] - 1e-12 <= truth(shift) <= found.high[0] + 1e-12
    # five in a hundred may miss; the bound adds three standard deviations of the count
    assert missed <= 150 * 0.05 + 3 * np.sqrt(150 * 0.05 * 0.95)


@pytest.mark.parametrize("method", ["dkw", "bootstrap"])
def test_intervals_of_values_cover_the_population_and_narrow_with_its_rows(method):
    rng = np.random.default_rng(1)
    true, missed, widths = 0.8 * (2 * stats.norm.cdf(0.25) - 1), 0, {}
    for n_rows in (200, 3200):
        for seed in range(100):
            codes = (rng.random(n_rows) < 0.8).astype(int)
            values = rng.normal(size=n_rows) + 0.5 * (codes == 0)
            found = unfairness_interval(values, codes, method=method, n_boot=60, random_state=seed)
            missed += not found.low[0] <= true <= found.high[0]
            widths.setdefault(n_rows, []).append(found.high[0] - found.low[0])
    assert missed <= 200 * 0.05 + 3 * np.sqrt(200 * 0.05 * 0.95)
    assert np.mean(widths[3200]) == pytest.approx(np.mean(widths[200]) / 4, rel=0.35)


@pytest.mark.parametrize("metric", METRICS)
def test_bootstrap_intervals_hold_the_estimate_and_repeat_with_their_seed(metric):
    rng = np.random.default_rng(2)
    values, codes = rng.integers(6, size=300).astype(float), rng.integers(3, size=300)
    first, again = (unfairness_interval(values, codes, metric=metric, n_boot=40) for _ in range(2))
    assert first.to_dict() == again.to_dict()
    assert {g: row[0] for g, row in first.to_dict().items()} == unfairness(values, codes, metric=metric)
    assert ((first.low <= first.estimate) & (first.estimate <= first.high)).all()
    pairs = unfairness_interval(values, codes, metric=metric, n_boot=40, pairwise=True)
    assert list(pairs.frame("pandas").columns) == ["group", "other", "estimate", "low", "high"]
    assert pairs.labels == ((0, 1), (0, 2), (1, 2))


def test_a_distribution_free_radius_is_massarts_and_a_little_more_for_a_pmf():
    assert dkw_radius(50, 0.1) == pytest.approx(np.sqrt(np.log(20) / 100))
    alpha = 0.05
    a = np.linspace(0.7, 3.0, 20_001)
    tails = [np.trapezoid(np.append(2 * np.exp(-2 * a[k:] ** 2), 0.0), np.append(a[k:], 3.1)) for k in (0,)]
    grid = (
        a + (tails[0] - np.concatenate([[0.0], np.cumsum(np.diff(a) * 2 * np.exp(-2 * a[:-1] ** 2))])) / alpha
    )
    assert dkw_radius(1, alpha, randomised=True) == pytest.approx(grid.min(), rel=1e-3)


def test_the_mean_of_random_distribution_functions_leaves_its_band_no_more_often_than_said():
    rng = np.random.default_rng(3)
    everybody, missed = PMFS.mean(axis=0).cumsum(), 0
    for _ in range(2000):
        sample = PMFS[rng.integers(9, size=30)].mean(axis=0).cumsum()
        missed += np.abs(sample - everybody).max() > dkw_radius(30, 0.2, randomised=True)
    assert missed <= 2000 * 0.2


def test_bootstrap_masses_have_the_mean_and_variance_of_resampling():
    rng = np.random.default_rng(4)
    pmf, codes = rng.dirichlet(np.ones(4), size=60), np.arange(60) % 2
    weights = rng.random(60)
    members = Membership((0, 1), codes=codes, weights=weights)
    drawn = np.concatenate(list(bootstrap_masses(Predictions.read(pmf, None), members, 4000, rng)))
    for group in (0, 1):
        rows = pmf[codes == group] * weights[codes == group, None]
        np.testing.assert_allclose(drawn[:, group].mean(axis=0), rows.sum(axis=0), rtol=0.02)
        np.testing.assert_allclose(drawn[:, group].var(axis=0), (rows**2).sum(axis=0), rtol=0.12)


@pytest.mark.parametrize("weighted", [False, True])
def test_draws_of_cells_and_of_rows_are_alike(weighted):
    rng = np.random.default_rng(5)
    values, codes = rng.integers(5, size=80), np.arange(80) % 2
    weights = rng.random(80) if weighted else None
    by_cell = Membership((0, 1), codes=codes, weights=weights)
    by_row = Membership.of_proba((0, 1), np.eye(2)[codes], weights)
    cells, rows = (
        np.concatenate(list(bootstrap_masses(Predictions.read(values, None), members, 4000, rng)))
        for members in (by_cell, by_row)
    )
    np.testing.assert_allclose(cells.mean(axis=0), rows.mean(axis=0), rtol=0.05)
    np.testing.assert_allclose(cells.var(axis=0), rows.var(axis=0), rtol=0.2)


def test_fast_poisson_numbers_are_poisson():
    drawn = poisson_ones(np.random.default_rng(6), (500, 400), np.float64).ravel()
    seen = np.bincount(drawn.astype(int), minlength=6)[:6] / drawn.size
    np.testing.assert_allclose(seen, stats.poisson.pmf(np.arange(6), 1), atol=0.003)


@pytest.mark.parametrize("metric", [name for name in METRICS if name != "w2"])
@pytest.mark.parametrize("n_rows", [60, 4000])
def test_the_noise_floor_is_what_shuffled_groups_show(metric, n_rows):
    rng = np.random.default_rng(7)
    pmf, codes = rng.dirichlet(np.full(5, 0.5), size=n_rows), (np.arange(n_rows) % 10 > 5).astype(int)
    read, members = Predictions.read(pmf, np.arange(5.0)), Membership((0, 1), codes=codes)
    floor = noise_floor([metric], read, members, read.masses(members), n_draws=400, rng=rng)[metric]
    shuffled = [
        list(unfairness(pmf, rng.permutation(codes), np.arange(5.0), metric=metric).values())
        for _ in range(400)
    ]
    error = 4 * np.std(shuffled, axis=0) * np.sqrt(2 / 400)
    assert (np.abs(floor.mean(axis=0) - np.mean(shuffled, axis=0)) <= error).all()


def test_the_noise_floor_of_group_probabilities_is_what_shuffled_probabilities_show():
    rng = np.random.default_rng(8)
    values, shares = rng.integers(4, size=200).astype(float), rng.dirichlet([1.0, 3.0], size=200)
    read, members = Predictions.read(values, None), Membership.of_proba((0, 1), shares)
    floor = noise_floor(["ks"], read, members, read.masses(members), n_draws=400, rng=rng)["ks"]
    shuffled = []
    for _ in range(400):
        mixed = Membership.of_proba((0, 1), rng.permutation(shares))
        shuffled.append(np.abs(read.masses(mixed).gaps().cumsum(axis=1)).max(axis=1))
    np.testing.assert_allclose(floor.mean(axis=0), np.mean(shuffled, axis=0), rtol=0.1)


@pytest.mark.parametrize("method", ["dkw", "bootstrap"])
def test_a_single_row_says_next_to_nothing(method):
    values, codes = np.arange(50.0), np.array([0] + [1] * 49)
    found = unfairness_interval(values, codes, method=method)
    assert found.low[0] == 0.0
    assert found.high[0] > 0.98


@pytest.mark.parametrize("method", ["dkw", "bootstrap"])
def test_a_single_group_is_everybody(method):
    found = unfairness_interval([1.0, 2.0, 3.0], ["a"] * 3, method=method)
    assert found.to_dict() == {"a": (0.0, 0.0, 0.0)}


def test_many_distinct_values_are_merged_for_the_draws_only():
    rng = np.random.default_rng(9)
    values, codes = rng.normal(size=20_000), rng.integers(2, size=20_000)
    found = unfairness_interval(values, codes)
    assert found.estimate[0] == ks_unfairness(values, codes)[0]
    merged = Predictions.read(values, None).merged(100)
    assert merged.n_points == 100
    counts = np.bincount(merged.places)
    assert counts.min() >= 199
    assert counts @ merged.points == pytest.approx(values.sum())
    assert (np.diff(merged.points) > 0).all()


def test_the_interval_of_a_risk_is_scipys_for_a_mean():
    rng = np.random.default_rng(10)
    truth_, values, groups = rng.normal(size=40), rng.normal(size=40), np.repeat(["a", "b"], [39, 1])
    found = risk_interval(truth_, values, groups).to_dict()
    losses = (truth_ - values)[:39] ** 2
    low, high = stats.t.interval(0.95, 38, losses.mean(), stats.sem(losses))
    assert found["a"] == pytest.approx((losses.mean(), low, high))
    assert found["b"] == (pytest.approx(risk(truth_[39:], values[39:])), 0.0, np.inf)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metric": "psi"}, "metric must be one of"),
        ({"method": "exact"}, "method must be"),
        ({"method": "dkw", "metric": "tv"}, "is for metric='ks'"),
        ({"method": "dkw", "sample_weight": [1, 2, 3]}, "equal weight"),
        ({"level": 95}, "level must lie"),
        ({"n_boot": 10}, "use at least 20"),
        ({"sample_weight": [0, 1, 1]}, "No row counts in group 'a'"),
    ],
)
def test_intervals_refuse_what_they_cannot_do(options, message):
    with pytest.raises(ValueError, match=message):
        unfairness_interval([1.0, 2.0, 3.0], ["a", "b", "b"], **options)
