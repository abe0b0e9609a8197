"""Time a fit at one tolerance: ours against ADW, on the same rows in one process."""

from collections.abc import Callable
from time import perf_counter

from evenhand.estimators.postprocessor import ParityPostprocessor
from reproduction.comparison import fit_adw
from reproduction.frames import Row
from reproduction.parity_step import PAPER_SOLVER, PaperStep
from reproduction.rows import PaperRows, prepare
from reproduction.runner import Cell


def compute_timing(cell: Cell) -> list[Row]:
    """Seconds of each method at each tolerance, the smallest of interleaved rounds.

    Ours count the fits of the regressor and of the classifier, as the paper's table does; ADW trains its
    own models. A first round that is not counted lets everything compile.
    """
    rows = prepare(cell.dataset, cell["scheme"], cell.split)
    fits = _fits(rows, cell["budget"])
    best: dict[tuple[str, float], float] = {}
    for round_ in range(-1, cell["n_rounds"]):
        for exponent in cell["exponents"]:
            for name, fit in fits.items():
                begin = perf_counter()
                fit(2.0**-exponent)
                seconds = perf_counter() - begin
                if round_ >= 0:
                    key = name, 2.0**-exponent
                    best[key] = min(seconds, best.get(key, seconds))
    return [{"method": name, "epsilon": epsilon, "seconds": s} for (name, epsilon), s in best.items()]


def _fits(rows: PaperRows, budget: int) -> dict[str, Callable[[float], object]]:
    def batch(parity: str, epsilon: float, beta: str = "paper") -> object:
        fresh = rows.fit_models()
        model = ParityPostprocessor(parity=parity, epsilon=epsilon, bounds=rows.bounds, beta=beta)
        return model.fit(*fresh.nuisances(rows.split.unlabeled))

    def paper(epsilon: float) -> object:
        return PaperStep.of(rows.fit_models(), epsilon).solve(PAPER_SOLVER, budget, 0)

    return {
        "cdf": lambda epsilon: batch("cdf", epsilon),
        "cdf_sharp": lambda epsilon: batch("cdf", epsilon, "auto"),
        "pmf": lambda epsilon: batch("pmf", epsilon),
        "paper": paper,
        "adw_1": lambda epsilon: fit_adw(rows, "adw_1", epsilon),
        "adw_2": lambda epsilon: fit_adw(rows, "adw_2", epsilon),
    }
