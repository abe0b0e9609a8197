"""A tolerance whose promise to new people is proved, on rows that were set aside for that."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from evenhand._utils.typing import FloatArray
from evenhand._utils.validation import Rows
from evenhand.certificates import OutOfSample
from evenhand.certificates.samples import BOUNDED, HeldOutSample, read_sample
from evenhand.certificates.sequence import SequenceCertificate, choose_in_sequence
from evenhand.data.sampling import sample_places
from evenhand.dual.parity import ParityNotion, Thresholds, find_parity
from evenhand.dual.policy import SoftmaxPolicy
from evenhand.dual.step import ParityStep
from evenhand.generalization.out_of_sample import HeldOutRows, OutOfSampleEstimator
from evenhand.metrics.distances import Metric, find_distance
from evenhand.metrics.measure import ScoredRows
from evenhand.solvers import Solver, Status, run

# Shares of epsilon in the order in which they are tested, fixed before any row is seen: the safest first.
SHARES = (0.05, 0.15, 0.3, 0.45, 0.6, 0.7, 0.8, 0.9, 1.0)


def prove_tolerance(
    step: ParityStep, solver: Solver[Any], rows: Rows, calibration: ScoredRows, confidence: float
) -> OutOfSample:
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
                shown.append(_noise(step, policy, calibration))
            yield read_sample(_Predictor(step.grid.atoms, policy.pmf), members, metric, X=inputs)

    found = choose_in_sequence(samples(), step.epsilon, 1.0 - confidence)
    chosen = 0 if found.chosen is None else found.chosen
    measured, noise = found.estimate[chosen], shown[0]
    return OutOfSample(
        groups=members.labels,
        epsilon=step.epsilon,
        tolerance=SHARES[chosen] * step.epsilon,
        measured=measured,
        noise=noise,
        expected=measured,
        bound=found.upper[chosen],
        confidence=confidence,
        ratio=float((found.upper[chosen] / np.maximum(step.epsilon, np.finfo(float).tiny)).max()),
        n_rows=members.n_rows,
        rows_needed=_rows_needed(found, step.epsilon, shown[0], members.n_rows),
        proved=True,
        systematic=np.sqrt(np.maximum(measured**2 - noise**2, 0.0)),
        strata=members.strata is not None,
        distance=find_distance(step.parity).phrase,
    )


def provable_metric(parity: str | ParityNotion) -> Metric:
    """The distance that a parity bounds; refuses one of which held-out rows prove nothing."""
    notion = find_parity(parity)
    if isinstance(notion, Thresholds):
        return notion
    if notion.metric not in BOUNDED:
        raise ValueError(
            f"There is no proof for parity {notion.name!r}: only for distances {', '.join(BOUNDED)}. Leave "
            "calibration_data out, and epsilon rests on cross-validation."
        )
    return notion.metric


class _Predictor(NamedTuple):
    """A policy as certificates ask for it, block by block."""

    atoms_: FloatArray
    predict_pmf: Callable[[FloatArray, FloatArray], FloatArray]


def _noise(step: ParityStep, policy: SoftmaxPolicy, rows: ScoredRows) -> FloatArray:
    """Distance that sampling noise shows on the rows; of many, on a sample, scaled to their number."""
    members = rows.members
    known = np.column_stack([members.column(group) for group in range(len(members.labels))])
    some = sample_places(members.codes)
    sample = Rows(rows.scores[some], rows.group_proba[some], members.labels, None, members.strata)
    estimator = OutOfSampleEstimator(step, sample, HeldOutRows(sample, known[some]))
    noise: FloatArray = estimator.sampling_noise(policy)
    scale: FloatArray = np.sqrt(known[some].sum(axis=0) / known.sum(axis=0))
    return noise * scale


def _rows_needed(
    found: SequenceCertificate, epsilon: FloatArray, noise: FloatArray, n_rows: int
) -> int | None:
    """About how many would do: what a bound adds to the truth falls with the root of their number."""
    stays = np.sqrt(np.maximum(found.estimate[0] ** 2 - noise**2, 0.0))
    if found.chosen is not None or (stays >= epsilon).any():
        return None
    return int(np.ceil(n_rows * (((found.upper[0] - stays) / (epsilon - stays)) ** 2).max()))
