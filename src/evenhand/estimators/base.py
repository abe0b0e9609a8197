"""Base class of the estimators: fit the models and the parity step, score rows, predict, update."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import _num_samples, validate_data

from evenhand._kernels.blas import one_blas_thread
from evenhand._utils.stored import Stored
from evenhand._utils.typing import AnyArray, FloatArray
from evenhand._utils.validation import Labels, Rows
from evenhand._utils.warn import warn_user
from evenhand.data.groups import check_small_groups, encode_attributes, require_same_order, warn_of_numbers
from evenhand.estimators.checks import (
    check_calibration_data,
    check_kind,
    check_more_rows,
    check_n_jobs,
    check_sensitive_data,
    require_within_reach,
    stand_in_rows,
    warn_of_group_in_features,
    warn_of_shared_draws,
)
from evenhand.estimators.fit_models import ModelSettings, fit_models
from evenhand.estimators.folds import fold_seed, require_groups
from evenhand.estimators.models import (
    as_table,
    came_fitted,
    default_classifier,
    input_tags,
    require_known_groups,
    require_proba,
    require_weighted,
    weight_parameter,
)
from evenhand.estimators.parameters import ModelParameters, StepParameters
from evenhand.estimators.postprocessor import FrontierRows, ParityPostprocessor
from evenhand.estimators.predictor import ParityPredictor
from evenhand.estimators.price import warn_of_price
from evenhand.estimators.recalibration import is_joint
from evenhand.estimators.scorer import Scorer
from evenhand.estimators.step_fit import Evidence, FittedStep, StepPlan, fit_step
from evenhand.estimators.strata import CRITERIA, Strata, factor_codes, factor_values
from evenhand.estimators.streaming import OnDrift, check_on_drift, take_rows
from evenhand.estimators.training_data import (
    OTHER_TABLE,
    GroupSummary,
    ReadSettings,
    Table,
    TrainingData,
    read_labeled,
    read_other_table,
    read_unlabeled,
)
from evenhand.exceptions import ProxyWarning
from evenhand.generalization.out_of_sample import is_for_new_data
from evenhand.generalization.proved import provable_metric
from evenhand.metrics.measure import ScoredRows
from evenhand.metrics.membership import PROXY, Membership


@dataclass(frozen=True, slots=True, eq=False)
class FitTables:
    """The checked tables of a call of `fit`."""

    training: TrainingData
    unlabeled: Table | None  # rows of `X_unlabeled`
    calibration: tuple[Any, Any, Any] | None  # X, groups and outcomes of `calibration_data`


class ParityEstimator(
    StepParameters,
    ModelParameters,
    ParityPredictor,
    Stored,
    MetaEstimatorMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
    ABC,
):
    """Base class of the estimators.

    A subclass defines how outcomes are checked and how the parity step is set up. `scorer_` and `step_` are
    the fitted state; `stream_` is the state of `partial_fit`.
    """

    scorer_: Scorer
    group_summary_: GroupSummary

    __metadata_request__partial_fit: ClassVar[dict[str, bool | str]] = {
        "X_unlabeled": UNUSED,
        "sensitive_features": False,
    }

    # Only fit requests the groups; for an aware model use set_predict_request and set_score_request.
    __metadata_request__fit: ClassVar[dict[str, bool]] = {"sensitive_features": True}
    __metadata_request__predict: ClassVar[dict[str, bool]] = {"sensitive_features": False}
    __metadata_request__score: ClassVar[dict[str, bool]] = {"sensitive_features": False}

    @abstractmethod
    def _base_estimator(self, X: Any = None) -> BaseEstimator:
        """Return the unfitted model of the outcome; the default model depends on the columns of X."""

    @abstractmethod
    def _check_target(self, y: Any) -> AnyArray:
        """Check the outcomes and return them as an array of shape (n_rows,)."""

    def _check_training_target(self, y: Any) -> AnyArray:
        """Check the outcomes in `fit`, where a subclass can also warn about them."""
        return self._check_target(y)

    def _classes(self, target: AnyArray) -> Labels | None:
        """Return the classes of a classification outcome, otherwise None."""
        return None

    def _outcomes(self, classes: Labels | None) -> Labels | None:
        """Return the classes within which groups are compared; None: groups are compared among all rows."""
        return None

    def _fits_joint(self) -> bool:
        """Whether class and group are learned together if groups are compared within classes."""
        return False

    @abstractmethod
    def _recalibration_target(self, table: Table, classes: Labels | None) -> AnyArray | None:
        """Return the target of the map that recalibrates the scores; None: no such map is fitted."""

    @abstractmethod
    def _step_settings(self, classes: Labels | None) -> dict[str, Any]:
        """Return parameters of `ParityPostprocessor` that this estimator does not have itself."""

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        sensitive_features: Any = None,
        X_unlabeled: Any = None,
        sensitive_features_unlabeled: Any = None,
        sample_weight: Any = None,
        sensitive_data: Any = None,
        calibration_data: Any = None,
    ) -> Self:
        """Fit the models of the outcome and of the group, then the parity step on their cross-fitted outputs.

        If a fit fails, the model keeps its previous state.

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (n_rows, n_features)
            Features for both models, in any format that they accept.
        y : array of shape (n_rows,)
            Outcome of each row.
        sensitive_features : array or data frame of shape (n_rows,) or (n_rows, n_columns)
            Group of each row. With several columns each combination of values is a group, unless
            `attributes="separate"`. A row whose group is missing (None or NaN) is used for the model of the
            outcome and as an unlabeled row for the parity step. Two or more columns of floats that sum to one
            are group probabilities, and their names are the groups: each row then counts in every group by
            its probability, and a `ProxyWarning` is issued (docs/how-to/groups.md).
        X_unlabeled : array, data frame or sparse matrix of shape (n_unlabeled, n_features), default=None
            Rows for the parity step, without outcomes or groups. None: the parity step uses the rows of X,
            each scored by models that were fitted on the other folds (`cv`).
        sensitive_features_unlabeled : array or data frame of shape (n_unlabeled,), default=None
            Groups of the rows of `X_unlabeled`, if they are known. They are only used to measure the
            calibration of the group probabilities, except with `aware=True`, which requires them.
        sample_weight : array of shape (n_rows,), default=None
            Nonnegative weights of the rows of X for both models and, without `X_unlabeled`, for the parity
            step. Whole numbers count copies of a row; other weights are scaled to mean 1, so that only their
            ratios matter. Rows of weight zero are left out. None: all rows have the same weight.
        sensitive_data : tuple (X_other, groups), default=None
            Features and groups of other people, whose outcomes can be unknown. Pass it instead of
            `sensitive_features`. The model of the group is fitted on these rows, and the distance on new data
            is estimated on them. The parity step uses the rows of X as unlabeled rows.
        calibration_data : tuple (X, groups) or (X, groups, y), default=None
            Held-out rows that turn the estimate for a numeric `confidence` into a guarantee. They are used
            only to choose the tolerance of the parity step. Parity within outcomes requires their outcomes,
            y. None: the tolerance is estimated by cross-validation.

        Returns
        -------
        self : estimator
            The fitted model.
        """
        with one_blas_thread():
            training = self._read(X, y, sensitive_features, sample_weight, sensitive_data)
            plan = self._plan(training.strata)
            tables = self._check(
                training, plan, X, (X_unlabeled, sensitive_features_unlabeled), calibration_data
            )
            scorer, rows, evidence = self._learn(tables)
            proof = self._score_calibration_rows(scorer, tables.calibration)
            step = fit_step(plan, rows, replace(evidence, calibration=proof), start=self._start())
        validate_data(self, X, skip_check_array=True)  # notes the features' names and number
        self.__dict__.pop("stream_", None)
        self.__dict__.update(scorer_=scorer, step_=step, group_summary_=training.summary())
        self._warn_of_price()
        return self

    def _read(
        self, X: Any, y: Any, sensitive_features: Any, sample_weight: Any, sensitive_data: Any
    ) -> TrainingData:
        """Read the labeled rows, the rows with a group and the strata, without rows of weight zero."""
        check_small_groups(self.small_groups)
        seed = fold_seed(self.random_state)
        settings = ReadSettings(self.cv, self.attributes, self.min_group_size, self.small_groups, seed)
        X = as_table(X)
        if sensitive_data is not None:
            within = getattr(self, "criterion", CRITERIA[0]) != CRITERIA[0]
            sensitive_data = check_sensitive_data(
                sensitive_data, X, sensitive_features, aware=self.aware, within=within
            )
            sensitive_features = OTHER_TABLE
        target = self._check_training_target(y)
        if sensitive_data is None:
            require_same_order(X, sensitive_features, "sensitive_features")
        labeled, classes, names = read_labeled(
            X, target, sensitive_features, sample_weight, settings, self._classes
        )
        if sensitive_data is None:
            grouped = labeled.of_known_groups()
        else:
            X_other, groups_other = sensitive_data
            grouped, names = read_other_table(X_other, groups_other, settings)
        if grouped.soft:
            require_weighted(self._group_classifier(grouped.X))
            warn_user(PROXY, ProxyWarning)
        return TrainingData(labeled, grouped, self._strata(labeled, grouped, classes, names))

    def _strata(self, labeled: Table, grouped: Table, classes: Labels | None, names: Labels) -> Strata:
        """Return the strata for the parameters and these rows."""
        outcomes = self._outcomes(classes)
        strata = Strata(
            names=names,
            groups=tuple(groups.labels for groups in grouped.attributes),
            separate=self.attributes == "separate",
            classes=classes,
            outcomes=outcomes,
            factors=factor_values(labeled.X, self.conditional_on),
            joint=outcomes is not None and self._fits_joint(),
        )
        factors = factor_codes(grouped.X, self.conditional_on, strata)
        strata.require_rows(grouped.attributes, grouped.y, factors, self.min_group_size)
        return strata

    def _plan(self, strata: Strata) -> StepPlan:
        """Check the parameters of the parity step for its groups."""
        plan = StepPlan.of(
            self._step_parameters(strata.classes), strata.labels(), strata.codes(), knows_groups=True
        )
        return replace(plan, remedies=self._remedies())

    def _step_parameters(self, classes: Labels | None) -> ParityPostprocessor:
        """Return an unfitted post-processor with the parameters of this model."""
        shared = ParityPostprocessor().get_params()
        settings = {name: value for name, value in self.get_params(deep=False).items() if name in shared}
        return ParityPostprocessor(**(settings | self._step_settings(classes)))

    def _start(self) -> FittedStep | None:
        """Return the last fitted step if `warm_start` is set."""
        return getattr(self, "step_", None) if self.warm_start else None

    def _check(
        self, data: TrainingData, plan: StepPlan, X: Any, unlabeled: tuple[Any, Any], calibration_data: Any
    ) -> FitTables:
        """Refuse what no fit can use before any model is fitted."""
        is_joint(self.calibration, for_new_data=plan.for_new_data)  # refuses unknown names
        self._check_models(data)
        calibration = check_calibration_data(calibration_data)
        if calibration is not None:
            if plan.level is None:
                raise ValueError(
                    "calibration_data proves a tolerance with a stated confidence: pass one, such as "
                    "confidence=0.9."
                )
            provable_metric(self.parity)
        plan.try_on(stand_in_rows(data.target, data.strata))
        require_within_reach(data.target, data.strata)
        check_more_rows(X, unlabeled[0], "X_unlabeled", unlabeled[1], data.strata)
        if calibration is not None:
            check_more_rows(X, calibration[0], "calibration_data", calibration[1], data.strata)
        return FitTables(data, read_unlabeled(*unlabeled, data.strata, aware=self.aware), calibration)

    def _check_models(self, data: TrainingData) -> None:
        """Check that the models can be fitted on these rows, and warn if a feature is the group."""
        check_n_jobs(self.n_jobs)
        grouped = data.grouped
        models = {"estimator": self._base_estimator(data.labeled.X)}
        if not self.aware or data.strata.joint:
            models["sensitive_estimator"] = classifier = self._group_classifier(grouped.X)
            for groups in data.targets():
                require_groups(groups, grouped.folds())
                if came_fitted(classifier):
                    require_known_groups(classifier, groups.labels)
        if data.labeled.weights is not None:
            for name, model in models.items():
                weight_parameter(model, name)
        if not self.aware and not grouped.soft:
            warn_of_group_in_features(grouped.X, grouped.attributes)
        warn_of_shared_draws(data.labeled.X)
        warn_of_numbers(grouped.attributes)

    def _learn(self, tables: FitTables) -> tuple[Scorer, Rows, Evidence]:
        """The models, fitted and recalibrated, the rows of the parity step, and how to evaluate it."""
        data = tables.training
        settings = ModelSettings(
            outcome=self._base_estimator(data.labeled.X),
            group=None if self.aware and not data.strata.joint else self._group_classifier(data.grouped.X),
            joint=self.recalibrates,
            for_new_data=is_for_new_data(self.confidence, knows_groups=True),
            conditional_on=self.conditional_on,
            aware=bool(self.aware),
            n_jobs=self.n_jobs,
            seed=fold_seed(self.random_state),
        )
        target = self._recalibration_target(data.labeled, data.strata.classes)
        return fit_models(data, tables.unlabeled, target, settings)

    def _group_classifier(self, X: Any = None) -> BaseEstimator:
        if self.sensitive_estimator is None:
            return default_classifier(X)
        check_kind(self.sensitive_estimator, "sensitive_estimator", "classifier", "Groups are classes.")
        require_proba(self.sensitive_estimator)
        return self.sensitive_estimator

    def _warn_of_price(self) -> None:
        """Warn if the parity step removes most of the accuracy."""
        warn_of_price(self.price_, self.step_.step)

    def partial_fit(
        self,
        X_unlabeled: Any,
        y: Any = None,
        *,
        sensitive_features: Any = None,
        half_life: float | None = None,
        on_drift: OnDrift | None = None,
    ) -> Self:
        """Update the parity step with more unlabeled rows; each row is used once and not stored.

        Call `fit` first; its rows count as the first rows of the stream. The models of the outcome and of the
        group do not change. If a call raises an error, the model keeps its previous state, unless the error
        comes from `on_drift`, which is called after the update. The result does not depend on how the rows
        are split into calls: the scores of most models differ in the last bits with the size of the batch,
        so they are rounded to 2^-24 of half the width of the grid, and probabilities to 2^-24.

        Parameters
        ----------
        X_unlabeled : array, data frame or sparse matrix of shape (n_rows, n_features)
            Features of the new rows, in the format that was passed to `fit`.
        y : None
            Ignored; present for consistency with scikit-learn.
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
        self : estimator
            The updated model.
        """
        check_on_drift(on_drift)
        scores, group_proba = self.predict_scores(X_unlabeled, sensitive_features=sensitive_features)
        strata = self.scorer_.strata
        rows = Rows(scores, group_proba, strata.labels(), None, strata.codes())
        plan, stream = self._plan(strata), getattr(self, "stream_", None)
        step, stream, alarms = take_rows(plan, self.step_, stream, rows, half_life, on_drift)
        self.__dict__.update(step_=step, stream_=stream)
        for alarm in alarms:
            on_drift(alarm)  # type: ignore[misc]
        return self

    @property
    def postprocessor_(self) -> ParityPostprocessor:
        """The parity step alone, for the output of `predict_scores`, as a separate model."""
        postprocessor = self._step_parameters(self.scorer_.strata.classes)
        postprocessor.step_ = self.step_
        return postprocessor

    @property
    def recalibrates(self) -> bool:
        """Whether the parameters ask for joint recalibration."""
        return is_joint(self.calibration, for_new_data=is_for_new_data(self.confidence, knows_groups=True))

    def _remedies(self) -> tuple[str, ...]:
        """What would make the distance on new data smaller, besides more rows."""
        joint = () if self.recalibrates else ('calibration="joint"',)
        if self.aware:
            return joint
        return (
            *joint,
            "a better model of the group (sensitive_estimator)",
            "aware=True, where the law allows it",
        )

    def _estimate_text(self) -> str:
        text, summary = super()._estimate_text(), vars(self).get("group_summary_")
        return text if summary is None else f"{text} {summary.sentence}".rstrip()

    def _score_calibration_rows(
        self, scorer: Scorer, given: tuple[Any, Any, Any] | None
    ) -> ScoredRows | None:
        """Score the rows of `calibration_data`."""
        if given is None:
            return None
        X, groups, y = given
        strata, X = scorer.strata, as_table(X)
        attributes = encode_attributes(groups, _num_samples(X), strata, "calibration_data", partial=True)
        target = None if y is None else self._check_target(y)
        table = Table.of("calibration_data", X, y=target, attributes=attributes).of_known_groups()
        rows = scorer.score(table.X, table.attributes)
        factors = factor_codes(table.X, self.conditional_on, strata)
        columns = strata.known_columns(table.attributes, table.y, factors)
        members = Membership.of_cells(strata.labels(), columns, strata.codes())
        if absent := [label for label in strata.labels() if label not in members.labels]:
            raise ValueError(
                f"calibration_data has no rows of {', '.join(map(repr, absent))}: nothing can be proved for "
                "groups without rows. Pass rows of every group."
            )
        return ScoredRows(rows.scores, rows.group_proba, members)

    def _frontier_rows(self, X: Any, y: Any, **fit_params: Any) -> FrontierRows:
        """Fit the models once and return the rows of the parity step, for several tolerances."""
        given = {"sensitive_features": None, "sample_weight": None, "sensitive_data": None, **fit_params}
        unlabeled = given.pop("X_unlabeled", None), given.pop("sensitive_features_unlabeled", None)
        with one_blas_thread():
            data = self._read(X, y, **given)
            plan = self._plan(data.strata)
            scorer, rows, evidence = self._learn(self._check(data, plan, X, unlabeled, None))
        calibration = "joint" if self.recalibrates else None

        def assemble(step: FittedStep, epsilon: Any) -> ParityEstimator:
            # for a point of the frontier, epsilon applies to the rows of the fit
            settings = {"epsilon": epsilon, "confidence": None, "calibration": calibration}
            model: ParityEstimator = clone(self).set_params(**settings)
            validate_data(model, X, skip_check_array=True)
            certificate = replace(step.certificate, calibration=evidence.diagnosis)  # type: ignore[type-var]
            state = replace(step, certificate=certificate)
            model.__dict__.update(scorer_=scorer, step_=state, group_summary_=data.summary())
            return model

        return FrontierRows(plan, rows, self.epsilon, assemble)

    def _known_columns(self, X: Any, y: Any, sensitive_features: Any) -> FloatArray:
        """Return zeros and ones of shape (n_rows, n_groups): the groups of each row, by stratum."""
        strata = self.scorer_.strata
        groups = encode_attributes(sensitive_features, _num_samples(X), strata, "sensitive_features")
        target = None if y is None else self._check_target(y)
        return strata.known_columns(groups, target, factor_codes(X, self.conditional_on, strata))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        given = (self.estimator, self._base_estimator()), (self.sensitive_estimator, self._group_classifier())
        taken = [(model is None, input_tags(chosen)) for model, chosen in given]
        for name in ("sparse", "allow_nan", "string", "categorical"):  # default models adapt to X
            takes = (getattr(found, name) or (own and name in ("sparse", "string")) for own, found in taken)
            setattr(tags.input_tags, name, all(takes))
        tags.target_tags.required = True
        return tags

    def faults(self) -> Iterator[str]:
        """Check that the scorer and the step have the same groups."""
        yield from self._step_faults()
        scorer, step = vars(self).get("scorer_"), vars(self).get("step_")
        if scorer is None and step is None:
            return
        if not isinstance(scorer, Scorer) or step is None:
            yield "it has no scorer_ or no step_"
        elif scorer.strata.labels() != step.groups:
            yield "its scorer_ has other groups than its step_"
        elif step.step.cost.n_classes != (scorer.strata.classes and len(scorer.strata.classes)):
            yield "its step_ does not have the classes of its scorer_"
        if not isinstance(self.group_summary_, GroupSummary):
            yield "its group_summary_ is not a GroupSummary"
