"""The same problem on fewer atoms: a soft policy cannot tell them apart, and it costs a fraction.

At a low beta the policy of a row is wide, and neighbouring atoms share their fate. Solvers climb from few
atoms and a low beta to all atoms and the beta that was asked for.
"""

from dataclasses import dataclass, replace
from math import sqrt

import numpy as np

from evenhand._utils.typing import FloatArray, IntArray
from evenhand.dual.cost_terms import CostModel
from evenhand.dual.operators import Cumulative, Identity, Operator, SupNorm
from evenhand.dual.problem import DualProblem

_FEWEST = 16  # atoms: coarser grids save nothing
_MOST = 0.75  # share of all atoms: finer grids save nothing
_DENSITY = 1.2  # atoms to each spread of a policy; more make the soft stages slower, fewer their answer worse


@dataclass(frozen=True, slots=True, eq=False)
class Coarse:
    """Some of the atoms of a problem, the first and the last among them.

    >>> thirds = Coarse(Cumulative(np.ones(6)), np.array([0, 3, 6]))
    >>> thirds.carry(np.array([[3.0], [6.0]]), Coarse(thirds.operator, np.arange(7))).T
    array([[1., 1., 1., 2., 2., 2.]])
    """

    operator: Operator  # on all atoms
    places: IntArray

    @classmethod
    def all_of(cls, problem: DualProblem) -> "Coarse":
        """All atoms."""
        return cls(problem.parity.operator, np.arange(problem.n_atoms))

    @classmethod
    def enough_for(cls, problem: DualProblem, temperature: float) -> "Coarse":
        """As few as a policy of this beta can tell apart; all, where the operator is of no known kind."""
        n_atoms = problem.n_atoms
        # On [-1, 1] with a squared cost a policy spreads over 1 / sqrt(2 beta) to each side.
        enough = max(int(_DENSITY * sqrt(2.0 * temperature)), _FEWEST)
        if enough > _MOST * n_atoms or not isinstance(problem.parity.operator, Cumulative | Identity):
            return cls.all_of(problem)
        places = np.linspace(0, n_atoms - 1, enough).round().astype(np.int64)
        return cls(problem.parity.operator, places)

    def problem(self, problem: DualProblem) -> DualProblem:
        """The problem on these atoms alone."""
        if len(self.places) == problem.n_atoms:
            return problem
        shift = problem.moment_shift
        return replace(
            problem,
            cost=CostModel(problem.cost.loadings[self.places], problem.cost.offset[self.places]),
            parity=replace(problem.parity, operator=self._coarse_operator()),
            slack=problem.slack * self.widening(problem),
            moment_shift=None if shift is None else np.add.reduceat(shift, self.places, axis=1),
        )

    def widening(self, problem: DualProblem) -> float:
        """Factor on the tolerances: where each atom has its own, an atom here stands for several."""
        by_atom = isinstance(self.operator, Identity) and isinstance(problem.parity.norm, SupNorm)
        return problem.n_atoms / len(self.places) if by_atom else 1.0

    def carry(self, point: FloatArray, finer: "Coarse") -> FloatArray:
        """Multipliers on these atoms -> on finer ones, so that the tilt between atoms is a straight line."""
        if len(self.places) == len(finer.places):
            return point
        tilt = self._coarse_operator().adjoint(point)
        between = np.stack([np.interp(finer.places, self.places, column) for column in tilt.T], axis=1)
        if isinstance(self.operator, Cumulative):
            sums = finer._sums()[:, None]  # zero where atoms are too near for their distance to be a float
            return -np.diff(between, axis=0) / np.where(sums > 0.0, sums, np.inf)
        return between

    def _coarse_operator(self) -> Operator:
        if isinstance(self.operator, Cumulative):
            return Cumulative(self._sums())
        return Identity(len(self.places))

    def _sums(self) -> FloatArray:
        """Scales of the sums up to each of these atoms: lengths add up, and ones stay one."""
        assert isinstance(self.operator, Cumulative)
        scales = self.operator.scales
        if (scales == 1.0).all():
            return np.ones(len(self.places) - 1)
        return np.add.reduceat(scales, self.places[:-1])
