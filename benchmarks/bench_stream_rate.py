"""A stream against the rows it has seen: the slope of its violation, and a shift of the population.

The violations are those of the population, by quadrature (`reproduction.streams`). At epsilon = 0
theory says a slope of -1/2 on logarithmic scales. For the shift, violations are over epsilon.
"""

from dataclasses import replace

import numpy as np

from benchmarks._support import show_table, verdict
from reproduction.streams import DriftConfig, RateConfig, drift, rate, rate_slopes

SLOPES = (-0.6, -0.4)
MOST_AFTER = 1.5  # of epsilon, two half-lives after the shift
FORGETS = "stream with half_life"


def show_rate() -> None:
    config = replace(RateConfig(), budgets=RateConfig().budgets[:8], n_repetitions=6)
    columns = rate(config)
    for parity, fitted in rate_slopes(columns).items():
        values = [
            v for name, v in zip(columns["parity"], columns["violation"], strict=True) if name == parity
        ]
        passed = verdict(SLOPES[0] <= fitted <= SLOPES[1])
        print(
            f"  {parity}: slope {fitted:.3f} from {config.budgets[0]:,} to {config.budgets[-1]:,} rows, "
            f"violation {values[0] / values[-1]:.1f} times smaller "
            f"(root of the rows: {np.sqrt(config.budgets[-1] / config.budgets[0]):.1f}): {passed}"
        )


def show_drift() -> None:
    config = replace(DriftConfig(), n_before=40, n_after=20)
    columns, alarms = drift(config)
    n_before, shift = config.n_before, config.n_before * config.chunk
    parts = {
        "before": slice(n_before - 5, n_before),
        "first chunk of the shift": slice(n_before, n_before + 1),
        "at the end": slice(-5, None),
    }
    table = [
        (name, *(f"{np.mean(values[part]) / config.epsilon:.2f}" for part in parts.values()))
        for name, values in columns.items()
        if name != "n_rows"
    ]
    show_table(("violation / epsilon", *parts), table)
    first = min((alarm.n_rows for alarm in alarms if alarm.n_rows > shift), default=None)
    early = sum(alarm.n_rows <= shift for alarm in alarms)
    after = float(np.mean(columns[FORGETS][parts["at the end"]])) / config.epsilon
    passed = verdict(first is not None and early == 0 and after <= MOST_AFTER)
    delay = (
        "never" if first is None else f"{(first - shift) / config.half_life:.2f} half-lives after the shift"
    )
    print(f"  alarm {delay}, {early} before it; {FORGETS} ends at {after:.2f} of epsilon: {passed}")


def main() -> None:
    show_rate()
    show_drift()


if __name__ == "__main__":
    main()
