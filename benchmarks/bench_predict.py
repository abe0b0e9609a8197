"""`predict` on a million rows: its time, its memory, and that a row's answer is its own.

Times are over that of the base model's own `predict`, a LinearRegression on 20 features. The NumPy rival
computes the distribution of each row in chunks and draws from it by inversion, with NumPy's random numbers.
"""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
from sklearn.linear_model import LinearRegression

import evenhand as eh
from benchmarks._support import (
    chunks,
    numpy_policy,
    peak_growth,
    population_rows,
    show_table,
    smallest_times,
    verdict,
)

N_ROWS, N_ATOMS, N_FEATURES, N_FITTED, N_ELSEWHERE = 1_000_000, 201, 20, 50_000, 50_000
MOST_BYTES = 64  # a row, beyond input and answer: of order one, where the distribution takes 8 * 201


def fitted_model() -> eh.ParityPostprocessor:
    model = eh.ParityPostprocessor(epsilon=0.05, atoms=N_ATOMS, bounds=(-1.0, 1.0), tol=1e-4, random_state=7)
    return model.fit(*population_rows(N_FITTED, seed=1))


def numpy_draws(model: eh.ParityPostprocessor, scores: np.ndarray, proba: np.ndarray) -> np.ndarray:
    """Draws of plain NumPy, never more than a chunk of distributions at a time."""
    rng, beta = np.random.default_rng(0), model.beta_
    loadings = beta * np.column_stack([model.tilt_, 2.0 * model.atoms_]).T
    offset = -beta * model.atoms_**2
    out = np.empty(len(scores))
    for rows in chunks(len(scores)):
        imbalance = 1.0 - proba[rows] / model.group_prior_
        policy, _ = numpy_policy(np.column_stack([imbalance, scores[rows]]), loadings, offset)
        np.cumsum(policy, axis=1, out=policy)
        below = policy < rng.random((len(policy), 1))
        out[rows] = model.atoms_[np.minimum(below.sum(axis=1), len(offset) - 1)]
    return out


def times(model: eh.ParityPostprocessor, scores: np.ndarray, proba: np.ndarray) -> dict[str, float]:
    features = np.random.default_rng(0).normal(size=(len(scores), N_FEATURES))
    base = LinearRegression().fit(features[:1000], scores[:1000])
    ids = np.arange(len(scores))
    runs = {
        "base model's predict": lambda: base.predict(features),
        "predict": lambda: model.predict(scores, proba),
        "predict, ids": lambda: model.predict(scores, proba, ids=ids),
        "predict_mean": lambda: model.predict_mean(scores, proba),
        "predict_quantile": lambda: model.predict_quantile(scores, proba),
        "NumPy: distribution, draw": lambda: numpy_draws(model, scores, proba),
    }
    return smallest_times(runs, rounds=3)


def prepare(n_rows: int) -> Any:
    model = fitted_model()
    model.predict(*population_rows(1000))
    return model, population_rows(n_rows)


def act(state: Any) -> np.ndarray:
    model, rows = state
    return model.predict(*rows)


def predict_elsewhere(scores: np.ndarray, proba: np.ndarray) -> np.ndarray:
    """What another process, with a model fitted there, answers for these rows."""
    return fitted_model().predict(scores, proba)


def differences(model: eh.ParityPostprocessor, scores: np.ndarray, proba: np.ndarray) -> dict[str, int]:
    """How many rows get another answer than in one batch."""
    whole = model.predict(scores, proba)
    order = np.random.default_rng(3).permutation(len(scores))
    cuts = np.cumsum([1, 2, 7, 100, 1001, 30_000])
    parts = zip(np.split(scores, cuts), np.split(proba, cuts), strict=True)
    alone = np.concatenate([model.predict(scores[i : i + 1], proba[i : i + 1]) for i in range(1000)])
    some = slice(N_ELSEWHERE)
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        elsewhere = pool.submit(predict_elsewhere, scores[some], proba[some]).result()
    return {
        "another order": int(np.sum(model.predict(scores[order], proba[order]) != whole[order])),
        "other batches": int(np.sum(np.concatenate([model.predict(*part) for part in parts]) != whole)),
        "rows alone": int(np.sum(alone != whole[:1000])),
        "another process": int(np.sum(elsewhere != whole[some])),
    }


def main(n_rows: int = N_ROWS) -> None:
    """Print times, memory and differences."""
    model, (scores, proba) = fitted_model(), population_rows(n_rows)
    seconds = times(model, scores, proba)
    base, *_, rival = seconds.values()
    print(f"n = {n_rows}, m = {N_ATOMS}, K = 2")
    table = [
        [name, f"{value / base:.1f}", f"{value / rival:.3f}", f"{1e9 * value / n_rows:.0f}"]
        for name, value in seconds.items()
    ]
    show_table(["", "time / base model's", "time / NumPy's", "ns a row"], table)

    sizes = n_rows // 4, n_rows
    beyond = [peak_growth(prepare, act, size) - 8 * size / 2**20 for size in sizes]
    each = 2**20 * (beyond[1] - beyond[0]) / (sizes[1] - sizes[0])
    peaks = ", ".join(f"{peak:.0f} MB at {size} rows" for peak, size in zip(beyond, sizes, strict=True))
    print(f"peak beyond input and answer: {peaks}")
    print(f"bytes a row: {each:.0f}, at most {MOST_BYTES}: {verdict(each <= MOST_BYTES)}")
    changed = differences(model, scores, proba)
    counts = ", ".join(f"{name} {count}" for name, count in changed.items())
    print(f"rows with another answer in: {counts}: {verdict(not any(changed.values()))}")


if __name__ == "__main__":
    main()
