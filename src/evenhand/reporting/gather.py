"""A fitted model and held-out rows become the facts of a report."""

import datetime
import hashlib
import platform
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy
import sklearn
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from evenhand._utils.labels import label_text
from evenhand._utils.text import capital
from evenhand._utils.typing import FloatArray, IntArray
from evenhand._utils.version import __version__
from evenhand.dual.costs import Squared
from evenhand.dual.parity import ParityNotion, find_parity
from evenhand.estimators.postprocessor import ParityPostprocessor
from evenhand.evaluation.frontier import Frontier
from evenhand.evaluation.heldout import Model, read_held_out, step_of
from evenhand.metrics import Measures, ScoredRows
from evenhand.metrics.distances import Metric
from evenhand.reporting.data import summarise
from evenhand.reporting.estimates import describe_estimate, make_outlook, measure_noise
from evenhand.reporting.facts import FEWEST_JUDGED, Asked, Effects, Facts, Group, Modes, Scale
from evenhand.reporting.modes import Comparison
from evenhand.reporting.proofs import prove_calibration, prove_held_out, prove_optimisation
from evenhand.reporting.rates import find_rule, tell_pair, tell_rates
from evenhand.reporting.scales import make_scale, spread
from evenhand.reporting.tolerances import Tolerance, own_tolerance, rows_to_solve, solve_again
from evenhand.reporting.words import number, plain_text, span, tolerance_sentence, within_text

PROPORTIONS = (
    " The slider tells the largest tolerance of a group; those of the others keep their proportions."
)
MOST_CHARTED = 100  # groups with curves; the tables have them all


def gather(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    sensitive_features: Any,
    title: str | None = None,
    sample_weight: Any = None,
    n_tolerances: int | None = None,
    frontier: Frontier | None = None,
    threshold: float | None = None,
    selected: Any = None,
    compare: Any = False,
) -> Facts:
    """The facts of a report; see `report` for the parameters."""
    if n_tolerances is not None and n_tolerances < 0:
        raise ValueError(f"n_tolerances must not be negative: got {n_tolerances!r}.")
    model, seen = _without_pipeline(model, X, "report")
    known = {"y": y, "sensitive_features": sensitive_features, "sample_weight": sample_weight}
    rows = _read(model, seen, known)
    postprocessor = step_of(model)
    notion = find_parity(postprocessor.parity_)
    before = rows.measure_scores(postprocessor.policy_, ["ks", notion])
    noise = measure_noise(postprocessor.policy_, rows, notion)
    own = _own(postprocessor, rows)
    if frontier is None:
        others, note = _other_tolerances(postprocessor, rows, n_tolerances)
    else:
        others, note = _from_frontier(frontier, _read(frontier.models[0], seen, known), own)
    path = sorted([*others, own], key=lambda each: each.epsilon)
    groups, classes = _groups(rows, postprocessor), getattr(model, "classes_", None)
    charts = _Charts.of(groups, notion, [before, *(each.measures for each in path)], classes)
    estimate = describe_estimate(model, within=rows.members.strata is not None)
    held_out = prove_held_out(postprocessor, rows, _epsilon_of(rows, postprocessor))
    rule = find_rule(model, rows, threshold, selected)
    return Facts(
        title=title or "Parity report",
        made=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        model=type(model).__name__,
        asked=_asked(model, postprocessor, rows, notion),
        groups=groups,
        charted=tuple(charts.charted.tolist()),
        scale=charts.scale,
        before=charts.effects(before, epsilon=None, fitted=False, converged=True),
        tolerances=tuple(map(charts.tolerance, path)),
        own=path.index(own),
        path_note=_path_note(postprocessor, note) if others else note,
        outlook=make_outlook(groups, own.measures.distances(notion), noise, estimate, held_out),
        out_of_sample=estimate,
        held_out=held_out,
        optimisation=prove_optimisation(model, rows),
        calibration=prove_calibration(model, postprocessor, rows),
        rates=tell_rates(model, rows, sensitive_features, rule),
        modes=_modes(
            compare, X, known, Comparison(model, rows, before, own.measures, notion, charts.judged, rule)
        ),
        constant_risk=before.constant_risk,
        pair=tell_pair(own.measures, notion, notion.gap_name),
        data=summarise(X, rows, classes),
        settings=_settings(model, postprocessor, rows),
        versions=_versions(),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Charts:
    """What all sets of predictions of a report share: groups, axis, and which groups have curves."""

    metric: Metric  # the distance that is asked for
    judged: Any  # whether a group has rows enough, (n_groups,)
    charted: IntArray  # places of the groups with curves
    strata: IntArray  # of each group, (n_groups,)
    atoms: FloatArray
    scale: Scale

    @classmethod
    def of(
        cls, groups: tuple[Group, ...], metric: Metric, measures: list[Measures], classes: Any
    ) -> "_Charts":
        """Strata with the farthest groups before come first, and groups with too few rows last."""
        judged = np.array([group.judged for group in groups])
        strata = np.array([group.stratum for group in groups])
        gap = np.where(judged, measures[0].distances(metric), -1.0)
        farthest = np.array([gap[strata == stratum].max() for stratum in strata])
        # Those of the farthest group's stratum stay together: they are what it is compared with.
        charted = np.lexsort((-gap, strata, -farthest, ~judged))[:MOST_CHARTED]
        curves = np.vstack([each.spread.masses[judged] for each in measures])
        atoms = measures[0].spread.points
        assert atoms is not None
        return cls(metric, judged, charted, strata, atoms, make_scale(atoms, curves, classes))

    def tolerance(self, stage: Tolerance) -> Effects:
        """One position of the slider."""
        return self.effects(
            stage.measures, epsilon=stage.epsilon, fitted=stage.fitted, converged=stage.converged
        )

    def effects(self, measures: Measures, **of: Any) -> Effects:
        """One set of predictions."""
        distances, ks = measures.distances(self.metric), measures.distances("ks")
        masses = measures.spread.masses
        gap = np.where(self.judged, distances, -np.inf)
        strata = range(int(self.strata.max()) + 1) if self.strata.any() else ()
        together = [masses[self.strata == stratum].sum(axis=0) for stratum in strata]
        curves = np.vstack([masses[self.charted], *together, measures.everybody])
        return Effects(
            risk=measures.risk,
            largest_gap=float(gap.max()),
            farthest=int(gap.argmax()),
            largest_ks=float(ks[self.judged].max()),
            gap=distances,
            ks=ks,
            mean=measures.means,
            group_risk=measures.group_risk,
            shares=spread(curves, self.atoms, self.scale),
            **of,
        )


def _asked(model: Model, postprocessor: ParityPostprocessor, rows: ScoredRows, notion: ParityNotion) -> Asked:
    epsilon, within = tuple(postprocessor.epsilon_.tolist()), rows.members.strata is not None
    return Asked(
        parity=notion.name,
        metric=notion.metric,
        gap=notion.gap_name,
        asks=notion.asks.replace("{epsilon}", span(epsilon)),
        meaning=notion.meaning,
        epsilon=epsilon,
        groups=tuple(label_text(label, within=within) for label in postprocessor.groups_.tolist()),
        aware=bool(getattr(model, "aware", False)),
        has_target=rows.target is not None,
        error=_error_name(postprocessor, rows),
        classes=hasattr(model, "classes_"),
        squared=isinstance(postprocessor.policy_.cost, Squared),
        within=within_text(model) if within else "",
    )


def _own(postprocessor: ParityPostprocessor, rows: ScoredRows) -> Tolerance:
    """The model as it is."""
    return Tolerance(
        own_tolerance(postprocessor),
        rows.measure(postprocessor.policy_),
        fitted=True,
        converged=postprocessor.result_.status.success,
    )


def _modes(compare: Any, X: Any, known: dict[str, Any], own: Comparison) -> Modes:
    """With the group and without: by a second model, by the parity step solved again, or not at all."""
    if compare is None or compare is False:
        return Modes((), ())
    if compare is True:
        return own.tell(None)
    second, seen = _without_pipeline(compare, X, "compare")
    return own.tell((second, _read(second, seen, known)))


def _without_pipeline(model: Any, X: Any, what: str) -> tuple[Model, Any]:
    """The parity model itself, and the rows as it sees them."""
    last = model[-1] if isinstance(model, Pipeline) else model
    if not isinstance(last, Model):
        raise TypeError(
            f"{what} needs a fitted ParityRegressor, ParityClassifier or ParityPostprocessor, or a pipeline "
            f"that ends with one: got {type(last).__name__}."
        )
    return last, X if last is model or len(model) == 1 else model[:-1].transform(X)


def _read(model: Model, X: Any, known: dict[str, Any]) -> ScoredRows:
    check_is_fitted(model, "step_")
    if known["sensitive_features"] is None:
        raise ValueError("sensitive_features is missing: pass the group of each row.")
    if isinstance(model, ParityPostprocessor):
        if not isinstance(X, tuple) or len(X) != 2:
            raise ValueError("For a ParityPostprocessor, X is the pair (scores, group_proba).")
        given = {"scores": X[0], "group_proba": X[1], **known}
    else:
        given = {"X": X, **known}
    return read_held_out(given, model)


def _other_tolerances(
    postprocessor: ParityPostprocessor, rows: ScoredRows, n_tolerances: int | None
) -> tuple[list[Tolerance], str]:
    """Other tolerances, and a sentence about where they come from."""
    if n_tolerances == 0:
        return [], "Other tolerances were not asked for."
    try:
        found = solve_again(postprocessor, rows, n_tolerances)
    except ValueError as error:
        return [], f"Other tolerances could not be tried on these rows: {error}"
    size = rows_to_solve(postprocessor, len(rows.scores))
    shares = "" if np.ptp(postprocessor.epsilon_) == 0 else PROPORTIONS
    return found, (
        "At its own tolerance this is the model itself. At the others it is the parity step solved again on "
        f"{size:,} of these rows and measured on the other half, then the other way round, so that no row "
        f"judges what it had a part in.{shares}"
    )


def _path_note(postprocessor: ParityPostprocessor, note: str) -> str:
    return tolerance_sentence(postprocessor.epsilon_, postprocessor.tolerance_) + note


def _from_frontier(frontier: Frontier, rows: ScoredRows, own: Tolerance) -> tuple[list[Tolerance], str]:
    """The models of a path that the user has made."""
    found, n_atoms = [], len(own.measures.everybody)
    for point in frontier.points:
        if point.epsilon == own.epsilon:
            continue
        policy = point.model.policy_
        if len(policy.grid.atoms) != n_atoms:
            raise ValueError(
                f"frontier predicts {len(policy.grid.atoms)} values and model {n_atoms}: make it from the "
                "same settings and rows, or give both the same atoms."
            )
        found.append(Tolerance(point.epsilon, rows.measure(policy), False, point.status.success))
    return found, "Each tolerance has a model of its own, fitted like this one and measured on these rows."


def _error_name(postprocessor: ParityPostprocessor, rows: ScoredRows) -> str:
    cost = postprocessor.policy_.cost
    return capital(cost.score_risk_name if rows.target is None else cost.risk_name)


def _epsilon_of(rows: ScoredRows, postprocessor: ParityPostprocessor) -> FloatArray | None:
    """Tolerance of each group of the rows; None where these are not the groups of the fit."""
    epsilon = postprocessor.epsilon_
    if (epsilon == epsilon[0]).all():
        return np.full(len(rows.members.labels), epsilon[0])
    known = dict(zip(postprocessor.groups_.tolist(), epsilon.tolist(), strict=True))
    if not all(label in known for label in rows.members.labels):
        return None
    return np.array([known[label] for label in rows.members.labels])


def _groups(rows: ScoredRows, postprocessor: ParityPostprocessor) -> tuple[Group, ...]:
    epsilon, members = _epsilon_of(rows, postprocessor), rows.members
    strata = np.zeros(len(members.labels), np.int64)
    if members.strata is not None:
        strata = np.unique(members.strata, return_inverse=True)[1]
    weight, counts = members.totals(), members.counts
    judged = counts >= FEWEST_JUDGED
    if not judged.any():
        judged[:] = True
    return tuple(
        Group(
            name=label_text(label, within=members.strata is not None),
            rows=int(counts[place]),
            share=float(weight[place] / weight[-1]),
            epsilon=None if epsilon is None else float(epsilon[place]),
            judged=bool(judged[place]),
            stratum=int(strata[place]),
        )
        for place, label in enumerate(members.labels)
    )


def _settings(model: Model, postprocessor: ParityPostprocessor, rows: ScoredRows) -> dict[str, str]:
    """Parameters as they were given, then what the fit made of them."""
    settings = {name: plain_text(value) for name, value in model.get_params(deep=False).items()}
    low, high = float(postprocessor.atoms_[0]), float(postprocessor.atoms_[-1])
    values = f"{len(postprocessor.atoms_)} from {number(low)} to {number(high)}"
    if hasattr(model, "classes_"):
        values = ", ".join(map(str, model.classes_.tolist()))
    shares = zip(postprocessor.groups_.tolist(), postprocessor.group_prior_.tolist(), strict=True)
    within = rows.members.strata is not None
    prior = ", ".join(f"{label_text(label, within=within)}: {number(share)}" for label, share in shares)
    return settings | {
        "values that can be predicted": values,
        "beta used": number(postprocessor.beta_, 6),
        "group shares used": prior[:2000],
        "solver used": f"{postprocessor.result_.solver}, {postprocessor.result_.n_iter} iterations",
        "fingerprint of the parity step": _fingerprint(
            postprocessor.atoms_, postprocessor.tilt_, postprocessor.group_prior_
        ),
        "fingerprint of the rows": _fingerprint(rows.scores.round(6), rows.members.codes),
    }


def _fingerprint(*arrays: Any) -> str:
    """Short text that differs when the numbers do: two reports can be told to be about the same thing."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:16]


def _versions() -> dict[str, str]:
    import numba

    return {
        "evenhand": __version__,
        "Python": platform.python_version(),
        "NumPy": np.__version__,
        "SciPy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
        "numba": numba.__version__,
        "system": f"{platform.system()} {platform.machine()}",
    }


def without_curves(facts: Facts) -> Facts:
    """The same facts, for readers who do not draw."""
    none = np.empty((0, 0), dtype=np.int64)
    return replace(
        facts,
        before=replace(facts.before, shares=none),
        tolerances=tuple(replace(stage, shares=none) for stage in facts.tolerances),
    )
