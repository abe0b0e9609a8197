"""
Draws, means and modes: what each keeps of parity
=================================================

A prediction under parity is a distribution for each person, and ``predict`` draws from it. Is
chance needed, or is the mean as good? Where everybody has a score of their own the two hardly
differ. Where many people share one score, as with marks from one to five, two groups can only
meet if people with the same mark are given different ones. This example shows what is lost when
the chance is taken out.
"""

# %%
# Marks of a test, of two groups. The true merit of a person is the mark, give or take something.

import matplotlib.pyplot as plt
import numpy as np

import evenhand as eh
from evenhand.plots import GREY, INK, MARK

marks = np.arange(1, 6)
rng = np.random.default_rng(0)
group = rng.choice(["A", "B"], size=20_000, p=[0.4, 0.6])
score = np.where(
    group == "A",
    rng.choice(marks, size=len(group), p=[0.25, 0.30, 0.25, 0.15, 0.05]),
    rng.choice(marks, size=len(group), p=[0.05, 0.15, 0.25, 0.30, 0.25]),
).astype(float)
merit = score + rng.normal(size=len(group))

# %%
# The parity step alone, on scores and groups: the atoms, which are the values that can be
# predicted, are the marks. The group is known here, so its probabilities are zeros and ones.

known = np.column_stack([group == "A", group == "B"]).astype(float)
step = eh.ParityPostprocessor(epsilon=0.02, atoms=marks, random_state=0).fit(score, known)

fig, axes = plt.subplots(1, 2, figsize=(7.2, 3.4), sharey=True, layout="constrained")
for ax, name, one in zip(axes, ("A", "B"), np.eye(2), strict=True):
    chances = step.predict_pmf(marks.astype(float), np.tile(one, (5, 1)))
    ax.imshow(
        chances.T, origin="lower", extent=(0.5, 5.5, 0.5, 5.5), cmap="Blues", vmin=0, vmax=1.2
    )
    for old, new in np.argwhere(chances > 0.005):
        ink = "white" if chances[old, new] > 0.5 else "black"
        ax.text(
            old + 1,
            new + 1,
            f"{chances[old, new]:.0%}",
            color=ink,
            ha="center",
            va="center",
            fontsize=9,
        )
    ax.plot([0.5, 5.5], [0.5, 5.5], color=GREY, linewidth=0.8, linestyle=":")
    ax.set_title(f"Group {name}", loc="left", fontsize="medium")
    ax.set(xlabel="Mark before", xticks=marks, yticks=marks)
axes[0].set_ylabel("Mark after")
fig.suptitle("The same mark before, and different ones after, by chance", x=0.01, ha="left")
plt.show()

# %%
# What can be done with these chances? ``predict`` draws a mark; with ``ids=`` everybody has a
# draw of their own, and the same one whenever asked. The mean and the likeliest mark leave no
# chance.

pmf = step.predict_pmf(score, known)
ways = {
    "no parity": score,
    "all draws: predict_pmf": pmf,
    "one draw: predict": step.predict(score, known, ids=np.arange(len(score))),
    "mean: predict_mean": step.predict_mean(score, known),
    "likeliest mark": marks[pmf.argmax(axis=1)].astype(float),
    "the same for all": np.full(len(score), merit.mean()),
}
found = {}
for name, values in ways.items():
    distance = max(eh.metrics.ks_unfairness(values, group).values())
    risk = eh.metrics.risk(merit, values, marks if values.ndim == 2 else None)
    found[name] = distance, risk
    print(f"{name:<23} distance {distance:.3f}  mean squared error {risk:.2f}")

# %%
# Draws keep what was asked for. The mean, and the likeliest mark, have a little less error and
# lose much of the parity: they put all people with one mark and group in one place, and the
# places of the groups differ. Most of what is added to the error is the price of parity, and
# little of it that of chance. Where nobody may be drawn for, ask for less: ``parity="mean"``
# makes the averages of the groups alike, and ``predict_mean`` keeps that.

fig, (left, right) = plt.subplots(1, 2, figsize=(7.6, 3.2), sharey=True, layout="constrained")
places = np.arange(len(found))[::-1]
for ax, column, label in (
    (left, 0, "Largest distance to everybody"),
    (right, 1, "Mean squared error"),
):
    values = np.array([pair[column] for pair in found.values()])
    ax.hlines(places, 0, values, color="0.85", linewidth=3, zorder=1)
    ax.scatter(values, places, c=[GREY, INK, INK, MARK, MARK, GREY], s=45, zorder=3)
    for value, place in zip(values, places, strict=True):
        ax.annotate(
            f"{value:.2f}",
            (value, place),
            (7, 0),
            textcoords="offset points",
            va="center",
            fontsize=9,
        )
    ax.set(xlabel=label, xlim=(0, 1.25 * values.max()), yticks=places, yticklabels=list(found))
    ax.locator_params(axis="x", nbins=4)
    ax.spines[["top", "right"]].set_visible(False)
fig.suptitle("Draws keep parity, means and likeliest values do not", x=0.01, ha="left")
plt.show()

# %%
# With scores that nobody shares, say points instead of marks, the parity step moves nearly
# everybody to one value, and the mean is as good as a draw.

points = score + rng.uniform(-0.5, 0.5, size=len(group))
fine = eh.ParityPostprocessor(epsilon=0.02, random_state=0).fit(points, known)
for name, values in (
    ("all draws", fine.predict_pmf(points, known)),
    ("mean", fine.predict_mean(points, known)),
):
    print(f"points, {name}: distance {max(eh.metrics.ks_unfairness(values, group).values()):.3f}")
