"""Reference methods that use the group to predict: the Wasserstein barycentre, and the plug-in on a grid."""

from abc import abstractmethod
from typing import Any, Self

import numpy as np
from sklearn.utils import indexable
from sklearn.utils.validation import _num_samples, check_consistent_length, validate_data

from evenhand._utils.labels import Groups, match_groups, read_groups
from evenhand._utils.typing import FloatArray
from evenhand._utils.validation import Labels
from evenhand.baselines.base import PmfRegressor, check_target, one_hot
from evenhand.baselines.base_model import model_values
from evenhand.baselines.transport import Transport
from evenhand.data.draws import RandomState
from evenhand.data.groups import check_groups
from evenhand.dual.grid import make_grid
from evenhand.estimators.models import default_regressor, fit_model
from evenhand.estimators.postprocessor import ParityPostprocessor
from evenhand.metrics import ks_unfairness

N_TRIED = 101  # shares of the way that are tried for a Kolmogorov-Smirnov target


class AwareRegressor(PmfRegressor):
    """What the methods that see the group share: a regressor, and a step on its scores by group."""

    estimator: Any
    estimator_: Any
    groups_: Any

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        sensitive_features: Any = None,
        X_unlabeled: Any = None,
        sensitive_features_unlabeled: Any = None,
    ) -> Self:
        """Fit the regressor on labelled rows, and the step by group on unlabelled ones where they are given.

        Parameters
        ----------
        X : array or data frame of shape (n_rows, n_features)
        y : array of shape (n_rows,)
        sensitive_features : array or data frame of shape (n_rows,) or (n_rows, n_columns)
        X_unlabeled, sensitive_features_unlabeled : like X and sensitive_features, default=None
            Rows for the step by group; without them those of X serve.
        """
        if X_unlabeled is None and sensitive_features_unlabeled is not None:
            raise ValueError("sensitive_features_unlabeled is for the rows of X_unlabeled: pass these, too.")
        (X,) = indexable(X)
        target = check_target(y, type(self).__name__)
        check_consistent_length(X, target)
        groups = check_groups(read_groups(sensitive_features, len(target)))
        estimator = default_regressor(X) if self.estimator is None else self.estimator
        model = fit_model(estimator, X, target, None, "estimator")
        rows, known = X, groups
        if X_unlabeled is not None:
            name, n_rows = "sensitive_features_unlabeled", _num_samples(X_unlabeled)
            unlabelled = read_groups(sensitive_features_unlabeled, n_rows, name)
            rows, known = X_unlabeled, match_groups(unlabelled, groups.labels, name)
            _require_every_group(known, name)
        step = self._fit_step(model_values(model, rows), known)
        validate_data(self, X, skip_check_array=True)
        self.__dict__.update(step, estimator_=model, groups_=np.fromiter(groups.labels, dtype=object))
        return self

    def predict_pmf(self, X: Any, *, sensitive_features: Any = None) -> FloatArray:
        """Probability of each of `atoms_` for each row, which needs its group, (n_rows, n_atoms)."""
        rows = self._known_rows(X)
        if sensitive_features is None:
            raise ValueError("This model is aware: pass the group of each row as sensitive_features.")
        labels: Labels = tuple(self.groups_.tolist())
        groups = read_groups(sensitive_features, _num_samples(rows))
        known = match_groups(groups, labels, "sensitive_features")
        return self._pmf(model_values(self.estimator_, rows), known)

    @abstractmethod
    def _fit_step(self, scores: FloatArray, groups: Groups) -> dict[str, Any]:
        """The fitted attributes of the step by group, `atoms_` among them."""

    @abstractmethod
    def _pmf(self, scores: FloatArray, groups: Groups) -> FloatArray:
        """The step by group, (n_rows, n_atoms)."""


class WassersteinBarycentre(AwareRegressor):
    """Move the scores of each group to their common barycentre, with the group known at prediction time.

    The optimal regressor under exact parity for those who may use the group (Chzhen et al., 2020; Le Gouic et
    al., 2020), and on the way there, the optimal one for a given improvement (Chzhen and Schreuder, 2022):

        prediction = (1 - moved) f(x) + moved sum_r p_r Q_r(F_s(f(x)))

    Parameters
    ----------
    estimator : regressor, default=None
        None: the default of `ParityRegressor`.
    moved : float in [0, 1], default=1.0
        How much of the way to the barycentre; 1 is parity, 0 the regressor. The Wasserstein-2 distance
        between the groups shrinks by the factor 1 - moved.
    epsilon : float, default=None
        Instead of `moved`: the least share of the way at which no group is further than this from everybody,
        in Kolmogorov-Smirnov distance on the rows of the fit.
    atoms : "auto", int or array, default=201
        Values of the grid; each prediction counts for the nearest.
    bounds : "auto" or (low, high), default="auto"
        Range of the grid; "auto" is that of the scores, and a margin.
    random_state : int, Generator, RandomState or None, default=None
        Key of the draws of `predict`: rows with equal scores may be parted.

    Attributes
    ----------
    atoms_ : array of shape (n_atoms,)
    moved_ : float
    estimator_ : fitted regressor
    transport_ : Transport
    groups_ : array of shape (n_groups,)

    Examples
    --------
    >>> from evenhand.baselines import WassersteinBarycentre
    >>> from evenhand.datasets import make_population
    >>> from evenhand.metrics import ks_unfairness
    >>> data = make_population(1000, n_groups=3, random_state=0)
    >>> groups = data.sensitive_features
    >>> model = WassersteinBarycentre().fit(data.data, data.target, sensitive_features=groups)
    >>> pmf = model.predict_pmf(data.data, sensitive_features=groups)
    >>> max(ks_unfairness(pmf, groups).values()) < 1e-9
    True
    """

    moved_: float
    transport_: Transport

    def __init__(
        self,
        estimator: Any = None,
        *,
        moved: float = 1.0,
        epsilon: float | None = None,
        atoms: Any = 201,
        bounds: Any = "auto",
        random_state: RandomState = None,
    ) -> None:
        self.estimator = estimator
        self.moved = moved
        self.epsilon = epsilon
        self.atoms = atoms
        self.bounds = bounds
        self.random_state = random_state

    def _fit_step(self, scores: FloatArray, groups: Groups) -> dict[str, Any]:
        if not 0.0 <= self.moved <= 1.0:
            raise ValueError(f"moved must lie between 0 (the regressor) and 1 (parity): got {self.moved!r}.")
        atoms = make_grid(self.atoms, self.bounds, scores).atoms
        transport = Transport.between(scores, groups.codes, len(groups.labels))
        moved = float(self.moved)
        if self.epsilon is not None:
            if not self.epsilon >= 0:
                raise ValueError(f"epsilon must be None or not negative: got {self.epsilon!r}.")
            moved = _least_move(transport, scores, groups, atoms, self.epsilon)
        return {"atoms_": atoms, "transport_": transport, "moved_": moved}

    def _pmf(self, scores: FloatArray, groups: Groups) -> FloatArray:
        return self.transport_.pmf(scores, groups.codes, self.atoms_, self.moved_)


class AwarePlugin(AwareRegressor):
    """The plug-in of Chzhen et al. (NeurIPS 2020) on a grid, with the group known at prediction time.

    Recalibrates the regressor so that every atom is as likely in each group, by the smoothed dual of that
    problem over unlabelled rows, and predicts its best atom:

        prediction = argmax_l  <theta_l, t(s)> - (f(x) - y_l)^2

    Parameters
    ----------
    estimator : regressor, default=None
        None: the default of `ParityRegressor`.
    atoms : "auto", int or array, default="auto"
    bounds : "auto" or (low, high), default="auto"
    beta : "auto", "paper" or float, default="auto"
        Smoothing of the dual, as in `ParityPostprocessor`.
    random_state : int, Generator, RandomState or None, default=None
        Not used: nothing is drawn.

    Attributes
    ----------
    atoms_ : array of shape (n_atoms,)
    estimator_ : fitted regressor
    postprocessor_ : ParityPostprocessor
    groups_ : array of shape (n_groups,)

    Examples
    --------
    >>> from evenhand.baselines import AwarePlugin
    >>> from evenhand.datasets import make_population
    >>> from evenhand.metrics import ks_unfairness
    >>> data = make_population(1000, n_groups=3, random_state=0)
    >>> groups = data.sensitive_features
    >>> model = AwarePlugin().fit(data.data, data.target, sensitive_features=groups)
    >>> predicted = model.predict(data.data, sensitive_features=groups)
    >>> max(ks_unfairness(predicted, groups).values()) < 0.05
    True
    """

    postprocessor_: ParityPostprocessor

    def __init__(
        self,
        estimator: Any = None,
        *,
        atoms: Any = "auto",
        bounds: Any = "auto",
        beta: Any = "auto",
        random_state: RandomState = None,
    ) -> None:
        self.estimator = estimator
        self.atoms = atoms
        self.bounds = bounds
        self.beta = beta
        self.random_state = random_state

    def _fit_step(self, scores: FloatArray, groups: Groups) -> dict[str, Any]:
        settings = {"atoms": self.atoms, "bounds": self.bounds, "beta": self.beta}
        step = ParityPostprocessor(parity="pmf", epsilon=0.0, **settings).fit(scores, groups.one_hot())
        return {"atoms_": step.atoms_, "postprocessor_": step}

    def _pmf(self, scores: FloatArray, groups: Groups) -> FloatArray:
        best = self.postprocessor_.predict_pmf(scores, groups.one_hot()).argmax(axis=1)
        return one_hot(best, len(self.atoms_))


def _require_every_group(groups: Groups, name: str) -> None:
    present = np.bincount(groups.codes, minlength=len(groups.labels)) > 0
    if not present.all():
        raise ValueError(
            f"{name} has no row of group {groups.labels[present.argmin()]!r}: the step by group needs "
            "rows of each. Add some, or leave X_unlabeled out."
        )


def _least_move(
    transport: Transport, scores: FloatArray, groups: Groups, atoms: FloatArray, epsilon: float
) -> float:
    """The least share tried that meets `epsilon`; the whole way always does."""
    for moved in np.linspace(0.0, 1.0, N_TRIED)[:-1].tolist():
        pmf = transport.pmf(scores, groups.codes, atoms, moved)
        if max(ks_unfairness(pmf, groups.codes).values()) <= epsilon:
            return float(moved)
    return 1.0
