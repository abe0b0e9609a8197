"""Methods to compare with, under one interface: `fit(X, y, sensitive_features=)`, `predict_pmf`, `atoms_`."""

from evenhand.baselines.adw import ADW

__all__ = ["ADW"]
