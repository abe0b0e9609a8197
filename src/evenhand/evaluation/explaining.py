"""What the parity step does to single people: the score before, the distribution after, and who pushes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import index
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from evenhand._utils.frames import make_frame
from evenhand._utils.labels import label_text
from evenhand._utils.text import plain, spaced
from evenhand._utils.typing import AnyArray, FloatArray, IntArray
from evenhand._utils.validation import Labels, check_rows_of
from evenhand.dual.policy import SoftmaxPolicy
from evenhand.dual.pushes import row_imbalance, without_group, without_parity
from evenhand.evaluation.explained import Person
from evenhand.metrics._inputs import block_slices
from evenhand.plots.pushes import PushDisplay
from evenhand.plots.rows import unwrap_model

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)  # of the quantiles of a distribution of numbers
MOST_TOLD = 3  # people in `print(explanation)`; the frame has them all


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Explanation:
    """What moved each of some people, exact for the parity step. `explain` makes it.

    Printed, it tells of the first few in words; `explanation[row]` is one person, and `frame()` has the
    numbers of all. What is moved is the mean of a row's distribution, or, where classes are decided for, the
    chance of one class (`followed`): the second of two, of more the one whose chance the step changes most.
    """

    policy: SoftmaxPolicy
    groups: Labels
    classes: Labels | None  # names of the atoms, where these are classes
    names: tuple[Any, ...]  # of the rows
    scores: FloatArray  # (n_rows,), or class probabilities (n_rows, n_classes)
    group_proba: FloatArray  # (n_rows, n_groups)
    imbalance: FloatArray  # t(x), (n_rows, n_groups)
    drawn: AnyArray  # what `predict` answers, (n_rows,)
    spread: FloatArray  # quantiles at `LEVELS`, or the chance of each class, (n_rows, n_levels or n_atoms)
    followed: IntArray | None  # place of the class that is followed, (n_rows,)
    unpushed: FloatArray  # mean or chance without any group's constraint, (n_rows,)
    value: FloatArray  # mean or chance as predicted, (n_rows,)
    without: FloatArray  # mean or chance without one group's constraint, (n_rows, n_groups)
    gains: FloatArray  # what each constraint has the step forgive for the move, (n_rows, n_groups)

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, row: int) -> Person:
        place = index(row)
        if not -len(self) <= place < len(self):
            raise IndexError(f"There is no row {place}: {len(self)} were explained, and the first is row 0.")
        place %= len(self)
        one = slice(place, place + 1)
        return Person(
            name=self.names[place],
            policy=self.policy,
            groups=self.groups,
            classes=self.classes,
            score=self.scores[one],
            group_proba=self.group_proba[one],
            imbalance=self.imbalance[place],
            drawn=self.drawn[place],
            spread=self.spread[place],
            followed=None if self.followed is None else int(self.followed[place]),
            unpushed=float(self.unpushed[place]),
            value=float(self.value[place]),
            without=self.without[place],
            gains=self.gains[place],
        )

    def __iter__(self) -> Iterator[Person]:
        return (self[row] for row in range(len(self)))

    def __str__(self) -> str:
        return "\n\n".join([*map(str, self._first()), *self._more()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        more = "".join(f"<p>{line}</p>" for line in self._more())
        return "".join(person._repr_html_() for person in self._first()) + more

    def _first(self) -> list[Person]:
        return [self[row] for row in range(min(len(self), MOST_TOLD))]

    def _more(self) -> list[str]:
        more = len(self) - MOST_TOLD
        return [f"... and {spaced(more)} more: explanation[row], explanation.frame()"] if more > 0 else []

    def frame(self, backend: str | None = None) -> Any:
        """One row for each person, as a data frame.

        `score` (or `score: class`), `without_parity` and `predicted` (means, or chances of the class
        `followed`), `change` between the two, quantiles or `chance: class`, `draw`; and for each group its
        `probability`, `imbalance`, `gain`, and what would be predicted `without` its constraint.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"} or None, default=None
            The first of them that is installed by default.
        """
        columns: dict[str, Any] = {"row": list(self.names)}
        if self.classes is None:
            columns["score"] = self.scores
            spread = [f"q{100 * level:02.0f}" for level in LEVELS]
        else:
            named = [plain(label) for label in self.classes]
            own = named if self.scores.shape[1] == len(named) else range(self.scores.shape[1])
            columns |= {f"score: {name}": self.scores[:, place] for place, name in enumerate(own)}
            columns["followed"] = [named[place] for place in self._followed()]
            spread = [f"chance: {name}" for name in named]
        columns |= {"without_parity": self.unpushed, "predicted": self.value}
        columns["change"] = self.value - self.unpushed
        columns |= {name: self.spread[:, place] for place, name in enumerate(spread)}
        columns["draw"] = self.drawn
        for place, group in enumerate(self.groups):
            name = plain(label_text(group, within=self.policy.strata is not None))
            columns[f"probability: {name}"] = self.group_proba[:, place]
            columns[f"imbalance: {name}"] = self.imbalance[:, place]
            columns[f"gain: {name}"] = self.gains[:, place]
            columns[f"without: {name}"] = self.without[:, place]
        return make_frame(columns, backend)

    def plot(self, row: int = 0, ax: Any = None) -> PushDisplay:
        """Draw one person's distribution before and after, and the pushes below it.

        Parameters
        ----------
        row : int, default=0
            Place of the person among those that were explained.
        ax : array of two matplotlib Axes, default=None
        """
        return self[row].plot(ax)

    def _followed(self) -> IntArray:
        assert self.followed is not None
        return self.followed


def explain(
    model: Any, X: Any, group_proba: Any = None, *, sensitive_features: Any = None, ids: Any = None
) -> Explanation:
    """Tell what the parity step did to each person, and which group's constraint pushed where.

    The step adds to the logit of each possible prediction one push for each group,

        push_sl = beta * theta_ls * t_s(x),    t_s(x) = 1 - P(S = s | x) / P(S = s),

    and nothing else: the pushes add up to the whole tilt, and with the multipliers of a group at zero its
    push is gone. So the answer is exact, for the step; which features made the score and the group
    probabilities is a question to the two models (docs/how-to/explaining.md).

    Parameters
    ----------
    model : ParityRegressor, ParityClassifier, ParityPostprocessor, or a pipeline or search that ends in one
        Fitted.
    X : table of shape (n_rows, n_features)
        What the model predicts from; for a post-processor the scores.
    group_proba : array or data frame of shape (n_rows, n_groups), default=None
        Only for a post-processor.
    sensitive_features : array of shape (n_rows,), default=None
        Only for `aware` models, which need it.
    ids : array of shape (n_rows,), default=None
        Who each row is: names of the rows, and the draws are those of `predict(..., ids=ids)`. By default
        rows are numbered from 0.

    Returns
    -------
    Explanation

    Examples
    --------
    >>> import evenhand as eh
    >>> data = eh.datasets.make_population(2000, n_groups=2, separation=2.0, random_state=0)
    >>> step = eh.ParityPostprocessor(epsilon=0.02).fit(data.scores, data.group_proba)
    >>> told = eh.explain(step, data.scores[:2], data.group_proba[:2])
    >>> print(told[1])
    Row 1: ...
    >>> bool(abs(told[1].pushes.sum(axis=0) - told[1].tilt).max() < 1e-9)
    True
    """
    model, (X,) = unwrap_model(model, (X,))
    is_step = _is_step(model, group_proba)
    check_is_fitted(model, "step_")
    policy, groups = model.policy_, model.step_.groups
    if is_step:
        rows = check_rows_of(X, group_proba, groups, policy.strata, policy.cost.n_classes)
        scores, shares = rows.scores, rows.group_proba
        given: dict[str, Any] = {"scores": X, "group_proba": group_proba}
    else:
        scores, shares = model.predict_scores(X, sensitive_features=sensitive_features)
        given = {"X": X, "sensitive_features": sensitive_features}
    drawn = np.asarray(model.predict(**given, ids=ids))
    classes = _class_names(model, policy)
    names = tuple(range(len(drawn))) if ids is None else tuple(np.asarray(ids).tolist())
    return _explain_rows(policy, groups, classes, names, scores, shares, drawn)


def _is_step(model: Any, group_proba: Any) -> bool:
    """Whether the model takes scores and group probabilities; refused where it is none of ours."""
    name = type(model).__name__
    if hasattr(model, "predict_scores"):
        if group_proba is not None:
            raise TypeError(f"{name} finds group_proba by itself: pass the table X alone.")
        return False
    if not hasattr(model, "multipliers_") and name != "ParityPostprocessor":
        raise TypeError(
            f"explain takes a ParityRegressor, ParityClassifier or ParityPostprocessor, or a pipeline that "
            f"ends in one: got {name}."
        )
    if group_proba is None:
        raise TypeError("A ParityPostprocessor is explained by explain(model, scores, group_proba).")
    return True


def _class_names(model: Any, policy: SoftmaxPolicy) -> Labels | None:
    if policy.cost.n_classes is None:
        return None
    labels = getattr(model, "classes_", None)
    return tuple((policy.grid.atoms if labels is None else labels).tolist())


def _explain_rows(
    policy: SoftmaxPolicy,
    groups: Labels,
    classes: Labels | None,
    names: tuple[Any, ...],
    scores: FloatArray,
    group_proba: FloatArray,
    drawn: AnyArray,
) -> Explanation:
    free = without_parity(policy)
    others = [without_group(policy, place) for place in range(len(groups))]
    followed = None
    if classes is None:
        levels = [policy.quantile(scores, group_proba, np.array(level)) for level in LEVELS]
        spread = np.column_stack(levels)
        found = [each.mean(scores, group_proba) for each in (free, policy, *others)]
    else:
        tables = [each.pmf(scores, group_proba) for each in (free, policy, *others)]
        spread = tables[1]
        followed = _followed_class(tables[0], tables[1])
        found = [table[np.arange(len(table)), followed] for table in tables]
    imbalance = row_imbalance(policy, group_proba)
    return Explanation(
        policy=policy,
        groups=groups,
        classes=classes,
        names=names,
        scores=scores,
        group_proba=group_proba,
        imbalance=imbalance,
        drawn=drawn,
        spread=spread,
        followed=followed,
        unpushed=found[0],
        value=found[1],
        without=np.column_stack(found[2:]),
        gains=_gains([free, policy], scores, group_proba, imbalance),
    )


def _followed_class(before: FloatArray, after: FloatArray) -> IntArray:
    """Place of the class to follow: the second of two, else the one whose chance changes most."""
    if after.shape[1] == 2:
        return np.ones(len(after), np.int64)
    places: IntArray = np.abs(after - before).argmax(axis=1)
    return places


def _gains(
    policies: Sequence[SoftmaxPolicy], scores: FloatArray, group_proba: FloatArray, imbalance: FloatArray
) -> FloatArray:
    """`E_after[theta_s t_s] - E_before[theta_s t_s]` in the units of the cost, (n_rows, n_groups).

    Over the groups they add up to what the step forgives for the move, which is never negative.
    """
    free, policy = policies
    gains = np.empty(group_proba.shape)
    for rows in block_slices(len(scores), len(policy.tilt)):
        before, after = (each.pmf(scores[rows], group_proba[rows]) for each in (free, policy))
        gains[rows] = ((after - before) @ policy.tilt) * imbalance[rows]
    return gains * policy.cost.unit(policy.grid)
