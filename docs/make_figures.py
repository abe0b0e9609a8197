"""Draw the pictures of docs/how-to/plots.md from the paper's data sets, in colour, or in grey for the print.

Run it as `python docs/make_figures.py [folder] [--grey]`; EVENHAND_DATA names the folder of the data.
"""

import argparse
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import evenhand as eh
from evenhand.calibration import diagnose_calibration
from evenhand.history import History
from evenhand.plots import (
    CalibrationDisplay,
    DistributionDisplay,
    MovementDisplay,
    TiltDisplay,
)
from evenhand.solvers import AcSa2, Sgd, Sgd3

SEED = 0


@dataclass(frozen=True)
class Case:
    """Scores and group probabilities of rows that no nuisance was fitted on."""

    fit: dict[str, Any]  # scores and group_proba of the parity step
    test: dict[str, Any]  # the same of other rows, with y and sensitive_features
    groups: list[str]


def make_case(X: np.ndarray, y: np.ndarray, groups: np.ndarray) -> Case:
    """40% of the rows for the nuisances, 30% for the parity step, 30% for the test."""
    rows = np.arange(len(y))
    labeled, rest = train_test_split(rows, test_size=0.6, stratify=groups, random_state=SEED)
    unlabeled, test = train_test_split(rest, test_size=0.5, stratify=groups[rest], random_state=SEED)
    regressor = make_pipeline(StandardScaler(), Ridge(10.0)).fit(X[labeled], y[labeled])
    classifier = make_pipeline(StandardScaler(), LogisticRegression(C=0.01, max_iter=1000))
    classifier.fit(X[labeled], groups[labeled])
    parts = [
        {"scores": regressor.predict(X[part]), "group_proba": classifier.predict_proba(X[part])}
        for part in (unlabeled, test)
    ]
    known = {"y": y[test], "sensitive_features": groups[test]}
    return Case(parts[0], {**parts[1], **known}, classifier.classes_.tolist())


def communities() -> Case:
    """Two groups, few rows."""
    data = eh.datasets.load_communities()
    return make_case(data.data, data.target, np.where(data.sensitive_features == 1, "mostly white", "others"))


def law_school() -> Case:
    """Two groups, 20,800 rows; grades."""
    data = eh.datasets.load_law_school()
    return make_case(data.data, data.target * 4.0, np.where(data.sensitive_features == 1, "white", "others"))


def spike() -> Any:
    """Expected claims, most of which are none: made here."""
    rng = np.random.default_rng(SEED)
    groups = rng.choice(["town", "country"], size=3000, p=[0.7, 0.3])
    some = rng.random(3000) < np.where(groups == "town", 0.5, 0.7)
    before = np.where(some, rng.gamma(2.0, np.where(groups == "town", 150.0, 230.0)), 0.0)
    after = np.where(rng.random(3000) < 0.56, rng.gamma(2.0, 175.0, size=3000), 0.0)
    shown = DistributionDisplay.from_predictions(
        before, after, groups, epsilon=0.05, value_name="Expected claims (euro)"
    )
    return shown.plot()


def decisions() -> Any:
    """A classifier, of which the shares of classes are compared."""
    data = eh.datasets.load_law_school()
    groups = np.where(data.sensitive_features == 1, "white", "others")
    passed = np.where(data.target > np.median(data.target), "upper half", "lower half")
    train, test = train_test_split(np.arange(len(groups)), stratify=groups, random_state=SEED)
    model = eh.ParityClassifier(random_state=SEED)
    model.fit(data.data[train], passed[train], sensitive_features=groups[train])
    return DistributionDisplay.from_model(model, data.data[test], groups[test], value_name="Decision").plot()


def adult() -> Case:
    """Five groups with long names."""
    data = eh.datasets.load_adult()
    return make_case(data.data, data.target * 100.0, data.race)


def fitted(case: Case, epsilon: float = 0.05) -> eh.ParityPostprocessor:
    """The parity step of a case."""
    return eh.ParityPostprocessor(epsilon=epsilon).fit(**case.fit)


def rows(case: Case) -> tuple[Any, Any, Any]:
    """Test rows as the displays take them."""
    return case.test["scores"], case.test["group_proba"], case.test["sensitive_features"]


def distribution(case: Case, unit: str) -> Any:
    """Before and after."""
    return DistributionDisplay.from_model(fitted(case), *rows(case), value_name=unit).plot()


def movement(case: Case, unit: str) -> Any:
    """Who moved."""
    return MovementDisplay.from_model(fitted(case), *rows(case), value_name=unit).plot()


def tilt(case: Case, unit: str) -> Any:
    """What each group is drawn to."""
    # The probabilities have no names: those of the groups are given to the display.
    display = TiltDisplay.from_model(fitted(case), value_name=unit)
    return replace(display, groups=tuple(case.groups)).plot()


def pushes(case: Case) -> Any:
    """What moved one person, of whom parity moves most."""
    told = eh.explain(fitted(case), *rows(case)[:2])
    row = int(np.abs(told.value - told.unpushed).argmax())
    return replace(told, groups=tuple(case.groups)).plot(row)


def calibration(case: Case) -> Any:
    """Group probabilities against groups."""
    codes = np.searchsorted(case.groups, case.test["sensitive_features"])
    proba = case.test["group_proba"]
    diagnosis = diagnose_calibration(proba, codes, case.groups, proba.mean(axis=0))
    return CalibrationDisplay.from_diagnosis(diagnosis).plot()


def frontier(case: Case) -> Any:
    """Risk against unfairness with intervals, chance and the best constant, and another method."""
    epsilons = np.geomspace(0.01, 0.3, 7)
    path = eh.frontier(eh.ParityPostprocessor(), **case.fit, epsilons=epsilons, test=case.test)
    y, groups = case.test["y"], case.test["sensitive_features"]
    mean = path.models[0].predict_mean(*rows(case)[:2])
    drawn = path.plot()
    matplotlib.pyplot.close(drawn.figure_)
    point = max(eh.metrics.ks_unfairness(mean, groups).values()), eh.metrics.risk(y, mean)
    return replace(drawn, baselines={"mean, not draw": point}).plot()


def convergence(case: Case) -> Any:
    """Three solvers on the same rows."""
    display: Any = None
    # Small chunks: a callback is called after each.
    options = {"n_steps": 50_000, "chunk_size": 50, "random_state": SEED}
    for solver in ("batch", Sgd(**options), Sgd3(inner=AcSa2(), **options)):
        history = History(growth=1.25)
        model = eh.ParityPostprocessor(epsilon=0.05, beta="paper", solver=solver, random_state=SEED)
        model.fit(**case.fit, callback=history)
        one = history.measure(model, case.test)
        display = one if display is None else display + one
    return display.plot()


def main() -> None:
    """Draw them all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=Path(__file__).parent / "figures")
    parser.add_argument("--grey", action="store_true")
    asked = parser.parse_args()
    matplotlib.use("Agg")
    asked.folder.mkdir(parents=True, exist_ok=True)
    small, law, five = communities(), law_school(), adult()
    crimes, grade, age = "crimes per head (normalised)", "grade (of 4)", "age (years)"
    made = {
        "distribution-communities": lambda: distribution(small, crimes.capitalize()),
        "distribution-law": lambda: distribution(law, grade.capitalize()),
        "distribution-adult": lambda: distribution(five, age.capitalize()),
        "distribution-spike": spike,
        "distribution-decisions": decisions,
        "frontier-communities": lambda: frontier(small),
        "convergence-communities": lambda: convergence(small),
        "calibration-law": lambda: calibration(law),
        "calibration-adult": lambda: calibration(five),
        "tilt-communities": lambda: tilt(small, crimes.capitalize()),
        "tilt-adult": lambda: tilt(five, age.capitalize()),
        "pushes-adult": lambda: pushes(five),
        "movement-communities": lambda: movement(small, crimes),
        "movement-adult": lambda: movement(five, age),
    }
    for name, draw in made.items():
        save(draw().figure_, asked.folder / f"{name}.png", asked.grey)


def save(figure: Any, path: Path, grey: bool) -> None:
    """Write a small PNG with a palette of 64 colours."""
    from PIL import Image

    figure.savefig(path, dpi=110)
    matplotlib.pyplot.close(figure)
    image = Image.open(path).convert("L" if grey else "RGB")
    image.quantize(64, dither=Image.Dither.NONE).save(path, optimize=True)


if __name__ == "__main__":
    main()
