"""
A population that shifts: noticed, and followed
===============================================

In production rows keep coming, and people change. ``partial_fit`` goes on with the parity step
from rows without labels, each used once and forgotten. This example lets the groups of a
population move apart in the middle of a stream, and compares a model that stays as it was, one
that goes on learning, and one that also forgets.
"""

# %%
# Scores and group probabilities arrive in chunks. After half of them the groups lie farther
# apart, and the smaller one has become the larger one.

import matplotlib.pyplot as plt
import numpy as np

import evenhand as eh
from evenhand.plots import GREY, INK, MARK

n_chunks, n_rows, epsilon = 40, 4096, 0.02


def make_rows(chunk, n_rows, seed):
    """Rows as they are while this chunk comes."""
    separation, sizes = (1.0, [1, 2]) if chunk < n_chunks // 2 else (2.0, [2, 1])
    return eh.datasets.make_population(
        n_rows, 2, separation=separation, group_prior=sizes, random_state=seed
    )


# %%
# Three copies of one step. The first stops learning when the population shifts, the second never
# forgets, and the third has a half-life: a row counts for half after so many others.

alarms = []
ways = {
    "stays as it was": {},
    "learns, forgets nothing": {"on_drift": lambda alarm: None},  # it hears the same alarms
    "learns, half-life of 20,000 rows": {"half_life": 20_000, "on_drift": alarms.append},
}
steps = {name: eh.ParityPostprocessor(epsilon=epsilon, random_state=0) for name in ways}
seen = {name: [] for name in ways}
fresh = [
    make_rows(chunk, 20_000, seed=999) for chunk in (0, n_chunks - 1)
]  # before and after the shift
for chunk in range(n_chunks):
    rows = make_rows(chunk, n_rows, seed=chunk)
    now = fresh[chunk >= n_chunks // 2]
    for name, options in ways.items():
        if name != "stays as it was" or chunk < n_chunks // 2:
            steps[name].partial_fit(rows.scores, rows.group_proba, **options)
        pmf = steps[name].predict_pmf(now.scores, now.group_proba)
        seen[name].append(max(eh.metrics.ks_unfairness(pmf, now.sensitive_features).values()))

# %%
# An alarm says which group has moved and how. Groups are counted from zero, as their
# probabilities are in columns.

for alarm in alarms[:2]:
    print(alarm)
places = n_chunks // 2 - 1, n_chunks // 2, n_chunks // 2 + 5, n_chunks - 1
for name, distances in seen.items():
    print(
        f"{name:<33}", *(f"chunk {place + 1}: {distances[place]:.3f}" for place in places), sep="  "
    )

# %%
# The distance on new data over time. The shift breaks parity at once for all three. The one that
# stops learning stays there. The one that forgets nothing is even farther off for a while: it
# aims at the average of the old and the new population, and people are like neither. With a
# half-life the alarm makes the past count for little, and parity is back after a few chunks. That
# is not free where nothing shifts: fewer rows count.

along = (np.arange(n_chunks) + 1) * n_rows / 1000
fig, ax = plt.subplots(figsize=(7.0, 4.0), layout="constrained")
for (name, distances), colour, line in zip(
    seen.items(), (GREY, MARK, INK), (":", "--", "-"), strict=True
):
    ax.plot(along, distances, color=colour, linestyle=line, linewidth=2, label=name)
ax.axhline(epsilon, color="0.6", linewidth=0.8)
ax.annotate(
    "epsilon", (along[0], epsilon), (0, -11), textcoords="offset points", color=GREY, fontsize=9
)
if alarms:
    at = alarms[0].n_rows / 1000
    ax.axvline(at, color="0.6", linewidth=0.8, linestyle="--")
    ax.annotate("alarm", (at, 0.12), (4, 0), textcoords="offset points", color=GREY, fontsize=9)
ax.set(
    xlabel="Rows of the stream (thousands)",
    ylabel="Largest distance to everybody, new data",
    ylim=0,
)
ax.legend(frameon=False, loc="upper left")
ax.spines[["top", "right"]].set_visible(False)
ax.set_title("A shift breaks parity; a stream that forgets finds it again", loc="left")
plt.show()
