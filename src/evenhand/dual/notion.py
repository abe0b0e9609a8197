"""What a parity notion is: a linear operator over atoms, a norm over its rows, and words to tell of it."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from evenhand._utils.stored import Stored
from evenhand._utils.typing import FloatArray
from evenhand.dual.operators import Norm, Operator, SupNorm, matrix


@dataclass(frozen=True, slots=True)
class Parity:
    """A parity notion on given atoms."""

    name: str
    operator: Operator
    norm: Norm
    in_outcome_units: bool  # epsilon is a difference of outcomes, not of probabilities
    unavoidable: float = 0.0  # share of |E[t_s]| that every policy violates, see `smallest_feasible`

    def smallest_feasible(self, mean_imbalance: FloatArray) -> FloatArray:
        """Smallest tolerance that some policy meets, when `E[t_s]` is not zero: (n_groups,).

        Parameters
        ----------
        mean_imbalance : array of shape (n_groups,)
            `E[t_s]`: zero where the group prior is that of the rows.
        """
        return self.unavoidable * np.abs(mean_imbalance)

    def constant_violation(self, mean_imbalance: FloatArray) -> FloatArray:
        """Largest violation among predictions that are the same for all: (n_groups,).

        Such predictions are at perfect parity, so a tolerance below this has lost its meaning: the
        constant at atom l has `V_s = E[t_s] A e_l`.

        Parameters
        ----------
        mean_imbalance : array of shape (n_groups,)
            As in `smallest_feasible`.
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
    models compare notions with `==`. docs/how-to/extending.md takes one all the way.

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

        Parameters
        ----------
        atoms : array of shape (n_atoms,)
            The values that can be predicted, increasing, in the units of the outcomes; in a fit, scaled to
            [-1, 1] where the notion is `in_outcome_units`, which grows with them.
        """

    def norm(self, atoms: FloatArray) -> Norm:
        """The norm over the rows; every row within epsilon by default.

        Parameters
        ----------
        atoms : array of shape (n_atoms,)
            As in `operator`.
        """
        return SupNorm()

    def unavoidable(self, atoms: FloatArray) -> float:
        """Share of `|E[t_s]|` that every policy violates, see `Parity.smallest_feasible`.

        Parameters
        ----------
        atoms : array of shape (n_atoms,)
            As in `operator`.
        """
        return 0.0

    def resolve(self, scores: FloatArray, weights: FloatArray | None) -> "ParityNotion":
        """The same notion with what it has to learn from scores before it is asked for; itself by default.

        A fit calls it, and solves for what it returns. A notion that was resolved equals itself before.

        Parameters
        ----------
        scores : array of shape (n_rows,) or (n_rows, n_classes)
            Scores of the rows of the parity step, or their class probabilities.
        weights : array of shape (n_rows,) or None
            What each row counts; None: all the same.
        """
        return self

    def idle(self, atoms: FloatArray) -> str | None:
        """Why the notion asks for nothing on these atoms, the start of a sentence; None where it does.

        Parameters
        ----------
        atoms : array of shape (n_atoms,)
            The values that can be predicted, increasing, always in the units of the outcomes.
        """
        return None

    def read(self, text: str) -> "ParityNotion":
        """The notion that `parity="name:text"` stands for; by default there is none.

        Parameters
        ----------
        text : str
            All that follows on the first colon.
        """
        raise ValueError(f"parity {self.name!r} takes no numbers: got {self.name + ':' + text!r}.")

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
