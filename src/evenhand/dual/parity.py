"""Parity notions: a linear operator over atoms, and a norm over its rows.

The violation of group s is the vector `V_s = A E[pi(. | X) t_s(X)]`; a notion asks `norm(V_s) <=
epsilon_s`. Its multipliers `Phi_s` enter the dual through the tilt `A^T Phi_s` and the penalty
`epsilon_s * dualnorm(Phi_s)`. A notion also carries the name of the distance that it bounds, and the words
in which reports and tables tell of it, so that one from outside needs no list elsewhere.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenhand._utils.stored import Stored
from evenhand._utils.typing import FloatArray
from evenhand._utils.validation import as_floats
from evenhand.dual.grid import Grid
from evenhand.dual.operators import (
    Cumulative,
    Dense,
    Functional,
    Identity,
    L1Norm,
    Norm,
    Operator,
    SupNorm,
    matrix,
)

__all__ = [
    "METRICS",
    "PARITIES",
    "CdfParity",
    "Cumulative",
    "Dense",
    "Functional",
    "Identity",
    "L1Norm",
    "MeanParity",
    "Norm",
    "Operator",
    "Parity",
    "ParityNotion",
    "PmfParity",
    "SupNorm",
    "TvParity",
    "W1Parity",
    "find_parity",
    "make_parity",
    "matrix",
    "register_parity",
]

METRICS = ("ks", "sup", "mean", "tv", "w1")  # distances of `evenhand.metrics` that a notion can bound


@dataclass(frozen=True, slots=True)
class Parity:
    """A parity notion on given atoms."""

    name: str
    operator: Operator
    norm: Norm
    in_outcome_units: bool  # epsilon is a difference of outcomes, not of probabilities
    unavoidable: float = 0.0  # share of |E[t_s]| that every policy violates, see `smallest_feasible`

    def smallest_feasible(self, mean_imbalance: FloatArray) -> FloatArray:
        """Smallest tolerance that some policy meets, when `E[t_s]` is not zero: (n_groups,)."""
        return self.unavoidable * np.abs(mean_imbalance)

    def constant_violation(self, mean_imbalance: FloatArray) -> FloatArray:
        """Largest violation among predictions that are the same for all: (n_groups,).

        Such predictions are at perfect parity, so a tolerance below this has lost its meaning: the
        constant at atom l has `V_s = E[t_s] A e_l`.
        """
        return float(self.norm.value(matrix(self.operator)).max()) * np.abs(mean_imbalance)

    def diameter(self) -> float:
        """The most that the norm can be between two distributions, or a bound on it.

        It is twice the radius of the atoms around zero, or around the middle of each row where that is less.
        """
        rows = matrix(self.operator)
        middle = (rows.max(axis=1, keepdims=True) + rows.min(axis=1, keepdims=True)) / 2
        return 2.0 * min(float(self.norm.value(each).max()) for each in (rows, rows - middle))


class ParityNotion(Stored, ABC):
    """What has to agree between each group and everybody, on any atoms, and how to tell of it.

    One of your own has a `name` and an `operator`; all else has a default. Make it a frozen dataclass:
    models compare notions with `==`. docs/extending.md takes one all the way.

    Attributes
    ----------
    name : str
        As in `parity="..."`, once it is registered.
    in_outcome_units : bool, default=False
        Epsilon is a difference of outcomes, not of probabilities. The distance then has to grow with the
        outcomes, wherever their zero is: twice the outcomes, twice the distance.
    needs_ties : bool, default=False
        The distance sees no more than whether two predictions are equal, so that it says nothing of scores
        without ties.
    metric : str, default=name
        The distance that it bounds: "ks", "sup", "mean", "tv" or "w1" of `evenhand.metrics`, or its own.
        The latter is the norm of the operator on the difference of two distributions.
    gap_name, asks, meaning : str
        Words of a report: what the distance is called after "largest", and two sentences on what is asked
        ("{epsilon}" stands for the tolerance) and on what the gap of a group is.
    short_name, distance_name : str
        A distance of its own in the head of a table, and in a sentence.
    """

    name: str
    in_outcome_units: bool = False
    needs_ties: bool = False

    @abstractmethod
    def operator(self, atoms: FloatArray) -> Operator | FloatArray:
        """A, or the array of its entries (n_rows, n_atoms).

        `atoms` are the values that can be predicted, increasing, in the units of the outcomes; scaled to
        [-1, 1] where the notion is `in_outcome_units`, which grows with them.
        """

    def norm(self, atoms: FloatArray) -> Norm:
        """The norm over the rows; every row within epsilon by default."""
        return SupNorm()

    def unavoidable(self, atoms: FloatArray) -> float:
        """Share of `|E[t_s]|` that every policy violates, see `Parity.smallest_feasible`."""
        return 0.0

    @property
    def metric(self) -> str:
        """Name of the distance that the notion bounds."""
        return self.name

    @property
    def gap_name(self) -> str:
        """What the distance is called in a report, after "largest"."""
        return "gap"

    @property
    def asks(self) -> str:
        """What is asked for, a sentence in which "{epsilon}" stands for the tolerance."""
        return f"The {self.distance_name} of a group's predictions to everybody's may be at most {{epsilon}}."

    @property
    def meaning(self) -> str:
        """What the gap of a group is, a sentence."""
        return f"The gap of a group is the {self.distance_name} of its predictions to everybody's."

    @property
    def short_name(self) -> str:
        """A distance of its own in the head of a table."""
        return self.name

    @property
    def distance_name(self) -> str:
        """A distance of its own in a sentence."""
        return f"{self.name} distance"


@dataclass(frozen=True)
class PmfParity(ParityNotion):
    """Equal probability of each atom (paper, eq. 2)."""

    name = "pmf"
    metric = "sup"
    asks = (
        "The probability of each single prediction may differ between a group and everybody by at most "
        "{epsilon}."
    )
    meaning = (
        "The gap of a group is the largest difference, over all predictions, between its probability in the "
        "group and its probability among everybody."
    )

    def operator(self, atoms: FloatArray) -> Operator:
        """A."""
        return Identity(len(atoms))

    def unavoidable(self, atoms: FloatArray) -> float:
        """Share of `|E[t_s]|` that every policy violates."""
        # the atoms' violations sum to E[t_s], and the uniform policy shares it out evenly
        return 1.0 / len(atoms)


@dataclass(frozen=True)
class CdfParity(ParityNotion):
    """Equal share of predictions below every threshold: the Kolmogorov-Smirnov distance."""

    name = "cdf"
    metric = "ks"
    asks = (
        "For every threshold, the share of predictions below it may differ between a group and everybody by "
        "at most {epsilon}."
    )
    meaning = (
        "The gap of a group is the largest difference, over all thresholds, between the share of its "
        "predictions below the threshold and the share of everybody's (the Kolmogorov-Smirnov distance)."
    )

    def operator(self, atoms: FloatArray) -> Operator:
        """A."""
        return Cumulative(np.ones(len(atoms) - 1))

    def unavoidable(self, atoms: FloatArray) -> float:
        """Share of `|E[t_s]|` that every policy violates."""
        # the Kolmogorov distance counts the last atom too, where the violation is E[t_s] for any policy
        return 1.0


@dataclass(frozen=True)
class MeanParity(ParityNotion):
    """Equal average prediction."""

    # A constant policy whose mean is zero on the normalised scale has no violation.
    name = metric = "mean"
    in_outcome_units = True
    gap_name = "gap in means"
    asks = "The average prediction of a group may differ from everybody's by at most {epsilon}."
    meaning = "The gap of a group is the difference between its average prediction and everybody's."

    def operator(self, atoms: FloatArray) -> Operator:
        """A."""
        return Functional(atoms)


@dataclass(frozen=True)
class TvParity(ParityNotion):
    """Equal probability of every set of predictions at once: total variation."""

    name = metric = "tv"
    asks = "The total variation distance of a group's predictions to everybody's may be at most {epsilon}."
    meaning = (
        "The gap of a group is the share of its predictions that would have to change for its distribution "
        "to be everybody's (total variation)."
    )

    def operator(self, atoms: FloatArray) -> Operator:
        """A."""
        return Identity(len(atoms))

    def norm(self, atoms: FloatArray) -> Norm:
        """The norm over its rows."""
        return L1Norm(scale=0.5)

    def unavoidable(self, atoms: FloatArray) -> float:
        """Share of `|E[t_s]|` that every policy violates."""
        # the violations sum to E[t_s], so half the sum of their sizes is at least half of that
        return 0.5


@dataclass(frozen=True)
class W1Parity(ParityNotion):
    """Predictions that lie alike, on average over the distribution: Wasserstein-1."""

    # All on the last atom, neither distribution function has begun to rise below it.
    name = metric = "w1"
    in_outcome_units = True
    asks = (
        "The predictions of a group may lie at most {epsilon} away from everybody's, on average over the "
        "distribution."
    )
    meaning = (
        "The gap of a group is how far its predictions would have to move, on average, for its distribution "
        "to be everybody's (Wasserstein-1)."
    )

    def operator(self, atoms: FloatArray) -> Operator:
        """A."""
        return Cumulative(np.diff(atoms))  # the area between two step functions

    def norm(self, atoms: FloatArray) -> Norm:
        """The norm over its rows."""
        return L1Norm()


PARITIES: dict[str, ParityNotion] = {
    notion.name: notion for notion in (PmfParity(), CdfParity(), MeanParity(), TvParity(), W1Parity())
}
_TAKEN = frozenset({*PARITIES, *METRICS, "w2"})  # names that have a meaning already


def register_parity(notion: ParityNotion) -> None:
    """Let `parity=notion.name` stand for `notion`, and audits and frontiers measure a distance of its own.

    A notion of the same name that was registered before is replaced, but for those of evenhand itself.
    """
    PARITIES[_check(notion).name] = notion


def find_parity(parity: str | ParityNotion) -> ParityNotion:
    """The notion that a name stands for; a notion is returned as it is."""
    if not isinstance(parity, str):
        return _check(parity)
    if parity not in PARITIES:
        raise ValueError(
            f"Unknown parity {parity!r}. Valid names: {', '.join(sorted(PARITIES))}. One of your own "
            "has to be registered first: evenhand.parity.register_parity, or --plugin on the command line."
        )
    return PARITIES[parity]


def make_parity(parity: str | ParityNotion, atoms: FloatArray | Grid) -> Parity:
    """A parity notion, or the one called so, on a grid of atoms or on atoms that need no scaling.

    >>> make_parity("cdf", np.array([-1.0, 0.0, 1.0])).operator.n_rows
    2
    """
    notion = find_parity(parity)
    if isinstance(atoms, Grid):
        atoms = atoms.normalised() if notion.in_outcome_units else atoms.atoms
    return Parity(
        notion.name,
        _as_operator(notion, atoms),
        notion.norm(atoms),
        notion.in_outcome_units,
        notion.unavoidable(atoms),
    )


def _as_operator(notion: ParityNotion, atoms: FloatArray) -> Operator:
    """The notion's operator, made of its entries where it gives these."""
    given: Any = notion.operator(atoms)
    if hasattr(given, "adjoint"):
        operator: Operator = given
        return operator
    entries = np.atleast_2d(as_floats(given, f"operator of parity {notion.name!r}"))
    if entries.ndim != 2 or entries.shape[1] != len(atoms) or not np.isfinite(entries).all():
        raise ValueError(
            f"operator(atoms) of parity {notion.name!r} must return finite numbers with a column for each of "
            f"the {len(atoms)} atoms: got shape {entries.shape}."
        )
    return Functional(entries[0]) if len(entries) == 1 else Dense(entries)


def _check(notion: Any) -> ParityNotion:
    if not isinstance(notion, ParityNotion):
        raise ValueError(
            f"parity must be a name ({', '.join(sorted(PARITIES))}) or a notion of a class that extends "
            f"evenhand.parity.ParityNotion: got {notion!r}."
        )
    name = getattr(notion, "name", None)
    if not isinstance(name, str) or not name:
        raise ValueError(f"A parity notion needs a name, as in parity='name': got {name!r} of {notion!r}.")
    if name in _TAKEN and notion != PARITIES.get(name):
        raise ValueError(f"The name {name!r} is taken by evenhand itself: give the notion another.")
    if notion.metric not in (name, *METRICS):
        raise ValueError(
            f"metric of parity {name!r} must be its own name, or one of {', '.join(METRICS)}: got "
            f"{notion.metric!r}."
        )
    return notion
