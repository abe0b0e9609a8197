from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression

import evenhand as eh
from evenhand.reporting import gather
from evenhand.reporting.page import render_page
from evenhand.reporting.words import change, number

VALUES = "cells => cells.map(cell => cell.dataset.value)"
LEVELS = "() => [...document.querySelectorAll('h1,h2,h3,h4')].map(h => Number(h.tagName[1]))"
SCROLLING = (
    "() => [...document.querySelectorAll('.scroll')].filter(e => e.scrollHeight > e.clientHeight + 1).length"
)
PHONE = {"viewport": {"width": 360, "height": 740}}
NAMES = np.array(["north", "south", "east"])
N_GROUPS = 60
HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(2)>',
    "</script><svg onload=alert(3)>",
    'it\'s "quoted" & {{ 7 * 7 }}',
    "\N{WOMAN}\u200d\N{GIRL} \u0645\u062c\u0645\u0648\u0639\u0629 \u2028",
    "w" * 300,
]


@pytest.fixture(scope="module")
def facts():
    fit, new = (
        eh.datasets.make_population(n, n_groups=3, separation=1.5, random_state=n) for n in (1500, 1200)
    )
    model = eh.ParityRegressor(LinearRegression(), epsilon=0.05, atoms=41, random_state=0)
    model.fit(fit.data, fit.target, sensitive_features=NAMES[fit.sensitive_features])
    groups = NAMES[new.sensitive_features]
    return gather(model, new.data, new.target, sensitive_features=groups, n_tolerances=6)


@pytest.fixture(scope="module")
def report(facts, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(render_page(facts), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def decisions():
    """Facts of a classifier whose groups are compared within the true class."""
    fit, new = (
        eh.datasets.make_population(n, n_groups=2, separation=1.5, random_state=n) for n in (1500, 1200)
    )
    model = eh.ParityClassifier(criterion="equalized_odds", epsilon=0.03, confidence=None)
    answers = [np.where(rows.target > 0, "yes", "no") for rows in (fit, new)]
    model.fit(fit.data, answers[0], sensitive_features=NAMES[fit.sensitive_features])
    groups = NAMES[new.sensitive_features]
    return gather(model, new.data, answers[1], sensitive_features=groups, n_tolerances=5)


@pytest.fixture(scope="module")
def classes(decisions, tmp_path_factory):
    path = tmp_path_factory.mktemp("classes") / "report.html"
    path.write_text(render_page(decisions), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """Sixty groups, some of one row, and names that were chosen to break the page."""
    rng = np.random.default_rng(0)
    names = np.array(
        [*HOSTILE, *(f"group {place}" for place in range(N_GROUPS - len(HOSTILE)))], dtype=object
    )
    codes = np.concatenate([np.arange(N_GROUPS), rng.integers(N_GROUPS - 5, size=4000)])
    scores = rng.normal(np.linspace(-1.0, 1.0, N_GROUPS)[codes])
    near = np.exp(-0.5 * (scores[:, None] - np.linspace(-1.0, 1.0, N_GROUPS)) ** 2)
    proba = pd.DataFrame(near / near.sum(axis=1, keepdims=True), columns=list(names))
    step = eh.ParityPostprocessor(atoms=15, epsilon=0.1, solver="lbfgs", tol=1e-3).fit(scores, proba)
    path = tmp_path_factory.mktemp("hostile") / "report.html"
    labels = names[codes]
    return eh.report(
        step, (scores, proba), sensitive_features=labels, path=path, title=HOSTILE[1], n_tolerances=2
    )


def test_the_page_opens_without_complaint_and_asks_nobody_for_anything(report, visit):
    opened = visit(report)
    assert opened.complaints == []
    assert opened.requests == [report.as_uri()]
    assert opened.page.locator("svg[role=img]").count() >= 5


def shown(page):
    """The numbers on the page that follow the slider."""
    rows = page.locator("#group-table tbody tr")
    cells = ("gap", "mean", "group_risk")
    return {
        "epsilon": page.locator("#epsilon").inner_text(),
        "now": page.locator("#now").inner_text(),
        "values": {
            name: list(map(float, rows.locator(f"[data-of={name}]").evaluate_all(VALUES))) for name in cells
        },
        "texts": {name: rows.locator(f"[data-of={name}]").all_inner_texts() for name in cells},
        "chart": page.locator("#after svg").inner_html(),
        "curve": page.locator("#after .curve").first.get_attribute("points"),
        "shares": page.locator("#shares-table tbody tr").first.locator("td").all_text_contents(),
    }


@pytest.fixture(scope="module")
def modes(tmp_path_factory):
    """A page that sets the same parity with the group and without side by side."""
    fit, new = (eh.datasets.make_population(n, n_groups=2, random_state=n) for n in (2000, 3000))
    model = eh.ParityRegressor(LinearRegression(), epsilon=0.05, atoms=41, random_state=0)
    model.fit(fit.data, fit.target, sensitive_features=NAMES[fit.sensitive_features])
    path = tmp_path_factory.mktemp("modes") / "report.html"
    groups = NAMES[new.sensitive_features]
    return eh.report(model, new.data, new.target, sensitive_features=groups, path=path, n_tolerances=2)


@pytest.mark.parametrize("width", [1100, 360])
def test_both_modes_are_drawn_and_their_names_cover_nothing(modes, visit, width):
    opened = visit(modes, viewport={"width": width, "height": 800})
    assert opened.complaints == []
    boxes = """nodes => nodes.map(node => node.getBoundingClientRect())
        .map(box => [box.x, box.y, box.right, box.bottom])"""
    names = opened.page.locator("#modes-chart text.halo").evaluate_all(boxes)
    points = opened.page.locator("#modes-chart circle").evaluate_all(boxes)
    assert len(names) == len(points) == 4
    for place, one in enumerate(names):
        assert one[0] >= 0
        assert one[2] <= width
        for other in [*names[:place], *points]:
            assert one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]


def test_the_slider_moves_charts_and_numbers_to_the_library_s_values(report, facts, visit):
    page = visit(report).page
    slider = page.locator("#slider")
    curves = set()
    for place, stage in enumerate(facts.tolerances):
        slider.fill(str(place))
        seen = shown(page)
        assert seen["epsilon"] == number(stage.epsilon)
        assert f"gap {number(stage.largest_gap)} " in seen["now"]
        assert f"Mean squared error {number(stage.risk)}" in seen["now"]
        for name in ("gap", "mean", "group_risk"):
            assert seen["values"][name] == pytest.approx(getattr(stage, name), rel=1e-9)
            assert seen["texts"][name] == [number(float(value)) for value in getattr(stage, name)]
        order = [*range(len(facts.charted)), -1]
        wanted = [f"{each.shares[row][0] / 1e4:.2f}" for each in (facts.before, stage) for row in order]
        assert seen["shares"] == wanted
        curves.add(seen["curve"])
        assert page.locator("#frontier .here title").text_content() == f"Tolerance {number(stage.epsilon)}"
    assert len(curves) == len(facts.tolerances)


def test_a_curve_is_drawn_where_its_numbers_say(report, facts, visit):
    page = visit(report).page
    points = page.locator("#after .curve.g0").get_attribute("points").split()
    heights = np.array([float(point.split(",")[1]) for point in points])
    shares = facts.after.shares[0]
    slope, offset = np.polyfit(shares, heights, 1)
    assert slope < 0  # down is up in an SVG
    assert heights == pytest.approx(slope * shares + offset, abs=1e-3)


def test_numbers_are_written_alike_in_python_and_in_the_page(report, facts, visit):
    page = visit(report).page
    script = "() => [...document.querySelectorAll('#path-table tbody tr')].map(row => row.textContent)"
    rows = page.evaluate(script)
    for place, stage in enumerate(facts.tolerances):
        page.locator("#slider").fill(str(place))
        assert number(stage.risk) in rows[place]
        changes = page.locator("[data-of=change]").all_inner_texts()
        pairs = zip(facts.before.group_risk, stage.group_risk, strict=True)
        assert changes == [change(float(before), float(after)) for before, after in pairs]


def test_a_click_on_a_point_of_the_frontier_chooses_it(report, facts, visit):
    page = visit(report).page
    page.locator("#frontier .point").last.click(force=True)
    assert page.locator("#epsilon").inner_text() == number(facts.tolerances[-1].epsilon)
    page.locator("#own").click()
    assert page.locator("#epsilon").inner_text() == number(facts.after.epsilon)


def test_the_keyboard_reaches_and_moves_everything(report, facts, visit):
    page = visit(report).page
    focused = "() => { const e = document.activeElement; return e.id || e.className || e.tagName; }"
    outline = "() => getComputedStyle(document.activeElement).outlineStyle"
    order = []
    for _ in range(12):
        page.keyboard.press("Tab")
        order.append(page.evaluate(focused))
        assert page.evaluate(outline) != "none", order[-1]
        if order[-1] == "slider":
            break
    assert order[0] == "skip"
    assert order.index("theme") < order.index("slider")
    before = page.locator("#epsilon").inner_text()
    page.keyboard.press("ArrowRight")
    assert page.locator("#epsilon").inner_text() == number(facts.tolerances[facts.own + 1].epsilon) != before
    page.keyboard.press("Home")
    assert page.locator("#epsilon").inner_text() == number(facts.tolerances[0].epsilon)
    assert "Tolerance 0." in page.locator("#slider").get_attribute("aria-valuetext")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # back to this model
    assert page.locator("#epsilon").inner_text() == number(facts.after.epsilon)
    page.locator("summary").first.focus()
    page.keyboard.press("Enter")
    assert page.locator("#path-table").is_visible()


def test_groups_can_be_taken_out_and_brought_back(report, visit):
    page = visit(report).page
    box = page.locator("#picker input[type=checkbox]").first
    assert page.locator("#after .curve").count() == 3
    box.focus()
    page.keyboard.press("Space")
    assert page.locator("#after .curve").count() == page.locator("#before .curve").count() == 2
    page.keyboard.press("Space")
    assert page.locator("#after .curve").count() == 3
    page.get_by_label("Cumulative").check()
    last = page.locator("#after .curve.g0").get_attribute("points").split()[-1]
    assert float(last.split(",")[1]) == pytest.approx(26, abs=0.5)  # a distribution ends at the top


@pytest.mark.parametrize("which", ["report", "hostile"])
@pytest.mark.parametrize("opened", [False, True])
def test_a_phone_never_scrolls_sideways(which, opened, visit, request):
    page = visit(request.getfixturevalue(which), **PHONE).page
    if opened:
        page.evaluate("() => document.querySelectorAll('details').forEach(box => { box.open = true; })")
    assert page.evaluate("() => document.documentElement.scrollWidth") == 360


def test_paper_has_all_of_it(report, visit, tmp_path):
    opened = visit(report)
    page = opened.page
    page.emulate_media(media="print")
    for section in page.locator("section").all():
        assert section.is_visible()
    for table in page.locator("details table").all():
        assert table.evaluate("table => table.checkVisibility({contentVisibilityAuto: true})")
        assert table.bounding_box()["height"] > 20
    assert not page.locator("#slider").is_visible()
    assert page.evaluate(SCROLLING) == 0
    page.emulate_media(media="screen")
    assert not page.locator("#path-table").is_visible()
    page.pdf(path=tmp_path / "report.pdf", format="A4")
    assert (tmp_path / "report.pdf").stat().st_size > 20_000
    assert opened.complaints == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast_meets_wcag_aa_in_both_schemes(report, visit, scheme):
    page = visit(report, color_scheme=scheme).page
    page.evaluate("() => document.querySelectorAll('details').forEach(box => { box.open = true; })")
    found = page.evaluate(Path(__file__).with_name("contrast.js").read_text())
    assert len(found) > 200
    least = {"text": 4.5, "drawing": 3.0}
    assert [each for each in found if each[2] < least[each[0]]] == []


def test_the_button_switches_between_light_and_dark(report, visit):
    page = visit(report, color_scheme="dark").page
    ground = "() => getComputedStyle(document.documentElement).backgroundColor"
    dark = page.evaluate(ground)
    page.locator("#theme").click()
    light = page.evaluate(ground)
    assert light == "rgb(255, 255, 255)" != dark
    page.locator("#theme").click()
    assert page.evaluate(ground) == dark


def test_everything_has_a_name_and_headings_are_in_order(report, visit):
    page = visit(report).page
    levels = page.evaluate(LEVELS)
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    snapshot = page.locator("body").aria_snapshot()
    for role in ("button", "slider", "checkbox", "radio", "img", "region", "link"):
        lines = [line.strip() for line in snapshot.splitlines() if line.strip().startswith(f"- {role}")]
        assert lines, role
        assert all('"' in line for line in lines), lines
    assert page.evaluate("() => document.documentElement.lang") == "en"
    ids = page.evaluate("() => [...document.querySelectorAll('[id]')].map(node => node.id)")
    assert len(ids) == len(set(ids))
    assert (
        page.locator("figure").count() == page.locator("figure + details").count()
    )  # a table for each chart


def test_hostile_names_stay_text(hostile, visit):
    opened = visit(hostile)
    page = opened.page
    page.locator("#slider").press("ArrowRight")
    page.locator("#picker input[type=search]").fill("<script>")
    page.locator("#picker label:not([hidden]) input[type=checkbox]:not(:checked)").first.check()
    page.locator("#find-row").fill("group 1")
    assert page.locator("#group-table tbody tr:visible").count() == 11
    assert opened.complaints == []
    assert opened.requests == [hostile.as_uri()]
    assert page.locator("img, [onload], [onerror]").count() == 0
    assert page.title() == HOSTILE[1]
    assert set(HOSTILE[:4]) <= set(page.locator("#group-table tbody bdi").all_text_contents())


def test_without_scripts_the_tables_are_there(report, facts, visit):
    page = visit(report, java_script_enabled=False).page
    assert page.locator("#group-table tbody tr").count() == len(facts.groups)
    assert number(facts.after.largest_gap) in page.locator(".figures").inner_text()
    assert "need scripts" in page.locator("noscript").inner_text()


def test_a_page_of_decisions_has_bars_that_follow_the_slider(classes, decisions, visit):
    opened = visit(classes)
    page = opened.page
    for place in (0, decisions.own, len(decisions.tolerances) - 1):
        page.evaluate(
            "at => { const s = document.getElementById('slider'); s.value = at;"
            " s.dispatchEvent(new Event('input')); }",
            place,
        )
        stage = decisions.tolerances[place]
        assert number(stage.risk) in page.inner_text("#now")
        said = page.eval_on_selector_all('#group-table [data-of="gap"]', VALUES)
        assert [float(value) for value in said] == pytest.approx(stage.gap.tolist())
        heights = page.eval_on_selector_all(
            "#after rect.everybody", "bars => bars.map(bar => bar.getBBox().height)"
        )
        stratum = decisions.groups[decisions.charted[0]].stratum
        together = stage.shares[len(decisions.charted) + stratum]
        assert heights[0] / sum(heights) == pytest.approx(together[0] / together.sum(), abs=0.01)
    assert opened.complaints == []
    assert opened.requests == [classes.as_uri()]


def test_the_groups_that_a_page_shows_first_are_of_one_stratum(classes, decisions, visit):
    page = visit(classes).page
    chosen = page.eval_on_selector_all(
        "#picker input[type=checkbox]:checked", "boxes => boxes.map(box => Number(box.value))"
    )
    assert len({decisions.groups[decisions.charted[curve]].stratum for curve in chosen}) == 1
    assert len(chosen) == 2
    assert "Mean prediction" not in page.inner_text("#group-table")
    assert "among rows of the same true class" in page.inner_text("main")
