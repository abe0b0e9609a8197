"""Two fits on built-in data: what parity costs in risk, and what it brings, group by group.

Run it with `make demo`. It prints text and writes nothing.
"""

import time
from dataclasses import dataclass

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import Bunch

import evenhand as eh

EPSILON = 0.05
SEED = 0
N_SHUFFLES = 50


@dataclass(frozen=True)
class Outcome:
    """Measures of one prediction on the test rows."""

    risk: float
    distances: dict[object, float]  # Kolmogorov-Smirnov distance of each group to all rows


def diabetes() -> Bunch:
    source = load_diabetes(scaled=False)
    sex = source.feature_names.index("sex")
    return Bunch(
        data=np.delete(source.data, sex, axis=1),
        target=source.target,
        sensitive_features=source.data[:, sex].astype(int) - 1,  # coded 1 and 2 in the source
    )


def chance_distances(pmf: np.ndarray, groups: np.ndarray) -> dict[object, float]:
    """Mean distance of random groups of the same sizes: what so few test rows show at perfect parity."""
    rng = np.random.default_rng(SEED)
    shuffled = [eh.metrics.ks_unfairness(pmf, rng.permutation(groups)) for _ in range(N_SHUFFLES)]
    return {group: float(np.mean([one[group] for one in shuffled])) for group in shuffled[0]}


def show(title: str, bunch: Bunch) -> None:
    labeled, unlabeled, test = eh.datasets.paper_split(bunch, random_state=SEED)
    X, y, groups = bunch.data, bunch.target, bunch.sensitive_features
    regressor = LinearRegression().fit(X[labeled], y[labeled])
    classifier = make_pipeline(StandardScaler(), LogisticRegression()).fit(X[labeled], groups[labeled])

    start = time.perf_counter()
    model = eh.ParityPostprocessor(parity="cdf", epsilon=EPSILON, random_state=SEED)
    model.fit(regressor.predict(X[unlabeled]), classifier.predict_proba(X[unlabeled]))
    seconds = time.perf_counter() - start

    scores = regressor.predict(X[test])
    pmf = model.predict_pmf(scores, classifier.predict_proba(X[test]))
    before = Outcome(eh.metrics.risk(y[test], scores), eh.metrics.ks_unfairness(scores, groups[test]))
    after = Outcome(
        eh.metrics.risk(y[test], pmf, model.atoms_), eh.metrics.ks_unfairness(pmf, groups[test], model.atoms_)
    )

    print(f"\n{title}")
    print(f"{len(labeled)} labelled rows, {len(unlabeled)} unlabelled, {len(test)} test")
    print(f"parity step fitted in {seconds:.3f} s\n")
    print_table(before, after, chance_distances(pmf, groups[test]), groups[test])
    print("\nCertificate (its risk is the distance to the scores, without the noise of the target)\n")
    print(model.certificate_)


def print_table(before: Outcome, after: Outcome, chance: dict[object, float], groups: np.ndarray) -> None:
    line = "  {:<34}{:>10}{:>10}{:>10}"
    print(line.format("On the test rows", "before", "after", "chance"))
    print(line.format("risk (mean squared error)", f"{before.risk:.4g}", f"{after.risk:.4g}", ""))
    for group in before.distances:
        name = f"KS distance of group {group} ({np.sum(groups == group)} rows)"
        numbers = (f"{outcome[group]:.3f}" for outcome in (before.distances, after.distances, chance))
        print(line.format(name, *numbers))


def main() -> None:
    print(f"evenhand {eh.__version__}: parity 'cdf' at epsilon = {EPSILON}, group unseen at prediction time.")
    print("KS is the largest gap between the distribution of a group's predictions and everybody's.")
    print("'chance' is the mean KS of random groups of the same sizes: expect no less at perfect parity.")
    print("Epsilon holds on the unlabelled rows, for the probabilities of a classifier of the group;")
    print("test rows add sampling noise and that classifier's errors.")
    print("(The first fit on a machine also compiles the loops, once.)")
    show(
        "The paper's synthetic population: four groups, 20 000 rows",
        eh.datasets.make_paper_synthetic(20_000, random_state=SEED),
    )
    show("scikit-learn's diabetes data: the group is sex, and not a feature", diabetes())


if __name__ == "__main__":
    main()
