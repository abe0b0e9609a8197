"""Plans of the stochastic solvers: which constants hold for how many updates.

A plan is a tuple of phases. A phase is cut into rounds of equal length (the last may be shorter); each
round starts at the output of the round before, with its clock at one. A phase may also anchor: it adds
`anchor / 2 |w - w_now|^2` to the objective for the rest of the plan, w_now the output so far.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from evenhand._utils.stored import Stored, is_count, is_finite
from evenhand._utils.typing import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class Phase(Stored):
    """Updates that share their constants."""

    n_updates: int
    period: int  # updates in a round
    constants: tuple[float, float]  # SGD: (step, decay); AC-SA: (smoothness M, strong convexity mu)
    anchor: float = 0.0  # mu_j of the regulariser that this phase adds

    def faults(self) -> Iterator[str]:
        """Updates, rounds of at least one, and three numbers."""
        if not is_count(self.n_updates, 1) or not is_count(self.period, 1):
            yield "its updates or its period are no counts"
        if type(self.constants) is not tuple or len(self.constants) != 2:
            yield "its constants are not two numbers"
        elif not all(map(is_finite, (*self.constants, self.anchor))):
            yield "its constants are not numbers"


Plan = tuple[Phase, ...]
Inner = Callable[[int, float, float], Plan]  # (n_updates, smoothness, convexity) -> phases


def averaged_sgd(n_updates: int, step: float, decay: float = 0.0) -> Plan:
    """Projected SGD with step `step * t ** -decay`, averaged over all its iterates."""
    return (Phase(n_updates, n_updates, (step, decay)),)


def strongly_convex_sgd(n_updates: int, smoothness: float, convexity: float, reach: float = 0.0) -> Plan:
    """Allen-Zhu's SGD for strongly convex F: equal rounds, then rounds with halved steps.

    With T updates: `floor(T mu / 8M)` rounds of `4M / mu` updates with step `1 / 2M`, then for
    k = 1, ..., `floor(log2(mu T / 16M))` one round of `2^(k+2) M / mu` updates with step `1 / (2^k M)`.
    What the roundings leave over goes to the last round.

    A budget that holds no such round (T < 8M / mu) is one round of averaged SGD. Its step is `1 / 2M`,
    or, where that is too short to get anywhere, `1 / (mu T)`, the step for bounded gradients, but at
    most `reach / sqrt(T)`: reach is the distance to cover over the size of a gradient.

    >>> [(p.n_updates, p.period, p.constants[0]) for p in strongly_convex_sgd(64, 1.0, 1.0)]
    [(32, 4, 0.5), (8, 8, 0.5), (24, 24, 0.25)]
    """
    condition = max(1.0, smoothness / convexity)
    n_equal = math.floor(n_updates / (8.0 * condition))
    if n_equal == 0:
        fast = min(reach / math.sqrt(n_updates), 1.0 / (convexity * n_updates))
        return averaged_sgd(n_updates, max(0.5 / smoothness, fast))
    period = math.floor(4.0 * condition)
    phases = [Phase(n_equal * period, period, (0.5 / smoothness, 0.0))]
    left = n_updates - n_equal * period
    n_halvings = max(1, math.floor(math.log2(n_updates / (16.0 * condition))))
    for k in range(1, n_halvings + 1):
        length = left if k == n_halvings else math.floor(2.0 ** (k + 2) * condition)
        phases.append(Phase(length, length, (1.0 / (2.0**k * smoothness), 0.0)))
        left -= length
    return tuple(phases)


def acsa(n_updates: int, smoothness: float, convexity: float) -> Plan:
    """One run of AC-SA (paper, appendix, Algorithm AC-SA)."""
    return (Phase(n_updates, n_updates, (smoothness, convexity)),)


def acsa_squared(n_updates: int, smoothness: float, convexity: float) -> Plan:
    """Two runs of AC-SA, each on half of the budget (paper, appendix, Algorithm AC-SA squared)."""
    return (Phase(n_updates, max(1, -(-n_updates // 2)), (smoothness, convexity)),)


def anchored(plan: Plan, anchor: float) -> Plan:
    """The same plan on `F + anchor / 2 |w - w_now|^2`."""
    return (replace(plan[0], anchor=anchor), *plan[1:])


def sgd3(inner: Inner, n_updates: int, smoothness: float, regularisation: float) -> Plan:
    """SGD3: stages of a strongly convex solver, each on a function twice as regular (Algorithm 4).

    `J = floor(log2(M / mu))` stages of T / J updates, the j-th on
    `F + sum_{i < j} mu_i / 2 |w - w_i|^2` with `mu_i = 2^i mu`, as a `2 (M + mu)`-smooth and
    mu_{j-1}-strongly convex function.
    """
    n_stages = max(1, math.floor(math.log2(smoothness / regularisation)))
    n_stages = min(n_stages, n_updates)
    bound = 2.0 * (smoothness + regularisation)
    plan: Plan = ()
    for stage in range(n_stages):
        length = n_updates * (stage + 1) // n_stages - n_updates * stage // n_stages
        convexity = regularisation * 2.0**stage
        plan += anchored(inner(length, bound, convexity), convexity)
    return plan


def plan_tables(plan: Plan) -> tuple[IntArray, FloatArray]:
    """A plan as the kernels read it: rows (n_updates, period) and (anchor, constants)."""
    lengths = np.array([(phase.n_updates, phase.period) for phase in plan], dtype=np.int64)
    constants = np.array([(phase.anchor, *phase.constants) for phase in plan], dtype=np.float64)
    return lengths, constants
