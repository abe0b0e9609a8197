"""Facts become a model card: Markdown for people, JSON for machines."""

import json
from collections.abc import Iterable, Sequence

from evenhand.reporting import words
from evenhand.reporting.facts import Facts, to_plain
from evenhand.reporting.gather import without_curves
from evenhand.reporting.words import number, percent

# What Markdown, or HTML inside it, would read as more than text.
SPECIAL = {mark: "\\" + mark for mark in "\\`*_{}[]()#+!|~$"} | {"<": "&lt;", ">": "&gt;", "&": "&amp;"}


def render_json(facts: Facts) -> str:
    """The facts as JSON, without the curves of charts."""
    return json.dumps(to_plain(without_curves(facts)), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def render_markdown(facts: Facts) -> str:
    """The facts as Markdown."""
    parts = [
        f"# {escape(facts.title)}",
        f"A {facts.model} of evenhand {facts.versions['evenhand']}, measured on {facts.made}.",
        "## What was asked, and what was reached",
        *_asked(facts),
        _outlook(facts),
        "## Group by group",
        _groups(facts),
        "## Who is selected: rates and impact ratios",
        *map(escape, facts.rates.sentences),
        *_rates(facts),
        *_modes(facts),
        "## What is proved",
        *map(escape, facts.held_out.sentences),
        *_bounds(facts),
        *map(escape, facts.optimisation.sentences),
        "## Do the group probabilities mean what they say?",
        *map(escape, facts.calibration.sentences),
        "## What parity does not give",
        "\n".join(f"- {escape(line)}" for line in words.not_given(facts)),
        "## Data",
        _data(facts),
        "## Settings",
        _pairs("Setting", facts.settings),
        "## Versions",
        _pairs("Part", facts.versions),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def escape(text: str) -> str:
    r"""Text that Markdown shows as it is, on one line.

    >>> print(escape("<script> a|b *c*"))
    &lt;script&gt; a\|b \*c\*
    """
    return "".join(SPECIAL.get(mark, mark) for mark in " ".join(text.split()))


def _asked(facts: Facts) -> list[str]:
    sentences = [
        words.asked_sentence(facts),
        words.reached_sentence(facts),
        facts.pair,
        *facts.out_of_sample.sentences,
        words.cost_sentence(facts),
        words.unjudged_sentence(facts),
        facts.asked.meaning,
    ]
    return [escape(sentence) for sentence in sentences if sentence]


def _outlook(facts: Facts) -> str:
    columns = words.outlook_columns(facts)
    rows = [[escape(line.name), *(number(getattr(line, name)) for name in columns)] for line in facts.outlook]
    return _table(("Group", *columns.values()), rows)


def _groups(facts: Facts) -> str:
    before, after = facts.before, facts.after
    pairs = {"Gap": (before.gap, after.gap), "Mean": (before.mean, after.mean)}
    if facts.asked.classes:
        del pairs["Mean"]
    told = (f"{name} {when}" for name in pairs for when in ("before", "after"))
    head = ("Group", "Rows", "Share", *told, "Error change")
    rows = []
    for place, group in enumerate(facts.groups):
        cells = [escape(group.name), f"{group.rows:,}", percent(group.share)]
        cells += [number(float(values[place])) for pair in pairs.values() for values in pair]
        rows.append([*cells, number(float(after.group_risk[place] - before.group_risk[place]))])
    return _table(head, rows)


def _rates(facts: Facts) -> list[str]:
    """A table for each attribute, in the columns of New York's published audits."""
    if facts.rates.numbers is None:
        return []
    head = ("Rows", "Selected", "Rate", "Rate before", "Impact ratio", "At least", "At most")
    tables = []
    for table in facts.rates.numbers["tables"]:
        rows = []
        for line in table["groups"]:
            ends = (line["impact_ratio"], line["impact_ratio_low"], line["impact_ratio_high"])
            cells = [escape(line["group"]), f"{line['rows']:,}", number(line["selected"])]
            rows.append([*cells, percent(line["rate"]), percent(line["rate_before"]), *map(number, ends)])
        tables.append(_table((escape(table["attribute"]) or "Group", *head), rows))
    return tables


def _modes(facts: Facts) -> list[str]:
    """With the group and without, beside no parity and the best constant."""
    modes = facts.modes
    if not modes.sentences:
        return []
    parts = ["## With the group, or without", *map(escape, modes.sentences)]
    if not modes.found:
        return parts
    head = ("", f"Largest {facts.asked.gap}", facts.asked.error, words.gain_name(facts), "Selected")
    lines = []
    for mode in modes.found:
        rate = number(None) if mode.rate is None else percent(mode.rate)
        name = f"{mode.name} (this model)" if mode.ours else mode.name
        lines.append([name, *map(number, (mode.largest_gap, mode.risk, facts.gain(mode))), rate])
    parts.append(_table(head, lines))
    rated = {mode.name: mode.rates.tolist() for mode in modes.found if mode.rates is not None}
    if not rated:
        return parts
    by_group = zip(facts.groups, zip(*rated.values(), strict=True), strict=True)
    rows = [[escape(group.name), *map(percent, rates)] for group, rates in by_group]
    return [*parts, _table(("Selected in group", *rated), rows)]


def _bounds(facts: Facts) -> list[str]:
    found = facts.held_out.numbers
    if found is None:
        return []
    rows = zip(
        map(escape, found["groups"]),
        *([number(value) for value in found[name]] for name in ("lower", "estimate", "upper")),
        strict=True,
    )
    other = found["metric"] != facts.asked.metric and found["epsilon"] is None
    about = [escape(words.bounded_sentence(found["metric"]))] if other else []
    return [*about, _table(("Group", "At least", "These rows show", "At most"), rows)]


def _data(facts: Facts) -> str:
    told = {
        "Rows": f"{facts.data.n_rows:,}",
        "Features": f"{facts.data.n_features:,}",
        "Scores": facts.data.scores,
    }
    return _pairs("What", told | ({"Outcomes": facts.data.outcome} if facts.data.outcome else {}))


def _pairs(name: str, pairs: dict[str, str]) -> str:
    return _table((name, "Value"), ((escape(key), escape(value)) for key, value in pairs.items()))


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
