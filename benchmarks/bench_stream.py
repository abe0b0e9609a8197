"""3 000 000 rows through `partial_fit`, three groups: parity and risk on new rows, memory, speed.

The stream is compared with `fit` on 200 000 stored rows, on 300 000 new rows of the same population, and with
the paper's SGD3 on the same stream. The risk is `E (eta - prediction)^2`, what parity costs and smoothing
adds: the noise of the outcome, which is the same for all, would only hide differences. The models are as they
come, so the stored one has more atoms and a higher beta. Memory is the growth of a fresh process beyond a
model that has seen its first blocks. Speed is rows per second, over the first million rows of a stream and
all its solves, over those of the base models' own predictions of the same rows.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression

import evenhand as eh
from benchmarks import _support as support

N_ROWS, N_STORED, N_FRESH, CHUNK = 3_000_000, 200_000, 300_000, 10_000
EPSILON = 0.02
MOST_VIOLATION, MOST_RISK, MOST_MEGABYTES = 1.5, 1.05, 100.0
SPEED_ROWS, EVERY = 1_000_000, 10  # of a new stream; the base models see one chunk in ten


def chunks(n_rows: int, seed: int = 1) -> Iterator[Any]:
    """Rows of the stream, made as they are asked for."""
    for place in range(n_rows // CHUNK):
        yield eh.datasets.make_population(CHUNK, 3, random_state=100_000 * seed + place)


def make_model(solver: str = "auto") -> eh.ParityPostprocessor:
    return eh.ParityPostprocessor(epsilon=EPSILON, solver=solver, random_state=0)


def feed(model: eh.ParityPostprocessor, n_rows: int, seed: int = 1) -> eh.ParityPostprocessor:
    for rows in chunks(n_rows, seed):
        model.partial_fit(rows.scores, rows.group_proba)
    return model


def warm_model() -> eh.ParityPostprocessor:
    """A model whose code is compiled and whose state has its full size."""
    return feed(make_model(), 50_000, seed=2)


def feed_all(model: eh.ParityPostprocessor) -> int:
    feed(model, N_ROWS)
    return model.stream_.n_rows


def measure(model: eh.ParityPostprocessor) -> tuple[float, float]:
    """Largest violation of a group, and risk, on new rows."""
    fresh = eh.datasets.make_population(N_FRESH, 3, random_state=7)
    prior = fresh.group_proba.mean(axis=0)
    masses, risk = np.zeros((len(model.atoms_), 3)), 0.0
    for rows in support.chunks(N_FRESH):
        scores, proba = fresh.scores[rows], fresh.group_proba[rows]
        pmf = model.predict_pmf(scores, proba)
        masses += pmf.T @ (1.0 - proba / prior)
        risk += float((pmf * (scores[:, None] - model.atoms_) ** 2).sum())
    return float(np.abs(np.cumsum(masses / N_FRESH, axis=0)).max()), risk / N_FRESH


def show_quality() -> None:
    stored = eh.datasets.make_population(N_STORED, 3, random_state=3)
    fit = make_model().fit(stored.scores, stored.group_proba)
    models = {
        f"fit on {N_STORED:,} stored rows": fit,
        f"stream of {N_ROWS:,} rows": feed(make_model(), N_ROWS),
        "the same stream, solver='sgd3'": feed(make_model("sgd3"), N_ROWS),
    }
    measured = {name: measure(model) for name, model in models.items()}
    _, least = measured[f"fit on {N_STORED:,} stored rows"]
    table = [
        (
            name,
            len(models[name].atoms_),
            f"{models[name].beta_:.0f}",
            f"{v / EPSILON:.3f}",
            f"{r / least:.4f}",
        )
        for name, (v, r) in measured.items()
    ]
    support.show_table(("", "atoms", "beta", "violation / epsilon", "risk / risk of fit"), table)
    violation, risk = measured[f"stream of {N_ROWS:,} rows"]
    passed = violation <= MOST_VIOLATION * EPSILON and risk <= MOST_RISK * least
    print(
        f"  stream: violation {violation / EPSILON:.2f} of epsilon (at most {MOST_VIOLATION}), "
        f"risk {risk / least:.3f} of the fit's (at most {MOST_RISK}): {support.verdict(passed)}"
    )


def show_memory() -> None:
    growth = support.peak_growth(warm_model, feed_all)
    passed = support.verdict(growth < MOST_MEGABYTES)
    print(f"  memory: {growth:.1f} MB more after {N_ROWS:,} rows (at most {MOST_MEGABYTES:.0f}): {passed}")


def show_speed() -> None:
    """Rows per second of the parity step, its solves included, over those of the models that feed it."""
    labelled = eh.datasets.make_population(5_000, 3, random_state=4)
    X, y, groups = labelled.data, labelled.target, labelled.sensitive_features
    classifier = LogisticRegression().fit(X, groups)
    bases = {
        "linear and logistic": LinearRegression().fit(X, y),
        "gradient boosting and logistic": HistGradientBoostingRegressor(random_state=0).fit(X, y),
    }
    model, warm = make_model(), warm_model()
    seconds: Counter[str] = Counter()
    for place, rows in enumerate(chunks(SPEED_ROWS, seed=5)):
        arrays = rows.scores, rows.group_proba
        seconds["partial_fit"] += timed(model.partial_fit, *arrays)
        if place % EVERY == 0:
            seconds["predict"] += EVERY * timed(warm.predict, *arrays)
            groups_too = timed(classifier.predict_proba, rows.data)
            for name, base in bases.items():
                seconds[name] += EVERY * (timed(base.predict, rows.data) + groups_too)
    speed = SPEED_ROWS / seconds["partial_fit"]
    print(f"  partial_fit, this machine and moment: {speed:,.0f} rows per second")
    table = [
        (name, *(f"{seconds[name] / seconds[step]:.2f}" for step in ("partial_fit", "predict")))
        for name in bases
    ]
    support.show_table(("rows per second / those of the base models", "partial_fit", "predict"), table)


def timed(act: Callable[..., object], *arguments: Any) -> float:
    begin = perf_counter()
    act(*arguments)
    return perf_counter() - begin


def main() -> None:
    show_quality()
    show_memory()
    show_speed()


if __name__ == "__main__":
    main()
