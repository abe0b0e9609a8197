"""`ParityRegressor`: a regressor whose predictions have the same distribution in every group."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_array, column_or_1d

from evenhand._utils.missing import without_mask
from evenhand._utils.typing import AnyArray, FloatArray
from evenhand._utils.validation import Labels, check_levels
from evenhand._utils.warn import warn_user
from evenhand.dual.costs import make_cost
from evenhand.dual.grid import automatic_bounds, range_without_outliers
from evenhand.estimators.base import ParityEstimator
from evenhand.estimators.checks import check_kind
from evenhand.estimators.models import default_regressor
from evenhand.estimators.parameters import GridParameters
from evenhand.estimators.training_data import Table
from evenhand.exceptions import OutlierWarning
from evenhand.metrics import risk


@dataclass(eq=False, repr=False)
class ParityRegressor(GridParameters, RegressorMixin, ParityEstimator):  # type: ignore[misc]
    """Wrap a regressor so that its predictions have the same distribution in every group, up to `epsilon`.

    `fit` learns a model of the outcome and a model of the group, then solves for the randomized predictions
    with the smallest expected cost for which the distribution of each group is within epsilon of that of all
    rows (paper, Algorithm 1). The group is needed in `fit` only: `predict` does not use it.

    Parameters
    ----------
    estimator : regressor, default=None
        Model of the outcome: any scikit-learn-compatible regressor or pipeline. None: ridge regression on
        imputed and scaled features, with text columns one-hot encoded as in `table_pipeline`; X can be
        sparse. To use a model that is already fitted, pass `sklearn.frozen.FrozenEstimator(model)`.
    sensitive_estimator : classifier with predict_proba, default=None
        Model of the group. Parity depends on calibrated probabilities more than on accurate ones. None:
        logistic regression on imputed and scaled features.
    cv : int, splitter, iterable of splits or None, default=None
        Folds for cross-fitting: each labeled row is scored by models that were not fitted on it. None: five
        folds, stratified by group, or fewer if a group has fewer than five rows.
    calibration : {"auto", "joint", None}, default="auto"
        Whether to recalibrate the outputs of both models on held-out rows. "joint" fits polynomials of degree
        at most 3 that predict the outcome and the group from the scores and the group probabilities. Each is
        kept only if it reduces the loss on held-out rows, or if there are at least 10,000 rows per
        coefficient; the scores are recalibrated only for the squared cost. "auto" is "joint" if epsilon is
        for new data, and None with `confidence=None`. None uses the outputs as they are.
    aware : bool, default=False
        Whether the parity step uses the group itself at prediction time. If True, `predict` requires
        `sensitive_features`. Check that the law allows this use.
    attributes : {"combined", "separate"}, default="combined"
        How to treat several columns of `sensitive_features`. "combined": each combination of values is one
        group. "separate": each column is an attribute, and parity holds for each attribute separately;
        `epsilon` can then be a dict by column name.
    conditional_on : name or number of a column of X, or a list of them, default=None
        A legitimate factor with few values. Groups are compared only among rows with the same value. None:
        groups are compared among all rows.
    min_group_size : int, default=10
        Minimum number of labeled rows of a group.
    small_groups : {"error", "merge"}, default="error"
        What to do with groups smaller than `min_group_size`: raise an error, or merge them into one group
        called "other".
    n_jobs : int or None, default=None
        Number of folds fitted in parallel. None is 1; -1 uses all processors.
    parity : {"cdf", "pmf", "mean", "tv", "w1", "thresholds"} or ParityNotion, default="cdf"
        The distance between the predictions of a group and those of all rows that `epsilon` bounds: "cdf"
        is the Kolmogorov-Smirnov (KS) distance; "pmf" the largest difference in the probability of a value;
        "mean" the difference in the mean prediction; "tv" the total variation distance; "w1" the
        Wasserstein-1 distance; "thresholds" the difference in the share of predictions above the median
        score. For other thresholds pass `evenhand.Thresholds([...])`.
    epsilon : float, array of shape (n_groups,) or dict by group, default=0.05
        Tolerance on the distance between each group and all rows. One float applies to all groups. The
        distance between two groups, which fairlearn reports, can be up to twice as large.
    beta : "auto", "paper" or float, default="auto"
        Inverse temperature, on the scale where the atoms span [-1, 1]: a high value keeps each prediction
        close to the best one for its row. "auto" is `min(8 n_rows, 10,000)`, or the value of "paper" if that
        is larger; "paper" is `sqrt(n_rows) log2(sqrt(n_rows))`.
    solver : str or solver object, default="auto"
        Solver of the parity step. "auto" is deterministic and suits nearly all data; `evenhand.solvers` lists
        the others.
    tol : float, default=1e-6
        Tolerance of the deterministic solver, on the scale where the atoms span [-1, 1].
    max_iter : int or None, default=None
        Maximum number of iterations of the solver, or of gradients of a stochastic solver. None uses the
        solver's default.
    confidence : "auto", "average", float or None, default="auto"
        Which data `epsilon` applies to.

        - "auto", "average": the expected distance between the true groups on new data is at most epsilon.
        - a float such as 0.9: the distance on new data is at most epsilon with this probability. This is an
          estimate, or a guarantee if `fit` receives `calibration_data`.
        - None: the distance is at most epsilon on the rows of the parity step, assuming the group
          probabilities are correct, as in the paper.

        A `ToleranceWarning` states the smallest distance within reach if epsilon is out of reach.
    warm_start : bool, default=False
        Start the parity step from the multipliers of the last fit, if the groups and the number of atoms are
        the same.
    random_state : int, Generator, RandomState or None, default=None
        Key of the random draws of `predict`, and seed of the folds and of the stochastic solvers. None is a
        fixed, public key. If nobody should be able to predict the draws, pass an integer and keep it secret.
    device : str or None, default=None
        Device on which the parity step is solved, such as "cuda" (docs/how-to/gpu.md). The models are not
        moved. None: the CPU.
    atoms : "auto", int or array of shape (n_atoms,), default="auto"
        The values that can be predicted: an array in increasing order, or the number of equally spaced values
        within `bounds`. "auto" uses `2 floor(sqrt(n_rows)) + 1` values, and at most 201.
    bounds : "auto" or (low, high), default="auto"
        Range of the predictions. "auto" is the range of the scores in `fit`, without extreme outliers, plus a
        margin of 2% on each side. Scores outside the bounds are moved to the nearest bound.
    cost : str, cost of `evenhand.costs` or callable, default="squared"
        Cost of predicting an atom: "squared", "absolute", "pinball", "huber", or a function
        `cost(scores, atoms)` that returns an array of shape (n_rows, n_atoms). The estimator must predict the
        quantity that minimizes the cost: the mean for "squared", the median for "absolute", a quantile for
        "pinball".

    Attributes
    ----------
    scorer_ : Scorer
        The fitted models with their recalibration maps, and the strata.
    step_ : FittedStep
        The fitted parity step. The other attributes are read from `scorer_` and `step_`.
    estimator_ : object
        The fitted model of the outcome.
    sensitive_estimator_ : object, list or None
        The fitted model of the group; a list with `attributes="separate"`, None with `aware=True`.
    calibrator_ : JointCalibrator, list or None
        The map that recalibrates the group probabilities; a list with `attributes="separate"`. None if there
        is no map.
    outcome_calibrator_ : JointCalibrator or None
        The map that recalibrates the scores. None if there is no map.
    strata_ : Strata
        Which groups are compared, and within which strata.
    group_summary_ : GroupSummary
        How many rows had a known group, and which groups (docs/how-to/groups.md).
    postprocessor_ : ParityPostprocessor
        The parity step alone, for the output of `predict_scores`.
    atoms_ : array of shape (n_atoms,)
        The values that can be predicted, in increasing order.
    bounds_ : (low, high)
        Range of the predictions. Scores outside are moved to the nearest bound.
    beta_ : float
        Inverse temperature, on the scale where the atoms span [-1, 1].
    groups_ : array of shape (n_groups,)
        Labels of the groups; pairs `(stratum, group)` if groups are compared within strata.
    n_groups_ : int
        Number of groups.
    group_prior_ : array of shape (n_groups,)
        Share of each group in the population.
    epsilon_ : array of shape (n_groups,)
        The requested tolerance of each group.
    tolerance_ : array of shape (n_groups,)
        The tolerance of each group for which the step was solved on its rows. It is smaller than `epsilon_`
        if epsilon is for new data.
    n_rows_ : int
        Number of rows that the parity step was fitted on.
    n_clipped_ : int
        Number of scores outside the bounds.
    multipliers_ : array of shape (n_constraints, n_groups)
        Dual variables of the parity constraints, on the scale where the atoms span [-1, 1].
    tilt_ : array of shape (n_atoms, n_groups)
        What the multipliers add to the logits of the policy, on the same scale.
    policy_ : SoftmaxPolicy
        The fitted policy: a distribution over the atoms for each row.
    parity_ : str or ParityNotion
        The parity notion. If `parity` depends on the scores, such as "thresholds", the fitted notion.
    result_ : SolverResult
        Status, number of iterations and objective of the solver.
    certificate_ : Certificate
        Violation on the rows of the parity step and a bound on the optimality gap.
        `certificate_.out_of_sample` estimates the distance on new data; `certificate_.calibration` measures
        the calibration of the group probabilities.
    price_ : Price
        Risk and distribution of the predictions before and after the parity step.
    stream_ : Stream
        State of the stream; only available after `partial_fit`.
    n_iter_ : int
        Number of iterations of the solver.
    n_features_in_ : int
        Number of features of X.
    feature_names_in_ : array of shape (n_features,)
        Names of the features; only available if X has column names that are strings.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> from evenhand import ParityRegressor
    >>> from evenhand.datasets import make_population
    >>> data = make_population(3000, n_groups=2, random_state=0)
    >>> model = ParityRegressor(LinearRegression(), epsilon=0.05)
    >>> model = model.fit(data.data, data.target, sensitive_features=data.sensitive_features)
    >>> model.certificate_.out_of_sample.expected.round(3)  # KS distance on new data
    array([0.04..., 0.02...])
    >>> model.certificate_.violation.round(3)  # KS distance on the rows of the fit
    array([0.03..., 0.02...])
    >>> model.predict(data.data[:4]).shape
    (4,)
    """

    def predict_mean(self, X: Any, *, sensitive_features: Any = None) -> FloatArray:
        """Return the mean of the distribution of each row, which has the smallest squared risk.

        Parity holds for the means only: averaging removes the spread of each distribution.

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (n_rows, n_features)
            Features, in the format that was passed to `fit`.
        sensitive_features : array or data frame of shape (n_rows,), default=None
            Group of each row. Required with `aware=True`, and not accepted otherwise.

        Returns
        -------
        predictions : array of shape (n_rows,)
            A mean for each row.
        """
        scores, group_proba = self.predict_scores(X, sensitive_features=sensitive_features)
        return self.step_.policy.mean(scores, group_proba)

    def predict_quantile(self, X: Any, q: Any = 0.5, *, sensitive_features: Any = None) -> FloatArray:
        """Return the smallest atom whose cumulative probability reaches `q`.

        Parity generally does not hold for a fixed q.

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (n_rows, n_features)
            Features, in the format that was passed to `fit`.
        q : float or array of shape (n_rows,), default=0.5
            Quantile level, strictly between 0 and 1. An array has one level per row.
        sensitive_features : array or data frame of shape (n_rows,), default=None
            Group of each row. Required with `aware=True`, and not accepted otherwise.

        Returns
        -------
        predictions : array of shape (n_rows,)
            One of `atoms_` for each row.
        """
        scores, group_proba = self.predict_scores(X, sensitive_features=sensitive_features)
        return self.step_.policy.quantile(scores, group_proba, check_levels(q, len(scores)))

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, sensitive_features: Any = None) -> float:
        """Return the coefficient of determination R2 of the predictions, in expectation over the draws.

        R2 is `1 - E[(Y - prediction)^2] / Var(Y)`. The expectation over the random draws is exact.

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (n_rows, n_features)
            Features, in the format that was passed to `fit`.
        y : array of shape (n_rows,)
            True outcomes.
        sample_weight : array of shape (n_rows,), default=None
            Weights of the rows. None: all rows have the same weight.
        sensitive_features : array or data frame of shape (n_rows,), default=None
            Group of each row. Required with `aware=True`, and not accepted otherwise.

        Returns
        -------
        score : float
            1.0 for perfect predictions, 0.0 for a constant prediction of the mean.
        """
        pmf = self.predict_pmf(X, sensitive_features=sensitive_features)
        target = self._check_target(y)
        centre = np.average(target, weights=sample_weight)
        spread = float(np.average((target - centre) ** 2, weights=sample_weight))
        error = risk(target, pmf, self.atoms_, sample_weight)
        if spread == 0.0:
            return 1.0 if error == 0.0 else 0.0
        return 1.0 - error / spread

    def _base_estimator(self, X: Any = None) -> BaseEstimator:
        if self.estimator is None:
            return default_regressor(X)
        check_kind(self.estimator, "estimator", "regressor", "ParityClassifier is for classes.")
        return self.estimator

    def _check_target(self, y: Any) -> AnyArray:
        if y is None:
            raise ValueError("ParityRegressor requires y to be passed, but the target y is None.")
        checked = check_array(without_mask(y), ensure_2d=False, dtype="numeric", input_name="y")
        target: FloatArray = column_or_1d(checked, warn=True).astype(np.float64)
        return target

    def _check_training_target(self, y: Any) -> AnyArray:
        target = self._check_target(y)
        low, high = automatic_bounds(target) if len(target) else (0.0, 0.0)
        far = (target < low) | (target > high)
        if far.any():
            warn_user(
                f"y has {int(far.sum())} value(s) far beyond the others, the first {target[far][0]:g}. "
                "Such outliers distort most models: check these rows, or choose a robust estimator.",
                OutlierWarning,
            )
        return target

    def _step_settings(self, classes: Labels | None) -> dict[str, Any]:
        return {}

    def _recalibration_target(self, table: Table, classes: Labels | None) -> AnyArray | None:
        # The maps predict means; for other costs the scores are medians, quantiles or other statistics.
        if table.y is None or not make_cost(self.cost).scores_are_means:
            return None
        return np.clip(table.y, *range_without_outliers(table.y))  # otherwise outliers would dominate
