"""What the estimators share: learn the outcome and the group, score rows, post-process, predict."""

from abc import ABC, abstractmethod
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, get_tags, indexable
from sklearn.utils.validation import _num_samples, check_consistent_length, check_is_fitted, validate_data

from evenhand._typing import AnyArray, FloatArray, IntArray
from evenhand._validation import Rows, check_group_proba, check_rows, check_scores, check_weights
from evenhand.calibration import CalibrationDiagnosis, Calibrator, diagnose_calibration
from evenhand.certificates import Certificate
from evenhand.draws import RandomState, choose_uniforms, key_from, uniforms_from_table
from evenhand.estimators.group_model import GroupModel, fit_group_model
from evenhand.estimators.groups import Groups, encode_groups, encode_known, row_labels
from evenhand.estimators.nuisances import (
    Fold,
    Labelled,
    default_classifier,
    fit_model,
    make_folds,
    out_of_fold,
    require_proba,
)
from evenhand.postprocessor import FrontierRows, ParityPostprocessor
from evenhand.streams import OnDrift

SMALL_GROUPS = ("error", "merge")


@dataclass(frozen=True, slots=True, eq=False)
class Learned:
    """What a fit knows before the parity step, and the rows for that step."""

    estimator: Any
    group_model: GroupModel | None  # None where the group itself is given
    diagnosis: CalibrationDiagnosis | None
    rows: Rows


class ParityEstimator(MetaEstimatorMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """Base of the estimators; a subclass says how rows are scored and which post-processor serves it."""

    # Groups are for fit; an aware model asks for them elsewhere with set_predict_request, set_score_request.
    __metadata_request__fit: ClassVar[dict[str, bool]] = {"sensitive_features": True}
    __metadata_request__predict: ClassVar[dict[str, bool]] = {"sensitive_features": False}
    __metadata_request__score: ClassVar[dict[str, bool]] = {"sensitive_features": False}

    # parameters, which `__init__` of the subclass stores
    estimator: Any
    sensitive_estimator: Any
    cv: Any
    calibration: str | None
    aware: bool
    min_group_size: int
    small_groups: str
    n_jobs: int | None
    random_state: RandomState

    estimator_: Any
    sensitive_estimator_: Any
    calibrator_: Calibrator | None
    postprocessor_: ParityPostprocessor
    certificate_: Certificate
    groups_: AnyArray

    @abstractmethod
    def _base_estimator(self) -> BaseEstimator:
        """The model of the outcome, unfitted."""

    @abstractmethod
    def _check_target(self, y: Any) -> AnyArray:
        """The outcomes as the model of the outcome takes them, (n_rows,)."""

    def _check_training_target(self, y: Any) -> AnyArray:
        """The same at fit, where a model may have more to say about them."""
        return self._check_target(y)

    @abstractmethod
    def _scores(self, estimator: Any, X: Any) -> FloatArray:
        """What the post-processor calls scores."""

    @abstractmethod
    def _postprocessor(self) -> ParityPostprocessor:
        """The post-processor with this model's parameters, unfitted."""

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        sensitive_features: Any = None,
        X_unlabeled: Any = None,
        sensitive_features_unlabeled: Any = None,
        sample_weight: Any = None,
    ) -> Self:
        """Learn the outcome and the group, then the parity step on rows that neither has seen.

        A fit that fails leaves the model as it was before.

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (n_rows, n_features)
            Whatever the two models take.
        y : array of shape (n_rows,)
        sensitive_features : array or data frame of shape (n_rows,) or (n_rows, n_columns)
            Group of each row; of several columns, every combination that is there is a group.
        X_unlabeled : like X, default=None
            Rows for the parity step: no outcome and no group is needed. Without it the rows of X serve,
            each scored by models that were fitted on the other folds (`cv`).
        sensitive_features_unlabeled : array or data frame, default=None
            Groups of the rows of `X_unlabeled`, where they are known. They serve to measure how well
            calibrated the group probabilities are, and nothing else, unless `aware=True`.
        sample_weight : array of shape (n_rows,), default=None
            Weights of the rows of X, for both models and, without `X_unlabeled`, for the parity step.
        """
        learned = self._learn(
            X, y, sensitive_features, X_unlabeled, sensitive_features_unlabeled, sample_weight
        )
        postprocessor = self._postprocessor()._fit_rows(learned.rows)
        validate_data(self, X, skip_check_array=True)  # notes the features' names and number
        return self._install(learned, postprocessor)

    def partial_fit(
        self,
        X_unlabeled: Any,
        y: Any = None,
        *,
        sensitive_features: Any = None,
        half_life: float | None = None,
        on_drift: OnDrift | None = None,
    ) -> Self:
        """Go on with the parity step on more rows without labels, each used once and forgotten.

        After `fit`, whose rows count as the first ones of the stream; the models of the outcome and of the
        group stay as they are. A call that raises leaves the model as it was. Any chunking of the same rows
        gives the same model: the scores of most models differ in their last bits with the size of the
        batch, so they are rounded to 2^-24 of half the grid's width, and probabilities to 2^-24.

        Parameters
        ----------
        X_unlabeled : array, data frame or sparse matrix of shape (n_rows, n_features)
        y : None
            Not looked at: scikit-learn's convention has it there.
        sensitive_features : array of shape (n_rows,), default=None
            Only for `aware` models, which need it.
        half_life : float, default=None
            Rows after which a row counts for half; None forgets nothing.
        on_drift : callable, default=None
            Called with a `Drift` where the rows are found to have changed, instead of a `DriftWarning`.
        """
        scores, group_proba = self._nuisances(X_unlabeled, sensitive_features)
        step = copy(self.postprocessor_)
        alarms = step._take_rows(scores, group_proba, half_life, quiet=on_drift is not None)
        self._install_step(step)
        for alarm in alarms:
            assert on_drift is not None  # else they were warnings
            on_drift(alarm)
        return self

    def _install_step(self, step: ParityPostprocessor) -> None:
        """Go on with another parity step behind the same models, all at once."""
        self.__dict__.update(
            postprocessor_=step,
            certificate_=replace(step.certificate_, calibration=self.certificate_.calibration),
            n_iter_=max(1, step.result_.n_iter),
        )

    def predict(
        self, X: Any, *, sensitive_features: Any = None, random_state: RandomState = None, ids: Any = None
    ) -> AnyArray:
        """One outcome for each row, drawn from its policy: parity is kept, up to the noise of drawing.

        By default the draw is a keyed hash of the row's features: the same person gets the same answer in
        any batch, order, process or machine, and so do two people with the same features.

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (n_rows, n_features)
        sensitive_features : array of shape (n_rows,), default=None
            Only for `aware` models, which need it.
        random_state : int, Generator, RandomState or None, default=None
            Anything but None asks for fresh draws instead.
        ids : array of shape (n_rows,), default=None
            Who each row is: the draw is then a hash of the id alone, and also survives new models.
        """
        (X,) = indexable(X)
        scores, group_proba = self._nuisances(X, sensitive_features)
        key = self.postprocessor_.draw_key_
        uniforms = choose_uniforms(len(scores), key, random_state, ids, lambda: uniforms_from_table(X, key))
        return self.postprocessor_.policy_.draw(scores, group_proba, uniforms)

    def _learn(
        self,
        X: Any,
        y: Any,
        sensitive_features: Any,
        X_unlabeled: Any = None,
        sensitive_features_unlabeled: Any = None,
        sample_weight: Any = None,
    ) -> Learned:
        """Fit the two models and score the rows of the parity step."""
        data, folds = self._labelled(X, y, sensitive_features, sample_weight)
        known = self._known_groups(data, X_unlabeled, sensitive_features_unlabeled)
        estimator = fit_model(self._base_estimator(), data.X, data.y, data.weights, "estimator")
        if X_unlabeled is None:
            scores, weights = out_of_fold(self._score_fold, data, folds, self.n_jobs), data.weights
        else:
            scores, weights = self._scores(estimator, X_unlabeled), None
        if self.aware:
            assert known is not None  # _known_groups has seen to it
            rows = check_rows(scores, known.one_hot(), weights, groups=data.groups)
            return Learned(estimator, None, None, rows)
        classifier = self._group_classifier()
        model, held_out = fit_group_model(classifier, data, folds, self.calibration, self.n_jobs)
        proba = held_out if X_unlabeled is None else model.proba(X_unlabeled)
        rows = check_rows(scores, proba, weights, groups=data.groups)
        if known is None or len(np.unique(known.codes)) < len(data.groups):
            # The labelled rows serve; their scores only choose bins, so fitted ones will do.
            measured = held_out, data.codes, self._scores(estimator, data.X), data.weights
        else:
            measured = rows.group_proba, known.codes, rows.scores, weights
        return Learned(estimator, model, _diagnose(*measured, rows), rows)

    def _group_classifier(self) -> BaseEstimator:
        if self.sensitive_estimator is None:
            return default_classifier()
        require_proba(self.sensitive_estimator)
        return self.sensitive_estimator

    def _score_fold(self, data: Labelled, X: Any) -> FloatArray:
        """Scores of X by a model fitted on `data`."""
        estimator = fit_model(self._base_estimator(), data.X, data.y, data.weights, "estimator")
        return self._scores(estimator, X)

    def _labelled(
        self, X: Any, y: Any, sensitive_features: Any, sample_weight: Any
    ) -> tuple[Labelled, list[Fold]]:
        """The labelled rows and their folds; rows of weight zero are left out of both."""
        if self.small_groups not in SMALL_GROUPS:
            raise ValueError(f'small_groups must be "error" or "merge": got {self.small_groups!r}.')
        (X,) = indexable(X)
        _require_table(X)
        target = self._check_training_target(y)
        check_consistent_length(X, target)
        weights = None if sample_weight is None else check_weights(sample_weight, len(target))
        used = np.ones(len(target), bool) if weights is None else weights > 0
        labels = row_labels(sensitive_features, len(target))
        groups = encode_groups(
            [label for label, counts in zip(labels, used, strict=True) if counts],
            min_group_size=self.min_group_size,
            merge_small=self.small_groups == "merge",
        )
        folds = make_folds(self.cv, X, used, groups.codes, groups.labels, _seed(self.random_state))
        if weights is not None and not used.all():
            X, target, weights = _safe_indexing(X, np.flatnonzero(used)), target[used], weights[used]
        return Labelled(X, target, groups.codes, groups.labels, weights), folds

    def _known_groups(self, data: Labelled, X_unlabeled: Any, groups_unlabeled: Any) -> Groups | None:
        """Groups of the rows of the parity step, where they are known."""
        if X_unlabeled is None:
            if groups_unlabeled is not None:
                raise ValueError("sensitive_features_unlabeled was given without X_unlabeled.")
            return Groups(data.groups, data.codes)
        if groups_unlabeled is not None:
            n_rows = _num_samples(X_unlabeled)
            return encode_known(groups_unlabeled, n_rows, data.groups, "sensitive_features_unlabeled")
        if self.aware:
            raise ValueError(
                "aware=True needs the group of every row that it post-processes: pass "
                "sensitive_features_unlabeled with X_unlabeled."
            )
        return None

    def _install(self, learned: Learned, postprocessor: ParityPostprocessor) -> Self:
        """Become a fitted model, all at once."""
        group_model = learned.group_model
        self.__dict__.update(
            estimator_=learned.estimator,
            sensitive_estimator_=None if group_model is None else group_model.classifier,
            calibrator_=None if group_model is None else group_model.calibrator,
            postprocessor_=postprocessor,
            certificate_=replace(postprocessor.certificate_, calibration=learned.diagnosis),
            n_iter_=max(1, postprocessor.result_.n_iter),
            groups_=postprocessor.groups_,
        )
        return self

    def _frontier_rows(self, X: Any, y: Any, **fit_params: Any) -> FrontierRows:
        """The rows of the parity step, learned once for many tolerances."""
        learned = self._learn(X, y, **{"sensitive_features": None, **fit_params})

        def assemble(postprocessor: ParityPostprocessor) -> ParityEstimator:
            model: ParityEstimator = clone(self).set_params(epsilon=postprocessor.epsilon)
            validate_data(model, X, skip_check_array=True)
            return model._install(learned, postprocessor)

        return FrontierRows(self._postprocessor(), learned.rows, None, assemble)

    def _nuisances(self, X: Any, sensitive_features: Any) -> tuple[FloatArray, FloatArray]:
        """Checked scores (n_rows,) and group probabilities (n_rows, n_groups)."""
        check_is_fitted(self, "postprocessor_")
        (X,) = indexable(X)
        _require_table(X)
        validate_data(self, X, reset=False, skip_check_array=True)
        scores = check_scores(self._scores(self.estimator_, X))
        labels = tuple(self.groups_.tolist())
        if self.aware:
            if sensitive_features is None:
                raise ValueError("This model is aware: pass the group of each row as sensitive_features.")
            return scores, encode_known(
                sensitive_features, len(scores), labels, "sensitive_features"
            ).one_hot()
        if sensitive_features is not None:
            raise ValueError(
                "sensitive_features is not used to predict: this model does without the group. "
                "Leave it out, or fit with aware=True where the law allows its use."
            )
        model = GroupModel(self.sensitive_estimator_, self.calibrator_, labels)
        proba, _ = check_group_proba(model.proba(X), len(scores))
        return scores, proba

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        base, groups = (_input_tags(model) for model in (self._base_estimator(), self._group_classifier()))
        tags.input_tags.sparse = base.sparse and groups.sparse
        tags.input_tags.allow_nan = base.allow_nan and groups.allow_nan
        tags.input_tags.string = base.string and groups.string
        tags.input_tags.categorical = base.categorical and groups.categorical
        tags.target_tags.required = True
        return tags


def _input_tags(model: Any) -> Any:
    """What a model takes; a pipeline does not pass on all that its first step takes."""
    tags = get_tags(model).input_tags
    if isinstance(model, Pipeline):
        tags.allow_nan = get_tags(model.steps[0][1]).input_tags.allow_nan
    return tags


def _diagnose(
    proba: FloatArray, codes: IntArray, scores: FloatArray, weights: FloatArray | None, rows: Rows
) -> CalibrationDiagnosis:
    """How far `proba` is from calibrated, for a policy with the prior of the parity step's rows."""
    return diagnose_calibration(
        proba, codes, rows.groups, rows.group_mass(), scores=scores, sample_weight=weights
    )


def _require_table(X: Any) -> None:
    """Refuse what is not a table, in the words that scikit-learn's users know."""
    shape = getattr(X, "shape", None) or np.shape(X)
    if len(shape) != 2:
        raise ValueError(
            f"X must have shape (n_rows, n_features): got {tuple(shape)}. Reshape your data: "
            "X.reshape(-1, 1) for one feature, X.reshape(1, -1) for one row."
        )
    if shape[0] == 0:
        raise ValueError(f"X has 0 sample(s) (shape={tuple(shape)}) while a minimum of 1 is required.")


def _seed(random_state: RandomState) -> int:
    """Seed of the folds: the integer itself; None is always the same folds."""
    return 0 if random_state is None else int(key_from(random_state)[0] >> np.uint64(32))
