"""Numbers and sentences for people who do not read formulas."""

import unicodedata
from dataclasses import replace
from typing import Any

import numpy as np

from evenhand._utils.labels import label_text
from evenhand._utils.text import capital
from evenhand._utils.typing import FloatArray
from evenhand.calibration import CalibrationDiagnosis
from evenhand.certificates import Certificate, HeldOutCertificate, OutOfSample
from evenhand.dual.costs import ERROR_RATE
from evenhand.metrics.distances import find_distance
from evenhand.metrics.price import is_hardly_better
from evenhand.reporting.facts import Facts

SAME_CLASS = "same true class"
NOT_GIVEN = (
    "Equal errors: the predictions of one group may still be less accurate than those of another.",
    "The same answer for two similar people: predictions are drawn at random, and the draw is part of how "
    "parity is reached.",
    "A correction of skewed outcomes: the model learns from what was recorded.",
    "A reason to use a model for a purpose: that is for people to decide.",
)


def number(value: float | None, digits: int = 3) -> str:
    """A number as a person writes it.

    >>> number(0.12345), number(1234567.0), number(0.0), number(None), number(-2.5)
    ('0.123', '1,234,567', '0', '\N{EN DASH}', '\N{MINUS SIGN}2.5')
    """
    if value is None or not np.isfinite(value):
        return "\N{EN DASH}"
    size = abs(value)
    if size >= 10 ** (digits - 1):
        text = f"{size:,.0f}"
    elif 0 < size < 1e-4:
        mantissa, exponent = f"{size:.{digits - 1}e}".split("e")
        text = f"{mantissa}e\N{MINUS SIGN}{-int(exponent)}"
    else:
        text = f"{size:.{digits}g}"
    return ("\N{MINUS SIGN}" if value < 0 else "") + text


def percent(share: float) -> str:
    """A share in percent.

    >>> percent(0.1234), percent(0.00001), percent(1.0)
    ('12.3 %', 'less than 0.1 %', '100 %')
    """
    if 0 < share < 0.001:
        return "less than 0.1 %"
    return f"{number(100 * share)} %"


def change(before: float, after: float) -> str:
    """How much more or less, in percent of what was before.

    >>> change(2.0, 2.5), change(2.0, 1.9), change(0.0, 1.0)
    ('25 % more', '5 % less', '')
    """
    if not before > 0:
        return ""
    share = after / before - 1.0
    return f"{number(100 * abs(share), 2)} % {'more' if share >= 0 else 'less'}"


def within_text(model: Any) -> str:
    """Among whom a fitted model compares groups; empty where it is among all."""
    if not hasattr(model, "strata_"):  # a post-processor, which knows no more of its strata than their names
        strata = dict.fromkeys(label_text(stratum) for stratum, _ in model.groups_)
        return f"within each of {len(strata)} strata, {some_of(list(strata))}"
    notion = model.strata_
    if notion.is_plain:
        return ""
    parts = []
    if notion.separate:
        parts.append(f"for each of {', '.join(map(str, notion.names))} on its own")
    if notion.factors is not None:
        given = model.conditional_on
        names = given if isinstance(given, list | tuple) else [given]
        parts.append(f"among rows with the same value of {', '.join(map(str, names))}")
    if notion.outcomes is not None:
        every = len(notion.outcomes) == len(notion.classes or ())
        which = SAME_CLASS if every else f"true class {', '.join(map(str, notion.outcomes))}"
        parts.append(f"among rows of the {which}")
    return ", ".join(parts)


def named(name: str, most: int = 40) -> str:
    """A name inside a sentence: quoted, cut where it is long, and kept from turning the words around it.

    >>> named("x" * 50, most=5)
    '\N{LEFT DOUBLE QUOTATION MARK}xxxx\N{HORIZONTAL ELLIPSIS}\N{RIGHT DOUBLE QUOTATION MARK}'
    """
    cut = name if len(name) <= most else name[: most - 1] + "\N{HORIZONTAL ELLIPSIS}"
    if any(unicodedata.bidirectional(mark) in ("R", "AL", "RLE", "RLO", "RLI") for mark in cut):
        cut = f"\N{FIRST STRONG ISOLATE}{cut}\N{POP DIRECTIONAL ISOLATE}"
    return f"\N{LEFT DOUBLE QUOTATION MARK}{cut}\N{RIGHT DOUBLE QUOTATION MARK}"


def span(values: tuple[float, ...]) -> str:
    """One number, or the range of several."""
    low, high = min(values), max(values)
    return number(low) if low == high else f"{number(low)} to {number(high)}, depending on the group"


def asked_sentence(facts: Facts) -> str:
    """What was asked for."""
    if not facts.asked.within:
        return facts.asked.asks
    return f"{facts.asked.asks} Groups are compared {facts.asked.within}: everybody means everybody there."


def not_given(facts: Facts) -> tuple[str, ...]:
    """What the parity that was asked for does not give."""
    return NOT_GIVEN[1:] if SAME_CLASS in facts.asked.within else NOT_GIVEN


def estimate_sentences(estimate: OutOfSample | None, names: list[str]) -> tuple[str, ...]:
    """The out-of-sample estimate of the fit."""
    if estimate is None:
        return (
            "There is no estimate for new data: the tolerance is for the rows of the fit, assuming that "
            "their group probabilities are correct.",
        )
    told = replace(estimate, groups=tuple(map(named, names)), strata=False)
    if estimate.kept:
        return (told.summary(),)
    return told.summary(), told.shortfall()


def outlook_columns(facts: Facts) -> dict[str, str]:
    """Figures of `facts.outlook` that there are, and what they are called."""
    columns = {"asked": "Tolerance"}
    found, proved = facts.out_of_sample.numbers, facts.held_out.numbers
    if found is not None:
        columns["expected"] = "Expected on new data"
        if found["bound"] is not None:
            how = "Proved at the fit: at most" if found["proved"] else "At most"
            columns["bound"] = f"{how} ({percent(found['confidence'])})"
    if proved is not None and proved["epsilon"] is not None:
        columns["proved"] = f"Proved by these rows: at most ({percent(1 - proved['delta'])})"
    return columns | {"shown": "These rows", "noise": "Sampling noise"}


def tolerance_sentence(epsilon: FloatArray, tolerance: FloatArray) -> str:
    """What the slider's tolerances are, where the model's own is not what was asked for."""
    if np.array_equal(epsilon, tolerance):
        return ""
    return (
        "Tolerances here are those of the parity step on the rows that it is solved on. This model's is "
        f"{number(float(tolerance.max()))}, chosen to keep {number(float(epsilon.max()))} on new data. "
    )


def reached_sentence(facts: Facts) -> str:
    """What was reached on the report's rows."""
    before, after = facts.before, facts.after
    far, was = facts.groups[after.farthest], facts.groups[before.farthest]
    text = (
        f"On {facts.data.n_rows:,} rows that the model was not fitted on, the group farthest from everybody "
        f"is {named(far.name)}, with a gap of {number(after.largest_gap)}. "
    )
    return text + f"Before the parity step it was {named(was.name)}, with {number(before.largest_gap)}."


def cost_sentence(facts: Facts) -> str:
    """What that cost."""
    before, after = facts.before.risk, facts.after.risk
    if not facts.asked.has_target:
        return f"Outcomes were not given. {facts.asked.error}, in their place: {number(after)}."
    more = f" ({change(before, after)})" if change(before, after) else ""
    told = f"{facts.asked.error} went from {number(before)} to {number(after)}{more}."
    if facts.asked.error == capital(ERROR_RATE):
        told += f" The accuracy is {percent(1.0 - after)} instead of {percent(1.0 - before)}."
    return f"{told} {price_sentence(facts)}".rstrip()


def gain_name(facts: Facts) -> str:
    """What `Facts.gain` is called."""
    return "R\N{SUPERSCRIPT TWO}" if facts.asked.squared else "Gain on the best constant"


def constant_name(classes: bool) -> str:
    """What the best constant is called."""
    return f"one {'decision' if classes else 'number'} for everybody"


def price_sentence(facts: Facts) -> str:
    """The risk of the best constant, and a warning where the model is hardly better."""
    was, now = facts.gain(facts.before), facts.gain(facts.after)
    if was is None or now is None:
        return ""
    constant = constant_name(facts.asked.classes)
    told = (
        f"{capital(constant)} has {number(facts.constant_risk)} at best; {gain_name(facts)} went from "
        f"{number(was)} to {number(now)}."
    )
    if is_hardly_better(facts.after.risk, facts.before.risk, facts.constant_risk):
        told += f" The model is hardly better than {constant}: a larger tolerance costs less."
    return told


def verdict(facts: Facts) -> dict[str, str]:
    """What the held-out certificate says of the tolerance, in a word, for the headline."""
    found = facts.held_out.numbers
    if found is None or found["epsilon"] is None:
        return {
            "title": "Proved for new people",
            "word": "no verdict",
            "note": "bounds are below" if found else "these rows cannot tell",
        }
    upper, lower, epsilon, counts = (
        np.asarray(found[name]) for name in ("upper", "lower", "epsilon", "counts")
    )
    within, beyond = int(((upper <= epsilon) & (counts > 0)).sum()), int((lower > epsilon).sum())
    title, n_groups = "Within tolerance for new people", len(upper)
    if within == n_groups:
        return {
            "title": title,
            "word": "proved",
            "note": f"all groups, {percent(1 - found['delta'])} confidence",
        }
    if beyond:
        return {"title": title, "word": "refuted", "note": f"for {beyond} of {n_groups} groups"}
    left = f"for {n_groups - within} of {n_groups} groups"
    return {"title": title, "word": "not decided", "note": f"too few rows to tell, {left}"}


def unjudged_sentence(facts: Facts) -> str:
    """Which groups no headline rests on; empty where there are none."""
    small = facts.unjudged
    if not small:
        return ""
    listed = ", ".join(f"{named(group.name)} ({group.rows:,})" for group in small[:5])
    more = f" and {len(small) - 5:,} more" if len(small) > 5 else ""
    return f"Too few rows to judge, and left out of the sentences above: {listed}{more}."


def held_out_sentences(certificate: HeldOutCertificate, names: list[str]) -> tuple[str, ...]:
    """The held-out certificate: what is proved of people who are not in these rows."""
    sure = percent(1.0 - certificate.delta)
    start = (
        f"With {sure} confidence, and for all groups at once: if people like those in these rows were scored "
        "without end, the gap of each group would lie between the two bounds in the table."
    )
    absent = [name for name, count in zip(names, certificate.counts, strict=True) if not count]
    told = [f"Nothing is known of groups without rows here: {some_of(absent)}."] if absent else []
    if certificate.epsilon is None:
        return (start, *told)
    within = [name for name, ok in zip(names, certificate.within, strict=True) if ok]
    beyond = [name for name, bad in zip(names, certificate.lower > certificate.epsilon, strict=True) if bad]
    open_ = len(names) - len(absent) - len(within) - len(beyond)
    judged = (_proved(within), _refuted(beyond), _open(open_, len(names)))
    return (start, *(text for text in judged if text), *told)


def bounded_sentence(metric: str) -> str:
    """What the bounds of a held-out certificate are about."""
    return find_distance(metric).meaning


def _proved(names: list[str]) -> str:
    return f"Proved to be within the tolerance: {some_of(names)}." if names else ""


def _refuted(names: list[str]) -> str:
    return f"Proved to be beyond the tolerance: {some_of(names)}." if names else ""


def _open(count: int, n_groups: int) -> str:
    if not count:
        return ""
    whom = "any group is" if count == n_groups else f"{count} of {n_groups} groups are"
    return f"These rows are too few to tell whether {whom} within the tolerance: more rows would narrow it."


def some_of(names: list[str], most: int = 8) -> str:
    """Names, and how many more there are."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(map(named, names[:most])) + more


def optimisation_sentences(certificate: Certificate, error: str) -> tuple[str, ...]:
    """The certificate of the fit: what is proved of the rows it was made on."""
    over, tolerance = float(certificate.excess.max()), tuple(certificate.epsilon.tolist())
    met = (
        f"every group is within the tolerance of the parity step, {span(tolerance)}"
        if over <= 1e-4 * max(1.0, float(certificate.epsilon.max()))
        else f"a group is above its tolerance by up to {number(over)}"
    )
    gap, share = certificate.optimality_gap, certificate.relative_gap
    best = f"at most {number(max(gap, 0.0))} above the least that any such predictor can have"
    if np.isfinite(share) and gap > 0:
        best += f" ({percent(share)} of it)"
    if gap < 0:
        best = "less than the tolerances allow, since they are exceeded"
    return (
        f"On the rows of the fit, taking the group probabilities at their word, {met}.",
        f"{error} there is {number(certificate.risk)}: {best}.",
        f"The solver says: {certificate.message}",
    )


def calibration_sentences(
    diagnosis: CalibrationDiagnosis, all_names: list[str], where: str, *, recalibrated: bool
) -> tuple[str, ...]:
    """Whether the group probabilities are calibrated, and what may help where they are not."""
    over = diagnosis.parity_cost > diagnosis.parity_cost_limit
    names = [name for name, far in zip(all_names, over, strict=True) if far]
    start = (
        "Parity is reached without looking at the group: the model only sees the probability of it. These "
        f"probabilities were compared with the known groups of {diagnosis.n_rows:,} {where}."
    )
    if not names:
        return (start, "They are as good as exact probabilities would look on as many rows.")
    worst = float(diagnosis.parity_cost[over].max())
    advice = 'Recalibration may help: calibration="joint" corrects both models, given the output of both.'
    if recalibrated:
        advice = "More labeled rows, or better models, may help."
    return (
        start,
        f"Their errors are larger than sampling noise for {some_of(names)}. This can add "
        f"{number(worst, 2)} or more to the gap that the fit estimates. {advice}",
    )


def plain_text(value: Any, most: int = 300) -> str:
    """A setting as text on one line, cut where it is very long."""
    text = " ".join(repr(value).split())
    return text if len(text) <= most else text[: most - 1] + "\N{HORIZONTAL ELLIPSIS}"
