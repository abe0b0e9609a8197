"""No solver runs past its budget without a word, and an interrupt ends it inside a step."""

import signal

import numpy as np
import pytest

from evenhand import ParityPostprocessor
from evenhand.exceptions import ConvergenceWarning
from evenhand.solvers import Batch, Status

N_GROUPS = 40


def many_groups(n_rows=400, n_groups=N_GROUPS, seed=0):
    """Rows of known groups whose scores are far apart: few atoms, many groups, and much to do."""
    groups = np.random.default_rng(seed).integers(0, n_groups, n_rows)
    scores = np.random.default_rng(seed + 1).normal(groups / n_groups, 0.3)
    return scores, np.eye(n_groups)[groups]


@pytest.mark.parametrize(
    "settings",
    [
        {"row_growth": 1},
        {"row_growth": 0},
        {"temperature_growth": 1.0},
        {"first_rows": 0},
        {"first_temperature": 0.0},
        {"tol": 0.0},
        {"tol": np.nan},
        {"max_iter": 0},
        {"max_iter": True},
        {"curvature_rows": 0},
        {"curvature_work": 0.5},
    ],
    ids=str,
)
def test_a_ladder_without_end_or_rows_is_refused(settings):
    (name,) = settings
    with pytest.raises(ValueError, match=f"{name} must be"):
        Batch(**settings)


@pytest.mark.parametrize("parity", ["cdf", "tv"])
@pytest.mark.parametrize("solver", ["batch", "lbfgs", "auto"])
@pytest.mark.parametrize("budget", [1, 4])
def test_a_budget_of_iterations_is_kept_and_its_end_is_told(solver, parity, budget):
    model = ParityPostprocessor(solver=solver, parity=parity, max_iter=budget, atoms=5, epsilon=0.01)
    with pytest.warns(ConvergenceWarning, match="stopped after"):
        model.fit(*many_groups())
    assert model.result_.n_iter <= budget
    assert model.result_.status is Status.MAX_ITER


@pytest.mark.parametrize("solver", ["sgd", "acsa", "sgd3+acsa2"])
def test_a_budget_of_gradients_is_kept(solver):
    model = ParityPostprocessor(solver=solver, max_iter=200, atoms=5, epsilon=0.5, random_state=0)
    scores, proba = many_groups(n_groups=3)
    try:
        model.fit(scores, proba)
    except ConvergenceWarning:  # a word, which these tests make an error
        return
    assert model.result_.n_gradient_rows <= 200


@pytest.mark.parametrize("parity", ["cdf", "tv"])
def test_an_interrupt_inside_a_step_ends_the_fit_with_what_there_is(parity):
    """The alarm goes off while the solver is in a step, of which there are many in each of its iterations."""
    rows = many_groups(1500, 60)

    def interrupt(number, frame):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        steps = []

        def count(progress):
            steps.append(progress.n_iter)
            if len(steps) == 2:  # the third step is under way when it comes
                signal.setitimer(signal.ITIMER_REAL, 0.005)

        model = ParityPostprocessor(parity=parity, atoms=9, epsilon=0.02)
        with pytest.warns(ConvergenceWarning, match="stopped after"):
            model.fit(*rows, callback=count)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    assert model.result_.status is Status.STOPPED
    assert np.isfinite(model.predict_pmf(*rows)).all()
