"""First-order forms of the dual: the set that points live in, and the projection or prox of a step.

| constraint | form | point | a step of length r along -g |
| --- | --- | --- | --- |
| sup-norm | the paper's, `projected.py` | `(Lambda, V) >= 0`, `Phi = Lambda - V` | `(w - r g)_+` |
| l1 norm | composite | Phi itself | `prox(Phi - r V)`, of r times the penalty |

Points have shape (n_signs, n_constraints, n_groups): two signs in the paper's form, one in the other.
"""

from typing import Protocol

import numpy as np

from evenhand._utils.typing import FloatArray
from evenhand.dual import projected
from evenhand.dual.parity import L1Norm, Norm, SupNorm
from evenhand.dual.problem import DualProblem


class Form(Protocol):
    """Where the points of a problem live, and the measure of how far one is from the optimum."""

    def split(self, multipliers: FloatArray) -> FloatArray:
        """The smallest point that stands for Phi."""
        ...

    def tolerance(self, problem: DualProblem) -> FloatArray:
        """What the kernels know of epsilon: a slope, or the radius of an l1 ball, (n_groups,)."""
        ...

    def smoothness(self, problem: DualProblem, spread: float | None = None) -> float:
        """Lipschitz constant M of the gradient of the smooth part, over points.

        `spread` is `E |t|^2`, where that is known from elsewhere than the rows of `problem`.
        """
        ...

    def gradient_map(
        self, problem: DualProblem, point: FloatArray, violation: FloatArray, step: float
    ) -> FloatArray:
        """`(point - point after a step) / step`, zero at the optimum alone."""
        ...

    def gap_bound(self, problem: DualProblem, point: FloatArray, violation: FloatArray, step: float) -> float:
        """Bound on `risk_beta + F` that shrinks with the gradient map."""
        ...


class Projected:
    """The paper's form for sup-norm constraints."""

    def split(self, multipliers: FloatArray) -> FloatArray:
        """The smallest `(Lambda, V) >= 0` with `Lambda - V = Phi`."""
        return projected.split(multipliers)

    def tolerance(self, problem: DualProblem) -> FloatArray:
        """A slope."""
        return problem.slack

    def smoothness(self, problem: DualProblem, spread: float | None = None) -> float:
        """M of Lemma 3.4."""
        return projected.smoothness(problem, spread)

    def gradient_map(
        self, problem: DualProblem, point: FloatArray, violation: FloatArray, step: float
    ) -> FloatArray:
        """`min(w / step, grad)` (paper, eq. 8)."""
        return projected.gradient_map(problem, point, violation, step)

    def gap_bound(self, problem: DualProblem, point: FloatArray, violation: FloatArray, step: float) -> float:
        """`|G| |max(w, step * g)|`, since the gap is `<w, g> = <G, max(w, step * g)>`."""
        mapped = self.gradient_map(problem, point, violation, step)
        moving = mapped != 0.0  # the others add nothing to the product
        slopes = projected.projected_gradient(problem, violation)[moving]
        reach = np.maximum(point[moving], step * slopes)
        return float(np.linalg.norm(mapped) * np.linalg.norm(reach))


class Composite:
    """Steps on Phi with the prox of the penalty, for l1 constraints.

    `Phi+ = prox(Phi - step V)` and `G = (Phi - Phi+) / step` say that `Q = G - V` is a subgradient of the
    penalty at Phi+. So the norm of Q_s is at most epsilon_s, and `<Q, Phi+>` is the penalty of Phi+. With Q
    for a violation that is allowed, the distance of V from those is at most |G|: the first part of
    Lemma 3.5, for any norm. For the second, penalty(Phi) is at most `<Q, Phi+> + step * penalty(G)`, so

        risk_beta + F = penalty(Phi) + <Phi, V> <= <G, Phi - step Q> + step * penalty(G)
                     <= |G| (|Phi - step Q| + step |r|),

    r_s being the Euclidean radius of the ball of norm epsilon_s: `penalty(G) <= sum_s r_s |G_s|`.
    """

    def split(self, multipliers: FloatArray) -> FloatArray:
        """Phi, as the one part of its point."""
        return multipliers[None]

    def tolerance(self, problem: DualProblem) -> FloatArray:
        """The radius of the l1 ball of allowed violations."""
        return _l1(problem.parity.norm).radius(problem.slack)

    def smoothness(self, problem: DualProblem, spread: float | None = None) -> float:
        """Half the M of Lemma 3.4, which counts every entry of Phi twice."""
        return projected.smoothness(problem, spread) / 2.0

    def gradient_map(
        self, problem: DualProblem, point: FloatArray, violation: FloatArray, step: float
    ) -> FloatArray:
        """`(Phi - prox(Phi - step V)) / step`."""
        after = problem.parity.norm.prox_dual(point[0] - step * violation, step * problem.slack)
        return (point - after) / step

    def gap_bound(self, problem: DualProblem, point: FloatArray, violation: FloatArray, step: float) -> float:
        """`|G| (|Phi - step Q| + step |r|)`."""
        mapped = self.gradient_map(problem, point, violation, step)
        reach = np.linalg.norm(point - step * (mapped - violation))
        return float(np.linalg.norm(mapped) * (reach + step * np.linalg.norm(self.tolerance(problem))))


def form_of(problem: DualProblem) -> Form:
    """The form that the problem's norm asks for."""
    if isinstance(problem.parity.norm, SupNorm):
        return Projected()
    _l1(problem.parity.norm)
    return Composite()


def merge(point: FloatArray) -> FloatArray:
    """Phi of a point of either form.

    >>> merge(np.array([[[3.0]], [[1.0]]])), merge(np.array([[[2.0]]]))
    (array([[2.]]), array([[2.]]))
    """
    return projected.merge(point) if len(point) == 2 else point[0]


def gradient_map_norm(
    problem: DualProblem, point: FloatArray, violation: FloatArray, smoothness: float | None = None
) -> float:
    """Euclidean norm of the gradient map at `step = 1 / smoothness`, measured on the rows by default."""
    form = form_of(problem)
    step = 1.0 / (form.smoothness(problem) if smoothness is None else smoothness)
    return float(np.linalg.norm(form.gradient_map(problem, point, violation, step)))


def _l1(norm: Norm) -> L1Norm:
    if not isinstance(norm, L1Norm):
        raise ValueError(
            f"Steps are known for the norms SupNorm and L1Norm: got {type(norm).__name__}. Give it a form "
            "in evenhand.dual.forms."
        )
    return norm
