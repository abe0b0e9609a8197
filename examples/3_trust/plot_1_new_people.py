"""
What new people get, and how many rows it takes
===============================================

On the rows of the fit any model can be made to look equal. What counts is what people see who
come later. By default ``epsilon`` is about them: ``fit`` measures, on rows that had no part in
the parity step, what they are to expect, and holds back what is needed. This example compares
that with a tolerance on the rows of the fit, as the number of rows grows.
"""

# %%
# For each number of rows a few samples; all are measured on the same new people, of whom there
# are so many that little is left to chance.

import warnings

import matplotlib.pyplot as plt
import numpy as np

import evenhand as eh
from evenhand.exceptions import PromiseWarning
from evenhand.plots import GREY, INK, MARK

population = {"n_groups": 2, "separation": 1.5, "noise": 1.0}
new = eh.datasets.make_population(20_000, random_state=99, **population)
epsilon, sizes, n_samples = 0.06, [250, 1000, 4000], 4


def fit_and_measure(n_rows, seed, confidence):
    """Distance that new people see, R^2 for them, and whether epsilon was promised."""
    rows = eh.datasets.make_population(n_rows, random_state=seed, **population)
    model = eh.ParityRegressor(epsilon=epsilon, confidence=confidence, random_state=0)
    model.fit(rows.data, rows.target, sensitive_features=rows.sensitive_features)
    distances = eh.metrics.ks_unfairness(model.predict_pmf(new.data), new.sensitive_features)
    promise = model.certificate_.promise
    return (
        max(distances.values()),
        model.score(new.data, new.target),
        promise is not None and promise.kept,
    )


warnings.simplefilter("ignore", PromiseWarning)  # counted below
found = {
    confidence: np.array(
        [
            [fit_and_measure(n, 10 * n + seed, confidence) for seed in range(n_samples)]
            for n in sizes
        ]
    )
    for confidence in ("average", None)
}

# %%
# Points are samples, lines their means. Asked of the rows of the fit, new people see more than
# epsilon, the more so the fewer rows there are. Asked for them, they see epsilon or less on
# average; a single sample may still give more. With few rows it cannot be had at all: then there
# is a ``PromiseWarning``, and the strictest model that can be fitted.

fig, ax = plt.subplots(figsize=(6.8, 4.0), layout="constrained")
looks = {
    None: (MARK, "s", "--", "asked of the rows (confidence=None)"),
    "average": (INK, "o", "-", "asked for new people"),
}
for confidence, (colour, marker, line, name) in looks.items():
    seen = found[confidence][:, :, 0]
    shifted = np.array(sizes) * (1.04 if confidence is None else 0.96)
    ax.plot(shifted, seen.mean(axis=1), color=colour, linestyle=line, linewidth=2, label=name)
    ax.plot(
        np.repeat(shifted, n_samples), seen.ravel(), marker, color=colour, alpha=0.55, markersize=5
    )
ax.axhline(epsilon, color=GREY, linewidth=1, linestyle=":")
ax.annotate("epsilon", (480, epsilon), (0, 4), textcoords="offset points", color=GREY, fontsize=9)
ax.set_xscale("log")
ax.set_xticks(sizes, [f"{n:,}".replace(",", " ") for n in sizes])
ax.minorticks_off()
ax.set(xlabel="Rows of the fit", ylabel="Distance that new people see", ylim=0)
ax.legend(frameon=False)
ax.spines[["top", "right"]].set_visible(False)
ax.set_title("A tolerance on the rows is not kept for new people", loc="left")
plt.show()

# %%
# What is held back is paid for: with few rows the promise costs more accuracy than the tolerance
# on the rows, and with many the two meet. ``promised`` counts the samples for which ``fit`` could
# promise what was asked for.

print("   rows   seen (rows)  R^2    seen (new)  R^2   promised")
for place, n_rows in enumerate(sizes):
    (rows_seen, rows_r2, _), (seen, r2, kept) = (
        found[each][place].mean(axis=0) for each in (None, "average")
    )
    told = f"{n_rows:7d}        {rows_seen:.3f}  {rows_r2:.2f}         {seen:.3f}  {r2:.2f}"
    print(f"{told}   {kept * n_samples:.0f} of {n_samples}")
