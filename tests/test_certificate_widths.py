"""How far bounds are from what rows show, and how often the truth is beyond them."""

import numpy as np
import pytest
from scipy.stats import binom, hypergeom

from evenhand.certificates.deviations import excess_width, share_interval, shortfall_width, sum_tail
from evenhand.certificates.melding import confidence, melded_bounds, share_confidence


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


@pytest.mark.parametrize(("n", "k", "x", "y"), [(10, 12, 3, 7), (30, 20, 5, 9), (7, 40, 2, 20)])
def test_the_melded_bound_is_zero_at_the_level_of_fisher_s_exact_test(n, k, x, y):
    level = hypergeom.cdf(x, n + k, x + y, n)
    assert _melded(n, k, x, y, level)[0] == pytest.approx(0.0, abs=1e-6)


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
