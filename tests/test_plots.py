"""Displays: the numbers are in the frame, and the picture shows them."""

import sys
from dataclasses import FrozenInstanceError, replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ks_2samp

from evenhand.calibration import diagnose_calibration
from evenhand.datasets import make_population
from evenhand.estimators.postprocessor import ParityPostprocessor
from evenhand.evaluation.frontier import frontier
from evenhand.history import History
from evenhand.metrics import ks_unfairness, risk
from evenhand.plots import (
    CalibrationDisplay,
    ConvergenceDisplay,
    DistributionDisplay,
    FrontierDisplay,
    MovementDisplay,
    TiltDisplay,
)
from evenhand.solvers import Batch, Sgd


def display(n_points=20):
    """A frontier on the half circle, the crowded end included."""
    epsilon = np.append(0.0, np.geomspace(0.002, 0.4, n_points - 1))
    return FrontierDisplay(
        epsilon=epsilon,
        risk=0.04 - 0.02 * np.sqrt(1 - (epsilon / 0.5 - 1) ** 2),
        unfairness=0.03 + epsilon,
        base_risk=0.019,
        base_unfairness=0.45,
    )


@pytest.fixture
def axes():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    pyplot = pytest.importorskip("matplotlib.pyplot")
    figure, ax = pyplot.subplots()
    yield ax
    pyplot.close(figure)


def test_the_frame_holds_the_points_and_then_the_base():
    shown = display()
    frame = shown.frame("pandas")
    assert isinstance(frame, pd.DataFrame)
    np.testing.assert_array_equal(frame["epsilon"][:-1], shown.epsilon)
    assert np.isnan(frame["epsilon"].iloc[-1])
    assert frame["risk"].iloc[-1] == shown.base_risk
    assert frame["unfairness"].tolist()[-1] == shown.base_unfairness


def test_the_picture_shows_every_point_and_the_base_in_the_axes_given(axes):
    shown = display().plot(axes)
    assert shown.ax_ is axes
    assert shown.figure_ is axes.figure
    line, base = axes.get_lines()
    np.testing.assert_array_equal(line.get_xdata(), shown.unfairness)
    np.testing.assert_array_equal(line.get_ydata(), shown.risk)
    assert (base.get_xdata()[0], base.get_ydata()[0]) == (0.45, 0.019)
    assert "KS distance" in axes.get_xlabel()
    assert "Risk" in axes.get_ylabel()
    assert axes.get_title(loc="left")


def test_labels_of_epsilon_do_not_cover_each_other(axes):
    shown = display().plot(axes)
    axes.figure.canvas.draw()
    boxes = [text.get_window_extent() for text in axes.texts]
    assert {text.get_text() for text in axes.texts} >= {"base model", "ε = 0", "0.4"}
    assert 5 < len(boxes) <= len(shown.epsilon)
    assert not any(one.overlaps(other) for i, one in enumerate(boxes) for other in boxes[:i])


def test_a_single_point_is_drawn_too(axes):
    one = FrontierDisplay(np.zeros(1), np.ones(1), np.zeros(1), 1.0, 0.0).plot(axes)
    assert len(one.ax_.get_lines()) == 2


def test_a_frontier_draws_itself(axes):
    rows = make_population(300, n_groups=2, random_state=0)
    path = frontier(ParityPostprocessor(), rows.scores, rows.group_proba, epsilons=[0.01, 0.1])
    shown = path.plot(axes)
    np.testing.assert_array_equal(shown.unfairness, path.max_ks)
    assert "distance to the scores" in axes.get_ylabel()


def test_without_matplotlib_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"pip install 'evenhand\[plot\]'"):
        display().plot()


def rows_of(n_rows=400, n_groups=3, seed=0):
    """Scores with ties, labels, and a pmf over seven atoms."""
    rng = np.random.default_rng(seed)
    labels = np.array([f"group {place}" for place in range(n_groups)])[np.arange(n_rows) % n_groups]
    scores = np.round(rng.normal(0.3 * (np.arange(n_rows) % n_groups), 1.0), 1)
    pmf = rng.dirichlet(np.ones(7), size=n_rows)
    return scores, pmf, np.linspace(-2.0, 2.0, 7), labels


def all_displays(n_groups=3):
    """One of each, by name."""
    scores, pmf, atoms, labels = rows_of(n_groups=n_groups)
    rng = np.random.default_rng(1)
    count = np.full((n_groups, 5), 50)
    proba = np.sort(rng.uniform(size=(n_groups, 5)))
    return {
        "distribution": DistributionDisplay.from_predictions(scores, pmf, labels, atoms=atoms),
        "frontier": display(),
        "convergence": ConvergenceDisplay.from_runs(
            {f"solver {place}": ([10, 100, 1000], [0.1, 0.2, 0.3], [0.3, 0.1, 0.05]) for place in range(4)},
            epsilon=0.05,
        ),
        "calibration": CalibrationDisplay.from_curves(np.unique(labels), proba, proba**2, count),
        "tilt": TiltDisplay.from_tilt(
            atoms, rng.normal(size=(7, n_groups)), np.full(n_groups, 1 / n_groups), np.unique(labels)
        ),
        "movement": MovementDisplay.from_predictions(scores, pmf, labels, atoms=atoms),
    }


NAMES = tuple(all_displays())


def overlaps(axes):
    """Pairs of texts that cover each other: titles, names of the axes, notes and legends."""
    figure = axes[0].figure
    figure.canvas.draw()
    texts = list(figure.texts)
    for ax in axes:
        texts += [*ax.texts, ax.xaxis.label, ax.yaxis.label, ax._left_title]
        texts += [] if ax.get_legend() is None else ax.get_legend().get_texts()
    boxes = [
        (text.get_text(), text.get_window_extent().padded(-1.0)) for text in texts if text.get_text().strip()
    ]
    return [(a, b) for i, (a, one) in enumerate(boxes) for b, other in boxes[:i] if one.overlaps(other)]


@pytest.mark.parametrize("name", NAMES)
def test_a_display_draws_in_the_axes_given(name, axes):
    shown = all_displays()[name]
    assert shown.plot(axes) is shown
    assert shown.ax_ is axes
    assert shown.figure_ is axes.figure
    assert axes.get_title(loc="left")
    assert axes.get_xlabel()
    axes.figure.canvas.draw()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("n_groups", [2, 3, 5, 8])
def test_a_display_of_its_own_has_no_label_over_another(name, n_groups, axes):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    shown = all_displays(n_groups)[name].plot()
    panels = np.atleast_1d(shown.ax_).ravel()
    assert all(panel.figure is shown.figure_ for panel in panels)
    assert shown.figure_ is not axes.figure
    assert overlaps(panels) == []
    pyplot.close(shown.figure_)


@pytest.mark.parametrize("name", NAMES)
def test_a_display_is_a_frozen_record(name):
    shown = all_displays()[name]
    with pytest.raises(FrozenInstanceError):
        shown.title = "another"
    assert len(shown.frame("polars")) == len(shown.frame("pandas")) > 0


@pytest.mark.parametrize("name", NAMES)
def test_every_display_names_the_extra_that_is_missing(name, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"Plotting needs .* pip install 'evenhand\[plot\]'"):
        all_displays()[name].plot()


def test_the_gap_is_where_brute_force_finds_it():
    scores, pmf, atoms, labels = rows_of()
    shown = DistributionDisplay.from_predictions(scores, pmf, labels, atoms=atoms)
    frame = shown.frame("pandas")
    for _, row in frame[frame["stage"] == "Before"].iterrows():
        inside = labels == row["group"]
        gaps = {t: abs((scores[inside] <= t).mean() - (scores <= t).mean()) for t in np.unique(scores)}
        assert row["gap"] == pytest.approx(max(gaps.values()), abs=1e-12)
        assert gaps[row["gap_at"]] == pytest.approx(row["gap"], abs=1e-12)
    after = frame[frame["stage"] == "After"].set_index("group")["gap"]
    assert after.to_dict() == pytest.approx(ks_unfairness(pmf, labels))


def test_the_gap_of_many_values_is_exact_though_few_points_are_drawn(axes):
    rng = np.random.default_rng(0)
    labels = rng.random(20_000) < 0.3
    scores = rng.normal(0.2 * labels)
    shown = DistributionDisplay.from_predictions(scores, None, labels)
    (stage,) = shown.stages
    assert len(stage.points) < 1000
    expected = ks_2samp(scores[labels], scores).statistic
    assert stage.gap[1] == pytest.approx(expected, abs=1e-12)
    shown.plot(axes)
    bar = next(line for line in axes.get_lines() if line.get_marker() == "_")
    assert np.ptp(bar.get_ydata()) == pytest.approx(stage.gap.max(), abs=1e-12)
    assert set(bar.get_xdata()) == {stage.gap_at[stage.worst]}
    assert f"{stage.gap.max():.2g}" in axes.get_title(loc="left")


def test_densities_hold_all_the_mass_and_do_not_comb():
    atoms = np.linspace(0.0, 1.0, 31)
    flat = np.full((10, 31), 1 / 31)
    shown = DistributionDisplay.from_predictions(
        np.linspace(0, 1, 10), flat, np.arange(10) % 2, atoms=atoms, n_bins=40
    )
    stage = shown.stages[1]
    frame = shown.frame("pandas", of="density")
    widths = np.diff(stage.edges)
    np.testing.assert_allclose(stage.density @ widths, 1.0)
    inner = stage.density[0][(stage.edges[:-1] > 0) & (stage.edges[1:] < 1)]
    np.testing.assert_allclose(inner, inner[0])
    assert len(frame) == 2 * 3 * 40


def test_weights_and_probabilities_count_rows_in_groups():
    scores, _, _, labels = rows_of(n_groups=2)
    sure = np.column_stack([labels == name for name in np.unique(labels)]).astype(float)
    known = DistributionDisplay.from_predictions(scores, None, labels)
    unsure = DistributionDisplay.from_predictions(scores, None, sure)
    np.testing.assert_allclose(known.stages[0].gap, unsure.stages[0].gap)
    twice = DistributionDisplay.from_predictions(
        np.append(scores, scores[:50]), None, np.append(labels, labels[:50])
    )
    weights = 1.0 + (np.arange(len(scores)) < 50)
    weighted = DistributionDisplay.from_predictions(scores, None, labels, sample_weight=weights)
    np.testing.assert_allclose(weighted.stages[0].gap, twice.stages[0].gap)


def test_bands_of_moves_are_quantiles_of_the_new_scores():
    rng = np.random.default_rng(0)
    old = rng.normal(size=3000)
    new = old + rng.exponential(size=3000)
    labels = np.repeat(["a", "b"], 1500)
    frame = MovementDisplay.from_predictions(old, new, labels, n_bins=5).frame("pandas")
    for group in ("a", "b"):
        inside = labels == group
        order = np.argsort(old[inside])
        for cell, rows in zip(
            frame[frame["group"] == group].itertuples(), order.reshape(5, 300), strict=True
        ):
            values = new[inside][rows]
            assert cell.old == pytest.approx(old[inside][rows].mean())
            assert cell.mean == pytest.approx(values.mean())
            levels = np.quantile(values, [0.05, 0.25, 0.5, 0.75, 0.95], method="inverted_cdf")
            np.testing.assert_allclose([cell.q05, cell.q25, cell.q50, cell.q75, cell.q95], levels)


def test_moves_of_a_pmf_are_those_of_sure_values():
    scores, _, atoms, labels = rows_of()
    places = np.arange(len(scores)) % 7
    sure = MovementDisplay.from_predictions(scores, np.eye(7)[places], labels, atoms=atoms).frame("pandas")
    plain = MovementDisplay.from_predictions(scores, atoms[places], labels).frame("pandas")
    pd.testing.assert_frame_equal(sure, plain)


def test_a_model_gives_the_same_pictures_as_its_pmf():
    rows = make_population(500, n_groups=3, random_state=0)
    model = ParityPostprocessor(epsilon=0.05).fit(rows.scores, rows.group_proba)
    pmf = model.predict_pmf(rows.scores, rows.group_proba)
    for kind in (DistributionDisplay, MovementDisplay):
        one = kind.from_model(model, rows.scores, rows.group_proba)
        asked = {"epsilon": 0.05} if kind is DistributionDisplay else {}
        other = kind.from_predictions(rows.scores, pmf, rows.group_proba, atoms=model.atoms_, **asked)
        pd.testing.assert_frame_equal(one.frame("pandas"), other.frame("pandas"))
    assert TiltDisplay.from_model(model).groups == (0, 1, 2)


def test_the_lift_is_what_the_policy_adds_for_a_sure_row_whatever_the_gauge():
    rows = make_population(500, n_groups=3, random_state=0)
    model = ParityPostprocessor(epsilon=0.02, beta=20.0).fit(rows.scores, rows.group_proba)
    lift = TiltDisplay.from_model(model).lift
    atoms, score = model.policy_.grid.normalised(), float(rows.scores.mean())
    normal = float(model.policy_.grid.scale(np.array([score]))[0])
    pmf = model.predict_pmf(np.full(3, score), np.eye(3))
    added = np.log(np.maximum(pmf, 1e-300)) / model.beta_ + (normal - atoms) ** 2
    likely = (pmf > 1e-30).all(axis=0)
    assert likely.sum() > 5
    difference = (added - lift)[:, likely]
    np.testing.assert_allclose(np.ptp(difference, axis=1), 0.0, atol=1e-5)
    moved = model.tilt_ + np.outer(np.arange(len(atoms)), model.group_prior_)
    again = TiltDisplay.from_tilt(model.atoms_, moved, model.group_prior_)
    np.testing.assert_allclose(again.lift, lift, atol=1e-10)


def test_exact_probabilities_stay_in_the_noise_band_as_often_as_it_says():
    rng = np.random.default_rng(0)
    proba = rng.uniform(0.05, 0.95, size=(1, 4000))
    count = np.full(proba.shape, 200)
    share = rng.binomial(count, proba) / count
    outside = CalibrationDisplay.from_curves(["a"], proba, share, count).outside.mean()
    assert 0.02 < outside < 0.05


def test_a_diagnosis_draws_itself_and_empty_bins_are_left_out(axes):
    rng = np.random.default_rng(0)
    proba = np.where(rng.random(500) < 0.5, 0.3, 0.6)
    codes = (rng.random(500) < proba).astype(int)
    table = np.column_stack([1 - proba, proba])
    diagnosis = diagnose_calibration(table, codes, ["a", "b"], table.mean(axis=0))
    shown = CalibrationDisplay.from_diagnosis(diagnosis).plot(axes)
    assert len(shown.frame("pandas")) == 4
    assert "of 4 bins" in axes.get_title(loc="left")


def test_a_frontier_shows_intervals_and_baselines(axes):
    shown = replace(
        display(6),
        risk_interval=np.tile([[0.01], [0.05]], 6),
        baselines={"constant": (0.0, 0.05), "other": ([0.1, 0.2], [0.04, 0.03])},
    )
    frame = shown.frame("pandas")
    assert frame["name"].tolist()[6:] == ["constant", "other", "other", "base model"]
    assert frame["unfairness"].tolist()[6:] == [0.0, 0.1, 0.2, 0.45]
    assert frame["risk_low"].tolist()[:6] == [0.01] * 6
    shown.plot(axes)
    assert {"constant", "other"} <= {text.get_text() for text in axes.texts}
    assert overlaps([axes]) == []


def test_a_history_measures_what_the_fit_went_through():
    fit, new = (make_population(600, n_groups=2, random_state=seed) for seed in (0, 1))
    history = History(growth=1.0)
    # one stage, so that each step is an iteration
    model = ParityPostprocessor(epsilon=0.02, beta="paper", solver=Batch(first_temperature=1e9))
    model.fit(fit.scores, fit.group_proba, callback=history)
    seen = {"scores": new.scores, "group_proba": new.group_proba, "y": new.target}
    shown = history.measure(model, {**seen, "sensitive_features": new.sensitive_features})
    (run,) = shown.runs
    pmf = model.predict_pmf(new.scores, new.group_proba)
    assert len(run.risk) == len(history.records) == model.result_.n_iter
    assert run.n_gradient_rows[-1] == model.result_.n_gradient_rows
    assert run.risk[-1] == pytest.approx(risk(new.target, pmf, model.atoms_))
    assert run.unfairness[-1] == pytest.approx(max(ks_unfairness(pmf, new.sensitive_features).values()))
    assert shown.epsilon == 0.02
    assert [each.name for each in (shown + shown).runs] == ["batch", "batch"]


@pytest.mark.filterwarnings("ignore::evenhand.exceptions.ConvergenceWarning")
def test_a_history_is_thinned_keeps_its_end_and_starts_anew():
    rows = make_population(400, n_groups=2, random_state=0)
    solver = Sgd(n_steps=2000, chunk_size=10, random_state=0)
    history = History(growth=1.5)
    for _ in range(2):
        ParityPostprocessor(solver=solver).fit(rows.scores, rows.group_proba, callback=history)
        work = [record.n_gradient_rows for record in history.records]
        assert (work[0], work[-1]) == (10, 2000)
        assert len(work) < 20
        assert all(later >= 1.5 * sooner for sooner, later in pairwise(work[:-1]))


def test_an_empty_history_says_what_to_do():
    with pytest.raises(ValueError, match="callback="):
        History().measure(None, None)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DistributionDisplay.from_predictions([1.0, np.nan], None, ["a", "b"]), "before has NaN"),
        (
            lambda: DistributionDisplay.from_predictions([1.0, 2.0], [1.0], ["a", "b"]),
            "after needs one value",
        ),
        (lambda: DistributionDisplay.from_predictions([1.0, 2.0], np.eye(2), ["a", "b"]), "atoms="),
        (
            lambda: MovementDisplay.from_predictions([1.0, 2.0], np.eye(2) / 2, [0, 1], atoms=[0, 1]),
            "sum to one",
        ),
        (lambda: MovementDisplay.from_predictions([1.0, 2.0], [1.0, 2.0], [0, 1], n_bins=0), "n_bins"),
        (lambda: ConvergenceDisplay.from_runs({"a": ([1], [1, 2], [1])}), "same length"),
        (lambda: TiltDisplay.from_tilt([0, 1], np.ones((2, 2)), [0.5, 0.5], ["a"]), "1 labels"),
        (lambda: History(growth=0.5), "growth"),
    ],
)
def test_bad_input_is_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("name", ["distribution", "movement"])
def test_constant_predictions_and_single_rows_are_drawn(name, axes):
    kind = {"distribution": DistributionDisplay, "movement": MovementDisplay}[name]
    kind.from_predictions([1.0, 1.0, 1.0], [1.0, 1.0, 1.0], ["a", "b", "b"]).plot(axes)
    axes.figure.canvas.draw()
