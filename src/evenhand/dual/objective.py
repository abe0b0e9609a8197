"""Value, gradient and curvature of the dual, and the constants of the paper's lemmas."""

from dataclasses import dataclass

import numpy as np

from evenhand._kernels.chunks import map_chunks
from evenhand._kernels.softmax import LOG_2, curvature, moments, variances_into
from evenhand._utils.typing import FloatArray
from evenhand.dual.costs import CostModel
from evenhand.dual.parity import Functional
from evenhand.dual.problem import DualProblem


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """The dual at one point."""

    value: float  # F(Phi)
    violation: FloatArray  # V = A E[pi t^T], the gradient of the smooth part, (n_constraints, n_groups)


def logit_loadings(
    tilt: FloatArray, mixing: FloatArray, cost: CostModel, temperature: float
) -> tuple[FloatArray, FloatArray]:
    """Loadings (n_atoms, n_design) and offset (n_atoms,) of `beta (<theta_l, t> - c_l)`, in log 2."""
    scale = temperature / LOG_2
    loadings = np.concatenate([tilt @ mixing.T, cost.loadings], axis=1)
    return np.ascontiguousarray(loadings * scale), cost.offset * scale


def policy_loadings(problem: DualProblem, multipliers: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Loadings and offset of the policy of Phi."""
    tilt = problem.parity.operator.adjoint(multipliers)
    return logit_loadings(tilt, problem.mixing, problem.cost, problem.temperature)


def evaluate(problem: DualProblem, multipliers: FloatArray) -> Evaluation:
    """F(Phi) and the gradient of its smooth part, in one pass over the rows.

    A `moment_shift` adds its linear term, `<A^T Phi, shift^T mixing>`.
    """
    loadings, offset = policy_loadings(problem, multipliers)

    def run(start: int, stop: int) -> tuple[float, FloatArray, float]:
        result: tuple[float, FloatArray, float] = moments(
            problem.design, problem.weights, loadings, offset, problem.n_kept, start, stop
        )
        return result

    total = 0.0
    kept = np.zeros((problem.n_kept, problem.n_atoms))  # E[u pi]
    for value, moment, _ in map_chunks(run, problem.n_rows, problem.n_atoms):
        total += value
        kept += moment
    smooth = total * LOG_2 / problem.temperature - problem.mean_constant()
    if problem.moment_shift is not None:
        kept += problem.moment_shift
        tilt = problem.parity.operator.adjoint(multipliers)
        smooth += float((tilt * (problem.moment_shift.T @ problem.mixing)).sum())
    violation = problem.parity.operator.apply(kept.T @ problem.mixing)
    return Evaluation(smooth + penalty(problem, multipliers), violation)


def penalty(problem: DualProblem, multipliers: FloatArray) -> float:
    """`sum_s epsilon_s * dualnorm(Phi_s)`."""
    return float(problem.slack @ problem.parity.norm.dual(multipliers))


def duality_gap(problem: DualProblem, multipliers: FloatArray, violation: FloatArray) -> float:
    """`R_beta(pi) + F(Phi) = penalty(Phi) + <Phi, V>`: zero at the optimum, negative off the constraint."""
    return penalty(problem, multipliers) + float((multipliers * violation).sum())


def optimality_error(problem: DualProblem, multipliers: FloatArray, now: Evaluation) -> float:
    """The larger of the worst violation beyond epsilon and the size of the primal-dual gap."""
    excess = float((problem.parity.norm.value(now.violation) - problem.slack).max())
    return max(excess, abs(duality_gap(problem, multipliers, now.violation)))


def hessian(problem: DualProblem, multipliers: FloatArray) -> FloatArray:
    """Hessian of the smooth part over Phi raveled group by group, (n_groups * n_constraints,) squared.

    `beta * A E[t_s t_r (diag(pi) - pi pi^T)] A^T` for each pair of groups. Probabilities under 1e-9
    are left out: it is a metric for steps, not a number to report.
    """
    loadings, offset = policy_loadings(problem, multipliers)
    if isinstance(problem.parity.operator, Functional):
        return _functional_hessian(problem, problem.parity.operator, loadings, offset)

    def run(start: int, stop: int) -> tuple[FloatArray, FloatArray]:
        result: tuple[FloatArray, FloatArray] = curvature(
            problem.design, problem.weights, loadings, offset, problem.n_kept, start, stop
        )
        return result

    n_pairs = problem.n_kept * (problem.n_kept + 1) // 2
    outer = np.zeros((n_pairs, problem.n_atoms, problem.n_atoms))
    mass = np.zeros((n_pairs, problem.n_atoms))
    for part_outer, part_mass in map_chunks(run, problem.n_rows, 4 * problem.n_atoms):
        outer += part_outer
        mass += part_mass
    return problem.temperature * _group_blocks(problem, outer, mass)


def hessian_work(problem: DualProblem) -> int:
    """What a row costs in a Hessian, in steps of the innermost loop."""
    n_pairs = problem.n_kept * (problem.n_kept + 1) // 2
    is_functional = isinstance(problem.parity.operator, Functional)
    return problem.n_atoms + n_pairs if is_functional else problem.n_atoms * n_pairs


def _functional_hessian(
    problem: DualProblem, operator: Functional, loadings: FloatArray, offset: FloatArray
) -> FloatArray:
    """`beta * E[t_s t_r Var_pi(a)]`: of one functional a of the policy, its variance says all of a row.

    Blocks over atoms would be n_atoms^2 times as large, 400 MB for 50 groups.
    """
    design, n_kept = problem.design, problem.n_kept

    def run(start: int, stop: int) -> FloatArray:
        rows = np.ascontiguousarray(design[:, start:stop])
        spread = np.empty(stop - start)
        variances_into(spread, rows, loadings, offset, operator.weights, 0, stop - start)
        kept = rows[:n_kept]
        part: FloatArray = (kept * (problem.weights[start:stop] * spread)) @ kept.T
        return part

    total = np.zeros((n_kept, n_kept))
    for part in map_chunks(run, problem.n_rows, 2 * problem.n_atoms):
        total += part
    return problem.temperature * (problem.mixing.T @ total @ problem.mixing)


def _group_blocks(problem: DualProblem, outer: FloatArray, mass: FloatArray) -> FloatArray:
    """Blocks over pairs of kept imbalances -> the matrix over groups and constraint rows."""
    n_constraints, n_groups = problem.multipliers_shape
    operator = problem.parity.operator
    out = np.zeros((n_groups, n_constraints, n_groups, n_constraints))
    pairs = [(s, t) for s in range(problem.n_kept) for t in range(s, problem.n_kept)]
    for (s, t), upper, diagonal in zip(pairs, outer, mass, strict=True):
        above = np.triu(upper, 1)
        block = -(above + above.T)
        np.fill_diagonal(block, diagonal - np.diag(upper))
        block = operator.apply(operator.apply(block).T)
        share = np.outer(problem.mixing[s], problem.mixing[t])
        if s != t:
            share = share + share.T
        out += share[:, None, :, None] * block[None, :, None, :]
    return out.reshape(n_groups * n_constraints, n_groups * n_constraints)
