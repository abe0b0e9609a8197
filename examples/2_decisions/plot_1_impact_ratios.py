"""
Who is selected: rates, impact ratios and the four-fifths line
==============================================================

Rules about hiring and lending mostly ask one question: how many of each group are selected? The
*impact ratio* of a group is its rate over that of the group with the highest one, and below four
fifths it is taken for a sign of adverse impact in the United States. This example makes the table
that New York's Local Law 144 asks for, with intervals, before and after the parity step.
"""

# %%
# Applicants with two attributes, region and age, and an outcome that a model is to foresee.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

import evenhand as eh
from evenhand.plots import GREY, INK, MARK


def make_applicants(n_rows, seed):
    """Features, true outcome and the two attributes of some applicants."""
    made = eh.datasets.make_class_population(
        n_rows, separation=0.5, influence=0.5, random_state=seed
    )
    region = np.array(["north", "south"])[made.sensitive_features]
    age = np.array(["over 40", "under 40"])[made.second_attribute]
    return made.data, made.target, pd.DataFrame({"region": region, "age": age})


X, y, people = make_applicants(6000, seed=0)
X_new, y_new, new_people = make_applicants(4000, seed=1)

# %%
# A plain model, and one with parity for every combination of region and age. ``epsilon`` is the
# largest difference between the rate of a group and everybody's: how far that is from four fifths
# depends on how many are selected.

plain = LogisticRegression().fit(X, y)
model = eh.ParityClassifier(epsilon=0.08, random_state=0).fit(X, y, sensitive_features=people)
chances = model.predict_proba(X_new)
before = eh.metrics.selection_rates(plain.predict(X_new), new_people)
after = eh.metrics.selection_rates(chances, new_people, atoms=[0, 1])
print("Before.", before, "", "After.", after, sep="\n")

# %%
# Each attribute on its own, then their combinations. Rates differ between the groups in the data,
# so the plain model has ratios far below the line. After the parity step all of them, and their
# whole intervals, are above it.

tables = [found.frame() for found in (before, after)]
labels = [f"{row.group}" for row in tables[0].itertuples()]
places = np.array([0, 1, 2.6, 3.6, 5.2, 6.2, 7.2, 8.2])  # a gap between the attributes
fig, ax = plt.subplots(figsize=(7.0, 4.2), layout="constrained")
for table, colour, marker, shift, name in zip(
    tables, (MARK, INK), "so", (-0.16, 0.16), ("before", "after"), strict=True
):
    ratio, low, high = (table[f"impact_ratio{end}"] for end in ("", "_low", "_high"))
    ax.hlines(places + shift, low, high, color=colour, linewidth=1.4)
    ax.plot(ratio, places + shift, marker, color=colour, label=name)
ax.axvline(0.8, color=GREY, linestyle="--", linewidth=1)
ax.annotate(
    "four fifths",
    (0.8, -0.7),
    (-4, 0),
    textcoords="offset points",
    ha="right",
    color=GREY,
    fontsize=9,
)
ax.set(
    yticks=places,
    yticklabels=labels,
    xlabel="Impact ratio, with 95% interval",
    xlim=(0, 1.05),
    ylim=(8.8, -1.0),
)
ax.legend(frameon=False, loc="center left")
ax.spines[["top", "right"]].set_visible(False)
ax.set_title("The parity step takes every group over the four-fifths line", loc="left")
plt.show()

# %%
# What it costs: the share of decisions that turn out right. Much of what the plain model gained
# on the same answer for everybody is gone, because the outcomes of these groups differ and two
# attributes are asked for at once. And a ratio above the line is evidence, no verdict: a model
# can be unlawful on either side of it.

same = max(y_new.mean(), 1 - y_new.mean())
print("right decisions")
print(f"  before                {plain.score(X_new, y_new):.1%}, {before.overall:.0%} selected")
print(f"  after                 {model.score(X_new, y_new):.1%}, {after.overall:.0%} selected")
print(f"  the same for everybody {same:.1%}")
