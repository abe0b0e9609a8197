"""Choice of beta and of the number of atoms on held-out rows.

High beta follows the rows of the fit closely: it saves risk, and keeps parity less well on new rows. Both
sides are seen by fitting on some rows and measuring on others, and neither needs a label.
"""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from numbers import Integral
from operator import add
from typing import Any, Protocol, Self

import numpy as np
from sklearn.base import clone

from evenhand._utils.stored import Stored
from evenhand._utils.typing import AnyArray, FloatArray, IntArray
from evenhand._utils.validation import Rows
from evenhand.dual.grid import Grid, automatic_n_atoms
from evenhand.dual.parity import ParityNotion, make_parity
from evenhand.dual.policy import SoftmaxPolicy
from evenhand.dual.step import ParityStep
from evenhand.estimators.draws import RandomState
from evenhand.exceptions import ClippingWarning, ConvergenceWarning
from evenhand.metrics import Measures, ScoredRows

BETA_FACTORS = tuple(2.0**-k for k in range(6, -1, -1))  # of the automatic beta, 1/64 to 1
ATOM_COUNTS = (26, 51, 101, 201)
MOST_FOLDS, FEWEST_FOLD_ROWS = 5, 10
FOLD_TOL = 1e-4  # of the fits on folds: far below the noise of what is measured there


@dataclass(frozen=True, slots=True, eq=False)
class Selection(Stored):
    """What was tried on held-out rows, and what was chosen.

    The loss of a candidate balances risk and parity on rows that its fit did not see,

        loss = risk + sum_s price_s * (violation_s - epsilon_s)_+ ,

    and the smallest beta (or number of atoms) whose loss is within one standard error of the smallest is
    chosen: where the rows cannot tell candidates apart, the one that follows them less closely.

    Risk (squared distance to the scores) and violation are those of all the rows, each predicted by the fit
    that did not see it. The price is what the fits themselves pay: the risk falls by `dualnorm(Phi_s)` for
    each unit of epsilon_s, so the second term is what it would cost to take the held-out excess away by
    asking for a smaller epsilon. Parity alone cannot choose, since the lowest beta always wins there: it
    predicts nearly the same for all, at a high risk.

    `columns` is ready for a data frame, one row for each candidate: `searched` ("beta" or "atoms"), `beta`,
    `atoms`, `risk`, `excess` (that of the worst group), `excess_cost`, `loss`, `chosen`. `risk_se` and
    `excess_se` are standard errors by leaving out one fold at a time; `loss_se` is that of the difference
    to the smallest loss, since all candidates see the same folds.
    """

    n_folds: int
    columns: dict[str, AnyArray]

    def faults(self) -> Iterator[str]:
        """Columns of one length, with a row that was chosen."""
        if len({column.shape for column in self.columns.values()}) != 1:
            yield "its columns do not have one length"
        elif not {"beta", "atoms", "chosen"} <= set(self.columns) or not self.columns["chosen"].any():
            yield "its columns do not say what was chosen"

    @property
    def beta(self) -> float:
        """The chosen beta, or the one that was given."""
        return float(self.columns["beta"][self.columns["chosen"]][-1])

    @property
    def n_atoms(self) -> int:
        """The chosen number of atoms, or the one that was given."""
        return int(self.columns["atoms"][self.columns["chosen"]][-1])


def is_cv(value: object) -> bool:
    """Whether a parameter asks for selection on held-out rows."""
    return isinstance(value, str) and value == "cv"


def beta_candidates(automatic: float) -> tuple[float, ...]:
    """The automatic beta times `BETA_FACTORS`.

    >>> beta_candidates(6400.0)
    (100.0, 200.0, 400.0, 800.0, 1600.0, 3200.0, 6400.0)
    """
    return tuple(automatic * factor for factor in BETA_FACTORS)


def atom_candidates(n_rows: int) -> tuple[int, ...]:
    """The automatic number of atoms, and those of `ATOM_COUNTS` up to twice as many.

    >>> atom_candidates(794), atom_candidates(100)
    ((26, 51, 57, 101), (21, 26))
    """
    automatic = automatic_n_atoms(n_rows)
    return tuple(sorted({automatic, *(count for count in ATOM_COUNTS if count <= 2 * automatic)}))


class Selectable(Protocol):
    """A post-processor, as far as selection asks: its settings, a fit on rows, and what that came to."""

    parity: str | ParityNotion
    epsilon: Any
    beta: Any
    atoms: Any
    tol: float
    random_state: RandomState
    policy_: SoftmaxPolicy
    multipliers_: FloatArray
    step_: ParityStep

    def set_params(self, **settings: Any) -> Self:
        """Change settings."""
        ...

    def _fit_rows(self, rows: Rows) -> Self:
        """Fit on checked rows."""
        ...


def select(model: Selectable, rows: Rows, step: ParityStep) -> Selection:
    """Choose what `model` leaves to "cv": beta first, then the number of atoms at that beta.

    One after the other, since they hardly meet: the atoms' cost is the discretisation, beta's the noise.

    Parameters
    ----------
    model : ParityPostprocessor
        Copies of it are fitted; itself it is left alone.
    rows : Rows
    step : ParityStep
        Of all the rows; the bounds of its grid and its parity hold in every fold. Its beta is the automatic
        one, or the user's.
    """
    grid, beta = step.grid, step.beta
    template: Selectable = clone(model).set_params(
        parity=step.parity,
        epsilon=step.epsilon,
        warm_start=True,
        tol=max(float(model.tol), FOLD_TOL),
        beta=beta,
    )
    if np.isfinite(grid.bounds).all():
        template.set_params(bounds=grid.bounds)
    n_atoms = len(grid.atoms)
    folds = _folds(rows, model.random_state)
    tables: list[dict[str, AnyArray]] = []
    if isinstance(model.atoms, str):
        template.set_params(atoms=n_atoms)  # those of all the rows, in every fold
    if is_cv(model.beta):
        betas = beta_candidates(beta)
        tables.append(_search("beta", template, betas, rows, folds) | {"beta": np.array(betas)})
        tables[-1]["atoms"] = np.full(len(betas), n_atoms)
        beta = float(np.array(betas)[tables[-1]["chosen"]][0])
    if is_cv(model.atoms):
        counts = atom_candidates(len(rows.scores))
        template.set_params(beta=beta)
        tables.append(_search("atoms", template, counts, rows, folds) | {"atoms": np.array(counts)})
        tables[-1]["beta"] = np.full(len(counts), beta)
    names = [
        "searched",
        "beta",
        "atoms",
        "risk",
        "risk_se",
        "excess",
        "excess_se",
        "excess_cost",
        "loss",
        "loss_se",
        "chosen",
    ]
    columns = {name: np.concatenate([table[name] for table in tables]) for name in names}
    return Selection(n_folds=len(folds), columns=columns)


@dataclass(frozen=True, slots=True, eq=False)
class _FoldFit:
    """What the fit of one candidate without a fold does on the rows of that fold."""

    measures: Measures  # against the scores; a row counts in each group by its probability
    price: FloatArray  # risk for a unit of epsilon, (n_groups,)
    grid: Grid  # that of the fits on all folds


def _search(
    name: str, template: Selectable, candidates: Sequence[float], rows: Rows, folds: Sequence[IntArray]
) -> dict[str, AnyArray]:
    """Measure every candidate on every fold, and choose."""
    by_fold = [list(_fold_measures(name, template, candidates, rows, fold)) for fold in folds]
    n_folds = len(folds)
    samples = [range(n_folds), *([k for k in range(n_folds) if k != left_out] for left_out in range(n_folds))]
    summaries = np.array(
        [
            [_summary(template, [by_fold[k][c] for k in sample]) for c in range(len(candidates))]
            for sample in samples
        ]
    )  # (1 + n_folds, n_candidates, 3): of all folds, then without each
    risk, excess, cost = np.moveaxis(summaries, 2, 0)
    loss = risk + cost
    best = int(np.argmin(loss[0]))
    error = _jackknife(loss[1:] - loss[1:, [best]])
    chosen = int(np.argmax(loss[0] - loss[0, best] <= error))  # the first of them
    return {
        "searched": np.full(len(candidates), name),
        "risk": risk[0],
        "risk_se": _jackknife(risk[1:]),
        "excess": excess[0],
        "excess_se": _jackknife(excess[1:]),
        "excess_cost": cost[0],
        "loss": loss[0],
        "loss_se": error,
        "chosen": np.arange(len(candidates)) == chosen,
    }


def _jackknife(without: FloatArray) -> FloatArray:
    """Standard error of an estimate from its values without each fold, (n_folds, n_candidates)."""
    _, exponent = np.frexp(np.abs(without).max())  # squares of large risks would be infinite
    error = np.sqrt((len(without) - 1) * np.ldexp(without, -exponent).var(axis=0))
    scaled: FloatArray = np.ldexp(error, exponent)
    return scaled


def _fold_measures(
    name: str, template: Selectable, candidates: Iterable[float], rows: Rows, held_out: IntArray
) -> Iterator[_FoldFit]:
    """Measures on the held-out rows, candidate by candidate, each fit warm-started from the last."""
    model: Selectable = clone(template)
    part, measured = rows.without(held_out), ScoredRows.of(rows).take(held_out)
    for candidate in candidates:
        with warnings.catch_warnings():
            # clipping is told once, of all the rows; a candidate that is hard to solve is still measured
            warnings.simplefilter("ignore", ClippingWarning)
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.set_params(**{name: candidate})
            model._fit_rows(part)
        yield _measure(model, measured)


def _measure(model: Selectable, held_out: ScoredRows) -> _FoldFit:
    policy, grid = model.policy_, model.policy_.grid
    if held_out.scores.ndim == 1:  # the cost is that of scores within the bounds
        held_out = replace(held_out, target=grid.clip(held_out.scores))
    return _FoldFit(held_out.measure(policy), _price(model), grid)


def _price(model: Selectable) -> FloatArray:
    """What the risk falls by for each unit of a group's epsilon, in the user's units, (n_groups,)."""
    cost, grid = model.policy_.cost, model.policy_.grid
    parity = model.step_.make_parity()
    price = parity.norm.dual(model.multipliers_) * cost.unit(grid)
    return price / grid.half_width if parity.in_outcome_units else price


def _summary(template: Selectable, fits: Sequence[_FoldFit]) -> tuple[float, float, float]:
    """Risk, excess of the worst group, and the excess of all at its price, over some of the folds.

    The groups' shares are those of the held-out rows, so the violation is the distance between the
    distributions there.
    """
    total = reduce(add, [fit.measures for fit in fits])
    price, grid = np.sum([fit.price for fit in fits], axis=0), fits[0].grid
    parity = make_parity(template.parity, grid)
    there = total.weights[:-1] > 0
    gaps = -total.spread.some(there).gaps().T
    scale = grid.half_width if parity.in_outcome_units else 1.0
    violation = scale * parity.norm.value(parity.operator.apply(gaps))
    excess = np.maximum(violation - template.epsilon[there], 0.0)
    return total.risk, float(excess.max()), float(price[there] @ excess) / len(fits)


def count_folds(n_rows: int) -> int:
    """Number of folds; refuses rows that are too few to hold any out."""
    if n_rows < 2 * FEWEST_FOLD_ROWS:
        raise ValueError(
            f'beta="cv" and atoms="cv" need at least {2 * FEWEST_FOLD_ROWS} rows: got {n_rows}. '
            'Use "auto", or give a number.'
        )
    return min(MOST_FOLDS, n_rows // FEWEST_FOLD_ROWS)


def _folds(rows: Rows, random_state: object) -> list[IntArray]:
    """Held-out rows of each fold: shuffled, and dealt out by the likeliest group."""
    n_rows = len(rows.scores)
    n_folds = count_folds(n_rows)
    seed = int(random_state) if isinstance(random_state, Integral) else 0
    shuffled = np.random.default_rng(seed).permutation(n_rows)
    likeliest = rows.group_proba.argmax(axis=1)
    dealt = shuffled[np.argsort(likeliest[shuffled], kind="stable")]
    folds = [np.sort(dealt[k::n_folds]) for k in range(n_folds)]
    _require_groups(rows, folds)
    return folds


def _require_groups(rows: Rows, folds: Iterable[IntArray]) -> None:
    total = rows.group_proba.sum(axis=0)
    for fold in folds:
        rest = np.delete(rows.group_proba, fold, axis=0)
        absent = np.flatnonzero(~(rest > 0).any(axis=0) & (total > 0))
        if len(absent):
            raise ValueError(
                f"Group {rows.groups[absent[0]]!r} has a probability above zero in too few rows for "
                'beta="cv" and atoms="cv": all of them are in one fold. Use "auto", or give a number.'
            )
