"""A regressor whose predictions follow the same distribution in every group."""

import warnings
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_array, column_or_1d

from evenhand._utils.missing import without_mask
from evenhand._utils.typing import AnyArray, FloatArray
from evenhand._utils.validation import Labels, check_levels, check_scores
from evenhand.dual.costs import make_cost
from evenhand.dual.grid import automatic_bounds, range_without_outliers
from evenhand.dual.parity import ParityNotion
from evenhand.estimators.base import ParityEstimator
from evenhand.estimators.checking import check_kind
from evenhand.estimators.draws import RandomState
from evenhand.estimators.nuisances import Labelled, default_regressor, real_floats
from evenhand.exceptions import OutlierWarning
from evenhand.metrics import risk


class ParityRegressor(RegressorMixin, ParityEstimator):  # type: ignore[misc]
    """Wrap any regressor so that its predictions follow the same distribution in every group, up to epsilon.

    `fit` learns the outcome, `E[Y | X]`, and the group, `P(S | X)`, then solves for the cheapest randomised
    prediction over a grid of atoms that keeps every group's distribution within epsilon of everybody's
    (paper, Algorithm 1). The group is needed at `fit` only: `predict` never asks for it.

    Parameters
    ----------
    estimator : regressor, default=None
        Learns the outcome: any scikit-learn-compatible regressor or pipeline. None: ridge regression on
        imputed and scaled features, the paper's linear model made safe, quick enough to fit for every fold;
        columns of text become columns of zeros and ones, as in `table_pipeline`, and X may be sparse.
        A model that is already fitted comes as `sklearn.frozen.FrozenEstimator(model)`.
    sensitive_estimator : classifier with predict_proba, default=None
        Learns the group. None: logistic regression on imputed and scaled features, since parity rests on
        probabilities that mean what they say more than on sharp ones.
    parity : {"cdf", "pmf", "mean", "tv", "w1", "thresholds"} or ParityNotion, default="cdf"
    epsilon : float, array of shape (n_groups,) or dict by group, default=0.05
    atoms : "auto", "cv", int or array, default="auto"
    bounds : "auto" or (low, high), default="auto"
    beta : "auto", "paper", "cv" or float, default="auto"
    cost : str, cost of `evenhand.costs` or callable, default="squared"
    solver : str or solver object, default="auto"
    tol : float, default=1e-6
    max_iter : int or None, default=None
        As in `ParityPostprocessor`. The cost is that of an atom where the estimator's prediction is taken
        for the outcome: with another than "squared" choose an estimator that predicts what it asks for, a
        median for "absolute", a quantile for "pinball".
    cv : int, splitter, iterable of splits or None, default=None
        Folds for scoring the labelled rows by models that have not seen them. None: five, stratified by
        group and fewer where a group is small.
    calibration : {"auto", None, "sigmoid", "isotonic", "temperature", "joint"}, default="auto"
        How the group probabilities are calibrated, on rows that their classifier has not seen. "joint" mends
        the model of the outcome, too: a policy sees a row through its score and its group probabilities
        alone, so both become what they should be given both, by a polynomial of degree 3 (of 2 or 1 where
        the models say more than five numbers, or the smallest group has few rows). Each is mended only where
        held-out rows say that it helps, or where there are 10 000 rows for each coefficient, and the scores
        only for the squared cost. With `X_unlabeled` it takes folds of the labelled rows, too. "auto" is
        "joint" where epsilon is for new people, and None with `confidence=None`.
    confidence : "auto", "average", float or None, default="auto"
        Whom epsilon is for. "auto" and "average": new people of the true groups are expected to see it, on
        average over samples; 0.9, say: they see no more with that probability, an estimate, or proved where
        `fit` is given rows set aside (`X_calibration`); None: it holds on the rows of the parity step, for
        the group probabilities of the models, as the paper has it (docs/concepts/promise.md). Where it cannot
        be promised there is a `PromiseWarning` that says what can be.
    aware : bool, default=False
        Use the group itself at prediction time. For those who may, and for comparison: `predict` then
        needs `sensitive_features`.
    attributes : {"combined", "separate"}, default="combined"
        What several columns of `sensitive_features` mean: groups are their combinations, or each column is
        an attribute of its own with its own parity (and its own tolerance: `epsilon` may be a dict by the
        columns' names).
    conditional_on : name or number of a column of X, or a list of them, default=None
        A legitimate factor with few values: groups are then compared within each of its values.
    min_group_size : int, default=10
        Groups with fewer labelled rows are not fitted.
    small_groups : {"error", "merge"}, default="error"
        What happens to them: refuse, or merge them into one group called "other".
    n_jobs : int or None, default=None
        Folds fitted at the same time.
    warm_start : bool, default=False
        Start the parity step from the last fit's multipliers where their shape agrees.
    random_state : int, Generator, RandomState or None, default=None
        Key of the draws of `predict`, seed of the folds and of the stochastic solvers. None is a fixed
        public key: pass an integer of your own, and keep it, where nobody should foresee a draw.
    device : str or None, default=None
        Where the parity step is solved, such as "cuda" (docs/how-to/gpu.md); the models stay where they are.

    Attributes
    ----------
    estimator_, sensitive_estimator_ : fitted models
        The latter is None for `aware` models.
    calibrator_ : Calibrator, JointCalibrator or None
    outcome_calibrator_ : JointCalibrator or None
        With `calibration="joint"`, where it helps.
    cells_ : Cells
        Which groups are compared, and within which strata.
    postprocessor_ : ParityPostprocessor
        The parity step: `beta_`, `tilt_`, `multipliers_` and more.
    atoms_ : array of shape (n_atoms,)
        What can be predicted.
    groups_ : array of shape (n_groups,)
    group_knowledge_ : GroupKnowledge
        Of how many rows the group was known, and how (docs/how-to/groups.md).
    certificate_ : Certificate
        What was reached on the rows of the parity step, how well calibrated the group probabilities are
        (`certificate_.calibration`), and what new people are promised (`certificate_.promise`).
    n_iter_ : int
        Iterations of the solver.
    n_features_in_ : int
    feature_names_in_ : array of shape (n_features,)
        Where X has column names.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> from evenhand import ParityRegressor
    >>> from evenhand.datasets import make_population
    >>> data = make_population(3000, n_groups=2, random_state=0)
    >>> model = ParityRegressor(LinearRegression(), epsilon=0.05)
    >>> model = model.fit(data.data, data.target, sensitive_features=data.sensitive_features)
    >>> model.certificate_.promise.expected.round(3)  # for new people
    array([0.04..., 0.02...])
    >>> model.certificate_.violation.round(3)  # on the rows of the fit
    array([0.03..., 0.01...])
    >>> model.predict(data.data[:4]).shape
    (4,)
    """

    def __init__(
        self,
        estimator: Any = None,
        sensitive_estimator: Any = None,
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
        cv: Any = None,
        calibration: str | None = "auto",
        confidence: Any = "auto",
        aware: bool = False,
        attributes: str = "combined",
        conditional_on: Any = None,
        min_group_size: int = 10,
        small_groups: str = "error",
        n_jobs: int | None = None,
        warm_start: bool = False,
        random_state: RandomState = None,
        device: Any = None,
    ) -> None:
        self.estimator = estimator
        self.sensitive_estimator = sensitive_estimator
        self.parity = parity
        self.epsilon = epsilon
        self.atoms = atoms
        self.bounds = bounds
        self.beta = beta
        self.cost = cost
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.cv = cv
        self.calibration = calibration
        self.confidence = confidence
        self.aware = aware
        self.attributes = attributes
        self.conditional_on = conditional_on
        self.min_group_size = min_group_size
        self.small_groups = small_groups
        self.n_jobs = n_jobs
        self.warm_start = warm_start
        self.random_state = random_state
        self.device = device

    def predict_mean(self, X: Any, *, sensitive_features: Any = None) -> FloatArray:
        """Mean of each row's distribution: the least squared risk, and parity of means only.

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (n_rows, n_features)
        sensitive_features : array of shape (n_rows,), default=None
            Only for `aware` models, which need it.
        """
        scores, group_proba = self.predict_scores(X, sensitive_features=sensitive_features)
        return self.postprocessor_.policy_.mean(scores, group_proba)

    def predict_quantile(self, X: Any, q: Any = 0.5, *, sensitive_features: Any = None) -> FloatArray:
        """Smallest atom whose cumulated probability reaches q: in general parity is not kept.

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (n_rows, n_features)
        q : float or array of shape (n_rows,), default=0.5
            Strictly between 0 and 1.
        sensitive_features : array of shape (n_rows,), default=None
            Only for `aware` models, which need it.
        """
        scores, group_proba = self.predict_scores(X, sensitive_features=sensitive_features)
        return self.postprocessor_.policy_.quantile(scores, group_proba, check_levels(q, len(scores)))

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, sensitive_features: Any = None) -> float:
        """`R^2 = 1 - E[(Y - prediction)^2] / Var(Y)`, with the expectation over the draws taken exactly.

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (n_rows, n_features)
        y : array of shape (n_rows,)
            The true outcomes.
        sample_weight : array of shape (n_rows,), default=None
        sensitive_features : array of shape (n_rows,), default=None
            Only for `aware` models, which need it.
        """
        pmf = self.predict_pmf(X, sensitive_features=sensitive_features)
        target = self._check_target(y)
        centre = np.average(target, weights=sample_weight)
        spread = float(np.average((target - centre) ** 2, weights=sample_weight))
        error = risk(target, pmf, self.postprocessor_.atoms_, sample_weight)
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
            warnings.warn(
                f"y has {int(far.sum())} value(s) far beyond the others, the first {target[far][0]:g}. "
                "Most models bend to such values: look at these rows, or choose a robust estimator.",
                OutlierWarning,
                stacklevel=4,
            )
        return target

    def _outcome_to_mend(self, data: Labelled) -> AnyArray | None:
        # The maps foretell means; the scores of other costs are to be medians, quantiles or the like.
        if not make_cost(self.cost).scores_are_means:
            return None
        return np.clip(data.y, *range_without_outliers(data.y))  # else the maps would bend to these alone

    def _scores(self, estimator: Any, X: Any, classes: Labels | None) -> FloatArray:
        scores = real_floats(estimator.predict(X))
        return check_scores(scores[:, 0] if scores.ndim == 2 and scores.shape[1] == 1 else scores)
