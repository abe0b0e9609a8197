"""`ParityClassifier`: a classifier whose decisions are equally likely in every group."""

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import assert_all_finite, check_is_fitted, column_or_1d

from evenhand._utils.missing import without_mask
from evenhand._utils.text import is_wide_text
from evenhand._utils.typing import AnyArray, FloatArray
from evenhand._utils.validation import Labels
from evenhand._utils.warn import warn_user
from evenhand.dual.costs import check_cost_matrix
from evenhand.dual.floors import RateFloor, check_least
from evenhand.dual.parity import ParityNotion
from evenhand.estimators.base import ParityEstimator
from evenhand.estimators.checks import check_kind
from evenhand.estimators.models import (
    came_fitted,
    class_codes,
    default_classifier,
    require_proba,
)
from evenhand.estimators.price import level_text, warn_of_levelling
from evenhand.estimators.strata import JOINTS, choose_outcomes
from evenhand.estimators.streaming import OnDrift
from evenhand.estimators.training_data import Table
from evenhand.exceptions import IndependenceWarning
from evenhand.metrics import accuracy


@dataclass(eq=False, repr=False)
class ParityClassifier(ClassifierMixin, ParityEstimator):  # type: ignore[misc]
    """Wrap a classifier so that each decision is equally likely in every group, up to `epsilon`.

    `fit` learns a model of the class and a model of the group, then solves for the randomized decisions with
    the smallest expected cost. The probability of each class in each group is within epsilon of its
    probability among all rows, or among the rows with the same true class (`criterion`). This is the
    extension that the paper names in its remarks on general risks and on classification. The group is needed
    in `fit` only: `predict` does not use it.

    Parameters
    ----------
    estimator : classifier with predict_proba, default=None
        Model of the class: any scikit-learn-compatible classifier or pipeline. None: logistic regression on
        imputed and scaled features, with text columns one-hot encoded as in `table_pipeline`; X can be
        sparse. To use a model that is already fitted, pass `sklearn.frozen.FrozenEstimator(model)`.
    sensitive_estimator : classifier with predict_proba, default=None
        Model of the group, or of class and group together (see `joint`). None: logistic regression on imputed
        and scaled features.
    cv : int, splitter, iterable of splits or None, default=None
        Folds for cross-fitting: each labeled row is scored by models that were not fitted on it. None: five
        folds, stratified by class and group, or fewer if a group has fewer than five rows.
    calibration : {"auto", "joint", None}, default="auto"
        Whether to recalibrate the probabilities of both models on held-out rows. "joint" fits multinomial
        logistic regressions that predict the class and the group from polynomials of both models' outputs.
        Each is kept only if it reduces the loss on held-out rows, or if there are at least 10,000 rows per
        coefficient. "auto" is "joint" if epsilon is for new data, and None with `confidence=None`. None uses
        the probabilities as they are.
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
        Minimum number of labeled rows of a group, within each stratum.
    small_groups : {"error", "merge"}, default="error"
        What to do with groups smaller than `min_group_size`: raise an error, or merge them into one group
        called "other".
    n_jobs : int or None, default=None
        Number of folds fitted in parallel. None is 1; -1 uses all processors.
    criterion : {"demographic_parity", "equalized_odds", "equal_opportunity"}, default="demographic_parity"
        Among which rows groups are compared. "demographic_parity": all rows. "equalized_odds": the rows of
        each true class. "equal_opportunity": the rows whose true class is in `pos_label`.
    pos_label : label or list of labels, default=None
        The class or classes that count as selected, for "equal_opportunity" and `min_rate`. None: the second
        of two classes.
    joint : {"auto", "classifier", "product"}, default="auto"
        How to estimate `P(S, Y | X)`, which "equalized_odds" and "equal_opportunity" need. "classifier": fit
        a clone of `sensitive_estimator` to pairs of class and group. "product": multiply `P(S | X)` and
        `P(Y | X)`, which assumes that group and class are independent given X (an `IndependenceWarning` is
        issued). "auto" is "product" if `sensitive_estimator` is already fitted, otherwise "classifier".
    parity : {"pmf", "cdf", "tv", "mean", "w1"} or ParityNotion, default="pmf"
        The distance between the decisions of a group and those of all rows that `epsilon` bounds: "pmf" is
        the largest difference in the probability of a class; "tv" that of any set of classes; "cdf" that of
        "this class or a lower one", for ordered classes. "mean" and "w1" treat the classes as the numbers 0,
        1, ...
    cost_matrix : array of shape (n_classes, n_classes), default=None
        Entry (k, l) is the cost of deciding for class l if the true class is k. None: each error costs 1.
    min_rate : float, "before", "each" or None, default=None
        Minimum selection rate, so that parity is not reached by selecting fewer people. A float is the
        minimum share of decisions for `pos_label`; "before" is the overall selection rate without parity;
        "each" requires at least the rate without parity in every group. It holds on the rows of the parity
        step, by their estimated probabilities, and increases the number of errors. A `LevellingDownWarning`
        is issued if many fewer people are selected than before.
    epsilon : float, array of shape (n_groups,) or dict, default=0.05
        Tolerance on the distance between each group and all rows. One float applies to all groups; a dict
        maps group labels to values. If groups are compared within strata, labels are pairs
        `(stratum, group)`, and a dict can also map strata to values: classes for "equalized_odds", columns
        for `attributes="separate"`, either of them if both apply.
    beta : "auto", "paper" or float, default="auto"
        Inverse temperature: a high value restricts random decisions to rows that are close to a tie.
        "auto" and "paper" are `sqrt(n_rows) log2(sqrt(n_rows))`, as in the paper's experiments.
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
        Start the parity step from the multipliers of the last fit, if the groups and classes are the same.
    random_state : int, Generator, RandomState or None, default=None
        Key of the random draws of `predict`, and seed of the folds and of the stochastic solvers. None is a
        fixed, public key. If nobody should be able to predict the draws, pass an integer and keep it secret.
    device : str or None, default=None
        Device on which the parity step is solved, such as "cuda" (docs/how-to/gpu.md). The models are not
        moved. None: the CPU.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        The classes, in increasing order.
    scorer_ : Scorer
        The fitted models with their recalibration maps, and the strata.
    step_ : FittedStep
        The fitted parity step. The other attributes are read from `scorer_` and `step_`.
    estimator_ : object
        The fitted model of the class.
    sensitive_estimator_ : object, list or None
        The fitted model of the group, or of class and group together; a list with `attributes="separate"`.
        None with `aware=True`, unless class and group are learned together.
    calibrator_ : JointCalibrator, list or None
        The map that recalibrates the group probabilities; a list with `attributes="separate"`. None if there
        is no map.
    outcome_calibrator_ : JointCalibrator or None
        The map that recalibrates the class probabilities. None if there is no map.
    strata_ : Strata
        Which groups are compared, and within which strata.
    group_summary_ : GroupSummary
        How many rows had a known group, and which groups (docs/how-to/groups.md).
    postprocessor_ : ParityPostprocessor
        The parity step alone, for the output of `predict_scores`. Its atoms 0, 1, ... are positions in
        `classes_`.
    atoms_ : array of shape (n_classes,)
        Positions of the classes: 0, 1, ...
    bounds_ : (low, high)
        The first and the last atom.
    beta_ : float
        Inverse temperature, on the scale of the normalized costs.
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
        Number of scores outside the bounds: always 0, because the scores are probabilities.
    multipliers_ : array of shape (n_constraints, n_groups)
        Dual variables of the parity constraints.
    tilt_ : array of shape (n_classes, n_groups)
        What the multipliers add to the logits of the policy.
    policy_ : SoftmaxPolicy
        The fitted policy: a distribution over the classes for each row.
    parity_ : str or ParityNotion
        The parity notion.
    result_ : SolverResult
        Status, number of iterations and objective of the solver.
    certificate_ : Certificate
        Violation on the rows of the parity step and a bound on the optimality gap.
        `certificate_.out_of_sample` estimates the distance on new data; `certificate_.calibration` measures
        the calibration of the group probabilities.
    price_ : Price
        Risk and share of each class among the decisions, before and after the parity step.
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
    >>> import numpy as np
    >>> from evenhand import ParityClassifier
    >>> from evenhand.datasets import make_population
    >>> data = make_population(3000, n_groups=2, random_state=0)
    >>> hired = np.where(data.target > 0.2, "yes", "no")
    >>> model = ParityClassifier(epsilon=0.02)
    >>> model = model.fit(data.data, hired, sensitive_features=data.sensitive_features)
    >>> model.certificate_.out_of_sample.expected.round(2)  # difference in selection rates on new data
    array([0.02, 0.01])
    >>> model.predict(data.data[:4])
    array(['yes', 'no', 'no', 'yes'], dtype='<U3')
    """

    _: KW_ONLY
    criterion: str = "demographic_parity"
    pos_label: Any = None
    joint: str = "auto"
    parity: str | ParityNotion = "pmf"
    cost_matrix: Any = None
    min_rate: Any = None

    __metadata_request__predict_proba: ClassVar[dict[str, bool]] = {"sensitive_features": False}

    @property
    def classes_(self) -> AnyArray:
        """The classes, in increasing order, (n_classes,)."""
        classes = self.scorer_.classes
        assert classes is not None
        return classes

    def faults(self) -> Iterator[str]:
        """Check the fitted state, and that there is one atom for each class."""
        yield from super().faults()
        if "step_" in vars(self) and not np.array_equal(self.atoms_, np.arange(len(self.classes_))):
            yield "its classes are not those of its atoms"

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
        """Update the parity step with more unlabeled rows; each row is used once and not stored.

        Call `fit` first; its rows count as the first rows of the stream. The models of the class and of the
        group do not change. If a call raises an error, the model keeps its previous state, unless the error
        comes from `on_drift`, which is called after the update. The result does not depend on how the rows
        are split into calls.

        Parameters
        ----------
        X_unlabeled : array, data frame or sparse matrix of shape (n_rows, n_features)
            Features of the new rows, in the format that was passed to `fit`.
        y : None
            Ignored; present for consistency with scikit-learn.
        classes : array of shape (n_classes,), default=None
            Present for consistency with scikit-learn. If given, it must contain the classes of `fit`.
        sensitive_features : array or data frame of shape (n_rows,), default=None
            Group of each row. Required with `aware=True`, and not accepted otherwise.
        half_life : float, default=None
            Number of rows after which the weight of a row is halved, at least one block (2,048). None: all
            rows keep their weight.
        on_drift : callable, default=None
            Function that is called with a `Drift` if the violation or the share of a group has changed. None:
            a `DriftWarning` is issued instead.

        Returns
        -------
        self : ParityClassifier
            The updated model.
        """
        check_is_fitted(self, "step_")
        if classes is not None and set(np.asarray(classes).tolist()) != set(self.classes_.tolist()):
            raise ValueError(
                f"classes must be those of fit, {self.classes_.tolist()}: got {classes!r}. A new class needs "
                "a new fit: partial_fit cannot add classes."
            )
        return super().partial_fit(
            X_unlabeled, y, sensitive_features=sensitive_features, half_life=half_life, on_drift=on_drift
        )

    def predict_proba(self, X: Any, *, sensitive_features: Any = None) -> FloatArray:
        """Return the probability that `predict` decides for each class.

        Parity holds for these probabilities. They do not estimate `P(Y | X)`; use
        `estimator_.predict_proba` for that.

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (n_rows, n_features)
            Features, in the format that was passed to `fit`.
        sensitive_features : array or data frame of shape (n_rows,), default=None
            Group of each row. Required with `aware=True`, and not accepted otherwise.

        Returns
        -------
        proba : array of shape (n_rows, n_classes)
            Each row sums to one; the columns are in the order of `classes_`.
        """
        return self.predict_pmf(X, sensitive_features=sensitive_features)

    def predict_mode(self, X: Any, *, sensitive_features: Any = None) -> AnyArray:
        """Return the most likely decision for each row, without a random draw.

        Parity generally does not hold. For most rows one decision has a probability close to 1, and the
        result agrees with `predict`. Parity depends on the other rows, whose random decisions become fixed
        here. Measure the effect with `evenhand.audit`.

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (n_rows, n_features)
            Features, in the format that was passed to `fit`.
        sensitive_features : array or data frame of shape (n_rows,), default=None
            Group of each row. Required with `aware=True`, and not accepted otherwise.

        Returns
        -------
        predictions : array of shape (n_rows,)
            One of `classes_` for each row.
        """
        scores, group_proba = self.predict_scores(X, sensitive_features=sensitive_features)
        return self._labels(self.step_.policy.likeliest(scores, group_proba))

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, sensitive_features: Any = None) -> float:
        """Return the expected accuracy; the expectation over the random draws is exact.

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (n_rows, n_features)
            Features, in the format that was passed to `fit`.
        y : array of shape (n_rows,)
            True classes.
        sample_weight : array of shape (n_rows,), default=None
            Weights of the rows. None: all rows have the same weight.
        sensitive_features : array or data frame of shape (n_rows,), default=None
            Group of each row. Required with `aware=True`, and not accepted otherwise.

        Returns
        -------
        score : float
            Expected share of correct decisions.
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
        # Lists with long strings become object arrays: a fixed-width string dtype could exhaust the memory.
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
                "A sensitive_estimator that is already fitted predicts groups and not outcomes: pass one "
                'that is not fitted, or joint="product".'
            )
        if self.joint == "product" or given:
            warn_user(
                "P(S, Y | X) is computed as the product of P(S | X) and P(Y | X): parity within outcomes "
                "then assumes that group and outcome are independent given the features. To avoid this "
                'assumption, pass joint="classifier" and a sensitive_estimator that is not fitted.',
                IndependenceWarning,
            )
            return False
        return True

    def _recalibration_target(self, table: Table, classes: Labels | None) -> AnyArray | None:
        return None if table.y is None else class_codes(table.y, classes or ())

    def _selected(self, classes: Sequence[Any]) -> list[Any]:
        """Return the classes that count as selected: `pos_label`, or the second of two classes."""
        wanted = self.pos_label
        if wanted is None:
            return list(classes[1:]) if len(classes) == 2 else []
        several = isinstance(wanted, list | tuple | set | np.ndarray)
        return [label for label in classes if (label in wanted if several else label == wanted)]

    def _warn_of_price(self) -> None:
        super()._warn_of_price()
        labels = self.classes_.tolist()
        if selected := self._selected(labels):
            warn_of_levelling(self.price_, labels, selected)

    def _estimate_text(self) -> str:
        """The estimate for new data, and the selection rate before and after."""
        text = super()._estimate_text()
        if not hasattr(self, "price_") or not (selected := self._selected(self.classes_.tolist())):
            return text
        return f"{text} {level_text(self.price_, self.classes_.tolist(), selected)}"

    def _labels(self, atoms: FloatArray) -> AnyArray:
        return self.classes_[atoms.astype(np.int64)]

    def _step_settings(self, classes: Labels | None) -> dict[str, Any]:
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
                "min_rate needs pos_label, the class (or list of classes) that counts as selected."
            )
        places = tuple(list(classes or ()).index(label) for label in selected)
        return {"cost": RateFloor(cost.matrix, places, least)}

    def _cost_table(self, n_classes: int) -> Any:
        return 1.0 - np.eye(n_classes) if self.cost_matrix is None else self.cost_matrix
