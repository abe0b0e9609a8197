"""A fit as it went: what its solver had reached after each step."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evenhand._utils.text import capital
from evenhand._utils.typing import FloatArray
from evenhand.dual.parity import find_parity
from evenhand.evaluation.heldout import read_held_out
from evenhand.metrics import ScoredRows
from evenhand.plots import ConvergenceDisplay
from evenhand.solvers import Progress

GROWTH = 1.02  # of the gradients between two records that are kept: some hundreds in all


@dataclass(frozen=True, slots=True, eq=False)
class Iterate:
    """A solver between two steps."""

    n_iter: int
    n_gradient_rows: int
    multipliers: FloatArray  # Phi, (n_constraints, n_groups)


class History:
    """Callback of `ParityPostprocessor.fit` that keeps the multipliers along the way.

    A step is cheap to keep and dear to measure, and a callback does not see the atoms. So `measure` does
    that after the fit, on any rows: the fit itself is not slowed. Records are thinned as they come, to
    steps that grow with the work done.

    Parameters
    ----------
    growth : float
        A record is kept where the gradients so far are this many times those of the last one kept, or more.
        The latest is always there.

    Attributes
    ----------
    solver : str
        Name of the solver of the last fit.

    Examples
    --------
    >>> from evenhand.history import History
    >>> from evenhand import ParityPostprocessor
    >>> from evenhand.datasets import make_population
    >>> rows = make_population(1000, n_groups=2, random_state=0)
    >>> history = History()
    >>> model = ParityPostprocessor(epsilon=0.02).fit(rows.scores, rows.group_proba, callback=history)
    >>> shown = history.measure(model, {"scores": rows.scores, "group_proba": rows.group_proba})
    >>> shown.runs[0].unfairness[[0, -1]].round(2)
    array([0.05, 0.02])
    """

    def __init__(self, growth: float = GROWTH) -> None:
        if not growth >= 1.0 or math.isinf(growth):
            raise ValueError(f"growth must be at least 1 and finite: got {growth!r}.")
        self.growth = growth
        self.solver = ""
        self._kept: list[Iterate] = []
        self._latest: Iterate | None = None

    def __call__(self, progress: Progress) -> None:
        """Keep what the solver has reached; a fit that starts anew starts a new history."""
        record = Iterate(progress.n_iter, progress.n_gradient_rows, np.array(progress.multipliers))
        if self._latest is not None and record.n_gradient_rows < self._latest.n_gradient_rows:
            self._kept = []
        self.solver, self._latest = progress.solver, record
        if not self._kept or record.n_gradient_rows >= self.growth * self._kept[-1].n_gradient_rows:
            self._kept.append(record)

    @property
    def records(self) -> tuple[Iterate, ...]:
        """What was kept, in order, with the latest at the end."""
        if self._latest is None or self._latest is self._kept[-1]:
            return tuple(self._kept)
        return (*self._kept, self._latest)

    def measure(self, model: Any, test: Any, *, name: str | None = None) -> ConvergenceDisplay:
        """Risk and largest Kolmogorov-Smirnov distance of every record, ready to be drawn.

        Parameters
        ----------
        model : ParityPostprocessor
            Fitted with this history as its callback.
        test : dict or tuple
            Rows to measure on, as in `evenhand.frontier`: `scores`, `group_proba`, and `y`,
            `sensitive_features` and `sample_weight` where they are known.
        name : str, default=None
            Name of the run; that of the solver by default. Displays can be added: `one + other`.
        """
        records = self.records
        if not records:
            raise ValueError("The history is empty: pass it as callback= to fit first.")
        if records[-1].multipliers.shape != model.multipliers_.shape:
            raise ValueError("The history is not of this model: its multipliers have another shape.")
        rows = read_held_out(test, model)
        policy = model.policy_
        operator = model.step_.step.resolved.operator
        measures = [
            rows.measure(replace(policy, tilt=operator.adjoint(each.multipliers))) for each in records
        ]
        work = [each.n_gradient_rows for each in records]
        reached = [each.risk for each in measures], [each.largest("ks") for each in measures]
        return ConvergenceDisplay.from_runs(
            {name or self.solver: (work, *reached)},
            epsilon=float(model.epsilon_.max()) if find_parity(model.parity_).metric == "ks" else None,
            risk_name=capital(policy.cost.score_risk_name)
            if rows.target is None
            else f"Risk ({policy.cost.risk_name})",
            measured_on=_rows_in_words(rows),
        )


def _rows_in_words(rows: ScoredRows) -> str:
    """How many rows there are, and what is known of them: a display says what it measured on what."""
    known = rows.members.shares is None or rows.members.shares.dtype == bool
    groups = "known groups" if known else "groups by their probabilities"
    outcomes = "known outcomes" if rows.target is not None else "scores in place of outcomes"
    return f"{len(rows.scores)} rows ({groups}, {outcomes})"
