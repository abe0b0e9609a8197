"""ONNX Runtime beside `predict_pmf`: answers that differ, and time, for one row and for 100 000.

`.venv-onnx/bin/python -m benchmarks onnx`, in the environment of `make test-onnx`; elsewhere it says so and
ends. Ratios are ONNX Runtime's time over that of the package, each on the same number of threads.
"""

import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import LinearRegression

import evenhand as eh
from benchmarks._support import show_table, smallest_times, verdict
from evenhand.datasets import make_population

N_FIT, N_ROWS = 10_000, 100_000
MOST_APART = {"float64": 1e-6, "float32": 1e-4}
MODELS: dict[str, Callable[[], Any]] = {
    "linear": LinearRegression,
    "forest": lambda: RandomForestRegressor(50, min_samples_leaf=20, random_state=0),
    "boosted trees": lambda: HistGradientBoostingRegressor(max_iter=50),
}


def open_graph(model: Any, output: str | list[str], precision: str = "float64") -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = eh.get_num_threads()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        eh.export_onnx(model, path, output, precision=precision)
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def ratios(session: Any, given: dict[str, np.ndarray], ask: Callable[[slice], np.ndarray]) -> list[str]:
    """ONNX Runtime's time over the package's, for one row and for all."""
    found = []
    for n_rows, rounds in ((1, 200), (len(next(iter(given.values()))), 3)):
        some = {name: values[:n_rows] for name, values in given.items()}
        runs = {
            "onnx": lambda some=some: session.run(None, some),
            "own": lambda rows=slice(n_rows): ask(rows),
        }
        seconds = smallest_times(runs, rounds=rounds)
        unit, scale = ("us", 1e6) if n_rows == 1 else ("ms", 1e3)
        found += [f"{seconds['onnx'] / seconds['own']:.2f}", f"{scale * seconds['onnx']:.0f} {unit}"]
    return found


def step_lines(precision: str) -> list[list[str]]:
    """The parity step alone, at the default beta."""
    data, new = (make_population(n, n_groups=2, random_state=n) for n in (N_FIT, N_ROWS))
    step = eh.ParityPostprocessor(random_state=0).fit(data.scores, data.group_proba)
    given = {"scores": new.scores.astype(precision), "group_proba": new.group_proba.astype(precision)}
    exact = given["scores"].astype(float), given["group_proba"].astype(float)
    exact = exact[0], exact[1] / exact[1].sum(axis=1, keepdims=True)
    session = open_graph(step, ["pmf", "draw"], precision)
    pmf, draws = session.run(None, given)
    apart = float(np.abs(pmf - step.predict_pmf(*exact)).max())
    differ = int(np.sum(draws != step.predict(*exact).astype(precision)))
    only = open_graph(step, "pmf", precision)
    line = [f"step, {precision}", f"{apart:.1e}", str(differ), verdict(apart < MOST_APART[precision])]
    return [[*line, *ratios(only, given, lambda rows: step.predict_pmf(exact[0][rows], exact[1][rows]))]]


def model_lines() -> list[list[str]]:
    """Whole models from raw columns, in double precision."""
    data, new = (make_population(n, n_groups=2, random_state=n) for n in (N_FIT, N_ROWS))
    lines = []
    for name, make in MODELS.items():
        model = eh.ParityRegressor(make(), random_state=0)
        model.fit(data.data, data.target, sensitive_features=data.sensitive_features)
        pmf, draws = open_graph(model, ["pmf", "draw"]).run(None, {"X": new.data})
        apart = float(np.abs(pmf - model.predict_pmf(new.data)).max())
        differ = int(np.sum(draws != model.predict(new.data)))
        kept = verdict(apart < MOST_APART["float64"] and differ == 0)
        only = open_graph(model, "pmf")
        times = ratios(only, {"X": new.data}, lambda rows, model=model: model.predict_pmf(new.data[rows]))
        lines.append([f"whole model, {name}", f"{apart:.1e}", str(differ), kept, *times])
    return lines


def main() -> None:
    """Print differences and ratios."""
    if find_spec("onnxruntime") is None:
        print("ONNX Runtime is not installed here: `make test-onnx` makes .venv-onnx, which has it.")
        return
    print(f"{N_ROWS} rows, {eh.get_num_threads()} thread(s); pmf and draws beside those of the package")
    lines = [*step_lines("float64"), *step_lines("float32"), *model_lines()]
    head = ["graph", "pmf apart", "draws that differ", "as asked"]
    show_table([*head, "one row: ratio", "time", f"{N_ROWS} rows: ratio", "time"], lines)


if __name__ == "__main__":
    main()
