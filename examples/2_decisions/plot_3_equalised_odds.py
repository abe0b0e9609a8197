"""
Equalised odds: the same errors for every group
===============================================

A bank refuses some who would have repaid, and lends to some who will not. Equalised odds asks
that both errors are as frequent in one group as in the other. This example draws decisions where
such errors are usually drawn: wrong yes to the right, right yes upwards, with the ROC curve of
each group.
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
# Nobody knows the outcome of a new person. So this notion rests on a model of outcome and group
# together, which the estimator learns by itself; the group is not looked at when deciding.

models = {
    name: eh.ParityClassifier(criterion=criterion, epsilon=0.02, random_state=0).fit(
        fit.data, fit.target, sensitive_features=fit.sensitive_features
    )
    for name, criterion in (
        ("equal shares", "demographic_parity"),
        ("equalised odds", "equalized_odds"),
    )
}
plain = models["equalised odds"].estimator_
chances = {"no parity": plain.predict(new.data).astype(float)}
chances |= {name: model.predict_proba(new.data)[:, 1] for name, model in models.items()}


def rates(chance, which):
    """Share of yes in one group: where the truth is no, and where it is yes."""
    return tuple(chance[(group == which) & (truth == outcome)].mean() for outcome in (0, 1))


for name, chance in chances.items():
    right = np.where(truth == 1, chance, 1 - chance).mean()
    told = "   ".join(
        "group {}: {:.0%} and {:.0%}".format(which, *rates(chance, which)) for which in (0, 1)
    )
    print(f"{name:<15} wrong yes and right yes of {told}   {right:.1%} right")

# %%
# The two curves are nearly the same: the scores rank people of both groups equally well. One
# threshold for all still leaves the groups at different places, since the scores of group 0 are
# lower: it has fewer wrong yes, and fewer right ones. Equal shares move group 0 past the other,
# to far more wrong yes. Equalised odds brings the two points together, and close to the curves.
# It is not free: without parity more decisions are right, as printed above.

fig, axes = plt.subplots(1, 3, figsize=(8.6, 3.9), sharex=True, sharey=True, layout="constrained")
score = plain.predict_proba(new.data)[:, 1]
for ax, (name, chance) in zip(axes, chances.items(), strict=True):
    for which, colour, marker, line in ((0, MARK, "s", "--"), (1, INK, "o", "-")):
        rows = group == which
        wrong, right, _ = roc_curve(truth[rows], score[rows])
        ax.plot(
            wrong, right, color=colour, linestyle=line, linewidth=1.1, label=f"group {which}: curve"
        )
        ax.plot(
            *rates(chance, which),
            marker,
            color=colour,
            markersize=8,
            label=f"group {which}: decisions",
        )
    ax.plot([0, 1], [0, 1], color="0.85", linewidth=1)
    ax.set_title(name, loc="left", fontsize="medium")
    ax.set_aspect("equal")
    ax.set(xticks=[0, 0.5, 1], yticks=[0, 0.5, 1])
    ax.spines[["top", "right"]].set_visible(False)
fig.supxlabel("Wrong yes (share of true no)", fontsize="medium")
fig.supylabel("Right yes (share of true yes)", fontsize="medium")
axes[0].legend(frameon=False, fontsize=8, loc="lower right")
fig.suptitle("Equalised odds: both groups have the same errors of both kinds", x=0.01, ha="left")
plt.show()
