"""What every home for rows must pass: the answers of plain NumPy on the same rows, and a fit like any other.

A new implementation of `evenhand.dual.rows.DualRows` gets an entry in `HOMES`: a function that takes
`MemoryRows` and gives the same rows at their new home, inside a `with` block.
"""

from contextlib import contextmanager, nullcontext
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pandas as pd
from scipy.special import logsumexp, softmax

from evenhand import ParityPostprocessor
from evenhand._utils.validation import Rows
from evenhand.dual.costs import Squared
from evenhand.dual.grid import uniform_grid
from evenhand.dual.step import ParityStep
from evenhand.tables import spool
from evenhand.tables.model_inputs import make_reader
from evenhand.tables.partition_tasks import Scorer
from evenhand.tables.partitions import LocalPartitions, ScoredPartitions

LOG_2 = np.log(2.0)


def scored(n_rows=3000, n_groups=3, seed=0, weighted=True):
    """Scored rows whose groups lean on the scores."""
    rng = np.random.default_rng(seed)
    lean = rng.normal(size=(n_rows, n_groups))
    proba = softmax(1.5 * lean, axis=1)
    weights = rng.exponential(size=n_rows) if weighted else np.ones(n_rows)
    scores = np.tanh(0.5 * lean[:, 0] + 0.3 * rng.normal(size=n_rows))
    return Rows(scores, proba, tuple(range(n_groups)), weights / weights.sum())


def make_step(rows, parity="cdf", n_atoms=21, beta=60.0, epsilon=0.02):
    grid, n_groups = uniform_grid(-1.0, 1.0, n_atoms), rows.group_proba.shape[1]
    return ParityStep(grid, parity, Squared(), rows.group_mass(), None, np.full(n_groups, epsilon), beta)


@contextmanager
def in_mapped_file(step, rows):
    with spool.Spool() as disk:
        for start in range(0, len(rows.scores), 700):
            part = slice(start, start + 700)
            piece = Rows(rows.scores[part], rows.group_proba[part], rows.groups, None)
            disk.append(piece, rows.weights[part])
        with disk.mapped(step.rows) as mapped:
            yield mapped


def in_tensors(step, rows):
    from evenhand.dual.torch_rows import place_rows

    return nullcontext(place_rows(step.rows(rows), "cpu"))


@contextmanager
def in_streamed_tensors(step, rows):
    """Tensors at one place, summed at another, whose name alone differs here: part by part, as for a GPU."""
    import torch

    from evenhand._kernels import torch_streaming
    from evenhand.dual.torch_rows import place_rows

    before, torch_streaming.PART_ROWS = torch_streaming.PART_ROWS, 900
    try:
        yield replace(place_rows(step.rows(rows), "cpu"), device=torch.device("cpu", 0))
    finally:
        torch_streaming.PART_ROWS = before


def on_partitions(step, rows):
    """In seven partitions, one of them empty, with half of the rows as a sample in memory."""
    edges = np.linspace(0, len(rows.scores), 7).astype(int)
    columns = {f"g{place}": column for place, column in enumerate(rows.group_proba.T)}
    frame = pd.DataFrame({"score": rows.scores, **columns, "weight": rows.weights})
    chunks = [frame.iloc[start:stop] for start, stop in zip([0, *edges[:-1]], edges, strict=True)]
    reader = make_reader(ParityPostprocessor(), scores="score", group_proba=list(columns))
    layout = reader.layout()
    table = ScoredPartitions(LocalPartitions(Scorer(reader, layout, "weight"), chunks), layout)
    return table.rows(step, table.sample_rows(len(frame) // 2))


HOMES = {
    "memory": lambda step, rows: nullcontext(step.rows(rows)),
    "mapped file": in_mapped_file,
    "partitions": on_partitions,
}
if find_spec("torch") is not None:  # make test-torch
    HOMES |= {"tensors": in_tensors, "streamed tensors": in_streamed_tensors}


def random_logits(plain, n_atoms, seed=1):
    """Loadings and offset of a policy with every atom in use."""
    rng = np.random.default_rng(seed)
    return 3.0 * rng.normal(size=(n_atoms, len(plain.design))), rng.normal(size=n_atoms)


def plain_policy(plain, loadings, offset):
    """Policy, smooth and hard maximum of each row, in units of log 2, by NumPy alone."""
    logits = plain.design.T @ loadings.T + offset
    return softmax(logits * LOG_2, axis=1), logsumexp(logits * LOG_2, axis=1) / LOG_2, logits.max(axis=1)
