"""What the estimators share: learn the outcome and the group, score rows, post-process, predict."""

from abc import abstractmethod
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from itertools import compress
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.utils import _safe_indexing, indexable
from sklearn.utils.validation import _num_samples, check_consistent_length, check_is_fitted, validate_data

from evenhand._utils.typing import AnyArray, FloatArray
from evenhand._utils.validation import Labels, as_floats, check_group_proba, check_rows, check_weights
from evenhand.calibration import JOINT
from evenhand.estimators.cells import Notion
from evenhand.estimators.draws import RandomState, choose_uniforms, uniforms_from_table
from evenhand.estimators.fitted import FittedEstimator
from evenhand.estimators.group_model import GroupModel, fit_group_models, restore_models
from evenhand.estimators.groups import Groups, check_small_groups, encode_groups
from evenhand.estimators.learning import (
    Learned,
    attribute_columns,
    combined_codes,
    diagnose,
    encode_attributes,
    factor_codes,
    factor_values,
    known_columns,
    known_groups,
    model_targets,
    needs_labelled,
    only,
    require_cells,
)
from evenhand.estimators.nuisances import (
    Fold,
    Labelled,
    class_codes,
    default_classifier,
    fit_model,
    fold_seed,
    input_tags,
    make_folds,
    out_of_fold,
    report_fits,
    require_proba,
    require_table,
)
from evenhand.estimators.postprocessor import FrontierRows, ParityPostprocessor
from evenhand.estimators.recalibration import Models, Said, check_calibration, fit_recalibration, recalibrate


class ParityEstimator(FittedEstimator, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
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
    attributes: str
    conditional_on: Any
    min_group_size: int
    small_groups: str
    n_jobs: int | None
    warm_start: bool
    random_state: RandomState

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
    def _scores(self, estimator: Any, X: Any, classes: Labels | None) -> FloatArray:
        """What the post-processor calls scores: (n_rows,), or class probabilities (n_rows, n_classes)."""

    def _classes(self, target: AnyArray) -> Labels | None:
        """The classes, where the outcome is one."""
        return None

    def _outcomes(self, classes: Labels | None) -> Labels | None:
        """The classes within which groups are compared; None where all rows are."""
        return None

    def _fits_joint(self) -> bool:
        """Whether the models of the group tell outcomes apart, too, where groups are compared within them."""
        return False

    def _labels(self, atoms: FloatArray) -> AnyArray:
        """Atoms as the user knows them."""
        return atoms

    def _own_settings(self, classes: Labels | None) -> dict[str, Any]:
        """What the post-processor gets beside the parameters that it shares with this model."""
        return {}

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
        postprocessor = self._postprocessor(learned.notion)._fit_rows(learned.rows)
        validate_data(self, X, skip_check_array=True)  # notes the features' names and number
        return self._install(learned, postprocessor)

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
        return self._labels(self.postprocessor_.policy_.draw(scores, group_proba, uniforms))

    def predict_pmf(self, X: Any, *, sensitive_features: Any = None) -> FloatArray:
        """Probability of each of `postprocessor_.atoms_` for each row, (n_rows, n_atoms): parity is kept."""
        scores, group_proba = self._nuisances(X, sensitive_features)
        return self.postprocessor_.policy_.pmf(scores, group_proba)

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
        check_calibration(self.calibration)
        data, attributes, notion, folds = self._labelled(X, y, sensitive_features, sample_weight)
        known = known_groups(attributes, notion, X_unlabeled, sensitive_features_unlabeled, self.aware)
        serve = X_unlabeled is None or self.calibration == JOINT or needs_labelled(notion, known, self.aware)
        estimator, scores = self._fit_outcome(data, folds, serve)
        groups, held_out = self._fit_group_models(data, attributes, notion, folds)
        models = Models(estimator, None, groups)
        labelled = Said(scores, held_out, attributes if self.aware else None)
        if self.calibration == JOINT:
            targets = model_targets(notion, attributes, data) if groups else ()
            outcome = self._outcome_to_mend(data)
            models, labelled = fit_recalibration(models, labelled, outcome, targets, folds, data.weights)
        pile, said, weights = data.X, labelled, data.weights
        if X_unlabeled is not None:
            pile, weights = X_unlabeled, None
            said = self._say(models, pile, notion, known if self.aware else None)
        rows = check_rows(
            said.scores,
            self._columns(pile, notion, said),
            weights,
            groups=notion.labels(),
            strata=notion.strata(),
            n_classes=None if data.classes is None else len(data.classes),
        )
        diagnosis = None
        if len(groups) == 1 and not self.aware:
            codes = model_targets(notion, attributes, data)[0].codes
            diagnosis = diagnose(notion, labelled, codes, data.weights, said, known, rows)
        classes = None if data.classes is None else np.unique(data.y)
        return Learned(models, notion, classes, diagnosis, rows)

    def _fit_outcome(self, data: Labelled, folds: list[Fold], serve: bool) -> tuple[Any, FloatArray]:
        """The model of the outcome, and scores of the labelled rows.

        They `serve` the parity step, a calibration or its diagnosis by models that have not seen the row.
        """
        if serve:
            report_fits("outcome", 0, folds)
        estimator = fit_model(self._base_estimator(), data.X, data.y, data.weights, "estimator")
        if serve:
            score = partial(self._score_fold, estimator)
            return estimator, out_of_fold(score, data, folds, self.n_jobs, "outcome")
        return estimator, self._scores(estimator, data.X, data.classes)

    def _outcome_to_mend(self, data: Labelled) -> AnyArray | None:
        """What a joint calibration has the scores foretell; None where they are left alone."""
        return data.y if data.classes is None else class_codes(data.y, data.classes)

    def _fit_group_models(
        self, data: Labelled, attributes: list[Groups], notion: Notion, folds: list[Fold]
    ) -> tuple[list[GroupModel], list[FloatArray]]:
        """Models of the group, and what they say of labelled rows that they have not seen."""
        if self.aware and not notion.joint:
            return [], []
        targets = model_targets(notion, attributes, data)
        return fit_group_models(self._group_classifier(), data, targets, folds, self.calibration, self.n_jobs)

    def _say(self, models: Models, X: Any, notion: Notion, known: Sequence[Groups] | None) -> Said:
        """What fitted models say of rows."""
        scores = self._scores(models.outcome, X, notion.classes)
        return recalibrate(models, Said(scores, [model.proba(X) for model in models.groups], known))

    def _columns(self, X: Any, notion: Notion, said: Said) -> FloatArray:
        """What the post-processor calls group probabilities."""
        blocks = notion.blocks(said.modelled, said.scores, said.shares())
        return notion.columns(blocks, factor_codes(X, self.conditional_on, notion))

    def _group_classifier(self) -> BaseEstimator:
        if self.sensitive_estimator is None:
            return default_classifier()
        require_proba(self.sensitive_estimator)
        return self.sensitive_estimator

    def _score_fold(self, near: Any, data: Labelled, X: Any) -> FloatArray:
        """Scores of X by a model fitted on `data`; `near` is one that was fitted on all labelled rows."""
        estimator = fit_model(self._base_estimator(), data.X, data.y, data.weights, "estimator", near)
        return self._scores(estimator, X, data.classes)

    def _labelled(
        self, X: Any, y: Any, sensitive_features: Any, sample_weight: Any
    ) -> tuple[Labelled, list[Groups], Notion, list[Fold]]:
        """The labelled rows, their groups and folds; rows of weight zero are left out of all."""
        merge_small = check_small_groups(self.small_groups)
        (X,) = indexable(X)
        require_table(X)
        target = self._check_training_target(y)
        check_consistent_length(X, target)
        # As they came: models with a penalty, such as logistic regression, feel the sum of the weights.
        weights = None if sample_weight is None else as_floats(sample_weight, "sample_weight")
        used = np.ones(len(target), bool)
        if weights is not None:
            used = check_weights(weights, len(target)) > 0
        columns = attribute_columns(sensitive_features, len(target), self.attributes)
        attributes = [
            encode_groups(
                labels if used.all() else list(compress(labels, used)),
                min_group_size=self.min_group_size,
                merge_small=merge_small,
            )
            for labels in columns.values()
        ]
        kept = target[used]
        classes = self._classes(kept)
        codes = combined_codes(attributes, kept, classes)
        folds = make_folds(self.cv, X, used, attributes, codes, fold_seed(self.random_state))
        if weights is not None and not used.all():
            X, weights = _safe_indexing(X, np.flatnonzero(used)), weights[used]
        data = Labelled(X, kept, attributes[0].codes, attributes[0].labels, weights, classes)
        return data, attributes, self._notion(tuple(columns), attributes, data), folds

    def _notion(self, names: Labels, attributes: list[Groups], data: Labelled) -> Notion:
        """The parity that the parameters ask for, on these rows."""
        outcomes = self._outcomes(data.classes)
        notion = Notion(
            names=names,
            groups=tuple(groups.labels for groups in attributes),
            separate=self.attributes == "separate",
            classes=data.classes,
            outcomes=outcomes,
            factors=factor_values(data.X, self.conditional_on),
            joint=outcomes is not None and self._fits_joint(),
        )
        factors = factor_codes(data.X, self.conditional_on, notion)
        require_cells(notion, attributes, data, factors, self.min_group_size)
        return notion

    def _postprocessor(self, notion: Notion) -> ParityPostprocessor:
        """The post-processor with this model's parameters, unfitted but for a warm start."""
        shared = ParityPostprocessor().get_params()
        settings = {name: value for name, value in self.get_params(deep=False).items() if name in shared}
        settings |= self._own_settings(notion.classes)
        last = getattr(self, "postprocessor_", None)
        if self.warm_start and last is not None:
            warm: ParityPostprocessor = copy(last).set_params(**settings)
            return warm
        return ParityPostprocessor(**settings)

    def _install(self, learned: Learned, postprocessor: ParityPostprocessor) -> Self:
        """Become a fitted model, all at once."""
        models = learned.models
        self.__dict__.update(
            estimator_=models.outcome,
            sensitive_estimator_=only([model.classifier for model in models.groups]),
            calibrator_=only([model.calibrator for model in models.groups]),
            outcome_calibrator_=models.outcome_calibrator,
            notion_=learned.notion,
            postprocessor_=postprocessor,
            certificate_=replace(postprocessor.certificate_, calibration=learned.diagnosis),
            n_iter_=max(1, postprocessor.result_.n_iter),
            groups_=postprocessor.groups_,
        )
        if learned.classes is not None:
            self.__dict__["classes_"] = learned.classes
        return self

    def _frontier_rows(self, X: Any, y: Any, **fit_params: Any) -> FrontierRows:
        """The rows of the parity step, learned once for many tolerances."""
        learned = self._learn(X, y, **{"sensitive_features": None, **fit_params})

        def assemble(postprocessor: ParityPostprocessor) -> ParityEstimator:
            model: ParityEstimator = clone(self).set_params(epsilon=postprocessor.epsilon)
            validate_data(model, X, skip_check_array=True)
            return model._install(learned, postprocessor)

        return FrontierRows(self._postprocessor(learned.notion), learned.rows, None, assemble)

    def _nuisances(self, X: Any, sensitive_features: Any) -> tuple[FloatArray, FloatArray]:
        """Checked scores and the columns of the post-processor, (n_rows, n_groups)."""
        check_is_fitted(self, "postprocessor_")
        (X,) = indexable(X)
        require_table(X)
        validate_data(self, X, reset=False, skip_check_array=True)
        notion, known = self.notion_, None
        if self.aware:
            if sensitive_features is None:
                raise ValueError("This model is aware: pass the group of each row as sensitive_features.")
            known = encode_attributes(sensitive_features, _num_samples(X), notion, "sensitive_features")
        elif sensitive_features is not None:
            raise ValueError(
                "sensitive_features is not used to predict: this model does without the group. "
                "Leave it out, or fit with aware=True where the law allows its use."
            )
        groups = restore_models(notion, self.sensitive_estimator_, self.calibrator_)
        models = Models(self.estimator_, self.outcome_calibrator_, groups)
        said = self._say(models, X, notion, known)
        columns = self._columns(X, notion, said)
        return said.scores, check_group_proba(columns, len(columns), strata=notion.strata())[0]

    def _known_columns(self, X: Any, y: Any, sensitive_features: Any) -> FloatArray:
        """Which groups of which strata rows are in, zeros and ones, (n_rows, n_groups)."""
        groups = encode_attributes(sensitive_features, _num_samples(X), self.notion_, "sensitive_features")
        target = None if y is None else self._check_target(y)
        return known_columns(self.notion_, groups, target, factor_codes(X, self.conditional_on, self.notion_))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        base, groups = (input_tags(model) for model in (self._base_estimator(), self._group_classifier()))
        for name in ("sparse", "allow_nan", "string", "categorical"):
            setattr(tags.input_tags, name, getattr(base, name) and getattr(groups, name))
        tags.target_tags.required = True
        return tags
