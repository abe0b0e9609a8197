"""Time of a fit of ADW by learner and data set, over that of our batch fit, and what each of them reached.

Both are timed whole, from raw rows: ours fits its two models on the labelled 40 % and its parity step on the
unlabelled 40 %; ADW-1 has the labels of both, ADW-2 is trained on the labelled alone. `--quick` leaves out
the slow learners.
"""

import sys
from functools import partial

import numpy as np
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import evenhand as eh
from benchmarks._support import LOADERS, load, show_table, smallest_times
from evenhand.baselines import ADW

EPSILON, ROUNDS, SEED = 2.0**-4, 3, 0
SLOW = {"logistic", "trees"}


def models(name: str, learners: list[str]) -> dict[str, tuple[object, dict[str, object]]]:
    """Every model of a data set, with the arguments of its fit."""
    bunch = load(name)
    labeled, unlabeled, _ = eh.datasets.paper_split(bunch, random_state=SEED)

    def labelled(rows: np.ndarray) -> dict[str, object]:
        groups = bunch.sensitive_features[rows]
        return {"X": bunch.data[rows], "y": bunch.target[rows], "sensitive_features": groups}

    classifier = make_pipeline(StandardScaler(), LogisticRegression())
    ours = eh.ParityRegressor(LinearRegression(), classifier, parity="cdf", epsilon=EPSILON, confidence=None)
    both = np.concatenate([labeled, unlabeled])
    found: dict[str, tuple[object, dict[str, object]]] = {
        "ours, batch": (ours, labelled(labeled) | {"X_unlabeled": bunch.data[unlabeled]})
    }
    for learner in learners:
        found[f"ADW-1, {learner}"] = ADW(learner, epsilon=EPSILON), labelled(both)
        found[f"ADW-2, {learner}"] = ADW(learner, epsilon=EPSILON), labelled(labeled)
    return found


def reached(name: str, model: object) -> tuple[float, float]:
    """Risk and the largest KS distance on the test rows."""
    bunch = load(name)
    test = eh.datasets.paper_split(bunch, random_state=SEED).test
    pmf = model.predict_pmf(bunch.data[test])
    distances = eh.metrics.ks_unfairness(pmf, bunch.sensitive_features[test])
    return eh.metrics.risk(bunch.target[test], pmf, model.atoms_), max(distances.values())


def main(quick: bool = False) -> None:
    """Print the times over that of our fit."""
    learners = [learner for learner in ("ls", "logistic", "trees") if not (quick and learner in SLOW)]
    print(f"epsilon = 2^-4, one split, smallest of {ROUNDS} rounds (1 for {' and '.join(sorted(SLOW))})")
    for name in LOADERS:
        fits = models(name, learners)
        seconds: dict[str, float] = {}
        for slow in (False, True):
            runs = {
                label: partial(model.fit, **arguments)
                for label, (model, arguments) in fits.items()
                if (label.split()[-1] in SLOW) is slow
            }
            seconds |= smallest_times(runs, 1 if slow else ROUNDS, warm_up=not slow)
        table = []
        for label, (model, _) in fits.items():
            risk, distance = reached(name, model)
            calls = model.n_oracle_calls_ if isinstance(model, ADW) else ""
            ratio = seconds[label] / seconds["ours, batch"]
            table.append(
                [
                    label,
                    f"{ratio:.1f}",
                    f"{1e3 * seconds[label]:.0f}",
                    calls,
                    f"{risk:.5f}",
                    f"{distance:.3f}",
                ]
            )
        show_table([name, "time / ours", "ms", "learner calls", "test risk", "test KS"], table)


if __name__ == "__main__":
    main(quick="--quick" in sys.argv)
