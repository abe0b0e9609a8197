"""Displays of whole models: what any estimator predicts for X, with epsilon, chance and the constant."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import evenhand as eh
from evenhand.baselines import WassersteinBarycentre
from evenhand.datasets import make_population
from evenhand.evaluation.noise import MOST_ROWS, point_noise
from evenhand.history import History
from evenhand.metrics import Membership, ks_unfairness
from evenhand.metrics.masses import Predictions
from evenhand.plots import DistributionDisplay, FrontierDisplay, MovementDisplay, TiltDisplay
from evenhand.plots.labels import Obstacles, PointLabel, place_labels
from evenhand.plots.rows import MOST_DRAWN_FROM, chance_gaps

NAMES = np.array(["north", "south", "west"])
FIT, NEW = (make_population(900, n_groups=3, random_state=seed) for seed in (0, 1))
GROUPS, NEW_GROUPS = (NAMES[data.sensitive_features] for data in (FIT, NEW))
CLASSES = np.array(["low", "mid", "top"])
CUTS = np.quantile(FIT.target, [0.3, 0.7])


@pytest.fixture
def pyplot():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    pyplot = pytest.importorskip("matplotlib.pyplot")
    yield pyplot
    pyplot.close("all")


def regressor(**settings):
    return eh.ParityRegressor(**{"confidence": None, **settings})


def classes(n_classes):
    return CLASSES[np.digitize(FIT.target, CUTS if n_classes == 3 else CUTS[:1])]


def fitted(name):
    """Each kind of estimator that a user may have."""
    X, y = FIT.data, FIT.target
    known = {"sensitive_features": GROUPS}
    match name:
        case "regressor":
            return regressor().fit(X, y, **known)
        case "aware":
            return regressor(aware=True).fit(X, y, **known)
        case "classifier":
            return eh.ParityClassifier(confidence=None).fit(X, classes(2), **known)
        case "three classes":
            return eh.ParityClassifier(confidence=None).fit(X, classes(3), **known)
        case "baseline":
            return WassersteinBarycentre().fit(X, y, **known)
        case "conditional":
            return regressor(conditional_on=[X.shape[1] - 1]).fit(_with_factor(X), y, **known)
    with sklearn.config_context(enable_metadata_routing=True):
        pipe = make_pipeline(StandardScaler(), regressor())
        if name == "pipeline":
            return pipe.fit(X, y, **known)
        return GridSearchCV(pipe, {"parityregressor__epsilon": [0.05]}, cv=2).fit(X, y, **known)


def _with_factor(X):
    table = X.copy()
    table[:, -1] = np.arange(len(X)) % 2
    return table


WITH_STEP = ("regressor", "aware", "classifier", "three classes", "pipeline", "search")


@pytest.mark.parametrize("name", [*WITH_STEP, "baseline"])
@pytest.mark.parametrize("kind", [DistributionDisplay, MovementDisplay])
def test_displays_take_model_x_and_groups_of_any_estimator(kind, name, pyplot):
    shown = kind.from_model(fitted(name), NEW.data, NEW_GROUPS)
    assert shown.groups == ("north", "south", "west")
    assert shown.plot().figure_ is not None
    again = kind.from_model(fitted(name), NEW.data, sensitive_features=NEW_GROUPS)
    assert again.frame("pandas").equals(shown.frame("pandas"))


@pytest.mark.parametrize("name", ["regressor", "aware", "pipeline", "baseline"])
def test_the_gaps_are_those_of_the_predictions(name):
    model = fitted(name)
    shown = DistributionDisplay.from_model(model, NEW.data, NEW_GROUPS)
    inner, X = (model, NEW.data) if name != "pipeline" else (model[-1], model[:-1].transform(NEW.data))
    told = {"sensitive_features": NEW_GROUPS} if name in ("aware", "baseline") else {}
    expected = ks_unfairness(inner.predict_pmf(X, **told), NEW_GROUPS)
    assert dict(zip(shown.groups, shown.stages[-1].gap, strict=True)) == pytest.approx(expected)
    assert [stage.name for stage in shown.stages] == ["Before", "After"]


@pytest.mark.parametrize("name", ["classifier", "three classes"])
def test_of_a_classifier_shares_of_classes_are_compared(name, pyplot):
    model = fitted(name)
    shown = DistributionDisplay.from_model(model, NEW.data, NEW_GROUPS)
    chances = model.predict_proba(NEW.data)
    for place, group in enumerate(shown.groups):
        inside = group == NEW_GROUPS
        by_hand = np.abs(chances[inside].mean(axis=0) - chances.mean(axis=0)).max()
        assert shown.stages[-1].gap[place] == pytest.approx(by_hand)
    axes = shown.plot().ax_
    assert [text.get_text() for text in axes[1, 0].get_xticklabels()] == model.classes_.tolist()
    moved = MovementDisplay.from_model(model, NEW.data, NEW_GROUPS, label=model.classes_[0])
    assert moved.value_name == f"chance of {model.classes_[0]}"
    assert moved.moves[0].mean @ moved.moves[0].weight == pytest.approx(
        chances[NEW_GROUPS == "north", 0].mean()
    )


def test_a_plain_model_has_one_stage_and_no_moves(pyplot):
    for model in (
        LinearRegression().fit(FIT.data, FIT.target),
        LogisticRegression().fit(FIT.data, classes(3)),
    ):
        (stage,) = DistributionDisplay.from_model(model, NEW.data, NEW_GROUPS).plot().stages
        assert stage.name == "Predictions"
        with pytest.raises(TypeError, match="from_predictions"):
            MovementDisplay.from_model(model, NEW.data, NEW_GROUPS)
    with pytest.raises(TypeError, match="knows no groups"):
        DistributionDisplay.from_model(LinearRegression().fit(FIT.data, FIT.target), NEW.data)


def test_without_groups_rows_count_by_the_probabilities_of_the_model():
    model = fitted("regressor")
    shown = DistributionDisplay.from_model(model, NEW.data)
    _, proba = model.predict_scores(NEW.data)
    assert shown.groups == ("north", "south", "west")
    expected = ks_unfairness(model.predict_pmf(NEW.data), proba)
    np.testing.assert_allclose(shown.stages[-1].gap, list(expected.values()))


@pytest.mark.parametrize("kind", [DistributionDisplay, MovementDisplay])
def test_rows_without_a_group_are_left_out_and_counted(kind, pyplot):
    model, known = fitted("regressor"), np.arange(len(NEW_GROUPS)) % 3 > 0
    partial = np.where(known, NEW_GROUPS, None)
    figure = kind.from_model(model, NEW.data, partial).plot().figure_
    texts = [text.get_text() for ax in figure.axes for text in ax.texts] + [figure.get_suptitle()]
    assert any("300 " in text and "without a group left out" in text.replace("\n", " ") for text in texts)
    shown, without = (
        kind.from_model(model, X, groups).frame("pandas")
        for X, groups in ((NEW.data, partial), (NEW.data[known], NEW_GROUPS[known]))
    )
    columns = [name for name in shown if name != "chance"]  # which is drawn at random
    pd.testing.assert_frame_equal(shown[columns], without[columns])


def test_arguments_that_a_model_does_not_take_are_named():
    model = fitted("regressor")
    with pytest.raises(TypeError, match=r"ParityRegressor takes X, sensitive_features: 'scores'"):
        DistributionDisplay.from_model(model, NEW.data, scores=NEW.scores)
    with pytest.raises(TypeError, match="'X' is missing"):
        MovementDisplay.from_model(model, sensitive_features=NEW_GROUPS)
    with pytest.raises(TypeError, match="'group_proba' is missing"):
        DistributionDisplay.from_model(model.postprocessor_, NEW.scores)
    with pytest.raises(ValueError, match="one of the classes low, mid"):
        MovementDisplay.from_model(fitted("classifier"), NEW.data, NEW_GROUPS, label="none")


def test_names_do_for_a_post_processor_as_before():
    step = eh.ParityPostprocessor().fit(FIT.scores, FIT.group_proba)
    by_name = {"scores": NEW.scores, "group_proba": NEW.group_proba, "sensitive_features": NEW_GROUPS}
    one = DistributionDisplay.from_model(step, **by_name).frame("pandas")
    assert one.equals(DistributionDisplay.from_model(step, *by_name.values()).frame("pandas"))
    assert one["epsilon"].tolist() == [0.05] * 6  # columns without names: as many groups are the same


def test_epsilon_is_that_of_each_group_and_only_where_it_is_about_this_distance():
    asked = {"north": 0.2, "south": 0.1, "west": 0.3}
    model = regressor(epsilon=asked).fit(FIT.data, FIT.target, sensitive_features=GROUPS)
    assert DistributionDisplay.from_model(model, NEW.data, NEW_GROUPS).epsilon.tolist() == [0.2, 0.1, 0.3]
    for other in (
        fitted("conditional"),
        regressor(parity="mean").fit(FIT.data, FIT.target, sensitive_features=GROUPS),
    ):
        assert DistributionDisplay.from_model(other, _with_factor(NEW.data), NEW_GROUPS).epsilon is None
    others = np.where(NEW.sensitive_features == 0, "young", "old")
    assert DistributionDisplay.from_model(model, NEW.data, others).epsilon is None


def test_epsilon_and_chance_are_drawn_and_named(pyplot):
    figure, ax = pyplot.subplots()
    shown = DistributionDisplay.from_model(fitted("regressor"), NEW.data, NEW_GROUPS).plot(ax)
    stage = shown.stages[-1]
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert f"asked for: {0.05:.2g}" in names
    assert f"chance alone: {stage.chance[stage.worst]:.2g}" in names
    (band,) = [each for each in ax.collections if each.get_label().startswith("asked for")]
    corners = band.get_paths()[0].vertices
    assert np.ptp(corners[corners[:, 0] == corners[:, 0].max(), 1]) == pytest.approx(0.1)
    figure.canvas.draw()


def test_chance_is_what_groups_that_are_alike_show():
    rng = np.random.default_rng(0)
    groups = np.arange(2000) % 10 == 0
    members = Membership.read(groups, 2000)
    values = rng.normal(size=2000)
    told = chance_gaps(Predictions.read(values, None), members)
    shown = [max(ks_unfairness(values, rng.permutation(groups)).values()) for _ in range(200)]
    assert told[1] == pytest.approx(np.mean(shown), rel=0.1)
    assert told[0] == pytest.approx(told[1] / 9, rel=0.2)  # the others are nine times as many


def test_chance_of_many_rows_is_told_from_some_of_them():
    rng = np.random.default_rng(0)
    n_rows = 5 * MOST_DRAWN_FROM
    groups, scores = rng.random(n_rows) < 0.2, rng.normal(size=n_rows)
    proba = np.column_stack([1 - groups, groups]).astype(float)
    step = eh.ParityPostprocessor(atoms=21).fit(scores[:2000], proba[:2000])
    shown = DistributionDisplay.from_model(step, scores, proba, groups)
    pmf = step.predict_pmf(scores, proba)
    whole = chance_gaps(Predictions.read(pmf, step.atoms_), Membership.read(groups, n_rows))
    np.testing.assert_allclose(shown.stages[-1].chance, whole, rtol=0.25)


def test_a_spike_does_not_flatten_the_rest(pyplot):
    rng = np.random.default_rng(0)
    groups = np.array(["a", "b"])[np.arange(2000) % 2]
    values = np.where(rng.random(2000) < 0.6, 0.0, rng.normal(5.0, 1.0, size=2000))
    axes = DistributionDisplay.from_predictions(values, None, groups).plot(kind="density").ax_
    heights = axes[0, 0].patches[0].get_data().values - 1.0  # of group a, whose floor is at 1
    assert np.sort(heights)[-4] > 0.3 * heights.max()  # a density of 0.16 beside one of 2.3
    notes = [text.get_text() for text in axes[0, 0].texts if "here" in text.get_text()]
    share = np.mean(values[groups == "a"] == 0.0)
    assert notes[0] == f"\N{UPWARDS ARROW} {100 * share:.0f} % here"
    smooth = DistributionDisplay.from_predictions(rng.normal(size=2000), None, groups).plot(kind="density")
    assert not [text for text in smooth.ax_[0, 0].texts if "here" in text.get_text()]


def path(**test):
    rows = {"scores": NEW.scores, "group_proba": NEW.group_proba, **test}
    return eh.frontier(eh.ParityPostprocessor(), FIT.scores, FIT.group_proba, test=rows)


def known():
    return {"y": NEW.target, "sensitive_features": NEW_GROUPS}


def boxes_of(ax):
    ax.figure.canvas.draw()
    texts = [text for text in ax.texts if text.get_text().strip()]
    return [text.get_window_extent().padded(-1.0) for text in texts]


def test_a_frontier_draws_intervals_chance_and_the_constant_and_no_label_covers_another(pyplot):
    found = path(**known())
    shown = found.plot()
    boxes = boxes_of(shown.ax_)
    assert not any(one.overlaps(other) for i, one in enumerate(boxes) for other in boxes[:i])
    points = shown.ax_.transData.transform(np.column_stack([shown.unfairness, shown.risk]))
    assert not any(box.contains(*point) for box in boxes for point in points)
    for ends, middle in ((shown.risk_interval, shown.risk), (shown.unfairness_interval, shown.unfairness)):
        assert (ends[0] <= middle).all()
        assert (ends[1] >= middle).all()
    texts = [text.get_text() for text in shown.ax_.texts]
    assert {"chance alone", "thin bars: 95 % intervals", "base model"} <= set(texts)
    assert any(text.lstrip("\N{UPWARDS ARROW} ").startswith("best constant") for text in texts)
    frame = shown.frame("pandas").set_index("name")
    assert frame.loc["best constant", "risk"] == found.constant_risk
    assert frame.loc["chance alone", "unfairness"] == shown.chance
    assert found.plot(intervals=False).chance is None


def test_the_constant_is_the_best_one():
    found = path(**known())
    assert found.constant_risk == pytest.approx(np.var(NEW.target))


def test_a_constant_far_above_is_told_at_the_border(pyplot):
    points = np.array([0.01, 0.02])
    for constant, far in ((0.024, False), (5.0, True)):
        shown = FrontierDisplay(points, points[::-1], points, 0.009, 0.03, constant_risk=constant).plot()
        (text,) = [each.get_text() for each in shown.ax_.texts if "constant" in each.get_text()]
        assert ("above the picture" in text) is far
        assert shown.ax_.get_ylim()[1] < 0.1


def test_intervals_of_a_frontier_cover_the_population_and_shrink_with_its_rows():
    truth = make_population(40_000, n_groups=3, random_state=9)
    whole = {"scores": truth.scores, "group_proba": truth.group_proba, "y": truth.target}
    big = eh.frontier(
        eh.ParityPostprocessor(), FIT.scores, FIT.group_proba, epsilons=[0.05],
        test={**whole, "sensitive_features": truth.sensitive_features},
    )  # fmt: skip
    step = big.models[0]
    inside, width = [], []
    for start in range(0, 20_000, 1000):
        some = big.rows.take(np.arange(start, start + 1000))
        found = point_noise(some, step.policy_, some.measure(step.policy_))
        width.append(np.ptp(found.ks))
        inside.append(
            (found.ks[0] <= big.max_ks[0] <= found.ks[1], found.risk[0] <= big.risk[0] <= found.risk[1])
        )
    assert np.mean(inside, axis=0).min() >= 0.85  # 95 % up to the noise of twenty
    assert len(big.rows.scores) > MOST_ROWS
    many = point_noise(big.rows, step.policy_, big.points[0].measures)
    assert np.ptp(many.ks) < 0.35 * np.mean(width)  # of forty times as many rows: about a sixth
    assert many.chance < 0.02


def test_without_outcomes_the_frontier_does_not_speak_of_risk(pyplot):
    shown = path(sensitive_features=NEW_GROUPS).plot()
    assert "risk" not in shown.ax_.get_title(loc="left").lower()
    assert "squared distance to the scores" in shown.ax_.get_title(loc="left").replace("\n", " ")


def test_labels_go_where_they_cover_nothing(pyplot):
    _, ax = pyplot.subplots()
    ax.set(xlim=(0, 1), ylim=(0, 1))
    crowd = [(0.5, 0.5 + 0.02 * place) for place in range(8)]
    labels = [PointLabel(f"label {place}", point, "k") for place, point in enumerate(crowd)]
    labels += [PointLabel("dropped", (0.5, 0.55), "k", needed=False)]
    line = np.array([[0.0, 0.5], [1.0, 0.5]])
    written = place_labels(ax, labels, Obstacles(crowd, [line]))
    assert [text.get_text() for text in written] == [f"label {place}" for place in range(8)]
    boxes = boxes_of(ax)
    assert not any(one.overlaps(other) for i, one in enumerate(boxes) for other in boxes[:i])


@pytest.mark.parametrize("name", ["regressor", "classifier", "pipeline", "search"])
def test_favoured_predictions_are_told_in_words_of_a_user(name, pyplot):
    model = fitted(name)
    shown = TiltDisplay.from_model(model).plot()
    words = " ".join(
        [shown.ax_.get_title(loc="left"), *(ax.get_ylabel() for ax in shown.figure_.axes)]
        + [tick.get_text() for tick in shown.figure_.axes[-1].get_yticklabels()]
    ).lower()
    assert all(word in words for word in ("favoured", "avoided", "bonus", "forgiven"))
    assert not any(word in words for word in ("lift", "tilt", "atom"))
    frame = shown.frame("pandas")
    np.testing.assert_allclose(frame["bonus"], shown.unit * frame["lift"])
    if name == "classifier":
        assert shown.classes == tuple(model.classes_)


def test_a_bonus_is_the_squared_error_that_is_forgiven():
    step = eh.ParityPostprocessor(epsilon=0.02, beta=20.0).fit(50.0 * FIT.scores, FIT.group_proba)
    bonus, atoms, score = TiltDisplay.from_model(step).bonus, step.atoms_, 50.0 * float(FIT.scores.mean())
    pmf = step.predict_pmf(np.full(3, score), np.eye(3))
    cost = (score - atoms) ** 2 - bonus  # log chances fall with what is not forgiven
    likely = (pmf > 1e-30).all(axis=0)
    slope = step.beta_ / step.step_.step.cost_unit
    difference = (np.log(np.maximum(pmf, 1e-300)) + slope * cost)[:, likely]
    assert likely.sum() > 5
    np.testing.assert_allclose(np.ptp(difference, axis=1), 0.0, atol=1e-3)


@pytest.mark.parametrize(
    ("test", "told"),
    [
        ({"y": NEW.target, "sensitive_features": NEW_GROUPS}, "900 rows (known groups, known outcomes)"),
        ({}, "900 rows (groups by their probabilities, scores in place of outcomes)"),
    ],
)
def test_convergence_says_what_was_measured_on_what(test, told, pyplot):
    history = History()
    step = eh.ParityPostprocessor(epsilon=0.05).fit(FIT.scores, FIT.group_proba, callback=history)
    shown = history.measure(step, {"scores": NEW.scores, "group_proba": NEW.group_proba, **test}).plot()
    title = " ".join(shown.ax_[0].get_title(loc="left").split())
    assert f"measured on {told}" in title
    assert "asked for: 0.05" in title
    assert "rows looked at" in shown.ax_[1].get_xlabel()
    assert (shown + shown).measured_on == told
    assert (shown + replace(shown, measured_on="others")).measured_on == f"{told}; others"
