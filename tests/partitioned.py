"""What the tests of partitions share: a table, ways to cut it, and a cost that kills the worker it is on."""

import os
import signal
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd

from evenhand import ParityPostprocessor
from evenhand.datasets import make_population

GROUPS = ["a", "b", "c"]
NAMES = {"scores": "score", "group_proba": GROUPS}


def make_frame(n_rows, seed=0):
    """Scored people with an id, a weight and a note."""
    people = make_population(n_rows, len(GROUPS), random_state=seed)
    columns = {name: people.group_proba[:, place] for place, name in enumerate(GROUPS)}
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "who": np.arange(n_rows) + 10_000,
            "score": people.scores,
            **columns,
            "weight": rng.integers(0, 3, n_rows).astype(float),
            "note": rng.choice(["x", "y"], n_rows),
        }
    )


def make_step(**settings):
    return ParityPostprocessor(**{"epsilon": 0.03, "random_state": 7, **settings})


def cuts(n_rows, sizes):
    """Edges of parts: of the sizes that are named, then all the rest."""
    edges = np.minimum(np.cumsum([0, *sizes]), n_rows)
    return [*edges.tolist(), n_rows]


def pieces(frame, sizes):
    """The frame in parts, some of them empty or of one row."""
    edges = cuts(len(frame), sizes)
    return [frame.iloc[start:stop] for start, stop in pairwise(edges)]


def distance(one, other, frame):
    """How far two models are apart in what they do: distributions of rows, violations, and risks.

    Not in their multipliers: where no row's distribution depends on one, any value of it is an answer.
    """
    scores, proba = frame["score"].to_numpy(), frame[GROUPS]
    policies = [model.predict_pmf(scores, proba) for model in (one, other)]
    return max(
        float(np.abs(policies[0] - policies[1]).max()),
        float(np.abs(one.certificate_.violation - other.certificate_.violation).max()),
        abs(one.certificate_.risk - other.certificate_.risk),
    )


class DeadlyCost:
    """A squared cost that once, when a file says so, kills the worker that asks for it, and its executor.

    In the process that made it, it is harmless.
    """

    __name__ = "deadly"

    def __init__(self, armed: Path, *, generations: int = 0) -> None:
        self.armed, self.generations, self.home = str(armed), generations, os.getpid()

    def __call__(self, scores, atoms):
        if os.getpid() != self.home:
            try:
                os.unlink(self.armed)  # only one process can
            except FileNotFoundError:
                pass
            else:
                os.kill(ancestor(self.generations), signal.SIGKILL)
                os.kill(os.getpid(), signal.SIGKILL)
        return (scores[:, None] - atoms) ** 2


def ancestor(generations):
    """The process that started this one, so many times."""
    pid = os.getpid()
    for _ in range(generations):
        status = Path(f"/proc/{pid}/status").read_text().splitlines()
        pid = int(next(line for line in status if line.startswith("PPid")).split()[1])
    return pid
