"""What a cost other than the squared one takes: time and memory of a fit, against the squared cost.

The squared cost needs one number per row, a cost matrix one per class, any other cost one per atom: both
ratios grow with the number of atoms.
"""

from functools import partial

import numpy as np

from benchmarks._support import peak_growth, population_rows, show_table, smallest_times
from evenhand import ParityPostprocessor

N_ROWS = 10_000


def fit(state: tuple[np.ndarray, np.ndarray, dict[str, object]]) -> ParityPostprocessor:
    scores, proba, options = state
    return ParityPostprocessor(epsilon=0.02, bounds=(-1, 1), **options).fit(scores, proba)


def prepare(options: dict[str, object]) -> tuple[np.ndarray, np.ndarray, dict[str, object]]:
    state = *population_rows(N_ROWS), options
    fit((state[0][:500], state[1][:500], options))  # compiles
    return state


def main() -> None:
    rows = []
    for n_atoms in (21, 51, 101):
        states = {
            name: prepare({"cost": name, "atoms": n_atoms}) for name in ("squared", "absolute", "huber")
        }
        times = smallest_times({name: partial(fit, state) for name, state in states.items()}, rounds=2)
        memory = {name: peak_growth(prepare, fit, states[name][2]) for name in ("squared", "absolute")}
        rows.append(
            [
                f"{n_atoms} atoms",
                f"{times['absolute'] / times['squared']:.1f}",
                f"{times['huber'] / times['squared']:.1f}",
                f"{memory['absolute'] - memory['squared']:.0f}",
                f"{8 * N_ROWS * n_atoms / 2**20:.0f}",
            ]
        )
    print(f"Fits on {N_ROWS} rows, against the squared cost of the same run")
    head = ["", "absolute, times slower", "huber, times slower", "more memory, MB", "one table, MB"]
    show_table(head, rows)


if __name__ == "__main__":
    main()
