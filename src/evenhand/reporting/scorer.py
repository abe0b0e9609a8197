"""The parity step as numbers that a page can predict with: a few rows of products and a softmax."""

from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from evenhand._utils.labels import label_text
from evenhand.dual.costs import CostMatrix, Squared
from evenhand.dual.imbalance import ImbalanceModel
from evenhand.evaluation.heldout import Model

MOST_GROUPS = 24  # that a reader would type a probability for


def read_scorer(model: Any) -> dict[str, Any]:
    """What the page's script needs to predict, all digits of it; refused where that is not small.

    Logits are `offset + loadings @ (imbalances of the kept groups, features of the cost)`, in units of log 2.
    """
    fitted = model[-1] if isinstance(model, Pipeline) else model
    if not isinstance(fitted, Model):
        raise TypeError(f"scorer=True needs a fitted model of evenhand: got {type(fitted).__name__}.")
    check_is_fitted(fitted, "step_")
    policy, instead = fitted.policy_, "Leave it out; evenhand.explain tells of single people."
    if policy.strata is not None or len(policy.group_prior) > MOST_GROUPS:
        raise ValueError(
            f"scorer=True is for at most {MOST_GROUPS} groups that are compared among all rows. {instead}"
        )
    if not isinstance(policy.cost, Squared | CostMatrix):
        raise ValueError(
            "scorer=True knows squared errors and classes, and this model's cost is "
            f"{policy.cost.risk_name}. {instead}"
        )
    loadings, offset = policy.logits()
    labels = getattr(fitted, "classes_", None)
    classes = None if policy.cost.n_classes is None else policy.grid.atoms if labels is None else labels
    low, high = policy.grid.bounds
    return {
        "atoms": policy.grid.atoms.tolist(),
        "classes": None if classes is None else [str(label) for label in classes.tolist()],
        "n_scores": policy.cost.n_classes or 1,
        "groups": [label_text(group) for group in fitted.groups_.tolist()],
        "prior": policy.group_prior.tolist(),
        "kept": ImbalanceModel.from_prior(policy.group_prior).kept.tolist(),
        "loadings": loadings.tolist(),
        "offset": offset.tolist(),
        "bounds": [None if np.isinf(bound) else bound for bound in (low, high)],
        "centre": policy.grid.centre,
        "half_width": policy.grid.half_width,
    }


def start_of(step: dict[str, Any]) -> list[float]:
    """Scores that the page begins with: the middle of the atoms, or as likely as not."""
    count = step["n_scores"]
    return [float(f"{step['centre']:.3g}")] if step["classes"] is None else [round(1 / count, 4)] * count
