"""A classifier whose decisions are as likely in every group."""

import warnings
from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import assert_all_finite, check_is_fitted, column_or_1d

from evenhand._utils.missing import without_mask
from evenhand._utils.text import is_wide_text
from evenhand._utils.typing import AnyArray, FloatArray
from evenhand._utils.validation import Labels, check_scores
from evenhand.dual.costs import check_cost_matrix
from evenhand.dual.floors import RateFloor, check_least
from evenhand.dual.parity import ParityNotion
from evenhand.estimators.base import ParityEstimator
from evenhand.estimators.cells import JOINTS, choose_outcomes
from evenhand.estimators.checking import check_kind
from evenhand.estimators.draws import RandomState
from evenhand.estimators.nuisances import (
    came_fitted,
    class_probabilities,
    default_classifier,
    require_proba,
)
from evenhand.estimators.price import level_text, warn_of_levelling
from evenhand.estimators.streaming import OnDrift
from evenhand.exceptions import IndependenceWarning
from evenhand.metrics import accuracy


class ParityClassifier(ClassifierMixin, ParityEstimator):  # type: ignore[misc]
    """Wrap any classifier so that its decisions are as likely in every group, up to epsilon.

    `fit` learns the class, `P(Y | X)`, and the group, `P(S | X)`, then solves for the randomised decision of
    the smallest expected cost that keeps the chance of every class in each group within epsilon of that in
    all rows, or in all rows of the same class: the extension that the paper names in its remark on general
    risks and on classes. The group is needed at `fit` only: `predict` never asks for it.

    Parameters
    ----------
    estimator : classifier with predict_proba, default=None
        Learns the class. None: logistic regression on imputed and scaled features; columns of text become
        columns of zeros and ones, as in `table_pipeline`, and X may be sparse.
        A model that is already fitted comes as `sklearn.frozen.FrozenEstimator(model)`.
    sensitive_estimator : classifier with predict_proba, default=None
        Learns the group, or class and group together (`joint`). None: logistic regression as well.
    criterion : {"demographic_parity", "equalized_odds", "equal_opportunity"}, default="demographic_parity"
        Groups are compared among all rows, among the rows of each true class, or among those of the classes
        in `pos_label` alone.
    pos_label : label or list of labels, default=None
        The class that counts as selected, for "equal_opportunity" and `min_rate`. None: the second of two.
    joint : {"auto", "classifier", "product"}, default="auto"
        Where `P(S, Y | X)` comes from, which the last two criteria need: a clone of `sensitive_estimator`
        fitted to both together, or the product `P(S | X) P(Y | X)`, which takes class and group for
        independent given X and says so in a warning. "auto" takes the product only where
        `sensitive_estimator` came fitted.
    parity : {"pmf", "cdf", "tv", "mean", "w1"} or ParityNotion, default="pmf"
        "pmf" bounds the difference of the chance of each class, "tv" that of any set of classes; "cdf" that
        of "this class or a lower one", for classes in an order. "mean" and "w1" take classes for 0, 1, ...
    epsilon : float, array of shape (n_groups,) or dict by group, default=0.05
        As in `ParityPostprocessor`. Within strata groups are called `(stratum, group)`, and a dict may also
        go by stratum: by class for "equalized_odds", by column for `attributes="separate"`, by either where
        both are asked for.
    cost_matrix : array of shape (n_classes, n_classes), default=None
        Cost of deciding for column l where row k is true. None: one for every error.
    min_rate : float, "before", "each" or None, default=None
        Keeps parity from being reached by selecting fewer: the share of decisions for `pos_label` is at least
        this, at least what it is without parity ("before"), or in no group less than without ("each"), on
        the rows of the parity step and by their probabilities. It costs errors; a `LevellingWarning` says
        where it may be wanted.
    beta, solver, tol, max_iter
        As in `ParityPostprocessor`.
    cv, aware, attributes, conditional_on, min_group_size, small_groups, n_jobs, warm_start
        As in `ParityRegressor`.
    calibration : {"auto", None, "sigmoid", "isotonic", "temperature", "joint"}, default="auto"
        Of the model of the group; "joint" mends the class probabilities as well. "auto" is "joint" where
        epsilon is for new people, and None with `confidence=None`.
    confidence : "auto", "average", float or None, default="auto"
        Whom epsilon is for: new people, on average or with that probability, or with None the rows of the
        parity step. As in `ParityRegressor`.
    random_state : int, Generator, RandomState or None, default=None
        Key of the draws of `predict`, seed of the folds and of the stochastic solvers. None is a fixed
        public key: pass an integer of your own, and keep it, where nobody should foresee a draw.
    device : str or None, default=None
        Where the parity step is solved, such as "cuda" (docs/how-to/gpu.md); the models stay where they are.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    estimator_, sensitive_estimator_ : fitted models
        The latter is a list with `attributes="separate"`, and None for `aware` models without a joint one.
    calibrator_ : Calibrator, JointCalibrator, list of them, or None
    outcome_calibrator_ : JointCalibrator or None
        With `calibration="joint"`, where it helps.
    cells_ : Cells
        Which groups are compared, and within which strata.
    postprocessor_ : ParityPostprocessor
        The parity step; its atoms 0, 1, ... stand for `classes_`.
    groups_ : array of shape (n_groups,)
    group_knowledge_ : GroupKnowledge
        Of how many rows the group was known, and how (docs/how-to/groups.md).
    certificate_ : Certificate
        What was reached on the rows of the parity step, by the given probabilities, and what new people are
        promised (`certificate_.promise`).
    n_iter_ : int
    n_features_in_ : int
    feature_names_in_ : array of shape (n_features,)

    Examples
    --------
    >>> import numpy as np
    >>> from evenhand import ParityClassifier
    >>> from evenhand.datasets import make_population
    >>> data = make_population(3000, n_groups=2, random_state=0)
    >>> hired = np.where(data.target > 0.2, "yes", "no")
    >>> model = ParityClassifier(epsilon=0.02)
    >>> model = model.fit(data.data, hired, sensitive_features=data.sensitive_features)
    >>> model.certificate_.promise.expected.round(2)  # for new people
    array([0.02, 0.01])
    >>> model.predict(data.data[:4])
    array(['yes', 'no', 'no', 'yes'], dtype='<U3')
    """

    classes_: AnyArray

    __metadata_request__predict_proba = {"sensitive_features": False}  # noqa: RUF012  as in the base

    def __init__(
        self,
        estimator: Any = None,
        sensitive_estimator: Any = None,
        *,
        criterion: str = "demographic_parity",
        pos_label: Any = None,
        joint: str = "auto",
        parity: str | ParityNotion = "pmf",
        epsilon: Any = 0.05,
        cost_matrix: Any = None,
        min_rate: Any = None,
        beta: Any = "auto",
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
        self.criterion = criterion
        self.pos_label = pos_label
        self.joint = joint
        self.parity = parity
        self.epsilon = epsilon
        self.cost_matrix = cost_matrix
        self.min_rate = min_rate
        self.beta = beta
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

    def faults(self) -> Iterator[str]:
        """As for every estimator, and classes that are those of the atoms."""
        yield from super().faults()
        if hasattr(self, "postprocessor_"):
            atoms = self.postprocessor_.policy_.grid.atoms
            classes: object = getattr(self, "classes_", None)
            n_classes = int(atoms[-1]) + 1
            if not isinstance(classes, np.ndarray) or not classes.shape == atoms.shape == (n_classes,):
                yield "its classes_ are not those of its atoms"
            if self.cells_.classes is None or len(self.cells_.classes) != n_classes:
                yield "its cells_ are not those of its classes"
            if not callable(getattr(self.estimator_, "predict_proba", None)):
                yield "its estimator_ does not tell probabilities"

    def partial_fit(
        self,
        X_unlabeled: Any,
        y: Any = None,
        classes: Any = None,
        *,
        sensitive_features: Any = None,
        half_life: float | None = None,
        on_drift: OnDrift | None = None,
    ) -> Self:
        """Go on with the parity step on more rows without labels: see `ParityRegressor.partial_fit`.

        It comes after `fit`, and no class is learned from `y`, which is not looked at. `classes` is there for
        scikit-learn's convention: it may be left out, and must be those of `fit` otherwise.
        """
        check_is_fitted(self, "postprocessor_")
        if classes is not None and set(np.asarray(classes).tolist()) != set(self.classes_.tolist()):
            raise ValueError(
                f"classes must be those of fit, {self.classes_.tolist()}: got {classes!r}. A new class needs "
                "a new fit: partial_fit learns none."
            )
        return super().partial_fit(
            X_unlabeled, y, sensitive_features=sensitive_features, half_life=half_life, on_drift=on_drift
        )

    def predict_proba(self, X: Any, *, sensitive_features: Any = None) -> FloatArray:
        """Chance that `predict` decides for each class, (n_rows, n_classes): parity is kept.

        This is the policy, not an estimate of `P(Y | X)`: `estimator_.predict_proba` is that.

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (n_rows, n_features)
        sensitive_features : array of shape (n_rows,), default=None
            Only for `aware` models, which need it.
        """
        return self.predict_pmf(X, sensitive_features=sensitive_features)

    def predict_mode(self, X: Any, *, sensitive_features: Any = None) -> AnyArray:
        """The likeliest decision of each row: the fewest errors without a draw, and parity is not kept.

        Most rows are decided with a chance near one, and for these it is what `predict` says. Parity rests on
        the others, whose chances it rounds: measure what that does with `evenhand.audit`.

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (n_rows, n_features)
        sensitive_features : array of shape (n_rows,), default=None
            Only for `aware` models, which need it.
        """
        scores, group_proba = self.predict_scores(X, sensitive_features=sensitive_features)
        return self._labels(self.postprocessor_.policy_.likeliest(scores, group_proba))

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, sensitive_features: Any = None) -> float:
        """Expected accuracy, with the expectation over the draws taken exactly.

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (n_rows, n_features)
        y : array of shape (n_rows,)
            The true outcomes, classes of `fit`.
        sample_weight : array of shape (n_rows,), default=None
        sensitive_features : array of shape (n_rows,), default=None
            Only for `aware` models, which need it.
        """
        chances = self.predict_proba(X, sensitive_features=sensitive_features)
        return accuracy(self._check_target(y), chances, self.classes_, sample_weight)

    def _base_estimator(self, X: Any = None) -> BaseEstimator:
        if self.estimator is None:
            return default_classifier(X)
        check_kind(self.estimator, "estimator", "classifier", "ParityRegressor is for numbers.")
        require_proba(self.estimator, "estimator")
        return self.estimator

    def _check_target(self, y: Any) -> AnyArray:
        if y is None:
            raise ValueError("ParityClassifier requires y to be passed, but the target y is None.")
        given = without_mask(y)
        # Text of a list stays what it is where it is long: at a fixed width it would fill the memory.
        try:
            array = np.array(given, dtype=object) if is_wide_text(given) else np.asarray(given)
        except ValueError as error:  # rows of several lengths
            raise ValueError(f"y cannot be read as one label for each row: {error}") from error
        target: AnyArray = column_or_1d(array, warn=True)
        assert_all_finite(target, input_name="y")
        check_classification_targets(target)
        return target

    def _classes(self, target: AnyArray) -> Labels | None:
        classes = np.unique(target)
        if len(classes) < 2:
            raise ValueError(f"y needs two classes or more: all {len(target)} sample(s) are in one class.")
        return tuple(classes.tolist())

    def _outcomes(self, classes: Labels | None) -> Labels | None:
        if self.joint not in JOINTS:
            raise ValueError(f"joint must be one of {', '.join(JOINTS)}: got {self.joint!r}.")
        return choose_outcomes(self.criterion, classes or (), self.pos_label)

    def _fits_joint(self) -> bool:
        given = self.sensitive_estimator is not None and came_fitted(self.sensitive_estimator)
        if self.joint == "classifier" and given:
            raise ValueError(
                "A sensitive_estimator that came fitted tells groups apart and not outcomes: pass one that "
                'is not fitted, or joint="product".'
            )
        if self.joint == "product" or given:
            warnings.warn(
                "P(S, Y | X) is taken for the product of P(S | X) and P(Y | X): parity within outcomes then "
                "holds as far as group and outcome are independent given the features. Fit both together "
                'with joint="classifier".',
                IndependenceWarning,
                stacklevel=6,
            )
            return False
        return True

    def _scores(self, estimator: Any, X: Any, classes: Labels | None) -> FloatArray:
        assert classes is not None
        return check_scores(class_probabilities(estimator, X, classes), len(classes))

    def _selected(self, classes: Sequence[Any]) -> list[Any]:
        """The classes that count as selected: `pos_label`, or the second of two; none of several."""
        wanted = self.pos_label
        if wanted is None:
            return list(classes[1:]) if len(classes) == 2 else []
        several = isinstance(wanted, list | tuple | set | np.ndarray)
        return [label for label in classes if (label in wanted if several else label == wanted)]

    def _warn_of_price(self, stacklevel: int) -> None:
        super()._warn_of_price(stacklevel + 1)
        labels = self.classes_.tolist()
        if selected := self._selected(labels):
            warn_of_levelling(self.postprocessor_.price_, labels, selected, stacklevel + 1)

    def _promise_text(self) -> str:
        """The promise, and how many are selected before and after."""
        text = super()._promise_text()
        price = getattr(getattr(self, "postprocessor_", None), "price_", None)
        if price is None or not (selected := self._selected(self.classes_.tolist())):
            return text
        return f"{text} {level_text(price, self.classes_.tolist(), selected)}"

    def _labels(self, atoms: FloatArray) -> AnyArray:
        return self.classes_[atoms.astype(np.int64)]

    def _own_settings(self, classes: Labels | None) -> dict[str, Any]:
        n_classes = len(classes or ())
        cost = check_cost_matrix(self._cost_table(n_classes), n_classes)
        if cost.matrix.shape[1] != n_classes:
            raise ValueError(
                f"cost_matrix needs a column for each of the {n_classes} classes: got {cost.matrix.shape[1]}."
            )
        if self.min_rate is None:
            return {"cost": cost}
        least, selected = check_least(self.min_rate), self._selected(classes or ())
        if not selected:
            raise ValueError(
                "min_rate needs pos_label, the class (or a list of them) that counts as selected."
            )
        places = tuple(list(classes or ()).index(label) for label in selected)
        return {"cost": RateFloor(cost.matrix, places, least)}

    def _cost_table(self, n_classes: int) -> Any:
        return 1.0 - np.eye(n_classes) if self.cost_matrix is None else self.cost_matrix
