"""Tables of the page's first part: the paper's method on its own splits, beside the published figures."""

from typing import Any

from reproduction.analysis import SETTINGS, ablation_table, against_published, curves, met_by_seed
from reproduction.frames import Columns, Row, numbers, to_rows, where
from reproduction.markdown import markdown_table
from reproduction.published import DATASETS, TITLES, published

HALF = 0.5  # of a published deviation: nearer than this a point counts as met
VARIANT_SETTING, OWN_SETTING, EXACT_SETTING = "by the published formulas", "ours", "exact optimum"
SWITCHES = {
    "published": "the published formulas",
    "first_regulariser": "the first regulariser is not cancelled",
    "theory_mu": "mu = 2 sigma^2 / beta",
    "carry_on": "stages go on from the last answer",
    "late_step": "alpha = 2 / (t + 1)",
    "stage_bound": "stages are 2 (M + mu)-smooth",
    "passes": "passes over the rows",
    "once": "AC-SA squared shares T",
    "tau_prior": "shares from the group probabilities",
    "all": "all of these",
}
SHOWN_EXPONENTS = (5, 6, 8, 16)


def published_tables(frame: Columns) -> dict[str, str]:
    """The tables, by their names in `page.md`."""
    table = against_published(frame)
    return {
        "published_counts": _counts(frame, table),
        "published_points": _points(table),
        "ablation": _ablation(ablation_table(frame), table),
        "base": _base(frame),
    }


def count_met(part: Columns, within: float) -> int:
    """Points whose risk and distance are both within so many published deviations."""
    return int((numbers(part, "off") <= within).sum())


def _counts(frame: Columns, table: Columns) -> str:
    rows = []
    for setting in SETTINGS:
        cells = []
        for dataset in DATASETS:
            part = where(table, dataset=dataset, setting=setting)
            cell = f"{count_met(part, HALF)} ({count_met(part, 1.0)}) of {len(part['off'])}"
            if single := met_by_seed(frame, dataset, setting, HALF):
                cell += f"; one run {min(single)} to {max(single)}"
            cells.append(cell)
        rows.append([setting, *cells])
    return markdown_table(["run of the paper's method", *TITLES.values()], rows)


def _points(table: Columns) -> str:
    texts = []
    for dataset in DATASETS:
        pair = [
            to_rows(where(table, dataset=dataset, setting=name)) for name in (VARIANT_SETTING, OWN_SETTING)
        ]
        texts.append(f"**{TITLES[dataset]}**, T = {published(dataset).budget}:")
        texts.append(markdown_table(POINTS_HEAD, (_point(*rows) for rows in zip(*pair, strict=True))))
    return "\n\n".join(texts)


POINTS_HEAD = [
    "i (epsilon = 2^-i)",
    "published risk",
    "published formulas",
    "ours",
    "published KS",
    "published formulas",
    "ours",
    "within half: formulas",
    "ours",
]


def _point(theirs: Row, ours: Row) -> list[str]:
    """One tolerance: published mean, then the two runs with their distance from it in deviations."""
    risks = [f"{row['risk']:.5f} ({row['risk_off']:+.2f})" for row in (theirs, ours)]
    distances = [f"{row['ks']:.4f} ({row['ks_off']:+.2f})" for row in (theirs, ours)]
    told = f"{ours['published_risk']:.5f}", f"{ours['published_ks']:.4f}"
    return [str(ours["exponent"]), told[0], *risks, told[1], *distances, *map(_verdict, (theirs, ours))]


def _verdict(row: Row) -> str:
    return "yes" if row["off"] <= HALF else f"no: {outside(row, HALF)}"


def outside(row: dict[str, Any], within: float) -> str:
    """Which of the two measures is outside, and how far, in standard errors of the two means."""
    names = {"risk": "risk", "ks": "KS"}
    return ", ".join(
        f"{label} by {abs(row[f'{name}_errors']):.1f} s.e."
        for name, label in names.items()
        if abs(row[f"{name}_off"]) > within
    )


def _ablation(ablated: Columns, table: Columns) -> str:
    """Communities at some tolerances, and the points that are met: published, with switches, ours, exact."""
    told = to_rows(where(ablated, dataset="communities", switch="published"))
    points = [f"{row['published_risk']:.4f} / {row['published_ks']:.3f}" for row in _shown(told)]
    rows = [["*published*", *points, "", "", ""]]
    rows += [[name, *_ablation_cells(where(ablated, switch=switch))] for switch, name in SWITCHES.items()]
    for setting in (OWN_SETTING, EXACT_SETTING):
        rows.append([f"*{setting}*", *_ablation_cells(where(table, setting=setting))])
    head = [
        "put right",
        *(f"i = {i}: risk / KS" for i in SHOWN_EXPONENTS),
        *(f"within half: {TITLES[dataset]}" for dataset in DATASETS),
    ]
    return markdown_table(head, rows)


def _ablation_cells(table: Columns) -> list[str]:
    points = [where(table, dataset=dataset) for dataset in DATASETS]
    shown = _shown(to_rows(where(table, dataset="communities")))
    met = [f"{count_met(part, HALF)} of {len(part['off'])}" for part in points]
    return [*(f"{row['risk']:.4f} / {row['ks']:.3f}" for row in shown), *met]


def _shown(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row["exponent"] in SHOWN_EXPONENTS]


def _base(frame: Columns) -> str:
    rows = []
    for dataset in DATASETS:
        paper = published(dataset)
        exact, grid = (curves(frame, dataset, "published", name) for name in ("base", "base_on_grid"))
        measured = _mean(exact.risk), _mean(exact.ks), _mean(grid.ks)
        rows.append([TITLES[dataset], *measured, f"{paper.base_risk:.5f}", f"{paper.base_ks:.5f}"])
    head = ["base model", "risk", "KS", "KS on the grid", "published risk", "published KS"]
    return markdown_table(head, rows)


def _mean(values: Any) -> str:
    return f"{values.mean():.5f} \N{PLUS-MINUS SIGN} {values.std():.5f}"
