"""
Equalised odds: the same errors for every group
===============================================

A bank refuses some who would have repaid, and lends to some who will not. Equalised odds asks that both errors are
as frequent in one group as in the other. This example draws decisions where such errors are usually drawn: wrong yes
to the right, right yes upwards, with the ROC curve of each group.
"""

# %%
# Two groups whose true outcomes differ, also beyond what the features tell.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import roc_curve

import evenhand as eh
from evenhand.plots import INK, MARK

fit, new = (
    eh.datasets.make_class_population(n, separation=1.0, influence=1.0, random_state=seed)
    for n, seed in ((8000, 0), (40_000, 1))
)
group, truth = new.sensitive_features, new.target

# %%
# Nobody knows the outcome of a new person. So this notion rests on a model of outcome and group together, which the
# estimator learns by itself; the group is not looked at when deciding.

models = {
    name: eh.ParityClassifier(criterion=criterion, epsilon=0.01, random_state=0).fit(
        fit.data, fit.target, sensitive_features=fit.sensitive_features
    )
    for name, criterion in (("equal shares", "demographic_parity"), ("equalised odds", "equalized_odds"))
}
plain = models["equalised odds"].estimator_
chances = {"no parity": plain.predict(new.data).astype(float)}
chances |= {name: model.predict_proba(new.data)[:, 1] for name, model in models.items()}


def rates(chance, which):
    """Share of yes in one group: where the truth is no, and where it is yes."""
    return tuple(chance[(group == which) & (truth == outcome)].mean() for outcome in (0, 1))


for name, chance in chances.items():
    right = np.where(truth == 1, chance, 1 - chance).mean()
    told = "   ".join("group {}: {:.0%} and {:.0%}".format(which, *rates(chance, which)) for which in (0, 1))
    print(f"{name:<15} wrong yes and right yes of {told}   {right:.1%} right")

# %%
# Without parity both groups are near the upper left of their own curve, at different places. Equal shares move them,
# and keep them apart: group 0 now has far more wrong yes. Equalised odds brings the two points together, below the
# curves: a model that does not look at the group cannot reach the curve of either, and some of the errors are the
# price of their being equal.

fig, axes = plt.subplots(1, 3, figsize=(8.6, 3.4), sharex=True, sharey=True, layout="constrained")
score = plain.predict_proba(new.data)[:, 1]
for ax, (name, chance) in zip(axes, chances.items(), strict=True):
    for which, colour, marker, line in ((0, MARK, "s", "--"), (1, INK, "o", "-")):
        rows = group == which
        wrong, right, _ = roc_curve(truth[rows], score[rows])
        ax.plot(wrong, right, color=colour, linestyle=line, linewidth=1.1, label=f"group {which}: curve")
        ax.plot(*rates(chance, which), marker, color=colour, markersize=8, label=f"group {which}: decisions")
    ax.plot([0, 1], [0, 1], color="0.85", linewidth=1)
    ax.set_title(name, loc="left")
    ax.set_aspect("equal")
    ax.set(xticks=[0, 0.5, 1], yticks=[0, 0.5, 1])
    ax.spines[["top", "right"]].set_visible(False)
axes[0].set_ylabel("Right yes (share of true yes)")
axes[1].set_xlabel("Wrong yes (share of true no)")
axes[0].legend(frameon=False, fontsize=8, loc="lower right")
fig.suptitle("Equalised odds: both groups have the same errors of both kinds", x=0.01, ha="left")
plt.show()
