"""What an estimator is once it is fitted: models, and a parity step that can go on with more rows."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from copy import copy
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils.metadata_routing import UNUSED

from evenhand._utils.stored import Stored
from evenhand._utils.typing import AnyArray, FloatArray
from evenhand.calibration import JointCalibrator
from evenhand.certificates import Certificate
from evenhand.estimators.cells import Cells
from evenhand.estimators.knowledge import GroupKnowledge
from evenhand.estimators.postprocessor import ParityPostprocessor
from evenhand.estimators.streaming import OnDrift, check_on_drift
from evenhand.estimators.telling import TellsPromise


class FittedEstimator(TellsPromise, Stored, ABC):
    """Fitted attributes of an estimator, and `partial_fit`: the parity step goes on, the models stay."""

    estimator_: Any
    sensitive_estimator_: Any
    calibrator_: Any
    outcome_calibrator_: JointCalibrator | None
    cells_: Cells
    postprocessor_: ParityPostprocessor
    certificate_: Certificate
    groups_: AnyArray
    group_knowledge_: GroupKnowledge

    # The table is no metadata; groups are asked for by aware models, with set_partial_fit_request.
    __metadata_request__partial_fit: ClassVar[dict[str, bool | str]] = {
        "X_unlabeled": UNUSED,
        "sensitive_features": False,
    }

    @abstractmethod
    def predict_scores(self, X: Any, *, sensitive_features: Any = None) -> tuple[FloatArray, FloatArray]:
        """Scores and group probabilities of rows: all that the parity step sees of them."""

    def faults(self) -> Iterator[str]:
        """All parts of a fit or none, of the same groups."""
        fitted = {name for name in vars(self) if name.endswith("_")}
        if not fitted:
            return
        needed = {"estimator_", "groups_", "cells_", "outcome_calibrator_", "postprocessor_"}
        needed |= {"calibrator_", "sensitive_estimator_"}
        if missing := sorted(needed - fitted):
            yield f"it has no {', '.join(missing)}"
        if not isinstance(self.postprocessor_, ParityPostprocessor) or not hasattr(
            self.postprocessor_, "policy_"
        ):
            yield "its postprocessor_ is not a fitted one"
        n_groups = len(self.postprocessor_.policy_.group_prior)
        if not isinstance(self.cells_, Cells) or len(self.cells_.pairs()) != n_groups:
            yield "its cells_ does not have the cells of its policy"
        if not isinstance(self.groups_, np.ndarray) or self.groups_.shape != (n_groups,):
            yield f"its groups_ are not {n_groups} labels"
        if not isinstance(self.outcome_calibrator_, JointCalibrator | None):
            yield "its outcome_calibrator_ is not one"
        if not isinstance(getattr(self, "aware", False), bool | np.bool_):
            yield "its aware is neither yes nor no"
        if isinstance(self.estimator_, list) or not _can(self.estimator_, "predict"):
            yield "its estimator_ does not predict"
        if self.cells_.outcomes is not None and not hasattr(self, "classes_"):
            yield "its cells_ have outcomes, and it has no classes"
        yield from self._group_model_faults()

    def _group_model_faults(self) -> Iterator[str]:
        """Models of the group and their maps: one of each, or a list with one for each attribute."""
        if self.sensitive_estimator_ is None:
            if not getattr(self, "aware", False):
                yield "it has no model of the group"
            return
        several = len(self.cells_.names) > 1
        for models in (self.sensitive_estimator_, self.calibrator_):
            if isinstance(models, list) != several or (several and len(models) != len(self.cells_.names)):
                yield "its models of the group are not one for each attribute"
        if not _can(self.sensitive_estimator_, "predict_proba"):
            yield "its sensitive_estimator_ does not tell probabilities"
        maps = self.calibrator_ if several else [self.calibrator_]
        if not all(each is None or callable(each) for each in maps):
            yield "its calibrator_ is not one"

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
        scores, group_proba = self.predict_scores(X_unlabeled, sensitive_features=sensitive_features)
        step = copy(self.postprocessor_)
        alarms = step._take_rows(scores, group_proba, half_life, quiet=check_on_drift(on_drift))
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


def _can(models: object, method: str) -> bool:
    """Whether a model, or each model of a list, has a method."""
    return all(
        callable(getattr(model, method, None)) for model in (models if isinstance(models, list) else [models])
    )
