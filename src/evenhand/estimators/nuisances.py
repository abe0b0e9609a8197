"""The two models that parity stands on: of the outcome, and of the group.

Rows that are post-processed must not have trained the models that score them: on rows with labels,
each is scored by models fitted on the other folds (cross-fitting).
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, clone
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.model_selection import StratifiedKFold, check_cv
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import _safe_indexing, get_tags
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import has_fit_parameter

from evenhand._utils.labels import Groups
from evenhand._utils.progress import report_progress
from evenhand._utils.text import is_wide_text, some_of
from evenhand._utils.typing import AnyArray, FloatArray, IntArray
from evenhand._utils.validation import Labels
from evenhand.estimators.draws import RandomState, key_from
from evenhand.estimators.groups import PAIR
from evenhand.estimators.tabular import table_kinds, table_pipeline, text_columns

Fold = tuple[IntArray, IntArray]  # rows to fit on, rows to score

DEFAULT_FOLDS = 5
DESCENTS = ("lbfgs", "newton-cg", "newton-cholesky")  # of logistic regression: solvers that only go downhill


def default_regressor(X: Any = None) -> BaseEstimator:
    """Ridge regression on imputed and scaled features of X: the paper's linear model, made safe.

    It is quick enough to fit once for every fold, has nothing to tune, and a model file with it opens
    without any type to trust, which trees do not.
    """
    if issparse(X):  # without folds a sparse table of n rows would become a dense one of n x n
        return _prepared(RidgeCV(alphas=np.logspace(-2, 2, 5), cv=3), X)
    return _prepared(RidgeCV(alphas=np.logspace(-3, 3, 13)), X)


def default_classifier(X: Any = None) -> BaseEstimator:
    """Logistic regression: parity rests on probabilities that mean what they say, and its do."""
    return _prepared(LogisticRegression(max_iter=1000), X)


def _prepared(model: BaseEstimator, X: Any) -> Pipeline:
    """The model behind what the columns of X need: those of text become columns of zeros and ones."""
    kinds = {} if X is None or issparse(X) else table_kinds(X)
    if "text" in kinds.values():
        return table_pipeline(model, kinds)
    imputer = SimpleImputer(keep_empty_features=True)
    return make_pipeline(imputer, StandardScaler(with_mean=not issparse(X)), model)


@dataclass(frozen=True, slots=True, eq=False)
class Labelled:
    """Rows whose outcome or group is known."""

    X: Any
    y: AnyArray  # (n_rows,); NaN for people of whom only the group is known
    codes: IntArray  # group of each row, (n_rows,)
    groups: Labels
    weights: FloatArray | None  # (n_rows,)
    classes: Labels | None = None  # of a classification
    proba: FloatArray | None = None  # of the groups, where that is all that is known, (n_rows, n_groups)

    def rows(self, rows: IntArray) -> "Labelled":
        """Some of the rows."""
        weights = None if self.weights is None else self.weights[rows]
        proba = None if self.proba is None else self.proba[rows]
        X = _safe_indexing(self.X, rows)
        return replace(self, X=X, y=self.y[rows], codes=self.codes[rows], weights=weights, proba=proba)


def fit_model(
    model: BaseEstimator,
    X: Any,
    y: AnyArray,
    weights: FloatArray | None,
    name: str,
    warm_start_from: Any = None,
) -> Any:
    """A fitted clone of `model`; weights go to it, or to the last step of a pipeline.

    `warm_start_from` is a fit of the same model on more of the rows, for a shorter way to the same answer.
    """
    given = {}
    if weights is not None and not isinstance(model, FrozenEstimator):
        given = {weight_parameter(model, name): weights}
    copy = clone(model)
    started = warm_start_from is not None and _warm_start(_last_step(copy), _last_step(warm_start_from), y)
    try:
        return copy.fit(X, y, **given)
    except (ValueError, TypeError) as error:
        if started:  # fewer rows may have fewer categories, and then fewer columns than the start has
            return fit_model(model, X, y, weights, name)
        text = text_columns(X)
        if not text:
            raise
        raise ValueError(
            f"{name}={type(model).__name__} could not be fitted: {error}\nX has text in column(s) "
            f"{some_of(text)}: if the model takes numbers alone, pass evenhand.table_pipeline(model, X)."
        ) from error


def weight_parameter(model: Any, name: str) -> str:
    """What the weights of rows are called in a model's fit; refuses one that takes none."""
    found = _weight_argument(model)
    if found is None:
        raise ValueError(
            f"sample_weight was given, but {name}={type(model).__name__} takes none in its fit: "
            "leave sample_weight out, or choose a model that takes it."
        )
    return found


def _weight_argument(model: Any) -> str | None:
    """What weights are called in the fit of a model, or of a pipeline; None where it takes none."""
    if isinstance(model, FrozenEstimator) or has_fit_parameter(model, "sample_weight"):
        return "sample_weight"
    if isinstance(model, Pipeline) and has_fit_parameter(model.steps[-1][1], "sample_weight"):
        return f"{model.steps[-1][0]}__sample_weight"
    return None


def require_weighted(classifier: BaseEstimator) -> None:
    """Refuse a model of the group that cannot learn from probabilities, which are weights to it."""
    if _weight_argument(classifier) is None and not came_fitted(classifier):
        raise ValueError(
            "Groups that are given as probabilities are learned from weighted rows, but "
            f"sensitive_estimator={type(classifier).__name__} takes no sample_weight in its fit: choose a "
            "model that does, or pass the likeliest group of each row."
        )


def _warm_start(model: Any, warm_start_from: Any, y: AnyArray) -> bool:
    """Have a logistic regression begin where another ended, if both are on their way to one best answer.

    What it comes to is the same within its tolerance: the loss is convex, the steps go downhill, and the
    other was not cut short. No other model is started so: its answer could tell where it began.
    """
    if type(model) is not LogisticRegression or model.solver not in DESCENTS:
        return False
    was_cut_short = max(warm_start_from.n_iter_) >= warm_start_from.max_iter
    if was_cut_short or not np.array_equal(np.unique(y), warm_start_from.classes_):
        return False
    model.set_params(warm_start=True)
    model.coef_, model.intercept_ = warm_start_from.coef_.copy(), warm_start_from.intercept_.copy()
    return True


def _last_step(model: Any) -> Any:
    return model.steps[-1][1] if isinstance(model, Pipeline) else model


def require_proba(classifier: BaseEstimator, name: str = "sensitive_estimator") -> None:
    """Refuse a classifier that gives no probabilities."""
    if not hasattr(classifier, "predict_proba"):
        raise ValueError(
            f"{name} must have predict_proba: {type(classifier).__name__} has none. Wrap it in "
            "sklearn.calibration.CalibratedClassifierCV."
        )


def real_floats(predictions: Any) -> FloatArray:
    """What a model predicts as floats; complex numbers, of which half would be lost, are refused."""
    found = np.asarray(predictions)
    if found.dtype.kind == "c":
        raise ValueError("A model predicts complex numbers: scores and probabilities must be real.")
    return found.astype(np.float64, copy=False)


def group_probabilities(classifier: Any, X: Any, groups: Labels) -> FloatArray:
    """P(S | X) with one column for each of `groups`, in their order, shape (n_rows, n_groups).

    Classifiers fitted here know groups by position; one that came fitted knows them by label.
    """
    proba = real_floats(classifier.predict_proba(X))
    classes = np.asarray(classifier.classes_).tolist()
    if not came_fitted(classifier):
        return _in_columns(proba, classes, len(groups))
    known = require_known_groups(classifier, groups)
    return proba[:, [known.index(label) for label in groups]]


def require_known_groups(classifier: Any, groups: Labels) -> list[Hashable]:
    """The groups that a model which came fitted tells apart; refuses one for other groups."""
    classes = np.asarray(classifier.classes_).tolist()
    known = [tuple(label) if isinstance(label, list) else label for label in classes]
    if set(known) != set(groups):
        raise ValueError(
            f"sensitive_estimator knows the groups {some_of(known)}, but sensitive_features has "
            f"{some_of(groups)}."
        )
    return known


def class_codes(target: AnyArray, classes: Labels) -> IntArray:
    """Position of each row's outcome among the classes, which are sorted, (n_rows,)."""
    known = np.array(classes, dtype=object) if is_wide_text(classes) else np.array(classes)
    if target.dtype.kind == known.dtype.kind and known.dtype.kind in "biufU":
        places = np.searchsorted(known, target)
        if np.array_equal(known[np.minimum(places, len(known) - 1)], target):
            return places
    place = {label: code for code, label in enumerate(classes)}
    labels = target.tolist()
    unknown = next((label for label in labels if label not in place), None)
    if unknown is not None:
        raise ValueError(f"y has {unknown!r}, which is none of the classes {', '.join(map(repr, classes))}.")
    return np.array([place[label] for label in labels])


def class_probabilities(classifier: Any, X: Any, classes: Labels) -> FloatArray:
    """P(Y | X) with one column for each of `classes`, in their order, shape (n_rows, n_classes)."""
    proba = real_floats(classifier.predict_proba(X))
    known = np.asarray(classifier.classes_).tolist()
    unknown = [label for label in known if label not in classes]
    if unknown:
        raise ValueError(
            f"estimator knows the classes {', '.join(map(repr, known))}, but y has "
            f"{', '.join(map(repr, classes))}."
        )
    return _in_columns(proba, [classes.index(label) for label in known], len(classes))


def _in_columns(proba: FloatArray, places: list[int], n_columns: int) -> FloatArray:
    """Columns in their places; those that a model has not seen have no probability."""
    if len(places) == n_columns and places == list(range(n_columns)):
        return proba
    known = all(type(place) is int and 0 <= place < n_columns for place in places)
    if not known or len(set(places)) < len(places) or proba.shape != (len(proba), len(places)):
        raise ValueError(
            f"The model tells the classes {some_of(places)} apart, with probabilities of shape "
            f"{proba.shape}: it was fitted for {n_columns} others."
        )
    out = np.zeros((len(proba), n_columns))
    out[:, places] = proba
    return out


def came_fitted(model: Any) -> bool:
    """Whether a model is frozen, or a pipeline that ends in one that is."""
    return isinstance(_last_step(model), FrozenEstimator)


def fold_seed(random_state: RandomState) -> int:
    """Seed of the folds: the integer itself; None is always the same folds."""
    return 0 if random_state is None else int(key_from(random_state)[0] >> np.uint64(32))


def make_folds(
    cv: Any, X: Any, used: AnyArray, attributes: Sequence[Groups], codes: IntArray, seed: int
) -> list[Fold]:
    """Folds of the `used` rows of X in which each is scored once and every group is there to learn from.

    `attributes` and `codes`, by which the folds are stratified, are those of the used rows, and the folds
    count them alone; a splitter of the user's own sees all rows.
    """
    if cv is None or isinstance(cv, int | np.integer):
        smallest = min([len(codes), *(int(groups.sizes().min()) for groups in attributes)])
        n_folds = _number_of_folds(cv, smallest)
        cv = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
        codes = pool_rare(codes, n_folds)
        folds = list(cv.split(codes, codes))
    else:
        of_all = np.zeros(len(used), np.int64)
        of_all[used] = codes
        folds = keep_rows(check_cv(cv).split(X, of_all), used)
    scored = np.concatenate([test for _, test in folds])
    if len(scored) != len(codes) or len(np.unique(scored)) != len(codes):
        raise ValueError(
            f"cv must score every row exactly once: it scores {len(np.unique(scored))} of {len(codes)} rows, "
            f"{len(scored)} times in all. Use a splitter such as StratifiedKFold."
        )
    for groups in attributes:
        require_groups(groups, folds)
    return folds


def require_groups(groups: Groups, folds: list[Fold]) -> None:
    """Refuse folds in which a model would not learn a group, and give it no probability in silence."""
    for number, (train, _) in enumerate(folds):
        absent = np.flatnonzero(groups.sizes(train) == 0)
        if len(absent):
            way_out = "Use fewer folds, or cv=None for folds stratified by group."
            if groups.kind == PAIR:
                way_out = (
                    "Use fewer folds, cv=None for folds stratified by class and group, or multiply two "
                    'models with joint="product".'
                )
            raise ValueError(
                f"cv leaves no row of {groups.kind} {groups.labels[absent[0]]!r} to learn from in fold "
                f"{number}. {way_out}"
            )


def _number_of_folds(cv: Any, smallest: int) -> int:
    n_folds = max(2, min(DEFAULT_FOLDS, smallest)) if cv is None else int(cv)
    if n_folds < 2 or n_folds > smallest:
        raise ValueError(
            f"cv must be at least 2 and at most the size of the smallest group, {smallest}: got {n_folds}."
        )
    return n_folds


def pool_rare(codes: IntArray, n_folds: int) -> IntArray:
    """Codes of which each has a row for every fold: rare ones are pooled, with the commonest if need be."""
    counts = np.bincount(codes)
    rare = counts[codes] < n_folds
    if not rare.any():
        return codes
    pool = len(counts) if rare.sum() >= n_folds else int(counts.argmax())
    return np.where(rare, pool, codes)


def keep_rows(folds: Iterable[Fold], used: AnyArray) -> list[Fold]:
    """The folds of a table of which only the used rows are kept."""
    position = np.cumsum(used) - 1
    return [
        (position[np.asarray(train)[used[train]]], position[np.asarray(test)[used[test]]])
        for train, test in folds
    ]


def report_fits(model: str, done: int, folds: Sequence[Fold]) -> None:
    """Say how many of its fits a model has behind it: one on all the rows, then one for each fold."""
    report_progress(f"model of the {model}", done, 1 + len(folds))


def out_of_fold(
    score: Callable[[Labelled, Any], FloatArray],
    data: Labelled,
    folds: Iterable[Fold],
    n_jobs: int | None,
    model: str,
) -> FloatArray:
    """`score(labelled rows to fit on, X to score)` of every row, by models that have not seen it."""
    folds = list(folds)
    report_fits(model, 1, folds)
    scored = Parallel(n_jobs=n_jobs, return_as="generator")(
        delayed(score)(data.rows(train), _safe_indexing(data.X, test)) for train, test in folds
    )
    parts = []
    for part in scored:
        parts.append(part)
        report_fits(model, 1 + len(parts), folds)
    out = np.empty((len(data.codes), *parts[0].shape[1:]))
    for (_, test), part in zip(folds, parts, strict=True):
        out[test] = part
    return out


def require_table(X: Any) -> None:
    """Refuse what is not a table, in the words that scikit-learn's users know."""
    if isinstance(X, memoryview):
        raise ValueError("X must be an array, a frame, a sparse matrix or a list of rows: got a memoryview.")
    try:
        shape = getattr(X, "shape", None) or np.shape(X)
    except ValueError as error:  # rows of several lengths
        raise ValueError(f"X cannot be read as a table: {error}") from error
    if len(shape) != 2:
        raise ValueError(
            f"X must have shape (n_rows, n_features): got {tuple(shape)}. Reshape your data: "
            "X.reshape(-1, 1) for one feature, X.reshape(1, -1) for one row."
        )
    if shape[0] == 0:
        raise ValueError(f"X has 0 sample(s) (shape={tuple(shape)}) while a minimum of 1 is required.")


def input_tags(model: Any) -> Any:
    """What a model takes; a pipeline does not pass on all that its first step takes."""
    tags = get_tags(model).input_tags
    if isinstance(model, Pipeline):
        tags.allow_nan = get_tags(model.steps[0][1]).input_tags.allow_nan
    return tags
