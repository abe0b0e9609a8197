"""The rows that frontiers are traced on and measured on."""

import numpy as np

from evenhand.datasets import make_population

FIT, NEW = (make_population(800, n_groups=3, random_state=seed) for seed in (0, 1))
ROWS = FIT.scores, FIT.group_proba
EPSILONS = [0.0, 0.005, 0.02, 0.05, 0.1, 0.5]
TEST = {
    "scores": NEW.scores,
    "group_proba": NEW.group_proba,
    "y": NEW.target,
    "sensitive_features": np.array(["ann", "bob", "cid"])[NEW.sensitive_features],
}
