"""ParityPostprocessor: scores and group probabilities in, a policy at parity out."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from sklearn.base import clone

from evenhand._utils.tensor_rows import check_tensors
from evenhand._utils.tensors import gpu_of, is_tensor
from evenhand._utils.typing import FloatArray
from evenhand._utils.validation import (
    Labels,
    Rows,
    check_epsilon,
    check_prior,
    check_rows,
    check_strata,
    column_labels,
)
from evenhand.certificates import Promise, certify
from evenhand.dual.costs import make_cost
from evenhand.dual.grid import Grid, automatic_beta, uniform_grid, warn_of_clipping
from evenhand.dual.parity import ParityNotion
from evenhand.dual.prior import resolve_prior
from evenhand.dual.problem import DualProblem
from evenhand.dual.step import (
    ParityStep,
    choose_beta,
    warn_of_idle_parity,
    warn_of_loose_epsilon,
)
from evenhand.estimators.draws import RandomState, key_from
from evenhand.estimators.floors import keep_floor, with_floor
from evenhand.estimators.judging import (
    Judge,
    JudgedFold,
    confidence_level,
    fold_known_rows,
    is_for_new_people,
)
from evenhand.estimators.known_groups import known_groups_of
from evenhand.estimators.placing import (
    StepRows,
    as_arrays,
    check_device,
    count_outside,
    grid_of,
    parity_of,
    problem_of,
    stays_on_device,
    within_floats,
)
from evenhand.estimators.price import measure_price, warn_of_price
from evenhand.estimators.proving import prove_tolerance
from evenhand.estimators.selection import Selection, count_folds, is_cv, select
from evenhand.estimators.streaming import PartialFit
from evenhand.estimators.tensor_predictions import in_memory
from evenhand.exceptions import PromiseWarning
from evenhand.metrics.measure import ScoredRows
from evenhand.solvers import Callback, Solver, SolverResult, run_and_warn


@dataclass(frozen=True, slots=True, eq=False)
class FrontierRows:
    """The parity step of a model, to be solved again for other tolerances on the same rows."""

    postprocessor: "ParityPostprocessor"  # unfitted, with the model's settings
    rows: Rows
    group_prior: Any
    assemble: Callable[["ParityPostprocessor"], Any]  # fitted post-processor -> model of the user's kind


class ParityPostprocessor(PartialFit):
    """Turn scores into predictions whose distribution is the same for every group, up to epsilon.

    Row x has a score eta(x) and group probabilities tau(x); p is the share of each group and
    `t_s = 1 - tau_s / p_s` the imbalance. Among the policies over the atoms y_l that keep the violation
    `A E[pi(. | X) t_s(X)]` of every group within its epsilon, the fitted one,

        pi(l | x) = softmax_l(beta * (<theta_l, t(x)> - (eta(x) - y_l)^2)),

    has the smallest squared risk (or any other, with `cost`), up to `log(n_atoms) / beta` (paper, Lemmas 3.1
    to 3.3). The group itself is never looked at: its probability is all that is needed.

    Parameters
    ----------
    parity : {"cdf", "pmf", "mean", "tv", "w1", "thresholds"} or ParityNotion, default="cdf"
        What has to agree: "cdf" bounds the Kolmogorov-Smirnov distance between each group's predictions
        and everybody's, "pmf" the difference of the probability of each atom (paper, eq. 2), "mean" the
        difference of the average prediction, in the units of the scores, "tv" the total variation
        distance, and "w1" the Wasserstein-1 distance, in the units of the scores;
        `evenhand.Thresholds([...])` the difference of the shares above these alone, and "thresholds" of that
        above the median of the scores. Others can be added (docs/how-to/extending.md).
    epsilon : float, array of shape (n_groups,) or dict, default=0.05
        Tolerance on the distance of a group to everybody, not to another group (which is up to twice it, and
        what fairlearn tells): one for all groups, one for each, or by group label. Zero is allowed.
    atoms : "auto", "cv", int or array of shape (n_atoms,), default="auto"
        Where predictions live: the atoms in increasing order, or how many to space equally over the bounds.
        "auto" takes `2 floor(sqrt(n)) + 1`, as the paper does, and at most 201; "cv" chooses how many on
        held-out rows, as for beta. With a cost matrix they are its columns, 0, 1, ... unless given.
    bounds : "auto" or (low, high), default="auto"
        Range of the outcomes. "auto" covers the scores seen at fit with a margin of 2 % on each side, but for
        outliers so far off that they would leave nearly everybody on one atom
        (`evenhand.dual.grid.automatic_bounds`). Scores outside are read as the nearest bound, at fit (with a
        warning and a count) and at predict. Atoms of your own need no bounds: without any, no score is moved.
    beta : "auto", "paper", "cv" or float, default="auto"
        Inverse temperature on the scale where the atoms span [-1, 1]: how closely each row's prediction is
        bound to the best one for it. The draw around that adds about `(range of the atoms)^2 / (8 beta)` to
        the risk, whatever epsilon is; a lower beta may keep parity a little better on new rows where few
        were fitted on. "paper" is `sqrt(n) log2(sqrt(n))`, as in the paper's experiments, and what "auto" is
        with its stochastic solvers, which need a smooth problem, and with a cost matrix, where only rows near
        a tie are drawn. Otherwise "auto" is `min(8 n, 10 000)`, or the paper's where that is more, and 20 000
        with `solver="lp"`. "cv" chooses a multiple of `min(8 n, 10 000)`, from 1/64 to 1, on held-out rows
        (`evenhand.estimators.selection.Selection` has the rule): it costs about thirty fits.
    cost : str, cost of `evenhand.costs`, callable or array of shape (n_classes, n_atoms), default="squared"
        What an atom costs a row: "squared", "absolute", "pinball" (`costs.Pinball(alpha)`), "huber"
        (`costs.Huber(delta)`), any `cost(scores, atoms)` that returns an array (n_rows, n_atoms), or a
        matrix of the cost of each atom in each class, where scores are class probabilities. All but the
        squared cost and matrices need memory for n_rows x n_atoms numbers.
    solver : str or solver object, default="auto"
        "auto" is the deterministic "batch"; "lp" solves the linear program too and certifies against it;
        "sgd", "acsa", "acsa2", "sgd3", "sgd3+acsa" and "sgd3+acsa2" are the paper's. See `evenhand.solvers`.
    tol : float, default=1e-6
        Precision of the deterministic solver, on the scale where the atoms span [-1, 1].
    max_iter : int or None, default=None
        Most iterations of the solver, or its budget of gradients; None is the solver's own.
    confidence : "auto", "average", float or None, default="auto"
        Whom epsilon is for. "average": new people of the true groups are expected to see it, on average over
        samples; 0.9, say: they see no more with that probability; None: it holds on the rows of the fit, for
        their given group probabilities, as the paper has it. "auto" is "average" where `fit` is given
        `sensitive_features`, and None otherwise. The step is then solved for a smaller tolerance, which is
        chosen on rows that had no part in it (`evenhand.estimators.judging`). Where that cannot be done there
        is a `PromiseWarning` that says what can be promised. `partial_fit` goes on with that tolerance.
    warm_start : bool, default=False
        Start from the multipliers of the last fit where their shape agrees.
    random_state : int, Generator, RandomState or None, default=None
        Key of the draws of `predict`, and seed of the stochastic solvers. None is a fixed public key: pass
        an integer of your own, and keep it to yourself, where nobody should foresee a draw.
    device : str or None, default=None
        Where `fit` sums over its rows, such as "cuda" (docs/how-to/gpu.md). None: tensors where they are, and
        all else by the compiled loops of the CPU.

    Attributes
    ----------
    atoms_ : array of shape (n_atoms,)
    bounds_ : (low, high)
    beta_ : float
    groups_ : array of shape (n_groups,)
        Labels: the columns' names, or 0, 1, ... for arrays without names; `(stratum, name)` with strata.
    n_groups_ : int
    group_prior_ : array of shape (n_groups,)
    epsilon_ : array of shape (n_groups,)
        What was asked for.
    tolerance_ : array of shape (n_groups,)
        What the step was solved for on its rows; the same where epsilon is for these.
    n_rows_ : int
    multipliers_ : array of shape (n_constraints, n_groups)
        Phi, on the scale where the atoms span [-1, 1].
    tilt_ : array of shape (n_atoms, n_groups)
        `theta = A^T Phi`, on the same scale.
    n_clipped_ : int
        Number of scores that were outside the bounds.
    step_ : ParityStep
        What was asked for, and the scale on which it was solved.
    policy_ : SoftmaxPolicy
    result_ : SolverResult
    certificate_ : Certificate
        What was reached on the given rows, how far it is from the best at most, and what new people are
        promised (`certificate_.promise`), where their groups were known.
    selection_ : Selection
        What was tried on held-out rows; only with "cv".
    stream_ : Stream
        Where the stream of `partial_fit` stands; only after it.

    Examples
    --------
    >>> import numpy as np
    >>> from evenhand import ParityPostprocessor
    >>> rng = np.random.default_rng(0)
    >>> group = rng.random(2000) < 0.3
    >>> scores = rng.normal(np.where(group, 1.0, 2.0), 0.5)
    >>> proba = np.column_stack([1 - 0.8 * group - 0.1, 0.8 * group + 0.1])
    >>> model = ParityPostprocessor(epsilon=0.02).fit(scores, proba)
    >>> model.certificate_.violation.round(2)
    array([0.01, 0.02])
    >>> model.predict(scores[:3], proba[:3]).shape
    (3,)
    """

    selection_: Selection

    def __init__(
        self,
        *,
        parity: str | ParityNotion = "cdf",
        epsilon: Any = 0.05,
        atoms: Any = "auto",
        bounds: Any = "auto",
        beta: Any = "auto",
        cost: Any = "squared",
        solver: Any = "auto",
        tol: float = 1e-6,
        max_iter: int | None = None,
        confidence: Any = "auto",
        warm_start: bool = False,
        random_state: RandomState = None,
        device: Any = None,
    ) -> None:
        self.parity = parity
        self.epsilon = epsilon
        self.atoms = atoms
        self.bounds = bounds
        self.beta = beta
        self.cost = cost
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.confidence = confidence
        self.warm_start = warm_start
        self.random_state = random_state
        self.device = device

    def fit(
        self,
        scores: Any,
        group_proba: Any,
        group_prior: Any = None,
        sample_weight: Any = None,
        *,
        strata: Any = None,
        sensitive_features: Any = None,
        callback: Callback | None = None,
    ) -> Self:
        """Find the policy on rows without labels of any kind; groups that are known serve to judge it.

        A fit that fails leaves the model as it was before.

        Parameters
        ----------
        scores : array of shape (n_rows,)
            eta, the predictions of any regressor; class probabilities (n_rows, n_classes) with a cost matrix.
        group_proba : array or data frame of shape (n_rows, n_groups)
            tau, nonnegative, each row summing to one. Names of columns become the groups' labels.
        group_prior : array of shape (n_groups,) or dict, default=None
            Shares of the groups; the mean of `group_proba` by default, and best left there: any other prior
            puts a floor under the violation, and is refused where that floor is above epsilon.
        sample_weight : array of shape (n_rows,), default=None
        strata : sequence of n_groups labels, default=None
            The stratum of each column: parity is then asked for within each stratum, and a row's columns
            need to sum to at most one there. The column of group s in stratum z holds `P(S = s, Z = z | x)`:
            `1{F = z} P(S = s | x)` for a factor F that is known, `P(S = s, Y = z | x)` for equalised odds;
            for several attributes at once a stratum holds the probabilities of one attribute.
        sensitive_features : array or data frame, default=None
            Groups of the rows, among the columns of `group_proba`, None where one is not known; with strata
            zeros and ones of shape (n_rows, n_groups). With them epsilon is a promise to new people
            (`confidence`).
        callback : callable, default=None
            Called with a `Progress` after every step; stops the solver by returning True.
        """
        check_device(self.device)
        rows = self._read_rows(scores, group_proba, sample_weight, strata)
        asked = check_epsilon(self.epsilon, rows.groups, rows.strata)
        warn_of_loose_epsilon(self.parity, asked, stacklevel=2)
        folds = None
        if is_for_new_people(self.confidence, knows_groups=sensitive_features is not None):
            rows = as_arrays(rows)
            known = known_groups_of(rows, in_memory(sensitive_features), in_memory(sample_weight))
            folds = fold_known_rows(rows, known, seed=0)
        device = gpu_of(scores) if self.device is None else self.device
        self._fit_rows(rows, group_prior, callback, folds, device=device)
        classes = self.policy_.cost.n_classes is not None
        warn_of_price(self.price_, self.atoms_, classes=classes, stacklevel=2)
        return self

    def _fit_rows(
        self,
        rows: StepRows,
        group_prior: Any = None,
        callback: Callback | None = None,
        folds: Sequence[JudgedFold] | None = None,
        calibration: ScoredRows | None = None,
        remedies: Sequence[str] | None = None,
        device: Any = None,
    ) -> Self:
        """Fit on checked rows, whose labels may be of any kind.

        With `folds` epsilon is for new people, with `calibration`, rows set aside, that is proved. A warning
        that this cannot be done names the `remedies`.
        """
        key, solver, n_rows = key_from(self.random_state), self._solver(), len(rows.scores)
        step, selected = self._select(self._plan(rows, solver), rows)
        n_clipped = count_outside(step.grid, rows)
        self._report_clipping(step.grid, n_clipped, n_rows)
        warn_of_idle_parity(step, stacklevel=3)
        given = None if group_prior is None else check_prior(group_prior, rows.groups, rows.strata)
        step = replace(step, group_prior=resolve_prior(given, step, rows.groups, stacklevel=3))
        asked, promise, level = step.epsilon, None, confidence_level(self.confidence)
        if isinstance(rows, Rows):
            step = keep_floor(step, solver, rows)
        if calibration is not None:
            assert level is not None
            assert isinstance(rows, Rows)
            promise = prove_tolerance(step, solver, rows, calibration, level)
        elif folds is not None:
            promise = Judge(step, solver, folds, own_prior=given is not None).promise(level)
        if promise is not None and isinstance(rows, Rows):
            step = keep_floor(replace(step, epsilon=promise.tolerance), solver, rows)
        problem = problem_of(step, rows, self.device if device is None else device)
        result = run_and_warn(solver, problem, self._start(problem, rows), callback)
        others = {"n_clipped_": n_clipped, "draw_key_": key, "epsilon_": asked, **selected}
        others["price_"] = measure_price(step, result.multipliers, within_floats(rows, step.grid))
        self._install_fit(step, problem, result, rows.groups, promise, **others)
        if isinstance(rows, Rows):
            self.certificate_ = with_floor(self.certificate_, self.policy_, rows)
        if promise is not None and not promise.kept:
            told = promise.shortfall(self._remedies() if remedies is None else remedies)
            warnings.warn(told, PromiseWarning, stacklevel=3)
        return self

    def _plan(self, rows: StepRows, solver: Solver[Any]) -> ParityStep:
        """The step that the parameters ask for on these rows, with what is left to "cv" at its start."""
        cost, n_rows = make_cost(self.cost), len(rows.scores)
        # the atoms of a cost matrix are not to be chosen, and its grid says so
        atoms = "auto" if is_cv(self.atoms) and cost.n_classes is None else self.atoms
        if is_cv(self.beta):
            beta = automatic_beta(n_rows)
        else:
            beta = choose_beta(self.beta, cost, n_rows, solver.default_beta(n_rows))
        return ParityStep(
            grid=grid_of(atoms, self.bounds, rows, cost),
            parity=parity_of(self.parity, rows),
            cost=cost,
            group_prior=rows.group_mass(),
            strata=rows.strata,
            epsilon=check_epsilon(self.epsilon, rows.groups, rows.strata),
            beta=beta,
        )

    def _check_settings(self, rows: Rows, n_rows: int, stacklevel: int) -> None:
        """Try the parameters on rows like those to come, of which there will be `n_rows`."""
        step = self._plan(rows, self._solver())
        step.cost.table(rows.scores[:2], step.grid.atoms)  # a function of the user's own may fail
        if is_cv(self.beta) or is_cv(self.atoms):
            count_folds(n_rows)
        warn_of_loose_epsilon(step.parity, step.epsilon, stacklevel + 1)

    def _read_rows(self, scores: Any, group_proba: Any, sample_weight: Any, strata: Any) -> StepRows:
        """Rows to fit on, as a user gives them; tensors stay tensors where nothing looks at single rows."""
        codes, labels, cost = None, None, make_cost(self.cost)
        tensors = is_tensor(scores) or is_tensor(group_proba)
        if strata is not None:
            columns = tuple(range(group_proba.shape[1])) if tensors else column_labels(group_proba)
            codes, labels = check_strata(strata, columns)
        options: dict[str, Any] = {"groups": labels, "strata": codes, "n_classes": cost.n_classes}
        if not tensors:
            return check_rows(scores, group_proba, sample_weight, **options)
        rows = check_tensors(scores, group_proba, sample_weight, **options, work=self.device)
        if is_cv(self.beta) or is_cv(self.atoms) or not stays_on_device(cost):
            return as_arrays(rows)
        return rows

    def _select(self, step: ParityStep, rows: StepRows) -> tuple[ParityStep, dict[str, Selection]]:
        """The step with what is left to "cv" chosen, and how."""
        if not (is_cv(self.beta) or is_cv(self.atoms)) or not isinstance(rows, Rows):
            return step, {}
        found = select(self, rows, step)
        step = replace(step, beta=found.beta)
        if is_cv(self.atoms):
            step = replace(step, grid=uniform_grid(*step.grid.bounds, found.n_atoms))
        return step, {"selection_": found}

    def _install_fit(
        self,
        step: ParityStep,
        problem: DualProblem,
        result: SolverResult,
        groups: Labels,
        promise: Promise | None = None,
        **others: Any,
    ) -> Self:
        """Become the model of a solved problem, all at once."""
        certificate = replace(certify(problem, result, step=step, groups=groups), promise=promise)
        for name in ("price_", "selection_", "stream_", "n_passes_"):  # of an earlier fit
            self.__dict__.pop(name, None)
        fitted = {"n_rows_": problem.n_rows, "result_": result, "certificate_": certificate}
        return self._install(step, result.multipliers, groups, **fitted, **others)

    def _frontier_rows(
        self,
        scores: Any,
        group_proba: Any,
        group_prior: Any = None,
        sample_weight: Any = None,
        *,
        strata: Any = None,
    ) -> FrontierRows:
        """What `evenhand.frontier` solves for many tolerances."""
        rows = as_arrays(self._read_rows(scores, group_proba, sample_weight, strata))
        return FrontierRows(clone(self), rows, group_prior, assemble=lambda fitted: fitted)

    def _report_clipping(self, grid: Grid, n_clipped: int, n_rows: int) -> None:
        automatic = isinstance(self.bounds, str)
        warn_of_clipping(grid, n_clipped, n_rows, automatic=automatic, stacklevel=4)

    def _start(self, problem: DualProblem, rows: StepRows) -> FloatArray | None:
        """The last multipliers, where a warm start is asked for and they fit."""
        last: FloatArray | None = getattr(self, "multipliers_", None)
        if not self.warm_start or last is None or last.shape != problem.multipliers_shape:
            return None
        return last if tuple(self.groups_) == rows.groups else None
