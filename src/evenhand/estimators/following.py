"""`partial_fit` of the estimators: the parity step goes on, the models stay."""

from copy import copy
from dataclasses import replace
from typing import Any, ClassVar, Self

from sklearn.utils.metadata_routing import UNUSED

from evenhand.estimators.postprocessor import ParityPostprocessor
from evenhand.estimators.streaming import OnDrift, check_on_drift


class FollowsRows:
    """The part of an estimator that goes along a stream."""

    # The table is no metadata; groups are asked for by aware models, with set_partial_fit_request.
    __metadata_request__partial_fit: ClassVar[dict[str, bool | str]] = {
        "X_unlabeled": UNUSED,
        "sensitive_features": False,
    }

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
        model: Any = self  # an estimator, which scores rows
        scores, group_proba = model._nuisances(X_unlabeled, sensitive_features)
        step: ParityPostprocessor = copy(model.postprocessor_)
        alarms = step._take_rows(scores, group_proba, half_life, quiet=check_on_drift(on_drift))
        self._install_step(step)
        for alarm in alarms:
            assert on_drift is not None  # else they were warnings
            on_drift(alarm)
        return self

    def _install_step(self: Any, step: ParityPostprocessor) -> None:
        """Go on with another parity step behind the same models, all at once."""
        self.__dict__.update(
            postprocessor_=step,
            certificate_=replace(step.certificate_, calibration=self.certificate_.calibration),
            n_iter_=max(1, step.result_.n_iter),
        )
