"""What a post-processor is once its parity step is solved: fitted attributes, and predictions from them."""

from abc import ABC
from collections.abc import Callable, Iterator
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from evenhand._utils.labels import label_array
from evenhand._utils.stored import Stored, is_finite
from evenhand._utils.tensors import is_tensor
from evenhand._utils.typing import AnyArray, FloatArray
from evenhand._utils.validation import Labels, Rows, check_levels, check_rows_of
from evenhand.certificates import Certificate
from evenhand.dual.parity import ParityNotion
from evenhand.dual.policy import SoftmaxPolicy
from evenhand.dual.step import ParityStep
from evenhand.estimators.draws import HashArray, RandomState, choose_uniforms, uniforms_from_rows
from evenhand.estimators.price import Price
from evenhand.estimators.telling import TellsPromise
from evenhand.estimators.tensor_predictions import draw, predict_tensors, quantile
from evenhand.solvers import Solver, SolverResult, make_solver


class SolvedStep(TellsPromise, Stored, BaseEstimator, ABC):  # type: ignore[misc]
    """Parameters, fitted attributes and predictions of a post-processor, however it was fitted."""

    parity: str | ParityNotion
    epsilon: Any
    atoms: Any
    bounds: Any
    beta: Any
    cost: Any
    solver: Any
    tol: float
    max_iter: int | None
    confidence: Any
    warm_start: bool
    random_state: RandomState
    device: Any

    atoms_: FloatArray
    bounds_: tuple[float, float]
    beta_: float
    groups_: AnyArray
    n_groups_: int
    group_prior_: FloatArray
    epsilon_: FloatArray
    tolerance_: FloatArray
    n_rows_: int
    multipliers_: FloatArray
    tilt_: FloatArray
    n_clipped_: int
    step_: ParityStep
    policy_: SoftmaxPolicy
    result_: SolverResult
    certificate_: Certificate
    price_: Price  # not of a stream
    draw_key_: HashArray

    def faults(self) -> Iterator[str]:
        """All parts of a fit or none, of the same groups, and a key for the draws."""
        fitted = {name for name in vars(self) if name.endswith("_")}
        if not fitted:
            return
        needed = {"atoms_", "beta_", "draw_key_", "epsilon_", "groups_", "multipliers_", "policy_", "step_"}
        needed |= {"tolerance_"}
        if missing := sorted(needed - fitted):
            yield f"it has no {', '.join(missing)}"
        if not isinstance(self.policy_, SoftmaxPolicy):
            yield "its policy_ is not a policy"
        n_groups = len(self.policy_.group_prior)
        if not isinstance(self.step_, ParityStep) or self.policy_.tilt.shape != (
            len(self.step_.grid.atoms),
            len(self.step_.group_prior),
        ):
            yield "its step_ is not the step of its policy"
        key = self.draw_key_
        if not isinstance(key, np.ndarray) or key.dtype != np.uint64 or key.shape != (2,):
            yield "its draw_key_ is not a key"
        if not isinstance(self.groups_, np.ndarray) or self.groups_.shape != (n_groups,):
            yield f"its groups_ are not {n_groups} labels"
        elif self.policy_.strata is not None and not all(
            type(label) is tuple and len(label) == 2 for label in self.groups_.tolist()
        ):
            yield "its groups_ are not pairs of a stratum and a group"
        if not all(
            is_finite(each, n_groups) and np.all(each >= 0) for each in (self.epsilon_, self.tolerance_)
        ):
            yield "its tolerances are not one number for each group"
        if not is_finite(self.multipliers_, None, n_groups) or not is_finite(self.beta_):
            yield "its multipliers or its beta are not numbers"
        if not isinstance(self.atoms_, np.ndarray) or not np.array_equal(self.atoms_, self.step_.grid.atoms):
            yield "its atoms_ are not those of its step"

    def _install(self, step: ParityStep, multipliers: FloatArray, groups: Labels, **others: Any) -> Self:
        """Take over the fitted attributes of a solved step, all at once: no failure leaves half of them."""
        policy = step.policy(multipliers)
        self.__dict__.update(
            atoms_=step.grid.atoms,
            bounds_=step.grid.bounds,
            beta_=step.beta,
            groups_=label_array(groups),
            n_groups_=len(groups),
            group_prior_=step.group_prior,
            epsilon_=others.pop("epsilon_", step.epsilon),
            tolerance_=step.epsilon,
            multipliers_=multipliers,
            tilt_=policy.tilt,
            step_=step,
            policy_=policy,
            **others,
        )
        return self

    def predict_pmf(self, scores: Any, group_proba: Any) -> FloatArray:
        """Probability of each atom for each row, shape (n_rows, n_atoms).

        This is the policy itself, so it keeps parity: averaged over rows like those of the fit, each
        group's distribution is within epsilon of everybody's (Lemma 3.2).

        Parameters
        ----------
        scores : array of shape (n_rows,)
        group_proba : array or data frame of shape (n_rows, n_groups)
            Named columns may come in any order. Tensors are answered with a tensor on their device, here and
            by all other predictions.
        """
        if is_tensor(scores) or is_tensor(group_proba):
            return self._for_tensors(scores, group_proba, lambda policy: policy.pmf(), self.predict_pmf)
        rows = self._rows(scores, group_proba)
        return self.policy_.pmf(rows.scores, rows.group_proba)

    def predict(
        self, scores: Any, group_proba: Any, random_state: RandomState = None, ids: Any = None
    ) -> FloatArray:
        """One atom for each row, drawn from its policy, shape (n_rows,).

        Draws keep parity, up to the noise of drawing. By default the draw is a keyed hash of the row's
        score and probabilities (`uniforms_from_rows` says how they are rounded): the same
        row gets the same answer in any batch, order, process or machine, and so do two people who look the
        same to the model. With `ids` it is a hash of the id alone, and also survives new models.

        Parameters
        ----------
        scores : array of shape (n_rows,)
        group_proba : array or data frame of shape (n_rows, n_groups)
        random_state : int, Generator, RandomState or None, default=None
            Anything but None asks for fresh draws instead.
        ids : array of shape (n_rows,), default=None
            Integers, text, bytes or UUIDs that say who each row is.
        """
        if is_tensor(scores) or is_tensor(group_proba):
            return self._for_tensors(
                scores,
                group_proba,
                lambda policy: draw(policy, self.draw_key_, random_state, ids),
                lambda eta, tau: self.predict(eta, tau, random_state, ids),
            )
        rows = self._rows(scores, group_proba)
        scaled, key = rows.scores, self.draw_key_
        if scaled.ndim == 1:
            with np.errstate(over="ignore"):  # scores beyond all bounds are in one cell
                scaled = self.policy_.grid.scale(scaled)
        uniforms = choose_uniforms(
            len(scaled), key, random_state, ids, lambda: uniforms_from_rows(scaled, rows.group_proba, key)
        )
        return self.policy_.draw(rows.scores, rows.group_proba, uniforms)

    def predict_mean(self, scores: Any, group_proba: Any) -> FloatArray:
        """Mean of each row's distribution, shape (n_rows,): the best single number for squared risk.

        It keeps parity of means (`parity="mean"`, or what the other notions imply for it), but in general
        not of distributions: averaging undoes the spread that made the groups alike.

        Parameters
        ----------
        scores : array of shape (n_rows,)
        group_proba : array or data frame of shape (n_rows, n_groups)
        """
        if is_tensor(scores) or is_tensor(group_proba):
            return self._for_tensors(scores, group_proba, lambda policy: policy.mean(), self.predict_mean)
        rows = self._rows(scores, group_proba)
        return self.policy_.mean(rows.scores, rows.group_proba)

    def predict_quantile(self, scores: Any, group_proba: Any, q: Any = 0.5) -> FloatArray:
        """Smallest atom whose cumulated probability reaches q, shape (n_rows,).

        In general it does not keep parity, at any fixed q; at a q drawn uniformly for each row it is
        `predict`.

        Parameters
        ----------
        scores : array of shape (n_rows,)
        group_proba : array or data frame of shape (n_rows, n_groups)
        q : float or array of shape (n_rows,), default=0.5
            Strictly between 0 and 1.
        """
        if is_tensor(scores) or is_tensor(group_proba):
            return self._for_tensors(
                scores,
                group_proba,
                lambda policy: quantile(policy, q),
                lambda eta, tau: self.predict_quantile(eta, tau, q),
            )
        rows = self._rows(scores, group_proba)
        levels = check_levels(q, len(rows.scores))
        return self.policy_.quantile(rows.scores, rows.group_proba, levels)

    def _solver(self) -> Solver[Any]:
        """The solver that the parameters ask for."""
        return make_solver(self.solver, tol=self.tol, max_iter=self.max_iter, random_state=self.random_state)

    def _for_tensors(
        self, scores: Any, group_proba: Any, ask: Callable[[Any], Any], ask_arrays: Callable[..., Any]
    ) -> FloatArray:
        """Predictions for tensors: a tensor on their device, which no caller of arrays gets to see."""
        check_is_fitted(self, "policy_")
        labels = tuple(self.groups_.tolist())
        answer: FloatArray = predict_tensors(self.policy_, labels, scores, group_proba, ask, ask_arrays)
        return answer

    def _rows(self, scores: Any, group_proba: Any) -> Rows:
        """Checked rows with the groups of the fit."""
        check_is_fitted(self, "policy_")
        policy = self.policy_
        labels = tuple(self.groups_.tolist())
        return check_rows_of(scores, group_proba, labels, policy.strata, policy.cost.n_classes)
