"""AC-SA, the accelerated stochastic approximation of Ghadimi and Lan, and its restarted form."""

import math
from dataclasses import dataclass
from typing import ClassVar

from evenhand.solvers import schedules
from evenhand.solvers.schedules import Plan
from evenhand.solvers.stochastic import Constants, Method, StochasticSolver


@dataclass(frozen=True, kw_only=True)
class AcSa(StochasticSolver):
    """AC-SA (paper, appendix) on `F + mu / 2 |w - w_0|^2`, w_0 the start.

    With `alpha_t = 2 / (t + 1)` and `gamma_t = 4M / (t (t + 1))`.

    Beside the parameters of every stochastic solver:

    Parameters
    ----------
    regularisation : float or None
        mu. F itself is not strongly convex, and without mu the steps grow until noise is all there is.
        None: `2 sigma / (D sqrt(T))`, half of the mu at which the theorem's noise `8 sigma^2 / (mu T)` and
        the bias `mu D^2 / 2` balance. On six problems the half was up to 2.2 times better at tight
        tolerances and up to 1.6 times worse elsewhere. M / T is as good at some budgets, but keeps its
        noise as T grows.
    """

    regularisation: float | None = None

    noise: ClassVar[float] = 8.0  # c of the term c sigma^2 / (mu T) in the bound on the gap
    stage_budget: ClassVar[float] = 4.0  # c of `T > c J sqrt(M / mu)`, which SGD3 around it asks for

    @property
    def name(self) -> str:
        """Short name, as in `solver="..."`."""
        return "acsa"

    @property
    def method(self) -> Method:
        """Which kernel takes the steps."""
        return "acsa"

    def make_plan(self, n_updates: int, constants: Constants) -> Plan:
        """One stage on the regularised function."""
        mu = self.regularisation
        if mu is None:
            mu = math.sqrt(self.noise / 2.0 * constants.variance / n_updates) / constants.radius
        return schedules.anchored(self.make_stage(n_updates, constants.smoothness + mu, mu), mu)

    def make_stage(self, n_updates: int, smoothness: float, convexity: float) -> Plan:
        """Phases on a function that is smooth and strongly convex already.

        Parameters
        ----------
        n_updates : int
        smoothness, convexity : float
            Constants of the function: M, and mu of its strong convexity.
        """
        return schedules.acsa(n_updates, smoothness, convexity)


@dataclass(frozen=True, kw_only=True)
class AcSa2(AcSa):
    """AC-SA squared (Foster et al.): AC-SA twice, each on half of the budget.

    The second run starts at the first one's answer with its steps reset. Parameters as in `AcSa`; the
    noise has twice the weight, so mu is sqrt(2) times as large by default.
    """

    noise: ClassVar[float] = 16.0
    stage_budget: ClassVar[float] = 2.0**2.75

    @property
    def name(self) -> str:
        """Short name, as in `solver="..."`."""
        return "acsa2"

    def make_stage(self, n_updates: int, smoothness: float, convexity: float) -> Plan:
        """Phases on a function that is smooth and strongly convex already."""
        return schedules.acsa_squared(n_updates, smoothness, convexity)
