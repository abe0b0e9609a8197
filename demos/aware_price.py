"""What parity costs without the group at prediction time, and with it: the table of docs/how-to/rates.md.

EVENHAND_DATA=... python demos/aware_price.py
"""

import os
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split

import evenhand as eh
from evenhand.exceptions import EvenhandWarning

EPSILON = 0.02


def main() -> None:
    print("| data | measure | no parity | unaware | `aware=True` | gap before | unaware | aware |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    crime = eh.datasets.load_communities()
    show(
        "communities, violent crime by the largest group", crime.data, crime.target, crime.sensitive_features
    )
    adult = eh.datasets.load_adult(target="income")
    show("adult, income by sex", adult.data, adult.target, adult.sensitive_features)
    dutch = pd.read_csv(Path(os.environ["EVENHAND_DATA"]) / "dutch.csv")
    sex, job = dutch.pop("sex"), dutch.pop("occupation")
    show("dutch census, occupation by sex", pd.get_dummies(dutch.astype(str)).astype(float), job, sex)


def show(name: str, X: object, y: object, sex: object) -> None:
    """One line: accuracy or R^2, and the largest distance between a group and everybody, on held-out rows."""
    X, y, sex = np.asarray(X), np.asarray(y), np.asarray(sex)
    decides = len(np.unique(y)) == 2
    fit, new = train_test_split(np.arange(len(y)), test_size=0.4, stratify=sex, random_state=0)
    values, gaps = [], []
    for aware in (False, True):
        model = (eh.ParityClassifier if decides else eh.ParityRegressor)(
            epsilon=EPSILON, aware=aware, random_state=0
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", EvenhandWarning)
            model.fit(X[fit], y[fit], sensitive_features=sex[fit])
        groups = {"sensitive_features": sex[new]} if aware else {}
        scores, pmf = model.predict_scores(X[new], **groups)[0], model.predict_pmf(X[new], **groups)
        if not aware:
            before = np.eye(2)[scores.argmax(axis=1)] if decides else scores
            values.append(measure(model, y[new], before, decides))
            gaps.append(distance(before, sex[new], decides))
        values.append(measure(model, y[new], pmf, decides))
        gaps.append(distance(pmf, sex[new], decides))
    cells = [f"{value:.1%}" if decides else f"{value:.2f}" for value in values]
    cells += [f"{gap:.3f}" for gap in gaps]
    print(f"| {name} | {'accuracy' if decides else 'R^2'} | {' | '.join(cells)} |")


def measure(model: object, y: np.ndarray, predicted: np.ndarray, decides: bool) -> float:
    if decides:
        return eh.metrics.accuracy(y, predicted, model.classes_)
    return 1.0 - eh.metrics.risk(y, predicted, model.atoms_) / eh.metrics.constant_risk(y)


def distance(predicted: np.ndarray, sex: np.ndarray, decides: bool) -> float:
    found = (eh.metrics.decision_gaps if decides else eh.metrics.ks_unfairness)(predicted, sex)
    return max(found.values())


if __name__ == "__main__":
    main()
