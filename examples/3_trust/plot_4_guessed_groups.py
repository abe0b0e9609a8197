"""
Groups that are guessed: what a proxy can hide
==============================================

Often nobody wrote the group down, and it is guessed from a place or a surname, as a probability.
An audit with such a proxy is right only if, among people of one place, the group says nothing
more about the score. This example shows an imbalance that a proxy cannot see, and the bounds that
hold whatever it hides.
"""

# %%
# People live in ten places, half of them with few of group B and half with many. The probability
# of B is its share in the place: the proxy is perfectly calibrated. Within a place people of B
# score higher by ``hidden``, and the places are equal on average, so that the place tells next to
# nothing about the score.

import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import evenhand as eh
from evenhand.exceptions import ProxyWarning
from evenhand.plots import INK, MARK

warnings.simplefilter("ignore", ProxyWarning)  # it says what this example is about


def make_people(hidden, spread=0.3, n_rows=20_000, seed=0):
    """Place, probabilities of the groups by the place, true group, and a score."""
    rng = np.random.default_rng(seed)
    place = rng.integers(10, size=n_rows)
    share = np.where(place < 5, 0.5 - spread, 0.5 + spread)
    in_b = rng.random(n_rows) < share
    score = rng.normal(size=n_rows) + hidden * (in_b - share)
    return place, pd.DataFrame({"A": 1 - share, "B": share}), np.where(in_b, "B", "A"), score


# %%
# An audit by the proxy: it finds next to nothing, and says between which limits the truth is. The
# truth, known here, is within.

place, proxy, group, score = make_people(hidden=1.0)
print(*eh.audit(score, proxy, proxy=place).sentences(), sep="\n")
print(
    "The truth:",
    {name: round(far, 3) for name, far in eh.metrics.ks_unfairness(score, group).items()},
)

# %%
# Left: the more the proxy hides, the larger is the truth, while the estimate hardly moves; the
# bounds are always around it. They are wide because this proxy knows little. Right: the better a
# proxy tells the group, the narrower they are. Only a proxy that is nearly certain settles the
# question; otherwise ask people for their group.


def measured(people):
    """Estimate, least and most by the proxy, and the truth, for group B."""
    place, proxy, group, score = people
    bounds = eh.metrics.unfairness_bounds(score, proxy, proxy=place)
    return [*bounds.to_dict()["B"], eh.metrics.ks_unfairness(score, group)["B"]]


hidden, spreads = np.linspace(0, 2, 6), np.array([0.0, 0.1, 0.2, 0.3, 0.4, 0.45, 0.49])
panels = {
    "Imbalance that the proxy does not see": (
        hidden,
        [measured(make_people(each)) for each in hidden],
    ),
    "Share of B in places where it is frequent": (
        0.5 + spreads,
        [measured(make_people(1.0, each)) for each in spreads],
    ),
}
fig, axes = plt.subplots(1, 2, figsize=(8.2, 3.7), sharey=True, layout="constrained")
for ax, (label, (along, rows)) in zip(axes, panels.items(), strict=True):
    estimate, least, most, truth = np.transpose(rows)
    ax.fill_between(along, least, most, color="0.88", label="possible, whatever the proxy hides")
    ax.plot(along, truth, "o-", color=INK, clip_on=False, label="truth")
    ax.plot(along, estimate, "s--", color=MARK, clip_on=False, label="by the proxy")
    ax.set(xlabel=label, xlim=(along[0], along[-1]), ylim=(-0.01, 0.62))
    ax.locator_params(axis="x", nbins=5)
    ax.spines[["top", "right"]].set_visible(False)
    for values in zip(along, *np.transpose(rows), strict=True):
        print(
            f"{label}: {values[0]:.2f}  "
            + "by the proxy {:.3f}, between {:.3f} and {:.3f}, truth {:.3f}".format(*values[1:])
        )
axes[0].set_ylabel("KS distance of group B to everybody")
axes[0].legend(frameon=False, loc="upper left", fontsize=9)
fig.suptitle("A proxy shows parity where there is none; its bounds hold", x=0.01, ha="left")
plt.show()
