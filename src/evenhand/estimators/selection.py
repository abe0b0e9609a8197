"""Choice of beta and of the number of atoms on held-out rows.

High beta follows the rows of the fit closely: it saves risk, and keeps parity less well on new rows. Both
sides are seen by fitting on some rows and measuring on others, and neither needs a label.
"""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from numbers import Integral
from operator import add
from typing import Any

import numpy as np
from sklearn.base import clone

from evenhand._utils.stored import Stored
from evenhand._utils.typing import AnyArray, FloatArray, IntArray
from evenhand._utils.validation import Rows
from evenhand.dual.costs import CostMatrix, expected_costs, make_cost
from evenhand.dual.grid import Support, automatic_n_atoms, make_class_support, make_support
from evenhand.dual.imbalance import stratum_sums
from evenhand.dual.parity import make_parity
from evenhand.exceptions import ClippingWarning, ConvergenceWarning

BETA_FACTORS = tuple(2.0**-k for k in range(6, -1, -1))  # of the automatic beta, 1/64 to 1
ATOM_COUNTS = (26, 51, 101, 201)
MOST_FOLDS, FEWEST_FOLD_ROWS = 5, 10
FOLD_TOL = 1e-4  # of the fits on folds: far below the noise of what is measured there
BLOCK_ENTRIES = 1 << 20  # of a pmf held at once


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


def select(model: Any, rows: Rows, epsilon: FloatArray, support: Support, beta: float) -> Selection:
    """Choose what `model` leaves to "cv": beta first, then the number of atoms at that beta.

    One after the other, since they hardly meet: the atoms' cost is the discretisation, beta's the noise.

    Parameters
    ----------
    model : ParityPostprocessor
        Copies of it are fitted; itself it is left alone.
    rows : Rows
    epsilon : array of shape (n_groups,)
    support : Support
        Of all the rows; its bounds hold in every fold.
    beta : float
        The automatic one, or the user's.
    """
    template = clone(model).set_params(
        epsilon=epsilon, warm_start=True, tol=max(float(model.tol), FOLD_TOL), beta=beta
    )
    if np.isfinite(support.bounds).all():
        template.set_params(bounds=support.bounds)
    n_atoms = len(support.atoms)
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
class _HeldOut:
    """Sums over the held-out rows of one fold, for one candidate."""

    weight: float
    risk: float
    masses: FloatArray  # E[pi tau^T], (n_atoms, n_groups)
    price: FloatArray  # risk for a unit of epsilon, (n_groups,)
    strata: IntArray | None

    def __add__(self, other: "_HeldOut") -> "_HeldOut":
        return _HeldOut(
            self.weight + other.weight,
            self.risk + other.risk,
            self.masses + other.masses,
            self.price + other.price,
            self.strata,
        )


def _search(
    name: str, template: Any, candidates: Sequence[float], rows: Rows, folds: Sequence[IntArray]
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
    error: FloatArray = np.sqrt((len(without) - 1) * without.var(axis=0))
    return error


def _fold_measures(
    name: str, template: Any, candidates: Iterable[float], rows: Rows, held_out: IntArray
) -> Iterator[_HeldOut]:
    """Sums over the held-out rows, candidate by candidate, each fit warm-started from the last."""
    model, part = clone(template), rows.without(held_out)
    for candidate in candidates:
        with warnings.catch_warnings():
            # clipping is told once, of all the rows; a candidate that is hard to solve is still measured
            warnings.simplefilter("ignore", ClippingWarning)
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.set_params(**{name: candidate})
            model._fit_rows(part)
        yield _measure(model, rows, held_out)


def _measure(model: Any, rows: Rows, held_out: IntArray) -> _HeldOut:
    policy, support = model.policy_, model.policy_.support
    atoms = support.normalised()
    n_rows = len(rows.scores)
    weights = np.full(n_rows, 1.0 / n_rows) if rows.weights is None else rows.weights
    masses = np.zeros((len(atoms), rows.group_proba.shape[1]))
    risk = 0.0
    size = max(1, BLOCK_ENTRIES // len(atoms))
    for start in range(0, len(held_out), size):
        block = held_out[start : start + size]
        scores, proba, weight = rows.scores[block], rows.group_proba[block], weights[block]
        pmf = policy.pmf(scores, proba)
        masses += pmf.T @ (weight[:, None] * proba)
        risk += float(weight @ expected_costs(pmf, *policy.cost_terms(scores)))
    unit = policy.cost.unit(support)
    parity = make_parity(model.parity, support)
    price = parity.norm.dual(model.multipliers_) * unit
    return _HeldOut(
        float(weights[held_out].sum()),
        risk * unit,
        masses,
        price / support.half_width if parity.in_outcome_units else price,
        rows.strata,
    )


def _summary(template: Any, measures: Sequence[_HeldOut]) -> tuple[float, float, float]:
    """Risk, excess of the worst group, and the excess of all at its price, over some of the folds.

    The groups' shares are those of the held-out rows, so the violation is the distance between the
    distributions there.
    """
    total = reduce(add, measures)
    support = _support_of(template, len(total.masses))
    parity = make_parity(template.parity, support)
    shares = total.masses.sum(axis=0)
    there = shares > 0
    everybody = stratum_sums(total.masses, total.strata) / np.maximum(
        stratum_sums(shares, total.strata), np.finfo(float).tiny
    )
    gaps = everybody[:, there] - total.masses[:, there] / shares[there]
    scale = support.half_width if parity.in_outcome_units else 1.0
    violation = scale * parity.norm.value(parity.operator.apply(gaps))
    excess = np.maximum(violation - template.epsilon[there], 0.0)
    cost = float(total.price[there] @ excess) / len(measures)
    return total.risk / total.weight, float(excess.max()), cost


def _support_of(template: Any, n_atoms: int) -> Support:
    """The support that the fits on all folds share."""
    if isinstance(cost := make_cost(template.cost), CostMatrix):
        return make_class_support(template.atoms, cost.matrix.shape[1])
    atoms = n_atoms if isinstance(template.atoms, Integral) else template.atoms
    return make_support(atoms, template.bounds, np.empty(0))


def _folds(rows: Rows, random_state: object) -> list[IntArray]:
    """Held-out rows of each fold: shuffled, and dealt out by the likeliest group."""
    n_rows = len(rows.scores)
    n_folds = min(MOST_FOLDS, n_rows // FEWEST_FOLD_ROWS)
    if n_folds < 2:
        raise ValueError(
            f'beta="cv" and atoms="cv" need at least {2 * FEWEST_FOLD_ROWS} rows: got {n_rows}. '
            'Use "auto", or give a number.'
        )
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
