"""Study how often certificates fail, and whether unfairness falls as fast as Theorem 5.1 says.

The population is a pool of rows from `make_population`, and samples are drawn from it with replacement. So
every true value (the Kolmogorov-Smirnov distance of a predictor, the violation of a policy) is a sum over
the pool, without noise of its own, and there is no end to the rows that can be drawn.

    python -m reproduction.coverage docs/results docs/figures          # a few minutes
    python -m reproduction.coverage --quick out out                    # under half a minute
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from evenhand._utils.typing import AnyArray, FloatArray
from evenhand._utils.validation import Rows
from evenhand.certificates import certify_held_out
from evenhand.datasets import make_population
from evenhand.dual.costs import Squared
from evenhand.dual.grid import uniform_grid
from evenhand.dual.problem import DualProblem
from evenhand.dual.step import ParityStep
from evenhand.estimators.postprocessor import ParityPostprocessor
from evenhand.metrics import ks_unfairness
from evenhand.plots.style import GREY, INK, MARK, subplots, tidy
from evenhand.solvers import AcSa2, Sgd3, run
from reproduction.frames import Columns, append_row, numbers, read_csv, unique, where, write_csv


@dataclass(frozen=True, slots=True)
class CoverageConfig:
    """Certificates on many samples of populations whose distances are known."""

    n_groups: tuple[int, ...] = (2, 3)
    sizes: tuple[int, ...] = (300, 3_000, 30_000)  # held-out rows
    kinds: tuple[str, ...] = ("pmf", "draws", "scores")  # of a policy at parity; scores are far from it
    n_repetitions: int = 500
    delta: float = 0.05
    epsilon: float = 0.02
    n_atoms: int = 41
    n_fit: int = 2_000
    n_pool: int = 200_000
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Setting:
    """A parity notion, and how grid and beta are chosen for T rows."""

    name: str
    parity: str
    grows: bool  # L = sqrt(T) and beta = T / (8 log2 T), as Theorem 5.1 has it, instead of 41 atoms and 100


@dataclass(frozen=True, slots=True)
class RateConfig:
    """The paper's solver, SGD3 with AC-SA squared, on T fresh rows at epsilon = 0."""

    budgets: tuple[int, ...] = (1_000, 3_162, 10_000, 31_623, 100_000, 316_228, 1_000_000)
    most_repetitions: int = 20
    gradients: int = 3_000_000  # spent on each budget at most, if that leaves three repetitions
    settings: tuple[Setting, ...] = (
        Setting("pmf, 41 atoms", "pmf", False),
        Setting("cdf, 41 atoms", "cdf", False),
        Setting("pmf, theorem's grid and beta", "pmf", True),
    )
    n_groups: int = 2
    n_pool: int = 50_000
    seed: int = 0


QUICK_COVERAGE = CoverageConfig(sizes=(300, 3_000), n_repetitions=60, n_pool=40_000)
QUICK_RATE = RateConfig(
    budgets=(1_000, 10_000, 100_000), most_repetitions=3, gradients=300_000, n_pool=20_000
)


def coverage(config: CoverageConfig) -> Columns:
    """Share of certificates that fail, and how far their bounds are from the truth, by kind and group.

    `failed` is the share of repetitions in which any group of the certificate is above its upper bound,
    `failed_lower` below its lower one; `ratio` the mean of upper / truth.

    Parameters
    ----------
    config : CoverageConfig

    Returns
    -------
    dict
        Columns of equal length, one row for each kind, size and group.
    """
    columns: Columns = {}
    for n_groups in config.n_groups:
        pool = _Pool.make(config, n_groups)
        for kind in config.kinds:
            for size in config.sizes:
                for row in _cell(config, pool, kind, size):
                    append_row(columns, {"n_groups": n_groups, "kind": kind, "n_rows": size} | row)
    return columns


@dataclass(frozen=True, slots=True, eq=False)
class _Pool:
    """The population, and a policy on it that was fitted on other rows."""

    scores: FloatArray
    groups: AnyArray
    atoms: FloatArray
    pmf: FloatArray
    cdf: FloatArray

    @classmethod
    def make(cls, config: CoverageConfig, n_groups: int) -> "_Pool":
        fit, pool = (
            make_population(n, n_groups, random_state=config.seed + i)
            for i, n in enumerate((config.n_fit, config.n_pool))
        )
        model = ParityPostprocessor(epsilon=config.epsilon, atoms=config.n_atoms, bounds=(-1.0, 1.0))
        model.fit(fit.scores, fit.group_proba)
        pmf = model.predict_pmf(pool.scores, pool.group_proba)
        cdf = np.cumsum(pmf, axis=1)[:, :-1]
        return cls(pool.scores, pool.sensitive_features, model.atoms_, pmf, np.ascontiguousarray(cdf))

    def predictions(self, kind: str, rows: Any, rng: np.random.Generator) -> dict[str, Any]:
        """Arguments of a certificate for some rows."""
        if kind == "scores":
            return {"predictions": self.scores[rows]}
        if kind == "pmf":
            return {"predictions": self.pmf[rows]}
        cdf = self.cdf[rows]
        drawn = (rng.random((len(cdf), 1)) > cdf).sum(axis=1)
        return {"predictions": self.atoms[drawn], "atoms": self.atoms}

    def truth(self, kind: str) -> FloatArray:
        """Distance of each group in the population; draws have that of their pmf."""
        given = self.scores if kind == "scores" else self.pmf
        return np.array(list(ks_unfairness(given, self.groups).values()))


def _cell(config: CoverageConfig, pool: _Pool, kind: str, size: int) -> Iterator[dict[str, Any]]:
    """All repetitions of one kind and size; one row for each group."""
    truth = pool.truth(kind)
    rng = np.random.default_rng([config.seed, len(truth), size, config.kinds.index(kind)])
    bounds = np.empty((3, config.n_repetitions, len(truth)))
    for repetition in range(config.n_repetitions):
        rows = rng.integers(len(pool.groups), size=size)
        certificate = certify_held_out(
            **pool.predictions(kind, rows, rng), sensitive_features=pool.groups[rows], delta=config.delta
        )
        bounds[:, repetition] = certificate.estimate, certificate.lower, certificate.upper
    estimate, lower, upper = bounds
    for group in range(len(truth)):
        yield {
            "group": group,
            "truth": float(truth[group]),
            "estimate": float(estimate[:, group].mean()),
            "lower": float(lower[:, group].mean()),
            "upper": float(upper[:, group].mean()),
            "ratio": float(upper[:, group].mean() / truth[group]),
            "failed": float((upper < truth).any(axis=1).mean()),
            "failed_lower": float((lower > truth).any(axis=1).mean()),
            "delta": config.delta,
            "repetitions": config.n_repetitions,
        }


def rate(config: RateConfig) -> Columns:
    """Unfairness in the population after T stochastic gradients, each at a fresh row.

    `norm` is the left side of Theorem 5.1, the root of the mean over runs of the sum of squared violations
    over constraints and groups; `ks` the mean of the largest Kolmogorov-Smirnov distance.

    Parameters
    ----------
    config : RateConfig

    Returns
    -------
    dict
        Columns of equal length, one row for each setting and T.
    """
    pool = make_population(config.n_pool, config.n_groups, random_state=config.seed)
    columns: Columns = {}
    for setting in config.settings:
        for budget in config.budgets:
            problem = _problem(setting, budget, pool.scores, pool.group_proba)
            n_runs = min(config.most_repetitions, max(3, config.gradients // budget))
            norms, distances = np.array(
                [_unfairness(problem, setting, budget, config.seed + i) for i in range(n_runs)]
            ).T
            row = {
                "setting": setting.name,
                "T": budget,
                "n_atoms": problem.n_atoms,
                "beta": problem.temperature,
                "norm": float(np.sqrt((norms**2).mean())),
                "ks": float(distances.mean()),
                "ks_error": float(distances.std(ddof=1) / np.sqrt(n_runs)),
                "repetitions": n_runs,
            }
            append_row(columns, row)
    return columns


def slope(T: ArrayLike, unfairness: ArrayLike) -> float:
    """Slope of the least squares line through the logs.

    >>> round(slope([100, 10_000], [0.3, 0.03]), 3)
    -0.5
    """
    return float(np.polyfit(np.log(T), np.log(unfairness), 1)[0])


def slopes(columns: Mapping[str, Sequence[Any]], least: int = 0) -> Columns:
    """Fitted slopes of both measures for each setting, over the budgets of at least `least`."""
    table: Columns = {}
    for name in unique(columns, "setting"):
        part = where(columns, setting=name)
        budgets = numbers(part, "T")
        used = budgets >= least
        fitted = {measure: slope(budgets[used], numbers(part, measure)[used]) for measure in ("norm", "ks")}
        append_row(table, {"setting": name, "least_T": least, **fitted})
    return table


def _problem(setting: Setting, budget: int, scores: FloatArray, group_proba: FloatArray) -> DualProblem:
    """The population's problem; the solver sees rows drawn from it."""
    half = int(np.sqrt(budget)) if setting.grows else 20
    rows = Rows(scores, group_proba, tuple(range(group_proba.shape[1])), None)
    step = ParityStep(
        grid=uniform_grid(-1.0, 1.0, 2 * half + 1),
        parity=setting.parity,
        cost=Squared(),
        group_prior=rows.group_mass(),
        strata=None,
        epsilon=np.zeros(group_proba.shape[1]),
        beta=budget / (8.0 * np.log2(budget)) if setting.grows else 100.0,
    )
    return step.problem(rows)


def _unfairness(problem: DualProblem, setting: Setting, budget: int, seed: int) -> tuple[float, float]:
    """Norm of the violation and largest distance of one run, over the population."""
    solver = Sgd3(inner=AcSa2(), n_steps=budget, sampling="replacement", random_state=seed)
    violation = run(solver, problem).violation
    gaps = np.cumsum(violation, axis=0) if setting.parity == "pmf" else violation
    return float(np.linalg.norm(violation)), float(np.abs(gaps).max())


def draw(covered: Mapping[str, Sequence[Any]], rates: Mapping[str, Sequence[Any]]) -> Any:
    """The figure: bounds and truth against held-out rows, and unfairness against T.

    Parameters
    ----------
    covered, rates : columns of `coverage` and `rate`

    Returns
    -------
    matplotlib Figure
    """
    left, middle, right = subplots(1, 3, size=(13.5, 4.4))[0]
    _draw_bounds(left, covered)
    _draw_rate(middle, rates, "norm", "Norm of the violations (Theorem 5.1)")
    _draw_rate(right, rates, "ks", "Largest KS distance of a group to all")
    for ax in (left, middle, right):
        tidy(ax)
    return left.figure


def _draw_bounds(ax: Any, columns: Mapping[str, Sequence[Any]]) -> None:
    """Upper bound, estimate and truth of the smallest group, for a pmf and for draws."""
    n_groups, styles = min(columns["n_groups"]), {"pmf": ("o", "-"), "draws": ("s", "--")}
    for kind, (marker, line) in styles.items():
        part = where(columns, n_groups=n_groups, kind=kind, group=0)
        size, truth, estimate, upper = (
            numbers(part, name) for name in ("n_rows", "truth", "estimate", "upper")
        )
        style = {"marker": marker, "linestyle": line, "markersize": 5, "linewidth": 1.6}
        ax.plot(size, upper, color=INK, label=f"certified bound, {kind}", **style)
        ax.plot(size, estimate, color=MARK, label=f"seen on the rows, {kind}", **style)
        ax.axhline(truth[0], color=GREY, linewidth=1.2, linestyle=":")
    worst = max(columns["failed"])
    ax.annotate("truth", (size[0], truth[0]), (0, 3), textcoords="offset points", color=GREY)
    ax.set(
        xscale="log", yscale="log", xlabel="Held-out rows", ylabel="KS distance of the smaller group to all"
    )
    ax.legend(frameon=False, fontsize="small")
    title = f"Bounds close in on the truth: {worst:.1%} of certificates\n"
    ax.set_title(f"{title}fail at worst, where {columns['delta'][0]:.0%} may", loc="left", fontsize="medium")


def _draw_rate(ax: Any, columns: Mapping[str, Sequence[Any]], measure: str, label: str) -> None:
    """One measure against T for every setting, with a guide of slope -1/2."""
    looks = ((INK, "o", "-"), (MARK, "D", "-"), (GREY, "s", "--"))
    for name, (color, marker, line) in zip(unique(columns, "setting"), looks, strict=False):
        part = where(columns, setting=name)
        T, values = numbers(part, "T"), numbers(part, measure)
        fitted = f"{name}: slope {slope(T, values):.2f}"
        ax.plot(T, values, color=color, marker=marker, linestyle=line, linewidth=1.6, label=fitted)
        if color == INK:
            ends = T[[0, -1]]
            guide = 1.6 * values[0] * np.sqrt(T[0] / ends)
            ax.plot(ends, guide, color="black", linewidth=1.0, linestyle=":", label="slope -1/2")
    ax.set(xscale="log", yscale="log", xlabel="T, rows drawn from the population", ylabel=label)
    ax.legend(frameon=False, fontsize="small", loc="lower left")
    on_norm = "On a fixed grid violations fall near 1/\N{SQUARE ROOT}T"
    shown = on_norm if measure == "norm" else "So does KS, unless the grid grows with T"
    ax.set_title(
        f"{shown}\n(SGD3 + AC-SA\N{SUPERSCRIPT TWO}, \N{GREEK SMALL LETTER EPSILON} = 0)",
        loc="left",
        fontsize="medium",
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the study, or one part of it, and write its tables and its figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("results", type=Path, help="folder of the tables")
    parser.add_argument("figures", type=Path, help="folder of the figure")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--part", choices=("all", "coverage", "rate", "figure"), default="all")
    options = parser.parse_args(arguments)
    tables = [options.results / name for name in ("coverage.csv", "rate.csv", "rate_slopes.csv")]
    if options.part in ("all", "coverage"):
        write_csv(coverage(QUICK_COVERAGE if options.quick else CoverageConfig()), tables[0])
    if options.part in ("all", "rate"):
        rates = rate(QUICK_RATE if options.quick else RateConfig())
        write_csv(rates, tables[1])
        write_csv(_joined(slopes(rates), slopes(rates, least=10_000)), tables[2])
    if options.part in ("all", "figure"):
        options.figures.mkdir(parents=True, exist_ok=True)
        draw(read_csv(tables[0]), read_csv(tables[1])).savefig(options.figures / "coverage.png", dpi=110)


def _joined(first: Columns, second: Columns) -> Columns:
    return {name: [*first[name], *second[name]] for name in first}


if __name__ == "__main__":
    main()
