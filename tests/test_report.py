import base64
import datetime
import hashlib
import json
import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import evenhand as eh
from evenhand.exceptions import ToleranceWarning
from evenhand.reporting import gather
from evenhand.reporting.card import render_markdown
from evenhand.reporting.data import _features
from evenhand.reporting.page import render_page
from evenhand.reporting.tolerances import split_halves
from evenhand.reporting.words import verdict

NAMES = np.array(["north", "south", "east"])
HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(2)>',
    "</script><!--<script>",
    'it\'s "quoted" & more',
    "\u2028\u2029 {{ 7 * 7 }} {% raw %}",
    "\N{WOMAN}\u200d\N{WOMAN}\u200d\N{GIRL} \u0645\u062c\u0645\u0648\u0639\u0629",
    "a|b *c* `d` [e](f)",
)


@pytest.fixture(scope="module")
def rows():
    """Rows to fit on, and others to report on."""
    fit, new = (
        eh.datasets.make_population(n, n_groups=3, separation=1.5, random_state=n) for n in (1500, 1201)
    )
    return fit, new


@pytest.fixture(scope="module")
def model(rows):
    fit = rows[0]
    fitted = eh.ParityRegressor(LinearRegression(), epsilon=0.05, atoms=41, random_state=0)
    return fitted.fit(fit.data, fit.target, sensitive_features=NAMES[fit.sensitive_features])


def gathered(model, new, **options):
    options = {"n_tolerances": 3, "sensitive_features": NAMES[new.sensitive_features], **options}
    return gather(model, new.data, new.target, **options)


def read_facts(page):
    return json.loads(re.search(r'<script type="application/json" id="facts">(.*?)</script>', page, re.S)[1])


def test_the_model_s_own_numbers_are_those_of_the_metrics(model, rows):
    new = rows[1]
    groups, atoms = NAMES[new.sensitive_features], model.atoms_
    facts = gathered(model, new, n_tolerances=0)
    pmf = model.predict_pmf(new.data)
    names = [group.name for group in facts.groups]
    assert dict(zip(names, facts.after.gap, strict=True)) == pytest.approx(
        eh.metrics.ks_unfairness(pmf, groups)
    )
    assert facts.after.risk == pytest.approx(eh.metrics.risk(new.target, pmf, atoms))
    scores = model.estimator_.predict(new.data)
    assert dict(zip(names, facts.before.gap, strict=True)) == eh.metrics.ks_unfairness(scores, groups)
    assert facts.before.risk == pytest.approx(eh.metrics.risk(new.target, scores))
    for place, name in enumerate(names):
        own = groups == name
        assert facts.after.mean[place] == pytest.approx((pmf[own] @ atoms).mean())
        assert facts.after.group_risk[place] == pytest.approx(
            eh.metrics.risk(new.target[own], pmf[own], atoms)
        )
        assert facts.groups[place].rows == own.sum()


@pytest.mark.parametrize(("parity", "metric"), [("cdf", "ks"), ("pmf", "sup"), ("mean", "mean")])
def test_the_gap_is_the_distance_that_was_asked_for(rows, parity, metric):
    fit, new = rows
    step = eh.ParityPostprocessor(parity=parity, epsilon=0.05, atoms=21).fit(fit.scores, fit.group_proba)
    weights = np.linspace(0.5, 1.5, len(new.target))
    facts = gather(
        step,
        (new.scores, new.group_proba),
        new.target,
        sensitive_features=new.sensitive_features,
        sample_weight=weights,
        n_tolerances=0,
    )
    pmf = step.predict_pmf(new.scores, new.group_proba)
    wanted = eh.metrics.unfairness(
        pmf, new.sensitive_features, step.atoms_, metric=metric, sample_weight=weights
    )
    assert facts.after.gap == pytest.approx(list(wanted.values()))
    assert facts.held_out.numbers is None  # rows of unequal weight are not covered
    assert "unequally" in facts.held_out.sentences[0]


def test_scores_of_many_groups_are_measured_a_few_groups_at_a_time(model, rows, monkeypatch):
    whole = gathered(model, rows[1], n_tolerances=0).before.ks
    monkeypatch.setattr("evenhand.metrics.measure.MOST_ENTRIES", 2 * len(rows[1].target))
    assert gathered(model, rows[1], n_tolerances=0).before.ks.tolist() == whole.tolist()


@pytest.mark.filterwarnings("ignore::evenhand.exceptions.ClippingWarning")
def test_other_tolerances_are_judged_by_rows_that_had_no_part_in_them(model, rows):
    new = rows[1]
    facts = gathered(model, new)
    step = model.postprocessor_
    scores, proba = model.predict_scores(new.data)
    codes = np.unique(NAMES[new.sensitive_features], return_inverse=True)[1]
    settings = {**step.get_params(), "atoms": step.atoms_, "bounds": step.bounds_, "beta": step.beta_}
    others = [stage for stage in facts.tolerances if not stage.fitted]
    epsilons = [stage.epsilon for stage in others]
    halves = split_halves(codes)
    assert sorted(np.concatenate(halves)) == list(range(len(codes)))
    pmfs = np.empty((len(others), len(codes), len(step.atoms_)))
    for given, judging in (halves, halves[::-1]):
        path = eh.frontier(eh.ParityPostprocessor(**settings), scores[given], proba[given], epsilons=epsilons)
        for place, again in enumerate(path.models):
            pmfs[place, judging] = again.predict_pmf(scores[judging], proba[judging])
    for stage, pmf in zip(others, pmfs, strict=True):
        assert stage.gap == pytest.approx(list(eh.metrics.ks_unfairness(pmf, codes).values()))
        assert stage.risk == pytest.approx(eh.metrics.risk(new.target, pmf, step.atoms_))


def test_a_frontier_of_the_user_s_own_is_shown_as_it_is(model, rows):
    fit, new = rows
    known = {"sensitive_features": NAMES[fit.sensitive_features]}
    model = clone(model).set_params(confidence=None).fit(fit.data, fit.target, **known)
    groups = NAMES[new.sensitive_features]
    path = eh.frontier(
        model,
        fit.data,
        fit.target,
        **known,
        epsilons=[0.02, 0.05, 0.2],
        test=(new.data, new.target, groups),
    )
    facts = gathered(model, new, frontier=path)
    assert [stage.epsilon for stage in facts.tolerances] == [0.02, 0.05, 0.2]
    assert [stage.largest_gap for stage in facts.tolerances] == pytest.approx(path.max_ks)
    # the model's own tolerance is told by the model, which was solved to `tol` once more than the path
    assert [stage.risk for stage in facts.tolerances] == pytest.approx(path.risk, rel=1e-5)


def test_a_frontier_with_other_atoms_is_refused(rows):
    fit, new = rows
    step = eh.ParityPostprocessor(atoms=11).fit(fit.scores, fit.group_proba)
    other = eh.ParityPostprocessor(atoms=15)
    path = eh.frontier(other, fit.scores, fit.group_proba, epsilons=[0.1])
    with pytest.raises(ValueError, match="15 values and model 11"):
        gather(step, (new.scores, new.group_proba), sensitive_features=new.sensitive_features, frontier=path)


def test_tolerances_are_in_order_and_the_model_s_own_is_among_them(model, rows):
    facts = gathered(model, rows[1], n_tolerances=5)
    epsilons = [stage.epsilon for stage in facts.tolerances]
    assert epsilons == sorted(epsilons)
    # the slider has the tolerance of the parity step, which is below what was asked for of new people
    assert facts.after.epsilon == model.tolerance_.max() < 0.05
    assert "chosen to keep 0.05 on new data" in facts.path_note
    assert [stage.fitted for stage in facts.tolerances].count(True) == 1
    assert epsilons[0] == 0.0


def test_tolerances_by_group_keep_their_proportions(rows):
    fit, new = rows
    epsilon = {"north": 0.1, "south": 0.05, "east": 0.02}
    model = eh.ParityRegressor(LinearRegression(), epsilon=epsilon, atoms=21)
    model.fit(fit.data, fit.target, sensitive_features=NAMES[fit.sensitive_features])
    facts = gathered(model, new)
    assert len(facts.tolerances) > 2
    assert {group.name: group.epsilon for group in facts.groups} == epsilon
    assert facts.after.epsilon == model.tolerance_.max()
    assert "proportions" in facts.path_note


def test_curves_are_shares_that_sum_to_one(model, rows):
    facts = gathered(model, rows[1])
    for stage in (facts.before, *facts.tolerances):
        assert stage.shares.shape == (len(facts.charted) + 1, len(facts.scale.centres))
        assert stage.shares.sum(axis=1) == pytest.approx(1e6, abs=len(facts.scale.centres))


def test_few_values_get_a_bar_each(rows):
    fit, new = rows
    step = eh.ParityPostprocessor(atoms=[-1.0, 0.0, 1.0]).fit(fit.scores, fit.group_proba)
    groups = new.sensitive_features
    facts = gather(step, (new.scores, new.group_proba), sensitive_features=groups, n_tolerances=2)
    assert facts.scale.bars
    pmf = step.predict_pmf(new.scores, new.group_proba)
    assert facts.after.shares[-1] / 1e6 == pytest.approx(pmf.mean(axis=0), abs=1e-6)
    assert not facts.asked.has_target


def test_small_groups_are_not_judged_but_shown(model, rows):
    new = rows[1]
    groups = NAMES[new.sensitive_features]
    kept = np.concatenate([np.flatnonzero(groups != "east"), np.flatnonzero(groups == "east")[:1]])
    facts = gather(model, new.data[kept], new.target[kept], sensitive_features=groups[kept], n_tolerances=2)
    (small,) = facts.unjudged
    assert (small.name, small.rows) == ("east", 1)
    assert facts.groups[facts.after.farthest].name != "east"
    assert "too few rows" in render_page(facts)
    assert facts.held_out.numbers["upper"][0] <= 1.0


def test_a_group_of_the_fit_that_no_row_is_in_is_named_and_not_proved(model, rows):
    new = rows[1]
    groups = NAMES[new.sensitive_features]
    kept = groups != "east"
    facts = gather(model, new.data[kept], new.target[kept], sensitive_features=groups[kept], n_tolerances=0)
    found = facts.held_out.numbers
    assert found["absent"] == ["east"]
    place = found["groups"].index("east")
    assert (found["counts"][place], found["estimate"][place], found["upper"][place]) == (0, None, 1.0)
    for text in (render_page(facts), render_markdown(facts)):
        assert "Nothing is known of groups without rows here: " in text
    assert verdict(facts)["word"] != "proved"


def test_a_pipeline_and_an_aware_model_have_reports(rows):
    fit, new = rows
    groups = NAMES[fit.sensitive_features]
    regressor = eh.ParityRegressor(LinearRegression(), atoms=21, aware=True)
    piped = make_pipeline(StandardScaler(), eh.ParityRegressor(LinearRegression(), atoms=21))
    piped.fit(fit.data, fit.target, parityregressor__sensitive_features=groups)
    aware = regressor.fit(fit.data, fit.target, sensitive_features=groups)
    for model in (piped, aware):
        facts = gathered(model, new, n_tolerances=2)
        assert len(facts.tolerances) >= 3
    assert facts.asked.aware
    assert facts.calibration.numbers is None


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_columns_of_every_kind_are_described(library):
    columns = {
        "number": [1.0, None, 3.0, 4.0],
        "text": ["b", None, "a", "b"],
        "flag": [True, False, True, True],
        "day": [datetime.date(2024, 1, day) for day in (1, 2, 3, 4)],
        "nothing": [None] * 4,
    }
    columns = {name: values * 5 for name, values in columns.items()}
    frame = pd.DataFrame(columns) if library == "pandas" else pl.DataFrame(columns)
    described, count = _features(frame)
    assert count == 5
    found = {each.name: (each.missing, each.summary) for each in described}
    assert found["number"] == (5, "1 to 4, median 3, mean 2.67")
    assert found["text"] == (5, "2 distinct: b, and others")
    assert found["flag"] == (0, "2 distinct: True, and others")
    assert found["day"][1] == "4 distinct"  # of five rows each: too few to be named
    assert found["nothing"] == (20, "no values")


def test_arrays_of_any_kind_are_described():
    mixed = np.array([["a", 1], ["b", None]], dtype=object)
    assert [each.missing for each in _features(mixed)[0]] == [0, 1]
    assert _features(np.array([[1, 2], [3, 4]]))[0][1].summary == "2 to 4, median 3, mean 3"
    assert _features(csr_matrix(np.eye(4))) == ([], 4)
    assert _features(pd.DataFrame(np.eye(3)))[1] == 3  # names that are numbers


class Tags(HTMLParser):
    """Elements and attributes of a page."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.attributes, self.links = [], set(), []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}
        self.links += [value for name, value in attrs if name in ("src", "href")]


@pytest.fixture(scope="module")
def hostile(rows):
    """Facts in which every name was chosen to break the page."""
    fit, new = rows
    names = np.array(HOSTILE, dtype=object)
    frames = [pd.DataFrame(each.data, columns=[*HOSTILE[: each.data.shape[1]]]) for each in (fit, new)]
    model = eh.ParityRegressor(LinearRegression(), atoms=21, epsilon=0.001)
    with pytest.warns(ToleranceWarning, match="cannot be expected to hold"):
        model.fit(frames[0], fit.target, sensitive_features=names[np.arange(len(fit.target)) % len(names)])
    groups = names[np.arange(len(new.target)) % len(names)]
    return gather(
        model, frames[1], new.target, sensitive_features=groups, n_tolerances=2, title=HOSTILE[0] + HOSTILE[1]
    )


def test_no_name_becomes_markup(hostile):
    page = render_page(hostile)
    seen = Tags(page)
    assert seen.tags.count("script") == 2
    assert "img" not in seen.tags
    assert not {name for name in seen.attributes if name.startswith("on")}
    assert all(link.startswith("#") for link in seen.links)
    assert {group["name"] for group in read_facts(page)["groups"]} == set(HOSTILE)
    assert "\u2028" not in re.search(r'id="facts">(.*?)</script>', page, re.S)[1]
    assert "49" not in re.search(r"<title>(.*?)</title>", page)[1]


def test_the_page_s_policy_allows_its_own_script_and_style_only(hostile):
    page = render_page(hostile)
    policy = re.search(r'Content-Security-Policy" content="(.*?)"', page)[1].replace("&#39;", "'")
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    for element in ("script", "style"):
        text = re.search(rf"<{element}>(.*?)</{element}>", page, re.S)[1]
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{element}-src 'sha256-{digest}'" in policy


def test_a_card_says_the_same_in_markdown_and_in_json(model, rows, tmp_path):
    new = rows[1]
    groups = NAMES[new.sensitive_features]
    options = {"sensitive_features": groups}
    text = eh.model_card(model, new.data, new.target, path=tmp_path / "card.md", **options).read_text()
    plain = json.loads(
        eh.model_card(model, new.data, new.target, path=tmp_path / "card.json", **options).read_text()
    )
    facts = gathered(model, new, n_tolerances=0)
    assert plain["tolerances"][0]["gap"] == pytest.approx(facts.after.gap)
    for group, gap in zip(plain["groups"], plain["tolerances"][0]["gap"], strict=True):
        assert re.search(rf"\| {group['name']} \|.*\| {gap:.3g} \|", text)
    assert plain["held_out"]["numbers"]["upper"] == pytest.approx(facts.held_out.numbers["upper"])


def test_markdown_shows_hostile_names_as_text(hostile):
    from evenhand.reporting.card import render_markdown

    text = render_markdown(hostile)
    assert "<script" not in text
    assert "<img" not in text
    widths = {line.replace("\\|", "").count("|") for line in text.splitlines() if line.startswith("| a")}
    assert widths <= {3, 5, 7, 9}  # no bar of a name has opened a cell


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sensitive_features": None}, "sensitive_features is missing: pass the group of each row"),
        ({"sensitive_features": ["west"] * 1201}, "has not seen"),
        ({"n_tolerances": -1}, "must not be negative"),
        ({"sample_weight": [-1.0] * 1201}, "must not be negative"),
    ],
)
def test_bad_input_is_refused_and_the_old_file_stays(model, rows, tmp_path, change, message):
    new = rows[1]
    path = tmp_path / "report.html"
    path.write_text("old")
    options = {"sensitive_features": NAMES[new.sensitive_features], "path": path, **change}
    with pytest.raises(ValueError, match=message):
        eh.report(model, new.data, new.target, **options)
    assert path.read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["report.html"]


def test_a_model_of_another_kind_and_an_unfitted_one_are_refused(rows, tmp_path):
    new = rows[1]
    options = {"sensitive_features": new.sensitive_features, "path": tmp_path / "report.html"}
    with pytest.raises(TypeError, match="got LinearRegression"):
        eh.report(LinearRegression(), new.data, new.target, **options)
    with pytest.raises(TypeError, match="got LinearRegression"):
        eh.report(make_pipeline(StandardScaler(), LinearRegression()), new.data, new.target, **options)
    with pytest.raises(ValueError, match="not fitted"):
        eh.report(eh.ParityRegressor(), new.data, new.target, **options)
    with pytest.raises(ValueError, match="scores, group_proba"):
        eh.report(eh.ParityPostprocessor().fit(new.scores, new.group_proba), new.data, **options)
    with pytest.raises(ValueError, match=r"\.md or \.json"):
        eh.model_card(LinearRegression(), new.data, **{**options, "path": tmp_path / "card.txt"})


def test_without_jinja_the_way_out_is_named_before_any_work(model, rows, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "jinja2", None)
    with pytest.raises(ImportError, match=r"evenhand\[report\]"):
        eh.report(None, None, sensitive_features=None, path=tmp_path / "report.html")


def test_progress_is_told(model, rows, tmp_path):
    new, told = rows[1], []
    eh.report(
        model,
        new.data,
        new.target,
        sensitive_features=NAMES[new.sensitive_features],
        path=tmp_path / "report.html",
        n_tolerances=2,
        progress=lambda *what: told.append(what),
    )
    steps = [(done, total) for stage, done, total in told if stage == "other tolerances"]
    assert steps
    assert steps[-1][0] == steps[-1][1]
