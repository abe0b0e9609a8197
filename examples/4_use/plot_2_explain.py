"""
Why was this person moved? One prediction explained
===================================================

The parity step sees two things of a person: the score of your model, and the probabilities of the
groups. So what it did can be told exactly: which group's constraint pushed the prediction where,
and what it would be without. :func:`evenhand.explain` has it in words, as a table and as a
picture.
"""

# %%
# Three groups, a model at parity, and some people who ask.

import matplotlib.pyplot as plt
import numpy as np

import evenhand as eh
from evenhand.plots import GREY

names = np.array(["A", "B", "C"])
fit, asking = (
    eh.datasets.make_population(n, n_groups=3, random_state=seed)
    for n, seed in ((4000, 0), (400, 1))
)
model = eh.ParityRegressor(epsilon=0.05, random_state=0)
model.fit(fit.data, fit.target, sensitive_features=names[fit.sensitive_features])
told = eh.explain(model, asking.data)

# %%
# The person who was moved up most. The sentences say what the model gave, what is predicted now,
# how likely each group is for somebody with these features, and what the constraint of each group
# does.

table = told.frame()
moved = (table["predicted"] - table["without_parity"]).to_numpy()
person = int(moved.argmax())
print(told[person])

# %%
# Above, the distribution of the prediction before and after. Below, the pushes: what each group's
# constraint adds to the weight of each possible prediction. Where a line is high, that prediction
# is favoured for this person.

told.plot(person)
plt.show()

# %%
# As numbers, a row for each group. ``imbalance`` is negative where the group is likelier for this
# person than for people in general; ``without`` is the mean prediction if the constraint of that
# group were dropped.

columns = ["group", "probability", "imbalance", "without", "pushed"]
print(told[person].frame()[columns].round(3).to_string(index=False))

# %%
# All who asked: how far each was moved, by how likely it is that a person with these features is
# in group A. Those who look like A are moved up and the others down, and people of different
# groups who look alike are moved alike: a push is no evidence of the group that somebody is in.
# The few on the grey line have the lowest or the highest scores: the tolerance leaves room for
# some people at either end.

_, chances = model.predict_scores(asking.data)
fig, ax = plt.subplots(figsize=(6.4, 3.9), layout="constrained")
for which, colour, marker in zip(range(3), ("#20506e", "#d95f02", "#009e73"), "os^", strict=True):
    rows = asking.sensitive_features == which
    ax.scatter(
        chances[rows, 0],
        moved[rows],
        c=colour,
        marker=marker,
        s=18,
        alpha=0.7,
        label=f"truly {names[which]}",
    )
ax.axhline(0, color=GREY, linewidth=0.8)
ax.plot(
    chances[person, 0], moved[person], "o", color="none", markeredgecolor="black", markersize=14
)
ax.annotate(
    "the person above",
    (chances[person, 0], moved[person]),
    (-12, 4),
    textcoords="offset points",
    ha="right",
)
ax.set(xlabel="Probability of group A, by the features", ylabel="Moved by")
ax.legend(frameon=False, loc="lower right")
ax.spines[["top", "right"]].set_visible(False)
ax.set_title("Moved by what the features say, not by the group itself", loc="left")
plt.show()
