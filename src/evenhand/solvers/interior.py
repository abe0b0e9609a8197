"""Mehrotra's interior point for the model of a Newton step: a predictor, then the centred step."""

from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np

from evenhand._utils.typing import BoolArray, FloatArray
from evenhand.dual.band import Band
from evenhand.dual.dense import Dense

_TINY = 1e-300
_SHORTEST = 1e-290  # a smaller step of a barrier variable is no step
_FRACTION = 0.995  # of the way to the nearest barrier


def _room(now: FloatArray, move: FloatArray) -> float:
    """How far the step can be taken, up to one, before a barrier variable vanishes."""
    falls = move < -_SHORTEST
    return min(1.0, float((-now[falls] / move[falls]).min(initial=1.0)))


def _centre(gap: float, ahead: float, n_boxed: int) -> float:
    """The complementarity to aim at, from the gap and what the predictor would leave of it."""
    return ahead * (ahead / gap) ** 2 / (2 * max(n_boxed, 1)) if gap > 0.0 else 0.0


class Inside(Protocol):
    """A point inside of what binds at the minimiser."""

    @classmethod
    def at(cls, x: FloatArray, slack: FloatArray, size: float) -> Self:
        """Start at x, `size` away from what may bind."""

    @property
    def gap(self) -> float:
        """Complementarity that is left."""

    def rounded(self, slack: FloatArray) -> FloatArray:
        """x, on what binds where it is close to it."""

    def step(self, hessian: Any, linear: FloatArray, slack: FloatArray) -> Self:
        """One iteration."""


@dataclass(frozen=True, slots=True, eq=False)
class AbsoluteState:
    """A point inside `|pull_j| <= e_j` for the penalty `sum_j e_j |x_j|`, where x is `up - down`.

    At the minimiser `pull` is minus the slope of the quadratic, and e wherever x is up, -e where it is down.
    Entries without a price have no pull, and room one.
    """

    boxed: BoolArray  # entries with a price
    barriers: FloatArray  # up, down, e - pull, e + pull: (4, size)

    @classmethod
    def at(cls, x: FloatArray, slack: FloatArray, size: float) -> Self:
        """Start at x, with both of its parts `size` above zero."""
        boxed = slack > 0.0
        rooms = np.where(boxed, slack, 1.0)
        return cls(boxed, np.stack([np.maximum(x, 0.0) + size, np.maximum(-x, 0.0) + size, rooms, rooms]))

    @property
    def gap(self) -> float:
        """Complementarity that is left."""
        return self._gap_at(self.barriers)

    def _gap_at(self, barriers: FloatArray) -> float:
        return float((barriers[:2] * barriers[2:])[:, self.boxed].sum())

    def _room(self, move: FloatArray) -> float:
        return _room(self.barriers[:, self.boxed], move[:, self.boxed])

    def rounded(self, slack: FloatArray) -> FloatArray:
        """x, at zero where it is small against the room that its pull has left."""
        up, down, to_high, to_low = self.barriers
        size = np.maximum(up, down)
        room = np.minimum(to_high, to_low) / (to_high + to_low)
        return np.where(self.boxed & (size / max(float(size.max()), _TINY) < room), 0.0, up - down)

    def step(self, hessian: Band | Dense, linear: FloatArray, slack: FloatArray) -> Self:
        """One iteration: all but x is eliminated, and stands on the diagonal."""
        boxed = self.boxed
        up, down, to_high, to_low = self.barriers
        give = up / to_high + down / to_low  # how far x moves for a change of its pull
        hold = np.where(boxed, 1.0 / np.maximum(give, _TINY), 0.0)
        factor = hessian.plus_diagonal(hold).factor()
        pull = np.where(boxed, 0.5 * (to_low - to_high), 0.0)
        residual = hessian @ (up - down) + linear + pull

        def towards(high: FloatArray, low: FloatArray) -> FloatArray:
            """Newton's step to these complementarities."""
            alone = high / to_high - low / to_low  # how far x moves if its pull stays
            move = factor.solve(hold * alone - residual)
            change = hold * (move - alone)
            rise = np.where(boxed, (high + up * change) / to_high, move)
            fall = np.where(boxed, (low - down * change) / to_low, 0.0)
            return np.stack([rise, fall, -change, change])

        high, low = -up * to_high, -down * to_low
        move = towards(high, low)
        ahead = self._gap_at(self.barriers + self._room(move) * move)
        centre = _centre(self.gap, ahead, int(boxed.sum()))
        move = towards(high + centre - move[0] * move[2], low + centre - move[1] * move[3])
        barriers = self.barriers + _FRACTION * self._room(move) * move
        return type(self)(boxed, np.where(boxed, np.maximum(barriers, _TINY), barriers))


@dataclass(frozen=True, slots=True, eq=False)
class HeightState:
    """A point inside `|x_js| <= h_s` for the penalty `sum_s e_s h_s`; groups take turns in x.

    `up >= 0` is the multiplier of `x <= h` and `down >= 0` that of `-h <= x`; in a group they sum to its
    price. Free groups have neither, and room one.
    """

    x: FloatArray
    heights: FloatArray  # (n_groups,)
    barriers: FloatArray  # up, down, h - x, h + x: (4, size)

    @classmethod
    def at(cls, x: FloatArray, slack: FloatArray, size: float) -> Self:
        """Start at x, with heights `size` above it."""
        by_group = x.reshape(-1, len(slack))
        boxed = slack > 0.0
        heights = np.where(boxed, np.abs(by_group).max(axis=0) + size, 0.0)
        shares = np.broadcast_to(slack / (2 * len(by_group)), by_group.shape)
        rooms = [np.where(boxed, heights + side, 1.0) for side in (-by_group, by_group)]
        barriers = np.stack([shares, shares, *rooms]).reshape(4, -1)
        return cls(x, heights, barriers)

    @property
    def gap(self) -> float:
        """Complementarity that is left."""
        return float((self.barriers[:2] * self.barriers[2:]).sum())

    def rounded(self, slack: FloatArray) -> FloatArray:
        """x, at the height of its group where the multipliers are large against the room that is left."""
        up, down, to_high, to_low = (row.reshape(-1, len(slack)) for row in self.barriers)
        pull = np.maximum(up, down)
        room = np.minimum(to_high, to_low) / (to_high + to_low)
        touches = room < pull / np.maximum(pull.max(axis=0), _TINY)
        ends = np.where(to_high < to_low, 1.0, -1.0) * self.heights
        return np.where((slack > 0) & touches, ends, self.x.reshape(ends.shape)).ravel()

    def step(self, hessian: Band | Dense, linear: FloatArray, slack: FloatArray) -> Self:
        """One iteration, with the heights eliminated last.

        The unknowns are the rooms at the nearer side, `x = side * (height - room)`: what grows without bound
        near the solution then stands on the diagonal alone.
        """
        n_groups = len(slack)
        boxed = slack > 0.0
        inside = np.tile(boxed, len(self.x) // n_groups)
        up, down, to_high, to_low = self.barriers
        side = np.where(to_high < to_low, 1.0, -1.0)
        at_high, at_low = up / to_high, down / to_low
        near, far = np.where(side > 0.0, at_high, at_low), np.where(side > 0.0, at_low, at_high)
        signed = hessian.scaled(side)
        groups = np.tile(
            np.diag(boxed.astype(float)), (len(self.x) // n_groups, 1)
        )  # which height an entry has
        pull = signed @ groups
        border = -pull - 2.0 * far[:, None] * groups
        factor = signed.plus_diagonal(near + far).factor()
        solved = factor.solve(border)
        corner = groups.T @ pull + np.diag(4.0 * (groups.T @ far) + ~boxed) - border.T @ solved
        corner_factor = np.linalg.cholesky(corner)
        residual = hessian @ self.x + linear + up - down
        missing = np.where(boxed, slack - groups.T @ (up + down), 0.0)

        def towards(high: FloatArray, low: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
            """Newton's step to these complementarities."""
            to_up, to_down = np.where(inside, high / to_high, 0.0), np.where(inside, low / to_low, 0.0)
            first = side * (residual + to_up - to_down)
            second = groups.T @ (2.0 * np.where(side > 0.0, to_down, to_up) - side * residual) - missing
            rooms = factor.solve(first)
            rise = np.linalg.solve(corner_factor.T, np.linalg.solve(corner_factor, second - border.T @ rooms))
            rooms = rooms - solved @ rise
            heights = groups @ rise
            x = side * (heights - rooms)
            others = 2.0 * heights - rooms
            high_room = np.where(inside, np.where(side > 0.0, rooms, others), 0.0)
            low_room = np.where(inside, np.where(side > 0.0, others, rooms), 0.0)
            pushes = [
                np.where(inside, (high - up * high_room) / to_high, 0.0),
                np.where(inside, (low - down * low_room) / to_low, 0.0),
            ]
            return x, rise, np.stack([*pushes, high_room, low_room])

        high, low = -up * to_high, -down * to_low
        _, _, move = towards(high, low)
        ahead = self.barriers + _room(self.barriers, move) * move
        centre = _centre(self.gap, float((ahead[:2] * ahead[2:]).sum()), int(inside.sum()))
        x, rise, move = towards(high + centre - move[0] * move[2], low + centre - move[1] * move[3])
        length = _FRACTION * _room(self.barriers, move)
        barriers = self.barriers + length * move
        barriers[2:] = np.maximum(barriers[2:], _TINY)
        return type(self)(self.x + length * x, self.heights + length * rise, barriers)
