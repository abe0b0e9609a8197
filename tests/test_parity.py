"""Operators and norms of the parity notions against their definitions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize

from evenhand.parity import PARITIES, Cumulative, Functional, Identity, SupNorm, make_parity, matrix

ATOMS = np.linspace(-1.0, 1.0, 7)
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
    [("pmf", np.eye(7)), ("cdf", np.tri(7)[:-1]), ("mean", ATOMS[None])],
)
def test_each_notion_has_the_operator_of_its_definition(name, expected):
    np.testing.assert_array_equal(matrix(make_parity(name, ATOMS).operator), expected)


def test_only_the_mean_is_in_outcome_units():
    assert [name for name in sorted(PARITIES) if make_parity(name, ATOMS).in_outcome_units] == ["mean"]


@given(arrays(float, (4, 2), elements=NUMBERS))
def test_the_dual_norm_is_the_largest_product_with_the_unit_ball(multipliers):
    # a linear function is largest at a corner of the cube
    corners = np.array(np.meshgrid(*[[-1.0, 1.0]] * 4)).reshape(4, -1)
    np.testing.assert_allclose(SupNorm().value(corners), 1.0)
    np.testing.assert_allclose(SupNorm().dual(multipliers), (corners.T @ multipliers).max(axis=0), atol=1e-12)


@given(arrays(float, (4, 2), elements=NUMBERS), arrays(float, 2, elements=st.floats(0.0, 5.0)))
def test_no_point_near_it_beats_the_prox(multipliers, thresholds):
    norm = SupNorm()

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


@given(arrays(float, (4, 3), elements=NUMBERS))
def test_moreau_prox_and_projection_add_up(multipliers):
    # the projection on the ball of the norm is a clip
    thresholds = np.array([0.0, 0.5, 2.0])
    clipped = np.clip(multipliers, -thresholds, thresholds)
    np.testing.assert_allclose(
        SupNorm().prox_dual(multipliers, thresholds), multipliers - clipped, atol=1e-12
    )


def test_an_unknown_notion_lists_the_valid_ones():
    with pytest.raises(ValueError, match=r"'ks'.*cdf, mean, pmf"):
        make_parity("ks", ATOMS)
