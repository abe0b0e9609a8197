"""Value and gradient of the dual."""

from dataclasses import dataclass

import numpy as np

from evenhand._kernels.softmax import LOG_2
from evenhand._utils.typing import FloatArray
from evenhand.dual.cost_terms import CostModel
from evenhand.dual.problem import DualProblem


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """The dual at one point."""

    value: float  # F(Phi)
    violation: FloatArray  # V = A E[pi t^T], the gradient of the smooth part, (n_constraints, n_groups)
    moments: FloatArray  # E[u pi] of the kept imbalances u, (n_kept, n_atoms)


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
    return Evaluation(smooth + penalty(problem, multipliers), violation, kept)


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
