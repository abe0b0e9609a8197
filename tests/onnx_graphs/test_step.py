"""The parity step in ONNX Runtime answers as the package does, on random and on extreme rows."""

import numpy as np
import pytest

pytest.importorskip("onnxruntime", reason="make test-onnx has an environment with ONNX Runtime")

from evenhand import ParityPostprocessor, costs
from evenhand.datasets import make_population
from tests.notions import every_case

N_ROWS, N_EXTREME = 100_000, 2_000
ANSWERS = ["pmf", "mean", "median", "quantile", "draw"]


def rows_of(case, seed=5):
    """Random rows, and extreme ones: far scores, and people whose group or class is known for sure."""
    scores, columns = case.rows(N_ROWS, seed)
    scores, columns, rng = scores.copy(), columns.copy(), np.random.default_rng(seed)
    if scores.ndim == 1:
        far = [0.0, -0.0, 5e-324, 1e-300, 1e15, -1e15, 1e300, -1e300]
        scores[:N_EXTREME] = rng.choice([*far, *(1e3 * scores[:50])], N_EXTREME)
    else:
        scores[:N_EXTREME] = np.eye(scores.shape[1])[rng.integers(0, scores.shape[1], N_EXTREME)]
    for stratum in dict.fromkeys(case.strata or [0]):
        of_it = np.flatnonzero([each == stratum for each in case.strata or [0] * columns.shape[1]])
        total = columns[N_EXTREME // 2 : 2 * N_EXTREME, of_it].sum(axis=1, keepdims=True)
        sure = np.eye(len(of_it))[rng.integers(0, len(of_it), len(total))]
        columns[N_EXTREME // 2 : 2 * N_EXTREME, of_it] = sure * total
    return scores, columns


def check(graphs, model, scores, columns):
    """Double precision: all answers; single: the distribution."""
    found = graphs.run(model, {"scores": scores, "group_proba": columns}, ANSWERS, q=0.9)
    assert np.abs(found["pmf"] - model.predict_pmf(scores, columns)).max() < 1e-9
    assert np.abs(found["mean"] - model.predict_mean(scores, columns)).max() < 1e-9
    np.testing.assert_array_equal(found["median"], model.predict_quantile(scores, columns))
    np.testing.assert_array_equal(found["quantile"], model.predict_quantile(scores, columns, 0.9))
    np.testing.assert_array_equal(found["draw"], model.predict(scores, columns))
    single = [np.clip(part, -3e38, 3e38).astype(np.float32) for part in (scores, columns)]
    given = {"scores": single[0], "group_proba": single[1]}
    near = graphs.run(model, given, ["pmf", "mean"], precision="float32")
    exact = [part.astype(np.float64) for part in single]
    if model.policy_.strata is None:  # sums of rounded shares are one up to 1e-7
        exact[1] /= exact[1].sum(axis=1, keepdims=True)
    assert near["pmf"].dtype == np.float32
    return float(np.abs(near["pmf"] - model.predict_pmf(*exact)).max())


@every_case
def test_every_notion_answers_as_the_package_does(case, graphs):
    model = case.model().fit(*case.rows(1500), strata=case.strata)
    assert check(graphs, model, *rows_of(case)) < 1e-4


@pytest.mark.parametrize("parity", ["cdf", "pmf", "mean", "tv", "w1"])
def test_the_defaults_answer_as_the_package_does_at_a_sharp_beta(parity, graphs):
    data, new = (make_population(n, n_groups=3, random_state=n) for n in (3000, N_ROWS))
    model = ParityPostprocessor(parity=parity, random_state=7).fit(data.scores, data.group_proba)
    assert model.beta_ == 10_000.0
    assert len(model.atoms_) == 109
    assert check(graphs, model, new.scores, new.group_proba) < 1e-4


@pytest.mark.parametrize("shift", [0.0, 2000.0])
@pytest.mark.parametrize("cost", [costs.Absolute(), costs.Pinball(0.05), costs.Huber(0.3), costs.Huber(0.01)])
def test_costs_that_are_not_squared_answer_as_the_package_does(cost, shift, graphs):
    data, new = (make_population(n, n_groups=2, random_state=n) for n in (1000, N_ROWS))
    model = ParityPostprocessor(cost=cost, atoms=41).fit(shift + data.scores, data.group_proba)
    scores = shift + new.scores
    scores[:41] = model.atoms_
    assert check(graphs, model, scores, new.group_proba) < 1e-5


def test_scores_far_from_zero_keep_their_digits_in_single_precision(graphs):
    data = make_population(1500, n_groups=2, random_state=0)
    model = ParityPostprocessor().fit(2000.0 + data.scores, data.group_proba)
    assert check(graphs, model, 2000.0 + data.scores, data.group_proba) < 1e-4


def test_atoms_of_ones_own_take_scores_without_bounds(graphs):
    data = make_population(1000, n_groups=2, random_state=0)
    model = ParityPostprocessor(atoms=[-1.0, -0.3, 0.0, 0.7, 2.0], beta=3.0).fit(
        data.scores, data.group_proba
    )
    scores = np.concatenate([data.scores, [1e6, -1e6, 50.0]])
    proba = np.concatenate([data.group_proba, data.group_proba[:3]])
    assert check(graphs, model, scores, proba) < 1e-4


def test_scores_half_way_between_atoms_and_upon_them(graphs):
    """Half-way, and with no push, both atoms have one half: a median may be either, all else is as ever."""
    data, rng = make_population(1000, n_groups=2, random_state=0), np.random.default_rng(0)
    model = ParityPostprocessor(atoms=21, epsilon=0.99).fit(data.scores, data.group_proba)
    middles = (model.atoms_[1:] + model.atoms_[:-1]) / 2
    scores = rng.choice([*middles, *model.atoms_], N_ROWS)
    given = {"scores": scores, "group_proba": np.eye(2)[rng.integers(0, 2, N_ROWS)]}
    found = graphs.run(model, given, ["pmf", "median", "draw"])
    assert np.abs(found["pmf"] - model.predict_pmf(*given.values())).max() < 1e-9
    np.testing.assert_array_equal(found["draw"], model.predict(*given.values()))
    here = model.predict_quantile(*given.values())
    apart = np.abs(np.searchsorted(model.atoms_, found["median"]) - np.searchsorted(model.atoms_, here))
    assert apart.max() <= 1
    assert np.isin(scores[apart > 0], middles).all()


@pytest.fixture(scope="module")
def fitted():
    data = make_population(1500, n_groups=2, random_state=0)
    return ParityPostprocessor(atoms=51, random_state=3).fit(data.scores, data.group_proba), data


def test_draws_by_integer_ids_are_those_of_predict(fitted, graphs):
    model, _ = fitted
    new = make_population(N_ROWS, n_groups=2, random_state=2)
    ids = np.random.default_rng(0).integers(-(2**63), 2**63 - 1, N_ROWS)
    ids[:4] = [0, -1, 2**63 - 1, -(2**63)]
    given = {"scores": new.scores, "group_proba": new.group_proba, "ids": ids}
    found = graphs.run(model, given, "draw", draw_by="integers")["draw"]
    np.testing.assert_array_equal(found, model.predict(new.scores, new.group_proba, ids=ids))


def test_draws_by_text_ids_are_those_of_predict(fitted, graphs):
    model, _ = fitted
    new, rng = make_population(N_ROWS, n_groups=2, random_state=2), np.random.default_rng(0)
    letters = np.array(list("abcdefgh0123456789-_ äßéж東京😀"))
    ids = np.array(["".join(rng.choice(letters, rng.integers(0, 25))) for _ in range(N_ROWS)], object)
    given = {"scores": new.scores, "group_proba": new.group_proba, "ids": ids}
    found = graphs.run(model, given, "draw", draw_by="text")["draw"]
    np.testing.assert_array_equal(found, model.predict(new.scores, new.group_proba, ids=ids))


def test_a_uniform_input_is_the_level_of_the_draw(fitted, graphs):
    model, data = fitted
    levels = np.random.default_rng(0).random(len(data.scores))
    given = {"scores": data.scores, "group_proba": data.group_proba, "uniform": levels}
    found = graphs.run(model, given, "draw", draw_by="uniform")["draw"]
    np.testing.assert_array_equal(found, model.policy_.draw(data.scores, data.group_proba, levels))


def test_draws_in_single_precision_are_by_the_same_hash(fitted, graphs):
    model, data = fitted
    scores, proba = data.scores.astype(np.float32), data.group_proba.astype(np.float32)
    found = graphs.run(model, {"scores": scores, "group_proba": proba}, "draw", precision="float32")["draw"]
    exact = proba.astype(np.float64)
    exact /= exact.sum(axis=1, keepdims=True)
    wanted = model.predict(scores.astype(np.float64), exact).astype(np.float32)
    assert np.mean(found == wanted) > 0.999  # 1e-5 of a probability decides few draws
