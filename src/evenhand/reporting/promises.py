"""What was asked for, what new people are promised, what is proved and what is chance, group by group."""

import numpy as np

from evenhand._utils.labels import label_text
from evenhand._utils.typing import FloatArray
from evenhand.certificates import Promise
from evenhand.dual.parity import ParityNotion
from evenhand.dual.policy import SoftmaxPolicy
from evenhand.evaluation.heldout import Model
from evenhand.metrics import ScoredRows
from evenhand.metrics.distances import find_distance
from evenhand.reporting.facts import Group, Outlook, Proof
from evenhand.reporting.words import promise_sentences

N_DRAWS = 100  # of random groups
MOST_DRAWN = 500  # rows of one
MOST_ROWS = 10_000  # that these are drawn from


def tell_promise(model: Model, *, within: bool) -> Proof:
    """What cross-fitting, or rows set aside at the fit, say of new people."""
    promise: Promise | None = model.certificate_.promise
    knowledge = getattr(model, "group_knowledge_", None)
    known = (knowledge.sentence,) if knowledge is not None and knowledge.sentence else ()
    if promise is None:
        return Proof((*promise_sentences(None, []), *known), None)
    names = [label_text(group, within=within) for group in promise.groups]
    return Proof((*promise_sentences(promise, names), *known), promise.to_dict() | {"groups": names})


def make_outlook(
    groups: tuple[Group, ...], shown: FloatArray, chance: FloatArray, promise: Proof, held_out: Proof
) -> tuple[Outlook, ...]:
    """A line for each group of the rows; what is not known of it is None."""
    expected, bound = _by_name(promise, "expected"), _by_name(promise, "bound")
    judged = held_out.numbers is not None and held_out.numbers["epsilon"] is not None
    proved = _by_name(held_out, "upper") if judged else {}
    return tuple(
        Outlook(
            name=group.name,
            asked=group.epsilon,
            expected=expected.get(group.name),
            bound=bound.get(group.name),
            proved=proved.get(group.name),
            shown=float(shown[place]),
            chance=float(chance[place]),
        )
        for place, group in enumerate(groups)
    )


def _by_name(proof: Proof, figure: str) -> dict[str, float]:
    if proof.numbers is None or proof.numbers[figure] is None:
        return {}
    return dict(zip(proof.numbers["groups"], proof.numbers[figure], strict=True))


def measure_chance(policy: SoftmaxPolicy, rows: ScoredRows, notion: ParityNotion) -> FloatArray:
    """Distance that groups of these sizes show on average where they are drawn at random, (n_groups,).

    Random groups of one size are drawn, and their mean distance scaled to the size of each group: sums of
    many rows are about normal.
    """
    members, rng = rows.members, np.random.default_rng(0)
    norm, places = find_distance(notion).norm, np.arange(len(rows.scores))
    assert norm is not None
    chance = np.zeros(len(members.labels))
    for groups, inside, part in members.parts():
        some = places[inside]
        if len(some) > MOST_ROWS:
            some = rng.choice(some, MOST_ROWS, replace=False)
        size = min(MOST_DRAWN, len(some) // 2)
        if size == 0:
            continue
        pmf = policy.pmf(rows.scores[some], rows.group_proba[some])
        drawn = (pmf[rng.choice(len(some), size, replace=False)].mean(axis=0) for _ in range(N_DRAWS))
        everybody = pmf.mean(axis=0)
        mean = np.mean([norm(each - everybody, policy.grid.atoms) for each in drawn])
        weights = np.ones(part.n_rows) if part.weights is None else part.weights
        for place, group in enumerate(groups):
            counts = part.column(place)
            spread = ((counts / counts.sum() - weights / weights.sum()) ** 2).sum()
            chance[group] = mean * np.sqrt(spread / (1.0 / size - 1.0 / len(some)))
    return chance
