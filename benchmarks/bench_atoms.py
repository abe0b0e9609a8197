"""Why automatic atoms stop at 201: what a finer grid brings in risk, and what it costs in time.

Smooth scores, known tau, parity "cdf" at 0.05. The risk is E (eta - prediction)^2, without the noise of the
target, which would make the differences look smaller. At beta = 20 000 smoothing costs little; "least" is the
certificate's lower bound, which no smoothing touches. The automatic beta is what a user meets.
"""

import evenhand as eh
from benchmarks._support import population_rows, show_table, smallest_times, verdict
from evenhand.dual.grid import MAX_AUTO_ATOMS

N_ROWS, ATOMS = 100_000, (26, 51, 101, 201, 401, 801)
HIGH_BETA, MOST_GAIN = 20_000.0, 1e-3


def measure(rows: tuple, n_atoms: int, beta: float | str) -> tuple[float, float, float]:
    """Risk, its lower bound over all policies on the grid, and seconds of the fit."""
    options = {"atoms": n_atoms, "beta": beta, "bounds": (-1.0, 1.0), "tol": 1e-6}
    model = eh.ParityPostprocessor(parity="cdf", epsilon=0.05, **options)
    seconds = smallest_times({"fit": lambda: model.fit(*rows)}, rounds=2, warm_up=False)["fit"]
    return model.certificate_.risk, model.certificate_.lower_bound, seconds


def main(n_rows: int = N_ROWS) -> None:
    """Print risk and time for each number of atoms, over those of the finest and of the last line."""
    rows = population_rows(n_rows)
    measure(rows, ATOMS[0], "auto")  # compiled code comes from the disk
    high = {m: measure(rows, m, HIGH_BETA) for m in ATOMS}
    auto = {m: measure(rows, m, "auto") for m in ATOMS}
    finest = ATOMS[-1]
    table, before = [], None
    for m in ATOMS:
        shares = [values[m][i] / values[finest][i] - 1.0 for values, i in ((high, 0), (high, 1), (auto, 0))]
        growth = ["", ""] if before is None else [f"x {v[m][2] / v[before][2]:.2f}" for v in (high, auto)]
        table.append([m, *(f"{share:+.4%}" for share in shares), *growth])
        before = m
    print(f"n = {n_rows}, risks over those of m = {finest} ({high[finest][0]:.4g} at beta = {HIGH_BETA:.0f})")
    show_table(["atoms", "risk", "least", "risk, auto beta", "time", "time, auto beta"], table)
    gain = max(high[MAX_AUTO_ATOMS][i] / high[finest][i] - 1.0 for i in (0, 1))
    cost = high[401][2] / high[MAX_AUTO_ATOMS][2]
    passed = verdict(gain < MOST_GAIN)
    saved = f"{gain:.3%} of the risk, under {MOST_GAIN:.1%}: {passed}"
    print(f"{finest} atoms instead of {MAX_AUTO_ATOMS} save {saved}")
    print(f"401 atoms instead of {MAX_AUTO_ATOMS} take {cost:.1f} times as long")


if __name__ == "__main__":
    main()
