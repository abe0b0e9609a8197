"""Plan, solve and finish a parity step, for all models.

`StepPlan` holds the resolved and checked parameters. `fit_step` solves the step on rows. `finish` computes
everything that is reported about a solved step; no other function does.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from evenhand._utils.stored import Stored, is_count, is_finite
from evenhand._utils.typing import FloatArray, IntArray
from evenhand._utils.validation import Labels, Rows, check_epsilon, check_prior
from evenhand._utils.warn import warn_user
from evenhand.backends.rows import (
    StepRows,
    as_arrays,
    check_device,
    count_outside,
    grid_of,
    parity_of,
    problem_of,
    within_floats,
)
from evenhand.calibration import CalibrationDiagnosis
from evenhand.certificates import Certificate, OutOfSample, PolicyMeasures, certify
from evenhand.certificates.optimisation import measure_policy
from evenhand.data.draws import HashArray, RandomState, key_from
from evenhand.dual.costs import Cost, make_cost
from evenhand.dual.floors import RateFloor, bonus_paid, group_rates, least_bonus
from evenhand.dual.grid import warn_of_clipping
from evenhand.dual.parity import ParityNotion
from evenhand.dual.policy import SoftmaxPolicy
from evenhand.dual.prior import resolve_prior
from evenhand.dual.problem import DualProblem
from evenhand.dual.step import ParityStep, choose_beta, warn_of_idle_parity, warn_of_loose_epsilon
from evenhand.estimators.price import Price, measure_price
from evenhand.exceptions import ToleranceWarning
from evenhand.generalization.out_of_sample import (
    Evaluation,
    HeldOutRows,
    OutOfSampleEstimator,
    confidence_level,
    is_for_new_data,
)
from evenhand.generalization.proved import prove_tolerance
from evenhand.generalization.tolerance import search_tolerance
from evenhand.metrics.distances import find_distance
from evenhand.metrics.measure import ScoredRows, policy_blocks
from evenhand.solvers import Callback, Solver, SolverResult, Status, make_solver, run, run_and_warn

REMEDIES = ("better calibrated group probabilities",)
PRECISION = 0.02  # of a solve that is only evaluated, as a fraction of epsilon


class Parameters(Protocol):
    """The parameters of a parity step, as the user passes them."""

    parity: str | ParityNotion
    epsilon: Any
    atoms: Any
    bounds: Any
    beta: Any
    cost: Any
    solver: Any
    tol: float
    max_iter: int | None
    confidence: Any
    random_state: RandomState
    device: Any


@dataclass(frozen=True, slots=True, eq=False)
class StepPlan:
    """The parameters of a parity step, resolved and checked for its groups; only the rows are missing."""

    parity: str | ParityNotion
    epsilon: FloatArray  # requested tolerances, in the user's units, (n_groups,)
    groups: Labels
    strata: IntArray | None  # stratum of each group, as in `ImbalanceModel`
    atoms: Any
    bounds: Any
    beta: Any
    cost: Cost
    solver: Solver[Any]
    tol: float
    for_new_data: bool  # epsilon is for new data, not for the rows of the step
    level: float | None  # probability with which epsilon must hold; None: on average
    draw_key: HashArray
    device: Any
    group_prior: FloatArray | None = None  # given by the user; None: the mean of the group probabilities
    remedies: Sequence[str] = REMEDIES  # what a user of the model can do if epsilon is out of reach

    @classmethod
    def of(
        cls,
        parameters: Parameters,
        groups: Labels,
        strata: IntArray | None,
        *,
        group_prior: Any = None,
        knows_groups: bool = False,
    ) -> "StepPlan":
        """Resolve and check everything that does not depend on the rows."""
        check_device(parameters.device)
        solver = make_solver(
            parameters.solver,
            tol=parameters.tol,
            max_iter=parameters.max_iter,
            random_state=parameters.random_state,
        )
        return cls(
            parity=parameters.parity,
            epsilon=check_epsilon(parameters.epsilon, groups, strata),
            groups=groups,
            strata=strata,
            atoms=parameters.atoms,
            bounds=parameters.bounds,
            beta=parameters.beta,
            cost=make_cost(parameters.cost),
            solver=solver,
            tol=parameters.tol,
            for_new_data=is_for_new_data(parameters.confidence, knows_groups=knows_groups),
            level=confidence_level(parameters.confidence),
            draw_key=key_from(parameters.random_state),
            device=parameters.device,
            group_prior=None if group_prior is None else check_prior(group_prior, groups, strata),
        )

    def step(self, rows: StepRows) -> ParityStep:
        """Return the step for these rows, with the mean of their group probabilities as the prior."""
        n_rows = len(rows.scores)
        return ParityStep(
            grid=grid_of(self.atoms, self.bounds, rows, self.cost),
            parity=parity_of(self.parity, rows),
            cost=self.cost,
            group_prior=rows.group_mass(),
            strata=self.strata,
            epsilon=self.epsilon,
            beta=choose_beta(self.beta, self.cost, n_rows, self.solver.default_beta(n_rows)),
        )

    def try_on(self, rows: Rows) -> None:
        """Check the parameters on similar rows before any model is fitted."""
        step = self.step(rows)
        step.cost.table(rows.scores[:2], step.grid.atoms)  # a user-defined cost function may fail
        warn_of_loose_epsilon(step.parity, step.epsilon)

    def warn_of_clipping(self, step: ParityStep, n_clipped: int, n_rows: int) -> None:
        """Warn if scores are outside the bounds."""
        warn_of_clipping(step.grid, n_clipped, n_rows, automatic=isinstance(self.bounds, str))


@dataclass(frozen=True, slots=True, eq=False)
class SolvedStep:
    """A parity step, its problem, and the result of the solver."""

    step: ParityStep
    problem: DualProblem
    result: SolverResult
    n_clipped: int = 0  # number of scores that were outside the bounds
    measures: PolicyMeasures | None = None  # measures of all rows, if the rows were not stored


@dataclass(frozen=True, slots=True, eq=False)
class FittedStep(Stored):
    """A solved parity step and everything that is reported about it."""

    step: ParityStep  # with the tolerance for which it was solved
    multipliers: FloatArray  # Phi, on the scale where the atoms span [-1, 1]
    epsilon: FloatArray  # requested tolerances, (n_groups,)
    groups: Labels
    draw_key: HashArray
    n_rows: int
    n_clipped: int = 0  # number of scores that were outside the bounds
    n_passes: int | None = None  # number of passes over the rows of a table on a cluster
    result: SolverResult | None = None  # this and the next two are None for a stream of too few rows
    certificate: Certificate | None = None
    price: Price | None = None
    policy: SoftmaxPolicy = field(init=False)

    def __post_init__(self) -> None:
        """Set the policy, which follows from the step and its multipliers."""
        object.__setattr__(self, "policy", self.step.policy(self.multipliers))

    def faults(self) -> Iterator[str]:
        """Check the tolerances, labels, multipliers and counts, the key of the draws and the results."""
        n_constraints, n_groups = self.step.resolved.operator.n_rows, len(self.step.group_prior)
        if not is_finite(self.multipliers, n_constraints, n_groups):
            yield "its multipliers do not have the shape of its atoms and groups"
        if not is_finite(self.epsilon, n_groups) or not np.all(self.epsilon >= 0):
            yield "its tolerances are not one number for each group"
        key = self.draw_key
        if not isinstance(key, np.ndarray) or key.dtype != np.uint64 or key.shape != (2,):
            yield "its draw_key is not two 64-bit integers"
        if type(self.groups) is not tuple or len(self.groups) != n_groups:
            yield f"its groups are not {n_groups} labels"
        elif self.step.strata is not None and not all(
            type(label) is tuple and len(label) == 2 for label in self.groups
        ):
            yield "its groups are not pairs of a stratum and a group"
        if not is_count(self.n_rows, 1) or not is_count(self.n_clipped):
            yield "its counts of rows are not whole numbers from 0 on"
        parts = (self.result, SolverResult), (self.certificate, Certificate), (self.price, Price)
        if not all(part is None or isinstance(part, cls) for part, cls in parts):
            yield "its result, its certificate or its price has the wrong type"
        if (fault := next(self.policy.faults(), None)) is not None:
            yield fault


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """Rows with known group, on which a step is evaluated."""

    held_out: HeldOutRows | None = None  # to estimate what the step comes to on new data
    calibration: ScoredRows | None = None  # rows that were set aside, to prove it
    diagnosis: CalibrationDiagnosis | None = None  # of the group probabilities


def fit_step(
    plan: StepPlan,
    rows: StepRows,
    evidence: Evidence | None = None,
    *,
    start: FittedStep | None = None,
    callback: Callback | None = None,
) -> FittedStep:
    """Solve the step on rows; with evidence, for the tolerance that keeps epsilon on new data.

    The solver starts at the multipliers of `start` if groups and atoms agree.
    """
    evidence = evidence or Evidence()
    step = plan.step(rows)
    n_clipped = count_outside(step.grid, rows)
    plan.warn_of_clipping(step, n_clipped, len(rows.scores))
    warn_of_idle_parity(step)
    step = replace(step, group_prior=resolve_prior(plan.group_prior, step, plan.groups))
    step = keep_floor(step, plan.solver, rows)
    out_of_sample = _evaluate(plan, step, rows, evidence)
    if out_of_sample is not None:
        step = keep_floor(replace(step, epsilon=out_of_sample.tolerance), plan.solver, rows)
    problem = problem_of(step, rows, plan.device)
    result = run_and_warn(plan.solver, problem, _start(start, problem, plan.groups), callback)
    solved = SolvedStep(step, problem, result, n_clipped)
    fitted = finish(plan, solved, rows, diagnosis=evidence.diagnosis, out_of_sample=out_of_sample)
    if out_of_sample is not None and not out_of_sample.kept:
        warn_user(out_of_sample.shortfall(plan.remedies), ToleranceWarning)
    return fitted


def _evaluate(plan: StepPlan, step: ParityStep, rows: StepRows, evidence: Evidence) -> OutOfSample | None:
    """Find the tolerance that keeps epsilon on new data; None: epsilon is for the rows of the step."""
    if evidence.calibration is not None:
        assert plan.level is not None
        return prove_tolerance(step, plan.solver, as_arrays(rows), evidence.calibration, plan.level)
    if evidence.held_out is None:
        return None
    return _estimate(plan, step, as_arrays(rows), evidence.held_out)


def _estimate(plan: StepPlan, step: ParityStep, rows: Rows, held_out: HeldOutRows) -> OutOfSample:
    """The largest tolerance on the rows at which new data are expected to show epsilon."""
    estimator = OutOfSampleEstimator(step, rows, held_out)
    solver, start = plan.solver.loosened(PRECISION * step.slack.max()), list[FloatArray]()

    def evaluate(fractions: FloatArray) -> Evaluation:
        tried = keep_floor(replace(step, epsilon=fractions * step.epsilon), solver, rows)
        result = run(solver, tried.problem(rows), start=start[-1] if start else None)
        if result.status is Status.STOPPED:  # by an interrupt
            raise KeyboardInterrupt
        start.append(result.multipliers)
        return estimator.evaluate(tried.policy(result.multipliers))

    found = search_tolerance(evaluate, step.epsilon, plan.level)
    new = found.evaluation
    every = np.ones(len(step.epsilon), bool)
    ratio = new.ratio(step.epsilon, plan.level, every)
    return OutOfSample(
        groups=plan.groups,
        epsilon=step.epsilon,
        tolerance=found.fractions * step.epsilon,
        measured=new.measured,
        noise=new.noise,
        expected=new.expected,
        bound=new.bound(plan.level),
        confidence=plan.level,
        ratio=ratio,
        n_rows=held_out.n_rows,
        rows_needed=None if ratio <= 1.0 else estimator.rows_needed(new, plan.level),
        systematic=new.systematic,
        strata=step.strata is not None,
        distance=find_distance(step.parity).phrase,
    )


def finish(
    plan: StepPlan,
    solved: SolvedStep,
    sample: StepRows,
    *,
    diagnosis: CalibrationDiagnosis | None = None,
    out_of_sample: OutOfSample | None = None,
) -> FittedStep:
    """Compute the certificate on all rows of a problem, and the price on the rows that are in memory."""
    step, problem, result = solved.step, solved.problem, solved.result
    measures = solved.measures or measure_policy(problem, result.multipliers)
    certificate = certify(problem, result, step=step, groups=plan.groups, measures=measures)
    price = measure_price(step, result.multipliers, within_floats(sample, step.grid))
    certificate = _with_floor(certificate, step.cost, price, measures)
    return FittedStep(
        step=step,
        multipliers=result.multipliers,
        epsilon=plan.epsilon,
        groups=plan.groups,
        draw_key=plan.draw_key,
        n_rows=problem.n_rows,
        n_clipped=solved.n_clipped,
        result=result,
        certificate=replace(certificate, out_of_sample=out_of_sample, calibration=diagnosis),
        price=price,
    )


def _start(start: FittedStep | None, problem: DualProblem, groups: Labels) -> FloatArray | None:
    """Return the multipliers of an earlier step if it has the same groups and as many atoms."""
    if start is None or start.multipliers.shape != problem.multipliers_shape or start.groups != groups:
        return None
    return start.multipliers


def _with_floor(certificate: Certificate, cost: Cost, price: Price, measures: PolicyMeasures) -> Certificate:
    """Turn the certificate of the problem with the bonus into that of the problem with the rate floor.

    Any policy at parity has `risk - bonus * rate >= lower bound`. If it keeps the floor, its rate is at least
    the floor, so its risk is at least `lower bound + bonus * floor`.
    """
    if not isinstance(cost, RateFloor) or cost.bonus == 0.0:
        return certificate
    before, _ = price.rates(cost.places)
    earned = cost.bonus * (before if isinstance(cost.least, str) else float(cost.least))
    paid = bonus_paid(cost, measures.shares)
    return replace(
        certificate,
        risk=certificate.risk + paid,
        entropic_risk=certificate.entropic_risk + paid,
        lower_bound=certificate.lower_bound + earned,
        risk_bound=certificate.risk_bound + paid - earned,
    )


def keep_floor(step: ParityStep, solver: Solver[Any], given: StepRows) -> ParityStep:
    """Return the step with the smallest bonus that keeps the rate floor of its cost, if it has one.

    The bonus is the multiplier of the floor, so for a floor under the overall rate the step is optimal among
    those that keep parity and the floor. One common bonus is also used for a floor in each group (`EACH`):
    this is optimal for epsilon zero, and close to optimal otherwise.
    """
    cost = step.cost
    if not isinstance(cost, RateFloor):
        return step
    rows = as_arrays(given)
    wanted = cost.wanted(rates_before(cost, step.grid.atoms, rows))
    start: list[FloatArray] = []

    def short(bonus: float) -> float:
        tried = replace(step, cost=replace(cost, bonus=bonus))
        result = run(solver, tried.problem(rows), start=start[-1] if start else None)
        if result.status is Status.STOPPED:
            raise KeyboardInterrupt
        start.append(result.multipliers)
        return float((rates_after(tried.policy(result.multipliers), rows) - wanted).min())

    bonus = least_bonus(short, cost.unit(step.grid))
    return replace(step, cost=replace(cost, bonus=float(bonus)))


def rates_before(cost: RateFloor, atoms: FloatArray, rows: Rows) -> FloatArray:
    """Return the selection rate of each group, and last of all rows, without parity."""
    chosen = np.isin(cost.cheapest(rows.scores, atoms), cost.places).astype(np.float64)
    return group_rates(chosen, rows.group_proba, rows.weights)


def rates_after(policy: SoftmaxPolicy, rows: Rows) -> FloatArray:
    """Return the selection rate of each group, and last of all rows, for a policy whose cost has a floor."""
    assert isinstance(policy.cost, RateFloor)
    chances, places = np.empty(len(rows.scores)), list(policy.cost.places)
    for some, pmf in policy_blocks(policy, rows.scores, rows.group_proba):
        chances[some] = pmf[:, places].sum(axis=1)
    return group_rates(chances, rows.group_proba, rows.weights)
