"""What held-out rows with known groups prove about the population."""

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from evenhand._utils.frames import make_frame
from evenhand._utils.labels import label_text, read_groups
from evenhand._utils.typing import FloatArray, IntArray
from evenhand._utils.validation import as_floats, check_epsilon
from evenhand.certificates.deviations import (
    excess_width,
    share_interval,
    shortfall_width,
    tv_excess_width,
    w1_excess_width,
)
from evenhand.metrics import DISTANCES, GroupMasses, Membership, group_distances
from evenhand.metrics._inputs import Blocks, as_atoms, as_prediction, block_slices, checked, checked_blocks

Kind = Literal["pmf", "values"]


class PmfModel(Protocol):
    """A fitted model that tells the chance of each of its atoms for each row."""

    @property
    def atoms_(self) -> FloatArray:
        """What can be predicted, (n_atoms,)."""
        ...

    def predict_pmf(self, *inputs: Any, **known: Any) -> FloatArray:
        """Probability of each atom for each row, (n_rows, n_atoms)."""
        ...


SHARE_OF_DELTA = 0.1  # spent on the groups' shares, which matter less than the gaps


@dataclass(frozen=True, slots=True, eq=False)
class HeldOutCertificate:
    """Bounds on the distance between each group and all, in the population.

    With probability 1 - delta over the held-out rows, every group's distance lies between its `lower` and
    its `upper`, all groups at once. See `certify_held_out` for what that takes.
    """

    groups: tuple[Hashable, ...]
    counts: IntArray  # held-out rows of each group, (n_groups,) as all below
    estimate: FloatArray  # distance on these rows, which noise pushes up
    lower: FloatArray
    upper: FloatArray
    epsilon: FloatArray | None  # tolerances to compare with
    delta: float
    kind: Kind  # "pmf": of the randomised predictor; "values": of the predictor that gave these values
    metric: str = "ks"  # the distance: "ks", "tv" or "w1"

    @property
    def n_rows(self) -> int:
        """Number of held-out rows."""
        return int(self.counts.sum())

    @property
    def holds(self) -> bool:
        """Whether every group is proved to be within its epsilon."""
        return bool((self.upper <= self._tolerances()).all())

    @property
    def refuted(self) -> bool:
        """Whether some group is proved to be beyond its epsilon."""
        return bool((self.lower > self._tolerances()).any())

    def verdicts(self) -> list[str]:
        """One sentence for each group."""
        return [self._verdict(group) for group in range(len(self.groups))]

    def to_dict(self) -> dict[str, Any]:
        """Plain Python numbers, lists and strings, ready for JSON."""
        return {
            "groups": [label_text(group) for group in self.groups],
            "counts": self.counts.tolist(),
            "estimate": self.estimate.tolist(),
            "lower": self.lower.tolist(),
            "upper": self.upper.tolist(),
            "epsilon": None if self.epsilon is None else self.epsilon.tolist(),
            "delta": self.delta,
            "kind": self.kind,
            "metric": self.metric,
            "verdicts": self.verdicts(),
        }

    def frame(self, backend: str | None = None) -> Any:
        """One row for each group, as a data frame.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"} or None, default=None
        """
        columns: dict[str, Any] = {
            "group": [label_text(group) for group in self.groups],
            "rows": self.counts,
            "estimate": self.estimate,
            "lower": self.lower,
            "upper": self.upper,
        }
        if self.epsilon is not None:
            columns["epsilon"] = self.epsilon
        return make_frame(columns, backend)

    def __str__(self) -> str:
        """What is certified, and one sentence for each group."""
        whose = "the randomised predictor" if self.kind == "pmf" else "the predictor that gave these values"
        title = (
            f"With probability {1 - self.delta:.4g} over the choice of {self.n_rows} held-out rows, all of "
            f"this is true of {whose} in the population:"
        )
        return "\n".join([title, *("  " + verdict for verdict in self.verdicts())])

    def _tolerances(self) -> FloatArray:
        if self.epsilon is None:
            raise ValueError("No epsilon was given to compare with: pass epsilon= to certify_held_out.")
        return self.epsilon

    def _verdict(self, group: int) -> str:
        lower, upper, name = self.lower[group], self.upper[group], label_text(self.groups[group])
        sentence = (
            f"Group {name} is at most {upper:.4f} in {self.metric.upper()} from everybody, and "
            f"at least {lower:.4f} (these rows show {self.estimate[group]:.4f}, {self.counts[group]} of them "
            "in the group)"
        )
        if self.epsilon is None:
            return sentence + "."
        epsilon = self.epsilon[group]
        if upper <= epsilon:
            return f"{sentence}: within epsilon = {epsilon:.4g}."
        if lower > epsilon:
            return f"{sentence}: beyond epsilon = {epsilon:.4g}."
        return f"{sentence}: these rows cannot tell whether that is within epsilon = {epsilon:.4g}."


def certify_held_out(
    predictions: Any,
    sensitive_features: Any,
    *,
    X: Any = None,
    atoms: Any = None,
    epsilon: Any = None,
    delta: float = 0.05,
    metric: str = "ks",
) -> HeldOutCertificate:
    """Bound the population's distance of every group from all, with probability 1 - delta.

    Everybody's distribution mixes group s, whose share is p_s, with the rest, so

        U_s = sup_t |F_s(t) - F(t)| = (1 - p_s) D_s,    D_s = sup_t |F_s(t) - F_rest(t)|.

    Given which rows are in group s, its n_s rows and the other n - n_s are two independent samples that show
    a gap. D_s is at most that plus `sqrt((1 / n_s + 1 / (n - n_s)) log(1 / level) / 2)`, since at the point
    where D_s is reached Hoeffding's inequality bounds what the rows hide; from below it takes a bound at all
    points at once (`evenhand.certificates.deviations` has both proofs). p_s has its Clopper-Pearson interval.
    A tenth of delta goes to the shares, the rest to the two sides of the gaps; what each group gets of it is
    its part in a union over groups, except that two groups have one gap between them. Nothing asks F to be
    continuous, nor n to be large. Total variation and Wasserstein-1 distances mix in the same way, and are
    largest gaps too, of the means of other functions, so the same holds for them, with widths of their own.

    It takes that the held-out rows are independent draws from the population, and that nothing about the
    predictor (its key of draws included) was chosen on them. Then, for

    - a pmf: it is about the randomised predictor, whose draws have these distributions;
    - values: about whatever gives them. For the reproducible draws of `predict` the key is a constant
      of the model, the draw a function of the row (or of its id), and so the values of independent rows are
      independent: nothing is asked of the hash. The distance is that of the very predictor in use.

    Rows of unequal weight are not covered.

    Parameters
    ----------
    predictions : array of shape (n, n_atoms) or (n,), or a fitted model
        A pmf, values, or a model with `predict_pmf`, which is then called on `X`.
    sensitive_features : array or data frame of shape (n,) or (n, n_columns)
        Group of each row, labels of any type; of several columns, every combination that is there is a group.
    X : table of n rows or (scores, group_proba), optional
        What the model predicts from; a tuple is passed on as two arguments.
    atoms : array of shape (n_atoms,), optional
        All that the predictor can give. With few of them the lower bounds are sharper. "w1" needs them for
        its range (a fitted model has its own), and "tv" for their number where values are given.
    epsilon : float, array of shape (n_groups,) or dict, optional
        Tolerances to compare with, groups in sorted order.
    delta : float
        The probability with which the certificate may be wrong, in (0, 1).
    metric : {"ks", "tv", "w1"}, default="ks"
        Kolmogorov-Smirnov, total variation, or Wasserstein-1 in the units of the atoms.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> print(certify_held_out(rng.normal(size=20_000), rng.integers(2, size=20_000), epsilon=0.05))
    With probability 0.95 over the choice of 20000 held-out rows, all of this is true of the predictor that
    gave these values in the population:
      Group 0 is at most 0.0161 in KS from everybody, and at least 0.0000 (these rows show 0.0061, 10026 of
    them in the group): within epsilon = 0.05.
      Group 1 is at most 0.0162 in KS from everybody, and at least 0.0000 (these rows show 0.0061, 9974 of
    them in the group): within epsilon = 0.05.
    """
    if not 0.0 < delta < 1.0:
        raise ValueError(f"delta must lie strictly between 0 and 1: got {delta!r}.")
    if metric not in DISTANCES:
        raise ValueError(f"metric must be one of {', '.join(DISTANCES)}: got {metric!r}.")
    given = _given(predictions, sensitive_features, X, atoms, metric)
    masses = given.masses
    n_groups = len(masses.labels)
    if n_groups < 2:
        raise ValueError(
            f"sensitive_features needs two groups or more: all rows are in group {masses.labels[0]!r}."
        )
    counts = np.rint(masses.masses.sum(axis=1)).astype(np.int64)
    n_rows = int(counts.sum())
    n_gaps = 1 if n_groups == 2 else n_groups
    gap_level = (1.0 - SHARE_OF_DELTA) * delta / (2 * n_gaps)  # half for each side
    share_level = SHARE_OF_DELTA * delta / (2 * n_gaps)  # two shares are one, seen from both sides
    estimate = group_distances(masses, metric)
    lower, upper = np.empty(n_groups), np.empty(n_groups)
    for group, count in enumerate(counts.tolist()):
        gap = estimate[group] / (1.0 - count / n_rows)
        sizes = count, n_rows - count, gap_level
        overstated = given.unit * _excess_width(metric, given, *sizes)
        low, high = share_interval(count, n_rows, share_level)
        lower[group] = (1.0 - high) * max(gap - overstated, 0.0)
        upper[group] = (1.0 - low) * min(gap + given.unit * shortfall_width(*sizes), given.unit)
    tolerances = None if epsilon is None else np.array(check_epsilon(epsilon, masses.labels))
    return HeldOutCertificate(
        masses.labels, counts, estimate, lower, upper, tolerances, float(delta), given.kind, metric
    )


class _Given(NamedTuple):
    """What is known of the predictions."""

    masses: GroupMasses
    kind: Kind
    n_atoms: int | None  # where known beforehand
    unit: float = 1.0  # the largest distance there can be


def _excess_width(metric: str, given: _Given, n_first: int, n_second: int, level: float) -> float:
    if metric == "tv":
        assert given.n_atoms is not None
        return tv_excess_width(n_first, n_second, level, given.n_atoms)
    width = w1_excess_width if metric == "w1" else excess_width
    return width(n_first, n_second, level, averaged=given.kind == "pmf", n_atoms=given.n_atoms)


def _given(predictions: Any, sensitive_features: Any, X: Any, atoms: Any, metric: str) -> _Given:
    """How the predictions of each group are spread, and on what."""
    if hasattr(predictions, "predict_pmf"):
        if X is None:
            raise ValueError(
                "A model needs X=, the rows to predict; a post-processor X=(scores, group_proba)."
            )
        inputs = X if isinstance(X, tuple) else (X,)
        members = _members(sensitive_features, _num_samples(inputs[0]))
        blocks = checked(_predicted(predictions, inputs, sensitive_features))
        return _of_pmf(blocks, members, predictions.atoms_, metric)
    values = as_prediction(predictions, "predictions")
    members = _members(sensitive_features, len(values))
    if values.ndim == 2:
        return _of_pmf(checked_blocks(values), members, atoms, metric)
    masses = GroupMasses.of_values(values, members)
    if atoms is None:
        if metric != "ks":
            raise ValueError(
                f'metric="{metric}" needs atoms=, all that the predictor can give: no rows can bound the '
                f"{metric} distance of values on an unknown set."
            )
        return _Given(masses, "values", None)
    grid = np.unique(as_floats(atoms, "atoms"))
    if not np.isin(values, grid).all():
        raise ValueError("predictions has values that are not among the atoms; leave atoms out.")
    return _Given(masses, "values", len(grid), _unit(grid, metric))


def _members(sensitive_features: Any, n_rows: int) -> Membership:
    groups = read_groups(sensitive_features, n_rows)
    return Membership(groups.labels, groups.codes)


def _unit(grid: FloatArray, metric: str) -> float:
    return float(grid[-1] - grid[0]) if metric == "w1" else 1.0


def _of_pmf(blocks: Blocks, members: Membership, atoms: Any, metric: str) -> _Given:
    """Sums by group of pmfs whose rows are scaled to sum to one exactly; each block is dropped."""
    if metric == "w1" and atoms is None:
        raise ValueError('metric="w1" needs atoms=, the value of each column of the pmf.')
    exact = ((rows, pmf / pmf.sum(axis=1, keepdims=True)) for rows, pmf in blocks)
    masses = GroupMasses.of_blocks(exact, members, None)
    n_atoms = masses.masses.shape[1]
    if metric != "w1":
        return _Given(masses, "pmf", n_atoms)
    points = as_atoms(atoms, n_atoms)
    return _Given(replace(masses, points=points), "pmf", n_atoms, _unit(points, metric))


def _predicted(model: PmfModel, inputs: tuple[Any, ...], sensitive_features: Any) -> Blocks:
    """The model's pmf, block by block, so that memory does not grow with the rows."""
    aware = getattr(model, "aware", False)
    for rows in block_slices(_num_samples(inputs[0]), len(model.atoms_)):
        places = np.arange(rows.start, rows.stop)
        known = {"sensitive_features": _safe_indexing(sensitive_features, places)} if aware else {}
        yield rows, model.predict_pmf(*(_safe_indexing(each, places) for each in inputs), **known)
