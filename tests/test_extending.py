"""Notions and costs from outside the package, as docs/how-to/extending.md prints them, taken all the way."""

import importlib
import re
import shlex
import sys
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import linprog
from sklearn.base import clone

import evenhand as eh
from evenhand.dual.costs import COSTS
from evenhand.dual.parity import PARITIES
from evenhand.solvers import SOLVERS, Status

# the file that a section begins with
MODULES = {"A new parity notion": "cutoffs", "A new cost": "relative", "A new solver": "proximal"}
CUTOFFS = (0.0, 0.3)
BETA = 20_000.0


@pytest.fixture(scope="module")
def sections(project_root):
    """Blocks of code of each section, as (language, text)."""
    page = (project_root / "docs" / "how-to" / "extending.md").read_text()
    parts = (part.partition("\n") for part in page.split("\n## ")[1:])
    return {title: re.findall(r"```(\w+)\n(.*?)```", text, re.DOTALL) for title, _, text in parts}


@pytest.fixture
def outside(sections, tmp_path, monkeypatch):
    """An empty folder with the modules of the page; what they register is forgotten afterwards."""
    registries = [(registry, dict(registry)) for registry in (PARITIES, COSTS, SOLVERS)]
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for title, name in MODULES.items():
        (tmp_path / f"{name}.py").write_text(sections[title][0][1])
    yield tmp_path
    for registry, before in registries:
        registry.clear()
        registry.update(before)
    for name in MODULES.values():
        sys.modules.pop(name, None)


def take_all_the_way(section, run):
    """Run the blocks of a section in their order; what they leave behind, and what commands print."""
    names, told = {}, []
    for language, text in section[1:]:
        if language == "python":
            exec(text, names)
        else:
            for line in text.strip().splitlines():
                outcome = run(*shlex.split(line.removeprefix("$ evenhand ")))
                assert outcome.code == 0, outcome.err
                told.append(outcome.out)
    return names, told


def check_saved(names):
    """The model that came back from its file is the one that was saved."""
    model, again, rows = names["model"], names["again"], names["new"].data[:50]
    np.testing.assert_array_equal(again.predict_pmf(rows), model.predict_pmf(rows))
    again.partial_fit(names["first"].data)


def gaps_above(pmf, atoms, groups, cutoffs=CUTOFFS):
    """Largest difference in the share above a cutoff between each group and everybody, by its definition."""
    above = np.array([pmf[:, atoms > cutoff].sum(axis=1) for cutoff in cutoffs])
    return {
        group: np.abs(above[:, groups == group].mean(axis=1) - above.mean(axis=1)).max()
        for group in np.unique(groups).tolist()
    }


def best_risk(costs, proba, rows, epsilon):
    """Smallest expected cost with `|rows @ (difference of distributions)| <= epsilon`, written out."""
    n_rows, n_atoms = costs.shape
    weights = 1.0 / n_rows - proba.T / proba.sum(axis=0)[:, None]
    limits = np.array([np.outer(weight, row).ravel() for weight in weights for row in rows])
    found = linprog(
        costs.ravel() / n_rows,
        A_ub=np.vstack([limits, -limits]),
        b_ub=np.full(2 * len(limits), epsilon),
        A_eq=np.kron(np.eye(n_rows), np.ones(n_atoms)),
        b_eq=np.ones(n_rows),
    )
    assert found.status == 0
    return found.fun


@pytest.mark.parametrize("title", MODULES)
def test_an_example_is_shorter_than_sixty_lines(sections, title):
    assert sum(text.count("\n") for _, text in sections[title]) < 60


def test_a_notion_goes_all_the_way(sections, outside, run):
    names, told = take_all_the_way(sections["A new parity notion"], run)
    new, atoms, found = names["new"], names["atoms"], names["found"]
    groups = new.sensitive_features
    by_hand = gaps_above(names["pmf"], atoms, groups)
    measured = dict(zip(found.groups, found.measures["share_above"].estimate, strict=True))
    assert measured == pytest.approx(by_hand, rel=1e-9)
    assert eh.metrics.unfairness(names["pmf"], groups, atoms, metric="share_above") == pytest.approx(by_hand)
    assert names["sentences"][0].startswith("Gap above a cutoff for group")
    for model, largest in zip(names["path"].models, names["shown"]["max_share_above"], strict=True):
        pmf, grid = model.predict_pmf(new.data), model.atoms_
        assert largest == pytest.approx(max(gaps_above(pmf, grid, groups).values()))
    card, page = (outside / "card.md").read_text(), (outside / "report.html").read_text()
    for text in (card, page):
        assert "The gap of a group is the largest difference in the share above a cutoff." in text
    after = gaps_above(names["model"].predict_pmf(new.data), atoms, groups)
    assert f"with a gap of {max(after.values()):.3g}" in card
    assert names["model"].stream_.n_rows == len(new.data)
    check_saved(names)
    fitted, audited, reported = told
    assert "Parity 'share_above': at most 0.05 on new data." in fitted
    assert "share_above before" in fitted
    assert "Largest gap above a cutoff between a group and everybody" in audited
    assert "page.html" in reported


def test_a_solver_goes_all_the_way(sections, outside, run):
    people = eh.datasets.make_population(1000, n_groups=2, random_state=0)
    table = pd.DataFrame(people.data, columns=people.feature_names)
    table.assign(outcome=people.target, group=people.sensitive_features).to_csv("people.csv", index=False)
    names, told = take_all_the_way(sections["A new solver"], run)
    model, new = names["model"], names["new"]
    assert [point.status for point in names["path"].points] == [Status.CONVERGED] * 2
    for found in names["path"].models:  # against another solver, on the same models
        exact = clone(found).set_params(solver="batch").fit(*names["rows"], **names["groups"])
        ours, theirs = found.certificate_, exact.certificate_
        assert ours.excess.max() <= 1e-3
        assert ours.risk == pytest.approx(theirs.risk, abs=1e-3)
    assert names["found"].n_rows == len(new.data)
    for name in ("report.html", "card.md"):
        assert "proximal, " in (outside / name).read_text()
    assert again_equals(names)
    more = eh.datasets.make_population(6000, n_groups=2, random_state=1)
    assert model.partial_fit(more.data).result_.solver == "stream of proximal"
    assert model.certificate_.excess.max() <= 0.02
    assert "Parity 'cdf'" in told[0]


def again_equals(names):
    """Whether the model that came back has the solver and the predictions of the one that was saved."""
    rows = names["new"].data[:50]
    same = np.array_equal(names["again"].predict_pmf(rows), names["model"].predict_pmf(rows))
    return same and names["again"].solver == names["model"].solver


def test_a_cost_goes_all_the_way(sections, outside, run):
    names, told = take_all_the_way(sections["A new cost"], run)
    new, atoms, pmf = names["new"], names["atoms"], names["pmf"]
    scale = np.maximum(np.abs(new.target), 0.2)[:, None]
    costs = np.abs(new.target[:, None] - atoms) / scale
    risk = (pmf * costs).sum(axis=1)
    measured = dict(zip(names["found"].groups, names["found"].measures["risk"].estimate, strict=True))
    assert measured == pytest.approx({s: risk[new.sensitive_features == s].mean() for s in (0, 1)})
    for model, shown in zip(names["path"].models, names["shown"]["risk"], strict=True):
        assert shown == pytest.approx((model.predict_pmf(new.data) * costs).sum(axis=1).mean())
    assert "Mean relative error went from" in (outside / "card.md").read_text()
    assert "Mean relative error" in (outside / "report.html").read_text()
    assert names["model"].stream_.n_rows == len(new.data)
    check_saved(names)
    for out in told[:2]:
        assert "Risk (mean relative error)" in out


def test_the_command_line_takes_a_cost_by_its_name(outside, run):
    frame = eh.datasets.make_population(400, n_groups=2, random_state=0)
    table = np.column_stack([frame.data, frame.target, frame.sensitive_features])
    head = ",".join([*frame.feature_names, "outcome", "group"])
    np.savetxt(outside / "people.csv", table, delimiter=",", header=head, comments="")
    asked = ("frontier", "people.csv", "-y", "outcome", "-s", "group", "--plugin", "relative", "--json")
    outcome = run(*asked, "--cost", "relative:0.2", "--epsilon", "0.05,0.5")
    assert outcome.code == 0, outcome.err
    assert outcome.facts["points"][0]["risk"] > outcome.facts["points"][1]["risk"] > 0
    outcome = run(*asked, "--cost", "relative")
    assert outcome.code == 2
    assert "--cost relative:NUMBER needs a positive floor" in outcome.err


def test_a_notion_meets_its_tolerance_at_the_risk_of_the_linear_program(outside):
    notion = importlib.import_module("cutoffs").ShareAbove(CUTOFFS)
    rows = eh.datasets.make_population(80, n_groups=3, random_state=3)
    model = eh.ParityPostprocessor(parity=notion, epsilon=0.02, atoms=9, bounds=(-1, 1), beta=BETA)
    pmf = model.fit(rows.scores, rows.group_proba).predict_pmf(rows.scores, rows.group_proba)
    costs = (rows.scores[:, None] - model.atoms_) ** 2
    shares = np.array([model.atoms_ > cutoff for cutoff in CUTOFFS], dtype=float)
    best = best_risk(costs, rows.group_proba, shares, 0.02)
    weights = rows.group_proba / rows.group_proba.sum(axis=0) - 1.0 / len(pmf)
    violation = np.abs(shares @ pmf.T @ weights).max(axis=0)
    assert violation.max() == pytest.approx(0.02, abs=2e-5)
    np.testing.assert_allclose(model.certificate_.violation, violation, atol=1e-9)
    assert (pmf * costs).sum(axis=1).mean() == pytest.approx(best, rel=5e-3)
    model.set_params(solver="lp").fit(rows.scores, rows.group_proba)
    unit = model.policy_.cost.unit(model.policy_.grid)
    assert unit * model.result_.exact_risk == pytest.approx(best, rel=1e-6)  # of `evenhand.solvers.solve_lp`


def test_a_cost_comes_to_the_risk_of_the_linear_program(outside):
    cost = importlib.import_module("relative").Relative(0.2)
    rows = eh.datasets.make_population(60, n_groups=2, random_state=4)
    model = eh.ParityPostprocessor(cost=cost, epsilon=0.02, atoms=7, bounds=(-1, 1), beta=BETA)
    pmf = model.fit(rows.scores, rows.group_proba).predict_pmf(rows.scores, rows.group_proba)
    scale = np.maximum(np.abs(rows.scores), 0.2)[:, None]
    costs = np.abs(rows.scores[:, None] - model.atoms_) / scale
    best = best_risk(costs, rows.group_proba, np.tri(6, 7), 0.02)
    risk = (pmf * costs).sum(axis=1).mean()
    assert risk == pytest.approx(best, rel=5e-3)
    assert model.certificate_.risk == pytest.approx(risk, rel=1e-9)  # in the units of the cost
    model.set_params(solver="lp").fit(rows.scores, rows.group_proba)
    unit = model.policy_.cost.unit(model.policy_.grid)
    assert unit * model.result_.exact_risk == pytest.approx(best, rel=1e-6)  # of `evenhand.solvers.solve_lp`


@dataclass(frozen=True)
class OwnW1(eh.parity.ParityNotion):
    """Wasserstein-1, as somebody from outside would write it."""

    name = "own_w1"
    in_outcome_units = True

    def operator(self, atoms):
        return np.tri(len(atoms) - 1, len(atoms)) * np.diff(atoms)[:, None]

    def norm(self, atoms):
        return eh.parity.L1Norm()


@dataclass(frozen=True)
class OwnSquared(eh.costs.Cost):
    """The squared cost, as a table."""

    def table(self, scores, atoms):
        return (scores[:, None] - atoms) ** 2


def test_a_notion_in_outcome_units_is_what_the_built_in_one_is():
    rows = eh.datasets.make_population(1500, n_groups=2, random_state=5)
    scores = 1000.0 + 50.0 * rows.scores
    own, built_in = (
        eh.ParityPostprocessor(parity=parity, epsilon=1.5, atoms=15, tol=1e-9).fit(scores, rows.group_proba)
        for parity in (OwnW1(), "w1")
    )
    pmf = own.predict_pmf(scores, rows.group_proba)
    np.testing.assert_allclose(pmf, built_in.predict_pmf(scores, rows.group_proba), atol=1e-3)
    np.testing.assert_allclose(own.certificate_.violation, built_in.certificate_.violation, atol=1e-4)
    groups = rows.sensitive_features
    for prediction, atoms in ((pmf, own.atoms_), (scores, None)):
        measured = eh.metrics.unfairness(prediction, groups, atoms, metric=OwnW1())
        assert measured == pytest.approx(eh.metrics.w1_unfairness(prediction, groups, atoms))
    wide = eh.metrics.unfairness_interval(scores[:4], groups[:4], metric=OwnW1())
    assert wide.high == pytest.approx(np.ptp(scores[:4]))  # so few rows tell nothing: all that is possible


def test_a_cost_as_a_table_is_what_the_built_in_one_is():
    rows = eh.datasets.make_population(500, n_groups=2, random_state=6)
    own, built_in = (
        eh.ParityPostprocessor(cost=cost, epsilon=0.02, atoms=15).fit(rows.scores, rows.group_proba)
        for cost in (OwnSquared(), "squared")
    )
    assert own.certificate_.risk == pytest.approx(built_in.certificate_.risk, rel=1e-5)
    truth = rows.target[:, None] * np.ones((1, 3))
    values = np.round(truth + 0.3 * np.arange(3), 1)
    np.testing.assert_allclose(OwnSquared().loss(truth, values), (truth - values) ** 2, rtol=1e-12)
    own.partial_fit(rows.scores, rows.group_proba)
    with pytest.raises(ValueError, match="cost differs from the cost that the stream began with"):
        own.set_params(cost="squared").partial_fit(rows.scores, rows.group_proba)


def test_a_notion_needs_no_registration_to_be_passed_as_an_object(outside):
    notion = importlib.import_module("cutoffs").ShareAbove((0.1,))
    PARITIES.pop("share_above")
    rows, new = (eh.datasets.make_population(600, n_groups=2, random_state=seed) for seed in (7, 8))
    step = eh.ParityPostprocessor(parity=notion, epsilon=0.05).fit(rows.scores, rows.group_proba)
    step.partial_fit(new.scores, new.group_proba)
    groups, pmf = new.sensitive_features, step.predict_pmf(new.scores, new.group_proba)
    by_hand = gaps_above(pmf, step.atoms_, groups, (0.1,))
    assert eh.metrics.unfairness(pmf, groups, step.atoms_, metric=notion) == pytest.approx(by_hand)
    scored = (new.scores, new.group_proba)
    card = eh.model_card(step, scored, sensitive_features=groups, path=outside / "card.md").read_text()
    assert f"with a gap of {max(by_hand.values()):.3g}" in card
    held = {"scores": new.scores, "group_proba": new.group_proba, "sensitive_features": groups}
    assert len(eh.frontier(step, rows.scores, rows.group_proba, epsilons=[0.1], test=held).models) == 1
    sensitive = eh.certificates.certify_plugin(step, groups, scores=scored[0], group_proba=scored[1])
    assert (sensitive.violation_bound >= step.certificate_.violation).all()
    classes = eh.datasets.make_class_population(400, random_state=0)
    decided = eh.ParityClassifier(parity=notion).fit(
        classes.data, classes.target, sensitive_features=classes.sensitive_features
    )
    assert decided.certificate_.parity == "share_above"
    with pytest.raises(ValueError, match="the stream began with"):
        step.set_params(parity="cdf").partial_fit(new.scores, new.group_proba)


class Nameless(OwnW1):
    """A notion without a name."""

    name = ""


class Taken(OwnW1):
    """A notion with the name of a distance."""

    name = "ks"


class Wandering(OwnW1):
    """A notion whose distance is nobody's."""

    metric = "distance"


class Crooked(OwnW1):
    """A notion whose operator has too many columns."""

    def operator(self, atoms):
        return np.ones((2, len(atoms) + 1))


@pytest.mark.parametrize(
    ("parity", "words"),
    [
        (
            "own_w1",
            "Unknown parity 'own_w1'. Valid names: cdf, mean, pmf, thresholds, tv, w1.*register_parity",
        ),
        (OwnW1, "or a notion of a class that extends"),
        (Nameless(), "needs a name"),
        (Taken(), "'ks' is taken by evenhand itself"),
        (Wandering(), "must be its own name, or one of ks, sup, mean, tv, w1: got 'distance'"),
        (Crooked(), r"a column for each of the 5 atoms: got shape \(2, 6\)"),
    ],
    ids=str,
)
def test_what_is_no_notion_is_refused_with_the_reason(parity, words):
    with pytest.raises(ValueError, match=words):
        eh.ParityPostprocessor(parity=parity, atoms=5).fit([0.0, 1.0, 2.0], np.full((3, 2), 0.5))


def test_a_table_of_the_wrong_shape_is_refused():
    class Turned(OwnSquared):
        def table(self, scores, atoms):
            return np.zeros(3)

    with pytest.raises(ValueError, match="one row for each score and one column for each atom"):
        eh.ParityPostprocessor(cost=Turned(), atoms=5).fit([0.0, 1.0, 2.0], np.full((3, 2), 0.5))


@pytest.mark.parametrize("way", ["option", "variable", "entry point"])
def test_the_command_line_finds_plugins(outside, run, monkeypatch, way):
    asked = ["fit", "nowhere.csv", "-y", "outcome", "-s", "group", "--parity", "share_above"]
    assert "--parity is one of" in run(*asked).err
    if way == "option":
        asked += ["--plugin", "cutoffs"]
    elif way == "variable":
        monkeypatch.setenv("EVENHAND_PLUGINS", "relative, cutoffs")
    else:
        folder = outside / "plug-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: plug\nVersion: 1.0\n")
        (folder / "entry_points.txt").write_text("[evenhand.plugins]\ncutoffs = cutoffs\n")
    assert "nowhere.csv" in run(*asked).err  # the name is known, and the file is looked for


@pytest.mark.parametrize("name", ["no_such_module", "broken", "not a name"])
def test_a_plugin_that_cannot_be_imported_is_one_line(outside, run, name):
    (outside / "broken.py").write_text("def f(:\n")
    outcome = run("info", "nowhere.evenhand", "--plugin", name)
    assert outcome.code == 2
    assert outcome.err.startswith(f"evenhand: --plugin {name} cannot be imported: ")
    assert outcome.err.count("\n") == 1


def test_the_command_line_checks_the_name_of_a_solver_before_any_work(run):
    asked = ("fit", "nowhere.csv", "-y", "outcome", "-s", "group", "--solver")
    assert f"--solver is one of {', '.join(SOLVERS)}: got 'simplex'" in run(*asked, "simplex").err
    assert "nowhere.csv" in run(*asked, "lbfgs").err
