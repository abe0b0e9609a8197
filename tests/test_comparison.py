"""The comparison with other libraries: its measures, its matching, and its page from what is stored."""

import re

import numpy as np
import pytest

import evenhand as eh
from benchmarks.peers.matching import CONSTANT, OURS, PLAIN, Panel, Point, lower_hull, panels
from benchmarks.peers.measure import Decisions, Pmf, Values, measure
from benchmarks.peers.page import PAGE, render
from benchmarks.peers.pictures import FIGURES, pictures
from benchmarks.peers.store import FULL, Results
from benchmarks.peers.summary import judge
from benchmarks.peers.words import WHY

N_SEEDS = 5


@pytest.fixture(scope="module")
def rows():
    return eh.datasets.make_population(4000, 3, random_state=0)


@pytest.fixture(scope="module")
def stored():
    return Results.read(FULL)


def point(method, risk, distance, *, knob=0.0, spread=0.0, seed=0):
    rng = np.random.default_rng(seed)
    squares = np.full(N_SEEDS, distance**2)
    return Point(
        method, knob, range(N_SEEDS), risk + spread * rng.standard_normal(N_SEEDS), squares, None, 1.0
    )


def panel(*peers, spread=0.0):
    ours = [
        point(OURS, 0.5, 0.02, knob=0.02, spread=spread),
        point(OURS, 0.3, 0.1, knob=0.1, spread=spread, seed=1),
    ]
    return Panel(
        "regression",
        "aware",
        "data",
        "linear",
        (point(PLAIN, 0.2, 0.3), point(CONSTANT, 1.0, 0.0), *ours, *peers),
    )


def test_a_distribution_and_its_values_have_the_distance_of_the_package(rows):
    values, groups = np.round(rows.scores, 2), rows.sensitive_features
    atoms, places = np.unique(values, return_inverse=True)
    expected = max(eh.metrics.ks_unfairness(values, groups).values())
    drawn = Values(values[:, None], np.ones(1)).distance(groups)
    known = Pmf(atoms, np.eye(len(atoms))[places]).distance(groups)
    assert drawn.seen == pytest.approx(expected, abs=1e-12)
    assert known.seen == pytest.approx(expected, abs=1e-12)
    assert drawn.chance == pytest.approx(known.chance, abs=1e-12)
    assert 0.0 < drawn.chance < 0.1


def test_a_mixture_of_models_has_the_risk_and_the_distance_of_its_distribution(rows):
    groups, rng = rows.sensitive_features, np.random.default_rng(0)
    atoms, weights = np.linspace(-1, 1, 21), np.array([0.2, 0.5, 0.3])
    places = rng.integers(0, 21, (4000, 3)) // (1 + (groups[:, None] == 0))
    pmf = sum(weight * np.eye(21)[places[:, model]] for model, weight in enumerate(weights))
    mixed, known = Values(atoms[places], weights), Pmf(atoms, pmf)
    assert mixed.risk(rows.target) == pytest.approx(eh.metrics.risk(rows.target, pmf, atoms))
    assert mixed.risk(rows.target) == pytest.approx(known.risk(rows.target))
    assert mixed.distance(groups).seen == pytest.approx(max(eh.metrics.ks_unfairness(pmf, groups).values()))


def test_decisions_are_measured_as_the_package_measures_them(rows):
    chances = np.random.default_rng(0).uniform(size=4000)
    y, both = (rows.target > 0.2).astype(int), np.column_stack([1 - chances, chances])
    found = measure(Decisions(chances), y, rows.sensitive_features)
    assert found["risk"] == pytest.approx(1 - eh.metrics.accuracy(y, both, [0, 1]))
    assert found["distance"] == pytest.approx(
        max(eh.metrics.decision_gaps(both, rows.sensitive_features).values())
    )
    assert found["rate"] == pytest.approx(chances.mean())


def test_chance_is_what_equal_groups_show():
    """Over many draws of groups without any part in the predictions, net distances vanish on average."""
    rng = np.random.default_rng(0)
    values = Values(rng.standard_normal((500, 1)), np.ones(1))
    found = [values.distance(rng.integers(0, 2, 500), rng) for _ in range(100)]
    seen, chance = (np.array([getattr(each, name) ** 2 for each in found]) for name in ("seen", "chance"))
    assert seen.mean() == pytest.approx(chance.mean(), rel=0.2)


def test_the_curve_is_the_lower_hull_of_coin_flips():
    rng = np.random.default_rng(0)
    points = rng.uniform(size=(30, 2))
    distances, risks = lower_hull([tuple(each) for each in points])
    assert (np.diff(risks) < 0).all()
    assert (np.diff(np.diff(risks) / np.diff(distances)) > 0).all()
    inside = points[:, 0] >= distances[0]
    assert (points[inside, 1] >= np.interp(points[inside, 0], distances, risks) - 1e-12).all()


@pytest.mark.parametrize(
    ("risk", "distance", "difference"),
    [
        (0.4, 0.06, 0.0),  # half way between our two points
        (0.9, 0.01, 0.75 - 0.9),  # half way from the constant to our strictest
        (0.1, 0.4, 0.2 - 0.1),  # beyond the model without parity, which then stands for ours
    ],
)
def test_a_peer_is_compared_at_its_own_distance(risk, distance, difference):
    peer = point("peer", risk, distance)
    assert panel(peer).compare(peer).difference == pytest.approx(difference)


def test_verdicts_are_by_the_sign_of_the_interval_and_a_peers_win_is_one():
    better, equal, worse = (point("peer", risk, 0.06, spread=0.01, seed=4) for risk in (0.3, 0.4, 0.5))
    found = panel(better, equal, worse, spread=0.01)
    assert [found.compare(each).verdict for each in (better, equal, worse)] == ["behind", "level", "ahead"]


def test_the_interval_of_a_plain_mean_is_students():
    peer = point("peer", 0.4, 0.06, spread=0.02, seed=3)
    found = panel(peer).compare(peer)
    assert found.half_width == pytest.approx(2.776 * peer.risks.std(ddof=1) / np.sqrt(N_SEEDS), rel=1e-3)


def test_the_page_is_what_the_stored_results_give(stored):
    assert PAGE.read_text() == render(stored), "run `make peers ARGS=--page`"


def test_every_picture_of_the_page_is_there_and_every_method_has_its_words(stored):
    shown = set(re.findall(r"figures/([\w.-]+)", PAGE.read_text()))
    assert shown == {name for _, _, name in pictures(stored)}
    assert all((FIGURES / name).stat().st_size > 10_000 for name in shown)
    assert {each["name"] for each in stored.methods} == {name for name, text in WHY.items() if text}


def test_every_peers_win_is_on_the_page(stored):
    behind = [each for each in judge(stored) if each.comparison.verdict == "behind"]
    listed = re.findall(
        r"^\| (?:regression|classification), (?:un)?aware, .*\*\*\+", PAGE.read_text(), re.MULTILINE
    )
    assert len(listed) == len(behind)


def test_every_cell_has_every_split(stored):
    assert stored.about["seeds"] >= 4
    for found in panels(stored):
        for method in (OURS, PLAIN, CONSTANT):
            assert all(len(each.risks) == stored.about["seeds"] for each in found.of(method))
        assert len(found.of(OURS)) == 9
