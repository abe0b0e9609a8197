"""What every method of the comparison is: a name, what it may be asked for, and how it is fitted."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

from benchmarks.peers.cells import Cell
from benchmarks.peers.measure import Prediction

Predict = Callable[[], Prediction]


class Method(ABC):
    """One method: `fit` learns on the training rows of a cell, and what it returns predicts the test rows."""

    name: ClassVar[str]
    package: ClassVar[str]  # as pip knows it
    tasks: ClassVar[tuple[str, ...]]
    modes: ClassVar[tuple[str, ...]] = ("aware",)
    setting: ClassVar[str] = ""  # what the knob is called there
    knobs: ClassVar[tuple[float, ...]] = (0.0,)
    how: ClassVar[str] = ""  # how it is used, in a sentence

    def __init__(self, aware: bool) -> None:
        self.aware = aware

    def knobs_for(self, learner: str) -> tuple[float, ...]:
        """Values to try, the strictest first; fewer where a fit trains many slow models."""
        return self.knobs

    @abstractmethod
    def fit(self, cell: Cell, knob: float) -> Predict:
        """Learn with one value of the knob."""

    def shared_seconds(self, cell: Cell) -> float:
        """Time of the cross-fitted scores that this method was given; they are made once for all."""
        return 0.0


class AfterScores(Method):
    """A step after a model: it is given the scores of the cell."""

    uses_group_proba: ClassVar[bool] = False

    def shared_seconds(self, cell: Cell) -> float:
        """As for every method; the model of the group counts where it is used."""
        seconds = cell.scores(self.aware).seconds
        return seconds + (cell.group_proba.seconds if self.uses_group_proba and not self.aware else 0.0)
