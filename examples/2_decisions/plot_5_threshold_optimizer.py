"""
Beside fairlearn's ThresholdOptimizer
=====================================

``ThresholdOptimizer`` of fairlearn takes the scores of a classifier and chooses thresholds for
each group. It needs everybody's group to decide. This example puts it beside
:class:`~evenhand.ParityClassifier`, with the group and without, on the same data with the same
base model, measured by fairlearn's own yardstick.
"""

# %%
# The same rows for all. fairlearn is not needed by evenhand (``pip install fairlearn``): without
# it, its line is left out of the picture.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression

import evenhand as eh
from evenhand.plots import GREY, INK, MARK

try:
    from fairlearn.postprocessing import ThresholdOptimizer
except ImportError:
    ThresholdOptimizer = None

fit, new = (
    eh.datasets.make_class_population(n, separation=1.0, influence=0.5, random_state=seed)
    for n, seed in ((6000, 0), (40_000, 1))
)
group, new_group, truth = fit.sensitive_features, new.sensitive_features, new.target
base = LogisticRegression().fit(fit.data, fit.target)


def measure(name, chance):
    """Difference between the two groups in the share of yes, and the share of right decisions."""
    difference = abs(chance[new_group == 0].mean() - chance[new_group == 1].mean())
    right = np.where(truth == 1, chance, 1 - chance).mean()
    print(f"{name:<31} difference {difference:.3f}, {right:.1%} right, {chance.mean():.0%} yes")
    return difference, right


# %%
# fairlearn's difference is between two groups. An epsilon is between a group and everybody, so
# that two groups may differ by up to twice as much. It is kept on average over samples; a single
# one, such as this, may show more.

base_point = measure("no parity", base.predict(new.data).astype(float))
lines = {}
if ThresholdOptimizer is not None:
    lines["ThresholdOptimizer"] = []
    for tol in (None, 0.06, 0.12, 0.2):
        theirs = ThresholdOptimizer(
            estimator=base, prefit=True, predict_method="predict_proba", tol=tol
        )
        theirs.fit(fit.data, fit.target, sensitive_features=group)
        drawn = theirs.predict(new.data, sensitive_features=new_group, random_state=0).astype(float)
        lines["ThresholdOptimizer"].append(measure(f"ThresholdOptimizer, tol {tol}", drawn))
for name, aware in (("evenhand, aware", True), ("evenhand, unaware", False)):
    lines[name] = []
    for epsilon in (0.01, 0.03, 0.06, 0.1):
        model = eh.ParityClassifier(
            LogisticRegression(), epsilon=epsilon, aware=aware, random_state=0
        )
        model.fit(fit.data, fit.target, sensitive_features=group)
        at_predict = {"sensitive_features": new_group} if aware else {}
        chance = model.predict_proba(new.data, **at_predict)[:, 1]
        lines[name].append(measure(f"{name}, epsilon {epsilon}", chance))

# %%
# With the group the two are level: the points lie on one line, and where a user may look at the
# group either will do. What differs is the lower line: decisions without the group, which
# thresholds for each group cannot make. That is dearer at every difference, the more so the
# stricter the parity.

looks = {
    "ThresholdOptimizer": ("black", "X", ":"),
    "evenhand, aware": (MARK, "s", "--"),
    "evenhand, unaware": (INK, "o", "-"),
}
fig, ax = plt.subplots(figsize=(6.8, 4.0), layout="constrained")
for name, points in lines.items():
    colour, marker, line = looks[name]
    ax.plot(
        *np.transpose(points), color=colour, marker=marker, linestyle=line, markersize=7, label=name
    )
ax.plot(*base_point, "D", color=GREY, markersize=8, linestyle="", label="no parity")
same = max(truth.mean(), 1 - truth.mean())
ax.axhline(same, color=GREY, linewidth=1, linestyle=":")
ax.annotate(
    "the same for everybody",
    (0.2, same),
    (0, 4),
    textcoords="offset points",
    color=GREY,
    fontsize=9,
)
ax.set(
    xlabel="Difference between the groups in the share of yes",
    ylabel="Share of right decisions",
    xlim=0,
)
ax.legend(frameon=False, loc="center right")
ax.spines[["top", "right"]].set_visible(False)
ax.set_title("Level with fairlearn where the group is used, dearer where it is not", loc="left")
plt.show()
