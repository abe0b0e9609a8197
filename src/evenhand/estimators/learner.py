"""The models of the outcome and of the group, learned and asked: what comes before the parity step."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import _safe_indexing, indexable
from sklearn.utils.validation import check_consistent_length

from evenhand._utils.labels import Groups
from evenhand._utils.typing import AnyArray, FloatArray
from evenhand._utils.validation import Labels, as_floats, check_weights, require_mass
from evenhand.calibration import JOINT
from evenhand.estimators.cells import Cells
from evenhand.estimators.checking import (
    check_kind,
    check_more_rows,
    check_n_jobs,
    require_same_order,
    warn_of_group_in_features,
    warn_of_shared_draws,
)
from evenhand.estimators.draws import RandomState
from evenhand.estimators.group_model import GroupModel, fit_group_models
from evenhand.estimators.groups import check_groups, check_small_groups
from evenhand.estimators.judging import JudgedRows, is_for_new_people
from evenhand.estimators.learning import (
    Learned,
    RawRows,
    attribute_columns,
    combined_codes,
    diagnose,
    factor_codes,
    factor_values,
    judged_folds,
    known_columns,
    known_groups,
    model_targets,
    needs_labelled,
    require_cells,
)
from evenhand.estimators.nuisances import (
    Fold,
    Labelled,
    came_fitted,
    class_codes,
    default_classifier,
    fit_model,
    fold_seed,
    make_folds,
    out_of_fold,
    report_fits,
    require_groups,
    require_known_groups,
    require_proba,
    require_table,
    weight_parameter,
)
from evenhand.estimators.recalibration import (
    AUTO,
    ModelOutputs,
    Models,
    check_calibration,
    fit_recalibration,
    mend_by_fold,
    recalibrate,
)


class Learner(ABC):
    """Learns the outcome and the group from labelled rows; a subclass says how rows are scored."""

    # parameters, which `__init__` of the estimator stores
    estimator: Any
    sensitive_estimator: Any
    cv: Any
    calibration: str | None
    confidence: Any
    aware: bool
    attributes: str
    conditional_on: Any
    min_group_size: int
    small_groups: str
    n_jobs: int | None
    random_state: RandomState

    @abstractmethod
    def _base_estimator(self, X: Any = None) -> BaseEstimator:
        """The model of the outcome, unfitted; by default one that takes the columns of X."""

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

    def _outcome_to_mend(self, data: Labelled) -> AnyArray | None:
        """What a joint calibration has the scores foretell; None where they are left alone."""
        return data.y if data.classes is None else class_codes(data.y, data.classes)

    def _learn(
        self,
        X: Any,
        y: Any,
        sensitive_features: Any,
        X_unlabeled: Any = None,
        sensitive_features_unlabeled: Any = None,
        sample_weight: Any = None,
        *,
        set_aside: tuple[Any, Any] = (None, None),
    ) -> Learned:
        """Fit the two models and score the rows of the parity step, once all that can be checked is.

        Rows that are `set_aside`, and their groups, are only checked.
        """
        calibration = self._chosen_calibration()
        judges = is_for_new_people(self.confidence, knows_groups=True)
        data, attributes, cells, folds = self._labelled(X, y, sensitive_features, sample_weight)
        self._check_models(data, attributes, cells, folds)
        self._check_step(data, cells, X_unlabeled)
        check_more_rows(X, X_unlabeled, "unlabeled", sensitive_features_unlabeled, cells)
        check_more_rows(X, set_aside[0], "calibration", set_aside[1], cells)
        known = known_groups(attributes, cells, X_unlabeled, sensitive_features_unlabeled, self.aware)
        serve = X_unlabeled is None or judges or calibration == JOINT
        serve = serve or needs_labelled(cells, known, self.aware)
        estimator, scores = self._fit_outcome(data, folds, serve)
        groups, held_out = self._fit_group_models(data, attributes, cells, folds, calibration)
        models = Models(estimator, None, groups)
        kinds = combined_codes(attributes, data.y, data.classes)
        judged = JudgedRows.choose([scored for _, scored in folds], kinds, fold_seed(self.random_state))
        without = [models] * len(folds)
        factors = factor_codes(data.X, self.conditional_on, cells)
        labelled = RawRows(
            ModelOutputs(scores, held_out, attributes if self.aware else None), factors, data.weights
        )
        if calibration == JOINT:
            targets = model_targets(cells, attributes, data) if groups else ()
            outcome = self._outcome_to_mend(data)
            models, without = fit_recalibration(
                models, labelled.outputs, outcome, targets, judged, data.weights
            )
        pile = labelled if X_unlabeled is None else self._raw_rows(models, X_unlabeled, cells, known)
        rows = pile.scored(models, cells)
        require_mass(rows.groups, rows.group_mass())
        diagnosis = None
        if len(groups) == 1 and not self.aware:
            codes = model_targets(cells, attributes, data)[0].codes
            mended = mend_by_fold(labelled.outputs, without, folds)
            outputs = mended if X_unlabeled is None else recalibrate(models, pile.outputs)
            diagnosis = diagnose(cells, mended, codes, data.weights, outputs, known, rows)
        judged_by = None
        if judges:
            judged_by = judged_folds(
                labelled.take(judged.places),
                None if X_unlabeled is None else pile,
                without,
                cells,
                judged,
                known_columns(cells, attributes, data.y, factors)[judged.places],
            )
        classes = None if data.classes is None else np.unique(data.y)
        return Learned(models, cells, classes, diagnosis, rows, judged_by)

    @abstractmethod
    def _check_step(self, data: Labelled, cells: Cells, X_unlabeled: Any) -> None:
        """Refuse parameters of the parity step, and warn of those that ask for nothing."""

    def _check_models(
        self, data: Labelled, attributes: list[Groups], cells: Cells, folds: list[Fold]
    ) -> None:
        """Refuse models that cannot learn what they are to; warn where they are told the group."""
        check_n_jobs(self.n_jobs)
        models = {"estimator": self._base_estimator(data.X)}
        if not self.aware or cells.joint:
            models["sensitive_estimator"] = classifier = self._group_classifier(data.X)
            targets = model_targets(cells, attributes, data)
            for groups in targets:
                require_groups(groups, folds)
                if came_fitted(classifier):
                    require_known_groups(classifier, groups.labels)
        if data.weights is not None:
            for name, model in models.items():
                weight_parameter(model, name)
        if not self.aware:
            warn_of_group_in_features(data.X, attributes, stacklevel=4)
        warn_of_shared_draws(data.X, stacklevel=4)

    def _chosen_calibration(self) -> str | None:
        """The name that "auto" stands for: joint where epsilon is for new people."""
        check_calibration(self.calibration)
        if self.calibration != AUTO:
            return self.calibration
        return JOINT if is_for_new_people(self.confidence, knows_groups=True) else None

    def _fit_outcome(self, data: Labelled, folds: list[Fold], serve: bool) -> tuple[Any, FloatArray]:
        """The model of the outcome, and scores of the labelled rows.

        They `serve` the parity step, a calibration or its diagnosis by models that have not seen the row.
        """
        if serve:
            report_fits("outcome", 0, folds)
        model = self._base_estimator(data.X)
        estimator = fit_model(model, data.X, data.y, data.weights, "estimator")
        if serve:
            score = partial(self._score_fold, model, estimator)
            return estimator, out_of_fold(score, data, folds, self.n_jobs, "outcome")
        return estimator, self._scores(estimator, data.X, data.classes)

    def _fit_group_models(
        self,
        data: Labelled,
        attributes: list[Groups],
        cells: Cells,
        folds: list[Fold],
        calibration: str | None,
    ) -> tuple[list[GroupModel], list[FloatArray]]:
        """Models of the group, and what they say of labelled rows that they have not seen."""
        if self.aware and not cells.joint:
            return [], []
        targets = model_targets(cells, attributes, data)
        return fit_group_models(
            self._group_classifier(data.X), data, targets, folds, calibration, self.n_jobs
        )

    def _raw_rows(self, models: Models, X: Any, cells: Cells, known: Sequence[Groups] | None) -> RawRows:
        """Rows as fitted models see them; their groups are `known` to aware models alone."""
        scores = self._scores(models.outcome, X, cells.classes)
        outputs = ModelOutputs(
            scores, [model.proba(X) for model in models.groups], known if self.aware else None
        )
        return RawRows(outputs, factor_codes(X, self.conditional_on, cells), None)

    def _group_classifier(self, X: Any = None) -> BaseEstimator:
        if self.sensitive_estimator is None:
            return default_classifier(X)
        check_kind(self.sensitive_estimator, "sensitive_estimator", "classifier", "Groups are classes.")
        require_proba(self.sensitive_estimator)
        return self.sensitive_estimator

    def _score_fold(self, model: BaseEstimator, warm_start_from: Any, data: Labelled, X: Any) -> FloatArray:
        """Scores of X by a model fitted on `data`, started from one that was fitted on all labelled rows."""
        estimator = fit_model(model, data.X, data.y, data.weights, "estimator", warm_start_from)
        return self._scores(estimator, X, data.classes)

    def _labelled(
        self, X: Any, y: Any, sensitive_features: Any, sample_weight: Any
    ) -> tuple[Labelled, list[Groups], Cells, list[Fold]]:
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
        require_same_order(X, sensitive_features, "sensitive_features")
        columns = attribute_columns(sensitive_features, len(target), self.attributes)
        attributes = [
            check_groups(
                groups if used.all() else groups.take(used),
                min_group_size=self.min_group_size,
                merge_small=merge_small,
            )
            for groups in columns.values()
        ]
        kept = target[used]
        classes = self._classes(kept)
        codes = combined_codes(attributes, kept, classes)
        folds = make_folds(self.cv, X, used, attributes, codes, fold_seed(self.random_state))
        if weights is not None and not used.all():
            X, weights = _safe_indexing(X, np.flatnonzero(used)), weights[used]
        data = Labelled(X, kept, attributes[0].codes, attributes[0].labels, weights, classes)
        return data, attributes, self._cells(tuple(columns), attributes, data), folds

    def _cells(self, names: Labels, attributes: list[Groups], data: Labelled) -> Cells:
        """The parity that the parameters ask for, on these rows."""
        outcomes = self._outcomes(data.classes)
        cells = Cells(
            names=names,
            groups=tuple(groups.labels for groups in attributes),
            separate=self.attributes == "separate",
            classes=data.classes,
            outcomes=outcomes,
            factors=factor_values(data.X, self.conditional_on),
            joint=outcomes is not None and self._fits_joint(),
        )
        factors = factor_codes(data.X, self.conditional_on, cells)
        require_cells(cells, attributes, data, factors, self.min_group_size)
        return cells
