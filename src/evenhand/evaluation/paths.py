"""A path of tolerances: the same parity step solved again and again, each time from the last solution."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from evenhand._utils.progress import report_progress
from evenhand._utils.typing import FloatArray
from evenhand.certificates import Certificate
from evenhand.dual.imbalance import mean_imbalance
from evenhand.dual.step import choose_beta
from evenhand.estimators.postprocessor import FrontierRows
from evenhand.estimators.step_fit import FittedStep, fit_step
from evenhand.evaluation.heldout import Model
from evenhand.exceptions import InterruptWarning
from evenhand.metrics import Measures, ScoredRows
from evenhand.solvers import SolverResult, Status, ZeroMultipliers

N_POINTS = 20  # of the automatic path, exact parity among them
REACH = 200.0  # its largest epsilon over the smallest one above zero
NO_LIMIT = 1e100  # an epsilon that never binds; its square does not overflow


@dataclass(frozen=True, slots=True, eq=False)
class FrontierPoint:
    """One tolerance of the path: the model, and what it does on the held-out rows and on those of its fit."""

    epsilon: float
    model: Model  # fitted, of the kind that was given
    measures: Measures  # on the held-out rows
    certificate: Certificate  # on the rows of the fit
    status: Status
    n_iter: int


Callback = Callable[[FrontierPoint], bool | None]


def fit_without_parity(problem: FrontierRows, epsilon: float) -> FittedStep:
    """The step without parity; refuses what a fit at `epsilon` would refuse, before any work is done."""
    plan, n_rows = problem.plan, len(problem.rows.scores)
    beta = choose_beta(plan.beta, plan.cost, n_rows, plan.solver.default_beta(n_rows))
    plan = replace(plan, epsilon=_tolerances(problem, epsilon), solver=ZeroMultipliers(), beta=beta)
    return fit_step(plan, problem.rows)


def solve_path(
    problem: FrontierRows, epsilons: FloatArray, rows: ScoredRows, callback: Callback | None
) -> list[FrontierPoint]:
    """The points of the path, from the largest epsilon on, as far as callback and interrupts let it go."""
    points: list[FrontierPoint] = []
    last = None
    try:
        for epsilon in epsilons[::-1].tolist():
            last = _next_fit(problem, epsilon, last)
            points.append(_point(problem, epsilon, last, rows))
            report_progress("tolerances", len(points), len(epsilons))
            if callback is not None and callback(points[-1]):
                break
    except KeyboardInterrupt:
        if not points:
            raise
        warnings.warn(
            f"Interrupted: the frontier has {len(points)} of {len(epsilons)} epsilons, the largest ones.",
            InterruptWarning,
            stacklevel=3,
        )
    return points


def _next_fit(problem: FrontierRows, epsilon: float, last: FittedStep | None) -> FittedStep:
    """The step at `epsilon`, started where the last one ended."""
    plan = replace(problem.plan, epsilon=_tolerances(problem, epsilon))
    step = fit_step(plan, problem.rows, start=last)
    if (
        last is not None and _result(step).status is Status.STALLED
    ):  # a start from afar can be worse than none
        step = fit_step(plan, problem.rows)
    if _result(step).status is Status.STOPPED:  # the solver kept its last iterate; a path wants none of it
        raise KeyboardInterrupt
    return step


def _point(problem: FrontierRows, epsilon: float, fitted: FittedStep, rows: ScoredRows) -> FrontierPoint:
    result, certificate = _result(fitted), fitted.certificate
    assert certificate is not None
    shares = _proportions(problem)
    return FrontierPoint(
        epsilon=epsilon,
        model=problem.assemble(fitted, epsilon if shares is None else epsilon * shares),
        measures=rows.measure(fitted.policy),
        certificate=certificate,
        status=result.status,
        n_iter=result.n_iter,
    )


def _result(step: FittedStep) -> SolverResult:
    assert step.result is not None  # only a stream has none
    return step.result


def _proportions(problem: FrontierRows) -> FloatArray | None:
    """Tolerance of each group over the largest one, where the model has one for each."""
    if not np.iterable(problem.epsilon):
        return None
    slack = problem.plan.epsilon
    if slack.max() == 0.0:
        raise ValueError(
            "epsilon of the model is zero for every group, which leaves no proportions to keep: give the "
            "model one float, or positive values."
        )
    shares: FloatArray = slack / slack.max()
    return shares


def _tolerances(problem: FrontierRows, epsilon: float) -> FloatArray:
    """`epsilon` for each group, in the proportions of the model."""
    shares = _proportions(problem)
    return np.full(len(problem.plan.groups), epsilon) if shares is None else epsilon * shares


def default_epsilons(problem: FrontierRows, rest: FittedStep) -> FloatArray:
    """Zero, then a geometric progression to the violation of the policy without parity."""
    shares, step, certificate = _tolerances(problem, 1.0), rest.step, rest.certificate
    assert certificate is not None
    binding = shares > 0
    top = float((certificate.violation[binding] / shares[binding]).max())
    parity, unit = step.resolved, step.unit
    if top <= problem.plan.tol * unit:
        return np.zeros(1)  # nothing to gain: the scores are at parity as they are
    path = np.append(0.0, np.geomspace(top / REACH, top, N_POINTS - 1))
    # a prior of the user's own puts a floor under the violation; without one it is zero
    rows = problem.rows
    floor = parity.smallest_feasible(mean_imbalance(rows.group_mass(), step.group_prior, rows.strata))
    floor = floor * unit
    feasible: FloatArray = path[np.all(np.outer(path, shares) >= floor, axis=1)]
    if len(feasible) == 0:
        worst = int(np.argmax(floor))
        raise ValueError(
            f"group_prior leaves no feasible epsilon where parity binds: group {rest.groups[worst]!r} needs "
            f"at least {floor[worst]:.6g}. Leave group_prior out to use the mean of group_proba."
        )
    return feasible
