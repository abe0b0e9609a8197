"""The frontier between risk and parity: a model for each of many tolerances, for the price of a few."""

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from evenhand._utils.frames import make_frame
from evenhand._utils.markup import cell, html_block
from evenhand._utils.text import capital
from evenhand._utils.typing import FloatArray
from evenhand._utils.validation import as_floats
from evenhand.dual.costs import Cost, Squared
from evenhand.dual.parity import ParityNotion, find_parity
from evenhand.evaluation.heldout import Model, read_held_out
from evenhand.evaluation.noise import point_noise
from evenhand.evaluation.paths import (
    NO_LIMIT,
    Callback,
    FrontierPoint,
    default_epsilons,
    fit_without_parity,
    solve_path,
)
from evenhand.exceptions import ConvergenceWarning, EvenhandWarning
from evenhand.metrics import DISTANCES, Measures, ScoredRows
from evenhand.metrics.distances import Metric, find_distance, own_distances
from evenhand.plots import FrontierDisplay


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Frontier:
    """Models along a path of tolerances, with their risk and their distances from parity.

    See `frontier`, which makes it.
    """

    points: tuple[FrontierPoint, ...]  # in the order of epsilon
    base: Measures  # of the scores, before any parity step
    has_target: bool  # the risk is against y, and not against the scores
    cost: Cost = field(default_factory=Squared)  # whose mean the risk is
    rows: ScoredRows | None = None  # that all was measured on

    def __repr__(self) -> str:
        low, high = self.points[0].epsilon, self.points[-1].epsilon
        return f"<Frontier: {len(self.points)} models, epsilon from {low:.3g} to {high:.3g}>"

    def _repr_html_(self) -> str:
        """A table of tolerances for notebooks: what each costs and what it brings on the held-out rows."""
        increases = zip(self.risk, self.risk_increase, self.max_distance, strict=True)
        rows = [
            (cell(point.epsilon), cell(far), cell(risk, 4), "" if more != more else f"{more:+.1%}")
            for point, (risk, more, far) in zip(self.points, increases, strict=True)
        ]
        notion = self._notion()
        rows.append(("without parity", cell(self.base.largest(notion)), cell(self.base.risk, 4), ""))
        if self.constant_risk is not None:
            more = self.constant_risk / self.base.risk - 1.0 if self.has_target and self.base.risk else np.nan
            told = "" if more != more else f"{more:+.1%}"
            rows.append(("best constant", "0", cell(self.constant_risk, 4), told))
        far = f"Largest distance ({find_distance(notion).short})"
        heads = ("Epsilon", far, self._risk_name(), "Above that without parity")
        note = (
            "Epsilon is what was asked for on the rows of the fit. The distance, of the group that is "
            "farthest from all rows, and the costs are of the rows in test=, or of those of the fit where "
            "none were given."
        )
        return html_block(f"{len(self.points)} models along a frontier", heads, rows, [note])

    @property
    def models(self) -> list[Any]:
        """The fitted models, in the order of the rows of `frame()`."""
        return [point.model for point in self.points]

    @property
    def risk(self) -> FloatArray:
        """Risk of each model, (n_points,)."""
        return np.array([point.measures.risk for point in self.points])

    @property
    def risk_increase(self) -> FloatArray:
        """Risk over that of the base scores, less one, (n_points,); NaN without y."""
        if not self.has_target:
            return np.full(len(self.points), np.nan)
        if self.base.risk == 0.0:
            return np.where(self.risk > 0.0, np.inf, 0.0)
        return self.risk / self.base.risk - 1.0

    @property
    def r2(self) -> FloatArray:
        """`1 - risk / risk of the best constant`, (n_points,): R^2 for squared error; NaN without y."""
        if not self.has_target or not self.base.constant_risk > 0:
            return np.full(len(self.points), np.nan)
        return 1.0 - self.risk / self.base.constant_risk

    @property
    def max_ks(self) -> FloatArray:
        """Largest Kolmogorov-Smirnov distance between a group and all rows, (n_points,)."""
        return np.array([point.measures.largest("ks") for point in self.points])

    @property
    def max_distance(self) -> FloatArray:
        """Largest distance between a group and all rows, in that of the model's own parity, (n_points,)."""
        return np.array([point.measures.largest(self._notion()) for point in self.points])

    def _notion(self) -> ParityNotion:
        return find_parity(self.models[0].parity_)

    @property
    def distances(self) -> dict[str, Metric]:
        """What is measured of each model, by name: the standard distances, and that of the model's parity."""
        return _distances(self.models[0].parity_)

    def frame(self, backend: str | None = None) -> Any:
        """One row for each epsilon, in increasing order, as a data frame.

        `risk`, `risk_increase`, the risk of the best constant and `r2` (`1 - risk / constant_risk`), and for
        each of the distances `ks`, `tv` and `w1`, and those of registered notions, its largest value
        (`max_ks`) and that of each group (`ks_<group>`), are of the held-out rows. `fit_violation` (in the
        norm of the model's parity, largest group), `fit_risk` (distance to the scores) and `optimality_gap`
        are what the certificate says of the rows of the fit.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"} or None, default=None
            The first of them that is installed by default.
        """
        columns: dict[str, Any] = {
            "epsilon": [point.epsilon for point in self.points],
            "risk": self.risk,
            "risk_increase": self.risk_increase,
            "constant_risk": np.full(len(self.points), self.base.constant_risk),
            "r2": self.r2,
        }
        for name, metric in self.distances.items():
            table = np.array([point.measures.distances(metric) for point in self.points])
            columns[f"max_{name}"] = table.max(axis=1)
            columns |= {f"{name}_{_text(group)}": table[:, g] for g, group in enumerate(self.base.labels)}
        certificates = [point.certificate for point in self.points]
        columns |= {
            "fit_violation": [float(each.violation.max()) for each in certificates],
            "fit_risk": [each.risk for each in certificates],
            "optimality_gap": [each.optimality_gap for each in certificates],
            "status": [point.status.name.lower() for point in self.points],
            "n_iter": [point.n_iter for point in self.points],
        }
        return make_frame(columns, backend)

    def select(
        self,
        *,
        max_risk_increase: float | None = None,
        max_distance: float | None = None,
        max_ks: float | None = None,
    ) -> Any:
        """The best model within one limit, by the held-out rows.

        The numbers of the model chosen are a little too good on the rows that chose it: report those of
        rows that had no part in the choice.

        Parameters
        ----------
        max_risk_increase : float, default=None
            Of the models whose risk is at most this share above that of the base scores (0.05: five
            percent), the one with the smallest `max_distance`.
        max_distance : float, default=None
            Of the models whose largest distance is at most this, in the distance of their own parity (for
            `parity="mean"` the difference of averages, in the units of the scores), the one with the
            smallest risk.
        max_ks : float, default=None
            The same for the Kolmogorov-Smirnov distance, whatever the parity of the models; that of
            `parity="cdf"`.
        """
        given = {"max_risk_increase": max_risk_increase, "max_distance": max_distance, "max_ks": max_ks}
        limits = {name: _limit(name, value) for name, value in given.items() if value is not None}
        if len(limits) != 1:
            raise ValueError(
                "select needs exactly one limit: pass max_risk_increase, max_distance or max_ks."
            )
        ((name, limit),) = limits.items()
        if name != "max_risk_increase":
            return self._best(name, getattr(self, name), limit, self.risk)
        if not self.has_target:
            raise ValueError(
                "max_risk_increase compares with the risk of the base scores, which is not known without "
                "outcomes: pass y in test= of frontier, or select by max_distance."
            )
        return self._best(name, self.risk_increase, limit, self.max_distance)

    def _best(self, name: str, limited: FloatArray, limit: float, wanted: FloatArray) -> Any:
        """The model with the smallest `wanted` among those within the limit."""
        within = np.flatnonzero(limited <= limit)
        if len(within) == 0:
            closest = int(np.argmin(limited))
            raise ValueError(
                f"No model of the frontier has {name} <= {limit:g}. The closest has {limited[closest]:.4g}, "
                f"at epsilon = {self.points[closest].epsilon:.4g}. Raise the limit, or add epsilons."
            )
        return self.points[within[np.argmin(wanted[within])]].model

    def _risk_name(self) -> str:
        if self.has_target:
            return f"Risk ({self.cost.risk_name})"
        return capital(self.cost.score_risk_name)

    @property
    def constant_risk(self) -> float | None:
        """Risk of the best constant on the held-out rows: parity that looks at nobody costs that much."""
        return self.base.constant_risk if np.isfinite(self.base.constant_risk) else None

    def plot(self, ax: Any = None, *, intervals: bool = True) -> FrontierDisplay:
        """Draw risk against the largest Kolmogorov-Smirnov distance on the held-out rows.

        With the best constant and, beside `intervals`, the distance that chance alone would show.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            One of its own by default.
        intervals : bool, default=True
            Resample the rows for intervals at 95 % around the points, which takes a moment.
        """
        noise: dict[str, Any] = {}
        if intervals and self.rows is not None:
            found = [point_noise(self.rows, point.model.policy_, point.measures) for point in self.points]
            noise["risk_interval"] = np.transpose([each.risk for each in found])
            noise["unfairness_interval"] = np.transpose([each.ks for each in found])
            noise["chance"] = found[int(np.argmin(self.max_ks))].chance
        display = FrontierDisplay(
            epsilon=np.array([point.epsilon for point in self.points]),
            risk=self.risk,
            unfairness=self.max_ks,
            base_risk=self.base.risk,
            base_unfairness=self.base.largest("ks"),
            risk_name=self._risk_name(),
            constant_risk=self.constant_risk,
            **noise,
        )
        return display.plot(ax)


def frontier(
    model: Any,
    *fit_args: Any,
    epsilons: Any = None,
    test: Any = None,
    callback: Callback | None = None,
    **fit_kwargs: Any,
) -> Frontier:
    """Fit `model` for many tolerances at the price of a few, and measure each on held-out rows.

    What does not depend on epsilon is learned once. The parity step is then solved from the largest epsilon
    to the smallest, each from the multipliers of the one before. `model` itself is not changed.

    Parameters
    ----------
    model : ParityPostprocessor or ParityRegressor
        Fitted or not; its settings count, its fit does not. Where its `epsilon` differs by group, these
        proportions are kept, and `epsilons` are those of the group with the largest one.
    *fit_args, **fit_kwargs
        What `model.fit` takes: `scores, group_proba`, or `X, y, sensitive_features=...`.
    epsilons : array of shape (n_points,), default=None
        Tolerances, in any order. None: zero, and 19 in geometric progression up to where the constraint
        stops to bind on the rows of the fit, from a 200th of that.
    test : dict or tuple, default=None
        Held-out rows: `scores` and `group_proba` for a post-processor, `X` for a regressor, then `y`
        (without it the risk is the mean squared distance to the scores), `sensitive_features` (without it
        a row counts in each group by its probability of being in it, which trusts these probabilities; for
        a post-processor with strata, zeros and ones in the columns of `group_proba`) and `sample_weight`, if
        known; a dict by these names or a tuple in this order. None: the rows of the fit themselves, without
        y and group, where parity looks better than it will be on new rows.
    callback : callable, default=None
        Called with a `FrontierPoint` after every epsilon; ends the path by returning True. An interrupt
        ends it too: with a warning, and with the points found by then.

    Returns
    -------
    Frontier
        `frame()`, `plot()`, `select(max_ks=...)`, `models`.

    Examples
    --------
    >>> from evenhand import frontier
    >>> from evenhand import ParityPostprocessor
    >>> from evenhand.datasets import make_population
    >>> fit, new = (make_population(1000, n_groups=2, random_state=seed) for seed in (0, 1))
    >>> path = frontier(
    ...     ParityPostprocessor(), fit.scores, fit.group_proba, epsilons=[0.01, 0.05, 0.1],
    ...     test={"scores": new.scores, "group_proba": new.group_proba, "y": new.target,
    ...           "sensitive_features": new.sensitive_features},
    ... )
    >>> path
    <Frontier: 3 models, epsilon from 0.01 to 0.1>
    >>> path.max_ks.round(2)
    array([0.04, 0.07, 0.12])
    >>> path.select(max_ks=0.1).epsilon
    0.05
    """
    wanted = None if epsilons is None else _check_epsilons(epsilons)
    if not isinstance(model, Model):
        raise TypeError(f"model must be a ParityPostprocessor or a ParityRegressor: got {model!r}.")
    problem = model._frontier_rows(*fit_args, **fit_kwargs)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        rest = fit_without_parity(problem, NO_LIMIT if wanted is None else wanted[0])
        rows = ScoredRows.of(problem.rows)
        if test is not None:
            rows = read_held_out(test, problem.assemble(rest, problem.epsilon))
        path = default_epsilons(problem, rest) if wanted is None else wanted
        points = solve_path(problem, path, rows, callback)
    _warn_once(caught, points)
    base = rows.measure_scores(rest.policy, _distances(rest.step.parity).values())
    return Frontier(tuple(points[::-1]), base, rows.target is not None, rest.policy.cost, rows)


def _distances(parity: str | ParityNotion) -> dict[str, Metric]:
    return {**{name: name for name in DISTANCES}, **own_distances(find_parity(parity))}


def _check_epsilons(epsilons: Any) -> FloatArray:
    """Sorted, each once."""
    values = as_floats(epsilons, "epsilons")
    if values.ndim != 1 or len(values) == 0:
        raise ValueError(f"epsilons needs at least one value in one dimension: got shape {values.shape}.")
    if not np.isfinite(values).all() or values.min() < 0:
        raise ValueError(f"epsilons must be finite and not negative: got {epsilons!r}.")
    return np.unique(values)


def _warn_once(caught: list[warnings.WarningMessage], points: list[FrontierPoint]) -> None:
    """Pass on each warning of the fits once, and one for all those that did not converge."""
    for message in {str(each.message): each for each in caught}.values():
        if issubclass(message.category, ConvergenceWarning):
            continue
        if issubclass(message.category, EvenhandWarning):
            warnings.warn(str(message.message), message.category, stacklevel=3)
        else:
            warnings.warn_explicit(message.message, message.category, message.filename, message.lineno)
    failed = [f"{point.epsilon:.4g}" for point in points if not point.status.success]
    if failed:
        warnings.warn(
            f"The solver stopped early at {len(failed)} of {len(points)} epsilons ({', '.join(failed)}): "
            "see the columns status and fit_violation of frame().",
            ConvergenceWarning,
            stacklevel=3,
        )


def _limit(name: str, value: Any) -> float:
    limit = as_floats(value, name)
    if limit.ndim != 0 or not np.isfinite(limit):
        raise ValueError(f"{name} must be one finite number: got {value!r}.")
    return float(limit)


def _text(label: Any) -> str:
    """A group's label in the name of a column."""
    return "_".join(map(str, label)) if isinstance(label, tuple) else str(label)
