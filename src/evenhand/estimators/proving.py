"""A tolerance whose promise to new people is proved, on rows that were set aside for that."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from evenhand._utils.typing import FloatArray
from evenhand._utils.validation import Rows
from evenhand.certificates import Promise
from evenhand.certificates.samples import BOUNDED, HeldOutSample, read_sample
from evenhand.certificates.sequence import SequenceCertificate, choose_in_sequence
from evenhand.dual.parity import ParityNotion, Thresholds, find_parity
from evenhand.dual.policy import SoftmaxPolicy
from evenhand.dual.step import ParityStep
from evenhand.estimators.chance import chance_shown
from evenhand.estimators.judged_rows import MOST_JUDGED, JudgedRows
from evenhand.metrics.distances import Metric
from evenhand.metrics.measure import ScoredRows
from evenhand.solvers import Solver, Status, run

# Shares of epsilon in the order in which they are tested, fixed before any row is seen: the safest first.
SHARES = (0.05, 0.15, 0.3, 0.45, 0.6, 0.7, 0.8, 0.9, 1.0)


def prove_tolerance(
    step: ParityStep, solver: Solver[Any], rows: Rows, calibration: ScoredRows, confidence: float
) -> Promise:
    """The last of the tolerances that `calibration` proves to keep epsilon, or the least where none is.

    Its rows are of known groups, and had no part in the models nor in the step. See `certify_sequence` for
    why trying several costs nothing.
    """
    metric = provable_metric(step.parity)
    members, inputs = calibration.members, (calibration.scores, calibration.group_proba)
    shown: list[FloatArray] = []

    def samples() -> Iterator[HeldOutSample]:
        start = None
        for share in SHARES:
            part = replace(step, epsilon=share * step.epsilon)
            result = run(solver, part.problem(rows), start=start)
            if result.status is Status.STOPPED:
                raise KeyboardInterrupt
            start = result.multipliers
            policy = part.policy(start)
            if not shown:
                shown.append(_chance(step, policy, calibration))
            yield read_sample(_Predictor(step.grid.atoms, policy.pmf), members, metric, X=inputs)

    found = choose_in_sequence(samples(), step.epsilon, 1.0 - confidence)
    chosen = 0 if found.chosen is None else found.chosen
    measured, chance = found.estimate[chosen], shown[0]
    return Promise(
        groups=members.labels,
        epsilon=step.epsilon,
        tolerance=SHARES[chosen] * step.epsilon,
        measured=measured,
        chance=chance,
        expected=measured,
        bound=found.upper[chosen],
        confidence=confidence,
        n_rows=members.n_rows,
        rows_needed=_rows_needed(found, step.epsilon, shown[0], members.n_rows),
        proved=True,
        due_to_models=np.sqrt(np.maximum(measured**2 - chance**2, 0.0)),
        within=members.strata is not None,
    )


def provable_metric(parity: str | ParityNotion) -> Metric:
    """The distance that a parity bounds; refuses one of which held-out rows prove nothing."""
    notion = find_parity(parity)
    if isinstance(notion, Thresholds):
        return notion
    if notion.metric not in BOUNDED:
        raise ValueError(
            f"There is no proof for parity {notion.name!r}: only for distances {', '.join(BOUNDED)}. Leave "
            "X_calibration out, and epsilon rests on cross-fitting."
        )
    return notion.metric


class _Predictor(NamedTuple):
    """A policy as certificates ask for it, block by block."""

    atoms_: FloatArray
    predict_pmf: Callable[[FloatArray, FloatArray], FloatArray]


def _chance(step: ParityStep, policy: SoftmaxPolicy, rows: ScoredRows) -> FloatArray:
    """What chance shows on the rows; of many it is drawn from some, and falls with the root of the number."""
    n_rows = rows.members.n_rows
    some = rows
    if n_rows > MOST_JUDGED:
        kinds = rows.members.codes
        some = rows.take(JudgedRows.choose([np.arange(n_rows)], kinds).places)
    chance = chance_shown(step, policy.pmf(some.scores, some.group_proba), some.members)
    scale = np.sqrt(some.members.totals()[:-1] / rows.members.totals()[:-1])
    return chance * scale


def _rows_needed(
    found: SequenceCertificate, epsilon: FloatArray, chance: FloatArray, n_rows: int
) -> int | None:
    """About how many would do: what a bound adds to the truth falls with the root of their number."""
    stays = np.sqrt(np.maximum(found.estimate[0] ** 2 - chance**2, 0.0))
    if found.chosen is not None or (stays >= epsilon).any():
        return None
    return int(np.ceil(n_rows * (((found.upper[0] - stays) / (epsilon - stays)) ** 2).max()))
