"""Operators and norms of the parity notions against their definitions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize
from scipy.stats import wasserstein_distance

from evenhand._kernels.stochastic import cut_into
from evenhand.dual.parity import (
    PARITIES,
    Cumulative,
    Functional,
    Identity,
    L1Norm,
    SupNorm,
    make_parity,
    matrix,
)

ATOMS = np.linspace(-1.0, 1.0, 7)
UNEVEN = np.array([-1.0, -0.9, -0.5, 0.2, 0.25, 0.6, 1.0])
NORMS = [SupNorm(), L1Norm(), L1Norm(scale=0.5)]
all_norms = pytest.mark.parametrize("norm", NORMS)
OPERATORS = [
    Identity(7),
    Cumulative(np.ones(6)),
    Cumulative(np.linspace(0.1, 2.0, 6)),
    Functional(ATOMS),
]
NUMBERS = st.floats(-10.0, 10.0)


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("columns", [(), (3,)])
def test_the_adjoint_is_the_adjoint(operator, columns):
    rng = np.random.default_rng(0)
    masses = rng.normal(size=(7, *columns))
    multipliers = rng.normal(size=(operator.n_rows, *columns))
    left = np.sum(operator.apply(masses) * multipliers)
    right = np.sum(masses * operator.adjoint(multipliers))
    assert left == pytest.approx(right)


@pytest.mark.parametrize("operator", OPERATORS)
def test_the_matrix_is_the_operator(operator):
    masses = np.random.default_rng(1).normal(size=(7, 2))
    np.testing.assert_allclose(matrix(operator) @ masses, operator.apply(masses))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("pmf", np.eye(7)),
        ("cdf", np.tri(7)[:-1]),
        ("mean", ATOMS[None]),
        ("tv", np.eye(7)),
        ("w1", np.tri(7)[:-1] * np.diff(ATOMS)[:, None]),
    ],
)
def test_each_notion_has_the_operator_of_its_definition(name, expected):
    np.testing.assert_array_equal(matrix(make_parity(name, ATOMS).operator), expected)


def test_means_and_areas_are_in_outcome_units():
    assert [name for name, each in sorted(PARITIES.items()) if each.in_outcome_units] == ["mean", "w1"]


@pytest.mark.parametrize("atoms", [ATOMS, UNEVEN])
def test_the_distances_of_l1_notions_are_those_of_scipy(atoms):
    rng = np.random.default_rng(4)
    for _ in range(20):
        one, two = rng.dirichlet(np.ones(7) / 2, size=2)
        tv, w1 = (make_parity(name, atoms) for name in ("tv", "w1"))
        gap = (one - two)[:, None]
        area = wasserstein_distance(atoms, atoms, one, two)
        assert w1.norm.value(w1.operator.apply(gap))[0] == pytest.approx(area)
        events = np.array(np.meshgrid(*[[0.0, 1.0]] * 7)).reshape(7, -1)
        assert tv.norm.value(tv.operator.apply(gap))[0] == pytest.approx((events.T @ gap).max())


@all_norms
@given(multipliers=arrays(float, (4, 2), elements=NUMBERS))
def test_the_dual_norm_is_the_largest_product_with_the_unit_ball(norm, multipliers):
    # a linear function is largest at a corner of the ball
    corners = np.concatenate([np.eye(4), -np.eye(4)], axis=1)
    if isinstance(norm, SupNorm):
        corners = np.array(np.meshgrid(*[[-1.0, 1.0]] * 4)).reshape(4, -1)
    corners = corners / norm.value(corners)
    np.testing.assert_allclose(norm.dual(multipliers), (corners.T @ multipliers).max(axis=0), atol=1e-12)


@all_norms
@given(
    multipliers=arrays(float, (4, 2), elements=NUMBERS),
    thresholds=arrays(float, 2, elements=st.floats(0.0, 5.0)),
)
def test_no_point_near_it_beats_the_prox(norm, multipliers, thresholds):
    def objective(z):
        return 0.5 * ((z - multipliers) ** 2).sum(axis=0) + thresholds * norm.dual(z)

    found = norm.prox_dual(multipliers, thresholds)
    rng = np.random.default_rng(0)
    for size in (1e-3, 0.1, 10.0):
        for _ in range(20):
            other = found + size * rng.normal(size=found.shape)
            assert np.all(objective(found) <= objective(other) + 1e-9)


def test_the_prox_is_what_a_generic_solver_finds():
    rng = np.random.default_rng(3)
    multipliers, threshold = rng.normal(size=(5, 1)), np.array([0.4])

    def objective(halves):  # z = plus - minus, both >= 0, makes the absolute values smooth
        plus, minus = halves[:5], halves[5:]
        return 0.5 * np.sum((plus - minus - multipliers[:, 0]) ** 2) + threshold[0] * halves.sum()

    best = minimize(objective, np.ones(10), bounds=[(0.0, None)] * 10, options={"ftol": 1e-15, "gtol": 1e-10})
    found = SupNorm().prox_dual(multipliers, threshold)[:, 0]
    np.testing.assert_allclose(found, best.x[:5] - best.x[5:], atol=1e-5)


@pytest.mark.parametrize("threshold", [0.0, 0.05, 0.7, 2.0, 50.0])
@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_the_prox_of_the_largest_value_is_what_a_generic_solver_finds(threshold, scale):
    multipliers = np.random.default_rng(5).normal(size=6)
    ones = np.ones((6, 1))
    best = minimize(  # z and a height above it
        lambda z: 0.5 * np.sum((z[:6] - multipliers) ** 2) + threshold / scale * z[6],
        np.append(np.zeros(6), 1.0),
        constraints={
            "type": "ineq",
            "fun": lambda z: np.concatenate([z[6] - z[:6], z[6] + z[:6]]),
            "jac": lambda z: np.block([[-np.eye(6), ones], [np.eye(6), ones]]),
        },
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    found = L1Norm(scale).prox_dual(multipliers[:, None], np.array([threshold]))[:, 0]
    np.testing.assert_allclose(found, best.x[:6], atol=1e-5)


@given(
    arrays(float, 6, elements=st.one_of(NUMBERS, st.sampled_from([0.0, 1.0, -1.0]))),
    st.sampled_from([0.0, 1e-9, 0.3, 1.0, 7.0, 100.0]),
)
def test_the_projection_on_an_l1_ball_is_what_bisection_finds(values, radius):
    low, high = 0.0, np.abs(values).max()  # the height at which the sum above it is the radius
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (
            (middle, high) if np.maximum(np.abs(values) - middle, 0.0).sum() > radius else (low, middle)
        )
    nearest = np.sign(values) * np.maximum(np.abs(values) - high, 0.0)
    prox = L1Norm().prox_dual(values[:, None], np.array([radius]))[:, 0]
    np.testing.assert_allclose(values - prox, nearest, atol=1e-8)
    compiled = values.copy()
    cut_into(compiled, radius)
    np.testing.assert_allclose(compiled, prox, atol=1e-10)


@given(arrays(float, (4, 3), elements=NUMBERS))
def test_moreau_prox_and_projection_add_up(multipliers):
    # the projection on the ball of the norm is a clip
    thresholds = np.array([0.0, 0.5, 2.0])
    clipped = np.clip(multipliers, -thresholds, thresholds)
    np.testing.assert_allclose(
        SupNorm().prox_dual(multipliers, thresholds), multipliers - clipped, atol=1e-12
    )


def test_an_unknown_notion_lists_the_valid_ones():
    with pytest.raises(ValueError, match=r"'kss'.*cdf, mean, pmf, thresholds, tv, w1"):
        make_parity("kss", ATOMS)
