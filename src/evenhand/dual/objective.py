"""Value, gradient and curvature of the dual, and the constants of the paper's lemmas."""

from dataclasses import dataclass

import numpy as np

from evenhand._kernels.softmax import LOG_2
from evenhand._utils.typing import FloatArray
from evenhand.dual.cost_terms import CostModel
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
    found = problem.rows.moments(*policy_loadings(problem, multipliers))
    kept = found.columns  # E[u pi]
    smooth = found.smooth * LOG_2 / problem.temperature - problem.rows.mean_constant()
    if problem.moment_shift is not None:
        kept = kept + problem.moment_shift
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
    operator = problem.parity.operator
    if isinstance(operator, Functional):
        # Of one functional a of the policy the variance says all of a row, `beta * E[t_s t_r Var_pi(a)]`:
        # blocks over atoms would be n_atoms^2 times as large, 400 MB for 50 groups.
        total = problem.rows.variances(loadings, offset, operator.weights)
        return problem.temperature * (problem.mixing.T @ total @ problem.mixing)
    outer, mass = problem.rows.curvature(loadings, offset)
    return problem.temperature * _group_blocks(problem, outer, mass)


def hessian_work(problem: DualProblem) -> int:
    """What a row costs in a Hessian, in steps of the innermost loop."""
    n_pairs = problem.n_kept * (problem.n_kept + 1) // 2
    is_functional = isinstance(problem.parity.operator, Functional)
    return problem.n_atoms + n_pairs if is_functional else problem.n_atoms * n_pairs


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
