"""`beta="cv"` against the default beta on the paper's splits: what is chosen, and what it does on test rows.

The risk is the mean squared error on test targets, KS the larger distance of a group to all test rows. Both
move with beta, so the last line puts them together: the risk at the same test KS, read off the frontiers
over epsilon of the default beta and of the chosen ones, means of the splits. The noise of a test set of 400
rows is in every KS.
"""

from time import perf_counter

import numpy as np
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import evenhand as eh
from benchmarks._support import load, show_table, verdict

N_SPLITS = 5
EPSILON = 0.05
FRONTIER = (0.0, 0.02, 0.05, 0.08, 0.12, 0.17)
MOST_RATIO = 1.005  # of the risks at the same KS
NAMES = ("law school", "communities")


class Split:
    """Scores and group probabilities of the unlabelled and the test rows of one split."""

    def __init__(self, name: str, seed: int) -> None:
        bunch = load(name)
        labeled, unlabeled, test = eh.datasets.paper_split(bunch, random_state=seed)
        features, targets, groups = bunch.data, bunch.target, bunch.sensitive_features
        regressor = LinearRegression().fit(features[labeled], targets[labeled])
        classifier = make_pipeline(StandardScaler(), LogisticRegression())
        classifier.fit(features[labeled], groups[labeled])
        self.rows, self.test_rows = (
            (regressor.predict(features[part]), classifier.predict_proba(features[part]))
            for part in (unlabeled, test)
        )
        self.targets, self.groups = targets[test], groups[test]

    def measure(self, beta: object, epsilon: float) -> tuple[eh.ParityPostprocessor, float, float, float]:
        """Fitted model, seconds, test risk, test KS."""
        model = eh.ParityPostprocessor(beta=beta, epsilon=epsilon)
        begin = perf_counter()
        model.fit(*self.rows)
        seconds = perf_counter() - begin
        pmf = model.predict_pmf(*self.test_rows)
        risk = eh.metrics.risk(self.targets, pmf, model.atoms_)
        return model, seconds, risk, max(eh.metrics.ks_unfairness(pmf, self.groups).values())


def frontier(splits: list[Split], betas: list[float]) -> tuple[np.ndarray, np.ndarray]:
    """Mean KS, increasing, and mean risk over the splits, for each epsilon."""
    points = np.array(
        [
            [split.measure(beta, epsilon)[2:] for split, beta in zip(splits, betas, strict=True)]
            for epsilon in FRONTIER
        ]
    ).mean(axis=1)
    return np.maximum.accumulate(points[:, 1]), points[:, 0]


def compare(name: str) -> None:
    splits = [Split(name, seed) for seed in range(N_SPLITS)]
    table, found = [], {"auto": [], "cv": []}
    for seed, split in enumerate(splits):
        cells: list[object] = [f"{name}, split {seed}"]
        for beta in found:
            model, seconds, risk, distance = split.measure(beta, EPSILON)
            found[beta].append((model.beta_, seconds, risk, distance))
            cells += [f"{model.beta_:.0f}", f"{risk:.5f}", f"{distance:.3f}"]
        table.append(cells)
    means = {beta: np.mean(rows, axis=0) for beta, rows in found.items()}
    last: list[object] = ["mean"]
    for mean in means.values():
        last += [f"{mean[0]:.0f}", f"{mean[2]:.5f}", f"{mean[3]:.3f}"]
    show_table(
        ["", *(f"{beta}: {column}" for beta in found for column in ("beta", "risk", "KS"))], [*table, last]
    )
    paths = {beta: frontier(splits, [row[0] for row in rows]) for beta, rows in found.items()}
    level = max(means["auto"][3], means["cv"][3])
    matched = {beta: float(np.interp(level, *path)) for beta, path in paths.items()}
    ratio = matched["cv"] / matched["auto"]
    print(f"  risk at KS {level:.3f}: auto {matched['auto']:.5f}, cv {matched['cv']:.5f}")
    print(f"  cv over auto: at most {MOST_RATIO}, here {ratio:.4f}: {verdict(ratio <= MOST_RATIO)}")
    fastest = {beta: min(row[1] for row in rows) for beta, rows in found.items()}
    print(f"  time of cv over auto: {fastest['cv'] / fastest['auto']:.0f}")


def main() -> None:
    """Print one table for each data set."""
    for name in NAMES:
        compare(name)


if __name__ == "__main__":
    main()
