"""Draw the pictures of docs/concepts and docs/tutorials, and write the page with the slider.

Run it as `python docs/make_concept_figures.py [folder]`. The people are made up, so that all is known.
"""

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from make_figures import save
from sklearn.linear_model import LinearRegression

import evenhand as eh
from evenhand.plots import DistributionDisplay
from evenhand.plots.style import COLOURS, DASHES, GREY, INK, MARK, figure_headline, subplots, tidy

HERE = Path(__file__).resolve().parent
GROUPS = ("north", "south")
SHARE_NORTH, APART, NOISE = 0.4, 1.5, 4.0  # share of the north, centres of the first feature, spread of wages
ATOMS = np.linspace(12.0, 48.0, 73)
TOLERANCES = (0.0, 0.005, 0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.08, 0.1, 0.12, 0.14, 0.16, 0.18, 0.2, 0.25)
CHANCES = (0.1, 0.25, 0.5, 0.75, 0.9)  # of being from the north, of the people whose lines are drawn
SHOWN = 0.02  # the tolerance of the still pictures


def make_people(n_rows: int, seed: int) -> dict[str, np.ndarray]:
    """People with a score (a wage), the chance of being from the north, and where they are from."""
    rng = np.random.default_rng(seed)
    north = rng.random(n_rows) < SHARE_NORTH
    first = rng.standard_normal(n_rows) + np.where(north, -0.5, 0.5) * APART
    score = 30.0 + 3.5 * first + 2.5 * rng.standard_normal(n_rows)
    odds = np.exp(APART * first) * (1.0 - SHARE_NORTH) / SHARE_NORTH
    chance = 1.0 / (1.0 + odds)
    return {
        "scores": score,
        "group_proba": np.column_stack([chance, 1.0 - chance]),
        "groups": np.where(north, *GROUPS),
        "wage": score + NOISE * rng.standard_normal(n_rows),
    }


def fitted(people: dict[str, np.ndarray], epsilon: float) -> eh.ParityPostprocessor:
    """The parity step alone, with scores and chances that are the truth."""
    step = eh.ParityPostprocessor(epsilon=epsilon, atoms=ATOMS, random_state=0)
    return step.fit(people["scores"], people["group_proba"])


def smooth(shares: np.ndarray, width: float = 0.9) -> np.ndarray:
    """A density over the atoms: shares of predictions, with a normal kernel."""
    kernel = np.exp(-0.5 * ((ATOMS[:, None] - ATOMS) / width) ** 2)
    return shares @ (kernel / kernel.sum(axis=1, keepdims=True)) / (ATOMS[1] - ATOMS[0])


def shares_of(people: dict[str, np.ndarray], pmf: np.ndarray) -> np.ndarray:
    """Share of each possible prediction in each group, and among everybody, (3, n_atoms)."""
    inside = [people["groups"] == name for name in GROUPS]
    return np.array([*(pmf[rows].mean(axis=0) for rows in inside), pmf.mean(axis=0)])


def nearest(scores: np.ndarray) -> np.ndarray:
    """All chance on the atom that is nearest to the score: no parity step."""
    return np.eye(len(ATOMS))[np.abs(scores[:, None] - ATOMS).argmin(axis=1)]


def rule(step: eh.ParityPostprocessor | None, scores: np.ndarray, chance: float) -> np.ndarray:
    """Mean prediction for people with these scores and this chance of being from the north."""
    if step is None:
        return scores
    both = np.tile([chance, 1.0 - chance], (len(scores), 1))
    return np.asarray(step.predict_mean(scores, both))


def usual_scores(people: dict[str, np.ndarray], chance: float) -> np.ndarray:
    """Scores that people with about this chance have: a line is drawn only where there are such people."""
    near = np.abs(people["group_proba"][:, 0] - chance) < 0.04
    low, high = np.quantile(people["scores"][near], [0.02, 0.98])
    return np.linspace(low, high, 41)


def slider_data(people: dict[str, np.ndarray], new: dict[str, np.ndarray]) -> dict[str, Any]:
    """What the slider shows, for each tolerance and without parity: curves, lines, distance, error."""
    lines = {chance: usual_scores(new, chance) for chance in CHANCES}
    stops = []
    for epsilon in (*TOLERANCES, None):
        step = None if epsilon is None else fitted(people, epsilon)
        rows = (new["scores"], new["group_proba"])
        pmf = nearest(new["scores"]) if step is None else step.predict_pmf(*rows)
        far = eh.metrics.ks_unfairness(pmf if step is not None else new["scores"], new["groups"])
        expected = pmf @ ATOMS**2 - 2 * (pmf @ ATOMS) * new["wage"] + new["wage"] ** 2
        error = expected.mean() if step is not None else ((new["scores"] - new["wage"]) ** 2).mean()
        shares = shares_of(new, pmf)
        stops.append(
            {
                "epsilon": epsilon,
                "distance": round(max(far.values()), 4),
                "error": round(float(np.sqrt(error)), 3),
                "means": [round(float(each @ ATOMS), 2) for each in shares[:2]],
                "density": [np.round(smooth(each), 5).tolist() for each in shares],
                "lines": [np.round(rule(step, x, c), 2).tolist() for c, x in lines.items()],
            }
        )
    return {
        "groups": GROUPS,
        "atoms": ATOMS.tolist(),
        "chances": CHANCES,
        "scores": [np.round(each, 2).tolist() for each in lines.values()],
        "constant": round(float(new["wage"].std()), 3),
        "stops": stops,
    }


def write_slider(people: dict[str, np.ndarray], new: dict[str, np.ndarray]) -> None:
    """Put the numbers into the page: one file, which asks nothing of the network."""
    page = (HERE / "tilt_slider_template.html").read_text()
    told = json.dumps(slider_data(people, new), separators=(",", ":"))
    (HERE / "_static").mkdir(exist_ok=True)
    (HERE / "_static" / "tilt-slider.html").write_text(page.replace("/* DATA */ null", told))


def draw_people(people: dict[str, np.ndarray]) -> Any:
    """What goes in: a score and a chance for each person."""
    left, right = subplots(1, 2, size=(7.6, 3.5), width_ratios=[1.15, 1.0])[0]
    few = slice(0, 700)
    for place, name in enumerate(GROUPS):
        rows = people["groups"][few] == name
        at = (people["scores"][few][rows], people["group_proba"][few, 0][rows])
        left.plot(*at, "os"[place], color=COLOURS[place], markersize=3.2, alpha=0.55, label=name)
        shares = shares_of(people, nearest(people["scores"]))[place]
        right.plot(ATOMS, smooth(shares), color=COLOURS[place], linestyle=DASHES[place], linewidth=2.0)
        peak = smooth(shares).argmax()
        right.annotate(
            name, (ATOMS[peak], smooth(shares)[peak]), (0, 5), textcoords="offset points",
            color=COLOURS[place], ha="center", fontsize=9.5,
        )  # fmt: skip
    left.set_xlabel("Score (predicted wage)")
    left.set_ylabel("Chance of being from the north")
    left.set_title("700 people: what the step knows of each", loc="left", fontsize=9.5)
    left.legend(frameon=False, fontsize=8.5, title="in truth", title_fontsize=8.5)
    right.set_xlabel("Score (predicted wage)")
    right.set_ylabel("Density")
    right.set_ylim(0, 1.12 * right.get_ylim()[1])
    right.set_title("The scores of each group", loc="left", fontsize=9.5)
    for ax in (left, right):
        tidy(ax)
    figure_headline(left.figure, "Two numbers for each person go in: a score, and the chance of each group")
    return left.figure


def draw_person(step: eh.ParityPostprocessor, score: float = 30.0) -> Any:
    """One score, two chances: cost, bonus, and where the prediction goes."""
    axes = subplots(1, 3, size=(8.2, 3.3))[0]
    window = np.abs(ATOMS - score) <= 8.0
    cost = (ATOMS - score) ** 2
    for place, chance in enumerate((0.75, 0.25)):
        told = f"{chance:.0%} north"
        style = {"color": (INK, MARK)[place], "linestyle": DASHES[place]}
        pmf = step.predict_pmf(np.array([score]), np.array([[chance, 1.0 - chance]]))[0]
        imbalance = 1.0 - np.array([chance, 1.0 - chance]) / step.group_prior_
        half = (ATOMS[-1] - ATOMS[0]) / 2.0  # the multipliers belong to atoms between -1 and 1
        bonus = half**2 * (step.tilt_ @ imbalance)
        bonus = bonus - bonus[np.abs(ATOMS - score).argmin()]
        axes[0].plot(ATOMS[window], bonus[window], label=told, **style)
        axes[1].plot(ATOMS[window], (cost - bonus)[window], **style)
        lowest = (cost - bonus).argmin()
        axes[1].plot(ATOMS[lowest], (cost - bonus)[lowest], "os"[place], color=style["color"], markersize=6)
        axes[2].vlines(
            ATOMS[window] + 0.12 * (place - 0.5), 0, pmf[window], color=style["color"], linewidth=3
        )
    axes[1].plot(ATOMS[window], cost[window], color=GREY, linewidth=1.0, linestyle=":")
    titles = (
        "1. A bonus on each value",
        "2. Cost less bonus",
        "3. What is predicted",
    )
    for ax, title, label in zip(axes, titles, ("Bonus", "To be made small", "Chance"), strict=True):
        ax.set_title(title, loc="left", fontsize=9.5)
        ax.set_xlabel("Possible prediction")
        ax.set_ylabel(label)
        ax.axvline(score, color="0.8", linewidth=0.9, zorder=0)
        tidy(ax)
    axes[0].legend(frameon=False, fontsize=8.5)
    figure_headline(
        axes[0].figure, f"Two people with the score {score:g}: one looks like the north, the other does not"
    )
    return axes[0].figure


def draw_rule(people: dict[str, np.ndarray], step: eh.ParityPostprocessor) -> Any:
    """Mean prediction against score, a line for each chance of being from the north."""
    (ax,) = subplots(size=(6.2, 4.3))[0]
    ends = [np.array(matplotlib.colors.to_rgb(colour)) for colour in (INK, MARK)]
    for chance in CHANCES:
        shade = chance * ends[0] + (1.0 - chance) * ends[1]
        scores = usual_scores(people, chance)
        values = rule(step, scores, chance)
        ax.plot(scores, values, color=shade, linewidth=2.0)
        ax.annotate(
            f"{chance:.0%}", (scores[-1], values[-1]), (3, 5), textcoords="offset points",
            color=shade, ha="center", fontsize=9,
        )  # fmt: skip
    ax.plot([16, 46], [16, 46], color=GREY, linewidth=1.0, linestyle=":", zorder=0)
    ax.set_xlim(16, 46)
    ax.set_ylim(16, 46)
    ax.set_xlabel("Score (dotted: left as it is)")
    ax.set_ylabel("Prediction, mean of the draws")
    tidy(ax)
    ax.set_title("A line for people with the same chance of being from the north", loc="left", fontsize=9.5)
    figure_headline(
        ax.figure, f"Who looks like the north is lifted, who does not is lowered (epsilon {SHOWN:g})"
    )
    return ax.figure


def tutorial_people(n_rows: int, seed: int, **options: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The people of the tutorials."""
    made = eh.datasets.make_population(n_rows, n_groups=2, random_state=seed, **options)
    return made.data, made.target, np.array(GROUPS)[made.sensitive_features]


def draw_first_model() -> Any:
    """The picture of docs/tutorials/first-model.md."""
    X, y, groups = tutorial_people(3000, 1, separation=2.0)
    new, _, groups_new = tutorial_people(20_000, 2, separation=2.0)
    model = eh.ParityRegressor(LinearRegression(), epsilon=0.05, random_state=0)
    model.fit(X, y, sensitive_features=groups)
    return DistributionDisplay.from_model(model, new, groups_new).plot().figure_


def draw_frontier() -> Any:
    """The picture of docs/tutorials/choosing-epsilon.md."""
    options = {"separation": 1.5, "noise": 1.0}
    X, y, groups = tutorial_people(3000, 1, **options)
    path = eh.frontier(
        eh.ParityRegressor(random_state=0),
        X,
        y,
        sensitive_features=groups,
        epsilons=[0.01, 0.02, 0.05, 0.1, 0.15, 0.2],
        test=tutorial_people(3000, 2, **options),
    )
    return path.plot().figure_


def main() -> None:
    """Write the slider, and draw all pictures."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "figures"
    matplotlib.use("Agg")
    people, new = make_people(20_000, 0), make_people(50_000, 1)
    write_slider(people, new)
    step = fitted(people, SHOWN)
    made = {
        "method-people": draw_people(new),
        "method-person": draw_person(step),
        "method-rule": draw_rule(new, step),
        "tutorial-first-model": draw_first_model(),
        "tutorial-frontier": draw_frontier(),
    }
    for name, figure in made.items():
        save(figure, folder / f"{name}.png", grey=False)


if __name__ == "__main__":
    main()
