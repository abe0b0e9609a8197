"""Study how the parity violation falls along a stream, and what a shift of the population does to it.

The violation is that of the population itself, by quadrature, so that no figure holds the noise of a test
set. This can be computed because in `make_population` the scores depend only on the first feature and on the
sum of the others, and the group only on the first feature.

    python -m reproduction.streams docs/results docs/figures          # two minutes
    python -m reproduction.streams --quick out out
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import softmax

from evenhand._utils.typing import FloatArray
from evenhand.datasets import make_population
from evenhand.estimators.postprocessor import ParityPostprocessor
from evenhand.estimators.streaming import Drift
from evenhand.plots.style import GREY, INK, MARK, subplots, tidy
from reproduction.coverage import slope
from reproduction.frames import Columns, numbers, read_csv, unique, where, write_csv

N_FEATURES = 4  # of make_population


@dataclass(frozen=True, slots=True)
class Population:
    """The parameters of `make_population`."""

    group_prior: tuple[float, ...] = (1.0, 2.0, 3.0)
    separation: float = 1.0

    def draw(self, n_rows: int, seed: Any) -> tuple[FloatArray, FloatArray]:
        """Scores and group probabilities of fresh rows."""
        rows = make_population(
            n_rows,
            len(self.group_prior),
            n_features=N_FEATURES,
            separation=self.separation,
            group_prior=self.group_prior,
            random_state=seed,
        )
        return rows.scores, rows.group_proba


@dataclass(frozen=True, slots=True)
class RateConfig:
    """Streams with the default solver at epsilon = 0, measured each time that the rows have doubled.

    beta is fixed: the default grows at first, so that the problem itself would change along the way.
    """

    budgets: tuple[int, ...] = tuple(2_048 * 2**k for k in range(10))
    parities: tuple[str, ...] = ("cdf", "pmf")
    beta: float = 300.0
    n_repetitions: int = 10
    population: Population = Population()
    n_nodes: tuple[int, int] = (400, 350)


@dataclass(frozen=True, slots=True)
class DriftConfig:
    """A population whose groups move apart at once, and three models that meet it."""

    before: Population = Population(separation=0.7)
    after: Population = Population(separation=1.4)
    epsilon: float = 0.02
    half_life: int = 50_000
    chunk: int = 5_000
    n_before: int = 60  # chunks
    n_after: int = 60
    n_nodes: tuple[int, int] = (400, 350)


QUICK_RATE = RateConfig(budgets=(2_048, 8_192, 32_768), n_repetitions=2, n_nodes=(200, 200))
QUICK_DRIFT = DriftConfig(n_before=8, n_after=6, n_nodes=(200, 200))


@dataclass(frozen=True, slots=True, eq=False)
class Truth:
    """Nodes and weights of a quadrature over a population."""

    scores: FloatArray
    group_proba: FloatArray
    weights: FloatArray

    @classmethod
    def of(cls, population: Population, n_nodes: tuple[int, int]) -> "Truth":
        """The midpoint rule over the first feature and over the scaled sum of the others."""
        prior = np.array(population.group_prior) / sum(population.group_prior)
        centres = population.separation * (np.arange(len(prior)) - (len(prior) - 1) / 2)
        reach = float(centres[-1]) + 6.0
        first, rest = (np.linspace(-r, r, n) for r, n in zip((reach, 6.0), n_nodes, strict=True))
        density = np.exp(-0.5 * (first[:, None] - centres) ** 2) @ prior
        weights = density[:, None] * np.exp(-0.5 * rest**2)
        proba = softmax(np.log(prior) + first[:, None] * centres - 0.5 * centres**2, axis=1)
        total = first[:, None] + np.sqrt(N_FEATURES - 1.0) * rest
        return cls(
            scores=np.tanh(total / np.sqrt(N_FEATURES)).ravel(),
            group_proba=np.repeat(proba, len(rest), axis=0),
            weights=(weights / weights.sum()).ravel(),
        )

    def violation(self, model: ParityPostprocessor, chunk: int = 50_000) -> float:
        """Largest distance of a group to everybody, in the model's notion ("cdf" or "pmf")."""
        prior = self.weights @ self.group_proba
        masses = np.zeros((len(model.atoms_), len(prior)))
        for start in range(0, len(self.scores), chunk):
            rows = slice(start, start + chunk)
            imbalance = self.weights[rows, None] * (1.0 - self.group_proba[rows] / prior)
            masses += model.predict_pmf(self.scores[rows], self.group_proba[rows]).T @ imbalance
        if model.parity == "cdf":
            masses = np.cumsum(masses, axis=0)
        return float(np.abs(masses).max())


def rate(config: RateConfig) -> Columns:
    """Mean violation of the population against the rows of the stream, by parity notion."""
    truth = Truth.of(config.population, config.n_nodes)
    columns: Columns = {"parity": [], "n_rows": [], "violation": [], "error": []}
    for parity in config.parities:
        runs = np.array([list(_rate_run(config, truth, parity, i)) for i in range(config.n_repetitions)])
        columns["parity"] += [parity] * len(config.budgets)
        columns["n_rows"] += list(config.budgets)
        columns["violation"] += runs.mean(axis=0).tolist()
        columns["error"] += (runs.std(axis=0, ddof=1) / np.sqrt(len(runs))).tolist()
    return columns


def _rate_run(config: RateConfig, truth: Truth, parity: str, repetition: int) -> Iterator[float]:
    model = ParityPostprocessor(parity=parity, epsilon=0.0, beta=config.beta)
    for place, budget in enumerate(config.budgets):
        n_rows = budget - (config.budgets[place - 1] if place else 0)
        model.partial_fit(*config.population.draw(n_rows, 1000 * repetition + place))
        yield truth.violation(model)


def rate_slopes(columns: Mapping[str, Sequence[Any]]) -> dict[str, float]:
    """Slope of log violation on log rows, by parity notion."""
    slopes = {}
    for parity in unique(columns, "parity"):
        part = where(columns, parity=parity)
        slopes[parity] = slope(part["n_rows"], part["violation"])
    return slopes


def drift(config: DriftConfig) -> tuple[Columns, list[Drift]]:
    """Violation of the present population chunk by chunk, and the alarms of the stream that forgets."""
    truths = [Truth.of(population, config.n_nodes) for population in (config.before, config.after)]
    options: dict[str, dict[str, Any]] = {
        "no stream": {},
        "stream that forgets nothing": {},
        "stream with half_life": {"half_life": config.half_life},
    }
    models = {name: ParityPostprocessor(epsilon=config.epsilon) for name in options}
    alarms: list[Drift] = []
    columns: Columns = {"n_rows": [], **{name: [] for name in options}}
    for chunk in range(config.n_before + config.n_after):
        shifted = chunk >= config.n_before
        rows = (config.after if shifted else config.before).draw(config.chunk, chunk)
        columns["n_rows"].append((chunk + 1) * config.chunk)
        for name, model in models.items():
            if name == "no stream" and shifted:
                columns[name].append(truths[shifted].violation(model))
                continue
            on_drift = alarms.append if "half_life" in options[name] else _ignore
            model.partial_fit(*rows, on_drift=on_drift, **options[name])
            columns[name].append(truths[shifted].violation(model))
    return columns, alarms


def _ignore(drift: Drift) -> None:
    """Drop an alarm: those of the stream with a half-life are counted."""


def draw_rate(columns: Mapping[str, Sequence[Any]]) -> Any:
    """Violation against rows on two logarithmic scales, with a guide of slope -1/2."""
    ax = subplots(size=(5.6, 3.8))[0, 0]
    looks = zip((INK, MARK), ("o", "s"), strict=True)
    for (parity, fitted), (color, marker) in zip(rate_slopes(columns).items(), looks, strict=True):
        part = where(columns, parity=parity)
        n_rows, values, errors = (numbers(part, name) for name in ("n_rows", "violation", "error"))
        label = f'"{parity}": slope {fitted:.2f}'.replace("-", "\N{MINUS SIGN}")
        ax.errorbar(n_rows, values, 2 * errors, color=color, marker=marker, markersize=5, label=label)
        ends = n_rows[[0, -1]]
        guide = 1.35 * values[0] * np.sqrt(ends[0] / ends)
        ax.plot(ends, guide, color=GREY, linestyle=":", linewidth=1.0)
    ax.plot([], [], color=GREY, linestyle=":", linewidth=1.0, label="slope \N{MINUS SIGN}1/2")
    ax.set(xscale="log", yscale="log", xlabel="Rows of the stream", ylabel="Violation in the population")
    ax.legend(frameon=False)
    tidy(ax, grid=False)
    title = "At \N{GREEK SMALL LETTER EPSILON} = 0 the violation falls as one over the root of the rows"
    ax.set_title(title, loc="left", fontsize="medium")
    return ax.figure


def draw_drift(columns: Mapping[str, Sequence[Any]], config: DriftConfig, alarm: int) -> Any:
    """Violation before, during and after the shift."""
    ax = subplots(size=(6.8, 3.8))[0, 0]
    looks = ((GREY, ":", 1.4), (MARK, "--", 1.6), (INK, "-", 2.2))
    n_rows = np.array(columns["n_rows"]) / 1000
    for name, (color, line, width) in zip(list(columns)[1:], looks, strict=True):
        label = f"{name}={config.half_life}" if "half_life" in name else name
        ax.plot(n_rows, columns[name], color=color, linestyle=line, linewidth=width, label=label)
    ax.axhline(config.epsilon, color="black", linewidth=0.8)
    beside = {"textcoords": "offset points", "ha": "right", "va": "top", "fontsize": 9}
    epsilon = f"\N{GREEK SMALL LETTER EPSILON} = {config.epsilon}"
    ax.annotate(epsilon, (n_rows[-1], config.epsilon), (0, -4), **beside)
    shift = config.n_before * config.chunk / 1000
    ax.axvline(shift, color="0.75", linewidth=1.0)
    event = f"the groups move apart,\nalarm after {alarm - 1000 * shift:,.0f} rows"
    ax.annotate(event, (shift, max(columns["no stream"])), (-6, 4), **beside)
    ax.set(xlabel="Rows of the stream, thousands", ylabel="KS distance in the population", ylim=(0, None))
    ax.legend(frameon=False, loc="center left")
    tidy(ax, grid=False)
    ax.set_title(
        "A stream that forgets is back at its tolerance soon after a shift", loc="left", fontsize="medium"
    )
    return ax.figure


def main(arguments: Sequence[str] | None = None) -> None:
    """Run both parts, or one, and write their tables and figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("results", type=Path, help="folder of the tables")
    parser.add_argument("figures", type=Path, help="folder of the figures")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--part", choices=("all", "rate", "drift"), default="all")
    options = parser.parse_args(arguments)
    options.figures.mkdir(parents=True, exist_ok=True)
    if options.part in ("all", "rate"):
        write_csv(rate(QUICK_RATE if options.quick else RateConfig()), options.results / "stream_rate.csv")
        figure = draw_rate(read_csv(options.results / "stream_rate.csv"))
        figure.savefig(options.figures / "stream-rate.png", dpi=110)
    if options.part in ("all", "drift"):
        config = QUICK_DRIFT if options.quick else DriftConfig()
        columns, alarms = drift(config)
        shift = config.n_before * config.chunk
        first = min((alarm.n_rows for alarm in alarms if alarm.n_rows > shift), default=shift)
        write_csv(columns, options.results / "stream_drift.csv")
        draw_drift(columns, config, first).savefig(options.figures / "stream-drift.png", dpi=110)


if __name__ == "__main__":
    main()
