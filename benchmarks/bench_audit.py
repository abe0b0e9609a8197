"""`evenhand.evaluation.audit` on a million rows: its memory, and its time against fairlearn's MetricFrame.

The distribution of each row over 201 atoms is stored in float32 (804 MB). MetricFrame takes one value per
row, so it gets the scores; both resample the same number of times, on fewer rows and with fewer draws
than the audit, and MetricFrame computes fewer measures: risk and mean, then also KS. fairlearn is no
dependency: without it only memory and time are shown.
"""

from time import perf_counter
from typing import Any

import numpy as np

import evenhand as eh
from benchmarks._support import peak_growth, show_table, verdict

N_ROWS, N_ATOMS, N_BOOT, MOST_MEGABYTES = 1_000_000, 201, 200, 3_000.0
N_COMPARED, N_BOOT_COMPARED = 100_000, 20  # MetricFrame would take minutes for the million and 200 draws


def prepared(n_rows: int = N_ROWS) -> dict[str, Any]:
    """A pmf around each row's score, a draw from the scores, the groups and the targets."""
    rng = np.random.default_rng(0)
    groups = rng.choice(["A", "B", "C"], p=[0.6, 0.3, 0.1], size=n_rows)
    scores = np.clip(rng.normal(scale=0.3, size=n_rows) + 0.1 * (groups == "B"), -1.0, 1.0)
    atoms = np.linspace(-1.0, 1.0, N_ATOMS, dtype=np.float32)
    pmf = np.empty((n_rows, N_ATOMS), dtype=np.float32)
    for start in range(0, n_rows, 10_000):
        block = pmf[start : start + 10_000]
        np.subtract(scores[start : start + 10_000, None].astype(np.float32), atoms, out=block)
        np.exp(-50.0 * block**2, out=block)
        block /= block.sum(axis=1, keepdims=True)
    target = scores + rng.normal(scale=0.2, size=n_rows)
    return {"pmf": pmf, "atoms": atoms, "scores": scores, "groups": groups, "y": target}


def audit_pmf(rows: dict[str, Any], n_boot: int = N_BOOT) -> eh.audit:
    return eh.audit(rows["pmf"], rows["groups"], y=rows["y"], atoms=rows["atoms"], n_boot=n_boot)


def audit_values(rows: dict[str, Any], n_boot: int = N_BOOT) -> eh.audit:
    return eh.audit(rows["scores"], rows["groups"], y=rows["y"], n_boot=n_boot)


def metric_frame(rows: dict[str, Any], n_boot: int, with_ks: bool) -> Any:
    from fairlearn.metrics import MetricFrame, mean_prediction

    metrics = {"risk": eh.metrics.risk, "mean": mean_prediction}
    if with_ks:
        metrics["ks"] = eh.metrics.distance_to(rows["scores"])
    return MetricFrame(
        metrics=metrics,
        y_true=rows["y"],
        y_pred=rows["scores"],
        sensitive_features=rows["groups"],
        n_boot=n_boot,
        ci_quantiles=[0.025, 0.975],
        random_state=0,
    )


def seconds(run: Any, *arguments: Any) -> float:
    begin = perf_counter()
    run(*arguments)
    return perf_counter() - begin


def main() -> None:
    growth = {
        "pmf": peak_growth(prepared, audit_pmf, N_ROWS),
        "values": peak_growth(prepared, audit_values, N_ROWS),
    }
    rows = prepared()
    stored = rows["pmf"].nbytes / 2**20
    took = {"pmf": seconds(audit_pmf, rows), "values": seconds(audit_values, rows)}
    print(f"  {N_ROWS} rows, {N_ATOMS} atoms, 3 groups, {N_BOOT} bootstrap draws")
    table = [[name, f"{took[name]:.1f}", f"{growth[name]:.0f}"] for name in took]
    show_table(["audit of", "seconds", "MB beyond input"], table)
    peak = growth["pmf"] + stored
    print(
        f"  with the pmf itself {peak:.0f} MB, at most {MOST_MEGABYTES:.0f}: {verdict(peak < MOST_MEGABYTES)}"
    )
    del rows
    compare(prepared(N_COMPARED))


def compare(rows: dict[str, Any]) -> None:
    try:
        rivals = [seconds(metric_frame, rows, N_BOOT_COMPARED, with_ks) for with_ks in (False, True)]
    except ImportError:
        print("  fairlearn is not installed: no comparison")
        return
    own = [seconds(run, rows, N_BOOT_COMPARED) for run in (audit_pmf, audit_values)]
    print(f"  {N_COMPARED} rows, {N_BOOT_COMPARED} draws for each:")
    names = ["MetricFrame: risk, mean", "MetricFrame: risk, mean, KS", "audit of pmf", "audit of values"]
    times = [*rivals, *own]
    table = [[name, f"{t:.2f}", f"{rivals[0] / t:.1f}"] for name, t in zip(names, times, strict=True)]
    show_table(["", "seconds", "times as fast as the first"], table)
    print(f"  faster than MetricFrame: {verdict(max(own) < min(rivals))}")


if __name__ == "__main__":
    main()
