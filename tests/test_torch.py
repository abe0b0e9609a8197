"""Tensors in, tensors out: the answers of the CPU's loops, on a GPU where there is one."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose

import evenhand as eh
from evenhand import ParityClassifier, ParityPostprocessor, ParityRegressor
from evenhand.data.draws import key_from, uniforms_from_rows
from evenhand.datasets import make_population
from evenhand.solvers import Batch, Status, run
from tests.page_lines import silent_blocks
from tests.rows_contract import make_step, scored

torch = pytest.importorskip("torch", reason="torch is not installed: make test-torch")

from evenhand._kernels import torch_hashing  # noqa: E402
from evenhand._utils.tensor_rows import check_tensors  # noqa: E402
from evenhand._utils.tensors import as_tensor, is_tensor, like  # noqa: E402
from evenhand.dual.torch_design import place_tensors  # noqa: E402
from evenhand.dual.torch_policy import TensorPolicy  # noqa: E402
from evenhand.dual.torch_rows import TorchRows, place_rows, spread_places  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
N = 1500
ROWS = scored(N, weighted=True)
SCORES, PROBA, WEIGHTS = ROWS.scores, ROWS.group_proba, ROWS.weights
CLASSES = np.column_stack([0.5 - 0.4 * SCORES, 0.5 + 0.4 * SCORES])
STRATA = ["x", "x", "y", "y"]
IN_STRATA = np.column_stack([0.6 * PROBA[:, 0], 0.6 * PROBA[:, 1], 0.3 * PROBA[:, 2], 0.2 * PROBA[:, 0]])

# name: (arguments of fit, parameters)
CASES = {
    "plain": ((SCORES, PROBA), {}),
    "weights": ((SCORES, PROBA, None, WEIGHTS), {"epsilon": 0.02}),
    "pmf": ((SCORES, PROBA), {"parity": "pmf", "epsilon": 0.01}),
    "mean": ((SCORES, PROBA), {"parity": "mean", "epsilon": 0.01}),
    "thresholds": ((SCORES, PROBA), {"parity": "thresholds", "epsilon": 0.01}),
    "own atoms": ((SCORES, PROBA), {"atoms": np.linspace(-1.0, 1.0, 9)}),
    "cost matrix": ((CLASSES, PROBA), {"cost": 1.0 - np.eye(2), "parity": "pmf", "epsilon": 0.01}),
    "absolute cost": ((SCORES, PROBA), {"cost": "absolute", "atoms": 15, "beta": 100.0}),
}
every_case = pytest.mark.parametrize("case", CASES)
every_type = pytest.mark.parametrize("dtype", [torch.float64, torch.float32])


def tensors(arrays, dtype=torch.float64):
    options = {"dtype": dtype, "device": DEVICE}
    return [each if each is None else torch.tensor(np.asarray(each), **options) for each in arrays]


def arrays(given):
    return [each if each is None else each.cpu().numpy() for each in given]


@every_type
@pytest.mark.parametrize("device", [None, DEVICE])
@every_case
def test_a_fit_on_tensors_is_that_on_arrays(case, device, dtype):
    rows, settings = CASES[case]
    given = tensors(rows, dtype)
    # A tolerance binds to within the gap over its multiplier: at the usual tol that may be 2e-6 or more.
    settings = {**settings, "tol": 1e-7}
    plain = ParityPostprocessor(**settings).fit(*arrays(given))
    model = ParityPostprocessor(**settings, device=device).fit(*given)
    assert model.result_.status is Status.CONVERGED
    assert model.bounds_ == plain.bounds_
    assert (model.n_rows_, model.beta_, model.n_clipped_) == (plain.n_rows_, plain.beta_, plain.n_clipped_)
    assert_allclose(model.certificate_.violation, plain.certificate_.violation, atol=2e-6)
    assert model.certificate_.risk == pytest.approx(plain.certificate_.risk, abs=2e-6)
    assert model.price_.risk == pytest.approx(plain.price_.risk, abs=2e-6)
    assert type(model.multipliers_) is np.ndarray


def test_a_device_also_takes_arrays():
    plain, model = (ParityPostprocessor(device=device).fit(SCORES, PROBA) for device in (None, DEVICE))
    assert_allclose(model.certificate_.violation, plain.certificate_.violation, atol=2e-6)


@pytest.mark.parametrize("device", [None, DEVICE])
def test_strata_of_tensors_are_those_of_arrays(device):
    plain = ParityPostprocessor(epsilon=0.02).fit(SCORES, IN_STRATA, strata=STRATA)
    model = ParityPostprocessor(epsilon=0.02, device=device)
    model.fit(*tensors([SCORES, IN_STRATA]), strata=STRATA)
    assert model.groups_.tolist() == [("x", 0), ("x", 1), ("y", 2), ("y", 3)] == plain.groups_.tolist()
    assert_allclose(model.certificate_.violation, plain.certificate_.violation, atol=2e-6)
    few = tensors([SCORES[:50], IN_STRATA[:50]])
    wanted = plain.predict_pmf(SCORES[:50], IN_STRATA[:50])
    assert_allclose(plain.predict_pmf(*few).cpu(), wanted, atol=1e-10)
    assert np.array_equal(plain.predict(*few).cpu(), plain.predict(SCORES[:50], IN_STRATA[:50]))


def test_known_groups_of_tensors_give_a_promise():
    groups = torch.from_numpy(PROBA.argmax(axis=1))
    model = ParityPostprocessor(device=DEVICE).fit(*tensors([SCORES, PROBA]), sensitive_features=groups)
    plain = ParityPostprocessor().fit(SCORES, PROBA, sensitive_features=groups.numpy())
    assert_allclose(model.tolerance_, plain.tolerance_, rtol=1e-6)


@every_type
@every_case
def test_predictions_for_tensors_are_those_for_arrays_on_their_device(case, dtype):
    rows, settings = CASES[case]
    model = ParityPostprocessor(**settings).fit(*rows)
    given = tensors(rows[:2], dtype)
    for name in ("predict", "predict_pmf", "predict_mean", "predict_quantile"):
        answer, wanted = getattr(model, name)(*given), getattr(model, name)(*arrays(given))
        assert is_tensor(answer)
        assert (answer.dtype, answer.device) == (dtype, given[0].device)
        assert_allclose(answer.cpu().numpy(), wanted, atol=1e-10 if dtype == torch.float64 else 1e-6)


def test_draws_by_ids_levels_and_seeds_are_those_of_arrays():
    model, given = ParityPostprocessor(random_state=3).fit(SCORES, PROBA), tensors([SCORES, PROBA])
    ids, levels = np.arange(N), np.random.default_rng(0).uniform(0.1, 0.9, N)
    for options in ({"ids": ids}, {"random_state": 5}):
        drawn = model.predict(*given, **options)
        assert np.array_equal(drawn.cpu(), model.predict(SCORES, PROBA, **options))
    by_tensor = model.predict(*given, ids=torch.from_numpy(ids).to(DEVICE))
    assert np.array_equal(by_tensor.cpu(), model.predict(SCORES, PROBA, ids=ids))
    quantiles = model.predict_quantile(*given, torch.from_numpy(levels).to(DEVICE))
    assert np.array_equal(quantiles.cpu(), model.predict_quantile(SCORES, PROBA, levels))


@every_type
def test_the_hash_of_a_row_is_that_of_arrays_bit_for_bit(dtype):
    model = ParityPostprocessor().fit(SCORES, PROBA)
    given = check_tensors(*tensors([SCORES, PROBA], dtype))
    host, key = given.in_memory(), key_from(7)
    wanted = uniforms_from_rows(model.policy_.grid.scale(host.scores), host.group_proba, key)
    policy = TensorPolicy(model.policy_, given)
    found = policy.uniforms(key)
    assert np.array_equal(found.cpu().numpy(), wanted)


def test_siphash_is_the_published_one():
    # the test vector of Aumasson and Bernstein (2012) for a message of eight bytes
    key = (0x0706050403020100, 0x0F0E0D0C0B0A0908)
    found = torch_hashing.siphash(torch.tensor([[0x0706050403020100]], device=DEVICE), key)
    assert int(found) % 2**64 == int.from_bytes(bytes.fromhex("6224939a79f5f593"), "little")


@pytest.mark.parametrize(("n_rows", "size"), [(10, 10), (1000, 300), (10**9, 1000)])
def test_places_of_a_sample_are_sorted_distinct_and_always_the_same(n_rows, size):
    devices = torch.device("cpu"), torch.device(DEVICE)
    places, again = (spread_places(n_rows, size, device).cpu().numpy() for device in devices)
    assert np.array_equal(places, again)
    assert len(np.unique(places)) == size
    assert (np.diff(places) > 0).all()
    assert places[0] >= 0
    assert places[-1] < n_rows
    away = places / n_rows * size - np.arange(size)  # where in its stretch
    assert n_rows < 10**9 or abs(away.mean() - 0.5) < 4 / np.sqrt(12 * size)


def test_samples_stay_on_a_device_and_are_solved_there():
    step = make_step(ROWS)
    there = place_rows(step.rows(ROWS), DEVICE)
    kept = TorchRows(there.design, there.constant, there.weights, there.n_kept, there.device, True)
    sample = kept.sample(400)
    assert isinstance(sample, TorchRows)
    assert_allclose(sample.means[:-1], kept.means[:-1], atol=1e-15)
    found = run(Batch(first_rows=150, curvature_rows=200), step.problem(kept))
    assert found.status is Status.CONVERGED
    assert found.objective == pytest.approx(run(Batch(), step.problem(ROWS)).objective, abs=2e-6)


def test_rows_of_tensors_are_those_of_arrays():
    step = make_step(ROWS)
    plain, there = step.rows(ROWS), place_tensors(step, check_tensors(*tensors([SCORES, PROBA, WEIGHTS])))
    assert_allclose(there.design.cpu().numpy(), plain.design, atol=1e-12)
    assert there.mean_constant() == pytest.approx(plain.mean_constant(), rel=1e-12)


def test_outliers_are_cut_as_they_are_in_arrays():
    scores = np.append(SCORES, [1e6, -1e7])
    proba, weights = np.vstack([PROBA, PROBA[:2]]), np.append(WEIGHTS, WEIGHTS[:2])
    for others in ((), (None, weights)):
        with pytest.warns(eh.exceptions.ClippingWarning, match="2 of"):
            plain = ParityPostprocessor().fit(scores, proba, *others)
        with pytest.warns(eh.exceptions.ClippingWarning, match="2 of"):
            model = ParityPostprocessor().fit(*tensors([scores, proba, *others]))
        assert model.bounds_ == plain.bounds_


def test_rows_without_weight_are_left_out():
    weights = np.where(np.arange(N) < 900, 1.0, 0.0)
    model = ParityPostprocessor().fit(*tensors([SCORES, PROBA, None, weights]))
    assert model.n_rows_ == 900


def bad(name, values, **others):
    given = {"scores": torch.from_numpy(SCORES), "group_proba": torch.from_numpy(PROBA), **others}
    return {**given, name: values}


def changed(array, index, value):
    array = torch.from_numpy(array.copy())
    array[index] = value
    return array


# name: (words of the message, arguments of fit)
BAD_FITS = {
    "an array beside a tensor": ("Tensors must all be on one device.*no tensor", bad("group_proba", PROBA)),
    "two devices": ("got scores: cpu, group_proba: meta", bad("group_proba", torch.ones(9, device="meta"))),
    "integers": ("scores must be a tensor of floats: got torch.int64", bad("scores", torch.arange(N))),
    "gradients": (r"pass scores.detach\(\)", bad("scores", torch.zeros(N, requires_grad=True))),
    "sparse": ("group_proba must be a dense tensor", bad("group_proba", torch.from_numpy(PROBA).to_sparse())),
    "NaN": ("scores must be finite: 1 value.*row 3", bad("scores", changed(SCORES, 3, np.nan))),
    "negative": ("group_proba must not be negative: row 2", bad("group_proba", changed(PROBA, (2, 0), -0.5))),
    "sums": ("group_proba must sum to one.*row 4", bad("group_proba", changed(PROBA, (4, 1), 3.0))),
    "shape": (r"scores must have shape \(n_rows,\)", bad("scores", torch.zeros(N, 1))),
    "length": ("group_proba has 9 rows", bad("group_proba", torch.from_numpy(PROBA[:9]))),
    "empty": ("scores is empty", bad("scores", torch.zeros(0))),
    "one group": ("at least two groups", bad("group_proba", torch.ones(N, 1))),
    "weights": ("sample_weight must not be negative", bad("sample_weight", -torch.ones(N))),
    "no mass": ("no mass", bad("group_proba", torch.from_numpy(np.column_stack([PROBA, np.zeros(N)])))),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_FITS)
def test_bad_tensors_are_refused_in_words_and_leave_the_model_as_it_was(name):
    words, given = BAD_FITS[name]
    model = ParityPostprocessor()
    with pytest.raises(ValueError, match=words):
        model.fit(**given)
    assert not hasattr(model, "policy_")


def test_bad_predictions_are_refused():
    model = ParityPostprocessor().fit(SCORES, PROBA)
    with pytest.raises(ValueError, match="has 2 groups, but the model was fitted with 3"):
        model.predict(*tensors([SCORES, PROBA[:, :2]]))
    with pytest.raises(ValueError, match="asks for gradients"):
        model.predict_mean(torch.from_numpy(SCORES).requires_grad_(), torch.from_numpy(PROBA))


@pytest.mark.parametrize("device", ["nowhere", "cuda:99", 3.5])
def test_a_device_that_is_not_there_is_refused(device):
    with pytest.raises(ValueError, match="cannot be used"):
        ParityPostprocessor(device=device).fit(SCORES, PROBA)


def test_estimators_solve_their_step_on_a_device():
    data = make_population(1500, n_groups=2, random_state=0)
    for kind, target in ((ParityRegressor, data.target), (ParityClassifier, data.target > 0)):
        plain, model = (
            kind(device=device, confidence=None).fit(
                data.data, target, sensitive_features=data.sensitive_features
            )
            for device in (None, DEVICE)
        )
        assert_allclose(model.certificate_.violation, plain.certificate_.violation, atol=2e-6)
        assert np.mean(model.predict(data.data) == plain.predict(data.data)) > 0.99


def test_a_stream_takes_tensors_too():
    given = tensors([SCORES, PROBA])
    plain, model = ParityPostprocessor().partial_fit(SCORES, PROBA), ParityPostprocessor().partial_fit(*given)
    assert np.array_equal(model.multipliers_, plain.multipliers_)


def test_a_model_of_tensors_is_a_model_like_any_other(tmp_path):
    model = ParityPostprocessor(device=DEVICE).fit(*tensors([SCORES, PROBA]))
    eh.save(model, tmp_path / "model.evenhand")
    for again in (eh.load(tmp_path / "model.evenhand"), pickle.loads(pickle.dumps(model))):
        drawn = model.predict(*tensors([SCORES, PROBA]))
        assert np.array_equal(again.predict(SCORES, PROBA), drawn.cpu())


class OnGpu:
    """An array of another library, which says that it is on a GPU, on top of a tensor."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack_device__(self):
        return 2, 0

    def __array_namespace__(self):
        return OnGpu

    @classmethod
    def from_dlpack(cls, tensor):
        return cls(tensor)


def test_arrays_of_other_libraries_on_a_gpu_are_told_by_dlpack_and_answered_in_kind(monkeypatch):
    given = OnGpu(torch.ones(3))
    assert is_tensor(given)
    assert not is_tensor(np.ones(3))
    monkeypatch.setattr(torch, "from_dlpack", lambda values: values.tensor)
    assert as_tensor(given, "scores") is given.tensor
    assert isinstance(like(given, torch.zeros(3)), OnGpu)


def test_the_block_of_the_page_runs(project_root):
    (block,) = silent_blocks(project_root / "docs" / "how-to" / "gpu.md")
    names = {"scores": torch.from_numpy(SCORES), "group_proba": torch.from_numpy(PROBA)}
    exec(block.replace(".cuda()", f'.to("{DEVICE}")'), names)
    assert is_tensor(names["drawn"])
    assert names["drawn"].device.type == DEVICE
