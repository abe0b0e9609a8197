"""Predict with a fitted estimator: what needs its models and its parity step, and nothing of the fit."""

from abc import ABC
from collections.abc import Sequence
from typing import Any

from sklearn.utils.validation import _num_samples, check_is_fitted, validate_data

from evenhand._utils.labels import Groups
from evenhand._utils.typing import AnyArray, FloatArray
from evenhand.calibration import JointCalibrator
from evenhand.data.draws import RandomState, choose_uniforms, uniforms_from_table
from evenhand.data.groups import encode_attributes, require_same_order
from evenhand.estimators.models import as_table
from evenhand.estimators.scorer import Scorer
from evenhand.estimators.step_results import StepResults
from evenhand.estimators.strata import Strata


class ParityPredictor(StepResults, ABC):
    """Predictions of a model that holds a `Scorer` and a `FittedStep`."""

    scorer_: Scorer

    def _labels(self, atoms: FloatArray) -> AnyArray:
        """Return the predictions that stand for atoms."""
        return atoms

    def predict(
        self, X: Any, *, sensitive_features: Any = None, random_state: RandomState = None, ids: Any = None
    ) -> AnyArray:
        """Draw one prediction for each row from its distribution.

        Parity holds for the draws, up to sampling noise. By default the random number of a row is a keyed
        hash of its features, so the same row gets the same prediction in any batch, order, process or
        machine. Rows with identical features share one draw. If features repeat, pass `ids`: each person
        then has a separate draw, which stays the same if the model is refitted.

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (n_rows, n_features)
            Features, in the format that was passed to `fit`.
        sensitive_features : array or data frame of shape (n_rows,), default=None
            Group of each row. Required with `aware=True`, and not accepted otherwise.
        random_state : int, Generator, RandomState or None, default=None
            If not None, draw new random numbers instead of hashing the rows.
        ids : array of shape (n_rows,), default=None
            Identifier of each row: integers, text, bytes or UUIDs. The random number of a row is then a hash
            of its id alone.

        Returns
        -------
        predictions : array of shape (n_rows,)
            A predicted outcome for each row.
        """
        X = as_table(X)
        scores, group_proba = self.predict_scores(X, sensitive_features=sensitive_features)
        key = self.step_.draw_key
        uniforms = choose_uniforms(len(scores), key, random_state, ids, lambda: uniforms_from_table(X, key))
        return self._labels(self.step_.policy.draw(scores, group_proba, uniforms))

    def predict_pmf(self, X: Any, *, sensitive_features: Any = None) -> FloatArray:
        """Return the probability of each atom for each row.

        These are the distributions from which `predict` draws, so parity holds for them.

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (n_rows, n_features)
            Features, in the format that was passed to `fit`.
        sensitive_features : array or data frame of shape (n_rows,), default=None
            Group of each row. Required with `aware=True`, and not accepted otherwise.

        Returns
        -------
        pmf : array of shape (n_rows, n_atoms)
            Each row sums to one; the columns are in the order of `atoms_`.
        """
        scores, group_proba = self.predict_scores(X, sensitive_features=sensitive_features)
        return self.step_.policy.pmf(scores, group_proba)

    def predict_scores(self, X: Any, *, sensitive_features: Any = None) -> tuple[FloatArray, FloatArray]:
        """Return the scores and group probabilities of rows, which are the inputs of the parity step.

        `predict_pmf(X)` equals `postprocessor_.predict_pmf(scores, group_proba)`. You can also fit a
        `ParityPostprocessor` to these arrays.

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (n_rows, n_features)
            Features, in the format that was passed to `fit`.
        sensitive_features : array or data frame of shape (n_rows,), default=None
            Group of each row. Required with `aware=True`, and not accepted otherwise.

        Returns
        -------
        scores : array of shape (n_rows,) or (n_rows, n_classes)
            Predictions of the model of the outcome: numbers, or class probabilities of a classifier.
        group_proba : array of shape (n_rows, n_groups)
            Probability of each group, in the order of `groups_`.

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
        check_is_fitted(self, "step_")
        X = as_table(X)
        validate_data(self, X, reset=False, skip_check_array=True)
        rows = self.scorer_.score(X, self._given_groups(X, sensitive_features))
        return rows.scores, rows.group_proba

    def _given_groups(self, X: Any, sensitive_features: Any) -> Sequence[Groups]:
        """Return the groups of rows to predict; only an aware model uses them."""
        if self.scorer_.aware:
            if sensitive_features is None:
                raise ValueError("This model is aware: pass the group of each row as sensitive_features.")
            require_same_order(X, sensitive_features, "sensitive_features")
            return encode_attributes(
                sensitive_features, _num_samples(X), self.scorer_.strata, "sensitive_features"
            )
        if sensitive_features is not None:
            raise ValueError(
                "sensitive_features is not used to predict: this model does not use the group. "
                "Leave it out, or fit with aware=True where the law allows its use."
            )
        return ()

    @property
    def estimator_(self) -> Any:
        """The fitted model of the outcome."""
        return self.scorer_.outcome.model

    @property
    def sensitive_estimator_(self) -> Any:
        """The fitted model of the group: a list for several attributes, None if the group itself is used."""
        models = [model.model for model in self.scorer_.groups]
        return models if len(models) > 1 else next(iter(models), None)

    @property
    def calibrator_(self) -> Any:
        """The map that recalibrates the group probabilities: a list for several attributes, or None."""
        maps = [model.calibrator for model in self.scorer_.groups]
        return maps if len(maps) > 1 else next(iter(maps), None)

    @property
    def outcome_calibrator_(self) -> JointCalibrator | None:
        """The map that recalibrates the scores; None if there is no map."""
        return self.scorer_.outcome.calibrator

    @property
    def strata_(self) -> Strata:
        """Which groups are compared, and within which strata."""
        return self.scorer_.strata

    @property
    def n_iter_(self) -> int:
        """Number of iterations of the solver, at least one."""
        return max(1, self.result_.n_iter)
