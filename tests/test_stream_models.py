"""Streams through estimators, bad chunks, drift, and files whose stream was tampered with."""

import json
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression

from evenhand import ParityPostprocessor, ParityRegressor, load, save
from evenhand.datasets import make_population
from evenhand.estimators.streaming import BLOCK_ROWS
from evenhand.estimators.streaming.monitor import Monitor, alarm_threshold
from evenhand.exceptions import DriftWarning
from evenhand.modelfile import ModelFileError
from evenhand.modelfile.container import Container, pack
from evenhand.solvers import Batch
from reproduction.streams import (
    DriftConfig,
    Population,
    RateConfig,
    Truth,
    draw_drift,
    draw_rate,
    drift,
    rate,
    rate_slopes,
)

N_GROUPS = 3


def population(n_rows, seed=0, **options):
    return make_population(n_rows, **{"n_groups": N_GROUPS, "random_state": seed, **options})


@pytest.fixture(scope="module")
def fitted():
    rows = population(3000)
    model = ParityRegressor(LinearRegression(), LogisticRegression(), epsilon=0.03, atoms=31, random_state=0)
    frame = pd.DataFrame(rows.data, columns=rows.feature_names)
    return pickle.dumps(model.fit(frame, rows.target, sensitive_features=rows.sensitive_features))


def frame_of(rows):
    return pd.DataFrame(rows.data, columns=rows.feature_names)


# estimators


def test_an_estimator_goes_on_with_its_parity_step_alone(fitted):
    model, stream = pickle.loads(fitted), frame_of(population(8 * BLOCK_ROWS, seed=1))
    before = pickle.dumps((model.estimator_, model.sensitive_estimator_))
    draws = model.predict(stream[:50])
    assert model.partial_fit(stream) is model
    assert pickle.dumps((model.estimator_, model.sensitive_estimator_)) == before
    assert model.stream_.n_rows == 8 * BLOCK_ROWS
    assert model.stream_.record.weight == 8 * BLOCK_ROWS + 3000
    assert model.certificate_.calibration is not None
    assert (draws == model.predict(stream[:50])).mean() > 0.5  # the same people keep their draws


def test_any_chunking_of_an_estimators_stream_gives_the_same_bits(fitted):
    stream = frame_of(population(3 * BLOCK_ROWS + 100, seed=1))
    whole, parts = pickle.loads(fitted), pickle.loads(fitted)
    whole.partial_fit(stream)
    for first in range(0, len(stream), 333):
        parts.partial_fit(stream[first : first + 333])
    assert whole.tilt_.tobytes() == parts.tilt_.tobytes()
    assert whole.group_prior_.tobytes() == parts.group_prior_.tobytes()


def test_an_estimator_without_a_fit_has_no_stream():
    with pytest.raises(NotFittedError):
        ParityRegressor().partial_fit(np.zeros((3, 2)))


def test_an_aware_estimator_is_told_the_groups_of_its_stream():
    rows, more = population(2000), population(2 * BLOCK_ROWS, seed=1)
    model = ParityRegressor(LinearRegression(), aware=True, atoms=21)
    model.fit(rows.data, rows.target, sensitive_features=rows.sensitive_features)
    with pytest.raises(ValueError, match="This model is aware"):
        model.partial_fit(more.data)
    model.partial_fit(more.data, sensitive_features=more.sensitive_features)
    shares = np.bincount(np.concatenate([rows.sensitive_features, more.sensitive_features])) / 6096
    np.testing.assert_allclose(model.stream_.record.moments.prior, shares, atol=1e-6)


# bad chunks


def set_cell(column, value):
    def change(scores, proba):
        (scores if column is None else proba[:, column])[7] = value
        return scores, proba

    return change


BAD_CHUNKS = {
    "a score is missing": (set_cell(None, np.nan), "scores must be finite"),
    "a score is infinite": (set_cell(None, np.inf), "scores must be finite"),
    "a probability is missing": (set_cell(0, np.nan), "group_proba must be finite"),
    "a probability is negative": (set_cell(0, -0.5), "must not be negative"),
    "a row does not sum to one": (set_cell(1, 0.9), "must sum to one"),
    "one group too few": (lambda s, p: (s, p[:, :2] / p[:, :2].sum(axis=1, keepdims=True)), "has 2 groups"),
    "one group too many": (lambda s, p: (s, np.column_stack([p / 2, p[:, 0] * 0 + 0.5])), "has 4 groups"),
    "unknown columns": (lambda s, p: (s, pd.DataFrame(p, columns=["a", "b", "other"])), "has columns"),
    "no rows": (lambda s, p: (s[:0], p[:0]), "is empty"),
    "rows that do not pair up": (lambda s, p: (s[:-1], p), "has 3000 rows, but scores has 2999"),
    "text": (lambda s, p: (s.astype(str), p), "must hold numbers"),
}


@pytest.mark.parametrize("n_before", [50, 5 * BLOCK_ROWS])
@pytest.mark.parametrize(("change", "message"), BAD_CHUNKS.values(), ids=BAD_CHUNKS.keys())
def test_a_bad_chunk_raises_and_leaves_the_stream_as_it_was(change, message, n_before):
    rows = population(n_before)
    names = ["a", "b", "c"]
    model = ParityPostprocessor(atoms=11, epsilon=0.1)
    model.partial_fit(rows.scores, pd.DataFrame(rows.group_proba, columns=names))
    before = pickle.dumps(vars(model))
    bad = population(3000, seed=1)
    with pytest.raises(ValueError, match=message):
        model.partial_fit(*change(bad.scores.copy(), bad.group_proba.copy()))
    assert pickle.dumps(vars(model)) == before


BAD_FRAMES = {
    "a column too few": (lambda frame: frame.drop(columns="x2"), "feature names"),
    "an unknown column": (lambda frame: frame.rename(columns={"x2": "other"}), "feature names"),
    "a missing value": (lambda frame: frame.assign(x2=frame["x2"].where(frame.index != 5)), "NaN"),
    "no rows": (lambda frame: frame[:0], "0 sample"),
}


@pytest.mark.parametrize(("change", "message"), BAD_FRAMES.values(), ids=BAD_FRAMES.keys())
def test_a_bad_frame_raises_and_leaves_the_estimator_as_it_was(change, message, fitted):
    model = pickle.loads(fitted)
    model.partial_fit(frame_of(population(BLOCK_ROWS + 10, seed=1)))
    before = pickle.dumps(vars(model))
    with pytest.raises(ValueError, match=message):
        model.partial_fit(change(frame_of(population(3000, seed=2))))
    assert pickle.dumps(vars(model)) == before


@pytest.mark.parametrize(
    ("settings", "options", "message"),
    [
        ({"solver": "lp"}, {}, "a stream stores none"),
        ({"beta": "cv"}, {}, 'beta must be "auto", "paper" or a positive number'),
        ({"atoms": "cv"}, {}, 'atoms must be "auto", a number of atoms, or the atoms'),
        ({"epsilon": -1.0}, {}, "epsilon must be finite"),
        ({}, {"half_life": 100}, "half_life must be a number of rows, at least 2048"),
        ({}, {"half_life": "long"}, "half_life must be"),
    ],
)
def test_settings_that_no_stream_has_are_refused(settings, options, message):
    rows = population(100)
    model = ParityPostprocessor(**settings)
    with pytest.raises(ValueError, match=message):
        model.partial_fit(rows.scores, rows.group_proba, **options)
    assert not hasattr(model, "stream_")


def test_a_stream_keeps_its_notion_of_parity():
    rows = population(100)
    model = ParityPostprocessor(atoms=11).partial_fit(rows.scores, rows.group_proba)
    with pytest.raises(ValueError, match="parity is 'pmf', but the stream began with 'cdf'"):
        model.set_params(parity="pmf").partial_fit(rows.scores, rows.group_proba)


# drift

BEFORE, AFTER = {"separation": 0.7}, {"separation": 1.4}


def feed(model, n_chunks, seed, population_options, **options):
    for chunk in range(n_chunks):
        rows = population(4 * BLOCK_ROWS, seed=1000 * seed + chunk, **population_options)
        model.partial_fit(rows.scores, rows.group_proba, **options)
    return model


def cdf_violation(model, **options):
    rows = population(50_000, seed=99, **options)
    shares = 1.0 - rows.group_proba / rows.group_proba.mean(axis=0)
    masses = model.predict_pmf(rows.scores, rows.group_proba).T @ shares / 50_000
    return np.abs(np.cumsum(masses, axis=0)).max()


def test_the_charts_give_a_false_alarm_as_seldom_as_they_promise():
    rng = np.random.default_rng(0)
    threshold = alarm_threshold(2 * 4, 500_000)  # one in twenty blocks for all of them together
    lengths = []
    for _ in range(300):
        monitor, n_blocks = Monitor.fresh(1, 2), 0
        while monitor.highest().max() <= threshold:
            monitor, n_blocks = monitor.after(rng.normal(size=(2, 2))), n_blocks + 1
        lengths.append(n_blocks)
    standard_error = np.std(lengths) / np.sqrt(len(lengths))
    assert np.mean(lengths) >= 20 - 2 * standard_error
    assert np.mean(lengths) <= 40  # and they are not deaf


@pytest.mark.parametrize("half_life", [None, 20_000])
def test_a_stream_that_stays_as_it_is_gives_no_alarm(half_life):
    feed(ParityPostprocessor(atoms=31), 20, 0, BEFORE, half_life=half_life)  # a warning would be an error


def test_a_shift_is_seen_and_followed():
    model = feed(ParityPostprocessor(atoms=51, epsilon=0.03), 8, 0, BEFORE, half_life=20_000)
    assert cdf_violation(model, **BEFORE) <= 1.5 * 0.03
    assert cdf_violation(model, **AFTER) > 3 * 0.03
    seen = []
    feed(model, 6, 1, AFTER, half_life=20_000, on_drift=seen.append)
    assert 0 < seen[0].n_rows - 32 * BLOCK_ROWS <= 6 * BLOCK_ROWS
    assert seen[0].kind == "violation"
    assert cdf_violation(model, **AFTER) <= 1.5 * 0.03


def test_plans_of_a_stochastic_solver_are_no_longer_than_its_memory():
    model = ParityPostprocessor(atoms=21, solver="sgd3", random_state=0)
    feed(model, 10, 0, BEFORE, half_life=2 * BLOCK_ROWS)
    solver_state = model.stream_.record.solver_state
    assert sum(phase.n_updates for phase in solver_state.plan) <= 2 * BLOCK_ROWS


def test_an_interrupt_inside_a_solve_leaves_the_stream_as_it_was(monkeypatch):
    model = feed(ParityPostprocessor(atoms=21), 2, 0, BEFORE)
    before = pickle.dumps(vars(model))

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Batch, "step", interrupt)
    with pytest.raises(KeyboardInterrupt):
        feed(model.set_params(epsilon=0.001), 1, 1, BEFORE)
    assert pickle.dumps(vars(model.set_params(epsilon=0.05))) == before


def test_a_shift_of_the_shares_is_called_by_its_name():
    model = feed(ParityPostprocessor(atoms=31), 4, 0, {"group_prior": [1, 2, 3]}, half_life=20_000)
    rows = population(8 * BLOCK_ROWS, seed=7, group_prior=[3, 2, 1])
    with pytest.warns(DriftWarning) as caught:
        model.partial_fit(rows.scores, rows.group_proba, half_life=20_000)
    assert any("the share of group 0 has changed" in str(one.message) for one in caught)


def test_without_forgetting_the_warning_says_how_to_follow():
    model = feed(ParityPostprocessor(atoms=31), 4, 0, BEFORE)
    before = pickle.dumps(vars(model))
    with pytest.raises(DriftWarning, match="Pass half_life="):  # warnings are errors here
        feed(model, 4, 1, AFTER)
    assert pickle.dumps(vars(model)) == before


# files


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("stream") / "model"
    rows = population(6 * BLOCK_ROWS)
    model = ParityPostprocessor(atoms=11, epsilon=0.1, solver="sgd3", random_state=0)
    save(model.partial_fit(rows.scores, rows.group_proba), path)
    return path


def stream_fields(tree):
    return tree["model"]["fitted"]["stream_"]["object"]["fields"]


def record_fields(tree):
    return stream_fields(tree)["record"]["object"]["fields"]


def step_fields(tree):
    return stream_fields(tree)["step"]["object"]["fields"]


def moment_fields(tree):
    return record_fields(tree)["moments"]["object"]["fields"]


def walk_fields(tree):
    return record_fields(tree)["solver_state"]["object"]["fields"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda tree: stream_fields(tree).update(n_rows=-1), "counts of rows"),
        (lambda tree: stream_fields(tree).update(step=None), "no step"),
        (lambda tree: stream_fields(tree).update(waiting_proba=[]), "waiting rows"),
        (lambda tree: record_fields(tree).update(weight=0.0), "weights"),
        (lambda tree: record_fields(tree).update(monitor=None), "charts"),
        (lambda tree: walk_fields(tree).update(cursor={"tuple": [99, 0, 0]}), "beyond its plan"),
        (lambda tree: walk_fields(tree).update(budget=10**9), "shorter than the rows"),
        (
            lambda tree: walk_fields(tree)["plan"]["tuple"][0]["object"]["fields"].update(period=0),
            "no counts",
        ),
        (lambda tree: walk_fields(tree).update(gradient=walk_fields(tree)["iterate"]), "gradient"),
        (lambda tree: tree["model"]["fitted"].update(stream_=3), "not a stream"),
        (lambda tree: step_fields(tree).update(cost=3), "not a cost"),
        (lambda tree: step_fields(tree).update(strata=3), "strata"),
        (lambda tree: moment_fields(tree).update(strata=step_fields(tree)["group_prior"]), "strata"),
        (lambda tree: moment_fields(tree).update(policy=moment_fields(tree)["prior"]), "mean policy"),
        (lambda tree: moment_fields(tree).update(costs=moment_fields(tree)["groups"]), "those of its cost"),
    ],
)
def test_a_stream_that_no_save_writes_is_refused(change, message, saved, tmp_path):
    container = Container(saved.read_bytes())
    members, manifest = container.unpack(), dict(container.manifest)
    tree = json.loads(members.pop("model.json"))
    change(tree)
    forged = tmp_path / "forged"
    forged.write_bytes(pack({"model.json": json.dumps(tree).encode(), **members}, manifest))
    with pytest.raises(ModelFileError, match=message):
        load(forged)


# the experiment


def test_the_truth_of_the_experiment_is_what_many_rows_show():
    config = Population(separation=1.2)
    model = ParityPostprocessor(epsilon=0.1, atoms=21, beta=50.0).fit(*config.draw(3000, 0))
    scores, proba = config.draw(400_000, 1)
    masses = model.predict_pmf(scores, proba).T @ (1.0 - proba / proba.mean(axis=0)) / len(scores)
    shown = np.abs(np.cumsum(masses, axis=0)).max()
    assert Truth.of(config, (200, 200)).violation(model) == pytest.approx(shown, abs=0.006)


def test_the_experiment_draws_its_figures(tmp_path):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    rates = rate(RateConfig(budgets=(2048, 4096), n_repetitions=2, n_nodes=(60, 60)))
    assert set(rate_slopes(rates)) == {"cdf", "pmf"}
    draw_rate(rates).savefig(tmp_path / "rate.png")
    config = DriftConfig(n_before=6, n_after=4, n_nodes=(60, 60))
    columns, alarms = drift(config)
    assert min(alarm.n_rows for alarm in alarms) > 6 * config.chunk
    assert columns["stream with half_life"][-1] < 0.5 * columns["no stream"][-1]
    draw_drift(columns, config, alarms[0].n_rows).savefig(tmp_path / "drift.png")
