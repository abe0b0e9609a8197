"""What `eh.export_onnx` refuses, what it says, and what a file holds."""

import json
import re
import warnings

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("onnxruntime", reason="make test-onnx has an environment with ONNX Runtime")

import onnx
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.impute import KNNImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, PolynomialFeatures
from sklearn.svm import SVR

import evenhand as eh
from evenhand._utils import optional
from evenhand.datasets import make_population
from evenhand.exceptions import SinglePrecisionWarning, StepAloneWarning
from evenhand.onnx_export.graph import OPSET
from tests.onnx_graphs.graphs import column_inputs, open_graph
from tests.page_lines import run_sections


@pytest.fixture(scope="module")
def data():
    return make_population(600, n_groups=2, random_state=0)


@pytest.fixture(scope="module")
def step(data):
    return eh.ParityPostprocessor(atoms=21).fit(data.scores, data.group_proba)


@pytest.fixture(scope="module")
def estimator(data):
    model = eh.ParityRegressor(LinearRegression(), atoms=21, cv=2)
    return model.fit(data.data, data.target, sensitive_features=data.sensitive_features)


class Shifted(RegressorMixin, BaseEstimator):
    """A model that nobody has a converter for."""

    def fit(self, X, y):
        self.mean_ = np.mean(y)
        return self

    def predict(self, X):
        return self.mean_ + np.asarray(X)[:, 0] / 10


@pytest.fixture(scope="module")
def unknown(data):
    model = eh.ParityRegressor(Shifted(), atoms=21, cv=2, random_state=0)
    return model.fit(data.data, data.target, sensitive_features=data.sensitive_features)


def test_a_model_without_a_converter_is_exported_without_its_models_and_says_so(unknown, data, graphs):
    scores, proba = unknown.predict_scores(data.data)
    levels = np.random.default_rng(0).random(len(scores))
    inputs = {"scores": scores, "group_proba": proba, "uniform": levels}
    with pytest.warns(StepAloneWarning, match=r"no ONNX form of Shifted .* takes an input uniform") as told:
        found = graphs.run(unknown, inputs, ["pmf", "draw"])
    assert len(told) == 1
    assert np.abs(found["pmf"] - unknown.predict_pmf(data.data)).max() < 1e-9
    np.testing.assert_array_equal(found["draw"], unknown.policy_.draw(scores, proba, levels))


def test_draws_by_id_are_the_model_s_own_in_the_step_alone(unknown, data, graphs):
    scores, proba = unknown.predict_scores(data.data)
    ids = np.arange(len(scores))
    with pytest.warns(StepAloneWarning):
        found = graphs.run(
            unknown, {"scores": scores, "group_proba": proba, "ids": ids}, "draw", draw_by="integers"
        )
    np.testing.assert_array_equal(found["draw"], unknown.predict(data.data, ids=ids))


def test_a_function_inside_a_pipeline_has_no_form_either(data, tmp_path):
    outcome = make_pipeline(FunctionTransformer(np.tanh), LinearRegression())
    model = eh.ParityRegressor(outcome, atoms=21, cv=2)
    model.fit(data.data, data.target, sensitive_features=data.sensitive_features)
    with pytest.warns(StepAloneWarning, match="a FunctionTransformer in this ParityRegressor"):
        eh.export_onnx(model, tmp_path / "model.onnx")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"output": "mode"},
            "output of ParityRegressor must be among pmf, mean, median, quantile, draw, each once at most: "
            "got 'mode'",
        ),
        ({"output": []}, "output of ParityRegressor must be among"),
        ({"output": None}, "output of ParityRegressor must be among .* got None"),
        ({"output": ["pmf", "pmf"]}, r"each once at most: got \['pmf', 'pmf'\]"),
        ({"draw_by": "name"}, "draw_by must be one of features, integers, text, uniform: got 'name'"),
        ({"precision": "half"}, "precision must be one of float64, float32: got 'half'"),
        ({"precision": ["float32"]}, r"precision must be one of float64, float32: got \['float32'\]"),
        ({"q": 1.0}, "q must lie strictly between 0 and 1"),
        ({"q": [0.1, 0.2]}, "q must be one number"),
        ({"columns": {"town": "text"}}, r"columns names 'town', which the model does not know: .* with 0, 1"),
        ({"columns": {0: "date"}}, 'The kind of a column is "number" or "text": got \'date\''),
    ],
)
def test_what_cannot_be_asked_is_refused_in_one_sentence_and_nothing_is_written(
    settings, message, estimator, tmp_path
):
    with pytest.raises(ValueError, match=message) as refusal:
        eh.export_onnx(estimator, tmp_path / "model.onnx", **settings)
    assert "\n" not in str(refusal.value)
    assert list(tmp_path.iterdir()) == []


def test_models_and_costs_that_are_not_ours_are_refused(data, estimator, tmp_path):
    with pytest.raises(TypeError, match=r"export_onnx takes a fitted .*: got LinearRegression\."):
        eh.export_onnx(estimator.estimator_, tmp_path / "model.onnx")
    with pytest.raises(
        TypeError, match=r"got Pipeline\. A pipeline goes inside, ParityRegressor\(pipeline\)"
    ):
        eh.export_onnx(make_pipeline(estimator), tmp_path / "model.onnx")
    with pytest.raises(
        TypeError, match=r'columns is a dict such as {"town": "text"}, or a data frame: got list'
    ):
        eh.export_onnx(estimator, tmp_path / "model.onnx", columns=["town"])
    with pytest.raises(ValueError, match="columns is for models of raw columns"):
        eh.export_onnx(estimator.postprocessor_, tmp_path / "model.onnx", columns={"town": "text"})

    def cubed(scores, atoms):
        return np.abs(scores[:, None] - atoms) ** 3

    own = eh.ParityPostprocessor(cost=cubed, atoms=21).fit(data.scores, data.group_proba)
    with pytest.raises(TypeError, match="The cost cubed has no form in ONNX"):
        eh.export_onnx(own, tmp_path / "model.onnx")
    with pytest.raises(Exception, match="not fitted"):
        eh.export_onnx(eh.ParityPostprocessor(), tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []


def test_a_missing_extra_is_named(step, tmp_path, monkeypatch):
    real = optional.importlib.import_module

    def without_onnx(name):
        if name == "onnx":
            raise ImportError(name)
        return real(name)

    monkeypatch.setattr(optional.importlib, "import_module", without_onnx)
    with pytest.raises(ImportError, match=r"eh.export_onnx needs 'onnx', .* pip install 'evenhand\[onnx\]'"):
        eh.export_onnx(step, tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []


def test_a_failure_leaves_the_file_that_was_there(step, tmp_path, monkeypatch):
    path = tmp_path / "model.onnx"
    path.write_bytes(b"before")
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError("disk")))
    with pytest.raises(OSError, match="disk"):
        eh.export_onnx(step, path)
    assert path.read_bytes() == b"before"
    assert [each.name for each in tmp_path.iterdir()] == ["model.onnx"]


def test_the_file_states_its_opset_and_carries_the_facts_of_the_card(estimator, tmp_path):
    path = tmp_path / "model.onnx"
    eh.export_onnx(estimator, path, ["pmf", "quantile"], q=0.9)
    written = onnx.load(path)
    assert {each.domain: each.version for each in written.opset_import} == {"": OPSET}
    facts = open_graph(path).get_modelmeta().custom_metadata_map
    assert facts["evenhand"] == eh.__version__
    assert facts["evenhand.model"] == "ParityRegressor"
    assert facts["evenhand.opset"] == str(OPSET)
    assert facts["evenhand.out_of_sample"] in str(estimator)
    assert json.loads(facts["evenhand.epsilon"]) == estimator.epsilon_.tolist()
    assert json.loads(facts["evenhand.atoms"]) == estimator.atoms_.tolist()
    assert json.loads(facts["evenhand.q"]) == 0.9
    assert json.loads(facts["evenhand.certificate"])["violation"] == pytest.approx(
        estimator.certificate_.violation.tolist()
    )
    assert json.loads(facts["evenhand.columns"]) == dict.fromkeys("0123", "number")


def test_columns_may_be_called_as_outputs_are_but_not_as_inputs(data, tmp_path):
    frame = pd.DataFrame(data.data, columns=["mean", "pmf", "a", "b"])
    frame["ids"] = np.where(data.data[:, 0] > 0, "x", "y")
    model = eh.ParityRegressor(atoms=21, cv=2).fit(
        frame, data.target, sensitive_features=data.sensitive_features
    )
    path = tmp_path / "model.onnx"
    eh.export_onnx(model, path, ["pmf", "mean", "median"])
    names = [each.name for each in open_graph(path).get_outputs()]
    assert names == ["predicted_pmf", "predicted_mean", "median"]
    with pytest.raises(ValueError, match="Two inputs of the graph would be called 'ids': rename that column"):
        eh.export_onnx(model, path, "draw", draw_by="integers")


def test_the_tutorial_s_lines_print_what_it_says(project_root, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = project_root / "docs" / "tutorials" / "serving.md"
    assert run_sections(page, "A model to serve", "One file", "ONNX: without Python") >= 14


def test_the_page_s_example_runs(project_root, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (project_root / "docs" / "how-to" / "onnx.md").read_text()
    names = {}
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert blocks
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for block in blocks:
            exec(block, names)


def test_rows_without_a_distribution_are_told_as_such_and_never_drawn(step, graphs):
    """Without a check the first atom, a low score, would be the answer to a missing one."""
    even = np.array([[0.5, 0.5]])
    odd = [(np.nan, even), (np.inf, even), (-np.inf, even), (0.1, 0 * even), (0.1, np.nan * even)]
    for score, proba in odd:
        for precision in (np.float64, np.float32):
            given = {"scores": np.array([score], precision), "group_proba": proba.astype(precision)}
            settings = {"precision": np.dtype(precision).name}
            found = graphs.run(step, given, ["pmf", "mean"], **settings)
            assert np.isnan(found["pmf"]).all()
            assert np.isnan(found["mean"]).all()
            for output in ("draw", "median", "quantile"):
                with pytest.raises(Exception, match="out of data bounds"):
                    graphs.run(step, given, output, **settings)
    given = {"scores": np.zeros(1), "group_proba": even, "uniform": np.array([np.nan])}
    with pytest.raises(Exception, match="out of data bounds"):
        graphs.run(step, given, "draw", draw_by="uniform")


def test_a_class_is_not_decided_for_without_a_distribution(data, graphs):
    judge = eh.ParityClassifier(LogisticRegression(), LogisticRegression(), cv=2).fit(
        data.data, data.target > 0, sensitive_features=data.sensitive_features
    )
    for output in ("mode", "draw"):
        with pytest.raises(Exception, match="out of data bounds"):
            graphs.run(judge, {"X": np.full((2, 4), np.nan)}, output)


@pytest.mark.parametrize("n_rows", [0, 1])
def test_few_rows_or_none(n_rows, step, data, graphs):
    given = {"scores": data.scores[:n_rows], "group_proba": data.group_proba[:n_rows]}
    found = graphs.run(step, given, ["pmf", "mean", "median", "draw"])
    assert [found[name].shape for name in found] == [(n_rows, 21), (n_rows,), (n_rows,), (n_rows,)]
    found = graphs.run(step, {**given, "ids": np.array(["Ana"] * n_rows, object)}, "draw", draw_by="text")
    wanted = step.predict(data.scores[:1], data.group_proba[:1], ids=["Ana"])[:n_rows]
    np.testing.assert_array_equal(found["draw"], wanted)


def test_no_row_of_a_table_with_text(data, graphs):
    frame = pd.DataFrame(data.data, columns=list("abcd"))
    frame["pmf"], frame["predicted_pmf"] = np.where(data.target > 0, "x", "y"), data.target
    model = eh.ParityRegressor(atoms=21, cv=2)
    model.fit(frame, data.target, sensitive_features=data.sensitive_features)
    found = graphs.run(model, column_inputs(frame[:0]), ["pmf", "draw"])
    assert {name: values.shape for name, values in found.items()} == {
        "predicted_predicted_pmf": (0, 21),  # the other two names are those of columns
        "draw": (0,),
    }
    frame = frame.rename(columns={"a": ""})
    model.fit(frame, data.target, sensitive_features=data.sensitive_features)
    with pytest.raises(ValueError, match="a column of this model has none: name it"):
        graphs.run(model, {}, "pmf")


def test_parts_that_are_not_in_double_precision_are_named(data, tmp_path):
    for outcome in (SVR(), make_pipeline(PolynomialFeatures(2), LinearRegression())):
        model = eh.ParityRegressor(outcome, atoms=21, cv=2)
        model.fit(data.data, data.target, sensitive_features=data.sensitive_features)
        name = type(outcome[0] if hasattr(outcome, "steps") else outcome).__name__
        with pytest.warns(SinglePrecisionWarning, match=f"ONNX has {name} in single precision alone"):
            eh.export_onnx(model, tmp_path / "model.onnx")
        facts = open_graph(tmp_path / "model.onnx").get_modelmeta().custom_metadata_map
        assert facts["evenhand.parts_in_single_precision"] == json.dumps([name])


def test_a_part_that_brings_functions_along_has_no_form(data, tmp_path):
    outcome = make_pipeline(KNNImputer(), LinearRegression())
    model = eh.ParityRegressor(outcome, atoms=21, cv=2)
    model.fit(data.data, data.target, sensitive_features=data.sensitive_features)
    with pytest.warns(StepAloneWarning, match="no ONNX form of KNNImputer"):
        eh.export_onnx(model, tmp_path / "model.onnx")
