"""Communities and crime at matched unfairness: our test risk against the published method's.

Ten splits of 40/40/20, linear and logistic regression as in the paper. Risks are on the scale of the target
in [0, 1], unfairness is the Kolmogorov-Smirnov distance of the minority on the test rows; both are means
over the splits, and risks at a matched distance are read off the mean curves by linear interpolation.
"""

import json
import warnings
from pathlib import Path

import numpy as np
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import evenhand as eh

MATCHED = (0.35, 0.20, 0.15)
N_SPLITS = 10
PUBLISHED = Path(__file__).resolve().parents[2] / "shared" / "published-figures.json"
EPSILONS = {
    "cdf": np.array([0.0, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.13, 0.16, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5]),
    "pmf": 2.0 ** -np.array([16, 10, 8, 7, 6.5, 6, 5.5, 5, 4.5, 4, 3, 1]),
}


def curves(parity: str, settings: dict) -> tuple[np.ndarray, np.ndarray]:
    """Mean test KS of the minority and mean test risk, for each epsilon."""
    data = eh.datasets.load_communities()
    distances, risks = [], []
    for seed in range(N_SPLITS):
        labelled, unlabelled, test = eh.datasets.paper_split(data, random_state=seed)
        regressor = LinearRegression().fit(data.data[labelled], data.target[labelled])
        classifier = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
        classifier.fit(data.data[labelled], data.sensitive_features[labelled])
        path = eh.frontier(
            eh.ParityPostprocessor(parity=parity, bounds=(0.0, 1.0), **settings),
            regressor.predict(data.data[unlabelled]).clip(0, 1),
            classifier.predict_proba(data.data[unlabelled]),
            epsilons=EPSILONS[parity],
            test={
                "scores": regressor.predict(data.data[test]).clip(0, 1),
                "group_proba": classifier.predict_proba(data.data[test]),
                "y": data.target[test],
                "sensitive_features": data.sensitive_features[test],
            },
        )
        frame = path.frame()
        distances.append(frame["ks_0"].to_numpy())
        risks.append(frame["risk"].to_numpy())
    return np.mean(distances, axis=0), np.mean(risks, axis=0)


def risk_at(ks: np.ndarray, risk: np.ndarray) -> list[float]:
    order = np.argsort(ks)
    return [float(np.interp(level, ks[order], risk[order])) for level in MATCHED]


def main() -> None:
    if not PUBLISHED.exists():
        print(f"skipped: {PUBLISHED} is not here")
        return
    published = json.loads(PUBLISHED.read_text())["communities"]["dp_postproc"]
    theirs = risk_at(np.array(published["ks_minority_mean"]), np.array(published["risk_mean"]))
    print(f"test risk at test KS of {MATCHED}, mean over {N_SPLITS} splits")
    print("  {:<28}".format("published") + "".join(f"{risk:>10.5f}" for risk in theirs))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scores at the bounds
        for parity in ("cdf", "pmf"):
            for name, settings in (("beta auto", {}), ("beta 1000", {"beta": 1000.0})):
                ours = risk_at(*curves(parity, settings))
                ratios = ", ".join(f"{a / b:.3f}" for a, b in zip(ours, theirs, strict=True))
                verdict = "PASS" if all(a < b for a, b in zip(ours, theirs, strict=True)) else "FAIL"
                line = "  {:<28}".format(f"{parity}, {name}") + "".join(f"{risk:>10.5f}" for risk in ours)
                print(f"{line}   ours / published {ratios}" + (f": {verdict}" if parity == "cdf" else ""))


if __name__ == "__main__":
    main()
