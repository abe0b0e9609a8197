"""Minimisation over the multipliers of one atom at a time: what a Newton step over all of them misses.

A row that gives an atom no probability is not in the Hessian there, but once the atom's logit rises it takes
the row at once. With many groups hundreds of rows jump in this way, so that steps have to be short. The
dual over the multipliers of a single atom is a logistic regression of one class against the others,

    min_x  E[ LSE(others) + 1/beta * log(1 + e^(a + beta <x, t>)) ]   with |x_s| <= h_s,

where a is the atom's logit without multipliers, beyond the others'. It knows all rows, has no more unknowns
than there are groups, and takes two or three steps of Newton's.
A sweep over the atoms puts right what a long step over all of them has done to a few.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np

from evenhand._kernels.chunks import map_chunks
from evenhand._kernels.one_atom import lowest_of_atom
from evenhand._kernels.softmax import LOG_2
from evenhand._utils.typing import FloatArray, IntArray
from evenhand.dual.curvature import imbalances
from evenhand.dual.objective import policy_loadings
from evenhand.dual.problem import DualProblem
from evenhand.dual.rows import MemoryRows, stored_rows

# A row whose logit for the atom is this far below that of all atoms together is not looked at; no move may
# bring such a row nearer than the second number.
_FAR, _UNSEEN = 50.0, 25.0
_NEARLY_SURE = 0.9  # probability of an atom from which the others are summed anew: what is left cancels
_SETTLED = 1e-12  # share of the largest imbalance: a smaller slope counts as zero
_ENOUGH = 0.1  # share of the first slope that is left: other atoms move after this one, and change it again


@dataclass(slots=True, eq=False)
class AtomSweeps:
    """A point, and what the rows know of it while it moves atom by atom."""

    problem: DualProblem
    rows: MemoryRows
    point: FloatArray  # Phi, which is the tilt, (n_atoms, n_groups)
    loadings: FloatArray  # of its logits
    offset: FloatArray
    totals: FloatArray  # log of the sum over the atoms, (n_rows,)
    imbalance: FloatArray  # beta t, (n_rows, n_groups)
    largest: FloatArray  # of each group's

    @classmethod
    def at(cls, problem: DualProblem, point: FloatArray) -> Self:
        """Look at all rows once."""
        rows = stored_rows(problem.rows, "A sweep over the atoms")
        loadings, offset = (LOG_2 * part for part in policy_loadings(problem, point))

        def run(start: int, stop: int) -> FloatArray:
            logits = loadings @ rows.design[:, start:stop] + offset[:, None]
            top: FloatArray = logits.max(axis=0)
            sums: FloatArray = np.exp(logits - top).sum(axis=0)
            return top + np.log(sums)

        totals = np.concatenate(list(map_chunks(run, rows.n_rows, len(offset))))
        imbalance = problem.temperature * imbalances(problem, rows)
        return cls(
            problem=problem,
            rows=rows,
            point=point.copy(),
            loadings=loadings,
            offset=offset,
            totals=totals,
            imbalance=imbalance,
            largest=np.abs(imbalance).max(axis=0),
        )

    def sweep(self, atoms: IntArray, ends: FloatArray) -> None:
        """Minimise over each of the `atoms` in turn, with the multipliers of a group within its `ends`."""
        for atom in atoms:
            self._minimise(int(atom), ends)

    def _minimise(self, atom: int, ends: FloatArray) -> None:
        logits = self.loadings[atom] @ self.rows.design + self.offset[atom]
        seen = np.flatnonzero(logits > self.totals - _FAR)
        if not len(seen):
            return
        others = self._totals_without(atom, logits, seen)
        here = self.point[atom]
        imbalance = self.imbalance.take(seen, axis=0)
        ahead = logits[seen] - others
        settled = _SETTLED * float(self.largest.max())
        lowest = lowest_of_atom(imbalance, self.rows.weights[seen], ahead, here, ends, settled, _ENOUGH)
        move = lowest - here
        move *= self._length_unseen(logits, move)
        self.point[atom] = np.clip(here + move, -ends, ends)  # a sum may round to beyond an end
        n_kept = self.rows.n_kept
        self.loadings[atom, :n_kept] += self.problem.temperature * (self.problem.mixing @ move)
        self.totals[seen] = np.logaddexp(others, logits[seen] + imbalance @ move)

    def _totals_without(self, atom: int, logits: FloatArray, seen: IntArray) -> FloatArray:
        """Log of the sum over the other atoms."""
        share = np.exp(logits[seen] - self.totals[seen])
        others: FloatArray = self.totals[seen] + np.log1p(-np.minimum(share, _NEARLY_SURE))
        sure = share > _NEARLY_SURE
        if sure.any():
            all_logits = self.loadings @ self.rows.design[:, seen[sure]] + self.offset[:, None]
            all_logits[atom] = -np.inf
            others[sure] = np.logaddexp.reduce(all_logits, axis=0)
        return others

    def _length_unseen(self, logits: FloatArray, move: FloatArray) -> float:
        """How much of the move keeps rows away that were not looked at."""
        if float(self.largest @ np.abs(move)) <= _FAR - _UNSEEN:
            return 1.0
        rise = self.imbalance @ move
        room = self.totals - _UNSEEN - logits
        far = (logits <= self.totals - _FAR) & (rise > room)
        return float((room[far] / rise[far]).min(initial=1.0))
