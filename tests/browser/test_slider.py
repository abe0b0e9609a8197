"""The slider of docs/concepts/method.md: its numbers are evenhand's, and hands, keys and phones move it."""

import importlib.util
import json
import re
from pathlib import Path

import pytest

import evenhand as eh


@pytest.fixture(scope="module")
def page_path(project_root):
    path = project_root / "docs" / "_static" / "tilt-slider.html"
    if not path.exists():
        pytest.skip("the docs are not part of this copy")
    return path


def at(visit, key):
    visit.page.focus("#epsilon")
    visit.page.keyboard.press(key)
    return visit.page.inner_text("#told")


def test_keys_move_it_from_no_parity_to_the_strictest(visit, page_path):
    opened = visit(page_path)
    assert "Asked for 0.05" in opened.page.inner_text("#told")
    before, after = at(opened, "Home"), at(opened, "End")
    assert before.startswith("Without parity")
    assert after.startswith("Asked for 0:")
    apart, together = (float(re.search(r"distance of (\d\.\d+)", told)[1]) for told in (before, after))
    assert together < 0.01 < 0.2 < apart
    assert opened.page.get_attribute("#epsilon", "aria-valuetext") == "epsilon 0"
    assert at(opened, "ArrowLeft").startswith("Asked for 0.005")


def test_it_asks_nothing_of_the_network_and_complains_of_nothing(visit, page_path):
    opened = visit(page_path)
    at(opened, "End")
    assert opened.requests == [page_path.as_uri()]
    assert opened.complaints == []


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_phones_and_desktops_and_can_be_read_in_both_schemes(visit, page_path, width, scheme):
    opened = visit(page_path, viewport={"width": width, "height": 800}, color_scheme=scheme)
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
    assert opened.page.evaluate("document.documentElement.dataset.theme") == scheme
    assert opened.page.locator("#rule path.curve").count() == 5
    assert opened.page.locator("#groups path.curve").count() == 4  # a curve and its sample for each group
    found = opened.page.evaluate(Path(__file__).with_name("contrast.js").read_text())
    asked = {"text": 4.5, "drawing": 3.0}  # WCAG 2, level AA
    assert [each for each in found if each[2] < asked[each[0]]] == []


def test_its_numbers_are_those_of_evenhand_now(project_root, page_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.syspath_prepend(str(project_root / "docs"))
    script = project_root / "docs" / "make_concept_figures.py"
    spec = importlib.util.spec_from_file_location("make_concept_figures", script)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    (told,) = re.findall(r"^const DATA = (.*);$", page_path.read_text(), re.MULTILINE)
    stop = next(each for each in json.loads(told)["stops"] if each["epsilon"] == 0.05)
    new = made.make_people(50_000, 1)
    pmf = made.fitted(made.make_people(20_000, 0), 0.05).predict_pmf(new["scores"], new["group_proba"])
    assert stop["distance"] == pytest.approx(
        max(eh.metrics.ks_unfairness(pmf, new["groups"]).values()), abs=2e-4
    )
