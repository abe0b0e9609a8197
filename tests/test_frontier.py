"""The frontier: every point is the fit it stands for, and the table says what was measured."""

import pickle
import subprocess
import sys
import tracemalloc

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, LogisticRegression

from evenhand import metrics
from evenhand.certificates import Certificate
from evenhand.dual.grid import uniform_grid
from evenhand.dual.policy import SoftmaxPolicy
from evenhand.estimators import ParityRegressor
from evenhand.estimators.postprocessor import ParityPostprocessor
from evenhand.evaluation.frontier import Frontier, frontier
from evenhand.exceptions import ClippingWarning, ConvergenceWarning, InterruptWarning
from evenhand.metrics import BLOCK_ENTRIES, Membership, ScoredRows
from evenhand.solvers import Batch, PlainState, Solver, Status
from tests.frontiers import EPSILONS, FIT, NEW, ROWS, TEST


@pytest.fixture(scope="module")
def path():
    return frontier(ParityPostprocessor(), *ROWS, epsilons=EPSILONS, test=TEST)


@pytest.mark.parametrize("parity", ["cdf", "pmf", "mean"])
def test_every_point_of_the_path_is_the_cold_fit_at_its_epsilon(parity):
    scores, proba = FIT.scores, FIT.group_proba
    path = frontier(ParityPostprocessor(parity=parity), scores, proba, epsilons=EPSILONS)
    for epsilon, warm in zip(EPSILONS, path.models, strict=True):
        cold = ParityPostprocessor(parity=parity, epsilon=epsilon).fit(scores, proba)
        assert warm.get_params() == cold.get_params()
        assert warm.result_.objective == pytest.approx(cold.result_.objective, abs=2e-6)
        np.testing.assert_allclose(warm.certificate_.violation, cold.certificate_.violation, atol=1e-4)
        assert np.all(warm.certificate_.excess <= 2e-6)
        np.testing.assert_array_equal(warm.draw_key_, cold.draw_key_)


@pytest.mark.parametrize("parity", ["cdf", "pmf", "mean"])
def test_a_larger_tolerance_never_costs_more_and_is_used(parity):
    path = frontier(ParityPostprocessor(parity=parity), *ROWS)
    certificates: list[Certificate] = [model.certificate_ for model in path.models]
    assert np.all(np.diff([each.entropic_risk for each in certificates]) <= 3e-6)
    assert np.all(np.diff([each.violation.max() for each in certificates]) >= -3e-6)


def test_the_automatic_path_ends_at_parity_and_where_the_constraint_stops_to_bind():
    path = frontier(ParityPostprocessor(), *ROWS)
    epsilons = [point.epsilon for point in path.points]
    assert len(epsilons) == 20
    assert epsilons[0] == 0.0
    free = ParityPostprocessor(epsilon=0.99).fit(*ROWS)
    assert epsilons[-1] == pytest.approx(free.certificate_.violation.max())
    np.testing.assert_allclose(np.diff(np.log(epsilons[1:])), np.log(200) / 18)
    assert np.abs(path.models[-1].multipliers_).max() < 1e-6
    assert path.models[-2].multipliers_.any()


def test_scores_at_parity_leave_one_point():
    constant = frontier(ParityPostprocessor(), np.full(50, 3.0), np.tile([0.3, 0.7], (50, 1)))
    assert [point.epsilon for point in constant.points] == [0.0]


def test_the_automatic_path_stays_above_the_floor_of_a_prior_of_the_users_own():
    prior = FIT.group_proba.mean(axis=0) * [1.03, 0.99, 1.0]
    prior /= prior.sum()
    path = frontier(ParityPostprocessor(), *ROWS, group_prior=prior)
    floor = np.abs(1 - FIT.group_proba.mean(axis=0) / prior).max()
    assert path.points[0].epsilon >= floor
    assert len(path.points) > 5
    with pytest.raises(ValueError, match="infeasible"):
        frontier(ParityPostprocessor(), *ROWS, group_prior=prior, epsilons=[0.0, 0.5])


def test_the_table_holds_what_the_metrics_say(path):
    table = path.frame("pandas")
    assert table["epsilon"].tolist() == EPSILONS
    groups = TEST["sensitive_features"]
    for row, model in zip(table.to_dict("records"), path.models, strict=True):
        pmf = model.predict_pmf(NEW.scores, NEW.group_proba)
        assert row["risk"] == pytest.approx(metrics.risk(NEW.target, pmf, model.atoms_))
        base = metrics.risk(NEW.target, NEW.scores)
        assert row["risk_increase"] == pytest.approx(row["risk"] / base - 1)
        for name in ("ks", "tv", "w1"):
            found = getattr(metrics, f"{name}_unfairness")(pmf, groups, model.atoms_)
            assert {group: row[f"{name}_{group}"] for group in found} == pytest.approx(found)
            assert row[f"max_{name}"] == max(row[f"{name}_{group}"] for group in found)
        assert row["fit_violation"] == model.certificate_.violation.max()
        assert row["optimality_gap"] == model.certificate_.optimality_gap
        assert row["status"] == "converged"
        assert row["n_iter"] == model.result_.n_iter


def test_the_base_is_the_scores_themselves(path):
    groups = TEST["sensitive_features"]
    assert path.base.risk == pytest.approx(metrics.risk(NEW.target, NEW.scores))
    for name in ("ks", "w1"):
        found = getattr(metrics, f"{name}_unfairness")(NEW.scores, groups)
        np.testing.assert_allclose(path.base.distances(name), list(found.values()))
    atoms = path.models[0].atoms_
    nearest = atoms[np.abs(NEW.scores[:, None] - atoms).argmin(axis=1)]
    rounded = metrics.tv_unfairness(nearest, groups)
    np.testing.assert_allclose(path.base.distances("tv"), list(rounded.values()))


def test_pandas_and_polars_tables_hold_the_same_numbers(path):
    in_pandas, in_polars = path.frame("pandas"), path.frame("polars")
    assert isinstance(in_pandas, pd.DataFrame)
    assert isinstance(in_polars, pl.DataFrame)
    assert isinstance(path.frame(), pd.DataFrame)
    assert in_polars.to_dict(as_series=False) == in_pandas.to_dict("list")


def test_a_table_needs_one_of_the_known_libraries(path):
    with pytest.raises(ValueError, match="pandas, polars, pyarrow: got 'excel'"):
        path.frame("excel")
    code = (
        "import sys; sys.modules.update(dict.fromkeys(['pandas', 'polars', 'pyarrow']));"
        "from evenhand._utils.frames import make_frame; make_frame({'a': [1]})"
    )
    outcome = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install pandas" in outcome.stderr


def test_without_held_out_rows_the_distances_are_the_violations_of_the_fit():
    weights = np.random.default_rng(2).exponential(size=800)
    weights[:10] = 0.0
    path = frontier(ParityPostprocessor(), *ROWS, sample_weight=weights, epsilons=EPSILONS)
    for point in path.points:
        np.testing.assert_allclose(point.measures.distances("ks"), point.certificate.violation, atol=1e-7)
        assert point.measures.risk == pytest.approx(point.certificate.risk, rel=1e-6)
    assert path.base.risk == 0.0
    assert np.isnan(path.risk_increase).all()


def test_unknown_groups_count_by_their_probabilities():
    test = {name: TEST[name] for name in ("scores", "group_proba")}
    path = frontier(ParityPostprocessor(), *ROWS, epsilons=[0.05], test=test)
    model = path.models[0]
    pmf = model.predict_pmf(NEW.scores, NEW.group_proba)
    for group in range(3):
        gap = np.average(pmf, axis=0, weights=NEW.group_proba[:, group]) - pmf.mean(axis=0)
        assert path.frame()[f"ks_{group}"][0] == pytest.approx(np.abs(gap.cumsum()).max())
        assert path.frame()[f"tv_{group}"][0] == pytest.approx(np.abs(gap).sum() / 2)


def test_whole_test_weights_repeat_rows():
    times = np.random.default_rng(3).integers(0, 4, size=800)
    weighted = frontier(ParityPostprocessor(), *ROWS, epsilons=[0.02], test=TEST | {"sample_weight": times})
    repeated = frontier(
        ParityPostprocessor(),
        *ROWS,
        epsilons=[0.02],
        test={name: np.repeat(value, times, axis=0) for name, value in TEST.items()},
    )
    pd.testing.assert_frame_equal(weighted.frame("pandas"), repeated.frame("pandas"))
    assert weighted.base.risk == pytest.approx(repeated.base.risk)


def test_a_tuple_of_held_out_rows_is_the_dict(path):
    same = frontier(ParityPostprocessor(), *ROWS, epsilons=EPSILONS, test=tuple(TEST.values()))
    pd.testing.assert_frame_equal(same.frame("pandas"), path.frame("pandas"))


def test_epsilons_are_sorted_and_each_is_solved_once(path):
    shuffled = frontier(
        ParityPostprocessor(), *ROWS, epsilons=[0.1, 0.02, 0.1, 0.5, 0, 0.05, 0.005], test=TEST
    )
    pd.testing.assert_frame_equal(shuffled.frame("pandas"), path.frame("pandas"))


def test_the_model_given_stays_as_it_was():
    model = ParityPostprocessor(epsilon=0.3).fit(*ROWS)
    before = pickle.dumps(model)
    path = frontier(model, *ROWS, epsilons=[0.01, 0.1])
    assert pickle.dumps(model) == before
    assert [each.epsilon for each in path.models] == [0.01, 0.1]
    assert not any(each.warm_start for each in path.models)


def test_tolerances_that_differ_by_group_keep_their_proportions():
    own = {0: 0.02, 1: 0.04, 2: 0.01}
    path = frontier(ParityPostprocessor(epsilon=own), *ROWS, epsilons=[0.1, 0.004])
    np.testing.assert_allclose(path.models[0].epsilon_, [0.002, 0.004, 0.001])
    np.testing.assert_allclose(path.models[1].epsilon_, [0.05, 0.1, 0.025])
    cold = clone(path.models[0]).fit(*ROWS)
    assert path.models[0].result_.objective == pytest.approx(cold.result_.objective, abs=2e-6)
    top = frontier(ParityPostprocessor(epsilon=own), *ROWS).models[-1]
    assert np.abs(top.multipliers_).max() < 1e-6
    with pytest.raises(ValueError, match="zero for every group"):
        frontier(ParityPostprocessor(epsilon=[0.0, 0.0, 0.0]), *ROWS)


def test_the_callback_sees_every_point_and_may_end_the_path():
    seen = []
    path = frontier(ParityPostprocessor(), *ROWS, epsilons=EPSILONS, callback=seen.append)
    assert [point.epsilon for point in seen] == EPSILONS[::-1]
    assert list(path.points) == seen[::-1]
    short = frontier(ParityPostprocessor(), *ROWS, epsilons=EPSILONS, callback=lambda p: p.epsilon <= 0.05)
    assert [point.epsilon for point in short.points] == [0.05, 0.1, 0.5]


def interrupt(_):
    raise KeyboardInterrupt


class InterruptedSolver(Solver):
    """Stops as `run` does on Ctrl-C, at tolerances below a limit."""

    name = "interrupted"

    def __init__(self, limit):
        self.limit = limit

    def init(self, problem, start):
        return PlainState(np.zeros(problem.multipliers_shape))

    def step(self, problem, state):
        if problem.slack.max() < self.limit:
            raise KeyboardInterrupt
        return state

    def done(self, problem, state):
        return Status.CONVERGED if problem.slack.max() >= self.limit else None


def test_an_interrupt_keeps_the_points_that_were_done():
    with pytest.warns(InterruptWarning, match="1 of 6 epsilons"):
        path = frontier(ParityPostprocessor(), *ROWS, epsilons=EPSILONS, callback=interrupt)
    assert [point.epsilon for point in path.points] == [0.5]


def test_an_interrupt_inside_the_solver_keeps_no_half_solved_point():
    model = ParityPostprocessor(solver=InterruptedSolver(0.05))
    with pytest.warns(InterruptWarning, match="3 of 6 epsilons"):
        path = frontier(model, *ROWS, epsilons=EPSILONS)
    assert [point.epsilon for point in path.points] == [0.05, 0.1, 0.5]
    with pytest.raises(KeyboardInterrupt):
        frontier(model, *ROWS, epsilons=[0.01])


class StallsWhenWarm(Solver):
    """The batch solver, that gives up at once wherever it is given a start."""

    name = "stalls when warm"

    def init(self, problem, start):
        self.warm = start is not None
        return Batch().init(problem, start)

    def step(self, problem, state):
        return Batch().step(problem, state)

    def done(self, problem, state):
        return Status.STALLED if self.warm else Batch().done(problem, state)


def test_a_start_that_leads_nowhere_is_given_up_for_a_cold_one():
    path = frontier(ParityPostprocessor(solver=StallsWhenWarm()), *ROWS, epsilons=EPSILONS)
    assert {point.status for point in path.points} == {Status.CONVERGED}
    assert all(np.all(point.certificate.excess <= 2e-6) for point in path.points)


def test_a_cause_warns_once_for_the_whole_path():
    model = ParityPostprocessor(bounds=(-0.5, 0.5), max_iter=1)
    with pytest.warns() as caught:
        path = frontier(model, *ROWS, epsilons=EPSILONS)
    assert sorted(each.category.__name__ for each in caught) == ["ClippingWarning", "ConvergenceWarning"]
    assert all(each.filename == __file__ for each in caught)
    early = [point for point in path.points if not point.status.success]
    summary = next(each for each in caught if each.category is ConvergenceWarning)
    assert f"{len(early)} of 6 epsilons" in str(summary.message)
    assert ClippingWarning in {each.category for each in caught}
    assert path.frame("pandas")["status"].tolist().count("max_iter") == len(early) > 0


def test_measuring_never_holds_a_whole_pmf():
    n_rows, n_atoms = 200_000, 64
    policy = SoftmaxPolicy(uniform_grid(0.0, 1.0, n_atoms), np.full(2, 0.5), np.zeros((n_atoms, 2)), 50.0)
    scores, proba = np.linspace(0, 1, n_rows), np.full((n_rows, 2), 0.5)
    rows = ScoredRows(scores, proba, Membership((0, 1), codes=np.arange(n_rows) % 2))
    rows.measure(policy)  # compiles
    tracemalloc.start()
    measures = rows.measure(policy)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 * 8 * BLOCK_ENTRIES + 40 * n_rows < 8 * n_rows * n_atoms
    whole = policy.pmf(scores, proba)
    assert measures.risk == pytest.approx(metrics.risk(scores, whole, policy.grid.atoms))


class CountingRegression(LinearRegression):
    n_fits = 0

    def fit(self, X, y, sample_weight=None):
        type(self).n_fits += 1
        return super().fit(X, y, sample_weight)


def test_a_regressor_learns_once_and_gives_the_models_of_separate_fits():
    model = ParityRegressor(CountingRegression(), LogisticRegression(), random_state=0)
    test = (NEW.data, NEW.target, NEW.sensitive_features)
    CountingRegression.n_fits = 0
    path = frontier(
        model, FIT.data, FIT.target, sensitive_features=FIT.sensitive_features, epsilons=EPSILONS, test=test
    )
    learned = CountingRegression.n_fits
    assert not hasattr(model, "postprocessor_")
    for epsilon, warm in zip(EPSILONS, path.models, strict=True):
        CountingRegression.n_fits = 0
        cold = clone(model).set_params(epsilon=epsilon, confidence=None, calibration="joint")
        cold.fit(FIT.data, FIT.target, sensitive_features=FIT.sensitive_features)
        assert learned == CountingRegression.n_fits
        assert warm.epsilon == epsilon
        np.testing.assert_allclose(warm.certificate_.violation, cold.certificate_.violation, atol=1e-4)
        assert warm.certificate_.risk == pytest.approx(cold.certificate_.risk, abs=1e-4)
        assert np.mean(warm.predict(NEW.data) == cold.predict(NEW.data)) > 0.98
    pmf = path.models[2].predict_pmf(NEW.data)
    atoms = path.models[2].atoms_
    found = metrics.ks_unfairness(pmf, NEW.sensitive_features, atoms)
    assert path.frame("pandas")["max_ks"][2] == pytest.approx(max(found.values()))
    assert path.frame("pandas")["risk"][2] == pytest.approx(metrics.risk(NEW.target, pmf, atoms))


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_several_sensitive_columns_of_a_frame_name_their_combinations(frame):
    def columns(population):
        s = population.sensitive_features
        return frame({"sex": np.array(["f", "m"])[s % 2], "young": s > 0})

    features = [frame({f"x{j}": column for j, column in enumerate(each.data.T)}) for each in (FIT, NEW)]
    path = frontier(
        ParityRegressor(LinearRegression(), LogisticRegression()),
        features[0],
        FIT.target,
        sensitive_features=columns(FIT),
        epsilons=[0.05],
        test={"X": features[1], "y": NEW.target, "sensitive_features": columns(NEW)},
    )
    assert {"ks_f_False", "ks_f_True", "ks_m_True"} <= set(path.frame("pandas").columns)


def test_an_aware_regressor_reads_the_groups_of_the_held_out_rows():
    path = frontier(
        ParityRegressor(LinearRegression(), aware=True),
        FIT.data,
        FIT.target,
        sensitive_features=FIT.sensitive_features,
        epsilons=[0.02, 0.2],
        test=(NEW.data, NEW.target, NEW.sensitive_features),
    )
    assert path.max_ks[0] < path.max_ks[1]


def test_a_frontier_says_what_it_is_and_pickles(path):
    assert repr(path) == "<Frontier: 6 models, epsilon from 0 to 0.5>"
    again = pickle.loads(pickle.dumps(path))
    assert isinstance(again, Frontier)
    pd.testing.assert_frame_equal(again.frame("pandas"), path.frame("pandas"))
