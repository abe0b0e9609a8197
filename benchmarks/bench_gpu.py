"""The parity step on a GPU: picoseconds per (row x atom), whole fits, answers beside the CPU's, streaming.

`python -m benchmarks gpu`. Without a GPU it says so and ends. Times are medians, after a run that compiles.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from benchmarks._support import show_table, verdict
from evenhand import ParityPostprocessor
from evenhand._utils.validation import Rows
from evenhand.certificates import certify
from evenhand.dual.costs import Squared
from evenhand.dual.grid import automatic_beta, uniform_grid
from evenhand.dual.objective import policy_loadings
from evenhand.dual.step import ParityStep

N_ROWS = 10_000_000
KERNELS = ((201, 2, 0.8), (201, 4, 1.5), (57, 2, None), (2001, 2, 1.5))  # atoms, groups, most picoseconds
FITS = ((N_ROWS, 0.25), (10 * N_ROWS, 2.5))  # rows, most seconds
PASSES = 10  # back to back
SAME = 1e-5  # largest difference to the CPU


def seconds(run: Callable[[], object], rounds: int = 7) -> float:
    """Median time of a run that ends with an answer in memory, after one that compiles."""
    import torch

    times = []
    for _ in range(rounds + 1):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        run()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return statistics.median(times[1:])


def make_tensors(n_rows: int, n_groups: int = 2, dtype: Any = None) -> tuple[Any, Any]:
    """Scores and group probabilities on the card, which lean on each other."""
    import torch

    source = torch.Generator("cuda").manual_seed(n_groups)
    lean = torch.randn((n_rows, n_groups), generator=source, device="cuda")
    proba = torch.softmax(1.5 * lean, dim=1)
    noise = torch.randn(n_rows, generator=source, device="cuda")
    scores = torch.tanh(0.5 * lean[:, 0] + 0.3 * noise)
    return scores.to(dtype or torch.float32), proba.to(dtype or torch.float32)


def make_step(group_prior: np.ndarray, n_atoms: int, beta: float) -> ParityStep:
    grid, n_groups = uniform_grid(-1.02, 1.02, n_atoms), len(group_prior)
    return ParityStep(grid, "cdf", Squared(), group_prior, None, np.full(n_groups, 0.05), beta)


def kernels() -> None:
    """Value and gradient: passes back to back, and one call with all that a solver waits for."""
    lines = []
    for n_atoms, n_groups, most in KERNELS:
        lines += time_passes(n_atoms, n_groups, most)
    print("value and gradient: ps per (row x atom), passes back to back and one call from and to the host")
    show_table(("rows", "pass", "call", ""), lines)


def time_passes(n_atoms: int, n_groups: int, most: float | None) -> list[tuple[str, str, str, str]]:
    from evenhand._utils.tensor_rows import check_tensors
    from evenhand.dual.torch_design import place_tensors

    n_rows = N_ROWS if n_atoms <= 201 else N_ROWS // 4
    checked = check_tensors(*make_tensors(n_rows, n_groups))
    step = make_step(checked.group_mass(), n_atoms, automatic_beta(n_rows))
    problem = step.problem(place_tensors(step, checked))
    rng = np.random.default_rng(0)
    logits = policy_loadings(problem, 0.02 * rng.normal(size=problem.multipliers_shape))
    rows, name = problem.rows, f"n = {n_rows:.1e}, m = {n_atoms}, K = {n_groups}"
    lines = [time_rows(f"{name}, float32", rows, logits, most)]
    if (n_atoms, n_groups) == (201, 2):
        lines.append(time_rows("the same in float64", replace(rows, design=rows.design.double()), logits))
        lines.append(time_plain("the same in plain torch, float64", rows, logits))
    return lines


def time_rows(name: str, rows: Any, logits: Any, most: float | None = None) -> tuple[str, str, str, str]:
    from evenhand.dual.torch_rows import choose_sums

    work = 1e-12 * rows.n_rows * len(logits[1])
    sums = choose_sums(rows, *logits, rows.n_kept, whole=False)
    pure = seconds(lambda: [sums(rows.design, rows.weights) for _ in range(PASSES)], 3) / PASSES / work
    call = seconds(lambda: rows.moments(*logits)) / work
    mark = "" if most is None else f"{verdict(pure <= most)} (at most {most})"
    return name, f"{pure:.2f}", f"{call:.2f}", mark


def time_plain(name: str, rows: Any, logits: Any, n_rows: int = 1_000_000) -> tuple[str, str, str, str]:
    from evenhand._kernels.torch_moments import PlainMoments

    some, sums = rows.design[:, :n_rows].contiguous(), PlainMoments(*logits, rows.n_kept, rows.device)
    return name, f"{1e12 * seconds(lambda: sums(some, None), 3) / (n_rows * len(logits[1])):.1f}", "", ""


def fits() -> None:
    """Whole fits with default settings, and their multipliers' violation and risk on the CPU."""
    lines = []
    for n_rows, most in FITS:
        scores, proba = make_tensors(n_rows)
        model = ParityPostprocessor().fit(scores, proba)
        spent = seconds(partial(ParityPostprocessor().fit, scores, proba), 3)
        again = ParityPostprocessor().fit(scores, proba)
        assert np.array_equal(model.multipliers_, again.multipliers_), "two runs differ"
        passes = model.result_.n_gradient_rows / n_rows
        lines.append((f"n = {n_rows:.0e}", f"{spent:.3f}", f"{model.beta_:.0f}", f"{passes:.1f}",
                      model.result_.status.name, f"{verdict(spent <= most)} (at most {most})"))  # fmt: skip
        if n_rows == N_ROWS:
            beside_the_cpu(model, scores, proba)
    print("fit with default settings, float32 tensors on the card, cdf 0.05, m = 201, K = 2")
    show_table(("rows", "seconds", "beta", "passes", "status", ""), lines)


def beside_the_cpu(model: ParityPostprocessor, scores: Any, proba: Any) -> None:
    """The same multipliers on the CPU, and a fit of its own."""
    scores, proba = scores.double().cpu().numpy(), proba.double().cpu().numpy()
    proba /= proba.sum(axis=1, keepdims=True)
    step = model.step_.step
    problem = step.problem(Rows(scores, proba, (0, 1), None))
    certificate = certify(problem, model.result_, step=step, groups=(0, 1))
    begin = time.perf_counter()
    of_cpu = ParityPostprocessor().fit(scores, proba)
    spent = time.perf_counter() - begin
    lines = []
    for name, other in (("the same multipliers", certificate), ("the CPU's own fit", of_cpu.certificate_)):
        here = model.certificate_
        for what, far in (
            ("violation", np.abs(other.violation - here.violation).max()),
            ("risk", abs(other.risk - here.risk)),
        ):
            lines.append((f"{what} of {name}", f"{far:.1e}", f"{verdict(far <= SAME)} (at most {SAME:g})"))
    print(f"differences to the CPU at n = {len(scores):.0e} (its own fit takes {spent:.1f} s)")
    show_table(("", "difference", ""), lines)


def streaming(n_rows: int = 20 * N_ROWS) -> None:
    """A pass over rows in host memory, beside the copy alone and the sums alone."""
    import torch

    from evenhand._kernels.torch_streaming import stream_parts
    from evenhand.dual.torch_rows import TorchRows, settle

    home, keeps = settle("cuda")
    source = torch.Generator().manual_seed(0)
    design = torch.empty((2, n_rows), pin_memory=True).uniform_(-1.0, 1.0, generator=source)
    away = TorchRows(design, None, None, 1, home, keeps)
    there = TorchRows(design.cuda(), None, None, 1, home, keeps)
    step = make_step(np.array([0.5, 0.5]), 201, automatic_beta(n_rows))
    problem = step.problem(there)
    loadings, offset = policy_loadings(problem, np.zeros(problem.multipliers_shape))
    streamed, resident = (rows.moments(loadings, offset) for rows in (away, there))
    assert np.allclose(streamed.columns, resident.columns, atol=1e-7), "streamed rows have other moments"
    times = {
        "copy alone": seconds(lambda: [None for _ in stream_parts(design, None, home)], 3),
        "sums alone, rows on the card": seconds(lambda: there.moments(loadings, offset), 3),
        "streamed": seconds(lambda: away.moments(loadings, offset), 3),
    }
    size = design.nbytes / 1e9
    print(f"a pass over {n_rows:.0e} rows in pinned host memory, m = 201, K = 2: {size:.1f} GB")
    show_table(("", "seconds"), [(name, f"{spent:.3f}") for name, spent in times.items()])
    *alone, together = times.values()
    share = together / sum(alone)
    print(f"overlap: {verdict(share <= 0.75)} (streamed takes {share:.2f} of copy and sums together)")


def streamed_fit(n_rows: int = 10 * N_ROWS) -> None:
    """A whole fit as if the card had no room for the rows."""
    from evenhand.dual import torch_rows

    scores, proba = (each.cpu() for each in make_tensors(n_rows))
    before, torch_rows.MOST_ON_CARD = torch_rows.MOST_ON_CARD, 0.0
    try:
        begin = time.perf_counter()
        model = ParityPostprocessor(device="cuda").fit(scores, proba)
        spent = time.perf_counter() - begin
    finally:
        torch_rows.MOST_ON_CARD = before
    told = f"{spent:.1f} s in all, {model.result_.status.name}"
    print(f"fit of {n_rows:.0e} rows in host memory, streamed: {told}, checking and scaling included")


def predictions(n_rows: int = N_ROWS) -> None:
    """Seconds of predictions, and how many differ from the CPU's."""
    scores, proba = make_tensors(n_rows)
    model = ParityPostprocessor().fit(scores, proba)
    few = slice(0, 200_000)
    arrays = scores[few].cpu().numpy(), proba[few].cpu().numpy()
    lines = []
    for name in ("predict", "predict_mean", "predict_quantile"):
        ask = getattr(model, name)
        spent = seconds(partial(ask, scores, proba), 3)
        of_cpu = ask(*arrays).astype(np.float32)
        far = np.abs(ask(scores[few], proba[few]).cpu().numpy() - of_cpu)
        lines.append((name, f"{spent:.3f}", f"{int((far > 1e-6).sum())} of {len(far)}"))
    print(f"predictions for {n_rows:.0e} rows on the card, and how many differ from the CPU's by over 1e-6")
    show_table(("", "seconds", "other"), lines)


def other_libraries() -> None:
    """CuPy's arrays, through DLPack."""
    try:
        import cupy
    except ImportError:
        print("CuPy is not here")
        return
    scores, proba = (cupy.from_dlpack(each) for each in make_tensors(1_000_000))
    model = ParityPostprocessor().fit(scores, proba)
    drawn = model.predict(scores, proba)
    reached = model.certificate_.violation.max()
    print(
        f"CuPy in, {type(drawn).__module__.partition('.')[0]} of {drawn.dtype} out: violation {reached:.6f}"
    )


def main() -> None:
    """Print all of it, with what must be shown."""
    try:
        import torch
    except ImportError:
        print("PyTorch is not here: pip install 'evenhand[torch]'")
        return
    if not torch.cuda.is_available():
        print("there is no GPU here")
        return
    print(torch.cuda.get_device_name(), "PyTorch", torch.__version__)
    for part in (kernels, fits, streaming, streamed_fit, predictions, other_libraries):
        part()
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
