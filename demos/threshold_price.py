"""What parity above a few thresholds costs, beside the whole distribution's: for docs/concepts/notions.md.

EVENHAND_DATA=... python demos/threshold_price.py
"""

import warnings
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

import evenhand as eh
from evenhand.exceptions import EvenhandWarning

EPSILON, N_SPLITS = 0.05, 3
NOTIONS: tuple[Any, ...] = (eh.Thresholds(quantiles=[0.5]), eh.Thresholds(quantiles=[0.5, 0.8]), "cdf")


def main() -> None:
    print('| | no parity | above the median | above the median and the 80% quantile | `"cdf"` |')
    print("| --- | --- | --- | --- | --- |")
    for name, data in (
        ("communities", eh.datasets.load_communities()),
        ("law school", eh.datasets.load_law_school()),
    ):
        risks = np.mean([risks_of(data, seed) for seed in range(N_SPLITS)], axis=0)
        print(f"| {name} | {' | '.join(f'{risk:.4f}'.lstrip('0') for risk in risks)} |", flush=True)


def risks_of(data: Any, seed: int) -> list[float]:
    """Mean squared error on held-out rows: of the models alone, then under each notion."""
    X, y, groups = (np.asarray(part) for part in (data.data, data.target, data.sensitive_features))
    fit, new = train_test_split(np.arange(len(y)), test_size=0.4, stratify=groups, random_state=seed)
    found = []
    for notion in NOTIONS:
        model = eh.ParityRegressor(parity=notion, epsilon=EPSILON)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", EvenhandWarning)
            model.fit(X[fit], y[fit], sensitive_features=groups[fit])
        if not found:
            found.append(eh.metrics.risk(y[new], model.predict_scores(X[new])[0]))
        found.append(eh.metrics.risk(y[new], model.predict_pmf(X[new]), model.atoms_))
    return found


if __name__ == "__main__":
    main()
