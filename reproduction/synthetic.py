"""The four-group population of the paper's appendix, and its predictions before and after the parity step."""

from typing import Any

import numpy as np
from scipy.special import ndtr
from sklearn.utils import Bunch, check_random_state

from evenhand.estimators.postprocessor import ParityPostprocessor
from evenhand.metrics import ks_unfairness
from reproduction.comparison import PAPER_SOLVER
from reproduction.frames import Row
from reproduction.parity_step import PaperStep
from reproduction.rows import prepare_bunch
from reproduction.runner import Cell

THRESHOLDS = np.array([-0.7, 0.0, 0.7])  # of the first feature, between the four groups


def compute_synthetic(cell: Cell) -> list[Row]:
    """Mass of each atom in each group of the test rows, and the group's distance from all."""
    rows = prepare_bunch(make_paper_synthetic(random_state=cell.split), "text", cell.split)
    scores, group_proba = rows.nuisances(rows.split.test)
    step = PaperStep.of(rows, cell["epsilon"])
    atoms = step.step.grid.atoms
    if cell.method == "base":
        nearest = np.abs(scores[:, None] - atoms).argmin(axis=1)
        pmf = np.eye(len(atoms))[nearest]
    elif cell.method == "paper":
        found = step.solve(PAPER_SOLVER, cell["budget"], cell.split)
        pmf = step.policy(found.multipliers).pmf(scores, group_proba)
    else:
        options = {"epsilon": cell["epsilon"], "bounds": rows.bounds, "beta": "paper"}
        model = ParityPostprocessor(parity="cdf", **options)
        pmf = model.fit(*rows.nuisances(rows.split.unlabeled)).predict_pmf(scores, group_proba)
    groups = rows.groups[rows.split.test]
    distances = ks_unfairness(pmf, groups)
    return [
        {"group": int(group), "ks": distances[group], "atom": float(atom), "mass": float(mass)}
        for group in np.unique(groups)
        for atom, mass in zip(step.step.grid.normalised(), pmf[groups == group].mean(axis=0), strict=True)
    ]


def make_paper_synthetic(n_samples: int = 2000, random_state: Any = None) -> Bunch:
    """The four-group population of the paper's appendix ("Additional experiments on a synthetic dataset").

    Three standard normal features; the group is the interval of the first one between the thresholds
    -0.7, 0 and 0.7; the target is

        y = 4 (x_1 + x_2 + x_3) + x_1 + noise,    noise ~ N(0, 1)

    The paper's text names X_2 twice, calls the last group 4, and gives it the condition X_1 >= -0.7; it
    means X_3, 3 and X_1 >= 0.7, as here.

    Parameters
    ----------
    n_samples : int
        Number of rows; the paper's is 2000.
    random_state : int, RandomState or None
        Seed of the sample.

    Returns
    -------
    Bunch
        `data` (n, 3), `target` (n,), `sensitive_features` (n,) with values 0 to 3, and the truth:
        `scores` = E[Y | X] (n,), `group_proba` = P(S | X) (n, 4), here zeros and ones, and `group_prior`
        = P(S) (4,).

    Examples
    --------
    >>> population = make_paper_synthetic(random_state=0)
    >>> population.data.shape, population.group_prior.round(3)
    ((2000, 3), array([0.242, 0.258, 0.258, 0.242]))
    """
    rng = check_random_state(random_state)
    features = rng.standard_normal((n_samples, 3))
    first = features[:, 0]
    # The paper closes the first group at its threshold (x_1 <= -0.7); a tie has probability zero.
    groups = np.searchsorted(THRESHOLDS, first, side="right")
    scores = 4.0 * features.sum(axis=1) + first
    return Bunch(
        data=features,
        target=scores + rng.standard_normal(n_samples),
        sensitive_features=groups,
        scores=scores,
        group_proba=np.eye(4)[groups],
        group_prior=np.diff(ndtr(THRESHOLDS), prepend=0.0, append=1.0),
    )
