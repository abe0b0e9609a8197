"""Notebooks and words: tables that show themselves, and no term of the trade without its meaning."""

import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

import evenhand as eh
from evenhand.calibration import diagnose_calibration
from evenhand.certificates import certify_held_out, certify_plugin, certify_sequence
from evenhand.cli.commands.info import describe
from evenhand.datasets import make_population
from evenhand.evaluation.frontier import Frontier
from tests.test_site import pages

NAMES = np.array(["<b>north</b>", "south & west"])
FIT, NEW = (make_population(800, n_groups=2, random_state=seed) for seed in (0, 1))
GROUPS, NEW_GROUPS = (NAMES[data.sensitive_features] for data in (FIT, NEW))
MODEL = eh.ParityRegressor(epsilon=0.2).fit(FIT.data, FIT.target, sensitive_features=GROUPS)
STEP = MODEL.postprocessor_
PMF = MODEL.predict_pmf(NEW.data)


def diagnosis():
    _, proba = MODEL.predict_scores(NEW.data)
    codes = NEW.sensitive_features
    return diagnose_calibration(proba, codes, tuple(NAMES), proba.mean(axis=0))


def path(with_outcomes=True):
    test = {"X": NEW.data, "sensitive_features": NEW_GROUPS}
    test |= {"y": NEW.target} if with_outcomes else {}
    known = {"sensitive_features": GROUPS, "epsilons": [0.05, 0.2]}
    return eh.frontier(MODEL, FIT.data, FIT.target, **known, test=test)


SHOWN = {
    "certificate": lambda: MODEL.certificate_,
    "held-out": lambda: certify_held_out(PMF, NEW_GROUPS, atoms=MODEL.atoms_, epsilon=0.1),
    "held-out without epsilon": lambda: certify_held_out(PMF, NEW_GROUPS, atoms=MODEL.atoms_),
    "sequence": lambda: certify_sequence([PMF, PMF], NEW_GROUPS, atoms=MODEL.atoms_, epsilon=0.5),
    "plug-in": lambda: certify_plugin(MODEL, NEW_GROUPS, NEW.target, X=NEW.data),
    "promise": lambda: MODEL.certificate_.out_of_sample,
    "calibration": diagnosis,
    "frontier": path,
    "frontier without outcomes": lambda: path(with_outcomes=False),
    "bounds of a proxy": lambda: eh.metrics.unfairness_bounds(
        PMF, pd.DataFrame(NEW.group_proba, columns=NAMES), MODEL.atoms_
    ),
    "rates": lambda: eh.metrics.selection_rates(PMF, NEW_GROUPS, MODEL.atoms_),
    "audit": lambda: eh.audit(PMF, NEW_GROUPS, atoms=MODEL.atoms_, y=NEW.target),
}


class Tables(HTMLParser):
    """Cells of each row, all text, and whether every element that was opened was closed."""

    def __init__(self, page):
        super().__init__()
        self.open, self.rows, self.text = [], [], ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        if tag == "br":
            return
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data + " "
        if self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data


@pytest.mark.parametrize("name", SHOWN)
def test_what_a_notebook_shows_is_a_whole_table_with_every_group(name):
    shown = SHOWN[name]()
    page = Tables(shown._repr_html_())
    assert page.open == []
    heads = page.rows[0]
    assert all(len(row) == len(heads) or name == "certificate" for row in page.rows)
    assert len(page.rows) >= 3
    if not isinstance(shown, Frontier):
        for group in NAMES:  # as it is called, and not as markup
            assert group in page.text


def test_the_table_of_a_certificate_holds_its_numbers():
    certificate = MODEL.certificate_
    rows = Tables(certificate._repr_html_()).rows
    for place, group in enumerate(certificate.groups):
        row = next(row for row in rows if row[0] == group)
        assert float(row[2]) == pytest.approx(certificate.violation[place], rel=1e-3)
    assert certificate.score_distance == certificate.risk


def test_the_table_of_held_out_bounds_holds_its_numbers():
    found = SHOWN["held-out"]()
    page = Tables(found._repr_html_())
    assert page.rows[1][1:] == [
        str(found.counts[0]),
        *(f"{value:.4g}" for value in (found.estimate[0], found.lower[0], found.upper[0], 0.1)),
    ]
    assert "With probability 0.95" in page.text


def test_the_table_of_a_frontier_has_every_tolerance_the_base_and_the_constant():
    found = path()
    rows = Tables(found._repr_html_()).rows
    assert [row[0] for row in rows] == ["Epsilon", "0.05", "0.2", "without parity", "best constant"]
    assert float(rows[1][2]) == pytest.approx(found.risk[0], rel=1e-3)
    assert rows[1][3] == f"{found.risk_increase[0]:+.1%}"
    assert "Risk" in rows[0][2]
    assert Tables(path(with_outcomes=False)._repr_html_()).rows[0][2] == "Squared distance to the scores"


TRADE = re.compile(r"\b(atoms?|tilts?|lifts?|lemmas?|tau|eta|theta)\b", re.IGNORECASE)
# "values that can be predicted (atoms)" or "possible predictions (atoms)", and a lemma of the paper
GLOSSED = re.compile(r"possible predictions \(atoms\)|Lemma [\d.]+ of the paper")


@pytest.mark.parametrize("name", SHOWN)
def test_no_term_of_the_trade_without_its_meaning(name):
    shown = SHOWN[name]()
    for words in (str(shown), Tables(shown._repr_html_()).text):
        assert TRADE.findall(GLOSSED.sub("", words)) == []


def test_a_model_is_described_without_terms_of_the_trade():
    assert TRADE.findall(GLOSSED.sub("", describe(MODEL)["predicts"])) == []


@pytest.mark.parametrize("name", ["certificate", "plug-in"])
def test_the_distance_to_the_scores_is_not_called_what_the_error_is_called(name):
    shown = SHOWN[name]()
    for words in (str(shown), Tables(shown._repr_html_()).text):
        assert "error against outcomes" in words.lower()
        told = words.replace("`risk`: a distance to the scores, not the error against outcomes", "")
        assert not re.search(r"\brisk\b", told, re.IGNORECASE)


PAGES = ("README.md", *(f"docs/{page}" for page in pages()))


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize(
    ("term", "meaning"),
    [
        (r"\batoms?\b(?!=|_|`)", r"can be predicted|possible prediction"),
        (r"\b(tilt|lift)s?\b", r"prediction|bonus"),
        (r"\bduals?\b", r"price|multiplier"),
        (r"\bLemma\b", r"paper"),
    ],
)
def test_pages_say_what_a_term_means_where_it_first_stands(page, term, meaning, project_root):
    words = re.sub(r"```.*?```|`[^`]*`", " ", (project_root / page).read_text(), flags=re.DOTALL)
    first = re.search(term, words)
    if first is not None:
        around = words[max(0, first.start() - 160) : first.end() + 160]
        assert re.search(meaning, around), around
