"""The stochastic solvers against plain loops over rows, written from the paper and from nothing else here."""

import math
from itertools import pairwise

import numpy as np
import pytest

from evenhand.dual.projected import gradient_variance, imbalance_spread, merge, smoothness
from evenhand.solvers import AcSa, AcSa2, Sgd, Sgd3
from evenhand.solvers.stochastic import draw_rows
from tests.paper_form import stochastic_gradient
from tests.problems import SUP_NOTIONS, random_problem

SEED = 4


class Plain:
    """A problem whose rows are taken in the order in which a solver takes them, and F with regularisers."""

    def __init__(self, parity, budget, sampling="passes"):
        # A low beta: where steps exceed 2 / M the iteration itself doubles every rounding error.
        self.problem = random_problem(parity, n_rows=70, n_atoms=7, n_groups=3, epsilon=0.01, beta=3.0)
        self.budget, self.sampling = budget, sampling
        self.rows = iter(draw_rows(self.problem, SEED, 0, budget, sampling))
        self.regularisers = []  # pairs (mu_j, w_j)
        self.smoothness = smoothness(self.problem)  # M
        variance = gradient_variance(self.problem)  # sigma^2
        self.sigma = math.sqrt(variance)
        self.radius = 2.0 * math.sqrt(imbalance_spread(self.problem) / variance)  # D

    def start(self):
        return np.zeros((2, *self.problem.multipliers_shape))

    def slope(self, w):
        """Gradient of the next row at w."""
        found = stochastic_gradient(self.problem, w, np.array([next(self.rows)]))
        return found + sum(mu * (w - centre) for mu, centre in self.regularisers)

    def solved_by(self, solver, **options):
        """What a solver of the library ends with, as (Lambda, V)."""
        solver = solver(n_steps=self.budget, sampling=self.sampling, random_state=SEED, **options)
        state = solver.init(self.problem)
        while solver.done(self.problem, state) is None:
            state = solver.step(self.problem, state)
        assert next(self.rows, None) is None  # the loop took all rows
        return state.pair


def sgd(plain, w, step, n_steps):
    """Projected SGD; the mean of the iterates."""
    iterates = []
    for _ in range(n_steps):
        w = np.maximum(w - step * plain.slope(w), 0.0)
        iterates.append(w)
    return np.mean(iterates, axis=0)


def acsa(plain, w, mu, bound, n_steps):
    """The algorithm AC-SA of the paper's appendix, line by line."""
    ag = w
    for t in range(1, n_steps + 1):
        alpha, gamma = 2 / (t + 1), 4 * bound / (t * (t + 1))
        shared = gamma + (1 - alpha**2) * mu
        md = (1 - alpha) * (mu + gamma) / shared * ag + alpha * ((1 - alpha) * mu + gamma) / shared * w
        w = ((1 - alpha) * mu + gamma) / (mu + gamma) * w + alpha * mu / (mu + gamma) * md
        w = np.maximum(w - alpha / (mu + gamma) * plain.slope(md), 0.0)
        ag = alpha * w + (1 - alpha) * ag
    return ag


def strongly_convex_sgd(plain, w, mu, bound, n_steps):
    """Allen-Zhu's SGD: equal rounds with step 1 / 2M, then rounds twice as long with half the step."""
    left = n_steps
    n_equal, length = math.floor(n_steps * mu / (8 * bound)), math.floor(4 * bound / mu)
    for _ in range(n_equal):
        w = sgd(plain, w, 1 / (2 * bound), length)
        left -= length
    n_halved = max(1, math.floor(math.log2(mu * n_steps / (16 * bound))))
    for k in range(1, n_halved + 1):
        length = left if k == n_halved else math.floor(2 ** (k + 2) * bound / mu)
        w = sgd(plain, w, 1 / (2**k * bound), length)
        left -= length
    return w


def sgd3(plain, inner, mu):
    """The algorithm SGD3 of the paper's appendix, with `inner(plain, w, mu_j, bound, n_steps)`."""
    w, bound = plain.start(), 2 * (plain.smoothness + mu)
    n_stages = math.floor(math.log2(plain.smoothness / mu))
    ends = [plain.budget * stage // n_stages for stage in range(n_stages + 1)]
    for before, after in pairwise(ends):
        plain.regularisers.append((mu, w))
        w = inner(plain, w, mu, bound, after - before)
        mu *= 2
    return w


def twice(inner):
    """AC-SA squared: half of the budget, then the other half from there."""

    def run(plain, w, mu, bound, n_steps):
        first = -(-n_steps // 2)
        return inner(plain, inner(plain, w, mu, bound, first), mu, bound, n_steps - first)

    return run


all_parities = pytest.mark.parametrize("parity", SUP_NOTIONS)
samplings = pytest.mark.parametrize("sampling", ["passes", "replacement"])


def assert_same(found, expected):
    assert np.abs(merge(expected)).max() > 1e-3  # the loop went somewhere
    np.testing.assert_allclose(found, expected, atol=1e-11)


@all_parities
@samplings
def test_sgd_is_its_loop(parity, sampling):
    plain = Plain(parity, 300, sampling)
    step = plain.radius / (plain.sigma * math.sqrt(300))
    expected = sgd(plain, plain.start(), step, 300)
    assert_same(plain.solved_by(Sgd), expected)


@all_parities
@samplings
@pytest.mark.parametrize(("solver", "loop", "factor"), [(AcSa, acsa, 2.0), (AcSa2, twice(acsa), 8.0**0.5)])
def test_ac_sa_is_its_loop_on_the_regularised_function(solver, loop, factor, parity, sampling):
    plain = Plain(parity, 301, sampling)
    mu = factor * plain.sigma / (plain.radius * math.sqrt(301))
    plain.regularisers.append((mu, plain.start()))
    expected = loop(plain, plain.start(), mu, plain.smoothness + mu, 301)
    assert_same(plain.solved_by(solver), expected)


@all_parities
@pytest.mark.parametrize(
    ("inner", "loop"),
    [(None, strongly_convex_sgd), (AcSa(), acsa), (AcSa2(), twice(acsa))],
    ids=["sgd", "acsa", "acsa2"],
)
def test_sgd3_is_its_loop(inner, loop, parity):
    plain = Plain(parity, 600)
    mu = plain.smoothness / 9.0  # three stages; each holds rounds of Allen-Zhu's SGD
    expected = sgd3(plain, loop, mu)
    assert_same(plain.solved_by(Sgd3, inner=inner, regularisation=mu), expected)
