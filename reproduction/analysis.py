"""Compute the tables of the page from the frames: means over splits, intervals, the published figures."""

from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student

from evenhand._utils.typing import FloatArray
from reproduction.comparison import VARIANT
from reproduction.frames import Columns, Row, numbers, to_columns, unique, where
from reproduction.published import DATASETS, Curve, published
from reproduction.variant import ablations

CONFIDENCE = 0.95
PUBLISHED_SPLITS = 10
LEVELS = (0.1, 0.3, 0.5, 0.7, 0.9)  # of the range of distances that two curves share

# Runs of the published method that stand beside the published figures: scheme of the split, and method.
SETTINGS = {
    "by the published formulas": ("published", "variant_published"),
    "the same, T once": ("published", "variant_once"),
    "ours": ("published", "paper"),
    "ours, 2 T": ("published", "paper_2T"),
    "ours, prior from labels": ("published", "paper_prior"),
    "exact optimum": ("published", "pmf"),
    "ours, on 40/40/20 as the text": ("text", "paper"),
}
# At matched distances: ours, the other, and what the two share.
PAIRS = {
    ("cdf", "paper"): "same models, same beta",
    ("cdf_default", "paper"): "same labels; our models and beta",
    ("cdf_default", "adw_2"): "same labels; our models and beta",
    ("cdf_default_both", "adw_1"): "labels of both parts for both",
    ("cdf", "adw_2"): "same labels; the paper's models and beta",
    ("cdf_default", "adw_1"): "ADW-1 has twice the labels",
    ("cdf", "pmf"): "same models, same beta, both exact",
}


@dataclass(frozen=True, slots=True, eq=False)
class Curves:
    """One method on one data set: a curve for each split, over the same tolerances."""

    epsilon: FloatArray  # (n_points,)
    ks: FloatArray  # of the minority, (n_splits, n_points)
    risk: FloatArray  # (n_splits, n_points)

    def at(self, exponent: float) -> tuple[FloatArray, FloatArray]:
        """Risk and distance of each split at the tolerance nearest to 2^-exponent."""
        place = int(np.argmin(np.abs(-np.log2(self.epsilon) - exponent)))
        return self.risk[:, place], self.ks[:, place]

    def risk_at(self, levels: FloatArray, left_out: int | None = None) -> FloatArray:
        """Risk at given distances, read off the mean curve by linear interpolation."""
        kept = np.arange(len(self.ks)) != (-1 if left_out is None else left_out)
        ks, risk = self.ks[kept].mean(axis=0), self.risk[kept].mean(axis=0)
        order = np.argsort(ks)
        found: FloatArray = np.interp(levels, ks[order], risk[order])
        return found


def curves(
    frame: Columns, dataset: str, scheme: str, method: str, on: str = "", seed: int | None = None
) -> Curves:
    """The curves of a method; `on` is "" for the test rows and "others_" for those beyond the subsample.

    A method that was run from several seeds has the mean over them, or the curves of one `seed`.
    """
    chosen = {} if seed is None else {"seed": seed}
    table = where(frame, dataset=dataset, scheme=scheme, method=method, **chosen)
    shape = len(unique(table, "split")), len(unique(table, "epsilon")), -1
    names = "epsilon", f"{on}ks_minority", f"{on}risk"
    epsilon, ks, risk = (numbers(table, name).reshape(shape).mean(axis=2) for name in names)
    order = np.argsort(epsilon[0])
    return Curves(epsilon[0, order], ks[:, order], risk[:, order])


def spread(values: FloatArray) -> FloatArray:
    """Standard deviation over the splits, as the paper's: zero for one split."""
    found: FloatArray = np.std(values, axis=0)
    return found


def against_published(frame: Columns) -> Columns:
    """Runs of the published method beside the published means; differences in published deviations."""
    table: list[Row] = []
    for dataset in DATASETS:
        for setting, (scheme, method) in SETTINGS.items():
            names = {"dataset": dataset, "setting": setting}
            table += [names | row for row in _points(dataset, curves(frame, dataset, scheme, method))]
    return to_columns(table)


def met_by_seed(frame: Columns, dataset: str, setting: str, within: float) -> list[int]:
    """How many points one run meets, for each seed of a setting; empty where it was run from one alone."""
    scheme, method = SETTINGS[setting]
    part = where(frame, dataset=dataset, scheme=scheme, method=method)
    seeds = [seed for seed in unique(part, "seed") if np.isfinite(seed)]
    found = [_points(dataset, curves(frame, dataset, scheme, method, seed=seed)) for seed in seeds]
    return [sum(row["off"] <= within for row in points) for points in found]


def ablation_table(frame: Columns) -> Columns:
    """The published formulas with one of them put right, at every published tolerance."""
    table: list[Row] = []
    for dataset in DATASETS:
        for name, _ in ablations():
            found = curves(frame, dataset, "published", f"{VARIANT}{name}")
            table += [{"dataset": dataset, "switch": name, **row} for row in _points(dataset, found)]
    return to_columns(table)


def _points(dataset: str, found: Curves) -> list[Row]:
    """Our splits at each published tolerance beside the published means."""
    paper = published(dataset).ours
    return [_beside(paper, place, *found.at(exponent)) for place, exponent in enumerate(paper.exponents)]


def _beside(paper: Curve, place: int, risk: FloatArray, ks: FloatArray) -> Row:
    """Our splits at one tolerance beside the published mean and deviation."""
    risk_off = float((risk.mean() - paper.risk[place]) / paper.risk_std[place])
    ks_off = float((ks.mean() - paper.ks[place]) / paper.ks_std[place])
    return {
        "exponent": int(paper.exponents[place]),
        "risk": float(risk.mean()),
        "published_risk": float(paper.risk[place]),
        "risk_off": risk_off,
        "risk_errors": _standard_errors(risk, paper.risk[place], paper.risk_std[place]),
        "ks": float(ks.mean()),
        "published_ks": float(paper.ks[place]),
        "ks_off": ks_off,
        "ks_errors": _standard_errors(ks, paper.ks[place], paper.ks_std[place]),
        "off": max(abs(risk_off), abs(ks_off)),
    }


def _standard_errors(ours: FloatArray, mean: float, deviation: float) -> float:
    """Our mean less the published one, in standard errors of that difference."""
    return float(
        (ours.mean() - mean) / np.hypot(deviation / PUBLISHED_SPLITS**0.5, ours.std() / len(ours) ** 0.5)
    )


def paired_differences(frame: Columns) -> Columns:
    """Ours less the other's risk at matched distances, with intervals over the splits, for `PAIRS`."""
    table: list[Row] = []
    for dataset in DATASETS:
        for on in measured_on(frame, dataset):
            for ours, other in PAIRS:
                pair = [curves(frame, dataset, "text", name, on) for name in (ours, other)]
                names = {"dataset": dataset, "rows": "others" if on else "test", "ours": ours, "other": other}
                table += [names | row for row in _matched(*pair)]
    return to_columns(table)


def measured_on(frame: Columns, dataset: str) -> tuple[str, ...]:
    """Prefixes of the measures: of the test rows, and of those beyond the subsample where there are any."""
    others = numbers(where(frame, dataset=dataset), "others_risk")
    return ("", "others_") if np.isfinite(others).all() else ("",)


def _matched(ours: Curves, other: Curves) -> list[Row]:
    """Differences at `LEVELS` of the distances that both mean curves reach; the jackknife's t-intervals.

    The splits are the same for both, and so are left out together: the interval is of the difference.
    """
    means = [each.ks.mean(axis=0) for each in (ours, other)]
    low, high = max(ks.min() for ks in means), min(ks.max() for ks in means)
    levels = low + (high - low) * np.array(LEVELS)
    n = len(ours.ks)
    values = ours.risk_at(levels), other.risk_at(levels)
    difference = values[0] - values[1]
    half = np.full(len(levels), np.nan)
    if n > 1:
        without = np.array([ours.risk_at(levels, i) - other.risk_at(levels, i) for i in range(n)])
        error = np.sqrt((n - 1) * without.var(axis=0))
        half = student.ppf(0.5 + CONFIDENCE / 2, n - 1) * error
    return [
        {
            "level": float(levels[i]),
            "ours_risk": float(values[0][i]),
            "other_risk": float(values[1][i]),
            "difference": float(difference[i]),
            "low": float(difference[i] - half[i]),
            "high": float(difference[i] + half[i]),
        }
        for i in range(len(levels))
    ]


def below_published(frame: Columns, ours: str = "cdf_default") -> Columns:
    """Our mean risk at the published methods' own mean distances, where our curve reaches them."""
    table: list[Row] = []
    for dataset in DATASETS:
        paper = published(dataset)
        mine = curves(frame, dataset, "text", ours)
        reach = mine.ks.mean(axis=0)
        for name, curve in (("DP-postproc", paper.ours), ("ADW-1", paper.adw_1), ("ADW-2", paper.adw_2)):
            inside = (curve.ks >= reach.min()) & (curve.ks <= reach.max())
            reached = mine.risk_at(curve.ks)
            for place in np.flatnonzero(inside):
                table.append(
                    {
                        "dataset": dataset,
                        "published": name,
                        "exponent": float(curve.exponents[place]),
                        "ks": float(curve.ks[place]),
                        "risk": float(curve.risk[place]),
                        "ours_risk": float(reached[place]),
                    }
                )
    return to_columns(table)


def solver_table(frame: Columns) -> Columns:
    """For each solver and tolerance: means over splits and seeds, and the spreads over either."""
    table: list[Row] = []
    for dataset in unique(frame, "dataset"):
        for by in unique(frame, "by"):
            family = where(frame, dataset=dataset, by=by)
            for solver in unique(family, "method"):
                part = where(family, method=solver)
                names = {"dataset": dataset, "by": by, "solver": solver}
                table += [
                    names | {"epsilon": epsilon} | _over_seeds(where(part, epsilon=epsilon))
                    for epsilon in unique(part, "epsilon")
                ]
    return to_columns(table)


def _over_seeds(cell: Columns) -> Row:
    shape = len(unique(cell, "split")), -1
    names = ("risk", "ks_minority", "violation", "gradient_map")
    risk, ks, violation, gradient_map = (numbers(cell, name).reshape(shape) for name in names)
    return {
        "risk": float(risk.mean()),
        "risk_spread": float(spread(risk.mean(axis=1))),
        "ks": float(ks.mean()),
        "ks_spread": float(spread(ks.mean(axis=1))),
        "ks_over_seeds": float(ks.std(axis=1).mean()),
        "violation": float(violation.mean()),
        "gradient_map": float(gradient_map.mean()),
    }


def solvers_against_published(frame: Columns) -> Columns:
    """The paper's five solvers on Communities: published, by the published formulas, and ours."""
    table = where(solver_table(frame), dataset="communities")
    rows: list[Row] = []
    for solver, told in published("communities").solvers.items():
        parts = {by: where(table, by=by, solver=solver) for by in unique(table, "by")}
        for place, exponent in enumerate(told.exponents):
            row: Row = {"solver": solver, "exponent": int(exponent)}
            row |= {"told_risk": float(told.risk[place]), "told_ks": float(told.ks[place])}
            row |= {"risk_std": float(told.risk_std[place]), "ks_std": float(told.ks_std[place])}
            for by, part in parts.items():
                away = np.abs(np.log2(numbers(part, "epsilon")) + exponent)
                at = int(away.argmin())
                row |= {f"{by}_{name}": part[name][at] for name in ("risk", "ks")}
            if away[at] < 0.5:  # otherwise it was not run at this tolerance
                rows.append(row)
    return to_columns(rows)


def timing_table(frame: Columns) -> Columns:
    """Mean seconds over the tolerances, and the ratios of ADW's to it."""
    table: list[Row] = []
    for dataset in unique(frame, "dataset"):
        seconds = {
            method: float(numbers(where(frame, dataset=dataset, method=method), "seconds").mean())
            for method in unique(frame, "method")
        }
        for method, mean in seconds.items():
            ratios = {f"{name}_over_it": seconds[name] / mean for name in ("adw_1", "adw_2")}
            table.append({"dataset": dataset, "method": method, "seconds": mean, **ratios})
    return to_columns(table)


def oracle_table(frame: Columns) -> Columns:
    """What each solver's policy costs above the exact program at the violation that it reached."""
    table: list[Row] = []
    for dataset in unique(frame, "dataset"):
        for parity in unique(frame, "method"):
            for solver in unique(frame, "solver"):
                part = where(frame, dataset=dataset, method=parity, solver=solver)
                risk, exact = numbers(part, "risk"), numbers(part, "lp_risk")
                row = {"dataset": dataset, "parity": parity, "solver": solver}
                missed = numbers(part, "reached") - numbers(part, "epsilon")
                row |= {
                    "excess": float((risk - exact).mean()),
                    "relative": float((risk - exact).mean() / exact.mean()),
                    "missed": float(missed.max()),
                }
                table.append(row)
    return to_columns(table)
