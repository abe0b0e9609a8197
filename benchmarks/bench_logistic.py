"""Logistic regression of joint calibrations against scikit-learn's newton-cholesky, cold and warm."""

from collections.abc import Callable

import numpy as np
from sklearn.linear_model import LogisticRegression

from benchmarks._support import show_table, smallest_times
from evenhand._kernels.blas import one_blas_thread
from evenhand.calibration.joint import fit_logistic

SIZES = ((1500, 9), (15_000, 9), (15_000, 19), (45_000, 19))  # rows, terms of a polynomial of few inputs
TOL = 1e-4  # scikit-learn's default


def make_runs(n_rows: int, n_terms: int) -> dict[str, Callable[[], object]]:
    rng = np.random.default_rng(0)
    terms = rng.normal(size=(n_rows, n_terms))
    codes = (terms[:, 0] + rng.normal(size=n_rows) > 0).astype(np.int64)
    design, weights = np.vstack([np.ones(n_rows), terms.T]), np.ones(n_rows)
    ours = fit_logistic(design, codes, 2, weights, 1.0)
    theirs = LogisticRegression(solver="newton-cholesky", tol=TOL).fit(terms, codes)
    np.testing.assert_allclose(ours[0, 1:], theirs.coef_[0], atol=1e-3)

    def warm() -> object:
        model = LogisticRegression(solver="newton-cholesky", tol=TOL, warm_start=True)
        model.classes_, model.coef_, model.intercept_ = theirs.classes_, theirs.coef_, theirs.intercept_
        return model.fit(terms, codes)

    return {
        "ours": lambda: fit_logistic(design, codes, 2, weights, 1.0),
        "scikit-learn": lambda: LogisticRegression(solver="newton-cholesky", tol=TOL).fit(terms, codes),
        "ours, warm": lambda: fit_logistic(design, codes, 2, weights, 1.0, ours),
        "scikit-learn, warm": warm,
    }


def main() -> None:
    rows = []
    with one_blas_thread():
        for size in SIZES:
            seconds = smallest_times(make_runs(*size), rounds=5)
            cold = seconds["scikit-learn"] / seconds["ours"]
            warm = seconds["scikit-learn, warm"] / seconds["ours, warm"]
            rows.append([*map(str, size), f"{cold:.1f}", f"{warm:.1f}"])
    show_table(["rows", "terms", "scikit-learn / ours, cold", "warm"], rows)
