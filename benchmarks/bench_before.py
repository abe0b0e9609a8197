"""The code of this checkout against that of the commit before the house was built anew, in alternation.

Each workload runs in fresh processes of either code, one after the other, several times; what is compared is
the smallest time of each.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks._support import extract, show_table

ROOT = Path(__file__).resolve().parent.parent
BEFORE = "5f6d96a"
ROUNDS = 5
MOST = 1.05  # the time after over the time before, at most

# Runs on either code: public names alone, but for the kernel and the pass over rows.
WORKLOADS = """
import json, sys, time, warnings
begin = time.perf_counter()
import evenhand as eh
imported = time.perf_counter() - begin
import numpy as np
from evenhand._kernels import softmax
warnings.simplefilter("ignore")

def smallest(run, times):
    run()
    found = []
    for _ in range(times):
        begin = time.perf_counter()
        run()
        found.append(time.perf_counter() - begin)
    return min(found)

def population(n_rows, n_groups=2):
    rows = eh.datasets.make_population(n_rows, n_groups=n_groups, random_state=0)
    return rows.scores, rows.group_proba

rng = np.random.default_rng(0)
design, weights = rng.normal(size=(2, 200_000)), np.full(200_000, 5e-6)
loadings, offset = 50.0 * rng.normal(size=(201, 2)), rng.normal(size=201)
small, medium, large = population(794), population(100_000), population(1_000_000)
three = population(3000, 3)
regression = eh.datasets.make_population(3000, n_groups=2, random_state=0)
arguments = regression.data, regression.target
labels = {"sensitive_features": regression.sensitive_features}
step = eh.ParityPostprocessor(epsilon=0.02, atoms=201, random_state=0).fit(*medium)
few = [part[:1] for part in medium]

def make(**settings):
    return eh.ParityPostprocessor(epsilon=0.02, **settings)

def stream():
    model = make()
    for start in range(0, 100_000, 5_000):
        model.partial_fit(*(part[start : start + 5_000] for part in medium))

print(json.dumps({
    "import": imported,
    "kernel: moments, 200 000 rows": smallest(
        lambda: softmax.moments(design, weights, loadings, offset, 1, 0, 200_000), 5),
    "fit: 794 rows, pmf": smallest(lambda: make(parity="pmf", beta="paper", atoms=57).fit(*small), 40),
    "fit: 3 000 rows, three groups": smallest(lambda: make().fit(*three), 8),
    "fit: regressor, 3 000 rows": smallest(lambda: eh.ParityRegressor().fit(*arguments, **labels), 6),
    "large: 1 000 000 rows": smallest(lambda: make(atoms=201, tol=1e-4).fit(*large), 3),
    "predict: one row": smallest(lambda: [step.predict(*few) for _ in range(100)], 8),
    "predict: 100 000 draws": smallest(lambda: step.predict(*medium), 8),
    "stream: 100 000 rows": smallest(stream, 3),
}))
"""


def run(root: Path) -> dict[str, float]:
    """Seconds of every workload with the package below `root`."""
    found = subprocess.run(
        [sys.executable, "-c", WORKLOADS],
        env=os.environ | {"PYTHONPATH": str(root / "src")},
        check=True,
        capture_output=True,
        text=True,
        cwd=tempfile.gettempdir(),
    )
    seconds: dict[str, float] = json.loads(found.stdout)
    return seconds


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        before = extract(ROOT, BEFORE, Path(folder))
        rounds = [(run(before), run(ROOT)) for _ in range(ROUNDS + 1)][1:]  # the first one compiles
    rows = []
    for name in rounds[0][0]:
        old, new = (min(each[side][name] for each in rounds) for side in (0, 1))
        rows.append([name, f"{old:.4f}", f"{new:.4f}", f"{new / old:.3f}"])
    show_table(["", "before, s", "after, s", "after / before"], rows)
    worst = max(float(row[-1]) for row in rows)
    print(f"\nlargest ratio: {worst:.3f}   (at most {MOST})")


if __name__ == "__main__":
    main()
