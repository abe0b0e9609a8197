"""
Auditing a model that is not yours: is this gap more than chance?
=================================================================

Two models were bought, and all that is at hand are their predictions for some people, and the
groups of these people. :func:`evenhand.audit` measures how far the groups are apart, how sure
that is, and what a perfectly equal model would show on as many rows. With few rows these are not
the same question as "how large is the number".
"""

# %%
# Predictions of two systems. The first looks at a feature that tells the group, the second does
# not. Both are plain scikit-learn models, fitted elsewhere.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor

import evenhand as eh
from evenhand.plots import GREY, INK, MARK

elsewhere, people = (
    eh.datasets.make_population(n, n_groups=2, separation=0.7, random_state=seed)
    for n, seed in ((2000, 0), (10_000, 1))
)
group = np.array(["A", "B"])[people.sensitive_features]
systems = {}
for name, columns in (("with the feature", [0, 1, 2, 3]), ("without it", [1, 2, 3])):
    bought = HistGradientBoostingRegressor(max_iter=40, random_state=0)
    bought.fit(elsewhere.data[:, columns], elsewhere.target)
    systems[name] = bought.predict(people.data[:, columns])

# %%
# A sample of a few hundred, as an auditor may get it. The verdict has a sentence for each group:
# the distance to everybody, an interval, and what chance alone would show. Both systems show a
# distance; neither proves one.

few = slice(0, 300)
for name, predictions in systems.items():
    print(f"{name}:\n{eh.audit(predictions[few], group[few], y=people.target[few])}\n")

# %%
# Bars are intervals at 95%. With more rows the two systems come apart: the interval of the first
# leaves zero, that of the second does not, and ends near what chance alone shows. An audit of a
# few hundred rows that finds nothing has not shown that there is nothing.

sizes = [300, 1000, 3000, 10_000]
fig, ax = plt.subplots(figsize=(6.8, 4.0), layout="constrained")
chance = []
for (name, predictions), colour, marker, shift in zip(
    systems.items(), (MARK, INK), "so", (0.95, 1.05), strict=True
):
    for n_rows in sizes:
        table = eh.audit(predictions[:n_rows], group[:n_rows]).frame()
        found = table[(table["measure"] == "ks") & (table["group"] == "A")].iloc[0]
        label = name if n_rows == sizes[0] else None
        ax.vlines(n_rows * shift, found["low"], found["high"], color=colour, linewidth=1.5)
        ax.plot(n_rows * shift, found["estimate"], marker, color=colour, markersize=7, label=label)
        interval = f"[{found['low']:.3f}, {found['high']:.3f}]"
        print(f"{name:<17} {n_rows:6d} rows: {found['estimate']:.3f} {interval}")
        if colour == INK:
            chance.append(found["floor"])
ax.plot(sizes, chance, color=GREY, linestyle=":", label="chance alone, on average")
ax.set_xscale("log")
ax.set_xticks(sizes, [f"{n:,}".replace(",", " ") for n in sizes])
ax.minorticks_off()
ax.set(xlabel="Rows of the audit", ylabel="KS distance of group A to everybody", ylim=0)
ax.legend(frameon=False)
ax.spines[["top", "right"]].set_visible(False)
ax.set_title("Only many rows tell an equal model from an unequal one", loc="left")
plt.show()
