"""The four-group population of the paper's appendix, and its predictions before and after the parity step."""

import numpy as np

from evenhand.datasets import make_paper_synthetic
from evenhand.estimators.postprocessor import ParityPostprocessor
from evenhand.metrics import ks_unfairness
from reproduction.frames import Row
from reproduction.parity_step import PAPER_SOLVER, PaperStep
from reproduction.rows import prepare_bunch
from reproduction.runner import Cell
from reproduction.variant import Variant


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
    elif cell.method == "variant_published":
        step = Variant().step(rows, cell["epsilon"])
        answer = Variant().solve(step, cell["budget"], cell.split)
        pmf = step.policy(answer.multipliers).pmf(scores, group_proba)
    else:
        options = {"epsilon": cell["epsilon"], "atoms": atoms, "beta": "paper"}
        model = ParityPostprocessor(parity="cdf", **options)
        pmf = model.fit(*rows.nuisances(rows.split.unlabeled)).predict_pmf(scores, group_proba)
    groups = rows.groups[rows.split.test]
    distances = ks_unfairness(pmf, groups)
    return [
        {"group": int(group), "ks": distances[group], "atom": float(atom), "mass": float(mass)}
        for group in np.unique(groups)
        for atom, mass in zip(step.step.grid.normalised(), pmf[groups == group].mean(axis=0), strict=True)
    ]
