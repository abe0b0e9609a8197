"""Methods to compare with, under one interface: `fit(X, y, sensitive_features=)`, `predict_pmf`, `atoms_`.

`ADW` is the reduction that the paper compares with, and `BaseModel` the regressor as it is; both predict
without the group. `WassersteinBarycentre` and `AwarePlugin` need it: they show what it is worth. `LinearPost`
is for decisions, and works on class and group probabilities.
"""

from evenhand.baselines.adw import ADW
from evenhand.baselines.barycentre import AwarePlugin, WassersteinBarycentre
from evenhand.baselines.base_model import BaseModel
from evenhand.baselines.linear_post import LinearPost

__all__ = ["ADW", "AwarePlugin", "BaseModel", "LinearPost", "WassersteinBarycentre"]
