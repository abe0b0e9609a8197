"""Draw the pictures of docs/concepts/notions.md: what each notion does to decisions, and what it leaves.

Run it as `python docs/make_notion_figures.py [folder]`. The population is synthetic, so that all is known.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np
from make_figures import save

import evenhand as eh
from evenhand.plots.style import COLOURS, GREY, INK, MARK, MARKERS, figure_headline, subplots, tidy

FOLDER = Path(__file__).resolve().parent / "figures"
N_FIT, N_FRESH, N_BINS = 8000, 200_000, 25
NOTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "demographic": ("Demographic parity: the same share of yes in both groups", {}),
    "odds": (
        "Equalised odds: the same share of yes in both groups where the truth is yes, and where it is no",
        {"criterion": "equalized_odds"},
    ),
    "opportunity": (
        "Equal opportunity: the same share of yes in both groups where the truth is yes",
        {"criterion": "equal_opportunity"},
    ),
    "conditional": (
        "Given a factor: the same share of yes in both groups where the factor is 0, and where it is 1",
        {"conditional_on": 3},
    ),
    "attributes": (
        "Two attributes: the same share of yes for each attribute on its own",
        {"attributes": "separate"},
    ),
}


def strata_of(data: Any) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Rows and attribute of each comparison that the left panel shows."""
    everybody = np.ones(len(data.target), bool)
    return {
        "all": (everybody, data.sensitive_features),
        "true no": (data.target == 0, data.sensitive_features),
        "true yes": (data.target == 1, data.sensitive_features),
        "factor 0": (data.factor == 0, data.sensitive_features),
        "factor 1": (data.factor == 1, data.sensitive_features),
        "second\nattribute": (everybody, data.second_attribute),
    }


ASKED = {
    "demographic": ("all",),
    "odds": ("true no", "true yes"),
    "opportunity": ("true yes",),
    "conditional": ("factor 0", "factor 1"),
    "attributes": ("all", "second\nattribute"),
}


def draw_shares(ax: Any, data: Any, before: np.ndarray, after: np.ndarray, asked: tuple[str, ...]) -> None:
    """Share of yes in each group of each stratum, before (hollow) and after (full)."""
    for place, (name, (rows, groups)) in enumerate(strata_of(data).items()):
        if name in asked:
            ax.axvspan(place - 0.45, place + 0.45, color="0.93", zorder=0)
        for group in (0, 1):
            inside = rows & (groups == group)
            x, colour, marker = place + (group - 0.5) * 0.36, COLOURS[group], MARKERS[group]
            low, high = before[inside].mean(), after[inside].mean()
            ax.plot([x, x], [low, high], color=colour, linewidth=1.0, zorder=2)
            ax.plot(x, low, marker=marker, markerfacecolor="white", color=colour, markersize=6.5, zorder=3)
            ax.plot(x, high, marker=marker, color=colour, markersize=6.5, zorder=4)
    ax.set_xticks(range(6), list(strata_of(data)), fontsize=8.5)
    ax.set_ylim(0, 1.03)
    ax.set_ylabel("Share of yes")
    ax.set_title("By group: without parity (hollow) and with (full)", loc="left", fontsize=9.5)
    tidy(ax)
    ax.grid(axis="x", visible=False)


def draw_chances(ax: Any, data: Any, before: np.ndarray, after: np.ndarray) -> None:
    """Mean chance of yes by the score, for each group."""
    score = data.class_proba[:, 1]
    edges = np.linspace(0.0, 1.0, N_BINS + 1)
    bins = np.clip(np.digitize(score, edges) - 1, 0, N_BINS - 1)
    middles = (edges[:-1] + edges[1:]) / 2

    def means(chances: np.ndarray, rows: np.ndarray) -> np.ndarray:
        counts = np.bincount(bins[rows], minlength=N_BINS)
        sums = np.bincount(bins[rows], weights=chances[rows], minlength=N_BINS)
        return np.where(counts >= 50, sums / np.maximum(counts, 1), np.nan)

    everybody = np.ones(len(score), bool)
    ax.plot(
        middles, means(before, everybody), color=GREY, linewidth=1.2, linestyle=":", label="without parity"
    )
    for group, dash in ((0, "-"), (1, (0, (5, 1.6)))):
        rows = data.sensitive_features == group
        ax.plot(middles, means(after, rows), color=(INK, MARK)[group], linestyle=dash, label=f"group {group}")
    ax.set_xlabel("Score: true chance of a yes, P(Y = yes | x)")
    ax.set_ylabel("Chance that the decision is yes")
    ax.set_title("By score", loc="left", fontsize=9.5)
    ax.legend(frameon=False, fontsize=8.5, loc="lower right")
    tidy(ax)


def main() -> None:
    """Fit every notion on the same rows and draw it on fresh ones."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    fit, fresh = (
        eh.datasets.make_class_population(size, 2, 2, separation=0.6, influence=0.5, random_state=seed)
        for size, seed in ((N_FIT, 0), (N_FRESH, 1))
    )
    for name, (sentence, options) in NOTIONS.items():
        groups = fit.sensitive_features
        if "attributes" in options:
            groups = np.column_stack([groups, fit.second_attribute])
        chances = [
            eh.ParityClassifier(epsilon=epsilon, random_state=0, **options)
            .fit(fit.data, fit.target, sensitive_features=groups)
            .predict_proba(fresh.data)[:, 1]
            for epsilon in (0.99, 0.0)
        ]
        accuracies = [float(np.mean(np.where(fresh.target == 1, each, 1.0 - each))) for each in chances]
        left, right = subplots(1, 2, size=(10.0, 3.7), width_ratios=[1.35, 1.0])[0]
        draw_shares(left, fresh, *chances, ASKED[name])
        draw_chances(right, fresh, *chances)
        figure_headline(left.figure, f"{sentence}. Accuracy {accuracies[0]:.3f} → {accuracies[1]:.3f}")
        save(left.figure, folder / f"notion-{name}.png", grey=False)


if __name__ == "__main__":
    main()
