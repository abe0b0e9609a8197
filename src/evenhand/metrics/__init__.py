"""What a randomised prediction costs, how far the groups' distributions are apart, and how sure that is.

A prediction is given as its distribution, an array `pmf` of shape (n, n_atoms) over sorted `atoms`, or as
plain values of shape (n,): draws, or the scores of a deterministic model.
"""

from evenhand.metrics._inputs import BLOCK_ENTRIES, PMF_TOLERANCE
from evenhand.metrics.classification import accuracy, decision_gaps
from evenhand.metrics.distances import DISTANCES, METRICS, group_distances
from evenhand.metrics.intervals import Intervals, dkw_radius, risk_interval, unfairness_interval
from evenhand.metrics.losses import constant_risk, expected_losses, risk
from evenhand.metrics.masses import GroupMasses
from evenhand.metrics.measure import Measures, ScoredRows
from evenhand.metrics.membership import Membership
from evenhand.metrics.proxies import UnfairnessBounds, unfairness_bounds
from evenhand.metrics.rates import SelectionRates, selection_rates
from evenhand.metrics.unfairness import (
    distance_to,
    ks_unfairness,
    parity_score,
    tv_unfairness,
    unfairness,
    w1_unfairness,
)

__all__ = [
    "BLOCK_ENTRIES",
    "DISTANCES",
    "METRICS",
    "PMF_TOLERANCE",
    "GroupMasses",
    "Intervals",
    "Measures",
    "Membership",
    "ScoredRows",
    "SelectionRates",
    "UnfairnessBounds",
    "accuracy",
    "constant_risk",
    "decision_gaps",
    "distance_to",
    "dkw_radius",
    "expected_losses",
    "group_distances",
    "ks_unfairness",
    "parity_score",
    "risk",
    "risk_interval",
    "selection_rates",
    "tv_unfairness",
    "unfairness",
    "unfairness_bounds",
    "unfairness_interval",
    "w1_unfairness",
]
