"""
Levelling down, and a floor against it
======================================

Equal shares can be reached by selecting more of one group, or fewer of the other. The parity step
takes what costs the fewest errors, and where few are selected that is often: fewer of everybody.
This example shows the warning that says so, and what ``min_rate`` does about it.
"""

# %%
# About one in five succeeds, far more often in group B than in A.

import warnings

import matplotlib.pyplot as plt
import numpy as np

import evenhand as eh
from evenhand.plots import GREY, INK, MARK

fit, new = (
    eh.datasets.make_population(
        n, 2, n_features=3, separation=2.0, group_prior=[1, 1], random_state=seed
    )
    for n, seed in ((6000, 0), (20_000, 1))
)
group, new_group = (np.array(["A", "B"])[each.sensitive_features] for each in (fit, new))
bar = np.quantile(fit.target, 0.8)
succeeds, new_succeeds = fit.target > bar, new.target > bar

# %%
# Parity as it comes. ``fit`` compares the share of yes with that of the base model, and warns
# where it fell by more than a fifth.

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    model = eh.ParityClassifier(epsilon=0.03, random_state=0).fit(
        fit.data, succeeds, sensitive_features=group
    )
print(*(f"{each.category.__name__}: {each.message}" for each in caught), sep="\n")

# %%
# Three floors: as many as without parity, in no group less than without parity, and a share of
# your own.

models = {"parity, no floor": model}
for name, floor in (
    ('min_rate="before"', "before"),
    ('min_rate="each"', "each"),
    ("min_rate=0.35", 0.35),
):
    floored = eh.ParityClassifier(epsilon=0.03, min_rate=floor, random_state=0)
    models[name] = floored.fit(fit.data, succeeds, sensitive_features=group)

# %%
# Rates on new data, and the share of decisions that are right. Refusing everybody is at parity,
# too, and right for four in five: accuracy alone does not see what is lost here.

chances = {"no parity": model.estimator_.predict(new.data).astype(float)}
chances |= {name: each.predict_proba(new.data)[:, 1] for name, each in models.items()}
chances["nobody"] = np.zeros(len(new_group))
shares = {
    name: [chance[new_group == which].mean() for which in "AB"] for name, chance in chances.items()
}
right = {name: np.where(new_succeeds, each, 1 - each).mean() for name, each in chances.items()}
for name, (low, high) in shares.items():
    print(f"{name:<18} yes to {low:.0%} of A and {high:.0%} of B, {right[name]:.1%} right")

# %%
# Without a floor the groups meet far below where group B was: more than half of B's yes is gone,
# and A gained little. With a floor they meet higher. As many yes as before are no dearer here
# than fewer of them; beyond that a floor is paid for in errors, which are wrong yes. All of them
# are far from the accuracy without parity.

fig, ax = plt.subplots(figsize=(7.2, 3.6), layout="constrained")
overall = chances["no parity"].mean()
ax.axvline(overall, color=GREY, linewidth=1, linestyle=":")
ax.annotate(
    "all, without parity",
    (overall, -0.62),
    (4, 0),
    textcoords="offset points",
    color=GREY,
    fontsize=8.5,
)
for place, (name, (low, high)) in enumerate(shares.items()):
    ax.plot([low, high], [place, place], color="0.8", linewidth=3, zorder=1)
    ax.plot(low, place, "s", color=MARK, markersize=8, label="group A" if place == 0 else None)
    ax.plot(high, place, "o", color=INK, markersize=8, label="group B" if place == 0 else None)
    ax.annotate(
        f"{right[name]:.1%} right", (0.47, place), va="center", ha="right", fontsize="small"
    )
ax.set_yticks(range(len(shares)), list(shares))
ax.set(xlabel="Share of yes", xlim=(-0.01, 0.47), ylim=(len(shares) - 0.5, -0.9))
ax.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.62, 0.0))
ax.spines[["top", "right"]].set_visible(False)
ax.set_title("Parity alone may take from one group; a floor gives to the other", loc="left")
plt.show()
