"""The optimisers as the published code runs them, with each departure from the paper as a switch.

They are for the reproduction alone: `evenhand.solvers` has them as the paper's appendix prints them. These
are the formulas that the published figures were made with, written anew.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numba import njit

from evenhand._utils.typing import FloatArray, IntArray
from reproduction.parity_step import PaperStep
from reproduction.rows import PaperRows

SOLVERS = ("sgd", "acsa", "acsa2", "sgd3+acsa", "sgd3+acsa2")  # those of the paper's figure
Seed = int | tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Variant:
    """A solver by the formulas of the published code; a switch that is on puts one of them right.

    With `sigma^2 = sum_s (1 - p_s) / p_s`, `M = 2 beta sigma^2` and `mu = M / T` the code has SGD with step
    `1 / M` and its last iterate as the answer; AC-SA with this mu, though nothing makes F strongly convex;
    AC-SA squared as two runs of T updates; and SGD3 as `J = floor(log2(M / mu + 1))` stages of `floor(T / J)`
    updates, each from zero, the j-th on `F + sum_{1 <= i < j} mu_i / 2 |w - w_i|^2` with `mu_i = 2^i mu`, as
    an (M + mu)-smooth function. Rows are drawn one by one, with replacement.
    """

    solver: str = "sgd3+acsa2"  # one of `SOLVERS`
    first_regulariser: bool = False  # SGD3 adds `mu / 2 |w - w_0|^2`, which the code multiplies by zero
    theory_mu: bool = False  # `mu = 2 sigma^2 / beta`, as in the proof of Theorem 5.1
    carry_on: bool = False  # a stage starts at the answer of the one before
    late_step: bool = False  # AC-SA's alpha is `2 / (t + 1)`, where the code has `2 / t`
    stage_bound: bool = False  # a stage is taken as `2 (M + mu)`-smooth
    passes: bool = False  # each row comes once before any comes again
    once: bool = False  # the two runs of AC-SA squared share T
    tau_prior: bool = False  # shares of groups from their probabilities, where the code has labels

    def step(self, rows: PaperRows, epsilon: float) -> PaperStep:
        """The parity step that it solves."""
        return PaperStep.of(rows, epsilon, prior="tau" if self.tau_prior else "labels")

    def solve(self, step: PaperStep, budget: int, seed: Seed) -> "Answer":
        """Run on the rows of a step of pmf parity; T is `budget`."""
        run = _Run.of(step, self, budget, seed)
        start = np.zeros((2, len(step.step.group_prior), step.problem.n_atoms))
        if self.solver == "sgd":
            found = run.descend(start)
        elif self.solver.startswith("sgd3+"):
            found = run.solve_stages(start)
        else:
            found = run.solve_stage(start, budget, run.smoothness, run.mu, (0.0, start))
        return Answer(np.ascontiguousarray((found[0] - found[1]).T), run.n_gradients)


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """What a run ends with."""

    multipliers: FloatArray  # Phi, (n_atoms, n_groups)
    n_gradients: int  # of single rows


SWITCHES = tuple(each.name for each in fields(Variant) if each.name != "solver")


def ablations() -> Iterator[tuple[str, Variant]]:
    """The published SGD3, then with each formula alone put right, then with all of them.

    >>> [name for name, _ in ablations()][:3]
    ['published', 'first_regulariser', 'theory_mu']
    """
    yield "published", Variant()
    for name in SWITCHES:
        yield name, _put_right(name)
    yield "all", _put_right(*SWITCHES)


def _put_right(*names: str) -> Variant:
    changes: dict[str, Any] = dict.fromkeys(names, True)
    return replace(Variant(), **changes)


@dataclass(slots=True, eq=False)
class _Run:
    """Rows and constants of a run, its random numbers, and the count of its gradients."""

    variant: Variant
    rows: tuple[FloatArray, FloatArray]  # costs (n, n_atoms) and imbalances (n, n_groups)
    epsilon: FloatArray
    beta: float
    budget: int  # T
    smoothness: float  # M
    mu: float
    random: np.random.Generator
    n_gradients: int = 0
    pass_left: IntArray = field(default_factory=lambda: np.empty(0, np.int64))

    @classmethod
    def of(cls, step: PaperStep, variant: Variant, budget: int, seed: Seed) -> "_Run":
        problem, prior = step.problem, step.step.group_prior
        variance = float(np.sum((1.0 - prior) / prior))  # sigma^2
        smoothness = 2.0 * problem.temperature * variance
        return cls(
            variant,
            (problem.costs(), problem.imbalance()),
            problem.slack,
            problem.temperature,
            budget,
            smoothness,
            2.0 * variance / problem.temperature if variant.theory_mu else smoothness / budget,
            np.random.default_rng(seed),
        )

    def draw(self, size: int) -> IntArray:
        """The next rows."""
        self.n_gradients += size
        n_rows = len(self.rows[0])
        if not self.variant.passes:
            return self.random.integers(n_rows, size=size)
        while len(self.pass_left) < size:
            self.pass_left = np.append(self.pass_left, self.random.permutation(n_rows))
        drawn, self.pass_left = self.pass_left[:size], self.pass_left[size:]
        return drawn

    def descend(self, w: FloatArray) -> FloatArray:
        """SGD; the mean that the code takes is of one array that it changes in place, so the last iterate."""
        step = 1.0 / self.smoothness
        sgd_steps_into(w, self.draw(self.budget), *self.rows, self.beta, self.epsilon, step)
        return w

    def solve_stages(self, start: FloatArray) -> FloatArray:
        """SGD3."""
        bound, mu = self.smoothness + self.mu, self.mu
        n_stages = math.floor(math.log2(bound / mu))
        total, centre = 0.0, np.zeros_like(start)  # of the regularisers: `sum_i mu_i (w - w_i) = mu w - c`
        if self.variant.first_regulariser:
            total, centre = mu, mu * start
        found, smoothness = start, 2.0 * bound if self.variant.stage_bound else bound
        for _ in range(n_stages):
            begin = found if self.variant.carry_on else start
            found = self.solve_stage(begin, self.budget // n_stages, smoothness, mu, (total, centre))
            mu *= 2.0
            total, centre = total + mu, centre + mu * found
        return found

    def solve_stage(
        self,
        start: FloatArray,
        size: int,
        smoothness: float,
        mu: float,
        regularisers: tuple[float, FloatArray],
    ) -> FloatArray:
        """AC-SA from a point, once or twice."""
        lengths = [size]
        if self.variant.solver.endswith("acsa2"):
            lengths = [size // 2 if self.variant.once else size] * 2
        found = start.copy()
        for length in lengths:
            acsa_steps_into(
                found.copy(),
                found,
                self.draw(length),
                *self.rows,
                self.beta,
                self.epsilon,
                (smoothness, mu, float(self.variant.late_step)),
                *regularisers,
            )
        return found


@njit(cache=True, nogil=True)
def _policy_into(policy, point, row, costs, imbalance, beta):  # type: ignore[no-untyped-def]
    """`softmax_l(beta (<lambda_l - nu_l, t> - r_l))` of one row."""
    n_groups, n_atoms = point.shape[1:]
    for atom in range(n_atoms):
        exponent = -costs[row, atom]
        for group in range(n_groups):
            exponent += imbalance[row, group] * (point[0, group, atom] - point[1, group, atom])
        policy[atom] = beta * exponent
    policy -= policy.max()
    total = 0.0
    for atom in range(n_atoms):
        policy[atom] = math.exp(policy[atom])
        total += policy[atom]
    policy /= total


@njit(cache=True, nogil=True)
def sgd_steps_into(w, draws, costs, imbalance, beta, epsilon, step):  # type: ignore[no-untyped-def]
    """One projected step for each drawn row; `w` is (Lambda, V), (2, n_groups, n_atoms)."""
    policy = np.empty(w.shape[2])
    for row in draws:
        _policy_into(policy, w, row, costs, imbalance, beta)
        for group in range(w.shape[1]):
            for atom in range(w.shape[2]):
                slope = imbalance[row, group] * policy[atom]
                w[0, group, atom] = max(w[0, group, atom] - step * (slope + epsilon[group]), 0.0)
                w[1, group, atom] = max(w[1, group, atom] - step * (epsilon[group] - slope), 0.0)


@njit(cache=True, nogil=True)
def acsa_steps_into(  # type: ignore[no-untyped-def]
    w, mean, draws, costs, imbalance, beta, epsilon, constants, total, centre
):
    """AC-SA on `F + total / 2 |w|^2 - <centre, w>`; `mean` starts and ends as w_ag, `w` as w_0 and w_T."""
    smoothness, mu, shift = constants
    policy, middle = np.empty(w.shape[2]), np.empty_like(w)
    for place in range(len(draws)):
        t, row = place + 1, draws[place]
        alpha, gamma = 2.0 / (t + shift), 4.0 * smoothness / (t * (t + 1))
        below = gamma + (1.0 - alpha**2) * mu
        middle[:] = (1.0 - alpha) * (mu + gamma) / below * mean
        middle += alpha * ((1.0 - alpha) * mu + gamma) / below * w
        _policy_into(policy, middle, row, costs, imbalance, beta)
        for sign in range(2):
            for group in range(w.shape[1]):
                for atom in range(w.shape[2]):
                    at = middle[sign, group, atom]
                    slope = (1 - 2 * sign) * imbalance[row, group] * policy[atom] + epsilon[group]
                    slope += total * at - centre[sign, group, atom]
                    kept = ((1.0 - alpha) * mu + gamma) * w[sign, group, atom] + alpha * mu * at
                    w[sign, group, atom] = max((kept - alpha * slope) / (mu + gamma), 0.0)
        mean *= 1.0 - alpha
        mean += alpha * w
