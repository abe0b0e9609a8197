"""The Triton kernels beside their NumPy twin: interpreted on the CPU (`make test-torch`), or on a GPU."""

import os

import numpy as np
import pytest
from numpy.testing import assert_allclose

from evenhand._kernels import reference

torch = pytest.importorskip("torch", reason="torch is not installed: make test-torch")
pytest.importorskip("triton", reason="triton is not installed: make test-torch")
DEVICE = torch.device("cpu" if os.environ.get("TRITON_INTERPRET") == "1" else "cuda")
if DEVICE.type == "cuda" and not torch.cuda.is_available():
    pytest.skip("without a GPU the kernels need TRITON_INTERPRET=1", allow_module_level=True)

from evenhand._kernels.triton_launch import FusedMoments, Shape, choose_shape, make_table  # noqa: E402

LOG_2 = np.log(2.0)


def make_rows(n_rows, n_kept, weighted, seed=0, dtype=np.float32):
    rng = np.random.default_rng(seed)
    design = np.vstack([rng.normal(size=(n_kept, n_rows)), np.tanh(rng.normal(size=n_rows))]).astype(dtype)
    return design, rng.exponential(size=n_rows).astype(dtype) if weighted else None


def squared_logits(n_atoms, n_kept, beta, seed=0):
    rng, atoms, scale = np.random.default_rng(seed), np.linspace(-1.0, 1.0, n_atoms), beta / LOG_2
    tilt = 0.1 * np.cumsum(rng.normal(size=(n_atoms, n_kept)), axis=0) / np.sqrt(n_atoms)
    return scale * np.column_stack([tilt, 2.0 * atoms]), -scale * atoms**2


def twin(design, weights, loadings, offset, n_moments):
    """The sums of `reference.moments`, whose column after the last is one."""
    n_rows = design.shape[1]
    rows = np.vstack([design.astype(np.float64), np.ones((1, n_rows))])
    none = np.zeros((len(offset), 1))
    counts = np.ones(n_rows) if weights is None else weights
    smooth, columns, peak = reference.moments(
        rows, counts, np.hstack([loadings, none]), offset, n_moments, 0, n_rows
    )
    return np.concatenate([[smooth, peak], columns.ravel()])


def fused(design, weights, loadings, offset, n_moments, **options):
    sums = FusedMoments(loadings, offset, n_moments, DEVICE, **options)
    on_device = None if weights is None else torch.from_numpy(weights).to(DEVICE)
    found = sums(torch.from_numpy(design).to(DEVICE), on_device).cpu().numpy()
    counts = np.ones(design.shape[1]) if weights is None else weights
    smooth, columns, peak = sums.finish(found, float(counts @ design[-1].astype(np.float64) ** 2))
    return sums, np.concatenate([[smooth, peak], columns.ravel()])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("n_atoms", "n_kept"), [(57, 1), (57, 3), (201, 1), (2, 1)])
def test_float64_sums_are_those_of_numpy(n_atoms, n_kept, weighted):
    rows = make_rows(101, n_kept, weighted, dtype=np.float64)
    logits = squared_logits(n_atoms, n_kept, 1e4)
    for n_moments in (n_kept, n_kept + 2):
        _, found = fused(*rows, *logits, n_moments, single=False)
        assert_allclose(found, twin(*rows, *logits, n_moments), rtol=1e-11, atol=1e-9)


@pytest.mark.parametrize("beta", [10.0, 1e4, 1.3e5])
@pytest.mark.parametrize("n_kept", [1, 3])
def test_float32_sums_differ_by_the_rounding_of_single_rows_alone(n_kept, beta):
    rows, logits = make_rows(500, n_kept, weighted=True), squared_logits(57, n_kept, beta)
    sums, found = fused(*rows, *logits, n_kept, single=True)
    assert sums.table.squared
    wanted = twin(*rows, *logits, n_kept)
    assert_allclose(found[:2], wanted[:2], rtol=1e-8, atol=2.0**-22 * rows[1].sum())  # log2 of a float32
    # logits of 2 beta err by 2^-24 of that in each row, independently, and a row moves no more than its share
    noise = 2.0**-24 * 2.0 * beta * np.sqrt((rows[1] ** 2 * (rows[0][:-1] ** 2).max(axis=0)).sum())
    assert np.abs(found[2:] - wanted[2:]).max() < max(noise, 1e-5)


@pytest.mark.parametrize("single", [False, True])
def test_two_passes_over_tiles_of_atoms_give_what_one_gives(single):
    rows, logits = make_rows(150, 1, weighted=True), squared_logits(100, 1, 3e3)
    _, whole = fused(*rows, *logits, 1, single=single, shape=Shape(4, 8, 13, True))
    _, tiled = fused(*rows, *logits, 1, single=single, shape=Shape(4, 16, 2, False))
    assert_allclose(tiled, whole, rtol=1e-6 if single else 1e-12, atol=2e-5 if single else 1e-12)


def test_many_atoms_take_two_passes():
    rows, logits = make_rows(40, 1, weighted=False), squared_logits(2001, 1, 3e4)
    sums, found = fused(*rows, *logits, 1, single=True)
    assert not sums.shape.fused
    assert_allclose(found[:2], twin(*rows, *logits, 1)[:2], rtol=1e-8)
    assert found[2:].sum() == pytest.approx(rows[0][0].sum(), rel=1e-5)  # policies sum to one


def test_a_cost_that_is_not_squared_is_summed_in_float64():
    rng = np.random.default_rng(0)
    rows = make_rows(90, 2, weighted=False)
    loadings, offset = 3.0 * rng.normal(size=(7, 3)), rng.normal(size=7)
    sums, found = fused(*rows, loadings, offset, 2, single=True)
    assert not sums.table.squared
    assert_allclose(found, twin(*rows, loadings, offset, 2), rtol=1e-11, atol=1e-10)


def test_the_same_rows_give_the_same_bits():
    rows, logits = make_rows(300, 1, weighted=True), squared_logits(33, 1, 1e4)
    once, again = (fused(*rows, *logits, 1, single=True)[1] for _ in range(2))
    assert np.array_equal(once, again)


def test_splitting_what_belongs_to_an_atom_keeps_its_digits():
    loadings, offset = squared_logits(201, 2, 1.3e5)
    table = make_table(loadings, offset, single=True)
    high, low = table.vectors[:2], table.vectors[2:4]
    assert np.abs((high + low) / table.ratio + loadings[:, :-1].T).max() < 1e-9
    assert np.array_equal(high, high.astype(np.float32))
    assert table.ratio == pytest.approx(1.0, abs=2e-7)


@pytest.mark.parametrize("n_atoms", [2, 57, 201, 400, 2001])
@pytest.mark.parametrize("n_columns", [2, 4, 8, 16])
@pytest.mark.parametrize("size", [4, 8])
def test_every_shape_is_a_warp_or_more_and_covers_its_atoms(n_atoms, n_columns, size):
    n_vectors = 2 * n_columns if size == 4 else n_columns + 1
    shape = choose_shape(n_atoms, n_vectors, n_columns - 1, size)
    assert shape.rows * shape.width >= 32
    assert not shape.fused or shape.tile >= n_atoms
