"""Which predictions the parity step favours in each group."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evenhand._utils.frames import make_frame
from evenhand._utils.typing import FloatArray, IntArray
from evenhand._utils.validation import Labels, as_floats, check_prior
from evenhand.dual.costs import Cost
from evenhand.dual.imbalance import stratum_sums
from evenhand.metrics._inputs import as_atoms
from evenhand.plots.rows import unwrap_model
from evenhand.plots.style import Display, headline, name_of, short, signed, subplots

COLOUR_MAP = "cividis"  # lightness alone tells its order: for colour blindness and grey print alike
PLATEAU = 0.1  # of the range of a group's bonus: what counts as its top


@dataclass(frozen=True, eq=False)
class TiltDisplay(Display):
    """Which predictions the parity step favours, and which it avoids, for a person of each group.

    The step predicts what is near the score, and to make the groups alike it adds a bonus to some
    predictions: one with a bonus of 9 is treated as if its squared error were 9 smaller, one with a bonus of
    -9 as if it were 9 larger. Bonuses of a group are around their mean, so that they sum to zero.

    In the paper's terms: the policy weighs atom l (a value that can be predicted) by
    `<theta_l, t(x)> - (eta(x) - y_l)^2`, where theta is called the tilt. For a row that is surely in group s
    the first term, less its mean over the atoms, is the lift

        lift_sl = sum_r theta_lr - theta_ls / p_s,

    on the scale where the atoms span [-1, 1]; the bonus is the lift in the units of the cost. The tilt
    itself is not unique (adding a multiple of p to the row of an atom changes no prediction), the lift is.

    Parameters
    ----------
    groups : tuple of labels
    atoms : array of shape (n_atoms,)
        The values that can be predicted, in the user's units.
    tilt : array of shape (n_atoms, n_groups)
    group_prior : array of shape (n_groups,)
    value_name : str
        What is predicted, with its unit.
    strata : array of shape (n_groups,) or None
        Stratum of each group, where groups are compared within strata; theta and p are then the stratum's.
    unit : float or None
        A bonus for a lift of one; that of squared errors by default.
    cost_name : str
        What the bonus is taken off.
    classes : tuple of labels or None
        Names of the values, where these are classes.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure, once `plot` was called

    Examples
    --------
    >>> from evenhand.plots import TiltDisplay
    >>> shown = TiltDisplay.from_tilt([0.0, 1.0], [[0.1, 0.0], [0.0, 0.0]], [0.5, 0.5])
    >>> shown.lift
    array([[-0.05,  0.05],
           [ 0.05, -0.05]])
    """

    groups: tuple[Hashable, ...]
    atoms: FloatArray
    tilt: FloatArray
    group_prior: FloatArray
    value_name: str = "Prediction"
    strata: IntArray | None = None
    unit: float | None = None
    cost_name: str = "squared error"
    classes: Labels | None = None

    @classmethod
    def from_tilt(
        cls,
        atoms: Any,
        tilt: Any,
        group_prior: Any,
        groups: Sequence[Hashable] | None = None,
        *,
        value_name: str = "Prediction",
        strata: IntArray | None = None,
    ) -> "TiltDisplay":
        """Display of arrays.

        Parameters
        ----------
        atoms : array of shape (n_atoms,)
        tilt : array of shape (n_atoms, n_groups)
        group_prior : array of shape (n_groups,)
        groups : sequence of n_groups labels, default=None
            0, 1, ... by default.
        value_name : str
        strata : array of shape (n_groups,), default=None
            Stratum of each group, where groups are compared within strata.
        """
        table = as_floats(tilt, "tilt")
        if table.ndim != 2 or not np.isfinite(table).all():
            raise ValueError(f"tilt must be finite, of shape (n_atoms, n_groups): got shape {table.shape}.")
        labels = tuple(range(table.shape[1])) if groups is None else tuple(groups)
        if len(labels) != table.shape[1]:
            raise ValueError(f"groups has {len(labels)} labels, but tilt {table.shape[1]} columns.")
        prior = check_prior(group_prior, labels, strata)
        return cls(labels, as_atoms(atoms, len(table)), table, prior, value_name, strata)

    @classmethod
    def from_model(cls, model: Any, *, value_name: str = "Prediction") -> "TiltDisplay":
        """Display of a fitted model.

        Parameters
        ----------
        model : fitted estimator of this package
            In a pipeline or a search, too.
        value_name : str, default="Prediction"
            What is predicted, with its unit.
        """
        fitted, _ = unwrap_model(model)
        policy, groups = fitted.policy_, fitted.groups_.tolist()
        shown = cls.from_tilt(
            policy.grid.atoms,
            policy.tilt,
            policy.group_prior,
            groups,
            value_name=value_name,
            strata=policy.strata,
        )
        labels = getattr(fitted, "classes_", None)
        return replace(
            shown,
            unit=policy.cost.unit(policy.grid),
            cost_name=_cost_name(policy.cost),
            classes=None if labels is None else tuple(labels.tolist()),
        )

    @property
    def lift(self) -> FloatArray:
        """What each atom gains for a row that is surely in the group, (n_groups, n_atoms)."""
        # Columns of t for sure rows: 1 / P(z) in the group's stratum, less 1 / p_s in its own place.
        strata = np.zeros(len(self.groups), np.int64) if self.strata is None else self.strata
        shares = 1.0 if self.strata is None else stratum_sums(self.group_prior, strata)
        imbalance = (strata[:, None] == strata) / shares - np.diag(1.0 / self.group_prior)
        gained = imbalance @ self.tilt.T
        centred: FloatArray = gained - gained.mean(axis=1, keepdims=True)
        return centred

    @property
    def bonus(self) -> FloatArray:
        """What is taken off the cost of each prediction for a person of the group, (n_groups, n_atoms)."""
        unit = (np.ptp(self.atoms) / 2.0) ** 2 if self.unit is None else self.unit
        return float(unit) * self.lift

    def frame(self, backend: str | None = None) -> Any:
        """One row for each prediction of each group: its bonus, and the lift and the tilt behind it.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"} or None, default=None
            The first of them that is installed by default.
        """
        names = [name_of(group, 10_000) for group in self.groups]
        columns = {
            "group": np.repeat(names, len(self.atoms)),
            "atom": np.tile(self.atoms, len(names)),
            "bonus": self.bonus.ravel(),
            "tilt": self.tilt.T.ravel(),
            "lift": self.lift.ravel(),
        }
        return make_frame(columns, backend)

    def plot(self, ax: Any = None) -> "TiltDisplay":
        """Draw into `ax`, or into a figure of its own.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
        """
        if ax is None:
            size = (6.4, 1.7 + 0.34 * len(self.groups))
            ax = subplots(size=size)[0, 0]
        bonus = self.bonus
        limit = float(np.abs(bonus).max()) or 1.0
        borders = np.arange(len(self.groups) + 1) - 0.5
        mesh = ax.pcolormesh(
            _borders(self.atoms), borders, bonus, cmap=COLOUR_MAP, vmin=-limit, vmax=limit, rasterized=True
        )
        for place in range(1, len(self.groups)):
            ax.axhline(place - 0.5, color="white", linewidth=2)
        self._label_extremes(ax, bonus, limit)
        ax.set_yticks(range(len(self.groups)), [name_of(group) for group in self.groups], fontsize="small")
        if self.classes is not None:
            ax.set_xticks(self.atoms, [name_of(label) for label in self.classes])
        ax.invert_yaxis()
        ax.tick_params(axis="y", length=0)
        for side in ax.spines.values():
            side.set_visible(False)
        ax.set_xlabel(self.value_name)
        bar = ax.figure.colorbar(mesh, ax=ax, aspect=12, pad=0.02, ticks=[-limit, 0.0, limit])
        bar.outline.set_visible(False)
        bar.ax.set_yticklabels([f"avoided\n{signed(-limit)}", "0", f"favoured\n{signed(limit)}"], fontsize=7)
        bar.set_label(f"Bonus: {self.cost_name}\nforgiven", fontsize="small")
        headline(ax, self._sentence(bonus))
        return self._drawn(ax)

    def _label_extremes(self, ax: Any, bonus: FloatArray, limit: float) -> None:
        """The largest and the smallest bonus of each group, where they are."""
        for place, row in enumerate(bonus):
            if np.ptp(row) < 0.02 * limit:
                continue  # nothing to see in this group
            for span in _top(row), _top(-row):
                middle = (span[0] + span[1]) // 2
                value = row[middle]
                style = {"ha": "center", "va": "center", "fontsize": 7, "clip_on": True}
                # The middle of the scale reads worst, so that dark and light ink change there.
                colour = "black" if value > 0 else "white"
                share = (self.atoms[middle] - self.atoms[0]) / (self.atoms[-1] - self.atoms[0])
                style["ha"] = "left" if share < 0.06 else "right" if share > 0.94 else "center"
                ax.text(self.atoms[middle], place, signed(value), color=colour, **style)

    def _sentence(self, bonus: FloatArray) -> str:
        place = int(np.ptp(bonus, axis=1).argmax())
        row = bonus[place]
        if np.ptp(row) == 0.0:
            return "No prediction is favoured in any group: the parity step changes nothing"
        to, away = (self._span(_top(values)) for values in (row, -row))
        name = name_of(self.groups[place])
        return f"Most in group {name}: predictions of {to} are favoured, those of {away} avoided"

    def _span(self, span: tuple[int, int]) -> str:
        if self.classes is not None:
            return " or ".join(name_of(label) for label in self.classes[span[0] : span[1] + 1])
        low, high = self.atoms[span[0]], self.atoms[span[1]]
        return " to ".join(dict.fromkeys(short(end, 3) for end in (low, high)))


def _cost_name(cost: Cost) -> str:
    """What is forgiven, in the singular: "squared error" of the mean squared error."""
    return cost.risk_name.removeprefix("mean ")


def _borders(atoms: FloatArray) -> FloatArray:
    """Edges of the cells around the atoms."""
    if len(atoms) == 1:
        return np.array([atoms[0] - 0.5, atoms[0] + 0.5])
    middles = atoms[:-1] + np.diff(atoms) / 2
    return np.concatenate([[2 * atoms[0] - middles[0]], middles, [2 * atoms[-1] - middles[-1]]])


def _top(row: FloatArray) -> tuple[int, int]:
    """First and last place of the run around the maximum that comes near it."""
    near = row >= row.max() - PLATEAU * np.ptp(row)
    first = last = int(row.argmax())
    while first > 0 and near[first - 1]:
        first -= 1
    while last < len(row) - 1 and near[last + 1]:
        last += 1
    return first, last
