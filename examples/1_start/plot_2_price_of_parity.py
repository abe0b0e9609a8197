"""
The price of parity: risk against distance
==========================================

How much accuracy does each step towards parity cost, and where does it stop being worth it? A
frontier fits the models once, solves the parity step for many tolerances, and measures each on
held-out rows. Two limits make it readable: what *chance alone* would show on as many rows, and
the *best constant*, which is at parity and knows nothing of anybody.
"""

# %%
# One population, rows to fit on and rows to measure on. Of its two features one tells much about
# the group, and the outcome rests on both: a case in which parity is dear.

import matplotlib.pyplot as plt

import evenhand as eh

fit, test = (
    eh.datasets.make_population(n, 2, n_features=2, separation=1.5, noise=1.0, random_state=seed)
    for n, seed in ((3000, 0), (3000, 1))
)

# %%
# The tolerances of a frontier are those of the parity step on its own rows (``confidence=None``):
# it is for choosing. Use ``fit`` with the chosen tolerance to estimate the distance on new data.

model = eh.ParityRegressor(confidence=None, random_state=0)
path = eh.frontier(
    model,
    fit.data,
    fit.target,
    sensitive_features=fit.sensitive_features,
    epsilons=[0.0, 0.02, 0.05, 0.08, 0.12, 0.16, 0.2],
    test={"X": test.data, "y": test.target, "sensitive_features": test.sensitive_features},
)

# %%
# Each point is a model, its bars are 95% intervals for the population. Inside the grey strip
# nothing can be told from parity on these rows. The dashed line is the best constant. The first
# steps away from the base model are cheap and the later ones dearer, and at the left end most of
# what the model knew about people is gone: its risk is nearer to the constant's than to the base
# model's.

path.plot()
plt.show()

# %%
# The same as a table. ``r2`` is what is left of the gain on the constant: where it comes near
# zero, parity has been bought by telling nearly the same to everybody.

print(
    path.frame()[["epsilon", "max_ks", "risk", "risk_increase", "r2"]]
    .round(3)
    .to_string(index=False)
)

# %%
# Say what you can pay, or how far apart the groups may be, and take the model that fits. Numbers
# of a model that was chosen on these rows are a little too good on them; report those of other
# rows.

chosen = path.select(max_ks=0.1)
place = path.models.index(chosen)
print(
    f"within a distance of 0.1: epsilon {chosen.epsilon:g}, risk {path.risk_increase[place]:+.0%}"
)
print(
    f"without parity:           distance {path.base.largest('ks'):.2f}, risk {path.base.risk:.3f}"
)
