"""How much of a difference at the strictest setting is the folds: ours with its own, and with the peers'.

Peers share the cross-fitted scores of a cell, so that the luck of its folds is theirs together; evenhand
folds the training rows itself. Decisions, aware, linear learner, asked for a gap of zero.
"""

from collections.abc import Iterator

import numpy as np
from sklearn.model_selection import StratifiedKFold

import evenhand as eh
from benchmarks.peers.cells import GENERATED, N_FOLDS, TABLES, Cell, make_cell
from benchmarks.peers.measure import Decisions, measure

TASK = "classification"


def study_folds(n_seeds: int) -> list[dict[str, object]]:
    """Distance net of chance and errors over splits, for each data set and way to fold."""
    found = []
    for data in (*TABLES[TASK], *GENERATED[TASK]):
        rows: dict[str, list[dict[str, float | None]]] = {}
        for seed in range(n_seeds):
            cell = make_cell(TASK, data, "linear", seed)
            for name, prediction in predictions(cell):
                rows.setdefault(name, []).append(measure(prediction, cell.y_test, cell.groups_test))
        for name, some in rows.items():
            squares = np.mean([each["distance"] ** 2 - each["chance"] ** 2 for each in some])
            distance, risk = (
                float(np.sqrt(max(0.0, squares))),
                float(np.mean([each["risk"] for each in some])),
            )
            found.append(
                {"data": data, "method": name, "distance": round(distance, 5), "risk": round(risk, 5)}
            )
    return found


def predictions(cell: Cell) -> Iterator[tuple[str, Decisions]]:
    """Ours with folds of its own, ours with the cell's, and LinearPost on the cell's scores."""
    X, X_test = cell.features(aware=True)
    folds = list(StratifiedKFold(N_FOLDS, shuffle=True, random_state=cell.seed).split(X, cell.groups))
    for name, cv in (("evenhand, its own folds", None), ("evenhand, the peers' folds", folds)):
        model = eh.ParityClassifier(cell.model(), epsilon=0.0, aware=True, cv=cv, random_state=cell.seed)
        model.fit(X, cell.y, sensitive_features=cell.groups)
        yield name, Decisions(model.predict_proba(X_test, sensitive_features=cell.groups_test)[:, 1])
    scores, one_hot = cell.scores(aware=True), np.eye(cell.n_groups)
    step = eh.baselines.LinearPost(alpha=0.0, random_state=cell.seed)
    step.fit(np.column_stack([1 - scores.train, scores.train]), one_hot[cell.groups])
    decided = step.predict(np.column_stack([1 - scores.test, scores.test]), one_hot[cell.groups_test])
    yield "LinearPost, the peers' folds", Decisions(decided.astype(np.float64))
