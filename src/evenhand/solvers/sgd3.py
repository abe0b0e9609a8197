"""SGD3 of Allen-Zhu, and the refined form of Foster et al. that the paper's theorem is about."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from evenhand.solvers import schedules
from evenhand.solvers.acsa import AcSa
from evenhand.solvers.schedules import Inner, Plan
from evenhand.solvers.stochastic import Constants, Method, StochasticSolver

OWN_SGD_SHARE = 0.25  # of the theory's mu: gaps at 0.3 of it were 0.95 to 7 times smaller


@dataclass(frozen=True, kw_only=True)
class Sgd3(StochasticSolver):
    """SGD3 (paper, Algorithm 4): stages on ever more regular functions make the gradient map small.

    Stage j minimises `F + sum_{i < j} mu_i / 2 |w - w_i|^2` from w_{j-1}, where w_i is the answer of stage i
    and `mu_i = 2^i mu`; there are `J = floor(log2(M / mu))` stages of T / J updates.

    Beside the parameters of every stochastic solver:

    Parameters
    ----------
    inner : AcSa, AcSa2 or None
        What solves a stage: `Sgd3(inner=AcSa2())` is SGD3-refined. None: Allen-Zhu's own SGD for
        strongly convex functions. The inner solver's plan is used, its budget and seed are not.
    regularisation : float or None
        mu. The theorem takes `2 sigma^2 / beta` with `beta = T / (8 log2 T)`. Since beta is the user's
        here, None keeps the dependence on T: `mu = 16 sigma^2 log2(T) / T`, a quarter of it with the own
        SGD. A budget too small for the theorem doubles mu until it fits: `T > c J sqrt(M / mu)` with
        c = 4 for AC-SA and 2^(11/4) for AC-SA squared; the own SGD is held to the former.
    """

    inner: AcSa | None = None
    regularisation: float | None = None

    def faults(self) -> Iterator[str]:
        """Parameters that no run can take, and an inner solver that brings no stage."""
        yield from super().faults()
        if not isinstance(self.inner, AcSa | None):
            yield f"inner must be AcSa(), AcSa2() or None: got {self.inner!r}"

    @property
    def name(self) -> str:
        """Short name, as in `solver="..."`."""
        return "sgd3" if self.inner is None else f"sgd3+{self.inner.name}"

    @property
    def method(self) -> Method:
        """Which kernel takes the steps."""
        return "sgd" if self.inner is None else "acsa"

    def make_plan(self, n_updates: int, constants: Constants) -> Plan:
        """The stages."""
        mu = self.regularisation or self._theory_regularisation(n_updates, constants)
        return schedules.sgd3(self._stage(constants), n_updates, constants.smoothness, mu)

    def _stage(self, constants: Constants) -> Inner:
        if self.inner is None:
            return partial(schedules.strongly_convex_sgd, reach=constants.reach)
        return self.inner.make_stage

    def _theory_regularisation(self, n_updates: int, constants: Constants) -> float:
        mu = 16.0 * constants.variance * math.log2(n_updates + 1) / n_updates
        if self.inner is None:
            mu *= OWN_SGD_SHARE
        factor = AcSa.stage_budget if self.inner is None else self.inner.stage_budget
        while mu < constants.smoothness / 2.0:
            ratio = constants.smoothness / mu
            if n_updates >= factor * math.floor(math.log2(ratio)) * math.sqrt(ratio):
                return mu
            mu *= 2.0
        return constants.smoothness / 2.0
