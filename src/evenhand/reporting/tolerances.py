"""Other tolerances: the parity step solved again, and judged on rows that had no part in it."""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenhand._utils.progress import report_progress
from evenhand._utils.typing import FloatArray, IntArray
from evenhand.estimators.postprocessor import ParityPostprocessor
from evenhand.evaluation.frontier import frontier
from evenhand.evaluation.paths import NO_LIMIT, FrontierPoint, default_epsilons, fit_without_parity
from evenhand.exceptions import EvenhandWarning
from evenhand.metrics import Measures, ScoredRows

MOST_SOLVED = 20_000  # rows of a half that the parity step is solved on: more move the answer little
FEWEST_SOLVED = 2_000  # of a wide problem, where the next limit would leave fewer
MOST_ENTRIES = 12_000_000  # rows x atoms x groups of a problem
WIDE = 500  # multipliers; a dense Newton step of more takes minutes with tens of groups
# Three digits of a gap are all that a page shows.
WIDE_SOLVER = {"solver": "lbfgs", "tol": 1e-3, "max_iter": 200}
N_TOLERANCES = 13  # beside the model's own
N_WIDE = 7
FEWEST_ROWS = 40  # a half of fewer says nothing
SEED = 0


@dataclass(frozen=True, slots=True, eq=False)
class Tolerance:
    """One position of the slider."""

    epsilon: float
    measures: Measures
    fitted: bool  # the model as it is, and not the parity step solved again
    converged: bool = True


def own_tolerance(postprocessor: ParityPostprocessor) -> float:
    """What the model's parity step was solved for on its rows: that of the group with the largest one."""
    return float(postprocessor.tolerance_.max())


def solve_again(
    postprocessor: ParityPostprocessor, rows: ScoredRows, n_tolerances: int | None
) -> list[Tolerance]:
    """The parity step at other tolerances, each half of the rows judging what the other half gave.

    Models of the outcome and of the group, atoms and beta stay those of the fit. No outcome and no group
    has a part in the solutions.

    Parameters
    ----------
    postprocessor : ParityPostprocessor
        Fitted.
    rows : ScoredRows
    n_tolerances : int or None
        How many, beside the model's own; None: 13, or 7 where groups and atoms are many.
    """
    if len(rows.scores) < FEWEST_ROWS:
        raise ValueError(f"there are {len(rows.scores)} rows, and other tolerances take {FEWEST_ROWS}.")
    template = step_template(postprocessor)
    halves = split_halves(rows.members.codes)
    size = rows_to_solve(postprocessor, len(rows.scores))
    solved_on = [_fit_arguments(rows, half, size, postprocessor.policy_.strata) for half in halves]
    if n_tolerances is None:
        n_tolerances = N_WIDE if is_wide(postprocessor) else N_TOLERANCES
    epsilons = _epsilons(template, solved_on[0], n_tolerances, own_tolerance(postprocessor))
    points: list[list[FrontierPoint]] = []
    measures: list[list[Measures]] = []
    for given, judges in zip(solved_on, halves[::-1], strict=True):
        points.append(_solve(template, given, epsilons))
        done = len(measures) * len(epsilons)
        measures.append(list(_judge(points[-1], rows.take(judges), done, 2 * len(epsilons))))
    return [
        Tolerance(
            epsilon=first.epsilon,
            measures=one + other,
            fitted=False,
            converged=first.status.success and second.status.success,
        )
        for first, second, one, other in zip(*points, *measures, strict=True)
    ]


def step_template(fitted: ParityPostprocessor) -> ParityPostprocessor:
    """The same parity step, unfitted, with nothing left to chance or to the number of rows."""
    epsilon = fitted.epsilon_
    settings = fitted.get_params() | {
        # In the order of the columns: rows without names cannot be told by the labels of a dict.
        "epsilon": float(epsilon[0]) if (epsilon == epsilon[0]).all() else epsilon,
        "atoms": fitted.atoms_,
        "bounds": "auto" if np.isinf(fitted.bounds_).any() else fitted.bounds_,
        "beta": fitted.beta_,
        "confidence": None,
        "warm_start": False,
    }
    if is_wide(fitted):
        settings |= WIDE_SOLVER
    return ParityPostprocessor(**settings)


def is_wide(fitted: ParityPostprocessor) -> bool:
    """Whether multipliers are so many that a dense Newton step takes long."""
    return fitted.multipliers_.size > WIDE


def rows_to_solve(fitted: ParityPostprocessor, n_rows: int) -> int:
    """Rows of a half that its parity step is solved on."""
    affordable = max(FEWEST_SOLVED, MOST_ENTRIES // fitted.tilt_.size)
    return min((n_rows + 1) // 2, MOST_SOLVED, affordable)


def split_halves(codes: IntArray) -> list[IntArray]:
    """Two random halves in which every group has the same number of rows, give or take one."""
    order = np.random.default_rng(SEED).permutation(len(codes))
    by_group = order[np.argsort(codes[order], kind="stable")]
    return [np.sort(by_group[0::2]), np.sort(by_group[1::2])]


def _fit_arguments(rows: ScoredRows, half: IntArray, size: int, strata: Any) -> dict[str, Any]:
    """What `ParityPostprocessor.fit` takes, of no more rows than it needs."""
    if len(half) > size:
        half = np.random.default_rng(SEED).choice(half, size, replace=False)
    weights = rows.members.weights if rows.members.has_weights else None
    return {
        "scores": rows.scores[half],
        "group_proba": rows.group_proba[half],
        "sample_weight": None if weights is None else weights[half],
        "strata": strata,
    }


def _epsilons(
    template: ParityPostprocessor, given: dict[str, Any], n_tolerances: int, own: float
) -> FloatArray:
    """From exact parity to where it costs nothing, without the model's own tolerance."""
    problem = template._frontier_rows(**given)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EvenhandWarning)
        path = default_epsilons(problem, fit_without_parity(problem, NO_LIMIT))
    wanted = path
    if len(path) > 1:
        wanted = np.append(path[0], np.geomspace(path[1], path[-1], max(2, n_tolerances - 1)))
    others: FloatArray = wanted[np.abs(wanted - own) > 1e-3 * own]
    return others


def _solve(template: ParityPostprocessor, given: dict[str, Any], epsilons: FloatArray) -> list[FrontierPoint]:
    with warnings.catch_warnings():
        # The page says itself which tolerances were not reached.
        warnings.simplefilter("ignore", EvenhandWarning)
        return list(frontier(template, epsilons=epsilons, **given).points)


def _judge(points: list[FrontierPoint], rows: ScoredRows, done: int, total: int) -> Iterator[Measures]:
    for step, point in enumerate(points, start=1):
        yield rows.measure(point.model.policy_)
        report_progress("other tolerances", done + step, total)
