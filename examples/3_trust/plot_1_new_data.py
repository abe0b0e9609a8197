"""
What to expect on new data, and how many rows it takes
======================================================

On the rows of the fit any model can be made to look equal. What counts is the distance on new
data. By default ``epsilon`` limits that distance: ``fit`` cross-validates it, and solves the
parity step for a smaller tolerance if necessary. This example compares the default with a
tolerance on the rows of the fit, for a growing number of rows.
"""

# %%
# There are a few samples of each size. All models are measured on the same new data, with so
# many rows that hardly any sampling noise is left.

import warnings

import matplotlib.pyplot as plt
import numpy as np

import evenhand as eh
from evenhand.exceptions import ToleranceWarning
from evenhand.plots import GREY, INK, MARK

population = {"n_groups": 2, "separation": 1.5, "noise": 1.0}
new = eh.datasets.make_population(20_000, random_state=99, **population)
epsilon, sizes, n_samples = 0.06, [250, 1000, 4000], 4


def fit_and_measure(n_rows, seed, confidence):
    """Distance on new data, R^2 there, and whether `fit` expects epsilon to hold."""
    rows = eh.datasets.make_population(n_rows, random_state=seed, **population)
    model = eh.ParityRegressor(epsilon=epsilon, confidence=confidence, random_state=0)
    model.fit(rows.data, rows.target, sensitive_features=rows.sensitive_features)
    distances = eh.metrics.ks_unfairness(model.predict_pmf(new.data), new.sensitive_features)
    estimate = model.certificate_.out_of_sample
    return (
        max(distances.values()),
        model.score(new.data, new.target),
        estimate is not None and estimate.kept,
    )


warnings.simplefilter("ignore", ToleranceWarning)  # counted below
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
# Points are samples, lines their means. With a tolerance on the rows of the fit, the distance on
# new data exceeds epsilon, and the fewer rows, the larger the excess. By default it is at most
# epsilon on average, although a single sample may exceed it. With few rows epsilon is out of
# reach: ``fit`` then gives a ``ToleranceWarning`` and the strictest model that can be fitted.

fig, ax = plt.subplots(figsize=(6.8, 4.0), layout="constrained")
looks = {
    None: (MARK, "s", "--", "epsilon on the rows of the fit (confidence=None)"),
    "average": (INK, "o", "-", "epsilon on new data (the default)"),
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
ax.set_xticks(sizes, [f"{n:,}" for n in sizes])
ax.minorticks_off()
ax.set(xlabel="Rows of the fit", ylabel="Distance on new data", ylim=0)
ax.legend(frameon=False)
ax.spines[["top", "right"]].set_visible(False)
ax.set_title("A tolerance on the rows of the fit does not hold on new data", loc="left")
plt.show()

# %%
# The smaller tolerance costs accuracy: with few rows the default has a lower R\ :sup:`2` than a
# tolerance on the rows, and with many rows the two meet. ``expected`` counts the samples for
# which ``fit`` expects epsilon to hold on new data.

print("   rows   on the rows  R^2    on new data  R^2   expected")
for place, n_rows in enumerate(sizes):
    (rows_seen, rows_r2, _), (seen, r2, kept) = (
        found[each][place].mean(axis=0) for each in (None, "average")
    )
    line = f"{n_rows:7d}        {rows_seen:.3f}  {rows_r2:.2f}          {seen:.3f}  {r2:.2f}"
    print(f"{line}   {kept * n_samples:.0f} of {n_samples}")
