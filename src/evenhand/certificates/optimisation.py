"""What a solver reached, as numbers that prove it.

Weak duality gives, for any multipliers Phi and any policy on the grid that meets the tolerances,

    risk >= -F_infinity(Phi) = -(E[max_l (<theta_l, t> - c_l)] + sum_s epsilon_s * dualnorm(Phi_s)),

so the multipliers of any solver, exact or not, bound the risk of the best policy from below.
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenhand._kernels.softmax import LOG_2
from evenhand._utils.labels import label_text
from evenhand._utils.markup import cell, html_block
from evenhand._utils.stored import Stored, is_finite
from evenhand._utils.typing import FloatArray
from evenhand.calibration import CalibrationDiagnosis
from evenhand.certificates.out_of_sample import OutOfSample
from evenhand.dual.forms import form_of
from evenhand.dual.objective import duality_gap, penalty, policy_loadings
from evenhand.dual.problem import DualProblem
from evenhand.dual.step import LOOSEST, ParityStep
from evenhand.solvers.result import SolverResult


@dataclass(frozen=True, slots=True, eq=False)
class Certificate(Stored):
    """What the policy of some multipliers does on the rows it was fitted on, and how good that is.

    Its risk is the mean cost of the predictions **against the scores**, such as their squared distance: what
    parity alone costs. No outcome enters, so it is not the error that a user measures. Risks are in squared
    outcome units; violations in probability, or in outcome units for notions about outcomes. It speaks of
    the rows used and of their given scores and group probabilities. For new data, and errors of the
    scores and of the probabilities, only its `promise` speaks.
    """

    parity: str
    groups: tuple[Hashable, ...]
    epsilon: (
        FloatArray  # tolerance of each group on these rows, (n_groups,); see `out_of_sample` for new data
    )
    violation: FloatArray  # norm of V_s, (n_groups,)
    risk: float  # expected cost of the policy, by the scores
    entropic_risk: float  # risk + E[negative entropy of the policy] / beta
    lower_bound: float  # no policy on the grid that meets the tolerances has a smaller risk
    smoothed_gap: float  # entropic_risk + F(Phi): zero at the optimum of the smoothed problem
    smoothing_cost: float  # log(n_atoms) / beta, the most that smoothing can cost
    gradient_map_norm: float  # of the problem's form, step 1 / smoothness, in units of the violation
    excess_norm: float  # distance of V from what is allowed, <= gradient_map_norm (Lemma 3.5)
    risk_bound: float  # the risk is at most this much above the best (Lemma 3.5, see `certify`)
    message: str  # why the solver stopped
    calibration: CalibrationDiagnosis | None = None  # of the group probabilities, where groups are known
    out_of_sample: OutOfSample | None = None  # on new data; None where epsilon is for the rows used

    def faults(self) -> Iterator[str]:
        """A tolerance and a violation for each group."""
        n_groups = len(self.groups)
        if not is_finite(self.epsilon, n_groups) or not is_finite(self.violation, n_groups):
            yield "its tolerances and violations are not one number for each group"
        if not isinstance(self.calibration, CalibrationDiagnosis | None):
            yield "its calibration is not a diagnosis"
        if not isinstance(self.out_of_sample, OutOfSample | None):
            yield "its out_of_sample is not an estimate"

    @property
    def score_distance(self) -> float:
        """What `risk` is: the mean cost of the predictions against the scores, and not against outcomes."""
        return self.risk

    @property
    def excess(self) -> FloatArray:
        """How far each group is above its tolerance, (n_groups,)."""
        return np.maximum(self.violation - self.epsilon, 0.0)

    @property
    def optimality_gap(self) -> float:
        """The risk is at most this much above the smallest one that meets the tolerances."""
        return self.risk - self.lower_bound

    @property
    def relative_gap(self) -> float:
        """The optimality gap as a share of the lower bound; infinite where that is not positive."""
        return self.optimality_gap / self.lower_bound if self.lower_bound > 0 else np.inf

    def _comparison(self) -> str:
        if self.optimality_gap < 0:
            return ", less than parity can cost, since the tolerances are exceeded"
        share = f" ({self.relative_gap:.2%})" if np.isfinite(self.relative_gap) else ""
        return f", at most {self.optimality_gap:.3g}{share} above the best"

    def _sentences(self) -> list[str]:
        """How good the predictions are by the scores, how sure that is, and why the solver stopped."""
        return [
            "The mean cost of the predictions against the scores (`risk`: a distance to the scores, not the "
            f"error against outcomes) is {self.risk:.6g}{self._comparison()}: no predictor with these "
            f"possible predictions that meets the tolerances has less than {self.lower_bound:.6g}.",
            f"The solver is {self.gradient_map_norm:.3g} from an exact solution (norm of the gradient map). "
            "That proves that the excesses over epsilon have at most this norm (they have "
            f"{self.excess_norm:.3g}), and that the cost is at most {self.risk_bound:.3g} above the best, of "
            f"which {self.smoothing_cost:.3g} is for smoothing (Lemma 3.5 of the paper).",
            f"The primal-dual gap of the smoothed problem is {self.smoothed_gap:.3g}. {self.message}",
        ]

    def _repr_html_(self) -> str:
        """A table by group for notebooks, with the same sentences as the text."""
        figures = self.epsilon, self.violation, self.excess
        rows = [
            (label_text(group), *(cell(figure[place], 4) for figure in figures))
            for place, group in enumerate(self.groups)
        ]
        heads = ("Group", "Tolerance (epsilon)", "Distance (violation)", "Beyond it (excess)")
        estimate = () if self.out_of_sample is None else (str(self.out_of_sample),)
        table = html_block(
            f"Parity {self.parity!r} on the rows used", heads, rows, (*estimate, *self._sentences())
        )
        return table if self.calibration is None else table + self.calibration._repr_html_()

    def to_dict(self) -> dict[str, Any]:
        """Plain Python numbers, lists and strings, ready for JSON."""
        return {
            "parity": self.parity,
            "groups": [str(group) for group in self.groups],
            "epsilon": self.epsilon.tolist(),
            "violation": self.violation.tolist(),
            "excess": self.excess.tolist(),
            "risk": self.risk,
            "entropic_risk": self.entropic_risk,
            "lower_bound": self.lower_bound,
            "optimality_gap": self.optimality_gap,
            "relative_gap": self.relative_gap if np.isfinite(self.relative_gap) else None,
            "smoothed_gap": self.smoothed_gap,
            "smoothing_cost": self.smoothing_cost,
            "gradient_map_norm": self.gradient_map_norm,
            "excess_norm": self.excess_norm,
            "risk_bound": self.risk_bound,
            "message": self.message,
            "calibration": None if self.calibration is None else self.calibration.to_dict(),
            "out_of_sample": None if self.out_of_sample is None else self.out_of_sample.to_dict(),
        }

    def __str__(self) -> str:
        """A small table by group and three sentences."""
        return "\n".join(
            [
                *([] if self.out_of_sample is None else [str(self.out_of_sample)]),
                f"Parity {self.parity!r} on the rows used:",
                *_table(self),
                *self._sentences(),
                *([] if self.calibration is None else [str(self.calibration)]),
            ]
        )


def certify(
    problem: DualProblem,
    result: SolverResult,
    *,
    step: ParityStep | None = None,
    groups: Sequence[Hashable] | None = None,
    measures: "PolicyMeasures | None" = None,
) -> Certificate:
    """Certificate of the end point of a solver, from one pass over the rows.

    The bounds are those of Lemma 3.5, for `w = (Lambda, V)`, gradient g of F and gradient map
    `G = min(w / step, g)`:

        sqrt(sum_js (|V_js| - epsilon_s)_+^2) <= |G|
        risk - best risk <= <w, g> + log(m) / beta <= |G| |max(w, step * g)| + log(m) / beta

    The lemma states the second with `|w|` for `|max(w, step * g)|`. Its proof takes the gap
    `risk_beta + F` for `<w, -g>`, but it is `<w, g> = <G, max(w, step * g)>`; a short step makes the
    difference small. The proof uses of the constraints only that they are `|V_js| <= epsilon_s` for
    linear V, so it holds for the rows V = A E[pi t^T] of every sup-norm notion, the first sum being
    the distance of V from those allowed. `evenhand.dual.forms` has the same two for l1 norms. And since
    `risk_beta <= risk`, the best risk is that of any policy that meets the tolerances. Nothing is
    taken from the solver but the multipliers and its message.

    Parameters
    ----------
    problem, result
        What was solved, in normalised units, and the end point.
    step
        The step that the problem is of: numbers are then in the units of its epsilon and of its cost.
    groups
        Names of the groups; their numbers by default.
    measures
        What the policy does, where that is known already; measured on the rows of `problem` by default.

    Examples
    --------
    >>> import numpy as np
    >>> from evenhand.certificates import certify
    >>> from evenhand._utils.validation import Rows
    >>> from evenhand.dual.costs import Squared
    >>> from evenhand.dual.grid import uniform_grid
    >>> from evenhand.dual.step import ParityStep
    >>> from evenhand.solvers import ZeroMultipliers, run
    >>> rows = Rows(np.array([-0.9, 0.9]), np.array([[0.9, 0.1], [0.1, 0.9]]), ("a", "b"), None)
    >>> grid, prior = uniform_grid(-1.0, 1.0, 3), np.array([0.5, 0.5])
    >>> step = ParityStep(grid, "cdf", Squared(), prior, None, epsilon=np.zeros(2), beta=1000.0)
    >>> problem = step.problem(rows)
    >>> certificate = certify(problem, run(ZeroMultipliers(), problem), step=step)
    >>> certificate.violation.round(3)  # zero multipliers: no parity is asked for
    array([0.4, 0.4])
    >>> round(certificate.lower_bound, 3)
    0.01
    """
    names = tuple(range(problem.n_groups)) if groups is None else tuple(groups)
    if len(names) != problem.n_groups:
        raise ValueError(f"groups needs one name per group: got {len(names)} for {problem.n_groups} groups.")
    multipliers = result.multipliers
    policy = measure_policy(problem, multipliers) if measures is None else measures
    form = form_of(problem)
    here = problem, form.split(multipliers), policy.violation, 1.0 / policy.smoothness
    excesses = problem.parity.norm.prox_dual(policy.violation, problem.slack)
    smoothing = np.log(problem.n_atoms) / problem.temperature
    gap = duality_gap(problem, multipliers, policy.violation)
    unit, cost_unit = (1.0, 1.0) if step is None else (step.unit, step.cost_unit)
    return Certificate(
        parity=problem.parity.name,
        groups=names,
        epsilon=unit * problem.slack if step is None or problem.slack.max() < LOOSEST else step.epsilon,
        violation=unit * problem.parity.norm.value(policy.violation),
        risk=cost_unit * policy.risk,
        entropic_risk=cost_unit * (gap - policy.objective),
        lower_bound=cost_unit
        * max(policy.lower_bound, -np.inf if result.exact_risk is None else result.exact_risk),
        smoothed_gap=cost_unit * gap,
        smoothing_cost=cost_unit * float(smoothing),
        gradient_map_norm=unit * float(np.linalg.norm(form.gradient_map(*here))),
        excess_norm=unit * float(np.linalg.norm(excesses)),
        risk_bound=cost_unit * (form.gap_bound(*here) + float(smoothing)),
        message=result.message,
    )


@dataclass(frozen=True, slots=True, eq=False)
class PolicyMeasures:
    """A policy over all the rows, in normalised units."""

    objective: float  # F(Phi)
    violation: FloatArray  # (n_constraints, n_groups)
    risk: float
    lower_bound: float
    shares: FloatArray  # of each atom among all predictions, (n_atoms,)
    smoothness: float  # M of the problem's form, whose inverse is the step of the gradient map


def measure_policy(problem: DualProblem, multipliers: FloatArray) -> PolicyMeasures:
    """What a policy does to the rows of a problem, in one pass, O(chunk) memory.

    Parameters
    ----------
    problem : DualProblem
    multipliers : array of shape (n_constraints, n_groups)
        Phi of the policy, such as `SolverResult.multipliers`; at zeros no parity is asked for.
    """
    found = problem.rows.moments(*policy_loadings(problem, multipliers), whole=True)
    unit = LOG_2 / problem.temperature
    constant = problem.rows.mean_constant()
    of_kept, of_features, of_policy = np.split(found.columns, [problem.n_kept, -1])
    gain = float((of_features * problem.cost.loadings.T).sum() + of_policy[0] @ problem.cost.offset)
    price = penalty(problem, multipliers)
    return PolicyMeasures(
        objective=found.smooth * unit - constant + price,
        violation=problem.parity.operator.apply(of_kept.T @ problem.mixing),
        risk=constant - gain,
        lower_bound=constant - found.peak * unit - price,
        shares=of_policy[0],
        smoothness=form_of(problem).smoothness(problem),
    )


def _table(certificate: Certificate) -> list[str]:
    """Epsilon, violation and excess of each group, in aligned columns."""
    head = ("group", "epsilon", "violation", "excess")
    columns = (certificate.groups, certificate.epsilon, certificate.violation, certificate.excess)
    rows = [
        (str(group), f"{epsilon:.4g}", f"{violation:.6g}", f"{excess:.2g}")
        for group, epsilon, violation, excess in zip(*columns, strict=True)
    ]
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    return [
        "  " + "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])])
        for row in (head, *rows)
    ]
