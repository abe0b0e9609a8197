"""The paper's own splits, models and formulas, and whether the stored frames are those of one commit."""

import subprocess
from dataclasses import replace

import numpy as np
import pytest

from evenhand.datasets import make_paper_synthetic
from reproduction import published_tables
from reproduction.__main__ import main
from reproduction.analysis import curves, met_by_seed
from reproduction.comparison import compute_comparison
from reproduction.frames import read_about, to_columns
from reproduction.freshness import changes_since, check_frames, depends_on, digest_cells
from reproduction.parity_step import PaperStep
from reproduction.published import DATASETS, published
from reproduction.rows import prepare, prepare_bunch
from reproduction.studies import FULL, QUICK, STUDIES
from reproduction.variant import SOLVERS, SWITCHES, Variant, ablations
from tests.paper_form import stochastic_gradient

SEEDS = range(1, 11)  # of the published splits


@pytest.fixture(scope="module")
def small_rows():
    """A split of the paper's synthetic population; four groups, 20 unlabelled rows, 9 atoms."""
    bunch = make_paper_synthetic(200, random_state=0)
    return prepare_bunch(bunch, "published", 1)


@pytest.mark.parametrize("dataset", ["lawschool", "adult"])
def test_the_published_subsample_is_one_and_its_splits_are_80_10_10(dataset, data_home):
    first, second = (prepare(dataset, "published", seed) for seed in (1, 2))
    assert [len(part) for part in first.split] == [1600, 200, 200]
    together = [np.sort(np.concatenate(each.split)) for each in (first, second)]
    np.testing.assert_array_equal(*together)
    assert not np.array_equal(first.split.test, second.split.test)
    assert first.group_shares() == pytest.approx(second.group_shares())
    assert len(prepare("communities", "published", 1).split.unlabeled) == 198


@pytest.mark.slow
@pytest.mark.parametrize(("dataset", "exponent"), [("lawschool", 0.0), ("adult", 1.0)])
def test_the_published_base_model_and_loosest_point_are_met_to_the_last_digit(dataset, exponent, data_home):
    cells = [
        cell
        for cell in STUDIES["published"].cells(FULL)
        if cell.dataset == dataset
        and cell.method in ("base_on_grid", "variant_published")
        and cell["scheme"] == "published"
    ]
    measured = {"base_on_grid": [], "variant_published": []}
    for cell in cells:
        settings = dict(cell.settings) | {"exponents": (exponent,), "n_seeds": 1}
        one_point = replace(cell, settings=tuple(settings.items()))
        measured[cell.method] += compute_comparison(one_point)
    told = published(dataset)
    places = {"base_on_grid": (told.base_risk, told.base_ks), "variant_published": None}
    places["variant_published"] = told.ours.risk[0], told.ours.ks[0]
    for method, (risk, ks) in places.items():
        found = to_columns(measured[method])
        assert len(found["risk"]) == len(SEEDS)
        assert np.mean(found["risk"]) == pytest.approx(risk, abs=1e-5)
        assert np.mean(found["ks_minority"]) == pytest.approx(ks, abs=5e-5)


def plain_acsa(slope, w, mu, bound, rows, shift):
    """AC-SA with alpha = 2 / (t + shift); shift 1 is the paper's."""
    ag = w
    for t, row in enumerate(rows, start=1):
        alpha, gamma = 2 / (t + shift), 4 * bound / (t * (t + 1))
        below = gamma + (1 - alpha**2) * mu
        md = (1 - alpha) * (mu + gamma) / below * ag + alpha * ((1 - alpha) * mu + gamma) / below * w
        w = alpha * mu * md + ((1 - alpha) * mu + gamma) * w - alpha * slope(md, row)
        w = np.maximum(w / (mu + gamma), 0.0)
        ag = alpha * w + (1 - alpha) * ag
    return ag


class PlainVariant:
    """The published formulas as loops of NumPy over rows, on the paper's gradient."""

    def __init__(self, variant, step, budget, seed):
        self.variant, self.problem, self.budget = variant, step.problem, budget
        self.random, self.left = np.random.default_rng(seed), []
        prior = step.step.group_prior
        variance = sum((1 - share) / share for share in prior)
        self.bound = 2 * self.problem.temperature * variance
        self.mu = 2 * variance / self.problem.temperature if variant.theory_mu else self.bound / budget
        self.start = np.zeros((2, *self.problem.multipliers_shape))
        self.regularisers = []

    def draw(self, size):
        if not self.variant.passes:
            return self.random.integers(self.problem.n_rows, size=size).tolist()
        while len(self.left) < size:
            self.left += self.random.permutation(self.problem.n_rows).tolist()
        drawn, self.left = self.left[:size], self.left[size:]
        return drawn

    def slope(self, w, row):
        found = stochastic_gradient(self.problem, w, np.array([row]))
        return found + sum(mu * (w - centre) for mu, centre in self.regularisers)

    def stage(self, w, mu, bound, size):
        sizes = [size]
        if self.variant.solver.endswith("acsa2"):
            sizes = [size // 2] * 2 if self.variant.once else [size] * 2
        for each in sizes:
            w = plain_acsa(self.slope, w, mu, bound, self.draw(each), int(self.variant.late_step))
        return w

    def solve(self):
        if self.variant.solver == "sgd":
            w = self.start
            for row in self.draw(self.budget):
                w = np.maximum(w - self.slope(w, row) / self.bound, 0.0)
            return w
        if not self.variant.solver.startswith("sgd3"):
            return self.stage(self.start, self.mu, self.bound, self.budget)
        mu, w = self.mu, self.start
        bound = self.bound + mu
        n_stages = int(np.log2(bound / mu))
        if self.variant.first_regulariser:
            self.regularisers.append((mu, w))
        for _ in range(n_stages):
            start = w if self.variant.carry_on else self.start
            w = self.stage(start, mu, bound * (2 if self.variant.stage_bound else 1), self.budget // n_stages)
            mu *= 2
            self.regularisers.append((mu, w))
        return w


@pytest.mark.parametrize(
    "variant",
    [*(Variant(solver) for solver in SOLVERS), *(variant for _, variant in ablations())],
    ids=[*SOLVERS, *(name for name, _ in ablations())],
)
def test_the_published_formulas_are_their_loops(variant, small_rows):
    step = variant.step(small_rows, 0.02)
    budget, seed = 260, (3, 1)
    found = variant.solve(step, budget, seed).multipliers
    expected = PlainVariant(variant, step, budget, seed).solve()
    assert np.abs(found).max() > 1e-3
    np.testing.assert_allclose(found, expected[0] - expected[1], atol=1e-9)


def test_the_published_budget_is_spent_twice(small_rows):
    step = Variant().step(small_rows, 0.1)
    for variant, spent in ((Variant(), 29_978), (Variant(once=True), 14_976), (Variant("acsa2"), 30_000)):
        assert variant.solve(step, 15_000, 0).n_gradients == spent


def test_each_switch_is_named_on_the_page_and_turned_alone():
    found = dict(ablations())
    assert list(found) == ["published", *SWITCHES, "all"] == list(published_tables.SWITCHES)
    for name in SWITCHES:
        assert [getattr(found[name], each) for each in SWITCHES].count(True) == 1
    assert all(getattr(found["all"], each) for each in SWITCHES)


def test_shares_come_from_the_labels_of_the_split_or_from_the_probabilities(small_rows):
    labels, tau = (
        variant.step(small_rows, 0.1).step.group_prior for variant in (Variant(), Variant(tau_prior=True))
    )
    assert labels == pytest.approx(np.bincount(small_rows.groups) / len(small_rows.groups))
    own = PaperStep.of(small_rows, 0.1).step.group_prior
    np.testing.assert_array_equal(tau, own)
    assert not np.allclose(tau, labels)


def test_scores_beyond_the_target_are_taken_as_they_are(small_rows):
    step = PaperStep.of(small_rows, 0.1)
    far = np.array([small_rows.bounds[1] + 1.0])
    shares = np.full((1, 4), 0.25)
    pmf = step.policy(np.zeros(step.problem.multipliers_shape)).pmf(far, shares)
    unit = step.step.grid.half_width
    exponents = -step.step.beta * ((far - step.step.grid.atoms) / unit) ** 2
    expected = np.exp(exponents - exponents.max())
    np.testing.assert_allclose(pmf[0], expected / expected.sum(), rtol=1e-9)


def test_the_figures_of_the_five_solvers_are_the_published_ones():
    told = published("communities").solvers
    risks = {name: curve.risk[list(curve.exponents).index(6)] for name, curve in told.items()}
    assert set(told) == set(SOLVERS)
    assert [round(float(risks[name]), 4) for name in ("sgd", "acsa2", "sgd3+acsa", "sgd3+acsa2")] == [
        0.0297,
        0.0299,
        0.0328,
        0.0339,
    ]


def test_curves_of_several_seeds_are_their_mean_and_each_can_be_had():
    told = published("lawschool").ours
    rows = [
        {"dataset": "lawschool", "split": split, "method": "variant_published", "scheme": "published"}
        | {"epsilon": 2.0**-exponent, "seed": seed, "ks_minority": ks, "risk": risk + 9.0 * seed}
        for split in (1, 2)
        for exponent, ks, risk in zip(told.exponents, told.ks, told.risk, strict=True)
        for seed in (0, 1)
    ]
    frame = to_columns(rows)
    both = curves(frame, "lawschool", "published", "variant_published")
    first = curves(frame, "lawschool", "published", "variant_published", seed=0)
    assert both.risk.shape == first.risk.shape == (2, len(told.exponents))
    np.testing.assert_allclose(both.risk, first.risk + 4.5)
    assert met_by_seed(frame, "lawschool", "by the published formulas", 0.5) == [11, 0]


def test_a_frame_depends_on_what_its_cells_import_and_on_nothing_that_draws():
    solvers, comparison = (depends_on(f"reproduction.{name}") for name in ("convergence", "comparison"))
    names = {path.name for path in solvers}
    assert {"convergence.py", "variant.py", "sgd3.py", "schedules.py", "objective.py", "files.py"} <= names
    assert not {"page.py", "figures.py", "analysis.py", "regressor.py", "adw.py"} & names
    assert {"regressor.py", "adw.py", "calibration.py", "batch.py"} & {path.name for path in comparison} == {
        "regressor.py",
        "adw.py",
        "batch.py",
    }


def test_sources_that_changed_since_a_commit_are_named(tmp_path):
    def git(*arguments):
        who = ["-c", "user.name=a", "-c", "user.email=a@b"]
        done = subprocess.run(
            ["git", *who, *arguments], cwd=tmp_path, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    git("init")
    for name in ("one.py", "two.py"):
        (tmp_path / name).write_text("1")
    git("add", ".")
    git("commit", "-m", "first")
    first = git("rev-parse", "--short=12", "HEAD")
    assert list(changes_since(first, ["one.py", "two.py"], tmp_path)) == []
    (tmp_path / "two.py").write_text("2")
    said = "older than 1 of the 2 files that it depends on: two.py"
    assert list(changes_since(first, ["one.py", "two.py"], tmp_path)) == [said]
    git("commit", "-am", "second")
    assert list(changes_since(first, ["one.py", "two.py"], tmp_path)) == [said]
    assert list(changes_since(first, ["one.py"], tmp_path)) == []
    assert list(changes_since("unknown", ["one.py"], tmp_path)) == ["unknown is no commit of this checkout"]
    assert list(changes_since(f"{first}-dirty", ["one.py"], tmp_path)) == [
        "it was made with changes that were in no commit"
    ]


def test_check_names_every_study_and_ends_with_one_if_a_frame_is_missing(tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--check", "--out", str(tmp_path)])
    assert ended.value.code == 1
    told = capsys.readouterr().out.splitlines()
    assert told == [f"{name}: not made, reproduction-{name}.csv is missing" for name in STUDIES]


def test_other_settings_have_another_digest():
    cells = [list(STUDIES["synthetic"].cells(FULL)), list(STUDIES["timing"].cells(FULL))]
    cells.append(list(STUDIES["timing"].cells(QUICK)))
    assert len({digest_cells(each) for each in cells}) == 3
    assert digest_cells(cells[0]) == digest_cells(cells[0][::-1])


def test_all_frames_of_the_page_are_of_one_command_one_scale_and_one_commit(project_root):
    results = sorted(project_root.glob("docs/results/reproduction-*.csv"))
    if not results:
        pytest.skip("no frames: the docs are not part of this copy")
    abouts = [read_about(path) for path in results]
    assert {about["study"] for about in abouts} == set(STUDIES)
    assert {about["command"] for about in abouts} == {"make reproduce"}
    assert {about["scale"] for about in abouts} == {"full"}
    commits = {commit for about in abouts for commit in about["computed_at"]}
    assert len(commits) == 1
    assert not next(iter(commits)).endswith("-dirty")
    for state in check_frames(project_root / "docs"):
        assert "its settings have changed" not in state.reasons


def test_the_published_splits_are_studied_with_the_published_seeds():
    for name in ("published", "solvers", "convergence"):
        cells = [cell for cell in STUDIES[name].cells(FULL) if cell["scheme"] == "published"]
        assert {cell.dataset for cell in cells} == set(DATASETS)
        assert {cell.split for cell in cells} == set(SEEDS)
    budget = {cell["budget"] for cell in STUDIES["synthetic"].cells(FULL)}
    assert (budget, {cell["epsilon"] for cell in STUDIES["synthetic"].cells(FULL)}) == ({50_000}, {1e-6})
