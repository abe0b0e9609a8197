"""Small random problems for the tests of the core."""

from dataclasses import replace

import numpy as np

from evenhand._utils.validation import Rows
from evenhand.dual.costs import Squared
from evenhand.dual.grid import Grid, uniform_grid
from evenhand.dual.step import ParityStep

SUP_NOTIONS = ("pmf", "cdf", "mean")  # those of the paper's projected form
L1_NOTIONS = {"tv": 0.5, "w1": 1.0}  # with the factor of their sum
NOTIONS = (*SUP_NOTIONS, *L1_NOTIONS)


def plain_distance(parity, rows):
    """The norm of a notion, from its definition: (n_constraints, n_groups) -> (n_groups,)."""
    if parity in L1_NOTIONS:
        return L1_NOTIONS[parity] * np.abs(rows).sum(axis=0)
    return np.abs(rows).max(axis=0)


def plain_dual(parity, multipliers):
    """Its dual norm."""
    if parity in L1_NOTIONS:
        return np.abs(multipliers).max(axis=0) / L1_NOTIONS[parity]
    return np.abs(multipliers).sum(axis=0)


def random_rows(n_rows=60, n_groups=2, seed=0):
    """Scores in [-1, 1] that lean on the group, and group probabilities."""
    rng = np.random.default_rng(seed)
    strength = rng.normal(size=(n_rows, n_groups))
    group_proba = np.exp(1.5 * strength)
    group_proba /= group_proba.sum(axis=1, keepdims=True)
    scores = np.clip(0.4 * np.tanh(strength[:, 0]) + 0.3 * rng.normal(size=n_rows), -1.0, 1.0)
    return scores, group_proba


def make_problem(
    scores,
    group_proba,
    *,
    atoms,
    parity,
    slack,
    temperature,
    group_prior=None,
    weights=None,
    strata=None,
    cost=None,
):
    """A problem on atoms that span [-1, 1]; the prior is the mean of the probabilities by default."""
    rows = Rows(scores, group_proba, tuple(range(group_proba.shape[1])), weights, strata)
    prior = rows.group_mass() if group_prior is None else group_prior
    grid = Grid(atoms, (-np.inf, np.inf))
    return ParityStep(grid, parity, cost or Squared(), prior, strata, slack, temperature).problem(rows)


def random_problem(
    parity="pmf", *, n_rows=60, n_atoms=9, n_groups=2, epsilon=0.02, beta=20.0, seed=0, weighted=False
):
    """A problem on random rows, with random weights if asked for."""
    scores, group_proba = random_rows(n_rows, n_groups, seed)
    weights = None
    if weighted:
        weights = np.random.default_rng(seed + 1).exponential(size=n_rows)
        weights /= weights.sum()
    atoms = np.linspace(-1.0, 1.0, n_atoms)
    return make_problem(
        scores,
        group_proba,
        atoms=atoms,
        parity=parity,
        slack=np.full(n_groups, epsilon),
        temperature=beta,
        weights=weights,
    )


def wide_step(problem, parity):
    """A step whose atoms lie 50 units around their centre: the units of a certificate."""
    grid, any_value = uniform_grid(100.0, 200.0, problem.n_atoms), np.full(2, 0.5)
    return ParityStep(grid, parity, Squared(), any_value, None, epsilon=any_value, beta=1.0)


def with_rows(problem, **changes):
    """The same problem with other arrays of rows."""
    return replace(problem, rows=replace(problem.rows, **changes))


def random_multipliers(problem, size=0.3, seed=0):
    """A random Phi with some entries at zero."""
    rng = np.random.default_rng(seed)
    multipliers = size * rng.normal(size=problem.multipliers_shape)
    multipliers[rng.random(multipliers.shape) < 0.3] = 0.0
    return multipliers


def plain_policy(problem, multipliers):
    """The policy (n_rows, n_atoms) and the exponents `<theta_l, t> - c_l`, straight from their definition."""
    tilt = problem.parity.operator.adjoint(multipliers)
    exponents = problem.imbalance() @ tilt.T - problem.costs()
    powers = np.exp(problem.temperature * (exponents - exponents.max(axis=1, keepdims=True)))
    return powers / powers.sum(axis=1, keepdims=True), exponents
