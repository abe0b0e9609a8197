"""What the estimators share: learn the outcome and the group, score rows, post-process, predict."""

from copy import copy
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.utils import _safe_indexing, indexable
from sklearn.utils.validation import _num_samples, check_is_fitted, validate_data

from evenhand._utils.missing import without_mask
from evenhand._utils.typing import AnyArray, FloatArray
from evenhand._utils.validation import Labels
from evenhand.calibration import JOINT
from evenhand.estimators.cells import Cells
from evenhand.estimators.checking import require_same_order, require_within_reach, stand_in_rows
from evenhand.estimators.draws import RandomState, choose_uniforms, uniforms_from_table
from evenhand.estimators.fitted import FittedEstimator
from evenhand.estimators.group_model import restore_models
from evenhand.estimators.judging import confidence_level
from evenhand.estimators.learner import Learner
from evenhand.estimators.learning import (
    Learned,
    encode_attributes,
    factor_codes,
    known_columns,
    unwrap_single,
)
from evenhand.estimators.nuisances import Labelled, input_tags, require_table
from evenhand.estimators.postprocessor import FrontierRows, ParityPostprocessor
from evenhand.estimators.price import warn_of_price
from evenhand.estimators.proving import provable_metric
from evenhand.estimators.recalibration import Models
from evenhand.metrics.measure import ScoredRows
from evenhand.metrics.membership import Membership


class ParityEstimator(FittedEstimator, Learner, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Base of the estimators; a subclass says how rows are scored and which post-processor serves it."""

    # Groups are for fit; an aware model asks for them elsewhere with set_predict_request, set_score_request.
    __metadata_request__fit: ClassVar[dict[str, bool]] = {"sensitive_features": True}
    __metadata_request__predict: ClassVar[dict[str, bool]] = {"sensitive_features": False}
    __metadata_request__score: ClassVar[dict[str, bool]] = {"sensitive_features": False}
    warm_start: bool  # a parameter, which `__init__` of the subclass stores

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
        X_calibration: Any = None,
        y_calibration: Any = None,
        sensitive_features_calibration: Any = None,
        sensitive_data: Any = None,
    ) -> Self:
        """Learn the outcome and the group, then the parity step on rows that neither has seen.

        A fit that fails leaves the model as it was before.

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (n_rows, n_features)
            Whatever the two models take.
        y : array of shape (n_rows,)
        sensitive_features : array or data frame of shape (n_rows,) or (n_rows, n_columns)
            Group of each row; of several columns, every combination that is there is a group. A row without
            one (None, NaN) teaches the outcome, and serves the parity step like a row of `X_unlabeled`. Two
            or more columns of floats that sum to one are probabilities of groups, and the columns' names
            the groups: each row then counts in all of them, with a `ProxyWarning` (docs/how-to/groups.md).
        X_unlabeled : like X, default=None
            Rows for the parity step: no outcome and no group is needed. Without it the rows of X serve,
            each scored by models that were fitted on the other folds (`cv`).
        sensitive_features_unlabeled : array or data frame, default=None
            Groups of the rows of `X_unlabeled`, where they are known. They serve to measure how well
            calibrated the group probabilities are, and nothing else, unless `aware=True`.
        sample_weight : array of shape (n_rows,), default=None
            Weights of the rows of X, for both models and, without `X_unlabeled`, for the parity step.
        X_calibration : like X, default=None
            Rows set aside to prove the promise to new people, where `confidence` is a number: nothing but
            the tolerance of the parity step is chosen on them. Without them it rests on cross-fitting.
        y_calibration : array, default=None
            Their outcomes, which only parity within outcomes looks at.
        sensitive_features_calibration : array or data frame, default=None
            Their groups.
        sensitive_data : pair (X_other, groups), default=None
            Instead of `sensitive_features`: features and groups of other people, whose outcome need not be
            known. The group is learned from them, the step is judged on them, and the rows of X serve it
            like those of `X_unlabeled`.
        """
        self._check_calibration_rows(X_calibration, sensitive_features_calibration)
        learned = self._learn(
            X,
            y,
            sensitive_features,
            X_unlabeled,
            sensitive_features_unlabeled,
            sample_weight,
            sensitive_data,
            set_aside=(X_calibration, sensitive_features_calibration),
        )
        set_aside = None
        if X_calibration is not None:
            set_aside = self._set_aside(learned, X_calibration, y_calibration, sensitive_features_calibration)
        postprocessor = self._postprocessor(learned.cells)
        postprocessor._fit_rows(
            learned.rows, folds=learned.folds, calibration=set_aside, remedies=self._remedies()
        )
        validate_data(self, X, skip_check_array=True)  # notes the features' names and number
        self._install(learned, postprocessor)
        self._warn_of_price(stacklevel=2)
        return self

    def _warn_of_price(self, stacklevel: int) -> None:
        """Warn where parity came at a price that nobody may have meant to pay."""
        step = self.postprocessor_
        classes = step.policy_.cost.n_classes is not None
        warn_of_price(step.price_, step.atoms_, classes=classes, stacklevel=stacklevel + 1)

    def predict(
        self, X: Any, *, sensitive_features: Any = None, random_state: RandomState = None, ids: Any = None
    ) -> AnyArray:
        """One outcome for each row, drawn from its policy: parity is kept, up to the noise of drawing.

        By default the draw is a keyed hash of the row's features: the same person gets the same answer in
        any batch, order, process or machine, and so do two people with the same features, who then share
        their luck. Where features repeat, pass `ids`: everybody has a draw of their own, and keeps it.

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
        (X,) = indexable(without_mask(X))
        scores, group_proba = self.predict_scores(X, sensitive_features=sensitive_features)
        key = self.postprocessor_.draw_key_
        uniforms = choose_uniforms(len(scores), key, random_state, ids, lambda: uniforms_from_table(X, key))
        return self._labels(self.postprocessor_.policy_.draw(scores, group_proba, uniforms))

    @property
    def atoms_(self) -> FloatArray:
        """What the parity step can predict, in increasing order, (n_atoms,)."""
        return self.postprocessor_.atoms_

    def predict_pmf(self, X: Any, *, sensitive_features: Any = None) -> FloatArray:
        """Probability of each of `atoms_` for each row, (n_rows, n_atoms): parity is kept.

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (n_rows, n_features)
        sensitive_features : array of shape (n_rows,), default=None
            Only for `aware` models, which need it.
        """
        scores, group_proba = self.predict_scores(X, sensitive_features=sensitive_features)
        return self.postprocessor_.policy_.pmf(scores, group_proba)

    def predict_scores(self, X: Any, *, sensitive_features: Any = None) -> tuple[FloatArray, FloatArray]:
        """Scores and group probabilities of rows: all that the parity step sees of them.

        `predict_pmf` is `postprocessor_.predict_pmf` of the two, and a `ParityPostprocessor` of your own can
        be fitted to them.

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (n_rows, n_features)
        sensitive_features : array of shape (n_rows,), default=None
            Only for `aware` models, which need it.

        Returns
        -------
        scores : array of shape (n_rows,), or class probabilities of shape (n_rows, n_classes)
        group_proba : array of shape (n_rows, n_groups)
            In the order of `groups_`.

        Examples
        --------
        >>> from evenhand import ParityRegressor
        >>> from evenhand.datasets import make_population
        >>> data = make_population(500, n_groups=2, random_state=0)
        >>> model = ParityRegressor().fit(data.data, data.target, sensitive_features=data.sensitive_features)
        >>> scores, group_proba = model.predict_scores(data.data)
        >>> scores.shape, group_proba.shape
        ((500,), (500, 2))
        """
        check_is_fitted(self, "postprocessor_")
        (X,) = indexable(without_mask(X))
        require_table(X)
        validate_data(self, X, reset=False, skip_check_array=True)
        cells, known = self.cells_, None
        if self.aware:
            if sensitive_features is None:
                raise ValueError("This model is aware: pass the group of each row as sensitive_features.")
            require_same_order(X, sensitive_features, "sensitive_features")
            known = encode_attributes(sensitive_features, _num_samples(X), cells, "sensitive_features")
        elif sensitive_features is not None:
            raise ValueError(
                "sensitive_features is not used to predict: this model does without the group. "
                "Leave it out, or fit with aware=True where the law allows its use."
            )
        groups = restore_models(cells, self.sensitive_estimator_, self.calibrator_)
        models = Models(self.estimator_, self.outcome_calibrator_, groups)
        rows = self._raw_rows(models, X, cells, known).scored(models, cells)
        return rows.scores, rows.group_proba

    def _remedies(self) -> tuple[str, ...]:
        """What would make new people's distance smaller, beside more rows."""
        mended = self._chosen_calibration() == JOINT
        joint = () if mended else ('calibration="joint"',)
        if self.aware:
            return joint
        return (
            *joint,
            "a better model of the group (sensitive_estimator)",
            "aware=True, where the law allows it",
        )

    def _check_calibration_rows(self, X: Any, sensitive_features: Any) -> None:
        """Refuse rows to prove with where nothing is to be proved, or where their groups are missing."""
        if X is None:
            return
        if confidence_level(self.confidence) is None:
            raise ValueError(
                "X_calibration proves a promise with a stated confidence: pass one, such as confidence=0.9."
            )
        if sensitive_features is None:
            raise ValueError("X_calibration needs the groups of its rows: sensitive_features_calibration.")
        provable_metric(self.parity)

    def _set_aside(self, learned: Learned, X: Any, y: Any, sensitive_features: Any) -> ScoredRows:
        """Rows to prove with, as the models score them."""
        (X,) = indexable(without_mask(X))
        require_table(X)
        cells, name = learned.cells, "sensitive_features_calibration"
        groups = encode_attributes(sensitive_features, _num_samples(X), cells, name, partial=True)
        if not (known := groups[0].known).all():
            X, groups = _safe_indexing(X, np.flatnonzero(known)), [each.at(known) for each in groups]
            y = None if y is None else self._check_target(y)[known]
        raw = self._raw_rows(learned.models, X, cells, groups)
        rows = raw.scored(learned.models, cells)
        columns = known_columns(cells, groups, None if y is None else self._check_target(y), raw.factors)
        members = Membership.of_cells(cells.labels(), columns, cells.strata())
        if absent := [label for label in cells.labels() if label not in members.labels]:
            raise ValueError(
                f"The rows of X_calibration have nobody of {', '.join(map(repr, absent))}: nothing can be "
                "proved of groups that are not there."
            )
        return ScoredRows(rows.scores, rows.group_proba, members)

    def _check_step(self, data: Labelled, cells: Cells, X_unlabeled: Any) -> None:
        """Refuse parameters of the parity step, and warn of those that ask for nothing."""
        n_rows = len(data.y) if X_unlabeled is None else _num_samples(X_unlabeled)
        step = self._postprocessor(cells)
        step._check_settings(stand_in_rows(data, cells.labels(), cells.strata()), n_rows, stacklevel=4)
        require_within_reach(data)

    def _postprocessor(self, cells: Cells) -> ParityPostprocessor:
        """The post-processor with this model's parameters, unfitted but for a warm start."""
        shared = ParityPostprocessor().get_params()
        settings = {name: value for name, value in self.get_params(deep=False).items() if name in shared}
        settings |= self._own_settings(cells.classes)
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
            sensitive_estimator_=unwrap_single([model.classifier for model in models.groups]),
            calibrator_=unwrap_single([model.calibrator for model in models.groups]),
            outcome_calibrator_=models.outcome_calibrator,
            cells_=learned.cells,
            postprocessor_=postprocessor,
            certificate_=replace(postprocessor.certificate_, calibration=learned.diagnosis),
            n_iter_=max(1, postprocessor.result_.n_iter),
            groups_=postprocessor.groups_,
            group_knowledge_=learned.knowledge,
        )
        if learned.classes is not None:
            self.__dict__["classes_"] = learned.classes
        return self

    def _frontier_rows(self, X: Any, y: Any, **fit_params: Any) -> FrontierRows:
        """The rows of the parity step, learned once for many tolerances."""
        learned = self._learn(X, y, **{"sensitive_features": None, **fit_params})
        calibration = self._chosen_calibration()

        def assemble(postprocessor: ParityPostprocessor) -> ParityEstimator:
            # a point of the frontier has its epsilon on the rows of the fit
            settings = {"epsilon": postprocessor.epsilon, "confidence": None, "calibration": calibration}
            model: ParityEstimator = clone(self).set_params(**settings)
            validate_data(model, X, skip_check_array=True)
            return model._install(learned, postprocessor)

        postprocessor = self._postprocessor(learned.cells).set_params(confidence=None)
        return FrontierRows(postprocessor, learned.rows, None, assemble)

    def _known_columns(self, X: Any, y: Any, sensitive_features: Any) -> FloatArray:
        """Which groups of which strata rows are in, zeros and ones, (n_rows, n_groups)."""
        groups = encode_attributes(sensitive_features, _num_samples(X), self.cells_, "sensitive_features")
        target = None if y is None else self._check_target(y)
        return known_columns(self.cells_, groups, target, factor_codes(X, self.conditional_on, self.cells_))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        given = (self.estimator, self._base_estimator()), (self.sensitive_estimator, self._group_classifier())
        taken = [(model is None, input_tags(chosen)) for model, chosen in given]
        for name in ("sparse", "allow_nan", "string", "categorical"):  # default models fit themselves to X
            takes = (getattr(found, name) or (own and name in ("sparse", "string")) for own, found in taken)
            setattr(tags.input_tags, name, all(takes))
        tags.target_tags.required = True
        return tags
