"""The model that one proximal Newton step minimises: a quadratic and the dual norms.

    min_x  1/2 x^T H x + c^T x + sum_s epsilon_s * dualnorm(x_s)

`solve_model` is registered for each norm; a new norm of `parity.py` adds its own. Constraints and groups lie
as in Phi, (n_constraints, n_groups), and H is over Phi raveled.
"""

from abc import ABC, abstractmethod
from functools import singledispatch
from typing import ClassVar

import numpy as np

from evenhand._utils.typing import BoolArray, FloatArray, IntArray
from evenhand.dual.band import Band
from evenhand.dual.dense import Dense
from evenhand.dual.parity import L1Norm, Norm, SupNorm
from evenhand.solvers.faces import PartialSolver
from evenhand.solvers.interior import AbsoluteState, HeightState, Inside

_FACE_STEPS = 15
_LENGTHS = (1.0, 0.5, 0.25, 0.1, 0.03, 0.01)  # of a step within a face
_LARGE, _MOST_FACTORS = 1000, 3  # of a large face: the next Newton step is then the better way
_GUESSES = 15
_FEW_ROWS = 0.03  # of the entries: of fewer their rows of H are read one by one
_FEW_MOVED = 0.2  # of the entries: of fewer that changed their place the rows of H are added up
_INTERIOR_STEPS = 50
_RELATIVE_GAP = 1e-10
_CROSSINGS = (1e-3, 1e-6)  # relative gaps at which the interior point asks the active set again
_FIRST_SIZE = 0.1  # costs are of order one, and so are the multipliers worth starting from
_SETTLED = 1e-9  # of the slopes: an entry that wants less does not move
_TINY = 1e-300


@singledispatch
def solve_model(
    norm: Norm,
    hessian: Band | Dense,
    linear: FloatArray,
    start: FloatArray,
    slack: FloatArray,
    places: IntArray,
) -> FloatArray:
    """Minimiser of the model over some places of Phi raveled; the others stay as they are.

    `hessian` is positive definite, `slack` is that of each group; of a norm that looks at a group as a whole
    all places of it are there, or none.
    """
    raise TypeError(f"No step is known for the norm {type(norm).__name__}: register one with solve_model.")


@solve_model.register
def _(
    norm: SupNorm,
    hessian: Band | Dense,
    linear: FloatArray,
    start: FloatArray,
    slack: FloatArray,
    places: IntArray,
) -> FloatArray:
    """Sums of absolute values."""
    return AbsoluteModel(hessian, linear, slack[places % len(slack)]).solve(start)


@solve_model.register
def _(
    norm: L1Norm,
    hessian: Band | Dense,
    linear: FloatArray,
    start: FloatArray,
    slack: FloatArray,
    places: IntArray,
) -> FloatArray:
    """Largest absolute values, one for each group."""
    return HeightModel(hessian, linear, norm.radius(slack)[np.unique(places % len(slack))]).solve(start)


class _Model(ABC):
    """A quadratic and a price on x, which takes two ways to its minimiser.

    The active set needs one to three factorisations where it starts well. Where it does not, the interior
    point takes over, which needs no luck, but some twenty of them: a large model ends below its start.
    """

    interior: ClassVar[type[Inside]]  # the states of its interior point

    def __init__(self, hessian: Band | Dense, linear: FloatArray, slack: FloatArray) -> None:
        self.hessian, self.linear, self.slack = hessian, linear, slack
        self.faces = PartialSolver(hessian)

    @abstractmethod
    def by_active_set(self, start: FloatArray) -> tuple[FloatArray, bool]:
        """Where the faces that it tries end, not above the start, and whether that is the minimiser."""

    def solve(self, start: FloatArray) -> FloatArray:
        """The minimiser; of a large model perhaps a point on the way to it, or `start` if none was found."""
        found, is_lowest = self.by_active_set(start)
        return found if is_lowest or len(start) > _LARGE else self.by_interior_point(start)

    def by_interior_point(self, start: FloatArray) -> FloatArray:
        """The minimiser, by Mehrotra's method; once close, the active set is asked again."""
        state = self.interior.at(start, self.slack, max(float(np.abs(start).max()), _FIRST_SIZE))
        first_gap = max(state.gap, _TINY)
        crossings = list(_CROSSINGS)
        for _ in range(_INTERIOR_STEPS):
            relative_gap = state.gap / first_gap
            if relative_gap < _RELATIVE_GAP:
                break
            if crossings and relative_gap < crossings[0]:
                del crossings[0]
                found, is_lowest = self.by_active_set(state.rounded(self.slack))
                if is_lowest:
                    return found
            try:
                state = state.step(self.hessian, self.linear, self.slack)
            except np.linalg.LinAlgError:  # the scaling has outgrown the floats: as close as it gets
                break
        return state.rounded(self.slack)


class AbsoluteModel(_Model):
    """`1/2 x^T H x + c^T x + sum_j e_j |x_j|`.

    Newton's step on the face that x and the slope at it span, where every entry has a sign or stays zero.
    Entries that would change their sign end at zero, and the others move as is best then. From one minimiser
    to the next it mostly takes one to three such steps, each of one or two factorisations. From a point that
    is good for other rows it may take hundreds, each of which binds or frees one entry.
    """

    interior = AbsoluteState

    def by_active_set(self, start: FloatArray) -> tuple[FloatArray, bool]:
        """The minimiser, or a point below `start` on the way to it, or `start` if floats know none."""
        x, settled = start, np.full(len(start), np.nan)
        for _ in range(_FACE_STEPS):
            if len(self.faces.base) > _LARGE and self.faces.n_factors > _MOST_FACTORS:
                break
            slope = self.hessian @ x + self.linear
            signs = self._face(x, slope)
            if np.array_equal(signs, settled):
                return x, True
            try:
                lower, is_whole = self._lower_point(x, signs, slope)
            except np.linalg.LinAlgError:  # not positive definite in floats
                break
            if lower is None:
                break
            x = lower
            settled = np.where(self.slack > 0.0, np.sign(x), 1.0) if is_whole else settled
        return x, self._is_lowest(x)

    def _is_lowest(self, x: FloatArray) -> bool:
        """Whether no entry of x wants to move."""
        slope = self.hessian @ x + self.linear
        wanted = np.where(
            (x == 0.0) & (self.slack > 0.0),
            np.maximum(np.abs(slope) - self.slack, 0.0),
            slope + self.slack * np.sign(x),
        )
        return bool(np.abs(wanted).max() <= _SETTLED * np.abs(self.linear).max())

    def _face(self, x: FloatArray, slope: FloatArray) -> FloatArray:
        """Signs of the entries that may move; those without a price move freely, and count as positive."""
        idle = np.where(np.abs(slope) > self.slack, -np.sign(slope), 0.0)
        return np.where(self.slack > 0.0, np.where(x != 0.0, np.sign(x), idle), 1.0)

    def _crosses(self, there: FloatArray, signs: FloatArray) -> BoolArray:
        """Entries of another sign than their face's."""
        return (there * signs < 0.0) & (self.slack > 0.0)

    def _lower_point(
        self, x: FloatArray, signs: FloatArray, slope: FloatArray
    ) -> tuple[FloatArray | None, bool]:
        """A point below x on the face, if there is one, and whether it is the face's lowest."""
        right = -(slope + self.slack * signs)
        for way in (self._without_crossing, self._without_blocked):  # the bold one first
            move = way(x, signs, right)
            for length in _LENGTHS:
                there, change = self._along(x, slope, length * move, signs)
                if change < 0.0:
                    return there, length == 1.0 and np.array_equal(there, x + move)
        there, change = self._along(x, slope, self._to_first_crossing(x, move, signs) * move, signs)
        return (there, False) if change < 0.0 else (None, False)

    def _along(
        self, x: FloatArray, slope: FloatArray, move: FloatArray, signs: FloatArray
    ) -> tuple[FloatArray, float]:
        """Where a move ends with entries that cross held at zero, and how much the model changes."""
        there = x + move
        there[self._crosses(there, signs)] = 0.0
        step = there - x
        change = float(step @ (slope + 0.5 * (self.hessian @ step)))
        return there, change + float(self.slack @ (np.abs(there) - np.abs(x)))

    def _to_first_crossing(self, x: FloatArray, move: FloatArray, signs: FloatArray) -> float:
        """How far the move goes before an entry crosses: as far as that, it goes down."""
        crosses = self._crosses(x + move, signs)
        return float(np.abs(x[crosses] / move[crosses]).min(initial=1.0))

    def _without_crossing(self, x: FloatArray, signs: FloatArray, right: FloatArray) -> FloatArray:
        """The move where entries that would cross end at zero, and the others do what is best then."""
        free = signs != 0.0
        move = self.faces.solve(free, right)
        while (crosses := free & self._crosses(x + move, signs)).any():
            free &= ~crosses
            to_zero = np.where(free, 0.0, -x)
            move = to_zero + self.faces.solve(free, right - self.hessian @ to_zero)
        return move

    def _without_blocked(self, x: FloatArray, signs: FloatArray, right: FloatArray) -> FloatArray:
        """The move without entries that stand at zero and would leave their face: it goes down at first."""
        free = signs != 0.0
        while True:
            move = self.faces.solve(free, right)
            blocked = free & (x == 0.0) & self._crosses(move, signs)
            if not blocked.any():
                return move
            free &= ~blocked


_OFF = 2.0  # beside the signs +1 and -1 of entries at the height of their group, and 0 of free ones


class HeightModel(_Model):
    """`1/2 x^T H x + c^T x + sum_s e_s max_j |x_js|`, one e_s for each of the groups that take turns in x.

    A guess says which entries are at the height of their group, with which sign; a group may be off. A group
    without a price e_s is free. The minimiser of a guess is one linear solve and mostly right after three to
    six, but guesses can go in circles, or ever farther away.
    """

    interior = HeightState

    def __init__(self, hessian: Band | Dense, linear: FloatArray, slack: FloatArray) -> None:
        super().__init__(hessian, linear, slack)
        self.signs = np.zeros(len(linear))  # of the entries at a height in the last guess, and H S of them
        self.pull = np.zeros((len(linear), len(slack)))

    def by_active_set(self, start: FloatArray) -> tuple[FloatArray, bool]:
        """The minimiser; else the lowest of the guesses, cut off at their heights, and of `start`."""
        x, heights, product = start, self._heights(start), self.hessian @ start
        lowest, least = start, self._value(x, product)
        tried: list[FloatArray] = []
        changes: list[int] = []  # of entries, from guess to guess
        for _ in range(_GUESSES):
            places = self._guess(x, heights, product)
            if tried:
                changes.append(int((places != tried[-1]).sum()))
            if changes and not changes[-1]:
                return x, True
            if len(changes) > 3 and changes[-1] > changes[-3]:
                break
            if any(np.array_equal(places, before) for before in tried):
                break
            tried.append(places)
            try:
                x, heights = self._solve_at(places)
            except np.linalg.LinAlgError:  # not positive definite in floats
                break
            product = self.hessian @ x
            inside = self._cut_off(x, heights)
            if (value := self._value(inside, self._product_near(inside, x, product))) < least:
                lowest, least = inside, value
        return lowest, False

    def _value(self, x: FloatArray, product: FloatArray) -> float:
        """Of the model, from `H x`."""
        return float(x @ (0.5 * product + self.linear) + self.slack @ self._heights(x))

    def _product_near(self, x: FloatArray, other: FloatArray, product: FloatArray) -> FloatArray:
        """`H x` from that of a point that differs in few entries."""
        moved = np.flatnonzero(x != other)
        if len(moved) > _FEW_ROWS * len(x):
            return self.hessian @ x
        rows = self.hessian.between(moved, np.arange(len(x)))
        return product + (x - other)[moved] @ rows

    def _cut_off(self, x: FloatArray, heights: FloatArray) -> FloatArray:
        """The nearest point within these heights."""
        ends = np.where(self.slack > 0.0, np.maximum(heights, 0.0), np.inf)
        return np.clip(self._by_group(x), -ends, ends).ravel()

    def _heights(self, x: FloatArray) -> FloatArray:
        heights: FloatArray = np.abs(self._by_group(x)).max(axis=0)
        return heights

    def _by_group(self, x: FloatArray) -> FloatArray:
        return x.reshape(-1, len(self.slack))

    def _guess(self, x: FloatArray, heights: FloatArray, product: FloatArray) -> FloatArray:
        """An entry is at the height where the step that it would like to take ends above it.

        A group is off (all zero) after a height below zero, and comes back when its slopes are worth more
        than its price.
        """
        curvature = np.maximum(self.hessian.diagonal, _TINY)
        slope = product + self.linear
        wanted = self._by_group(curvature * x - slope)
        above = np.abs(wanted) - self._by_group(curvature) * heights
        signs = np.where(wanted > 0.0, 1.0, -1.0)
        places = np.where(above > 0.0, signs, 0.0)
        groups = np.arange(len(self.slack))
        farthest = above.argmax(axis=0)  # something has to carry the price
        places[farthest, groups] = signs[farthest, groups]
        worth = np.abs(self._by_group(slope)).sum(axis=0)
        places[:, (heights < 0.0) | ((heights == 0.0) & (worth <= self.slack))] = _OFF
        places[:, self.slack == 0.0] = 0.0
        return places.ravel()

    def _solve_at(self, places: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Entries at a height are one unknown for each group; the free ones are eliminated first."""
        signs = np.where(np.abs(places) == 1.0, places, 0.0)
        carried = np.flatnonzero(self._by_group(signs).any(axis=0))  # groups with a height
        columns = np.column_stack([self._pull(signs)[:, carried], -self.linear])
        halfway = self.faces.halve(places == 0.0, columns)
        heights = np.zeros(len(self.slack))
        if len(carried):
            system = self._sums(signs, columns)[carried] - halfway.products()[:-1]
            heights[carried] = np.linalg.solve(system[:, :-1], system[:, -1] - self.slack[carried])
        free = halfway.solution(np.append(-heights[carried], 1.0))
        return (self._by_group(signs) * heights).ravel() + free, heights

    def _pull(self, signs: FloatArray) -> FloatArray:
        """`H S`, where `S @ heights` are entries at a height; from the last one where few signs differ."""
        moved = np.flatnonzero(signs != self.signs)
        if len(moved) > _FEW_MOVED * len(signs):
            self.pull = self.hessian @ self._spread(signs)
        elif len(moved):
            rows = self.hessian.between(moved, np.arange(len(signs)))
            self.pull = self.pull + rows.T @ self._spread(signs - self.signs)[moved]
        self.signs = signs
        return self.pull

    def _spread(self, signs: FloatArray) -> FloatArray:
        """Entries in the column of their group, (size, n_groups)."""
        n_groups = len(self.slack)
        spread = np.zeros((len(signs), n_groups))
        spread[np.arange(len(signs)), np.arange(len(signs)) % n_groups] = signs
        return spread

    def _sums(self, signs: FloatArray, values: FloatArray) -> FloatArray:
        """`S^T values`: sums over the entries at the height of each group, (n_groups, n_columns)."""
        signed = (signs[:, None] * values).reshape(-1, len(self.slack), values.shape[1])
        sums: FloatArray = signed.sum(axis=0)
        return sums
