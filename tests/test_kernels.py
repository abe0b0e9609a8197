"""Compiled kernels against their NumPy twins, on random and on extreme input."""

import inspect
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenhand._kernels import one_atom, reference, softmax, windows
from evenhand._kernels.softmax import LANES

LOG_2 = np.log(2.0)


@dataclass(frozen=True)
class Case:
    """Arguments of a kernel, and the error that the precision of its logits allows."""

    design: np.ndarray
    weights: np.ndarray
    loadings: np.ndarray
    offset: np.ndarray

    @property
    def n_rows(self):
        return self.design.shape[1]

    @property
    def policy_arguments(self):
        return self.design, self.loadings, self.offset

    @property
    def precision(self):
        """Relative error of the exponential and of short sums."""
        return 4e-7 if self.design.dtype == np.float32 else 4e-14

    @property
    def logit_error(self):
        """Rounding of the sum behind a logit, in units of log 2."""
        terms = np.abs(self.loadings).astype(float) @ np.abs(self.design).astype(float)
        largest = (terms + np.abs(self.offset)[:, None]).max()
        return (len(self.design) + 2) * np.finfo(self.design.dtype).eps * largest

    @property
    def policy_error(self):
        """Relative error of a probability: from its logit, the total's, and the exponential.

        At 1 it says nothing any more: float32 cannot hold the logits of a huge beta.
        """
        own = self.precision * (1 + len(self.offset) / 8)
        return min(1.0, np.expm1(min(4 * LOG_2 * self.logit_error, 1.0)) + own)


def assert_within(found, expected, bound):
    """`|found - expected| <= bound`, broadcast, and nothing is NaN."""
    error = np.abs(found - expected)
    assert np.all(error <= bound), f"largest error {error.max()}, bound {np.max(bound)}"


def make_case(n_rows=200, n_atoms=9, n_design=2, beta=20.0, tilt=1.0, dtype=np.float64, seed=0):
    """A policy as the dual makes it: imbalances, one score, atoms on [-1, 1]."""
    rng = np.random.default_rng(seed)
    atoms = np.linspace(-1.0, 1.0, n_atoms)
    design = rng.normal(size=(n_design, n_rows))
    design[-1] = np.clip(design[-1], -1.0, 1.0)
    weights = rng.exponential(size=n_rows)
    scale = beta / LOG_2
    loadings = scale * tilt * rng.normal(size=(n_atoms, n_design))
    loadings[:, -1] = scale * 2.0 * atoms
    arrays = design, weights / weights.sum(), loadings, -scale * atoms**2
    return Case(*(np.ascontiguousarray(array, dtype) for array in arrays))


CASES = {
    "plain": {},
    "one row": {"n_rows": 1},
    "a whole block": {"n_rows": LANES},
    "one row more than a block": {"n_rows": LANES + 1},
    "more blocks than one flush": {"n_rows": 70 * LANES + 13, "n_atoms": 5},
    "two atoms": {"n_atoms": 2},
    "many atoms": {"n_atoms": 401, "n_rows": 130},
    "three features": {"n_design": 3},
    "five features": {"n_design": 5},
    "hardly any beta": {"beta": 1e-3},
    "a huge beta": {"beta": 1e6},
    "a huge tilt": {"tilt": 1e6},
    "no tilt": {"tilt": 0.0},
}


@pytest.fixture(params=[np.float32, np.float64], ids=["float32", "float64"])
def dtype(request):
    return request.param


@pytest.fixture(params=CASES, ids=lambda name: name.replace(" ", "_"))
def case(request, dtype):
    return make_case(dtype=dtype, **CASES[request.param])


def check_moments(case, start, stop):
    n_moments = len(case.design)
    arguments = case.design, case.weights, case.loadings, case.offset, n_moments, start, stop
    value, moment, peak = softmax.moments(*arguments)
    expected_value, expected_moment, expected_peak = reference.moments(*arguments)
    top = np.abs(reference._logits(*case.policy_arguments, start, stop)).max()
    assert_within(
        value, expected_value, case.logit_error + case.precision * (top + np.log2(len(case.offset)))
    )
    assert_within(peak, expected_peak, case.logit_error + case.precision * top)
    mass = case.weights[start:stop] @ np.abs(case.design[:, start:stop]).T
    assert_within(moment, expected_moment, 2 * case.policy_error * mass[:, None])


def test_moments_match_their_twin(case):
    check_moments(case, 0, case.n_rows)


def test_the_pmf_matches_its_twin(case):
    found = np.full((case.n_rows, len(case.offset)), np.nan, case.design.dtype)
    expected = np.empty((case.n_rows, len(case.offset)))
    softmax.pmf_into(found, *case.policy_arguments, 0, case.n_rows)
    reference.pmf_into(expected, *case.policy_arguments, 0, case.n_rows)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=len(case.offset) * np.finfo(found.dtype).eps)
    assert found.min() >= 0.0
    vanishing = 1e-30  # below it the exponential stops falling
    assert_within(
        found, expected, case.policy_error * np.maximum(expected, case.policy_error == 1.0) + vanishing
    )


def test_means_match_their_twin(case):
    atoms = np.linspace(-1.0, 1.0, len(case.offset)).astype(case.design.dtype)
    found, expected = np.full(case.n_rows, np.nan, case.design.dtype), np.empty(case.n_rows)
    softmax.means_into(found, *case.policy_arguments, atoms, 0, case.n_rows)
    reference.means_into(expected, *case.policy_arguments, atoms, 0, case.n_rows)
    assert_within(found, expected, 2 * case.policy_error)


def test_quantiles_match_their_twin_up_to_rounding_at_a_step(case):
    levels = np.random.default_rng(1).random(case.n_rows).astype(case.design.dtype)
    found, low, high = (np.empty(case.n_rows, np.int64) for _ in range(3))
    softmax.quantiles_into(found, levels, *case.policy_arguments, 0, case.n_rows)
    error = case.policy_error
    reference.quantiles_into(low, levels * (1 - error), *case.policy_arguments, 0, case.n_rows)
    reference.quantiles_into(high, levels * (1 + error), *case.policy_arguments, 0, case.n_rows)
    assert np.all((low <= found) & (found <= high))


@pytest.mark.parametrize("level", [0.0, 1.0])
def test_the_extreme_quantiles_are_atoms(level, dtype):
    case = make_case(dtype=dtype, beta=1.0)
    found = np.full(case.n_rows, -1)
    softmax.quantiles_into(found, np.full(case.n_rows, level, dtype), *case.policy_arguments, 0, case.n_rows)
    assert np.all((found >= 0) & (found < len(case.offset)))
    if level == 0.0:
        np.testing.assert_array_equal(found, 0)


@pytest.mark.parametrize("cumulative", [False, True])
def test_blocks_within_windows_match_their_twin(case, cumulative):
    if case.n_rows * len(case.offset) ** 2 > 3e7:
        pytest.skip("covered by the smaller cases")
    n_kept, n_atoms = len(case.design) - 1, len(case.offset)
    firsts, sizes, values = windows.windows(*case.policy_arguments, 0, case.n_rows)
    assert len(values) == sizes.sum()
    assert (firsts + sizes <= n_atoms).all()
    n_pairs = n_kept * (n_kept + 1) // 2
    found, stops = np.zeros((n_atoms, n_atoms, n_pairs)), np.cumsum(sizes)
    imbalance = np.ascontiguousarray(case.design[:n_kept].T)
    for some in np.array_split(np.argsort(firsts), 2):
        windows.add_blocks_into(found, imbalance, case.weights, firsts, stops, values, some, cumulative)
    expected = reference.blocks(case.design, case.weights, case.loadings, case.offset, n_kept, cumulative)
    moment = (case.weights * np.abs(case.design[:n_kept]).max(axis=0) ** 2).sum()
    assert_within(found, expected, moment * (4 * case.policy_error + n_atoms * windows.NEGLIGIBLE))


def test_rows_of_no_weight_count_for_nothing(dtype):
    case = make_case(dtype=dtype)
    weights = case.weights.copy()
    weights[::2] = 0.0
    kept = np.ascontiguousarray(case.design[:, 1::2])
    value, moment, _ = softmax.moments(case.design, weights, case.loadings, case.offset, 2, 0, case.n_rows)
    half_value, half, _ = softmax.moments(
        kept, np.ascontiguousarray(weights[1::2]), case.loadings, case.offset, 2, 0, kept.shape[1]
    )
    tolerance = 1e-5 if dtype == np.float32 else 1e-12
    assert value == pytest.approx(half_value, rel=tolerance)
    np.testing.assert_allclose(moment, half, atol=tolerance)


@pytest.mark.parametrize("bounds", [(0, 1), (63, 65), (64, 128), (100, 100), (190, 200)])
def test_a_range_of_rows_is_only_that_range(bounds):
    case = make_case()
    start, stop = bounds
    if start < stop:
        check_moments(case, start, stop)
    marked = np.full((case.n_rows, 9), -1.0)
    softmax.pmf_into(marked, *case.policy_arguments, start, stop)
    inside = np.zeros(case.n_rows, bool)
    inside[start:stop] = True
    np.testing.assert_array_equal(marked[~inside], -1.0)
    assert np.all(marked[inside] >= 0.0)


def test_parts_add_up_to_the_whole():
    case = make_case(n_rows=500, n_design=3)
    cuts = [0, 64, 192, 500]
    arguments = case.design, case.weights, case.loadings, case.offset, 3
    parts = [softmax.moments(*arguments, *cut) for cut in pairwise(cuts)]
    value, moment, _ = softmax.moments(*arguments, 0, 500)
    assert sum(part[0] for part in parts) == pytest.approx(value)
    np.testing.assert_allclose(sum(part[1] for part in parts), moment, atol=1e-14)


@settings(max_examples=60, deadline=None)
@given(
    n_rows=st.integers(1, 200),
    n_atoms=st.integers(2, 30),
    n_design=st.integers(2, 5),
    log_beta=st.floats(-3.0, 6.0),
    log_tilt=st.floats(-3.0, 3.0),
    single=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_moments_match_their_twin_anywhere(n_rows, n_atoms, n_design, log_beta, log_tilt, single, seed):
    precision = np.float32 if single else np.float64
    case = make_case(n_rows, n_atoms, n_design, 10.0**log_beta, 10.0**log_tilt, precision, seed)
    check_moments(case, 0, n_rows)


@settings(max_examples=40, deadline=None)
@given(shift=st.floats(-2000.0, 2000.0), seed=st.integers(0, 1000))
def test_a_common_shift_of_the_logits_leaves_the_policy_alone(shift, seed):
    case = make_case(n_rows=40, seed=seed)
    plain, moved = np.empty((40, 9)), np.empty((40, 9))
    softmax.pmf_into(plain, *case.policy_arguments, 0, 40)
    softmax.pmf_into(moved, case.design, case.loadings, case.offset + shift, 0, 40)
    np.testing.assert_allclose(plain, moved, rtol=1e-11, atol=1e-250)


def test_every_kernel_has_its_twin():
    parts = {"softmax_block_into", "scratch_for"}  # of kernels, here and in other modules
    public = {
        name
        for name, value in vars(softmax).items()
        if inspect.isroutine(value) and value.__module__ == softmax.__name__ and name[0] != "_"
    } - parts
    assert public == {"moments", "means_into", "quantiles_into", "pmf_into"}
    assert all(callable(getattr(reference, name, None)) for name in public)


@pytest.mark.parametrize("beta", [1.0, 100.0, 1e4])
@pytest.mark.parametrize("half_width", [0.0, 0.02, np.inf])
@pytest.mark.parametrize("distance", [0.0, 5.0, 50.0, 500.0])
@pytest.mark.parametrize("twins", [False, True])
def test_the_lowest_point_of_an_atom_is_no_higher_than_its_twin(beta, half_width, distance, twins):
    """From logits that are balanced and from sure ones, with groups that are multiples of each other.

    Where nearly all rows are sure the function is all but linear in pieces: a twentieth may be left.
    """
    rng = np.random.default_rng(4)
    imbalance = beta * rng.standard_normal((200, 5))
    if twins:
        imbalance[:, 4] = -2.0 * imbalance[:, 3]
    weights = rng.dirichlet(np.full(200, 0.2))
    ahead = distance * rng.standard_normal(200) - 1.0
    ends = np.full(5, half_width)
    start = np.clip(0.01 * rng.standard_normal(5), -ends, ends)
    given = imbalance, weights, ahead, start, ends, 1e-12 * beta, 0.0
    found = one_atom.lowest_of_atom(*given)
    assert (np.abs(found) <= ends).all()

    def value(x):
        return weights @ np.logaddexp(0.0, ahead + imbalance @ (x - start))

    lowest = value(reference.lowest_of_atom(*given))
    left = 0.05 if distance > 100.0 else 0.0  # of the decrease
    assert value(found) <= lowest + left * (value(start) - lowest) + 1e-9
