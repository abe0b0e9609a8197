"""The models of the outcome and of the group, learned and asked: what comes before the parity step."""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import _safe_indexing, indexable
from sklearn.utils.validation import _num_samples, check_consistent_length

from evenhand._utils.labels import UNKNOWN, Groups
from evenhand._utils.missing import without_mask
from evenhand._utils.typing import AnyArray, FloatArray
from evenhand._utils.validation import Labels, Rows, as_floats, check_weights, require_mass
from evenhand._utils.warn import warn_user
from evenhand._utils.weights import within_floats
from evenhand.calibration import JOINT, CalibrationDiagnosis
from evenhand.estimators.cells import CRITERIA, Cells
from evenhand.estimators.checking import (
    check_kind,
    check_more_rows,
    check_n_jobs,
    check_sensitive_data,
    require_same_order,
    warn_of_group_in_features,
    warn_of_shared_draws,
)
from evenhand.estimators.draws import RandomState
from evenhand.estimators.group_model import GroupModel, fit_group_models
from evenhand.estimators.groups import check_attributes, check_small_groups, warn_of_numbers
from evenhand.estimators.judged_rows import MOST_TESTED, JudgedRows
from evenhand.estimators.judging import is_for_new_people
from evenhand.estimators.learning import (
    Learned,
    attribute_columns,
    combined_codes,
    diagnose,
    factor_codes,
    factor_values,
    judge_by,
    known_groups,
    model_targets,
    needs_labelled,
    require_cells,
)
from evenhand.estimators.learning_rows import (
    FittedModels,
    LearningRows,
    OtherPeople,
    RawRows,
    known_part,
    rows_of_group,
    rows_of_one_table,
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
    require_weighted,
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
from evenhand.exceptions import ProxyWarning
from evenhand.metrics.membership import PROXY


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
        sensitive_data: Any = None,
        *,
        set_aside: tuple[Any, Any] = (None, None),
    ) -> Learned:
        """Fit the two models and score the rows of the parity step, once all that can be checked is.

        Rows that are `set_aside`, and their groups, are only checked.
        """
        calibration = self._chosen_calibration()
        judges = is_for_new_people(self.confidence, knows_groups=True)
        rows, cells = self._labelled(X, y, sensitive_features, sample_weight, sensitive_data)
        self._check_models(rows, cells)
        self._check_step(rows.data, cells, X_unlabeled)
        check_more_rows(X, X_unlabeled, "unlabeled", sensitive_features_unlabeled, cells)
        check_more_rows(X, set_aside[0], "calibration", set_aside[1], cells)
        known = known_groups(
            rows.attributes if rows.complete else None,
            cells,
            X_unlabeled,
            sensitive_features_unlabeled,
            self.aware,
        )
        serve = X_unlabeled is None or judges or calibration == JOINT
        serve = serve or needs_labelled(cells, known, self.aware)
        estimator, scores = self._fit_outcome(rows.data, rows.folds, serve)
        groups, held_out = self._fit_group_models(
            rows.told, rows.attributes, cells, rows.told_folds, calibration
        )
        models = Models(estimator, None, groups)
        labelled, told = rows.raw(self._fitted(models, rows.data.classes, cells), scores, held_out)
        kinds = combined_codes(rows.attributes, rows.told.y, rows.told.classes)
        seed = fold_seed(self.random_state)
        told_folds = [scored for _, scored in rows.told_folds]
        judged = JudgedRows.choose(told_folds, kinds, seed)
        without = [models] * len(judged.folds)
        if calibration == JOINT:
            tested = JudgedRows.choose(told_folds, kinds, seed, MOST_TESTED)
            models, without = self._mend(models, rows, labelled, told, cells, tested)
        pile = labelled if X_unlabeled is None else self._raw_rows(models, X_unlabeled, cells, known)
        step_rows = pile.scored(models, cells)
        require_mass(step_rows.groups, step_rows.group_mass())
        diagnosis = self._diagnose(models, cells, rows, told, without, pile, known, step_rows)
        judged_by = None
        if judges:
            alone = X_unlabeled is None and not rows.other_people
            judged_by = judge_by(rows, labelled, told, None if alone else pile, without, cells, judged, seed)
        classes = None if rows.data.classes is None else np.unique(rows.data.y)
        return Learned(models, cells, classes, diagnosis, step_rows, judged_by, rows.knowledge())

    def _diagnose(
        self,
        models: Models,
        cells: Cells,
        rows: LearningRows,
        told: RawRows,
        without: Sequence[Models],
        pile: RawRows,
        known: Sequence[Groups] | None,
        step_rows: Rows,
    ) -> CalibrationDiagnosis | None:
        """How well calibrated the one model of the group is, where there are labels to measure it with."""
        if len(models.groups) != 1 or self.aware or rows.soft:
            return None
        codes = model_targets(cells, rows.attributes, rows.told)[0].codes
        mended = mend_by_fold(told.outputs, without, rows.told_folds)
        outputs = mended if pile is told else recalibrate(models, pile.outputs)
        return diagnose(cells, mended, codes, told.weights, outputs, known, step_rows)

    def _fitted(self, models: Models, classes: Labels | None, cells: Cells) -> FittedModels:
        """The models, to be asked for rows that they have not seen."""
        return FittedModels(
            scores=lambda X: self._scores(models.outcome, X, classes),
            groups=models.groups,
            factors=lambda X: factor_codes(X, self.conditional_on, cells),
            aware=self.aware,
        )

    def _mend(
        self,
        models: Models,
        rows: LearningRows,
        labelled: RawRows,
        told: RawRows,
        cells: Cells,
        tested: JudgedRows,
    ) -> tuple[Models, list[Models]]:
        """The models with their joint maps, and without each fold of the rows of known groups."""
        targets = model_targets(cells, rows.attributes, rows.told) if models.groups else ()
        outcome = self._outcome_to_mend(rows.data)
        if rows.other_people and outcome is not None:  # which they do not have: it is mended on its own rows
            folds = [scored for _, scored in rows.folds]
            kinds, seed = np.zeros(len(rows.data.y), np.int64), fold_seed(self.random_state)
            own = JudgedRows.choose(folds, kinds, seed, MOST_TESTED)
            models, _ = fit_recalibration(models, labelled.outputs, outcome, (), own, labelled.weights)
        return fit_recalibration(models, told.outputs, rows.of_told(outcome), targets, tested, told.weights)

    @abstractmethod
    def _check_step(self, data: Labelled, cells: Cells, X_unlabeled: Any) -> None:
        """Refuse parameters of the parity step, and warn of those that ask for nothing."""

    def _check_models(self, rows: LearningRows, cells: Cells) -> None:
        """Refuse models that cannot learn what they are to; warn where they are told the group."""
        check_n_jobs(self.n_jobs)
        models = {"estimator": self._base_estimator(rows.data.X)}
        if not self.aware or cells.joint:
            models["sensitive_estimator"] = classifier = self._group_classifier(rows.told.X)
            for groups in model_targets(cells, rows.attributes, rows.told):
                require_groups(groups, rows.told_folds)
                if came_fitted(classifier):
                    require_known_groups(classifier, groups.labels)
        if rows.data.weights is not None:
            for name, model in models.items():
                weight_parameter(model, name)
        if not self.aware and not rows.soft:
            warn_of_group_in_features(rows.told.X, rows.attributes, stacklevel=4)
        warn_of_shared_draws(rows.data.X, stacklevel=4)
        warn_of_numbers(rows.attributes)

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
        self, X: Any, y: Any, sensitive_features: Any, sample_weight: Any, sensitive_data: Any
    ) -> tuple[LearningRows, Cells]:
        """Rows with outcomes and rows with groups, and their folds; those of weight zero are left out."""
        check_small_groups(self.small_groups)
        (X,) = indexable(without_mask(X))
        require_table(X)
        if sensitive_data is not None:
            criterion = getattr(self, "criterion", CRITERIA[0])
            sensitive_data = check_sensitive_data(
                sensitive_data, X, sensitive_features, aware=self.aware, within=criterion != CRITERIA[0]
            )
        target = self._check_training_target(y)
        check_consistent_length(X, target)
        # As they came: models with a penalty, such as logistic regression, feel the sum of the weights.
        weights = None if sample_weight is None else as_floats(sample_weight, "sample_weight")
        used = np.ones(len(target), bool)
        if weights is not None:
            used = check_weights(weights, len(target)) > 0
            weights = within_floats(weights)
        columns, attributes = {}, []
        if sensitive_data is None:
            require_same_order(X, sensitive_features, "sensitive_features")
            columns = attribute_columns(sensitive_features, len(target), self.attributes)
            known = columns.values() if used.all() else [groups.take(used) for groups in columns.values()]
            attributes = check_attributes(known, self.min_group_size, self.small_groups)
        kept = target[used]
        classes = self._classes(kept)
        codes = combined_codes(attributes, kept, classes)
        folds = make_folds(self.cv, X, used, attributes, codes, fold_seed(self.random_state))
        if weights is not None and not used.all():
            X, weights = _safe_indexing(X, np.flatnonzero(used)), weights[used]
        first = attributes[0] if attributes else Groups((), np.full(len(kept), UNKNOWN))
        data = Labelled(X, kept, first.codes, first.labels, weights, classes)
        if sensitive_data is None:
            rows = rows_of_one_table(data, attributes, folds)
        else:
            rows, columns = self._of_two_tables(data, folds, *sensitive_data)
        if rows.soft:
            require_weighted(self._group_classifier(rows.told.X))
            warn_user(PROXY, ProxyWarning)
        return rows, self._cells(tuple(columns), rows)

    def _of_two_tables(
        self, data: Labelled, folds: list[Fold], X: Any, groups: Any
    ) -> tuple[LearningRows, dict[Hashable, Groups]]:
        """Rows with outcomes, and other people with groups; those of them without one are left out."""
        columns = attribute_columns(groups, _num_samples(X), self.attributes, "sensitive_data")
        X, known = known_part(X, list(columns.values()))
        everybody = np.ones(_num_samples(X), bool)
        attributes = check_attributes(known, self.min_group_size, self.small_groups)
        told = rows_of_group(X, attributes)
        cv = (
            self.cv if self.cv is None or isinstance(self.cv, Integral) or hasattr(self.cv, "split") else None
        )
        codes = combined_codes(attributes, told.y, None)
        told_folds = make_folds(cv, X, everybody, attributes, codes, fold_seed(self.random_state))
        return OtherPeople(data, folds, told, attributes, told_folds), columns

    def _cells(self, names: Labels, rows: LearningRows) -> Cells:
        """The parity that the parameters ask for, on these rows."""
        data, told = rows.data, rows.told
        outcomes = self._outcomes(data.classes)
        cells = Cells(
            names=names,
            groups=tuple(groups.labels for groups in rows.attributes),
            separate=self.attributes == "separate",
            classes=data.classes,
            outcomes=outcomes,
            factors=factor_values(data.X, self.conditional_on),
            joint=outcomes is not None and self._fits_joint(),
        )
        factors = factor_codes(told.X, self.conditional_on, cells)
        require_cells(cells, rows.attributes, told, factors, self.min_group_size)
        return cells
