"""Tolerance, out-of-sample estimate, proved bound and sampling noise, by group."""

import numpy as np

from evenhand._utils.labels import label_text
from evenhand._utils.typing import FloatArray
from evenhand.certificates import OutOfSample
from evenhand.dual.parity import ParityNotion
from evenhand.dual.policy import SoftmaxPolicy
from evenhand.evaluation.heldout import Model
from evenhand.metrics import ScoredRows
from evenhand.metrics.distances import find_distance
from evenhand.reporting.facts import Group, Outlook, Proof
from evenhand.reporting.words import estimate_sentences

N_DRAWS = 100  # of random groups
MOST_DRAWN = 500  # rows of one
MOST_ROWS = 10_000  # that these are drawn from


def describe_estimate(model: Model, *, within: bool) -> Proof:
    """The out-of-sample estimate of the fit, in words and numbers."""
    estimate: OutOfSample | None = model.certificate_.out_of_sample
    summary = getattr(model, "group_summary_", None)
    known = (summary.sentence,) if summary is not None and summary.sentence else ()
    if estimate is None:
        return Proof((*estimate_sentences(None, []), *known), None)
    names = [label_text(group, within=within) for group in estimate.groups]
    return Proof((*estimate_sentences(estimate, names), *known), estimate.to_dict() | {"groups": names})


def make_outlook(
    groups: tuple[Group, ...], shown: FloatArray, noise: FloatArray, estimate: Proof, held_out: Proof
) -> tuple[Outlook, ...]:
    """A line for each group of the rows; what is not known of it is None."""
    expected, bound = _by_name(estimate, "expected"), _by_name(estimate, "bound")
    compared = held_out.numbers is not None and held_out.numbers["epsilon"] is not None
    proved = _by_name(held_out, "upper") if compared else {}
    return tuple(
        Outlook(
            name=group.name,
            asked=group.epsilon,
            expected=expected.get(group.name),
            bound=bound.get(group.name),
            proved=proved.get(group.name),
            shown=float(shown[place]),
            noise=float(noise[place]),
        )
        for place, group in enumerate(groups)
    )


def _by_name(proof: Proof, figure: str) -> dict[str, float]:
    if proof.numbers is None or proof.numbers[figure] is None:
        return {}
    return dict(zip(proof.numbers["groups"], proof.numbers[figure], strict=True))


def measure_noise(policy: SoftmaxPolicy, rows: ScoredRows, notion: ParityNotion) -> FloatArray:
    """Distance that groups of these sizes show on average where they are drawn at random, (n_groups,).

    Random groups of one size are drawn, and their mean distance scaled to the size of each group: sums of
    many rows are about normal.
    """
    members, rng = rows.members, np.random.default_rng(0)
    norm, places = find_distance(notion).norm, np.arange(len(rows.scores))
    assert norm is not None
    noise = np.zeros(len(members.labels))
    for groups, inside, part in members.parts():
        some = places[inside]
        if len(some) > MOST_ROWS:
            some = rng.choice(some, MOST_ROWS, replace=False)
        size = min(MOST_DRAWN, len(some) // 2)
        if size == 0:
            continue
        pmf = policy.pmf(rows.scores[some], rows.group_proba[some])
        drawn = (pmf[rng.choice(len(some), size, replace=False)].mean(axis=0) for _ in range(N_DRAWS))
        overall = pmf.mean(axis=0)
        mean = np.mean([norm(each - overall, policy.grid.atoms) for each in drawn])
        weights = np.ones(part.n_rows) if part.weights is None else part.weights
        for place, group in enumerate(groups):
            counts = part.column(place)
            spread = ((counts / counts.sum() - weights / weights.sum()) ** 2).sum()
            noise[group] = mean * np.sqrt(spread / (1.0 / size - 1.0 / len(some)))
    return noise
