"""The studies of the reproduction and their cells, at full scale and at a quick one."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from reproduction.comparison import VARIANT, compute_comparison
from reproduction.convergence import compute_convergence, compute_solvers
from reproduction.oracle import compute_oracle
from reproduction.published import DATASETS, published
from reproduction.runner import Cell, Compute
from reproduction.synthetic import compute_synthetic
from reproduction.timing import compute_timing
from reproduction.variant import SOLVERS as PUBLISHED_SOLVERS
from reproduction.variant import ablations

PAPER_BETA = ("beta", "paper")
FIRST_FRESH_SPLIT = 1000  # seeds from here on were never used to choose anything
PATIENT = (("min_iter", 50),)  # with these rounds ADW does better, and takes longer
OWN_SOLVERS = ("sgd", "acsa", "acsa2", "sgd3", "sgd3+acsa", "sgd3+acsa2")
KS_TOLERANCES = (0.0, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.13, 0.16, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5)

Settings = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Scale:
    """How many splits, tolerances, seeds and rounds are run."""

    name: str
    n_splits: int  # the paper's is ten
    n_fresh_splits: int  # for differences at matched distances, which ten splits leave in the noise
    tolerances: tuple[float, ...]  # of cdf parity
    between: tuple[float, ...]  # exponents beside the paper's, so that curves can be read between its points
    adw_exponents: tuple[float, ...]  # the paper's are 1, 2, 4, 8, 16
    solver_exponents: tuple[float, ...]
    n_seeds: int  # of a stochastic solver on the same rows
    n_records: int  # along one run of the solver
    oracle_splits: int
    timing_rounds: int


FULL = Scale(
    name="full",
    n_splits=10,
    n_fresh_splits=40,
    tolerances=KS_TOLERANCES,
    between=(3.0, 4.5, 5.5, 6.5, 7.0, 10.0),
    adw_exponents=(1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0, 8.0, 16.0),
    solver_exponents=(1.0, 2.0, 4.0, 5.0, 6.0, 8.0, 16.0),
    n_seeds=5,
    n_records=100,
    oracle_splits=2,
    timing_rounds=3,
)
QUICK = Scale(
    name="quick",
    n_splits=3,
    n_fresh_splits=3,
    tolerances=(0.0, 0.02, 0.06, 0.1, 0.16, 0.25, 0.35, 0.5),
    between=(),
    adw_exponents=(1.0, 2.0, 4.0, 8.0, 16.0),
    solver_exponents=(1.0, 5.0, 16.0),
    n_seeds=2,
    n_records=30,
    oracle_splits=1,
    timing_rounds=1,
)


SCALES = {scale.name: scale for scale in (FULL, QUICK)}


@dataclass(frozen=True, slots=True)
class Study:
    """An experiment: its cells at a scale, and the function that computes one of them."""

    name: str
    cells: Callable[[Scale], Iterator[Cell]]
    compute: Compute
    alone: bool = False  # cells are timed, and must not share the machine


def _published_cells(scale: Scale) -> Iterator[Cell]:
    """The paper's method on the splits behind its figures, by the published formulas and by ours."""
    for dataset in DATASETS:
        budget = published(dataset).budget
        exponents = tuple(published(dataset).ours.exponents.tolist())
        points = {"exponents": exponents, "budget": budget}
        own = points | {"prior": "tau"}
        exact = {"parity": "pmf", "epsilons": tuple(2.0**-i for i in exponents), "options": (PAPER_BETA,)}
        methods: dict[str, Settings] = {
            "base": {},
            "base_on_grid": {},
            "paper": own,
            "paper_prior": own | {"prior": "labels"},
            "paper_2T": own | {"budget": 2 * budget},
            "pmf": exact,
            **{f"{VARIANT}{name}": points | {"n_seeds": scale.n_seeds} for name, _ in ablations()},
        }
        for split in range(scale.n_splits):
            yield _cell("published", dataset, split, "paper", scheme="text", **own)
            for method, settings in methods.items():
                # the seeds of the published splits begin with one
                yield _cell("published", dataset, split + 1, method, scheme="published", **settings)


def _comparison_cells(scale: Scale) -> Iterator[Cell]:
    for dataset in DATASETS:
        shared = _shared_settings(scale, dataset)
        calibrated = {"models": "paper", "labels": "labelled", "epsilons": scale.tolerances}
        methods: dict[str, Settings] = {
            "base": {},
            "base_plain": {},
            **shared,
            "cdf_default": _default_settings(scale),
            "cdf_sigmoid": calibrated | {"options": (PAPER_BETA, ("calibration", "sigmoid"))},
            "cdf_isotonic": calibrated | {"options": (PAPER_BETA, ("calibration", "isotonic"))},
            "barycentre": {"moved": (0.0, 0.25, 0.5, 0.75, 0.9, 1.0)},
        }
        for split in range(scale.n_splits):
            for method, settings in methods.items():
                yield _cell("comparison", dataset, split, method, scheme="text", **settings)


def _matched_cells(scale: Scale) -> Iterator[Cell]:
    """The competing methods again, on many splits that had no part in any choice."""
    for dataset in DATASETS:
        shared = _shared_settings(scale, dataset)
        methods = {
            **shared,
            "cdf_default": _default_settings(scale),
            "cdf_default_both": _default_settings(scale) | {"labels": "both"},
            "adw_1": shared["adw_1"] | {"options": PATIENT},
            "adw_2": shared["adw_2"] | {"options": PATIENT},
        }
        for split in range(FIRST_FRESH_SPLIT, FIRST_FRESH_SPLIT + scale.n_fresh_splits):
            for method, settings in methods.items():
                yield _cell("matched", dataset, split, method, scheme="text", **settings)


def _shared_settings(scale: Scale, dataset: str) -> dict[str, Settings]:
    """Settings of the paper's method and of those that it is compared with."""
    paper = published(dataset)
    exponents = tuple(sorted({*paper.ours.exponents.tolist(), *scale.between}))
    tolerances = tuple(2.0**-exponent for exponent in exponents)
    adw = {"exponents": scale.adw_exponents, "options": ()}
    return {
        "paper": {"exponents": exponents, "budget": paper.budget, "prior": "tau"},
        "pmf": {"parity": "pmf", "epsilons": tolerances, "options": (PAPER_BETA,)},
        "cdf": {"parity": "cdf", "epsilons": scale.tolerances, "options": (PAPER_BETA,)},
        "adw_1": adw,
        "adw_2": adw,
    }


def _default_settings(scale: Scale) -> Settings:
    """Settings of `ParityRegressor()` with its defaults."""
    return {"models": "own", "labels": "labelled", "epsilons": scale.tolerances, "options": ()}


def _convergence_cells(scale: Scale) -> Iterator[Cell]:
    for dataset in DATASETS:
        settings = {"exponent": 8.0, "budget": published(dataset).budget, "n_records": scale.n_records}
        for split in range(1, scale.n_splits + 1):
            yield _cell("convergence", dataset, split, "paper", scheme="published", **settings)


def _solver_cells(scale: Scale) -> Iterator[Cell]:
    families = {"own": OWN_SOLVERS, "published": PUBLISHED_SOLVERS}
    for dataset in DATASETS:
        settings = {"exponents": scale.solver_exponents, "budget": published(dataset).budget}
        settings |= {"scheme": "published", "n_seeds": scale.n_seeds}
        for split in range(1, scale.n_splits + 1):
            for by, solvers in families.items():
                for solver in solvers:
                    yield _cell("solvers", dataset, split, solver, by=by, **settings)


def _timing_cells(scale: Scale) -> Iterator[Cell]:
    for dataset in DATASETS:
        paper = published(dataset)
        settings = {"exponents": tuple(paper.adw_1.exponents.tolist()), "n_rounds": scale.timing_rounds}
        yield _cell("timing", dataset, 0, "all", scheme="text", budget=paper.budget, **settings)


def _synthetic_cells(scale: Scale) -> Iterator[Cell]:
    for method in ("base", "variant_published", "paper", "cdf"):
        yield _cell("synthetic", "four_groups", 0, method, epsilon=1e-6, budget=50_000)


def _oracle_cells(scale: Scale) -> Iterator[Cell]:
    tolerances = {"pmf": (2.0**-16, 2.0**-8, 2.0**-6, 2.0**-5), "cdf": (0.0, 0.02, 0.05, 0.1)}
    for dataset in DATASETS:
        settings = {"sharp_beta": 20_000.0, "budget": published(dataset).budget}
        for split in range(scale.oracle_splits):
            for parity, epsilons in tolerances.items():
                chosen = epsilons if scale is FULL else epsilons[1:3]
                yield _cell("oracle", dataset, split, parity, scheme="text", epsilons=chosen, **settings)


def _cell(experiment: str, dataset: str, split: int, method: str, **settings: Any) -> Cell:
    return Cell(experiment, dataset, split, method, tuple(settings.items()))


STUDIES = {
    study.name: study
    for study in (
        Study("convergence", _convergence_cells, compute_convergence),
        Study("published", _published_cells, compute_comparison),
        Study("comparison", _comparison_cells, compute_comparison),
        Study("matched", _matched_cells, compute_comparison),
        Study("solvers", _solver_cells, compute_solvers),
        Study("synthetic", _synthetic_cells, compute_synthetic),
        Study("oracle", _oracle_cells, compute_oracle),
        Study("timing", _timing_cells, compute_timing, alone=True),
    )
}
