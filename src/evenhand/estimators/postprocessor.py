"""`ParityPostprocessor`: the parity step for scores and group probabilities of any model."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from evenhand._kernels.blas import one_blas_thread
from evenhand._utils.stored import Stored
from evenhand._utils.tensors import gpu_of
from evenhand._utils.typing import FloatArray
from evenhand._utils.validation import Rows, check_levels, check_rows_of, check_strata, column_labels
from evenhand.backends.rows import as_arrays, in_memory, predict, read_rows
from evenhand.data.draws import RandomState, choose_uniforms
from evenhand.data.groups import read_known_groups
from evenhand.dual.costs import make_cost
from evenhand.dual.step import warn_of_loose_epsilon
from evenhand.estimators.parameters import GridParameters, StepParameters
from evenhand.estimators.price import warn_of_price
from evenhand.estimators.step_fit import Evidence, FittedStep, StepPlan, fit_step
from evenhand.estimators.step_results import StepResults
from evenhand.estimators.streaming import OnDrift, check_on_drift, take_rows
from evenhand.generalization.out_of_sample import LEAST_ROWS, held_out_rows
from evenhand.solvers import Callback


@dataclass(frozen=True, slots=True, eq=False)
class FrontierRows:
    """The parity step of a model, which a frontier solves for several tolerances on the same rows."""

    plan: StepPlan
    rows: Rows
    epsilon: Any  # parameter of the model
    assemble: Callable[[FittedStep, Any], Any]  # fitted step and its epsilon -> model of the user's class


@dataclass(eq=False, repr=False, kw_only=True)
class ParityPostprocessor(
    GridParameters,
    StepParameters,
    StepResults,
    Stored,
    BaseEstimator,  # type: ignore[misc]
):
    """Post-process scores so that predictions have the same distribution in every group, up to `epsilon`.

    Use this class if your models run elsewhere: it needs a score and group probabilities for each row. The
    group itself is not used; `fit` takes it only to estimate the gap on new data. To wrap a scikit-learn
    estimator, use `ParityRegressor` or `ParityClassifier`.

    Parameters
    ----------
    parity : {"cdf", "pmf", "mean", "tv", "w1", "thresholds"} or ParityNotion, default="cdf"
        The distance between the predictions of a group and those of all rows that `epsilon` bounds:

        - "cdf": the Kolmogorov-Smirnov (KS) distance.
        - "pmf": the largest difference in the probability of an atom (paper, eq. 2).
        - "mean": the difference in the mean prediction, in the units of the scores.
        - "tv": the total variation distance.
        - "w1": the Wasserstein-1 distance, in the units of the scores.
        - "thresholds": the difference in the share of predictions above the median of the scores. For other
          thresholds pass `evenhand.Thresholds([...])`.

        You can define your own notion (docs/how-to/extending.md).
    epsilon : float, array of shape (n_groups,) or dict, default=0.05
        Tolerance on the distance between each group and all rows. One float applies to all groups; an array
        has one value per group; a dict maps group labels to values. 0 is allowed. The distance between two
        groups, which fairlearn reports, can be up to twice as large.
    atoms : "auto", int or array of shape (n_atoms,), default="auto"
        The values that can be predicted. An array lists them in increasing order; an int is the number of
        equally spaced values within `bounds`. "auto" uses `2 floor(sqrt(n_rows)) + 1` values, as in the
        paper, and at most 201. With a cost matrix the atoms are its columns, 0, 1, ... by default.
    bounds : "auto" or (low, high), default="auto"
        Range of the predictions. "auto" is the range of the scores in `fit` plus a margin of 2% on each side;
        extreme outliers are ignored (`evenhand.dual.grid.automatic_bounds` has the rule). Scores outside the
        bounds are moved to the nearest bound; `fit` counts them and warns. If `atoms` is an array, bounds
        are not needed, and no score is moved.
    beta : "auto", "paper" or float, default="auto"
        Inverse temperature, on the scale where the atoms span [-1, 1]. A high value keeps each prediction
        close to the best one for its row. Random draws around that value add about
        `(range of the atoms)^2 / (8 beta)` to the squared risk. A lower value can generalize better if there
        are few rows. "auto" is `min(8 n_rows, 10,000)`, or the value of "paper" if that is larger, and
        20,000 with `solver="lp"`. "paper" is `sqrt(n_rows) log2(sqrt(n_rows))`, as in the paper's
        experiments; "auto" also uses it with stochastic solvers and with a cost matrix.
    cost : str, cost of `evenhand.costs`, callable or array of shape (n_classes, n_atoms), default="squared"
        Cost of predicting an atom for a row: "squared", "absolute", "pinball" (`costs.Pinball(alpha)`),
        "huber" (`costs.Huber(delta)`), or a function `cost(scores, atoms)` that returns an array of shape
        (n_rows, n_atoms). A matrix has the cost of each atom for each true class; the scores are then class
        probabilities. All costs except the squared cost and matrices need memory for n_rows x n_atoms
        numbers.
    solver : str or solver object, default="auto"
        "auto" is the deterministic solver "batch", or "lbfgs" for very many atoms and groups. "lp" also
        solves the linear program, for a certificate against its optimum. "sgd", "acsa", "acsa2", "sgd3",
        "sgd3+acsa" and "sgd3+acsa2" are the paper's stochastic solvers. See `evenhand.solvers`.
    tol : float, default=1e-6
        Tolerance of the deterministic solver, on the scale where the atoms span [-1, 1].
    max_iter : int or None, default=None
        Maximum number of iterations of the solver, or of gradients of a stochastic solver. None uses the
        solver's default.
    confidence : "auto", "average", float or None, default="auto"
        Which data `epsilon` applies to.

        - "average": the expected distance between the true groups on new data is at most epsilon.
        - a float such as 0.9: the distance on new data is at most epsilon with this probability.
        - None: the distance is at most epsilon on the rows of `fit`, assuming that `group_proba` is correct,
          as in the paper.
        - "auto": "average" if `fit` receives `sensitive_features`, otherwise None.

        For new data the step is solved for a smaller tolerance, chosen by cross-validation
        (`evenhand.generalization.out_of_sample`). A `ToleranceWarning` states the smallest distance within
        reach if epsilon is out of reach. `partial_fit` continues with this tolerance.
    warm_start : bool, default=False
        Start the solver from the multipliers of the last fit, if the groups and the number of atoms are the
        same.
    random_state : int, Generator, RandomState or None, default=None
        Key of the random draws of `predict`, and seed of the stochastic solvers. None is a fixed, public key.
        If nobody should be able to predict the draws, pass an integer and keep it secret.
    device : str or None, default=None
        Device on which `fit` computes sums over rows, such as "cuda" (docs/how-to/gpu.md). None: tensors stay
        on their device, and arrays are processed by compiled loops on the CPU.

    Attributes
    ----------
    step_ : FittedStep
        The fitted parity step. All attributes below are read from it, except `stream_`.
    atoms_ : array of shape (n_atoms,)
        The values that can be predicted, in increasing order.
    bounds_ : (low, high)
        Range of the predictions. Scores outside are moved to the nearest bound.
    beta_ : float
        Inverse temperature, on the scale where the atoms span [-1, 1].
    groups_ : array of shape (n_groups,)
        Labels of the groups: the column names of `group_proba`, or 0, 1, ... for arrays. With strata each
        label is a pair `(stratum, group)`.
    n_groups_ : int
        Number of groups.
    group_prior_ : array of shape (n_groups,)
        Share of each group in the population.
    epsilon_ : array of shape (n_groups,)
        The requested tolerance of each group.
    tolerance_ : array of shape (n_groups,)
        The tolerance of each group for which the step was solved on the rows of `fit`. It is smaller than
        `epsilon_` if epsilon is for new data.
    n_rows_ : int
        Number of rows that the step was fitted on.
    n_clipped_ : int
        Number of scores outside the bounds.
    multipliers_ : array of shape (n_constraints, n_groups)
        Dual variables Phi of the parity constraints, on the scale where the atoms span [-1, 1].
    tilt_ : array of shape (n_atoms, n_groups)
        `theta = A^T Phi`, what the multipliers add to the logits of the policy, on the same scale.
    policy_ : SoftmaxPolicy
        The fitted policy: a distribution over the atoms for each row.
    parity_ : str or ParityNotion
        The parity notion. If `parity` depends on the scores, such as "thresholds", the fitted notion.
    result_ : SolverResult
        Status, number of iterations and objective of the solver.
    certificate_ : Certificate
        Violation on the rows of `fit` and a bound on the optimality gap. If `fit` received
        `sensitive_features` and `confidence` is not None, `certificate_.out_of_sample` estimates the
        distance on new data.
    price_ : Price
        Risk and distribution of the predictions before and after the parity step.
    stream_ : Stream
        State of the stream; only available after `partial_fit`.

    Notes
    -----
    Row x has a score eta(x) and group probabilities tau(x). With p_s the share of group s,
    `t_s = 1 - tau_s / p_s` is its imbalance. The fitted policy is

        pi(l | x) = softmax_l(beta * (<theta_l, t(x)> - (eta(x) - y_l)^2)).

    Among all policies over the atoms y_l whose violation `A E[pi(. | X) t_s(X)]` is within epsilon for every
    group, it has the smallest squared risk (or another `cost`), up to `log(n_atoms) / beta` (paper, Lemmas
    3.1 to 3.3).

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
        """Fit the parity step on unlabeled rows.

        If a fit fails, the model keeps its previous state.

        Parameters
        ----------
        scores : array of shape (n_rows,) or (n_rows, n_classes)
            Predictions of any regressor. With a cost matrix: class probabilities, one column per class.
        group_proba : array or data frame of shape (n_rows, n_groups)
            Probability of each group for each row; nonnegative, and each row sums to one. The column names
            of a data frame become the labels of the groups.
        group_prior : array of shape (n_groups,) or dict, default=None
            Share of each group in the population. None, which is recommended, uses the mean of
            `group_proba`. Any other prior sets a lower limit on the violation. `fit` raises an error if this
            limit exceeds epsilon.
        sample_weight : array of shape (n_rows,), default=None
            Nonnegative weights of the rows. None: all rows have the same weight.
        strata : sequence of n_groups labels, default=None
            Stratum of each column of `group_proba`. Groups are then compared within each stratum, and the
            columns of a row must sum to at most one in each stratum. The column of group s in stratum z has
            `P(S = s, Z = z | x)`. For a known factor F that is `1{F = z} P(S = s | x)`; for equalized odds it
            is `P(S = s, Y = z | x)`. For several attributes, use one stratum per attribute, with the
            probabilities of that attribute. None: all groups are compared among all rows.
        sensitive_features : array or data frame of shape (n_rows,), default=None
            True group of each row, one of the labels of `group_proba`, or None if it is unknown. With strata:
            zeros and ones of shape (n_rows, n_groups). The groups are used to estimate the distance on new
            data, so that epsilon can apply to new data (see `confidence`).
        callback : callable, default=None
            Function that is called with a `Progress` after every iteration. The solver stops if it returns
            True.

        Returns
        -------
        self : ParityPostprocessor
            The fitted model.
        """
        with one_blas_thread():
            rows = read_rows(scores, group_proba, sample_weight, strata, make_cost(self.cost), self.device)
            known = sensitive_features is not None
            plan = StepPlan.of(self, rows.groups, rows.strata, group_prior=group_prior, knows_groups=known)
            warn_of_loose_epsilon(plan.parity, plan.epsilon)
            evidence = Evidence()
            if plan.for_new_data:
                rows = as_arrays(rows)
                groups = in_memory(sensitive_features), in_memory(sample_weight)
                evidence = Evidence(held_out_rows(rows, read_known_groups(rows, *groups, LEAST_ROWS)))
            if self.device is None:
                plan = replace(plan, device=gpu_of(scores))
            start = getattr(self, "step_", None) if self.warm_start else None
            step = fit_step(plan, rows, evidence, start=start, callback=callback)
        self.__dict__.pop("stream_", None)
        self.step_ = step
        warn_of_price(self.price_, step.step)
        return self

    def partial_fit(
        self,
        scores: Any,
        group_proba: Any,
        *,
        strata: Any = None,
        half_life: float | None = None,
        on_drift: OnDrift | None = None,
    ) -> Self:
        """Update the parity step with more rows of a stream; each row is used once and not stored.

        The state has O(n_atoms * n_groups) numbers plus one incomplete block of rows. The result does not
        depend on how the stream is split into calls, nor on saving and loading the model in between. After
        `fit`, the rows of the fit count as the first rows of the stream.

        If a call raises an error, the model keeps its previous state. There is one exception: `on_drift` is
        called after the update, so the model is already updated if `on_drift` raises an error.

        Parameters
        ----------
        scores : array of shape (n_rows,) or (n_rows, n_classes)
            Predictions of any regressor. With a cost matrix: class probabilities, one column per class.
        group_proba : array or data frame of shape (n_rows, n_groups)
            Probability of each group for each row, for the same groups as in earlier calls.
        strata : sequence of n_groups labels, default=None
            Stratum of each column of `group_proba`, within which groups are compared. Only the first call
            needs it; later calls use the same strata.
        half_life : float, default=None
            Number of rows after which the weight of a row is halved, at least one block (2,048). None: all
            rows keep their weight. Each block uses the value of the call that completes it.
        on_drift : callable, default=None
            Function that is called with a `Drift` if the violation or the share of a group has changed. None:
            a `DriftWarning` is issued instead.

        Returns
        -------
        self : ParityPostprocessor
            The updated model.

        Examples
        --------
        >>> from evenhand import ParityPostprocessor
        >>> from evenhand.datasets import make_population
        >>> model = ParityPostprocessor(epsilon=0.02)
        >>> for seed in range(20):
        ...     rows = make_population(1000, random_state=seed)
        ...     model = model.partial_fit(rows.scores, rows.group_proba)
        >>> model.stream_.n_rows
        20000
        >>> round(float(model.certificate_.violation.max()), 2)
        0.02
        """
        check_on_drift(on_drift)
        rows = self._stream_rows(in_memory(scores), in_memory(group_proba), strata)
        last, stream = getattr(self, "step_", None), getattr(self, "stream_", None)
        plan = StepPlan.of(self, rows.groups, rows.strata, knows_groups=True)
        step, stream, alarms = take_rows(plan, last, stream, rows, half_life, on_drift)
        self.__dict__.update(step_=step, stream_=stream)
        for alarm in alarms:
            on_drift(alarm)  # type: ignore[misc]
        return self

    def predict_pmf(self, scores: Any, group_proba: Any) -> FloatArray:
        """Return the probability of each atom for each row.

        These are the distributions of the policy, so parity holds: averaged over rows like those of the fit,
        the distribution of each group is within epsilon of that of all rows (Lemma 3.2).

        Parameters
        ----------
        scores : array of shape (n_rows,) or (n_rows, n_classes)
            Predictions of the model whose scores were passed to `fit`. With a cost matrix: class
            probabilities, one column per class.
        group_proba : array or data frame of shape (n_rows, n_groups)
            Probability of each group for each row. The columns of a data frame may be in any order. If the
            inputs are tensors, the result of this and all other prediction methods is a tensor on the same
            device.

        Returns
        -------
        pmf : array of shape (n_rows, n_atoms)
            Each row sums to one; the columns are in the order of `atoms_`.
        """
        return self._predict(scores, group_proba, "pmf")

    def predict(
        self, scores: Any, group_proba: Any, random_state: RandomState = None, ids: Any = None
    ) -> FloatArray:
        """Draw one atom for each row from its distribution.

        Parity holds for the draws, up to sampling noise. By default the random number of a row is a keyed
        hash of its score and group probabilities, after rounding (see `uniforms_from_rows`). The same row
        gets the same prediction in any batch, order, process or machine. Two people with the same inputs
        share one draw. With `ids` the random number is a hash of the id alone: it differs between people and
        stays the same if the model is refitted.

        Parameters
        ----------
        scores : array of shape (n_rows,) or (n_rows, n_classes)
            Predictions of the model whose scores were passed to `fit`. With a cost matrix: class
            probabilities, one column per class.
        group_proba : array or data frame of shape (n_rows, n_groups)
            Probability of each group for each row.
        random_state : int, Generator, RandomState or None, default=None
            If not None, draw new random numbers instead of hashing the rows.
        ids : array of shape (n_rows,), default=None
            Identifier of each row: integers, text, bytes or UUIDs.

        Returns
        -------
        predictions : array of shape (n_rows,)
            One of `atoms_` for each row.
        """

        def levels(n_rows: int, uniforms: Callable[[Any], Any]) -> Any:
            key = self.step_.draw_key
            return choose_uniforms(n_rows, key, random_state, in_memory(ids), lambda: uniforms(key))

        return self._predict(scores, group_proba, "quantile", levels)

    def predict_mean(self, scores: Any, group_proba: Any) -> FloatArray:
        """Return the mean of the distribution of each row, which has the smallest squared risk.

        Parity of means holds (`parity="mean"`, or what another notion implies for the means). Parity of
        distributions generally does not hold, because averaging removes the spread of each distribution.

        Parameters
        ----------
        scores : array of shape (n_rows,) or (n_rows, n_classes)
            Predictions of the model whose scores were passed to `fit`. With a cost matrix: class
            probabilities, one column per class.
        group_proba : array or data frame of shape (n_rows, n_groups)
            Probability of each group for each row.

        Returns
        -------
        predictions : array of shape (n_rows,)
            A mean for each row.
        """
        return self._predict(scores, group_proba, "mean")

    def predict_quantile(self, scores: Any, group_proba: Any, q: Any = 0.5) -> FloatArray:
        """Return the smallest atom whose cumulative probability reaches `q`.

        Parity generally does not hold for a fixed q. If q is drawn uniformly for each row, the result is a
        draw of `predict`.

        Parameters
        ----------
        scores : array of shape (n_rows,) or (n_rows, n_classes)
            Predictions of the model whose scores were passed to `fit`. With a cost matrix: class
            probabilities, one column per class.
        group_proba : array or data frame of shape (n_rows, n_groups)
            Probability of each group for each row.
        q : float or array of shape (n_rows,), default=0.5
            Quantile level, strictly between 0 and 1. An array has one level per row.

        Returns
        -------
        predictions : array of shape (n_rows,)
            One of `atoms_` for each row.
        """
        return self._predict(
            scores, group_proba, "quantile", lambda n_rows, _: check_levels(in_memory(q), n_rows)
        )

    def _predict(self, scores: Any, group_proba: Any, method: str, levels: Any = None) -> FloatArray:
        """What a method of the policy answers for these rows."""
        check_is_fitted(self, "step_")
        step = self.step_
        answer: FloatArray = predict(step.policy, step.groups, scores, group_proba, method, levels)
        return answer

    def _stream_rows(self, scores: Any, group_proba: Any, strata: Any) -> Rows:
        """Check the rows; if the model is fitted, they must have its groups and strata."""
        labels, codes = column_labels(group_proba), None
        if strata is not None:
            codes, labels = check_strata(strata, labels)
        step: FittedStep | None = getattr(self, "step_", None)
        if step is None:
            return check_rows_of(scores, group_proba, labels, codes, make_cost(self.cost).n_classes)
        if strata is not None and set(labels) != set(step.groups):
            raise ValueError(
                "strata differ from those of the first call. Leave strata out, or start with a new model."
            )
        return check_rows_of(scores, group_proba, step.groups, step.step.strata, step.step.cost.n_classes)

    def _frontier_rows(
        self,
        scores: Any,
        group_proba: Any,
        group_prior: Any = None,
        sample_weight: Any = None,
        *,
        strata: Any = None,
    ) -> FrontierRows:
        """The rows and the plan that `evenhand.frontier` solves for several tolerances."""
        rows = as_arrays(
            read_rows(scores, group_proba, sample_weight, strata, make_cost(self.cost), self.device)
        )
        plan = StepPlan.of(self, rows.groups, rows.strata, group_prior=group_prior, knows_groups=True)

        def assemble(step: FittedStep, epsilon: Any) -> "ParityPostprocessor":
            model: ParityPostprocessor = clone(self).set_params(epsilon=epsilon)
            model.step_ = step
            return model

        return FrontierRows(plan, rows, self.epsilon, assemble)

    def faults(self) -> Iterator[str]:
        """Check that the fitted step and the stream have the same groups."""
        yield from self._step_faults()
