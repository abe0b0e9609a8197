"""Models in MLflow, asked through its own doors: pyfunc, the command line, Spark (`make test-mlflow`)."""

import io
import json
import os
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

pytest.importorskip("mlflow", reason="make test-mlflow has an environment with MLflow")

import mlflow
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import evenhand as eh
import evenhand.mlflow
from evenhand.modelfile import ModelFileError, UntrustedTypesError
from tests.page_lines import run_sections, silent_blocks

pytestmark = pytest.mark.filterwarnings("default")  # what MLflow and Spark warn of is their own
NAMES = np.array(["A", "B"])


@pytest.fixture(scope="module", autouse=True)
def tracking(tmp_path_factory):
    """A registry of its own."""
    home = tmp_path_factory.mktemp("mlflow")
    mlflow.set_tracking_uri(f"sqlite:///{home}/mlflow.db")
    mlflow.create_experiment("evenhand", artifact_location=(home / "artifacts").as_uri())
    mlflow.set_experiment("evenhand")


@pytest.fixture(scope="module")
def people():
    made = eh.datasets.make_population(500, n_groups=2, separation=2.0, random_state=0)
    X = pd.DataFrame(made.data, columns=["a", "b", "c", "d"])
    X["town"] = np.where(made.data[:, 0] > 0, "north", "south")
    return X, made.target, NAMES[made.sensitive_features], made


@pytest.fixture(scope="module")
def regressor(people):
    X, y, groups, _ = people
    return eh.ParityRegressor(confidence=None, random_state=7).fit(X, y, sensitive_features=groups)


@pytest.fixture(scope="module")
def classifier(people):
    X, y, groups, _ = people
    hired = np.where(y > 0.1, "yes", "no")
    return eh.ParityClassifier(confidence=None, random_state=7).fit(X, hired, sensitive_features=groups)


@pytest.fixture(scope="module")
def logged(people, regressor):
    X, y, groups, _ = people
    rows = X[200:], y[200:], groups[200:]
    return evenhand.mlflow.log_model(regressor, "scores", input_example=X[:3], card_rows=rows)


@pytest.fixture(scope="module")
def folder(logged):
    return Path(mlflow.artifacts.download_artifacts(artifact_uri=logged.model_uri))


def elsewhere(*command, **options):
    """Run a command where nothing but what is installed or in the folder can be found."""
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, capture_output=True, text=True, env=clean, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_folder_holds_the_model_file_the_cards_and_no_pickle(folder, regressor, people):
    names = [path.name for path in folder.rglob("*") if path.is_file()]
    assert not [name for name in names if name.endswith((".pkl", ".pickle", ".joblib", ".pyc"))]
    data = folder / "data" / "evenhand"
    assert_array_equal(eh.load(data / "model.evenhand").predict(people[0]), regressor.predict(people[0]))
    assert json.loads((data / "card.json").read_text())["asked"]["parity"] == "cdf"
    assert (data / "card.md").read_text().startswith("# ")
    told = mlflow.models.Model.load(str(folder))
    assert told.metadata["evenhand"]["epsilon"] == [0.05, 0.05]
    assert [column.name for column in told.signature.inputs] == ["a", "b", "c", "d", "town"]
    assert json.loads((folder / "input_example.json").read_text())["columns"][-1] == "town"


def test_the_model_comes_back_as_it_was(logged, regressor, people):
    again = evenhand.mlflow.load_model(logged.model_uri)
    assert type(again) is eh.ParityRegressor
    assert_array_equal(again.predict_pmf(people[0]), regressor.predict_pmf(people[0]))


def test_loading_the_model_runs_nothing_else_in_the_folder(folder, tmp_path, regressor, people):
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    (copy / "code" / "evenhand" / "__init__.py").write_text("raise SystemExit('ran')")
    (copy / "MLmodel").write_text("flavors: {python_function: {loader_module: os}}")
    again = evenhand.mlflow.load_model(str(copy))
    assert_array_equal(again.predict(people[0]), regressor.predict(people[0]))


def test_requests_choose_what_is_answered(logged, regressor, people):
    X = people[0]
    served = mlflow.pyfunc.load_model(logged.model_uri)
    assert_array_equal(served.predict(X), regressor.predict(X))
    assert_array_equal(served.predict(X, params={"output": "mean"}), regressor.predict_mean(X))
    low = served.predict(X, params={"output": "quantile", "q": 0.1})
    assert_array_equal(low, regressor.predict_quantile(X, 0.1))
    pmf = served.predict(X, params={"output": "pmf"})
    assert_array_equal(pmf.to_numpy(), regressor.predict_pmf(X))
    assert pmf.columns.astype(float).tolist() == regressor.atoms_.tolist()
    with pytest.raises(ValueError, match="output is one of draw, mean, quantile, pmf"):
        served.predict(X, params={"output": "proba"})


def test_classes_ids_and_chances(classifier, people, tmp_path):
    X = people[0].assign(who=[f"person {row}" for row in range(len(people[0]))])
    evenhand.mlflow.save_model(classifier, tmp_path / "judge", input_example=X[:3], ids="who")
    served = mlflow.pyfunc.load_model(str(tmp_path / "judge"))
    features = X.drop(columns="who")
    assert_array_equal(served.predict(X), classifier.predict(features, ids=X["who"]))
    chances = served.predict(X, params={"output": "proba"})
    assert chances.columns.tolist() == ["no", "yes"]
    assert_array_equal(chances.to_numpy(), classifier.predict_proba(features))


def test_aware_models_are_sent_the_group(people, tmp_path):
    X, y, groups, _ = people
    model = eh.ParityRegressor(aware=True, confidence=None).fit(X, y, sensitive_features=groups)
    rows = X.assign(group=groups)
    with pytest.raises(ValueError, match="aware: name the columns"):
        evenhand.mlflow.save_model(model, tmp_path / "m", input_example=rows[:3])
    evenhand.mlflow.save_model(
        model, tmp_path / "m", input_example=rows[:3], sensitive_features="group", output="mean"
    )
    served = mlflow.pyfunc.load_model(str(tmp_path / "m"))
    assert_array_equal(served.predict(rows), model.predict_mean(X, sensitive_features=groups))


def test_a_step_alone_takes_scores_and_probabilities(people, tmp_path):
    made = people[-1]
    step = eh.ParityPostprocessor().fit(made.scores, made.group_proba)
    rows = pd.DataFrame({"score": made.scores, "A": made.group_proba[:, 0], "B": made.group_proba[:, 1]})
    with pytest.raises(ValueError, match="1 columns of scores and 2 of group probabilities"):
        evenhand.mlflow.save_model(step, tmp_path / "m")
    evenhand.mlflow.save_model(step, tmp_path / "m", input_example=rows[:3])
    served = mlflow.pyfunc.load_model(str(tmp_path / "m"))
    assert_array_equal(served.predict(rows), step.predict(made.scores, made.group_proba))


def test_what_cannot_be_logged_is_refused_and_nothing_is_written(people, regressor, tmp_path):
    X, path = people[0], tmp_path / "m"
    with pytest.raises(TypeError, match="Put a pipeline inside of it"):
        evenhand.mlflow.save_model(make_pipeline(LinearRegression()), path)
    with pytest.raises(ValueError, match="for aware models"):
        evenhand.mlflow.save_model(regressor, path, sensitive_features="town")
    with pytest.raises(ValueError, match="output is one of"):
        evenhand.mlflow.save_model(regressor, path, output="best")
    with pytest.raises(ValueError, match=r"^The rows have no column b, c, d, town\. The columns are: a\.$"):
        evenhand.mlflow.save_model(regressor, path, input_example=X[["a"]])
    assert not path.exists()
    with pytest.raises(ValueError, match="holds no model of evenhand"):
        evenhand.mlflow.load_model(str(tmp_path))
    folder = tmp_path / "data" / "evenhand"
    folder.mkdir(parents=True)
    (folder / "model.evenhand").write_bytes(b"not a model")
    with pytest.raises(ModelFileError):
        evenhand.mlflow.load_model(str(tmp_path))


def test_types_to_vouch_for_are_asked_for_when_the_model_is_logged(people, tmp_path):
    _, y, groups, made = people
    model = eh.ParityRegressor(HistGradientBoostingRegressor(max_iter=5), confidence=None)
    model.fit(made.data, y, sensitive_features=groups)
    with pytest.raises(ValueError, match="pass trusted=") as caught:
        evenhand.mlflow.save_model(model, tmp_path / "m", input_example=made.data[:3])
    assert not (tmp_path / "m").exists()
    kinds = caught.value.__cause__.types
    evenhand.mlflow.save_model(model, tmp_path / "m", input_example=made.data[:3], trusted=kinds)
    served = mlflow.pyfunc.load_model(str(tmp_path / "m"))
    assert_array_equal(served.predict(made.data), model.predict(made.data))
    with pytest.raises(UntrustedTypesError):
        evenhand.mlflow.load_model(str(tmp_path / "m"))
    again = evenhand.mlflow.load_model(str(tmp_path / "m"), trusted=kinds)
    assert_array_equal(again.predict(made.data), model.predict(made.data))


def test_packages_of_the_models_inside_are_required(people):
    _, y, groups, made = people

    class Boosted(LinearRegression):
        """Stands for a model of a package that evenhand does not need itself."""

    Boosted.__module__ = "shap.boosted"
    inside = make_pipeline(StandardScaler(), Boosted())
    model = eh.ParityRegressor(inside, confidence=None).fit(made.data, y, sensitive_features=groups)
    required = evenhand.mlflow._requirements(model, None, ["more>=1"])
    assert f"shap=={version('shap')}" in required
    assert f"scikit-learn=={version('scikit-learn')}" in required
    assert required[-1] == "more>=1"


def test_evenhand_may_come_from_a_requirement_instead(regressor, people, tmp_path):
    evenhand.mlflow.save_model(
        regressor, tmp_path / "m", input_example=people[0][:2], requirement="evenhand==0.2.0"
    )
    assert not (tmp_path / "m" / "code").exists()
    assert "evenhand==0.2.0" in (tmp_path / "m" / "requirements.txt").read_text().splitlines()


def test_columns_that_are_missing_from_a_request_are_named_in_one_sentence(people, regressor, tmp_path):
    X = people[0]
    evenhand.mlflow.save_model(regressor, tmp_path / "m", ids="who")  # no signature, which MLflow would ask
    served = mlflow.pyfunc.load_model(str(tmp_path / "m"))
    with pytest.raises(
        ValueError, match=r"^The rows have no column c, who\. The columns are: a, b, d, town\.$"
    ):
        served.predict(X.drop(columns="c"))
    with pytest.raises(TypeError, match="Named columns need a frame: got a chunk of type ndarray"):
        served.predict(X.to_numpy())


def test_a_request_chooses_its_answer_where_no_example_was_logged(people, regressor, tmp_path):
    evenhand.mlflow.save_model(regressor, tmp_path / "m")
    served = mlflow.pyfunc.load_model(str(tmp_path / "m"))
    means = served.predict(people[0], params={"output": "mean"})
    assert_array_equal(means, regressor.predict_mean(people[0]))


def test_csv_changes_floats_on_their_way(people, regressor):
    """As docs/how-to/mlflow.md warns: MLflow reads CSV with pandas' quick parser, off by a last digit."""
    from mlflow.pyfunc.scoring_server import parse_csv_input  # which warns where it is imported

    numbers, X = list("abcd"), people[0]
    read = parse_csv_input(io.StringIO(X.to_csv(index=False)))
    assert 0.2 < np.mean(read[numbers].to_numpy() != X[numbers].to_numpy()) < 0.5
    assert np.abs(read[numbers] - X[numbers]).to_numpy().max() < 1e-14
    assert 0 < np.mean(regressor.predict(read) != regressor.predict(X)) < 0.5
    ids = np.arange(len(X))
    assert_array_equal(regressor.predict(read, ids=ids), regressor.predict(X, ids=ids))


@pytest.fixture
def spark(monkeypatch):
    sql = pytest.importorskip("pyspark.sql")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    session = sql.SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    yield session
    session.stop()


def test_a_spark_udf_gives_the_same_numbers(logged, regressor, people, spark):
    X = people[0]
    frame = spark.createDataFrame(X).repartition(3)
    mean = mlflow.pyfunc.spark_udf(
        spark, logged.model_uri, "double", env_manager="local", params={"output": "mean"}
    )
    draw = mlflow.pyfunc.spark_udf(spark, logged.model_uri, "double", env_manager="local")
    found = frame.withColumn("mean", mean(*X.columns)).withColumn("draw", draw(*X.columns)).toPandas()
    assert len(found) == len(X)
    features = found[X.columns.tolist()]
    assert_array_equal(found["mean"], regressor.predict_mean(features))
    assert_array_equal(found["draw"], regressor.predict(features))


def test_the_blocks_of_the_page_run(regressor, people, project_root, spark):
    X, y, groups, _ = people
    names = {"model": regressor, "made_up_rows": X[:3], "rows": X[:5], "mlflow": mlflow, "spark": spark}
    names |= {"X_test": X[200:], "y_test": y[200:], "groups_test": groups[200:]}
    names |= {"frame": spark.createDataFrame(X), "feature_columns": X.columns.tolist()}
    for block in silent_blocks(project_root / "docs" / "how-to" / "mlflow.md"):
        exec(block, names)
    found = names["frame"].toPandas()
    assert_array_equal(found["score"], regressor.predict_mean(found[X.columns.tolist()]))


@pytest.fixture(scope="module")
def bare_python(folder, tmp_path_factory):
    """Python of an environment with the requirements of the model and nothing else, evenhand neither."""
    home = tmp_path_factory.mktemp("bare") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    python = str(home / "bin" / "python")
    pip = [sys.executable, "-m", "pip", "--python", python]
    wanted = ["--no-compile", "-r", str(folder / "requirements.txt")]  # most of it is never imported
    elsewhere(*pip, "install", "-qq", "--disable-pip-version-check", *wanted)
    assert "evenhand" not in elsewhere(*pip, "list").lower()
    return python


@pytest.fixture(scope="module")
def carried(folder, tmp_path_factory):
    """The logged folder as it is brought to another machine."""
    return Path(shutil.copytree(folder, tmp_path_factory.mktemp("carried") / "model"))


def test_its_own_requirements_are_all_that_the_model_needs(bare_python, carried, regressor, people, tmp_path):
    """In an environment with nothing else: neither this checkout nor an installed evenhand."""
    code = (
        "import json, sys, mlflow, pandas; rows = json.load(open(sys.argv[2]));"
        "frame = pandas.DataFrame(rows['data'], columns=rows['columns']);"
        "served = mlflow.pyfunc.load_model(sys.argv[1]);"
        "print('ANSWER', json.dumps([served.predict(frame).tolist(),"
        " served.predict(frame, params={'output': 'mean'}).tolist(), sys.modules['evenhand'].__file__]))"
    )
    rows = tmp_path / "exact.json"
    rows.write_text(json.dumps(people[0].to_dict(orient="split", index=False)))
    told = elsewhere(bare_python, "-c", code, str(carried), str(rows), cwd=tmp_path)
    draws, means, home = json.loads(told.partition("ANSWER")[2])
    assert home.startswith(str(carried / "code"))
    assert_array_equal(draws, regressor.predict(people[0]))
    assert_array_equal(means, regressor.predict_mean(people[0]))


@pytest.mark.parametrize("output", ["draw", "mean"])
def test_the_command_line_of_mlflow_gives_the_same_numbers(
    output, bare_python, carried, regressor, people, tmp_path
):
    X = people[0]
    sent, answered = tmp_path / "rows.json", tmp_path / "answers.json"
    rows = X.to_dict(orient="split", index=False)
    sent.write_text(json.dumps({"dataframe_split": rows, "params": {"output": output}}))
    command = [bare_python, "-m", "mlflow", "models", "predict", "-m", str(carried)]
    command += ["-i", str(sent), "-o", str(answered), "-t", "json", "--env-manager", "local"]
    elsewhere(*command, cwd=tmp_path)
    got = json.loads(answered.read_text())["predictions"]
    wanted = regressor.predict(X) if output == "draw" else regressor.predict_mean(X)
    assert_array_equal(got, wanted)


def test_the_tutorial_s_lines_print_what_it_says(project_root, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = project_root / "docs" / "tutorials" / "serving.md"
    assert run_sections(page, "A model to serve", "One file", "MLflow: a registry, and a server") >= 13
