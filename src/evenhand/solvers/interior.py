"""Mehrotra's interior point for the model of a Newton step: a predictor, then the centred step."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from evenhand._utils.typing import FloatArray
from evenhand.dual.band import Band

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

    def step(self, hessian: Band, linear: FloatArray, slack: FloatArray) -> Self:
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
