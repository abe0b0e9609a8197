"""Model files of estimators: the parts that scikit-learn brings go through skops, and nothing is lost."""

import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from evenhand import ParityPostprocessor, ParityRegressor
from evenhand._utils.stored import is_own, stored_classes
from evenhand.modelfile import ModelFileError, UntrustedTypesError, classes, load, save

pytest.importorskip("skops")

RNG = np.random.default_rng(0)
SEX = RNG.choice(["f", "m"], size=300)
RACE = RNG.choice(["a", "b"], size=300)
X = pd.DataFrame(
    {
        "income": RNG.normal(size=300) + (SEX == "m"),
        "tenure": RNG.normal(size=300) - (RACE == "a"),
        "city": RNG.choice(["Turku", "Lahti"], size=300),
    }
)
Y = 1000 * (X["income"] + 0.5 * X["tenure"] + 0.1 * RNG.normal(size=300)).to_numpy()
NUMBERS = X[["income", "tenure"]]
TREE_PREDICTOR = "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor"


def columns():
    return make_column_transformer((OneHotEncoder(), ["city"]), (StandardScaler(), ["income", "tenure"]))


def assert_same(model, again, rows, **options):
    for predict in ("predict", "predict_pmf", "predict_mean", "predict_quantile"):
        expected = getattr(model, predict)(rows, **options)
        assert getattr(again, predict)(rows, **options).tobytes() == expected.tobytes()
    assert repr(again) == repr(model)
    assert str(again.certificate_) == str(model.certificate_)


def round_trip(model, tmp_path, trusted=()):
    save(model, tmp_path / "model.evenhand")
    return load(tmp_path / "model.evenhand", trusted=trusted)


@pytest.mark.parametrize("calibration", [None, "joint"])
def test_a_regressor_over_pipelines_comes_back_bit_for_bit(calibration, tmp_path):
    model = ParityRegressor(
        make_pipeline(columns(), Ridge()),
        make_pipeline(columns(), LogisticRegression()),
        calibration=calibration,
        confidence=None,
        cv=StratifiedKFold(3, shuffle=True, random_state=0),
        random_state=4,
    ).fit(X, Y, sensitive_features=SEX)
    again = round_trip(model, tmp_path)
    assert_same(model, again, X)
    assert again.feature_names_in_.tolist() == ["income", "tenure", "city"]
    assert again.groups_.tolist() == ["f", "m"]
    with pytest.raises(ValueError, match="feature names"):
        again.predict(X[["income", "city"]])


def test_boosted_trees_are_loaded_once_their_type_is_trusted(tmp_path):
    model = ParityRegressor(HistGradientBoostingRegressor(max_iter=3), cv=2, confidence=None)
    model.fit(NUMBERS, Y, sensitive_features=SEX)
    with pytest.raises(UntrustedTypesError, match="without bounds checking") as caught:
        round_trip(model, tmp_path)
    assert caught.value.types == (TREE_PREDICTOR,)
    assert_same(model, round_trip(model, tmp_path, trusted=[TREE_PREDICTOR]), NUMBERS)


def test_a_forest_of_the_group_comes_back(tmp_path):
    forest = RandomForestClassifier(5, max_depth=3, random_state=0)
    model = ParityRegressor(LinearRegression(), forest, confidence=None)
    model.fit(NUMBERS, Y, sensitive_features=SEX)
    assert_same(model, round_trip(model, tmp_path, trusted=["sklearn.tree._tree.Tree"]), NUMBERS)


def test_groups_of_several_columns_and_tolerances_by_group_come_back(tmp_path):
    epsilon = {("f", "a"): 0.05, ("f", "b"): 0.1, ("m", "a"): 0.2, ("m", "b"): 0.3}
    frame = pd.DataFrame({"sex": SEX, "race": RACE})
    model = ParityRegressor(Ridge(), epsilon=epsilon, confidence=None).fit(
        NUMBERS, Y, sensitive_features=frame
    )
    again = round_trip(model, tmp_path)
    assert again.groups_.tolist() == list(epsilon)
    assert again.epsilon == epsilon
    assert_same(model, again, NUMBERS)


def test_an_aware_model_comes_back(tmp_path):
    model = ParityRegressor(Ridge(), aware=True).fit(NUMBERS, Y, sensitive_features=SEX)
    assert_same(model, round_trip(model, tmp_path), NUMBERS, sensitive_features=SEX)


def test_a_frozen_model_comes_back(tmp_path):
    frozen = FrozenEstimator(Ridge().fit(NUMBERS, Y))
    model = ParityRegressor(frozen).fit(NUMBERS, Y, sensitive_features=SEX)
    assert_same(model, round_trip(model, tmp_path), NUMBERS)


def test_the_estimate_for_new_data_comes_back(tmp_path):
    model = ParityRegressor(Ridge(), epsilon=0.2, confidence=0.9).fit(NUMBERS, Y, sensitive_features=SEX)
    again = round_trip(model, tmp_path)
    assert again.certificate_.out_of_sample.to_dict() == model.certificate_.out_of_sample.to_dict()
    assert str(again) == str(model)
    assert again.tolerance_.tobytes() == model.tolerance_.tobytes()


def test_an_unfitted_regressor_comes_back(tmp_path):
    model = ParityRegressor(Ridge(alpha=3.0), cv=4, epsilon=0.1)
    assert repr(round_trip(model, tmp_path)) == repr(model)


def test_a_pipeline_around_a_regressor_comes_back(tmp_path):
    with sklearn.config_context(enable_metadata_routing=True):
        inner = ParityRegressor(LinearRegression())
        pipeline = make_pipeline(columns(), inner).fit(X, Y, sensitive_features=SEX)
    again = round_trip(pipeline, tmp_path)
    assert type(again) is Pipeline
    assert again.predict(X).tobytes() == pipeline.predict(X).tobytes()


def test_the_best_of_a_search_is_saved_and_the_search_is_not(tmp_path):
    with sklearn.config_context(enable_metadata_routing=True):
        search = GridSearchCV(
            ParityRegressor(Ridge(), confidence=None).set_score_request(sensitive_features=False),
            {"epsilon": [0.05, 0.2]},
            cv=2,
        )
        search.fit(NUMBERS, Y, sensitive_features=SEX)
    with pytest.raises(TypeError, match="save its best_estimator_"):
        save(search, tmp_path / "model")
    assert_same(search.best_estimator_, round_trip(search.best_estimator_, tmp_path), NUMBERS)


def test_what_a_model_requests_of_metadata_routing_comes_back(tmp_path):
    with sklearn.config_context(enable_metadata_routing=True):
        model = ParityRegressor(Ridge()).set_fit_request(sample_weight=True, sensitive_features="group")
        again = round_trip(model, tmp_path)
        assert str(again.get_metadata_routing()) == str(model.get_metadata_routing())
    assert again.get_params()["estimator__alpha"] == 1.0


def test_another_process_predicts_the_same_bits(tmp_path):
    models = make_pipeline(columns(), Ridge()), make_pipeline(columns(), LogisticRegression())
    model = ParityRegressor(*models, confidence=None)
    save(model.fit(X, Y, sensitive_features=SEX), tmp_path / "model")
    X.to_pickle(tmp_path / "rows")
    code = (
        "import sys, pandas as pd; from evenhand.modelfile import load;"
        "print(load(sys.argv[1]).predict(pd.read_pickle(sys.argv[2])).tobytes().hex())"
    )
    command = [sys.executable, "-c", code, tmp_path / "model", tmp_path / "rows"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    assert printed == model.predict(X).tobytes().hex()


def test_flipped_bytes_are_refused_or_harmless(tmp_path):
    path = tmp_path / "model"
    model = ParityRegressor(Ridge()).fit(NUMBERS, Y, sensitive_features=SEX)
    save(model, path)
    data, expected = path.read_bytes(), model.predict(NUMBERS).tobytes()
    rng = np.random.default_rng(2)
    refused = 0
    for position in rng.integers(0, len(data), size=150):
        flipped = bytearray(data)
        flipped[position] ^= int(rng.integers(1, 256))
        path.write_bytes(flipped)
        try:
            assert load(path).predict(NUMBERS).tobytes() == expected
        except ModelFileError:
            refused += 1
    assert refused > 100


def test_an_estimator_that_skops_cannot_write_is_named(tmp_path):
    class Local(Ridge):
        def __getstate__(self):
            raise RuntimeError("no state today")

    with pytest.raises(
        TypeError, match=r"ParityRegressor\.estimator, a Local, cannot be saved: no state today"
    ):
        save(ParityRegressor(Local()), tmp_path / "model")
    with pytest.raises(
        TypeError, match=r"ParityRegressor\.cv is a builtins\.generator, which cannot be saved"
    ):
        save(ParityRegressor(cv=(split for split in [])), tmp_path / "model")


def test_a_pipeline_with_a_memory_is_refused(tmp_path):
    pipeline = make_pipeline(StandardScaler(), ParityRegressor(Ridge()), memory="cache")
    with pytest.raises(TypeError, match=r"set_params\(memory=None\)"):
        save(pipeline, tmp_path / "model")


def test_a_fit_that_the_file_does_not_know_is_refused(tmp_path):
    model = ParityPostprocessor()
    model._secret = 1
    with pytest.raises(TypeError, match="_secret is neither a parameter nor fitted"):
        save(model, tmp_path / "model")


def test_the_format_s_page_lists_the_fields_of_every_class(project_root):
    """A change of fields changes the format: bump FORMAT_VERSION, and then the page."""
    page = (project_root / "docs" / "reference" / "model-file.md").read_text()
    listed = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", page, flags=re.MULTILINE))
    own = {name: cls for name, cls in stored_classes().items() if is_own(cls)}
    del own["Custom"]  # which finds fault with any file: it holds a function
    objects = {name: cls for name, cls in own.items() if classes.is_object(cls)}
    for name, cls in objects.items():
        assert listed[name] == ", ".join(f"`{field}`" for field in classes.parameters(cls)), name
    assert len(objects) == page.partition("| class | fields |")[2].count("\n| `")
    others = {name for name, cls in own.items() if classes.kind_of(cls) in ("model", "enum")}
    assert {*others, *classes.SPLITTERS, "Pipeline"} <= set(re.findall(r"`(\w+)`", page))
