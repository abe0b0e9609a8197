"""
With the group or without: the price of not looking
===================================================

By default nobody's group is looked at when predicting: the model is *unaware*, and parity rests
on what the features tell about the group. With ``aware=True`` it uses the group itself, as
fairlearn's ``ThresholdOptimizer`` does. The same parity then costs less, and people with the same
features are treated differently by their group. This example shows both sides.
"""

# %%
# One population, many rows to measure on.

import matplotlib.pyplot as plt
import numpy as np

import evenhand as eh
from evenhand.plots import GREY, INK, MARK

names = np.array(["A", "B"])
fit, new = (
    eh.datasets.make_population(n, n_groups=2, separation=1.0, random_state=seed)
    for n, seed in ((4000, 0), (20_000, 1))
)
group, new_group = names[fit.sensitive_features], names[new.sensitive_features]
epsilons = [0.01, 0.02, 0.03, 0.05, 0.07, 0.09]
paths = {}
for name, aware in (("unaware", False), ("aware", True)):
    paths[name] = eh.frontier(
        eh.ParityRegressor(aware=aware, confidence=None, random_state=0),
        fit.data,
        fit.target,
        sensitive_features=group,
        epsilons=epsilons,
        test={"X": new.data, "y": new.target, "sensitive_features": new_group},
    )

# %%
# For the same distance between the groups the unaware model has the larger error. What it must do
# is harder: to move group A up it has to move all who look like A, among them many of B, and the
# other way round.

fig, ax = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
for name, colour, marker, line in (("unaware", INK, "o", "-"), ("aware", MARK, "s", "--")):
    path = paths[name]
    ax.plot(
        path.max_ks,
        path.risk,
        color=colour,
        marker=marker,
        linestyle=line,
        label=name,
        clip_on=False,
    )
base = paths["unaware"].base
ax.plot(base.largest("ks"), base.risk, "D", color=GREY, markersize=8)
ax.annotate(
    "no parity", (base.largest("ks"), base.risk), (-6, -14), textcoords="offset points", ha="right"
)
ax.axhline(base.constant_risk, color=GREY, linewidth=1, linestyle=":")
ax.annotate(
    "the best constant",
    (0.0, base.constant_risk),
    (4, -12),
    textcoords="offset points",
    color=GREY,
    fontsize=9,
)
ax.set(
    xlabel="Largest distance of a group to everybody", ylabel="Mean squared error", xlim=0, ylim=0
)
ax.legend(frameon=False, loc="center right")
ax.spines[["top", "right"]].set_visible(False)
ax.set_title("The same parity costs less where the group is looked at", loc="left")
plt.show()

# %%
# In numbers, for each tolerance of the parity step.

for place, epsilon in enumerate(epsilons):
    told = [
        f"{name}: distance {p.max_ks[place]:.3f}, R^2 {p.r2[place]:.2f}"
        for name, p in paths.items()
    ]
    print(f"epsilon {epsilon:.2f}  " + "   ".join(told))
print(f"no parity     R^2 {1 - base.risk / base.constant_risk:.2f}")

# %%
# The other side: people who differ in the first feature alone, and what each model gives them on
# average. The unaware model has one answer for the same features, and reaches parity by nearly
# ignoring this feature, which tells the group: the curve is flat where most people are. The aware
# model has two answers, and which one a person gets depends on the group. In decisions about
# jobs, credit or housing that can be unlawful, even to help.

first = np.linspace(-2.5, 2.5, 101)
people = np.column_stack([first, np.zeros((101, 3))])
unaware, aware = (paths[name].models[1] for name in ("unaware", "aware"))
fig, ax = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
ax.plot(first, unaware.estimator_.predict(people), color=GREY, linestyle=":", label="no parity")
ax.plot(first, unaware.predict_mean(people), color=INK, linewidth=2.2, label="unaware, anybody")
for name, line in (("A", "--"), ("B", "-.")):
    means = aware.predict_mean(people, sensitive_features=np.full(101, name))
    ax.plot(first, means, color=MARK, linestyle=line, label=f"aware, of group {name}")
ax.set(xlabel="First feature (the others are zero)", ylabel="Mean prediction")
ax.legend(frameon=False)
ax.spines[["top", "right"]].set_visible(False)
ax.set_title(f"Epsilon {epsilons[1]}: one answer for the same features, or two", loc="left")
plt.show()
