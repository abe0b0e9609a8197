"""The atoms: where predictions live, and the scale on which everything is solved."""

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np

from evenhand._utils.scalars import as_number, is_whole
from evenhand._utils.stored import Stored, is_floats
from evenhand._utils.typing import FloatArray
from evenhand._utils.validation import as_floats
from evenhand._utils.warn import warn_user
from evenhand.exceptions import ClippingWarning

MAX_AUTO_ATOMS = 201  # discretisation costs 1 / L^2 in risk and L in time: see benchmarks
NARROWEST = 1e-12  # half of the width of an automatic range, over its centre
MARGIN = 0.02  # of the range of the scores, on each side of automatic bounds
TAIL = 0.01  # share of the rows on each side that may be cut
FENCE = 100.0  # widths of the rest beyond which a tail is cut: the rest would share two of 201 atoms
BYTES_PER_PAIR = 40  # of two atoms: five tables of numbers between all atoms are made at a time
MOST_BYTES = 4 << 30  # of these: some 10 000 atoms
LEAST_BETA, MOST_BETA = 1e-6, 1e15  # beyond these nothing changes but the digits that are lost
FEWEST_TO_CUT = 20  # rows: of fewer, none can be told to be an outlier
LOWEST_PAPER_BETA = 1.0  # sqrt(n) log2(sqrt(n)) is zero for one row
# Smoothing adds 1 / (8 beta) times the squared range of the atoms to the risk, on average: at 10 000 a
# thousandth of a usual one. More costs time and saves nothing that a test set could show.
SHARP_BETA = 10_000.0
SHARP_BETA_PER_ROW = 8.0  # of few rows: policies that follow them less closely keep parity better on others


@dataclass(frozen=True, slots=True, eq=False)
class Grid(Stored):
    """Sorted atoms in the user's units, and the map `(x - centre) / half_width` that takes them to [-1, 1].

    Scores outside `bounds` are read as the nearest bound, when fitting and when predicting alike.
    """

    atoms: FloatArray  # (n_atoms,), increasing
    bounds: tuple[float, float]

    def faults(self) -> Iterator[str]:
        """Atoms that are two numbers or more, finite and increasing, and two bounds."""
        if not is_floats(self.atoms, None) or len(self.atoms) < 2:
            yield "its atoms are not a list of numbers"
        elif not np.isfinite(self.atoms).all() or (self.atoms[1:] <= self.atoms[:-1]).any():
            yield "its atoms are not finite and increasing"
        elif not np.isfinite(self.half_width) or self.half_width <= 0:
            yield "its atoms have no width"
        if type(self.bounds) is not tuple or [type(bound) for bound in self.bounds] != [float, float]:
            yield "its bounds are not two numbers"
        elif not self.bounds[0] < self.bounds[1]:  # which may be infinite
            yield "its lower bound is not below its upper one"

    @property
    def centre(self) -> float:
        """Middle of the atoms' range."""
        return float(self.atoms[0] / 2 + self.atoms[-1] / 2)

    @property
    def half_width(self) -> float:
        """Half of the atoms' range: one unit of the normalised scale, in the user's units."""
        return float(self.atoms[-1] / 2 - self.atoms[0] / 2)

    def scale(self, values: FloatArray) -> FloatArray:
        """Values on the normalised scale."""
        return (values - self.centre) / self.half_width

    def normalised(self) -> FloatArray:
        """The atoms on the normalised scale, from -1 to 1."""
        scaled = self.scale(self.atoms)
        scaled[0], scaled[-1] = -1.0, 1.0
        return scaled

    def clip(self, scores: FloatArray) -> FloatArray:
        """Scores with those outside the bounds moved to the nearest bound."""
        return np.clip(scores, *self.bounds)

    def count_outside(self, scores: FloatArray) -> int:
        """Number of scores outside the bounds."""
        low, high = self.bounds
        return int(np.count_nonzero((scores < low) | (scores > high)))


def warn_of_clipping(grid: Grid, n_clipped: int, n_rows: int, *, automatic: bool, full: bool = False) -> None:
    """Say how many scores were outside the bounds, if any, and what to do about them."""
    if n_clipped == 0:
        return
    low, high = grid.bounds
    outside = f"{n_clipped} of {n_rows} scores lie outside bounds=({low:g}, {high:g})"
    how = 'and were moved to the nearest bound. Widen the bounds, or pass bounds="auto".'
    if automatic:
        how = (
            'that bounds="auto" found: outliers so far off that nearly all others would share one '
            "possible prediction. They were moved to the nearest bound. Look at them, or pass "
            "bounds=(low, high)."
        )
    if automatic and full:
        how = (
            'and the grid of bounds="auto" has grown as far as it may. They were moved to the nearest bound. '
            "Start a new model, with bounds=(low, high) that cover what may come."
        )
    warn_user(f"{outside} {how}", ClippingWarning)


def uniform_grid(low: float, high: float, n_atoms: int) -> Grid:
    """Equally spaced atoms from `low` to `high`.

    >>> uniform_grid(0.0, 10.0, 3).atoms
    array([ 0.,  5., 10.])
    >>> uniform_grid(0.0, 10.0, 3).normalised()
    array([-1.,  0.,  1.])
    """
    steps = np.linspace(0.0, 1.0, n_atoms)
    atoms = low * (1.0 - steps) + high * steps
    if not np.all(atoms[1:] > atoms[:-1]):
        raise ValueError(
            f"There are not {n_atoms} different numbers between the bounds {low!r} and {high!r}: widen them, "
            "or ask for fewer atoms."
        )
    return Grid(atoms, (low, high))


def make_grid(atoms: Any, bounds: Any, scores: FloatArray, weights: FloatArray | None = None) -> Grid:
    """The grid that `atoms` and `bounds` ask for.

    `atoms` is "auto" (`automatic_n_atoms`), a number of equally spaced atoms, or the atoms themselves;
    `bounds` is "auto" (`automatic_bounds`) or `(low, high)`. With atoms of the user's own automatic bounds
    are infinite, since the cost of an atom is defined for any score.
    """
    limits = _check_bounds(bounds)
    n_atoms = _number_of_atoms(atoms, len(scores))
    if n_atoms is None:
        return Grid(_check_atoms(atoms), limits or (-math.inf, math.inf))
    return uniform_grid(*(limits or automatic_bounds(scores, weights)), n_atoms)


def make_class_grid(atoms: Any, n_atoms: int) -> Grid:
    """The atoms of a cost matrix: 0, 1, ..., or the user's own, one for each of its columns."""
    if isinstance(atoms, str) and atoms != "auto":
        raise ValueError(f"With a cost matrix atoms are its {n_atoms} columns: got atoms={atoms!r}.")
    own = np.arange(float(n_atoms)) if isinstance(atoms, str | Integral) else _check_atoms(atoms)
    asked = int(atoms) if isinstance(atoms, Integral) else len(own)
    if asked != n_atoms:
        raise ValueError(f"The cost matrix has {n_atoms} columns, one for each atom: got {asked} atoms.")
    return Grid(own, (-math.inf, math.inf))


def automatic_n_atoms(n_rows: int) -> int:
    """`2 L + 1` atoms with `L = floor(sqrt(n))`, as in the paper, up to `MAX_AUTO_ATOMS`.

    >>> automatic_n_atoms(794), automatic_n_atoms(1_000_000)
    (57, 201)
    """
    return min(2 * math.isqrt(n_rows) + 1, MAX_AUTO_ATOMS)


def automatic_bounds(scores: FloatArray, weights: FloatArray | None = None) -> tuple[float, float]:
    """The range of the scores, without far outliers, and `MARGIN` of it on each side.

    The margin is for new rows a little outside of those seen. A score is a far outlier when it is more
    than `FENCE` times the width of the central scores away from them; central are all but `TAIL` of the
    weight on each side, or one row where that is less. Cut scores would have left nearly everybody on one
    or two atoms. Normal, uniform and bimodal scores never are, nor lognormal ones up to a sigma of 1.5 or
    so. Scores that are all (almost) the same get a range around them.

    >>> automatic_bounds(np.array([3.0, 1.0, 2.0]))
    (0.96, 3.04)
    >>> automatic_bounds(np.append(np.linspace(1.0, 3.0, 999), 1e12))
    (0.96, 3.04)
    """
    return with_margin(*range_without_outliers(scores, weights))


def with_margin(low: float, high: float) -> tuple[float, float]:
    """A range with `MARGIN` on each side; around numbers that are (almost) the same, a range of its own.

    >>> with_margin(1.0, 3.0)
    (0.96, 3.04)
    """
    centre, half_width = low / 2 + high / 2, high / 2 - low / 2
    narrowest = NARROWEST * abs(centre)
    if half_width > narrowest:
        margin = 2 * MARGIN * half_width
        largest = sys.float_info.max
        return max(low - margin, -largest), min(high + margin, largest)
    half_width = narrowest or 1.0
    return centre - half_width, centre + half_width


def range_without_outliers(scores: FloatArray, weights: FloatArray | None = None) -> tuple[float, float]:
    """Lowest and highest score, far outliers left out (`automatic_bounds` says which)."""
    low, high = float(scores.min()), float(scores.max())
    n_rows = len(scores)
    if n_rows < FEWEST_TO_CUT:
        return low, high
    near, far = _central_range(scores, weights, tail_share(n_rows))
    fences = outlier_fences(low, high, near, far)
    if fences is None:
        return low, high
    kept = scores[(scores >= fences[0]) & (scores <= fences[1])]
    return float(kept.min()), float(kept.max())


def tail_share(n_rows: int) -> float:
    """Share of the weight on each side that may be cut."""
    return max(TAIL, 1.5 / n_rows)  # 1.5: one row, however rounded


def outlier_fences(low: float, high: float, near: float, far: float) -> tuple[float, float] | None:
    """Beyond which scores are far outliers of those from `near` to `far`; None where there are none."""
    width = far - near
    # Where the central scores are all the same, any grid that has them serves the others best.
    if not NARROWEST * max(abs(near), abs(far)) < width < math.inf:
        return None
    fences = near - FENCE * width, far + FENCE * width
    return None if fences[0] <= low and high <= fences[1] else fences


def _central_range(scores: FloatArray, weights: FloatArray | None, share: float) -> tuple[float, float]:
    """Lowest and highest of the scores that remain without `share` of the weight on each side."""
    n_rows = len(scores)
    if weights is None:
        first, last = int(share * n_rows), math.ceil((1.0 - share) * n_rows) - 1
        ranked = np.partition(scores, [first, last])  # a sort would take as long as a pass over the rows
        return float(ranked[first]), float(ranked[last])
    order = np.argsort(scores)
    below = np.cumsum(weights[order])
    first, last = np.searchsorted(below, [share, below[-1] - share], side="right")
    return float(scores[order[first]]), float(scores[order[last]])


def automatic_beta(n_rows: int) -> float:
    """`min(8 n, 10 000)` on the normalised scale, or the paper's where that is more.

    The paper's beta is low because its solvers need a smooth problem. One that solves it exactly does not,
    and the risk that smoothing adds at every tolerance is often more than parity itself asks for
    (docs/reproduction.md has what it does on the paper's data sets).

    >>> automatic_beta(800), automatic_beta(100_000)
    (6400.0, 10000.0)
    """
    return max(min(SHARP_BETA_PER_ROW * n_rows, SHARP_BETA), paper_beta(n_rows))


def paper_beta(n_rows: int) -> float:
    """`sqrt(n) log2(sqrt(n))` on the normalised scale, at least one.

    The rule of the paper's experiments. They write `log` without a base; it is read as base two here, as
    everywhere else in the paper's choices of parameters, and gives 136 on its splits of 800 rows.

    >>> round(paper_beta(800))
    136
    """
    root = math.sqrt(n_rows)
    return max(root * math.log2(root), LOWEST_PAPER_BETA)


def check_beta(beta: Any, automatic: float, n_rows: int) -> float:
    """A positive finite number: `automatic` for "auto", that of as many rows for "paper"."""
    if isinstance(beta, str) and beta in ("auto", "paper"):
        return automatic if beta == "auto" else paper_beta(n_rows)
    what = '"auto", "paper" or a positive number'
    number = as_number(beta, "beta", what)
    if number <= 0.0:
        raise ValueError(f"beta must be {what}: got {beta!r}.")
    if not LEAST_BETA <= number <= MOST_BETA:
        raise ValueError(
            f"beta must be {what} from {LEAST_BETA:g} to {MOST_BETA:g}: got {beta!r}. Lower ones draw from "
            "all atoms alike, and higher ones from the best alone."
        )
    return number


def _number_of_atoms(atoms: Any, n_rows: int) -> int | None:
    """How many atoms to place, or None where the user placed them."""
    if isinstance(atoms, str):
        if atoms != "auto":
            raise ValueError(f'atoms must be "auto", a number of atoms, or the atoms: got {atoms!r}.')
        return automatic_n_atoms(n_rows)
    if is_whole(atoms):
        if atoms < 2:
            raise ValueError(f"atoms must be at least 2: got {atoms}.")
        _require_memory(int(atoms))
        return int(atoms)
    return None


def _check_atoms(atoms: Any) -> FloatArray:
    checked = as_floats(atoms, "atoms")
    if checked.ndim != 1 or len(checked) < 2:
        raise ValueError(f"atoms needs at least two values in one dimension: got shape {checked.shape}.")
    if not np.isfinite(checked).all():
        raise ValueError("atoms must be finite.")
    _require_memory(len(checked))
    with np.errstate(over="ignore"):  # atoms so far apart are refused where the scores are known
        steps = np.diff(checked)
    if steps.min() < 0:
        raise ValueError("atoms must be sorted in increasing order: pass np.unique(atoms).")
    if steps.min() == 0:
        repeated = checked[int(np.argmin(steps))]
        raise ValueError(f"atoms must differ: {repeated:g} is there twice. Pass np.unique(atoms).")
    return checked.copy()


def _require_memory(n_atoms: int) -> None:
    """Refuse more atoms than a fit has the memory for."""
    needed, most = BYTES_PER_PAIR * n_atoms**2, math.isqrt(MOST_BYTES // BYTES_PER_PAIR)
    if n_atoms > most:
        raise ValueError(
            f"{n_atoms} atoms are too many: tables between all of them would take about "
            f'{needed / 2**30:.3g} GiB. Leave atoms at "auto", or ask for {most} '
            "at most; a few hundred cost hardly any risk."
        )


def _check_bounds(bounds: Any) -> tuple[float, float] | None:
    """`(low, high)`, or None for "auto"."""
    if isinstance(bounds, str) and bounds == "auto":
        return None
    checked = None if isinstance(bounds, str) else as_floats(bounds, "bounds")
    if checked is None or checked.shape != (2,) or not np.isfinite(checked).all():
        raise ValueError(f'bounds must be "auto" or two finite numbers (low, high): got {bounds!r}.')
    low, high = float(checked[0]), float(checked[1])
    if low >= high:
        raise ValueError(f"bounds must have low < high: got {bounds!r}.")
    return low, high
