"""
A bad model of the group, and what calibration does about it
============================================================

Without the group at prediction time, parity rests on the probabilities of the groups. If they do
not mean what they say, the model is at parity by its own reckoning and not in the world. This
example fits the same parity with a good and with a bad model of the group, draws their
calibration, and measures the distance on new data.
"""

# %%
# Two models of the group: logistic regression, and a deep decision tree, which is far too sure of
# itself.

# sphinx_gallery_thumbnail_number = 3
import matplotlib.pyplot as plt
import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

import evenhand as eh
from evenhand.plots import GREY, INK, CalibrationDisplay

names = np.array(["A", "B"])
fit, new = (
    eh.datasets.make_population(n, n_groups=2, separation=1.0, random_state=seed)
    for n, seed in ((4000, 0), (40_000, 1))
)
group, new_group = names[fit.sensitive_features], names[new.sensitive_features]
tree = DecisionTreeClassifier(min_samples_leaf=5, random_state=0)
kinds = {
    "logistic": (LogisticRegression(), None),
    "tree": (tree, None),
    "tree, isotonic": (CalibratedClassifierCV(tree, method="isotonic", cv=5), None),
    "tree, joint": (tree, "joint"),
    "logistic, joint": (LogisticRegression(), "joint"),
}
models = {
    name: eh.ParityRegressor(
        sensitive_estimator=learner,
        calibration=calibration,
        epsilon=0.03,
        confidence=None,
        random_state=0,
    ).fit(fit.data, fit.target, sensitive_features=group)
    for name, (learner, calibration) in kinds.items()
}

# %%
# The certificate has a diagnosis on rows that the model of the group had not seen. Each point is
# a tenth of the rows: the probability of group A that they were given, and how many of them are
# in A. The band holds 95% of the points where probabilities are right, and most of those of the
# logistic regression are in it.

CalibrationDisplay.from_diagnosis(models["logistic"].certificate_.calibration).plot()
plt.show()

# %%
# Those of the tree are not: where it says nearly one or nearly zero, the truth is far less
# certain.

CalibrationDisplay.from_diagnosis(models["tree"].certificate_.calibration).plot()
plt.show()
print(models["tree"].certificate_.calibration)

# %%
# ``confidence=None`` assumes that the group probabilities are correct. Under this assumption every
# model keeps epsilon on its own rows. The distance on new data shows whether it is true.

found = {}
for name, model in models.items():
    seen = max(eh.metrics.ks_unfairness(model.predict_pmf(new.data), new_group).values())
    found[name] = model.certificate_.violation.max(), seen, model.score(new.data, new.target)
    print(
        "{:<16} by its own reckoning {:.3f}, on new data {:.3f}, R^2 {:.2f}".format(
            name, *found[name]
        )
    )

# %%
# The tree misses its epsilon by far. Isotonic calibration makes its probabilities right on
# average, and that is not enough: they have to be right given the score as well.
# ``calibration="joint"`` sees to that, and brings parity back, at a high price in R\ :sup:`2`,
# since the tree knows little about the group. The better way is a better model. The default,
# ``confidence="auto"``, calibrates jointly, cross-validates the distance on new data, and warns if
# it exceeds epsilon.

fig, ax = plt.subplots(figsize=(7.2, 3.4), layout="constrained")
for place, (own, seen, r2) in enumerate(found.values()):
    ax.plot([own, seen], [place, place], color="0.8", linewidth=3, zorder=1)
    ax.plot(own, place, "D", color=GREY, label="by its own reckoning" if place == 0 else None)
    ax.plot(seen, place, "o", color=INK, markersize=8, label="new data" if place == 0 else None)
    ax.annotate(
        f"R$^2$ {r2:.2f}",
        (0.999, place),
        xycoords=("axes fraction", "data"),
        va="center",
        ha="right",
    )
ax.set_yticks(range(len(found)), list(found))
ax.set(xlabel="Largest distance to everybody", xlim=(0, 0.17), ylim=(len(found) - 0.5, -0.6))
ax.legend(frameon=False, loc="upper right", bbox_to_anchor=(0.88, 1.0))
ax.spines[["top", "right"]].set_visible(False)
ax.set_title("Wrong group probabilities break parity on new data", loc="left")
plt.show()
