"""How errors of the scores and of the group probabilities enter (paper, Lemmas 5.1 and 5.2)."""

import math
from collections.abc import Hashable
from dataclasses import dataclass, fields
from typing import Any, Protocol, runtime_checkable

import numpy as np

from evenhand._utils.labels import label_text, match_groups, read_groups
from evenhand._utils.markup import cell, html_block
from evenhand._utils.typing import AnyArray, FloatArray
from evenhand._utils.validation import as_floats, check_rows_of
from evenhand.calibration import CalibrationDiagnosis, diagnose_calibration
from evenhand.certificates.optimisation import Certificate
from evenhand.dual.costs import Squared
from evenhand.dual.grid import Grid
from evenhand.dual.parity import ParityNotion, Thresholds, find_parity, make_parity, matrix
from evenhand.dual.policy import SoftmaxPolicy

N_SCORE_BINS = 20


class CertifiedModel(Protocol):
    """A fitted model, as far as a certificate looks at it."""

    groups_: AnyArray
    group_prior_: FloatArray
    atoms_: FloatArray
    tilt_: FloatArray
    multipliers_: FloatArray
    parity_: str | ParityNotion
    policy_: SoftmaxPolicy
    certificate_: Certificate


@runtime_checkable
class ScoringModel(CertifiedModel, Protocol):
    """A fitted estimator, which scores rows for its parity step."""

    aware: bool

    def predict_scores(self, X: Any, *, sensitive_features: Any = None) -> tuple[FloatArray, FloatArray]:
        """Scores and group probabilities of rows."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class PluginCertificate:
    """What wrong scores and wrong group probabilities can add to the violation and to the risk.

    Estimates from held-out rows, without a confidence level: `certify_held_out` has one. Where the truth
    cannot be told from noise there are two figures, `_shown` (what bins of rows reveal, so the least) and a
    ceiling (all of the noise counted as error, so the most). Those of the risk need y, and are None without.
    """

    parity: str
    groups: tuple[Hashable, ...]
    n_rows: int
    epsilon: FloatArray  # (n_groups,)
    violation: FloatArray  # what the fit's rows have, by the given probabilities
    parity_cost_shown: FloatArray  # what errors of the probabilities can add, as far as bins show: a floor
    parity_cost_ceiling: FloatArray  # the same, were all noise of the groups error: at most
    imbalance_error_shown: float  # E^1/2 |t_hat - t|^2, of the means over bins
    imbalance_error_ceiling: float  # the same with the group itself for its probability
    lemma_parity_bound: (
        float | None
    )  # Lemma 5.1 with the ceiling, where parity is "pmf": norm of the excesses
    optimality_gap: float  # of the fit, by the given scores and probabilities
    score_error_shown: float | None  # E^1/2 (eta_hat - eta)^2, of the means over bins of the scores
    score_error_ceiling: float | None  # E |y - eta_hat|
    score_cost: float | None  # what errors of the scores can add to the gap, at most
    group_cost: float  # what errors of the probabilities can add to the gap, at most
    lemma_risk_bound: float | None  # Lemma 5.2, where parity is "pmf"
    calibration: CalibrationDiagnosis

    @property
    def violation_bound(self) -> FloatArray:
        """The true violation of each group of the fit's rows, at most, whatever the errors are."""
        return self.violation + self.parity_cost_ceiling

    @property
    def violation_shown(self) -> FloatArray:
        """The violation that bins of held-out rows show to be possible; the true one may be larger."""
        return self.violation + self.parity_cost_shown

    @property
    def risk_gap_bound(self) -> float | None:
        """The true risk is at most this much above the best one, on rows like those of the fit."""
        return None if self.score_cost is None else self.optimality_gap + self.score_cost + self.group_cost

    def to_dict(self) -> dict[str, Any]:
        """Plain Python numbers, lists and strings, ready for JSON."""
        plain = {field.name: getattr(self, field.name) for field in fields(self)}
        for name, value in plain.items():
            plain[name] = value.tolist() if isinstance(value, np.ndarray) else value
        return plain | {
            "groups": [str(group) for group in self.groups],
            "calibration": self.calibration.to_dict(),
            "violation_bound": self.violation_bound.tolist(),
            "violation_shown": self.violation_shown.tolist(),
            "risk_gap_bound": self.risk_gap_bound,
        }

    def __str__(self) -> str:
        """One sentence for each group, and two on the error against outcomes."""
        return "\n".join([f"{self._title()}:", *("  " + line for line in self._sentences())])

    def _repr_html_(self) -> str:
        """A table by group for notebooks, with the same sentences as the text."""
        figures = self.epsilon, self.violation, self.parity_cost_shown, self.parity_cost_ceiling
        rows = [
            (label_text(group), *(cell(figure[place], 4) for figure in figures))
            for place, group in enumerate(self.groups)
        ]
        heads = ("Group", "Tolerance", "Distance on the fit's rows", "Errors add at least", "At most")
        return html_block(self._title(), heads, rows, self._sentences())

    def _title(self) -> str:
        return f"What errors of the scores and of the group probabilities can do ({self.n_rows} rows)"

    def _sentences(self) -> list[str]:
        lines = []
        for s, group in enumerate(self.groups):
            floor, limit = self.calibration.parity_cost_floor[s], self.calibration.parity_cost_limit[s]
            noise = "no more than" if self.calibration.parity_cost[s] <= limit else "more than"
            lines.append(
                f"Group {group}: the fit has a violation of {self.violation[s]:.4f}; errors of its "
                f"probability can add at least about {self.parity_cost_shown[s]:.4f}, as far as bins of rows "
                f"show ({noise} noise alone would show, about {floor:.4f} in probability), and at most about "
                f"{self.parity_cost_ceiling[s]:.4f}, if all noise were error."
            )
        lines.append(
            f"Error against outcomes: the fit is within {self.optimality_gap:.3g} of the best if the scores "
            "and the group probabilities are right; errors of the group probabilities add at most "
            f"{self.group_cost:.3g}, if all their noise were error."
        )
        if self.score_cost is not None:
            lines.append(
                f"Errors of the scores add at most {self.score_cost:.3g}, if all of the mean residual "
                f"{self.score_error_ceiling:.3g} were error; bins of the scores show "
                f"{self.score_error_shown:.3g}."
            )
        return lines


def certify_plugin(
    model: CertifiedModel,
    sensitive_features: Any,
    y: Any = None,
    *,
    X: Any = None,
    scores: Any = None,
    group_proba: Any = None,
) -> PluginCertificate:
    """Say what errors of eta and tau can add, from held-out rows with known groups (and targets).

    Let `d_s = t_hat_s - t_s` be the error of the imbalance, and `e = |eta_hat - eta|` that of the score.

    **Violation** (Lemma 5.1). For any event about the prediction, true and certified violations differ by at
    most `(E|d_s| + |E d_s|) / 2` (see `diagnose_calibration`), for "cdf", "tv" and "pmf" in each group (for
    other notions by `E|d_s|` times the largest norm of an atom). Bins show no more than a part of that,
    `parity_cost_shown`; `parity_cost_ceiling` is at least as large, and so is the bound made of it.
    `lemma_parity_bound` is the lemma's own form, `|G| + E^1/2 |d|^2` with the ceiling, for the root of the
    sum of squared excesses over atoms and groups. Its proof needs `sum_l pi(l)^2 <= 1`, which cumulated
    probabilities do not have, so it is given for "pmf" alone.

    **Risk** (Lemma 5.2). Let pi be the fitted policy and pi* any that meets the tolerances in truth. By weak
    duality at the multipliers Phi, with the tilt theta, pi* has a risk by the given numbers of at least

        lower bound - |E sum_s sum_l pi*(l) theta_ls d_s|,

    and the costs `(eta - y_l)^2` and `(eta_hat - y_l)^2` differ, but for what no atom changes, by
    `2 (eta_hat - eta) y_l`. So, W being the width of the grid and c_s, w_s the centre and width of theta_s's
    range, `risk(pi) - risk(pi*)` is at most the certified optimality gap plus

        2 W E e    +    sum_s (|c_s| |E d_s| + w_s E|d_s| / 2).

    The lemma has `2 E max_l |r_l - r_hat_l|`, at least as large, for the first, and
    `sqrt(2) |(Lambda, V)| E^1/2 |d|^2` for the second; `lemma_risk_bound` is with these (and the gap that
    `certify` gives in place of Lemma 3.5's, whose second part has a slip of sign).

    **What rows can tell.** Neither e nor d_s is observed: y and the group are eta and tau plus noise, and
    no sample tells that noise from error. By Jensen, given x, `E e <= E|y - eta_hat|`,
    `E e^2 <= E(y - eta_hat)^2` and `E|d_s| <= E|tau_hat_s / p_s - 1{S = s} / q_s|`: these are the ceilings,
    and the bounds on violation and risk use them. They stay large however good the models are, as large as
    the noise. Means over bins give the least that the errors can be, up to the bins' own noise.
    All is an estimate; and the fit's own figures are those of its rows, which new rows exceed.

    Parameters
    ----------
    model : ParityPostprocessor or ParityRegressor
        Fitted.
    sensitive_features : array or data frame of shape (n,) or (n, n_columns)
        Group of each held-out row, among the model's.
    y : array of shape (n,), optional
        Targets, for the risk.
    X : table of n rows, optional
        Held-out rows for a ParityRegressor.
    scores, group_proba : arrays of shape (n,) and (n, n_groups), optional
        Held-out rows for a ParityPostprocessor.

    Examples
    --------
    >>> from evenhand.certificates import certify_plugin
    >>> from evenhand import ParityPostprocessor
    >>> from evenhand.datasets import make_population
    >>> fit, held = (make_population(4000, 2, random_state=seed) for seed in (0, 1))
    >>> model = ParityPostprocessor(epsilon=0.02).fit(fit.scores, fit.group_proba)
    >>> certificate = certify_plugin(
    ...     model, held.sensitive_features, held.target, scores=held.scores, group_proba=held.group_proba
    ... )
    >>> certificate.parity_cost_shown.round(2), certificate.parity_cost_ceiling.round(2)
    (array([0.06, 0.03]), array([0.54, 0.28]))
    """
    labels = tuple(model.groups_.tolist())
    if model.policy_.strata is not None or not isinstance(model.policy_.cost, Squared):
        raise ValueError(
            "certify_plugin is for demographic parity of one set of groups and for the squared cost: measure "
            "others on held-out rows, with evenhand.metrics or certify_held_out within each stratum."
        )
    if X is not None and isinstance(model, ScoringModel):
        known = sensitive_features if model.aware else None
        scores, group_proba = model.predict_scores(X, sensitive_features=known)
    elif scores is None or group_proba is None:
        raise ValueError("certify_plugin needs the held-out rows: X=, or scores= and group_proba=.")
    rows = check_rows_of(scores, group_proba, labels)
    groups = read_groups(sensitive_features, len(rows.scores))
    codes = match_groups(groups, labels, "sensitive_features").codes
    diagnosis = diagnose_calibration(rows.group_proba, codes, labels, model.group_prior_, scores=rows.scores)
    target = None if y is None else _check_target(y, len(rows.scores))
    errors = rows.group_proba / model.group_prior_ - np.eye(len(labels))[codes] / diagnosis.observed_share
    return _assemble(model, diagnosis, _imbalance(errors, diagnosis), rows.scores, target)


@dataclass(frozen=True, slots=True, eq=False)
class _Imbalance:
    """Errors of the imbalance."""

    mean: FloatArray  # E d_s, (n_groups,)
    absolute: FloatArray  # ceiling of E|d_s|, (n_groups,)
    shown: float
    ceiling: float


def _imbalance(errors: FloatArray, diagnosis: CalibrationDiagnosis) -> _Imbalance:
    return _Imbalance(
        mean=errors.mean(axis=0),
        absolute=np.abs(errors).mean(axis=0),
        shown=float(np.linalg.norm(diagnosis.lemma_term)),
        ceiling=math.sqrt((errors**2).sum(axis=1).mean()),
    )


def _assemble(
    fitted: CertifiedModel,
    diagnosis: CalibrationDiagnosis,
    imbalance: _Imbalance,
    scores: FloatArray,
    target: FloatArray | None,
) -> PluginCertificate:
    certificate, grid = fitted.certificate_, fitted.policy_.grid
    unit = grid.half_width**2
    tilt = fitted.tilt_
    centre, width = (tilt.max(axis=0) + tilt.min(axis=0)) / 2, np.ptp(tilt, axis=0)
    group_cost = unit * float(np.abs(centre) @ np.abs(imbalance.mean) + width @ imbalance.absolute / 2)
    is_pmf = certificate.parity == "pmf"
    eta = None if target is None else _score_errors(grid.clip(scores), target, fitted.atoms_)
    offset = np.abs(imbalance.mean)
    ceiling = 0.5 * (imbalance.absolute + offset)
    lemma_risk = None
    if is_pmf and eta is not None:
        size = unit * float(np.linalg.norm(fitted.multipliers_))
        lemma_risk = certificate.risk_bound + eta.lemma_term + math.sqrt(2.0) * size * imbalance.ceiling
    return PluginCertificate(
        parity=certificate.parity,
        groups=diagnosis.groups,
        n_rows=diagnosis.n_rows,
        epsilon=certificate.epsilon,
        violation=certificate.violation,
        parity_cost_shown=_cost_in_units(fitted.parity_, diagnosis.parity_cost, offset, grid),
        parity_cost_ceiling=_cost_in_units(fitted.parity_, ceiling, offset, grid),
        imbalance_error_shown=imbalance.shown,
        imbalance_error_ceiling=imbalance.ceiling,
        lemma_parity_bound=certificate.gradient_map_norm + imbalance.ceiling if is_pmf else None,
        optimality_gap=certificate.optimality_gap,
        score_error_shown=None if eta is None else eta.shown,
        score_error_ceiling=None if eta is None else eta.ceiling,
        score_cost=None if eta is None else eta.cost,
        group_cost=group_cost,
        lemma_risk_bound=lemma_risk,
        calibration=diagnosis,
    )


def _cost_in_units(
    parity: str | ParityNotion, cost: FloatArray, offset: FloatArray, grid: Grid
) -> FloatArray:
    """A parity cost `(E|d_s| + |E d_s|) / 2` in the units of the violation; `offset` is `|E d_s|`."""
    asked = find_parity(parity)
    metric = asked.metric
    if metric in ("ks", "sup", "tv") or isinstance(asked, Thresholds):  # the probability of an event
        return cost
    if metric == "w1":  # that of as many events as the grid is wide
        return 2.0 * grid.half_width * cost
    # E[d_s A pi] is in question, and the norm of A pi is at most that of the largest column of A.
    notion = make_parity(parity, grid)
    largest = float(notion.norm.value(matrix(notion.operator)).max())
    unit = grid.half_width if notion.in_outcome_units else 1.0
    return unit * largest * (2.0 * cost - offset)


@dataclass(frozen=True, slots=True, eq=False)
class _ScoreErrors:
    """Errors of the scores, in outcome units, and what they cost, in squared ones."""

    shown: float
    ceiling: float
    cost: float
    lemma_term: float


def _score_errors(scores: FloatArray, target: FloatArray, atoms: FloatArray) -> _ScoreErrors:
    residual = target - scores
    order = np.argsort(scores, kind="stable")
    bins = np.array_split(residual[order], min(N_SCORE_BINS, len(order)))
    means = np.array([part.mean() for part in bins])
    sizes = np.array([len(part) for part in bins])
    reach = 2.0 * np.maximum(np.abs(scores - atoms[0]), np.abs(scores - atoms[-1]))
    ceiling = float(np.abs(residual).mean())
    # |r_l - r_hat_l| = e |2 (eta_hat - y_l) + (eta - eta_hat)| <= e reach + e^2
    lemma_term = 2.0 * float((residual**2).mean() + (np.abs(residual) * reach).mean())
    return _ScoreErrors(
        shown=math.sqrt(float((means**2 * sizes).sum() / sizes.sum())),
        ceiling=ceiling,
        cost=2.0 * float(atoms[-1] - atoms[0]) * ceiling,
        lemma_term=lemma_term,
    )


def _check_target(y: Any, n_rows: int) -> FloatArray:
    target = as_floats(y, "y")
    if target.shape != (n_rows,) or not np.isfinite(target).all():
        raise ValueError(f"y needs one finite value per row: got shape {target.shape} for {n_rows} rows.")
    return target
