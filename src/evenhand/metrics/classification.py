"""What decisions cost, and how alike groups are decided, where outcomes are classes."""

from collections.abc import Hashable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from evenhand._utils.labels import label_array, read_groups
from evenhand._utils.typing import AnyArray, IntArray
from evenhand._utils.validation import to_numpy
from evenhand.metrics._inputs import as_prediction, as_weights, checked_blocks
from evenhand.metrics.unfairness import unfairness


def accuracy(
    y_true: ArrayLike,
    decisions: ArrayLike,
    classes: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Expected share of right decisions, `1/n sum_i pi(y_i | x_i)`.

    Parameters
    ----------
    y_true : array of shape (n,)
        Classes of the rows.
    decisions : array of shape (n, n_classes) or (n,)
        Chance of each class in each row, or one class for each row.
    classes : array of shape (n_classes,), optional
        Class of each column; needed with chances.
    sample_weight : array of shape (n,), optional

    Examples
    --------
    >>> from evenhand.metrics import accuracy
    >>> accuracy(["no", "yes"], [[0.5, 0.5], [0.25, 0.75]], classes=["no", "yes"])
    0.625
    >>> accuracy(["no", "yes"], ["yes", "yes"])
    0.5
    """
    chances, columns = _chances(decisions, classes)
    codes = _codes(y_true, columns, chances.shape)
    hits = np.zeros(len(codes))
    for rows, block in checked_blocks(chances):
        places = codes[rows]
        hits[rows] = np.where(places >= 0, block[np.arange(len(places)), places], 0.0)
    return float(np.average(hits, weights=as_weights(sample_weight, len(hits))))


def decision_gaps(
    decisions: ArrayLike,
    sensitive_features: Any,
    *,
    given: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    pairwise: bool = False,
) -> dict[Hashable, float]:
    """Largest difference in the chance of one class between each group and all rows, or pairs of groups.

    With `given=y_true` rows are compared within each true class (equalised odds; the positive rows alone
    are equal opportunity), with a legitimate factor within each of its values: keys are then
    `(stratum, group)`. fairlearn's `demographic_parity_difference` and `equalized_odds_difference` of two
    classes are the largest value with `pairwise=True`.

    Parameters
    ----------
    decisions : array of shape (n, n_classes) or (n,)
        Chance of each class in each row, or one class for each row.
    sensitive_features : array or data frame of shape (n,) or (n, n_columns)
        As in `unfairness`.
    given : array of shape (n,), optional
    sample_weight : array of shape (n,), optional
    pairwise : bool, default=False

    Examples
    --------
    >>> from evenhand.metrics import decision_gaps
    >>> decision_gaps(["yes", "no", "no", "no"], ["a", "a", "b", "b"])
    {'a': 0.25, 'b': 0.25}
    """
    chances, _ = _chances(decisions, None)
    return unfairness(
        chances, sensitive_features, metric="sup", sample_weight=sample_weight, pairwise=pairwise, given=given
    )


def _chances(decisions: ArrayLike, classes: ArrayLike | None) -> tuple[AnyArray, AnyArray | None]:
    """Chance of each class in each row, and the classes, where they are known."""
    given = to_numpy(decisions, "decisions")[0]
    if given.ndim == 2:
        chances = as_prediction(given, "decisions")
        return chances, None if classes is None else to_numpy(classes, "classes")[0]
    if given.ndim != 1 or len(given) == 0:
        raise ValueError(
            "decisions must be chances of shape (n, n_classes) or classes of shape (n,), and not empty: got "
            f"shape {given.shape}."
        )
    found = read_groups(decisions, len(given), "decisions")
    return np.eye(len(found.labels))[found.codes], label_array(found.labels)


def _codes(y_true: ArrayLike, classes: AnyArray | None, shape: tuple[int, ...]) -> IntArray:
    """The column of each row's class, -1 where there is none."""
    n_rows, n_classes = shape
    if classes is None:
        raise ValueError("accuracy needs the class of each column: pass classes=, as in model.classes_.")
    if classes.shape != (n_classes,):
        raise ValueError(
            f"classes needs one label per column: got shape {classes.shape} for {n_classes} columns."
        )
    target = to_numpy(y_true, "y_true")[0]
    if target.shape != (n_rows,):
        raise ValueError(f"y_true needs one class per row: got shape {target.shape} for {n_rows} rows.")
    try:
        place = {label: code for code, label in enumerate(classes.tolist())}
        return np.array([place.get(label, -1) for label in target.tolist()])
    except TypeError as error:
        raise ValueError(f"y_true and classes must hold labels, such as text or numbers: {error}.") from error
