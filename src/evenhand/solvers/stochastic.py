"""What the paper's stochastic solvers share: rows, budget, state, and the compiled step.

They run on its form (`evenhand.dual.forms`): the paper's `(Lambda, V) >= 0` where the constraint is a
sup-norm, Phi with a prox where it is an l1 norm. One step of a solver is one chunk of rows and one
compiled call. All that a run knows is in its state, O(n_constraints * n_groups) numbers that do not
depend on the number of stored rows: cut a run anywhere, pickle it, go on, and the bits are the same.
"""

import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from evenhand._kernels import stochastic as kernels
from evenhand._kernels.softmax import LOG_2
from evenhand._utils.stored import Stored, is_count, is_moderate
from evenhand._utils.typing import FloatArray, IntArray
from evenhand.dual.forms import form_of, merge
from evenhand.dual.grid import paper_beta
from evenhand.dual.parity import Cumulative, Functional, Identity, Operator, matrix
from evenhand.dual.problem import DualProblem
from evenhand.dual.projected import gradient_variance, imbalance_spread
from evenhand.dual.rows import stored_rows
from evenhand.solvers.base import Solver
from evenhand.solvers.result import Status
from evenhand.solvers.schedules import Phase, Plan, plan_tables

Sampling = Literal["passes", "replacement"]
Method = Literal["sgd", "acsa"]
RandomState = int | np.random.Generator | np.random.RandomState | None

MIN_BUDGET, DEFAULT_PASSES = 100_000, 2  # the least takes a tenth of a second at 57 atoms
DEFAULT_CHUNKS = 50  # steps of a run, so callbacks, when the chunk size is left open
MIN_CHUNK = 1_000
DRAW_BLOCK = 4_096  # rows drawn with replacement come in blocks with a seed each


@dataclass(frozen=True, slots=True)
class Constants:
    """What the theory asks of a problem."""

    smoothness: float  # M
    variance: float  # sigma^2, of the gradient of a row or of a mini-batch
    radius: float  # D, how far the multipliers may have to go

    @property
    def reach(self) -> float:
        """D / sigma: SGD on bounded gradients takes steps of `reach / sqrt(T)`."""
        return self.radius / math.sqrt(self.variance)

    @classmethod
    def of(cls, problem: DualProblem, bound: float | None = None, batch_size: int = 1) -> "Constants":
        """Constants of `problem`; `bound` replaces the M of Lemma 3.4.

        The radius is a guess that no lemma gives: multipliers that tilt the cost of an atom by the
        width of the outcomes, 2 in normalised units.
        """
        spread = imbalance_spread(problem) or 1.0  # zero when no row tells the groups apart
        variance = gradient_variance(problem) or 1.0
        return cls(
            smoothness=bound or form_of(problem).smoothness(problem) or 1.0,
            variance=variance / batch_size,
            radius=2.0 * math.sqrt(spread / variance),
        )


@dataclass(frozen=True, slots=True, eq=False)
class StochasticState(Stored):
    """A run of a stochastic solver between two rows; arrays have shape (n_signs, n_groups, n_constraints)."""

    plan: Plan
    budget: int  # rows seen when the plan ends
    seed: int
    iterate: FloatArray  # w_t
    output: FloatArray  # mean of the round's iterates (SGD), or w_ag (AC-SA)
    centre: FloatArray  # c: the regularisers sum to mu w - c in the gradient
    gradient: FloatArray  # sum over the rows of an unfinished batch, (n_groups, n_constraints)
    regularisation: float = 0.0  # mu, the sum of the regularisers so far
    cursor: tuple[int, int, int] = (0, 0, 0)  # phase, updates done in it, rows of the batch
    n_iter: int = 0  # updates
    n_gradient_rows: int = 0
    last_answer: FloatArray | None = None  # of the plan before, where a stream outlasted it

    def faults(self) -> Iterator[str]:
        """Arrays of one shape, and a cursor inside a plan of phases."""
        shape: tuple[int, ...] = getattr(self.iterate, "shape", ())
        points = [self.iterate, self.output, self.centre]
        if self.last_answer is not None:
            points.append(self.last_answer)
        alike = all(is_moderate(point, *shape) for point in points)
        if len(shape) != 3 or shape[0] not in (1, 2) or not alike:
            yield "its points do not have the same shape"
        elif not is_moderate(self.gradient, *shape[1:]) or not is_moderate(self.regularisation):
            yield "its gradient does not have the shape of its points"
        if type(self.plan) is not tuple or not all(isinstance(phase, Phase) for phase in self.plan):
            yield "its plan is not made of phases"
        counts = self.budget, self.n_gradient_rows, self.n_iter
        if not all(is_count(count) for count in counts) or self.n_gradient_rows > self.budget:
            yield "its counts of rows do not agree"
        if type(self.cursor) is not tuple or len(self.cursor) != 3 or not all(map(is_count, self.cursor)):
            yield "its cursor is not three counts"
        elif self.n_gradient_rows < self.budget and self.cursor[0] >= len(self.plan):
            yield "its cursor is beyond its plan"

    def outlasts_plan(self, batch_size: int) -> bool:
        """Whether the rest of the plan has fewer updates than the rows to come ask for."""
        n_rows = self.budget - self.n_gradient_rows
        if not n_rows:
            return False
        phase, update, pending = self.cursor
        n_updates = sum(phase.n_updates for phase in self.plan[phase:]) - update
        return update >= self.plan[phase].n_updates or -(-(n_rows + pending) // batch_size) > n_updates

    @property
    def pair(self) -> FloatArray:
        """The answer as a point of its form: (Lambda, V) or (Phi,), (n_signs, n_constraints, n_groups).

        While a plan after the first is under way, the answer of the plan before it: the first rows of
        a plan shake the output up.
        """
        answer = self.output
        if self.last_answer is not None and self.n_gradient_rows < self.budget:
            answer = self.last_answer
        return np.ascontiguousarray(answer.transpose(0, 2, 1))

    @property
    def multipliers(self) -> FloatArray:
        """Phi of the answer."""
        return merge(self.pair)


@dataclass(frozen=True, kw_only=True)
class StochasticSolver(Solver[StochasticState]):
    """A stochastic solver; the classes below it bring the plan.

    Parameters
    ----------
    n_steps : int or None
        Budget, in single-row gradients; all of it is used and none beyond. None: the larger of
        100 000 and two passes over the stored rows.
    smoothness : float or None
        M, the Lipschitz constant of the gradient. None: the bound of Lemma 3.4.
    batch_size : int
        Rows averaged in one update; they count one by one.
    sampling : {"passes", "replacement"}
        "passes" takes the stored rows in a fresh order for each pass; "replacement" draws each row
        anew. Both take rows in proportion to the problem's weights.
    random_state : int, Generator, RandomState or None
        Seed of the order of the rows.
    chunk_size : int or None
        Rows in one step of the solver, between two callbacks. None: a fiftieth of the budget. The
        result does not depend on it.
    """

    n_steps: int | None = None
    smoothness: float | None = None
    batch_size: int = 1
    sampling: Sampling = "passes"
    random_state: RandomState = None
    chunk_size: int | None = None

    def faults(self) -> Iterator[str]:
        """Parameters that no run can take."""
        for name in ("n_steps", "batch_size", "chunk_size"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int | np.integer) or value < 1):
                yield f"{name} must be a positive integer: got {value!r}"
        for name in ("smoothness", "regularisation", "step_size"):
            number = getattr(self, name, None)
            if number is not None and not (0.0 < number < np.inf):
                yield f"{name} must be a positive number: got {number!r}"
        if self.sampling not in ("passes", "replacement"):
            yield f"sampling must be 'passes' or 'replacement': got {self.sampling!r}"

    def default_beta(self, n_rows: int) -> float:
        """The paper's: what a gradient step may be is at most one over beta."""
        return paper_beta(n_rows)

    @property
    def method(self) -> Method:
        """Which kernel takes the steps."""
        return "sgd"

    @abstractmethod
    def make_plan(self, n_updates: int, constants: Constants) -> Plan:
        """Phases of a run.

        Parameters
        ----------
        n_updates : int
            Steps of the run, each on a mini-batch of `batch_size` rows.
        constants : Constants
            What the theory asks of the problem: smoothness, variance and radius.
        """

    def init(self, problem: DualProblem, start: FloatArray | None = None) -> StochasticState:
        """State before the first row; `start` is a warm start for Phi."""
        for fault in self.faults():
            raise ValueError(f"{fault}.")
        budget = self.n_steps or max(MIN_BUDGET, DEFAULT_PASSES * problem.n_rows)
        if start is None:
            start = np.zeros(problem.multipliers_shape)
        output = np.ascontiguousarray(form_of(problem).split(start).transpose(0, 2, 1))
        return StochasticState(
            plan=self._plan_for(problem, budget),
            budget=budget,
            seed=_draw_seed(self.random_state),
            iterate=output.copy(),
            output=output,
            centre=np.zeros_like(output),
            gradient=np.zeros(output.shape[1:]),
        )

    def step(self, problem: DualProblem, state: StochasticState) -> StochasticState:
        """State after one more chunk of the stored rows."""
        size = self.chunk_size or max(MIN_CHUNK, state.budget // DEFAULT_CHUNKS)
        size = min(size, state.budget - state.n_gradient_rows)
        rows = draw_rows(problem, state.seed, state.n_gradient_rows, size, self.sampling)
        design = stored_rows(problem.rows, self.name).design[:, rows]
        return self._advance(problem, state, design, np.ones(size))

    def done(self, problem: DualProblem, state: StochasticState) -> Status | None:
        """Stop when the budget is spent."""
        return Status.BUDGET_SPENT if state.n_gradient_rows >= state.budget else None

    def point(self, problem: DualProblem, state: StochasticState) -> FloatArray:
        """The answer as a point of the problem's form."""
        return state.pair

    def feed(self, problem: DualProblem, state: StochasticState) -> StochasticState:
        """State after the rows of `problem`, fresh ones, each once and in order.

        Weights that differ scale the gradients of their rows. A stream has no end that the plan could
        know: when the plan is spent, a new one starts at its answer, as long as all rows so far.
        """
        n_rows, rows = problem.n_rows, stored_rows(problem.rows, self.name)
        factors = np.ones(n_rows) if _are_equal(rows.weights) else rows.weights * n_rows
        first = 0
        while first < n_rows:
            # the compiled loops trust a plan to last, and this may be another solver than the one it is of
            if self.done(problem, state) is not None or state.outlasts_plan(self.batch_size):
                state = self._begin_again(problem, state)
            last = min(n_rows, first + state.budget - state.n_gradient_rows)
            state = self._advance(problem, state, rows.design[:, first:last], factors[first:last])
            first = last
        return state

    def _begin_again(self, problem: DualProblem, state: StochasticState) -> StochasticState:
        return replace(
            state,
            plan=self._plan_for(problem, state.n_gradient_rows),
            budget=2 * state.n_gradient_rows,
            centre=np.zeros_like(state.centre),
            regularisation=0.0,
            cursor=(0, 0, 0),
            last_answer=state.output,
        )

    def _plan_for(self, problem: DualProblem, n_rows: int) -> Plan:
        constants = Constants.of(problem, self.smoothness, self.batch_size)
        return self.make_plan(-(-n_rows // self.batch_size), constants)

    def _advance(
        self, problem: DualProblem, state: StochasticState, design: FloatArray, factors: FloatArray
    ) -> StochasticState:
        """Take the rows of `design` in order, in one compiled call on copies of the state's arrays."""
        run = kernels.sgd_steps_into if self.method == "sgd" else kernels.acsa_steps_into
        n_seen = state.n_gradient_rows + design.shape[1]
        arrays = [state.iterate.copy(), state.output.copy(), state.centre.copy(), state.gradient.copy()]
        lengths, constants = plan_tables(state.plan)
        cursor, regularisation = run(
            *arrays,
            state.cursor,
            state.regularisation,
            np.ascontiguousarray(design, dtype=np.float64),
            factors,
            kernel_model(problem),
            np.ascontiguousarray(form_of(problem).tolerance(problem)),
            self.batch_size,
            n_seen == state.budget,
            lengths,
            constants,
        )
        iterate, output, centre, gradient = arrays
        n_updates = _updates_before(cursor, lengths) - _updates_before(state.cursor, lengths)
        return replace(
            state,
            iterate=iterate,
            output=output,
            centre=centre,
            gradient=gradient,
            regularisation=float(regularisation),
            cursor=cursor,
            n_iter=state.n_iter + n_updates,
            n_gradient_rows=n_seen,
        )


def _updates_before(cursor: tuple[int, int, int], lengths: IntArray) -> int:
    return int(lengths[: cursor[0], 0].sum()) + int(cursor[1])


def _draw_seed(random_state: RandomState) -> int:
    """An integer that fixes the order of the rows."""
    if random_state is None:
        return int(np.random.default_rng().integers(2**31))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    return int(random_state)


def draw_rows(problem: DualProblem, seed: int, start: int, size: int, sampling: Sampling) -> IntArray:
    """Rows number `start : start + size` of the endless sequence that `seed` stands for.

    The sequence comes in blocks, each with a seed of its own, so any part of it can be had by itself.
    """
    length = problem.n_rows if sampling == "passes" else DRAW_BLOCK
    blocks = range(start // length, -(-(start + size) // length))
    draw = _one_pass if sampling == "passes" else _one_block
    weights = stored_rows(problem.rows, "A stochastic solver").weights
    rows = np.concatenate([draw(weights, np.random.default_rng([seed, i])) for i in blocks])
    first = start - blocks.start * length
    return rows[first : first + size]


def _are_equal(weights: FloatArray) -> bool:
    """Whether all weights are the same, up to rounding."""
    return bool(np.ptp(weights) <= 1e-12 * weights.max())


def _one_pass(weights: FloatArray, random: np.random.Generator) -> IntArray:
    """As many rows as there are, shuffled: row i appears `n w_i` times, rounded at random.

    Equal weights give each row once. Otherwise a comb of n teeth with a random start falls on the
    cumulated weights (systematic sampling), so every pass is as balanced as whole rows allow.
    """
    n_rows = len(weights)
    if _are_equal(weights):
        return random.permutation(n_rows)
    edges = np.cumsum(weights)
    teeth = (np.arange(n_rows) + random.random()) * (edges[-1] / n_rows)
    rows = np.minimum(np.searchsorted(edges, teeth, side="right"), n_rows - 1)
    return random.permutation(rows)


def _one_block(weights: FloatArray, random: np.random.Generator) -> IntArray:
    """`DRAW_BLOCK` rows drawn with replacement, in proportion to the weights."""
    n_rows = len(weights)
    if _are_equal(weights):
        return random.integers(n_rows, size=DRAW_BLOCK)
    edges = np.cumsum(weights)
    drawn = np.searchsorted(edges, random.random(DRAW_BLOCK) * edges[-1], side="right")
    rows: IntArray = np.minimum(drawn, n_rows - 1)
    return rows


def kernel_model(problem: DualProblem) -> tuple[Any, ...]:
    """What the kernels know of a problem, apart from its rows; logits are in units of log 2."""
    scale = problem.temperature / LOG_2
    code, scales = _operator_code(problem.parity.operator)
    loadings = np.ascontiguousarray(problem.cost.loadings.T * scale)
    mixing = np.ascontiguousarray(problem.mixing)
    return mixing, loadings, problem.cost.offset * scale, scale, code, np.ascontiguousarray(scales)


def _operator_code(operator: Operator) -> tuple[int, FloatArray]:
    if isinstance(operator, Identity):
        return kernels.IDENTITY, np.ones(1)
    if isinstance(operator, Cumulative):
        return kernels.CUMULATIVE, operator.scales
    if isinstance(operator, Functional):
        return kernels.FUNCTIONAL, operator.weights
    return kernels.DENSE, matrix(operator).ravel()
