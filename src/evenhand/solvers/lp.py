"""The exact linear program, through HiGHS: the ground truth for tests and small data.

    min_pi E[sum_l c_l pi_l]   subject to   norm(A E[pi t^T]) <= epsilon_s   (paper, eq. 3, on the rows)

Its variables are the policy of every row, the constraint rows `R = A E[pi u^T]` of the kept
imbalances u, and the violation `V = R mixing` of every group: bounded by its tolerance (sup-norm), or
the difference of two parts >= 0 whose sum is (l1 norm). R enters through an equation as sparse as the
operator allows, so that a cumulated row never becomes dense.
"""

from dataclasses import dataclass
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.optimize import OptimizeResult, linprog

from evenhand._utils.typing import FloatArray
from evenhand.dual.parity import PARITIES, Cumulative, L1Norm, Operator, SupNorm, matrix
from evenhand.dual.problem import DualProblem
from evenhand.dual.rows import stored_rows

MAX_SIZE = 2_000_000  # n_rows * n_atoms; above it HiGHS takes many minutes and gigabytes

TIGHT = 1e-6  # tolerances below this make the simplex method crawl

_INFEASIBLE = 2  # status of scipy.optimize.linprog


@dataclass(frozen=True, slots=True, eq=False)
class LinearProgramSolution:
    """An optimal policy of the linear program, and the multipliers that prove it optimal."""

    risk: float  # the smallest expected cost
    pmf: FloatArray  # an optimal policy, (n_rows, n_atoms)
    multipliers: FloatArray  # Phi, (n_constraints, n_groups): minus the dual at beta = infinity is `risk`
    violation: FloatArray  # V = A E[pi t^T], (n_constraints, n_groups)
    seconds: float  # time in HiGHS


def solve_lp(problem: DualProblem, *, max_size: int = MAX_SIZE) -> LinearProgramSolution:
    """Solve the program of `problem` exactly; beta plays no part.

    Parameters
    ----------
    problem : DualProblem
        With its rows in memory, and a parity whose norm is `SupNorm` or `L1Norm`.
    max_size : int, default=2_000_000
        The most that n_rows * n_atoms may be; a larger program is refused with a `ValueError`.

    Examples
    --------
    >>> import numpy as np
    >>> from evenhand.solvers import solve_lp
    >>> from evenhand import ParityPostprocessor
    >>> from evenhand._utils.validation import Rows
    >>> scores, proba = np.array([-1.0, 1.0]), np.eye(2)
    >>> model = ParityPostprocessor(parity="mean", epsilon=0.0, atoms=[-1.0, 0.0, 1.0]).fit(scores, proba)
    >>> problem = model.step_.step.problem(Rows(scores, proba, ("a", "b"), None))
    >>> round(solve_lp(problem).risk, 6)  # both groups meet half way
    1.0
    """
    _check(problem, max_size)
    arguments = _program(problem)
    begin = perf_counter()
    found = linprog(**arguments, method=_method(problem))
    seconds = perf_counter() - begin
    if found.status != 0:
        raise _failure(problem, found)
    return _solution(problem, found, seconds)


def _check(problem: DualProblem, max_size: int) -> None:
    if not isinstance(problem.parity.norm, SupNorm | L1Norm):
        raise ValueError(
            f"The linear program is written for sup-norm and l1 constraints ({', '.join(PARITIES)}): got "
            f"parity {problem.parity.name!r}. Use the batch solver with a large beta."
        )
    size = problem.n_rows * problem.n_atoms
    if size > max_size:
        raise ValueError(
            f"The linear program is too large: {problem.n_rows} rows x {problem.n_atoms} atoms = {size} "
            f"variables (atoms are the possible predictions), more than max_size = {max_size}. Use the batch "
            "solver with a large beta (its certificate bounds the distance to this program), fewer atoms, or "
            "a subset of the rows."
        )


def _method(problem: DualProblem) -> str:
    """Simplex, unless tolerances near zero make it degenerate (15 s against 1.5 s for three groups)."""
    return "highs-ipm" if problem.slack.min() < TIGHT else "highs-ds"


def _program(problem: DualProblem) -> dict[str, Any]:
    """Arguments of `linprog`: variables pi by rows, R by columns, V or its parts by columns.

    Everything is multiplied by n_rows, so that the coefficients of a row are of order one and the
    absolute tolerances of HiGHS mean something.
    """
    n_rows, n_atoms, n_kept = problem.n_rows, problem.n_atoms, problem.n_kept
    n_constraints = problem.multipliers_shape[0]
    rows = stored_rows(problem.rows, "The linear program")
    weights = n_rows * rows.weights
    differences, selection = _sparse_rows(problem.parity.operator, n_atoms)
    # selection @ E[pi u_k], as a matrix over pi raveled row by row, for every kept column k
    masses = sparse.vstack(
        [sparse.kron(sparse.csr_array((weights * u)[None]), selection) for u in rows.design[:n_kept]]
    )
    identity = sparse.eye_array
    violation = _violation(problem)
    equations = sparse.block_array(
        [
            [sparse.kron(identity(n_rows), np.ones((1, n_atoms))), None, None],
            [masses, -sparse.kron(identity(n_kept), differences), None],
            [None, sparse.kron(problem.mixing.T, identity(n_constraints)), -violation.parts],
        ],
        format="csc",
    )
    free = n_kept * n_constraints
    costs = (weights[:, None] * problem.costs()).ravel()
    bounds = np.empty((n_rows * n_atoms + free, 2))
    bounds[: n_rows * n_atoms] = 0.0, 1.0
    bounds[n_rows * n_atoms :] = -np.inf, np.inf
    before = sparse.csc_array((len(violation.limits), len(bounds)))
    return {
        "c": np.concatenate([costs, np.zeros(free + len(violation.bounds))]),
        "A_eq": equations,
        "b_eq": np.concatenate([np.ones(n_rows), np.zeros(equations.shape[0] - n_rows)]),
        "A_ub": sparse.hstack([before, violation.sums], format="csc"),
        "b_ub": violation.limits,
        "bounds": np.concatenate([bounds, violation.bounds]),
    }


class _Violation(NamedTuple):
    """How V, raveled by columns, is made of variables, and what these may be; times n_rows."""

    parts: Any  # V as a sparse matrix over the variables
    bounds: FloatArray  # (n_variables, 2)
    sums: Any  # sums of variables, sparse (n_sums, n_variables)
    limits: FloatArray  # of the sums


def _violation(problem: DualProblem) -> _Violation:
    n_constraints, n_groups = problem.multipliers_shape
    size = n_constraints * n_groups
    norm = problem.parity.norm
    if isinstance(norm, L1Norm):
        signs = np.array([[1.0, -1.0]])
        return _Violation(
            parts=sparse.kron(signs, sparse.eye_array(size)),
            bounds=np.tile([0.0, np.inf], (2 * size, 1)),
            sums=sparse.kron(
                np.abs(signs), sparse.kron(sparse.eye_array(n_groups), np.ones((1, n_constraints)))
            ),
            limits=problem.n_rows * norm.radius(problem.slack),
        )
    limit = np.repeat(problem.n_rows * problem.slack, n_constraints)
    bounds = np.column_stack([-limit, limit])
    return _Violation(sparse.eye_array(size), bounds, sparse.csc_array((0, size)), np.empty(0))


def _sparse_rows(operator: Operator, n_atoms: int) -> tuple[Any, Any]:
    """Sparse D, E with `D r = E x` exactly when `r = A x`."""
    if isinstance(operator, Cumulative):  # the difference of neighbouring sums is one mass
        inverse = 1.0 / operator.scales
        differences = sparse.diags_array([inverse, -inverse[:-1]], offsets=[0, -1])
        return differences, sparse.eye_array(operator.n_rows, n_atoms)
    return sparse.eye_array(operator.n_rows), sparse.csr_array(matrix(operator))


def _solution(problem: DualProblem, found: OptimizeResult, seconds: float) -> LinearProgramSolution:
    n_constraints, n_groups = problem.multipliers_shape
    pmf = found.x[: problem.n_rows * problem.n_atoms].reshape(problem.n_rows, problem.n_atoms)
    pmf = np.maximum(pmf, 0.0)
    pmf /= pmf.sum(axis=1, keepdims=True)
    weights = stored_rows(problem.rows, "The linear program").weights
    masses = pmf.T @ (weights[:, None] * problem.imbalance())
    # The last equations are R mixing - V = b at b = 0, with norm(V_s) <= epsilon_s. In the Lagrangian
    # `risk - <Phi, V> - penalty` a shift of V by -b raises the optimum by <Phi, b>: the marginals are Phi.
    marginals = found.eqlin.marginals[-n_constraints * n_groups :]
    return LinearProgramSolution(
        risk=float(weights @ (pmf * problem.costs()).sum(axis=1)),
        pmf=pmf,
        multipliers=np.ascontiguousarray(marginals.reshape(n_groups, n_constraints).T),
        violation=problem.parity.operator.apply(masses),
        seconds=seconds,
    )


def _failure(problem: DualProblem, found: OptimizeResult) -> Exception:
    if found.status != _INFEASIBLE:
        return RuntimeError(f"HiGHS stopped without a solution of the linear program: {found.message}")
    means = stored_rows(problem.rows, "The linear program").weights @ problem.imbalance()
    shown = ", ".join(f"{mean:.3g}" for mean in means)
    return ValueError(
        "No predictor with these possible predictions (atoms) meets the tolerances on these rows. The mean "
        "imbalance of the groups is "
        f"({shown}) and epsilon is ({', '.join(f'{value:.3g}' for value in problem.slack)}): a mean that is "
        "not zero comes from a group_prior that is not the mean of group_proba. Leave group_prior at its "
        "default or raise epsilon."
    )
