"""equipy, OxonFair and error-parity."""

import numpy as np
from equipy.fairness import FairWasserstein
from error_parity import RelaxedThresholdOptimizer
from oxonfair import FairPredictor
from oxonfair import group_metrics as gm

from benchmarks.peers.cells import TASKS, Cell
from benchmarks.peers.measure import Decisions
from benchmarks.peers.methods.base import AfterScores, Predict
from benchmarks.peers.methods.simple import plain

N_DRAWS = 50  # of error-parity's random decisions, whose chances it does not tell


class Equipy(AfterScores):
    """`FairWasserstein`: scores moved to the barycentre of the groups."""

    name = "equipy FairWasserstein"
    package = "equipy"
    tasks = TASKS
    setting = "epsilon"
    knobs = (0.0, 0.25, 0.5)
    how = (
        "`FairWasserstein` fitted to the cross-fitted scores; `epsilon` is the share of the old score "
        "that is kept. Of decisions it moves the probability, which is then compared with one half."
    )

    def fit(self, cell: Cell, knob: float) -> Predict:
        scores = cell.scores(aware=True)
        step = FairWasserstein()
        step.fit(scores.train, cell.groups)

        def predict():  # type: ignore[no-untyped-def]
            moved = step.transform(scores.test, cell.groups_test, epsilon=knob)
            return plain(cell.task, moved > 0.5 if cell.task == "classification" else moved)

        return predict


class OxonFair(AfterScores):
    """`FairPredictor` with known groups."""

    name = "OxonFair"
    package = "oxonfair"
    tasks = ("classification",)
    setting = "demographic_parity <="
    knobs = (0.01, 0.05, 0.1)
    how = (
        "`FairPredictor.fit(accuracy, demographic_parity, value)` on the cross-fitted probabilities; its "
        "frontier is found once and asked for each value, as its documentation has it."
    )

    def __init__(self, aware: bool) -> None:
        super().__init__(aware)
        self._found: tuple[Cell, FairPredictor] | None = None

    def fit(self, cell: Cell, knob: float) -> Predict:
        again = self._found is not None and self._found[0] is cell
        step = self._found[1] if self._found is not None and again else self.predictor(cell)
        step.fit(gm.accuracy, gm.demographic_parity, knob, recompute=not again)
        self._found = cell, step
        rows = self.test_rows(cell)
        decided = step.predict(rows)  # here, since the next value changes the predictor
        return lambda: plain(cell.task, decided)

    def predictor(self, cell: Cell) -> FairPredictor:
        """Not searched yet."""
        rows = {"data": _both(cell.scores(aware=True).train), "target": cell.y, "groups": cell.groups}
        return FairPredictor(None, rows)

    def test_rows(self, cell: Cell) -> dict[str, np.ndarray]:
        """As `predict` wants them; it asks for a target and does not read it."""
        chances = _both(cell.scores(aware=True).test)
        return {"data": chances, "groups": cell.groups_test, "target": np.zeros(len(chances))}


class OxonFairInferred(OxonFair):
    """`FairPredictor` with groups that a model infers."""

    name = "OxonFair, inferred groups"
    modes = ("unaware",)
    uses_group_proba = True
    how = (
        "The same with `inferred_groups`: the cross-fitted group probabilities, its other settings as "
        "they come."
    )

    def predictor(self, cell: Cell) -> FairPredictor:
        """It is given class and group probabilities side by side."""
        rows = np.column_stack([_both(cell.scores(aware=False).train), cell.group_proba.train])
        return FairPredictor(
            lambda given: given[:, :2].copy(),
            {"data": rows, "target": cell.y, "groups": cell.groups},
            inferred_groups=lambda given: given[:, 2:],
            **self.options(),
        )

    def test_rows(self, cell: Cell) -> dict[str, np.ndarray]:
        """Class and group probabilities side by side."""
        rows = np.column_stack([_both(cell.scores(aware=False).test), cell.group_proba.test])
        return {"data": rows, "target": np.zeros(len(rows))}

    def options(self) -> dict[str, object]:
        """Settings of the predictor beyond its defaults."""
        return {}


class OxonFairHybrid(OxonFairInferred):
    """The same with thresholds that are linear in the group probabilities."""

    name = "OxonFair, inferred groups, hybrid"
    how = "The same with `use_fast='hybrid'`, which goes on from there with the probabilities themselves."

    def options(self) -> dict[str, object]:
        """Start fast, then search over weights of the group probabilities."""
        return {"use_fast": "hybrid"}


class ErrorParity(AfterScores):
    """`RelaxedThresholdOptimizer` under demographic parity."""

    name = "error-parity"
    package = "error-parity"
    tasks = ("classification",)
    setting = "tolerance"
    knobs = (0.0, 0.05, 0.1)
    how = (
        "`RelaxedThresholdOptimizer(constraint='demographic_parity', tolerance=...)` on the cross-fitted "
        f"probabilities; the chance of a decision is the mean of {N_DRAWS} draws."
    )

    def fit(self, cell: Cell, knob: float) -> Predict:
        scores = cell.scores(aware=True)
        step = RelaxedThresholdOptimizer(
            predictor=lambda rows: rows[:, 0],
            constraint="demographic_parity",
            tolerance=knob,
            seed=cell.seed,
        )
        step.fit(X=scores.train[:, None], y=cell.y, group=cell.groups)
        rows, groups = scores.test[:, None], cell.groups_test
        return lambda: Decisions(np.mean([step.predict(rows, group=groups) for _ in range(N_DRAWS)], axis=0))


def _both(chances: np.ndarray) -> np.ndarray:
    return np.column_stack([1.0 - chances, chances])
