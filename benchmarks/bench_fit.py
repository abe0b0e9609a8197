"""`fit` on communities against 30 000 single-row steps of AC-SA in NumPy.

All see the same scores and group probabilities, computed before. The plain NumPy step makes the imbalance
and the costs of its row, as one that takes rows from a stream has to; the tuned one looks them up in tables
of all rows and skips every array it can. `python -m benchmarks.bench_fit --full` takes all 30 000 of them.
All solve the same problem, at the paper's beta; the last line is `fit` at its own, sharper one.
"""

import sys
from functools import partial

import numpy as np

import evenhand as eh
from benchmarks._support import make_problem, paper_rows, show_table, smallest_times, verdict
from evenhand.dual.objective import evaluate
from evenhand.dual.projected import smoothness

N_STEPS, N_TIMED, ROUNDS = 30_000, 3_000, 5
EPSILON, LEAST_RATIO = 2.0**-8, 100.0
SHARP = "fit, default beta"


def plain_gradient(scores, proba, atoms, beta):
    """Gradient of one row over (Lambda, V), without epsilon: (2, m, K)."""
    prior = proba.mean(axis=0)

    def gradient(row, point):
        imbalance = 1.0 - proba[row] / prior
        logits = beta * ((point[0] - point[1]) @ imbalance - (scores[row] - atoms) ** 2)
        policy = np.exp(logits - logits.max())
        moment = np.outer(policy / policy.sum(), imbalance)
        return np.stack([moment, -moment])

    return gradient


def tuned_gradient(scores, proba, atoms, beta):
    """The same, with all that does not depend on the point made beforehand."""
    imbalance = 1.0 - proba / proba.mean(axis=0)
    signed = np.array([1.0, -1.0])[:, None, None] * imbalance[:, None, None]  # (n, 2, 1, K)
    scaled, gains = beta * imbalance, -beta * (scores[:, None] - atoms) ** 2

    def gradient(row, point):
        logits = (point[0] - point[1]) @ scaled[row]
        logits += gains[row]
        logits -= logits.max()
        policy = np.exp(logits, out=logits)
        policy /= policy.sum()
        return signed[row] * policy[:, None]

    return gradient


def numpy_acsa(gradient, shape, n_rows, epsilon, bound, n_steps):
    """AC-SA of the paper's appendix on `F + mu / 2 |w|^2`, w = (Lambda, V) >= 0, with mu = M / T."""
    rows = np.random.default_rng(0).integers(n_rows, size=n_steps).tolist()
    mu = bound / n_steps
    last = np.zeros((2, *shape))
    average = last.copy()
    for t, row in enumerate(rows, start=1):
        alpha, gamma = 2.0 / (t + 1), 4.0 * bound / (t * (t + 1))
        below, pull = gamma + (1.0 - alpha**2) * mu, (1.0 - alpha) * mu + gamma
        middle = ((1.0 - alpha) * (mu + gamma) / below) * average + (alpha * pull / below) * last
        slope = gradient(row, middle) + epsilon  # the regulariser's mu * middle cancels in the next line
        last = np.maximum((pull / (mu + gamma)) * last - (alpha / (mu + gamma)) * slope, 0.0)
        average = alpha * last + (1.0 - alpha) * average
    return average[0] - average[1]


def main(full: bool = False) -> None:
    """Print the times over that of `fit`, and what each of them reached."""
    rows = paper_rows("communities", seed=0)
    arrays = rows.scores, rows.group_proba
    options = {"parity": "pmf", "epsilon": EPSILON, "random_state": 0}
    model = eh.ParityPostprocessor(beta="paper", **options).fit(*arrays)
    problem = make_problem(*arrays, "pmf", EPSILON, model.beta_)
    models = {"fit, default solver": model}
    for name in ("acsa", "sgd3+acsa2"):
        models[f"fit, {name}"] = eh.ParityPostprocessor(solver=name, max_iter=N_STEPS, **options)
    loops = {
        name: partial(
            numpy_acsa,
            make_gradient(*arrays, model.atoms_, model.beta_),
            problem.multipliers_shape,
            problem.n_rows,
            EPSILON,
            smoothness(problem),
        )
        for name, make_gradient in {"NumPy, plain": plain_gradient, "NumPy, tuned": tuned_gradient}.items()
    }
    n_timed = N_STEPS if full else N_TIMED
    runs = {name: partial(each.fit, *arrays) for name, each in models.items()}
    sharp = {SHARP: partial(eh.ParityPostprocessor(**options).fit, *arrays)}
    timed = runs | sharp | {name: partial(loop, n_timed) for name, loop in loops.items()}
    seconds = smallest_times(timed, ROUNDS)
    points = {name: each.multipliers_ for name, each in models.items()}
    for name, loop in loops.items():
        seconds[name] *= N_STEPS / n_timed
        points[name] = loop(N_STEPS)

    print(f"communities, n = {problem.n_rows}, m = {problem.n_atoms}, beta = {model.beta_:.0f}, pmf 2^-8")
    print(f"acsa and sgd3+acsa2: {N_STEPS} single rows; NumPy: AC-SA, {n_timed} rows timed of {N_STEPS}")
    ratios = {name: seconds[name] / seconds["fit, default solver"] for name in points}
    table = []
    for name, point in points.items():
        violation = evaluate(problem, point).violation
        excess = float(np.abs(violation).max()) - EPSILON
        times = f"{ratios[name]:.1f}", f"{1e3 * seconds[name]:.1f}"
        table.append([name, *times, f"{excess:.1e}"])
    slower = seconds[SHARP] / seconds["fit, default solver"]
    table.append([SHARP, f"{slower:.1f}", f"{1e3 * seconds[SHARP]:.1f}", ""])
    show_table(["", "time / fit", "ms", "violation - eps"], table)
    ratio = ratios["NumPy, plain"]
    passed = verdict(ratio >= LEAST_RATIO)
    print(f"NumPy, plain over fit: at least {LEAST_RATIO:.0f}, here {ratio:.0f}: {passed}")


if __name__ == "__main__":
    main(full="--full" in sys.argv)
