"""Shapes that compiled code of scikit-learn and SciPy relies on without a look, in what needs no trust.

skops lists trees, which can be made to read memory that is not theirs. Support vector machines and sparse
matrices can, too, and are not listed: here their parts are compared before anybody predicts with them.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.svm._base import BaseLibSVM, BaseSVC

_LEAVES = (str, bytes, bool, int, float, complex, type(None), np.generic, type)


def find_memory_fault(estimator: Any) -> str | None:
    """The first part of an estimator whose shapes do not agree, in words, or None."""
    for part in _parts(estimator):
        try:
            fault = next(_faults(part), None)
        except Exception as error:  # a part that is missing, or of another kind altogether
            fault = f"{type(error).__name__}: {error}"
        if fault is not None:
            return f"its {type(part).__name__} is damaged or forged ({fault})"
    return None


def _parts(root: Any) -> Iterator[Any]:
    """Everything inside a value, each object once."""
    waiting, seen = [root], set()
    while waiting:
        value = waiting.pop()
        if isinstance(value, _LEAVES) or id(value) in seen:
            continue
        seen.add(id(value))
        yield value
        if isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list | tuple | set | frozenset):
            waiting += value
        elif isinstance(value, np.ndarray):
            waiting += value.ravel().tolist() if value.dtype == object else []
        elif not scipy.sparse.issparse(value):
            waiting += getattr(value, "__dict__", {}).values()


def _faults(part: Any) -> Iterator[str]:
    if scipy.sparse.issparse(part) and hasattr(part, "check_format"):
        part.check_format(full_check=True)
    if isinstance(part, BaseLibSVM) and "support_" in vars(part):
        yield from _machine_faults(part)


def _machine_faults(machine: Any) -> Iterator[str]:
    """Why libsvm would read past the ends of the arrays of a support vector machine."""
    n_vectors, n_features = machine.support_vectors_.shape
    rows, columns = machine.shape_fit_
    if machine.kernel == "precomputed":
        n_vectors, n_features = len(machine.support_), columns
    if machine.support_.shape != (n_vectors,) or n_features != columns:
        yield "its support vectors do not have one shape"
    elif n_vectors and not 0 <= machine.support_.min() <= machine.support_.max() < rows:
        yield "its support vectors are not among the rows of its fit"
    n_classes = len(machine.classes_) if isinstance(machine, BaseSVC) else 2
    for name in ("dual_coef_", "_dual_coef_"):
        if getattr(machine, name).shape != (n_classes - 1, n_vectors):
            yield f"its {name} is not one number for each support vector"
    n_pairs = n_classes * (n_classes - 1) // 2
    if machine.intercept_.shape != (n_pairs,) or machine._intercept_.shape != (n_pairs,):
        yield "its intercepts are not one for each pair of classes"
    counts = machine._n_support
    # libsvm takes the number of classes from these, of regressions too
    if counts.shape != (n_classes,) or (
        isinstance(machine, BaseSVC) and (counts.min() < 0 or counts.sum() != n_vectors)
    ):
        yield "its support vectors are not dealt out to its classes"
    if not {machine._probA.shape, machine._probB.shape} <= {(0,), (n_pairs,)} or (
        machine._probA.shape != machine._probB.shape
    ):
        yield "its probabilities are not one pair of numbers for each pair of classes"
