"""Streams: any chunking gives the same model, and the model is as good as one that stored its rows."""

import pytest

from evenhand import ParityPostprocessor
from evenhand.datasets import make_population
from evenhand.parity import make_parity
from evenhand.streams import BLOCK_ROWS

SOLVERS = ("auto", "sgd3")


def population(n_rows, seed=0, **options):
    rows = make_population(n_rows, **{"n_groups": 3, "random_state": seed, **options})
    return rows.scores, rows.group_proba


def fed(model, scores, group_proba, sizes, **options):
    """The model after the rows in chunks of the given sizes, over and over."""
    first, turn = 0, 0
    while first < len(scores):
        last = first + sizes[turn % len(sizes)]
        model.partial_fit(scores[first:last], group_proba[first:last], **options)
        first, turn = last, turn + 1
    return model


def assert_same(model, other):
    for name in ("atoms_", "group_prior_", "multipliers_", "tilt_"):
        assert getattr(model, name).tobytes() == getattr(other, name).tobytes(), name
    assert (model.beta_, model.bounds_, model.n_clipped_) == (other.beta_, other.bounds_, other.n_clipped_)
    for name in ("waiting_scores", "waiting_proba"):
        assert getattr(model.stream_, name).tobytes() == getattr(other.stream_, name).tobytes(), name
    assert model.stream_.n_rows == other.stream_.n_rows
    assert hasattr(model, "certificate_") == hasattr(other, "certificate_")
    if hasattr(model, "certificate_"):
        assert str(model.certificate_) == str(other.certificate_)


def fresh_violation(model, n_rows=100_000, **options):
    """Largest violation on rows that no fit has seen, with their own prior, straight from its definition."""
    scores, proba = population(n_rows, seed=99, **options)
    masses = model.predict_pmf(scores, proba).T @ (1.0 - proba / proba.mean(axis=0)) / n_rows
    parity = make_parity(model.parity, model.policy_.support.normalised())
    unit = model.policy_.support.half_width if parity.in_outcome_units else 1.0
    return unit * parity.norm.value(parity.operator.apply(masses)).max()


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("n_rows", [37, 700, 3 * BLOCK_ROWS, 5 * BLOCK_ROWS + 11])
def test_any_chunking_gives_the_same_bits(n_rows, solver):
    rows = population(n_rows)
    whole, *others = (
        fed(ParityPostprocessor(epsilon=0.03, atoms=31, solver=solver, random_state=0), *rows, sizes)
        for sizes in ([n_rows], [1000, 1, 37], [BLOCK_ROWS - 1, 2])
    )
    for other in others:
        assert_same(whole, other)
