"""Detect drift: changes in the violation or in the share of a group.

Each block of rows is measured under the policy that was fitted before the block, and compared with the
stream so far. Each entry of the violation and each group share gives a difference divided by its standard
error. Without drift these forecast errors are independent between blocks and close to standard normal. A
pair of CUSUM charts accumulates each of them,

    up <- max(0, up + z - 1/2),    down <- max(0, down - z - 1/2),

and an alarm is raised if a chart exceeds its threshold. The threshold follows from Siegmund's formula for the
mean run length, `(exp(b) - b - 1) * 2` with `b = threshold + 1.166`. It is chosen so that all charts together
give, on average, at most one false alarm in `FALSE_ALARM_ROWS` rows. Their rates of false alarms add up, even
if the charts are dependent.
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
from scipy.optimize import brentq

from evenhand._utils.stored import Stored, is_finite
from evenhand._utils.typing import FloatArray
from evenhand.dual.parity import Operator, matrix
from evenhand.estimators.streaming.moments import Moments

FALSE_ALARM_ROWS = 10_000_000  # minimum mean number of rows between false alarms
ALLOWANCE = 0.5  # standard errors per block that are tolerated: half of the shift to detect fastest
OVERSHOOT = 1.166  # mean overshoot of normal steps over both thresholds: twice 0.583 (Siegmund 1985)
LARGEST = 5.0  # limit of a forecast error, so that a few unusual rows in one block do not raise an alarm
FEWEST_ROWS = 10.0  # minimum number of rows behind a standard error: rare atoms are not normal


@dataclass(frozen=True, slots=True)
class Drift:
    """An alarm: what has changed, by how much, and when it was detected."""

    n_rows: int  # rows of the stream so far
    kind: Literal["violation", "prior"]
    group: Hashable
    before: float  # an entry of the violation, or the share of the group, over the stream so far
    now: float  # the same quantity on the last block

    def __str__(self) -> str:
        what = "violation" if self.kind == "violation" else "share"
        return (
            f"After {self.n_rows:,} rows of the stream the {what} of group {self.group!r} has changed: "
            f"{self.before:.3g} before, {self.now:.3g} on the last block."
        )


@dataclass(frozen=True, slots=True, eq=False)
class Monitor(Stored):
    """The charts: one for each entry of the violation and, in the last row, one for each group share."""

    up: FloatArray  # (n_constraints + 1, n_groups)
    down: FloatArray

    def faults(self) -> Iterator[str]:
        """Check that both charts have the same shape and are not negative."""
        if not is_finite(self.up, None, None) or not is_finite(self.down, *self.up.shape):
            yield "its charts do not have the same shape"
        elif self.up.size and min(self.up.min(), self.down.min()) < 0:
            yield "its charts are below zero"

    @classmethod
    def fresh(cls, n_constraints: int, n_groups: int) -> "Monitor":
        """Return empty charts for `n_constraints` violations and one share in each of `n_groups`."""
        return cls(np.zeros((n_constraints + 1, n_groups)), np.zeros((n_constraints + 1, n_groups)))

    def on_wider_grid(self, n_constraints: int) -> "Monitor":
        """Keep the charts of the shares, and reset those of the `n_constraints` violations."""
        fresh = Monitor.fresh(n_constraints, self.up.shape[1])
        fresh.up[-1], fresh.down[-1] = self.up[-1], self.down[-1]
        return fresh

    def after(self, residuals: FloatArray) -> "Monitor":
        """Return the charts one block later.

        Parameters
        ----------
        residuals : array of shape (n_constraints + 1, n_groups)
            Difference between the block and the stream before it, in standard errors.
        """
        z = np.clip(residuals, -LARGEST, LARGEST)
        return Monitor(np.maximum(self.up + z - ALLOWANCE, 0.0), np.maximum(self.down - z - ALLOWANCE, 0.0))

    def highest(self) -> FloatArray:
        """Return the higher chart of each pair, (n_constraints + 1, n_groups)."""
        return np.maximum(self.up, self.down)


@cache
def alarm_threshold(n_charts: int, block_rows: int) -> float:
    """Return the threshold at which `n_charts` charts give one false alarm in `FALSE_ALARM_ROWS` rows.

    >>> round(alarm_threshold(2, 2048), 2), round(alarm_threshold(600, 2048), 2)
    (7.33, 13.03)
    """
    run_length = n_charts * FALSE_ALARM_ROWS / block_rows  # mean run length of a single chart, in blocks

    def missing(height: float) -> float:
        scaled = 2.0 * ALLOWANCE * (height + OVERSHOOT)
        return float((np.exp(scaled) - scaled - 1.0) / (2.0 * ALLOWANCE**2) - run_length)

    return float(brentq(missing, 0.0, 100.0))


def forecast_errors(
    block: Moments, stream: Moments, operator: Operator, n_block: float, n_stream: float
) -> FloatArray:
    """Return the differences of a block from the stream before it, in standard errors.

    The result has shape (n_constraints + 1, n_groups). To first order, one row changes the violation `V_s` of
    a set of rows by `((A pi)_j - a_j) t_s`, where a is the mean of A pi in the stratum of the group. By
    Jensen's inequality the square is at most `sum_l (A_jl - a_j)^2 pi_l t_s^2`. The error of a group without
    rows in the block is zero.
    """
    prior, shares = stream.prior, stream.stratum_prior
    squared = stream.squared_imbalance().T
    rows = matrix(operator)
    centre = operator.apply(stream.stratum_policy().T)  # a, (n_constraints, n_groups)
    spread = rows**2 @ squared - 2.0 * centre * (rows @ squared) + centre**2 * squared.sum(axis=0)
    furthest = np.maximum(rows.max(axis=1)[:, None] - centre, centre - rows.min(axis=1)[:, None]).max()
    widest = furthest**2 * np.maximum(1.0 / shares, 1.0 / prior - 1.0 / shares) ** 2  # maximum for one row
    variance = np.maximum(spread, FEWEST_ROWS * widest / n_block)
    of_shares = np.maximum(stream.squares.sum(axis=1) - prior**2, np.finfo(float).tiny)
    seen = block.prior > 0
    moved = np.concatenate(
        [
            np.where(seen, block.violation(operator) - stream.violation(operator), 0.0),
            (block.prior - prior)[None],
        ]
    )
    scale = np.sqrt(np.concatenate([variance, of_shares[None]]) * (1.0 / n_block + 1.0 / n_stream))
    errors: FloatArray = moved / scale
    return errors


def find_drift(
    monitor: Monitor,
    block: Moments,
    stream: Moments,
    operator: Operator,
    *,
    threshold: float,
    n_rows: int,
    unit: float,
    groups: Sequence[Hashable],
) -> tuple[Drift, ...]:
    """Return the alarms of the charts, at most one for each group and kind."""
    over = monitor.highest() > threshold
    found = []
    for place, label in enumerate(groups):
        if over[:-1, place].any():
            row = int(np.argmax(monitor.highest()[:-1, place]))
            now, before = (unit * float(m.violation(operator)[row, place]) for m in (block, stream))
            found.append(Drift(n_rows, "violation", label, before, now))
        if over[-1, place]:
            shares = float(stream.prior[place]), float(block.prior[place])
            found.append(Drift(n_rows, "prior", label, *shares))
    return tuple(found)
