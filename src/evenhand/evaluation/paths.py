"""A path of tolerances: the same parity step solved again and again, each time from the last solution."""

import warnings
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace

import numpy as np
from sklearn.base import clone

from evenhand._utils.progress import report_progress
from evenhand._utils.typing import FloatArray
from evenhand._utils.validation import check_epsilon
from evenhand.certificates import Certificate
from evenhand.dual.costs import make_cost
from evenhand.dual.imbalance import mean_imbalance
from evenhand.dual.step import choose_beta
from evenhand.estimators.postprocessor import FrontierRows, ParityPostprocessor
from evenhand.estimators.selection import is_cv
from evenhand.evaluation.heldout import Model
from evenhand.exceptions import InterruptWarning
from evenhand.metrics import Measures, ScoredRows
from evenhand.solvers import Status, ZeroMultipliers

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


def choose_by_cv(problem: FrontierRows) -> FrontierRows:
    """The problem with all that was left to "cv" chosen, at the model's own epsilon."""
    template = problem.postprocessor
    if not (is_cv(template.beta) or is_cv(template.atoms)):
        return problem
    chosen = clone(template)._fit_rows(problem.rows, problem.group_prior)
    settings = {"beta": chosen.beta_}
    if is_cv(template.atoms):
        settings["atoms"] = len(chosen.atoms_)
    return replace(problem, postprocessor=clone(template).set_params(**settings))


def fit_without_parity(problem: FrontierRows, epsilon: float) -> ParityPostprocessor:
    """The policy without parity; refuses what a fit at `epsilon` would refuse, before any work is done."""
    template = problem.postprocessor
    model: ParityPostprocessor = clone(template)
    n_rows = len(problem.rows.scores)
    beta = choose_beta(
        template.beta, make_cost(template.cost), n_rows, template._solver().default_beta(n_rows)
    )
    model.set_params(epsilon=_setting(problem, epsilon), solver=ZeroMultipliers(), beta=beta)
    return model._fit_rows(problem.rows, problem.group_prior)


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


def _next_fit(problem: FrontierRows, epsilon: float, last: ParityPostprocessor | None) -> ParityPostprocessor:
    """The post-processor at `epsilon`, started where the last one ended."""
    fresh: ParityPostprocessor = clone(problem.postprocessor)
    fresh.set_params(epsilon=_setting(problem, epsilon))
    if last is None:
        return _fit(fresh, problem)
    settings = fresh.get_params(deep=False)
    model = copy(last)
    model.set_params(**{**settings, "warm_start": True})
    _fit(model, problem)
    if model.result_.status is Status.STALLED:  # a start from afar can be worse than none
        return _fit(fresh, problem)
    model.set_params(**settings)
    return model


def _fit(model: ParityPostprocessor, problem: FrontierRows) -> ParityPostprocessor:
    model._fit_rows(problem.rows, problem.group_prior)
    if model.result_.status is Status.STOPPED:  # the solver kept its last iterate; a path wants none of it
        raise KeyboardInterrupt
    return model


def _point(
    problem: FrontierRows, epsilon: float, fitted: ParityPostprocessor, rows: ScoredRows
) -> FrontierPoint:
    return FrontierPoint(
        epsilon=epsilon,
        model=problem.assemble(fitted),
        measures=rows.measure(fitted.policy_),
        certificate=fitted.certificate_,
        status=fitted.result_.status,
        n_iter=fitted.result_.n_iter,
    )


def _proportions(problem: FrontierRows) -> FloatArray | None:
    """Tolerance of each group over the largest one, where the model has one for each."""
    own = problem.postprocessor.epsilon
    if not np.iterable(own):
        return None
    slack = check_epsilon(own, problem.rows.groups, problem.rows.strata)
    if slack.max() == 0.0:
        raise ValueError(
            "epsilon of the model is zero for every group, which leaves no proportions to keep: give the "
            "model one float, or positive values."
        )
    shares: FloatArray = slack / slack.max()
    return shares


def _setting(problem: FrontierRows, epsilon: float) -> float | FloatArray:
    """`epsilon` as the parameter of the post-processor."""
    shares = _proportions(problem)
    return epsilon if shares is None else epsilon * shares


def default_epsilons(problem: FrontierRows, rest: ParityPostprocessor) -> FloatArray:
    """Zero, then a geometric progression to the violation of the policy without parity."""
    shares = _proportions(problem)
    shares = np.ones(rest.n_groups_) if shares is None else shares
    binding = shares > 0
    top = float((rest.certificate_.violation[binding] / shares[binding]).max())
    parity, unit = rest.step_.make_parity(), rest.step_.unit
    if top <= rest.tol * unit:
        return np.zeros(1)  # nothing to gain: the scores are at parity as they are
    path = np.append(0.0, np.geomspace(top / REACH, top, N_POINTS - 1))
    # a prior of the user's own puts a floor under the violation; without one it is zero
    rows = problem.rows
    floor = parity.smallest_feasible(mean_imbalance(rows.group_mass(), rest.group_prior_, rows.strata))
    floor = floor * unit
    feasible: FloatArray = path[np.all(np.outer(path, shares) >= floor, axis=1)]
    if len(feasible) == 0:
        worst = int(np.argmax(floor))
        raise ValueError(
            f"group_prior leaves no feasible epsilon where parity binds: group {rest.groups_[worst]!r} needs "
            f"at least {floor[worst]:.6g}. Leave group_prior out to use the mean of group_proba."
        )
    return feasible
