"""Parity notions: a linear operator over atoms, and a norm over its rows.

The violation of group s is the vector `V_s = A E[pi(. | X) t_s(X)]`; a notion asks `norm(V_s) <=
epsilon_s`. Its multipliers `Phi_s` enter the dual through the tilt `A^T Phi_s` and the penalty
`epsilon_s * dualnorm(Phi_s)`. A notion also carries the name of the distance that it bounds, and the words
in which reports and tables tell of it, so that one from outside needs no list elsewhere.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from evenhand._utils.typing import FloatArray
from evenhand._utils.validation import as_floats
from evenhand.dual.grid import Grid
from evenhand.dual.notion import Parity, ParityNotion
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
from evenhand.dual.thresholds import Thresholds

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
    "Thresholds",
    "TvParity",
    "W1Parity",
    "find_parity",
    "make_parity",
    "matrix",
    "register_parity",
    "resolve_parity",
]

METRICS = ("ks", "sup", "mean", "tv", "w1")  # distances of `evenhand.metrics` that a notion can bound
ALIASES = {"ks": "cdf"}  # a notion by the name of its distance


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
    notion.name: notion
    for notion in (PmfParity(), CdfParity(), MeanParity(), TvParity(), W1Parity(), Thresholds())
}
BUILT_IN = frozenset(PARITIES)
_TAKEN = frozenset({*BUILT_IN, *METRICS, "w2"})  # names that have a meaning already


def register_parity(notion: ParityNotion) -> None:
    """Let `parity=notion.name` stand for `notion`, and audits and frontiers measure a distance of its own.

    A notion of the same name that was registered before is replaced, but for those of evenhand itself.

    Parameters
    ----------
    notion : ParityNotion
        An object, not its class. Its name may be none of evenhand's own notions and distances;
        docs/how-to/extending.md has one all the way.
    """
    PARITIES[_check(notion).name] = notion


def find_parity(parity: str | ParityNotion) -> ParityNotion:
    """The notion that a name stands for, with its numbers if it takes any; a notion is returned as it is.

    Parameters
    ----------
    parity : str or ParityNotion
        A registered name, or "name:text" for a notion that reads numbers from a text; "ks" is "cdf".

    Examples
    --------
    >>> import evenhand as eh
    >>> eh.parity.find_parity("ks"), eh.parity.find_parity("thresholds:600,50%")
    (CdfParity(), Thresholds(thresholds=(600.0,), quantiles=(0.5,)))
    """
    if not isinstance(parity, str):
        return _check(parity)
    name, colon, numbers = parity.partition(":")
    name = ALIASES.get(name, name)
    if name not in PARITIES:
        raise ValueError(
            f"Unknown parity {parity!r}. Valid names: {', '.join(sorted(PARITIES))}. One of your own "
            "has to be registered first: evenhand.parity.register_parity, or --plugin on the command line."
        )
    return PARITIES[name].read(numbers) if colon else PARITIES[name]


def resolve_parity(
    parity: str | ParityNotion, scores: FloatArray, weights: FloatArray | None
) -> str | ParityNotion:
    """A parity with what its notion learns from scores; a name that needs nothing stays a name.

    Parameters
    ----------
    parity : str or ParityNotion
        As in `find_parity`.
    scores : array of shape (n_rows,) or (n_rows, n_classes)
        Scores of the rows of the parity step, or their class probabilities.
    weights : array of shape (n_rows,) or None
        What each row counts; None: all the same.

    Examples
    --------
    >>> import numpy as np
    >>> import evenhand as eh
    >>> eh.parity.resolve_parity("thresholds:50%", np.array([1.0, 2.0, 5.0]), None).cutoffs
    array([2.])
    >>> eh.parity.resolve_parity("cdf", np.array([1.0, 2.0, 5.0]), None)
    'cdf'
    """
    notion = find_parity(parity)
    resolved = notion.resolve(scores, weights)
    return parity if resolved is notion else resolved


def make_parity(parity: str | ParityNotion, atoms: FloatArray | Grid) -> Parity:
    """A parity notion, or the one called so, on a grid of atoms or on atoms that need no scaling.

    Parameters
    ----------
    parity : str or ParityNotion
        As in `find_parity`.
    atoms : array of shape (n_atoms,) or Grid
        What can be predicted, increasing. An array is taken as it is. A grid's atoms are scaled to [-1, 1]
        for a notion that is `in_outcome_units`.

    Examples
    --------
    >>> import numpy as np
    >>> import evenhand as eh
    >>> eh.parity.make_parity("cdf", np.array([-1.0, 0.0, 1.0])).operator.n_rows
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
    if name in _TAKEN and type(notion) is not type(PARITIES.get(name)):
        raise ValueError(f"The name {name!r} is taken by evenhand itself: give the notion another.")
    if notion.metric not in (name, *METRICS):
        raise ValueError(
            f"metric of parity {name!r} must be its own name, or one of {', '.join(METRICS)}: got "
            f"{notion.metric!r}."
        )
    return notion
