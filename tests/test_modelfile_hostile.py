"""Hostile model files: whole, with checksums that hold, and refused before anything of them is built."""

import io
import json
import os
import sys
import zipfile
from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.tree import DecisionTreeRegressor

from evenhand import ParityClassifier, ParityPostprocessor, ParityRegressor
from evenhand._utils.stored import find_fault
from evenhand.modelfile import ModelFileError, UntrustedTypesError, foreign, load, save
from evenhand.modelfile.container import Container, pack
from evenhand.solvers import Sgd3

RNG = np.random.default_rng(0)
PROBA = RNG.dirichlet([1.0, 2.0], size=100)
SCORES = RNG.normal(size=100)


class Canary:
    """Runs a command where a pickle of it is opened."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


@pytest.fixture
def canary(tmp_path):
    """A file that must not be there at the end of the test."""
    path = tmp_path / "canary"
    yield path
    assert not path.exists()


@pytest.fixture(scope="module")
def fitted():
    return ParityPostprocessor(atoms=5).fit(SCORES, PROBA)


@pytest.fixture
def forge(fitted, tmp_path):
    """Save a model, change what the file holds, and write it with checksums that hold."""

    def write(change, model=None):
        path = tmp_path / "model.evenhand"
        save(model or fitted, path)
        container = Container(path.read_bytes())
        members = container.unpack()
        tree = json.loads(members.pop("model.json"))
        change(tree["model"], members)
        path.write_bytes(pack({"model.json": json.dumps(tree).encode(), **members}, container.manifest))
        return path

    return write


def npy(array, **options):
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, **options)
    return stream.getvalue()


def npy_claiming(header, payload=b""):
    text = header.ljust(117).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + payload


def test_a_pickle_inside_an_array_is_refused(forge, canary, tmp_path):
    control = tmp_path / "control"
    live = npy(np.array([Canary(control)], dtype=object), allow_pickle=True)
    np.load(io.BytesIO(live), allow_pickle=True)
    assert control.exists()  # so that the canary's absence says something
    pickled = npy(np.array([Canary(canary)], dtype=object), version=(1, 0), allow_pickle=True)
    path = forge(lambda model, members: members.update({"arrays/0.npy": pickled}))
    with pytest.raises(ModelFileError, match=r"arrays/0\.npy holds Python objects, which only a pickle can"):
        load(path)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x93NUMPY",
        npy(np.zeros(3), version=(2, 0)),
        npy(np.zeros(3))[:-1],
        npy(np.zeros(3)) + b"more",
        npy_claiming("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,)}"),
        npy_claiming("{'descr': '<f8', 'fortran_order': False, 'shape': (-1,)}", bytes(8)),
        npy_claiming("{'descr': '<U0', 'fortran_order': False, 'shape': (1000000000000,)}"),
        npy_claiming("{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (1,)}", bytes(8)),
        npy_claiming("{'descr': '<U1', 'fortran_order': False, 'shape': (1,)}", b"\xff" * 4),
        npy_claiming("__import__('os').system('true')"),
        npy_claiming("(" * 100),
    ],
    ids=lambda data: data[10:60].decode(errors="replace").strip(),
)
def test_an_array_that_is_not_what_it_claims_is_refused(data, forge):
    with pytest.raises(ModelFileError, match=r"arrays/0\.npy"):
        load(forge(lambda model, members: members.update({"arrays/0.npy": data})))


HOSTILE_VALUES = [
    {"object": {"class": "os.system", "fields": {"command": "true"}}},
    {"object": {"class": "system", "fields": {}}},
    {"object": {"class": "ParityPostprocessor", "fields": {}}},
    {"object": {"class": ["os", "system"], "fields": {}}},
    {"object": {"class": "Batch", "fields": {"tol": 1.0}}},
    {"object": {"class": "Auto", "fields": {"tol": 1.0, "max_iter": 1, "widest": 1, "__class__": "os"}}},
    {"object": {"class": "Auto"}},
    {"object": None},
    {"model": {"class": "subprocess.Popen", "params": {"args": "true"}, "fitted": {}}},
    {"model": {"class": "ParityPostprocessor", "params": {}, "fitted": {}}},
    {"splitter": {"class": "LeaveOneOut", "params": {}}},
    {"splitter": {"class": "KFold", "params": {"n_splits": -1, "shuffle": False, "random_state": None}}},
    {"enum": ["Status", "__class__"]},
    {"enum": ["os", "system"]},
    {"enum": "Status"},
    {"reduce": ["os.system", ["true"]]},
    {"py/object": "os.system"},
    {"tuple": 1, "list": 2},
    {},
    {"tuple": {"a": 1}},
    {"dict": [[[1], 2]]},
    {"dict": [[1, 2], [True, 3]]},
    {"dict": [1]},
    {"int": "os.system"},
    {"int": 5},
    {"float": "0x1p3"},
    {"float": "00"},
    {"bytes": "not base64!"},
    {"uuid": "zz"},
    {"datetime": "yesterday"},
    {"scalar": {"dtype": "O", "bytes": "AAAAAAAAAAA="}},
    {"scalar": {"dtype": "<f8", "bytes": "AAAA"}},
    {"scalar": {"dtype": "<f7", "bytes": ""}},
    {"scalar": 3},
    {"array": "arrays/77.npy"},
    {"array": "model.json"},
    {"array": ["arrays/0.npy"]},
    {"estimator": "estimators/0.skops"},
    {"objects": {"shape": [2**40, 2**40], "items": []}},
    {"objects": {"shape": [-1], "items": []}},
    {"objects": {"shape": [2], "items": [1]}},
]


@pytest.mark.parametrize("value", HOSTILE_VALUES, ids=str)
def test_json_that_names_what_is_not_on_the_list_is_refused(value, forge):
    with pytest.raises(ModelFileError, match=r"The model\.solver"):
        load(forge(lambda model, members: model["params"].update(solver=value)))


HIDING = ["policy_", "atoms_", "certificate_", "draw_key_", "groups_", "multipliers_"]  # results of the step


@pytest.mark.parametrize(
    "name", ["__class__", "__init__", "fit", "predict", "_private", "a.b_", "_", *HIDING]
)
def test_attributes_that_no_fit_leaves_are_refused(name, forge):
    with pytest.raises(ModelFileError, match="attributes that no fit leaves"):
        load(forge(lambda model, members: model["fitted"].update({name: 1})))


@pytest.mark.parametrize("depth", [100, 100_000])
def test_json_that_is_nested_too_deep_is_refused(depth, forge, tmp_path):
    path = forge(lambda model, members: model["params"].update(solver="HERE"))
    container = Container(path.read_bytes())
    members = container.unpack()
    members["model.json"] = members["model.json"].replace(b'"HERE"', b"[" * depth + b"]" * depth)
    path.write_bytes(pack(members, container.manifest))
    with pytest.raises(ModelFileError, match="nested too deep"):
        load(path)


@pytest.mark.parametrize(
    "text", [b'{"model": NaN}', b'{"a": 1, "a": 1}', b"{", b"\xff", b"9" * 5000, b"", b"[]", b"null"]
)
def test_json_that_is_not_strict_is_refused(text, forge):
    path = forge(lambda model, members: None)
    container = Container(path.read_bytes())
    path.write_bytes(pack({**container.unpack(), "model.json": text}, container.manifest))
    with pytest.raises(ModelFileError, match=r"model\.json"):
        load(path)


def replace_array(name, array):
    """A change that makes one fitted array of the step another one."""

    def change(model, members):
        fitted = model["fitted"]["step_"]["object"]["fields"]
        step = fitted["step"]["object"]["fields"]
        where = {"atoms": step["grid"]["object"]["fields"], "group_prior": step}.get(name, fitted)
        members["arrays/500.npy"] = npy(array, version=(1, 0))
        where[name] = {"array": "arrays/500.npy"}

    return change


@pytest.mark.parametrize(
    ("name", "array"),
    [
        (
            "atoms",
            np.arange(3.0),
        ),  # fewer than the multipliers are for: compiled loops would read past the end
        ("atoms", np.arange(5.0)[::-1]),
        ("atoms", np.array([0, 1, 2, 3, np.nan])),
        ("atoms", np.arange(5)),
        ("multipliers", np.zeros((500, 2))),
        ("multipliers", np.zeros((4, 1))),
        ("multipliers", np.zeros((5, 2))),
        ("multipliers", np.zeros(8)),
        ("multipliers", np.zeros((4, 2), np.float32)),
        ("group_prior", np.ones(3)),
        ("group_prior", np.zeros(2)),
    ],
)
def test_shapes_that_compiled_loops_would_trust_are_checked(name, array, forge):
    with pytest.raises(ModelFileError, match=r"is not a model's|cannot be"):
        load(forge(replace_array(name, array)))


def test_arrays_of_the_right_shapes_are_accepted(forge):
    for name, array in {
        "atoms": np.arange(5.0),
        "multipliers": np.zeros((4, 2)),
        "group_prior": np.ones(2),
    }.items():
        assert load(forge(replace_array(name, array))).predict_pmf(SCORES, PROBA).shape == (100, 5)


PARTS = ["step", "multipliers", "epsilon", "groups", "draw_key", "n_rows", "certificate"]


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("value", [None, "gone"])
def test_a_fitted_step_without_its_parts_is_refused(name, value, forge):
    def change(model, members):
        fields = model["fitted"]["step_"]["object"]["fields"]
        fields.pop(name)
        fields.update({} if value is None else {name: value})

    with pytest.raises(ModelFileError, match=r"is not a model's|lacks the fields|cannot be"):
        load(forge(change))


@pytest.mark.parametrize("value", ["gone", 3, {"tuple": []}, {"dict": []}])
def test_what_is_no_fitted_step_is_refused_in_its_place(value, forge):
    with pytest.raises(ModelFileError, match="its step_ is not a fitted step"):
        load(forge(lambda model, members: model["fitted"].update(step_=value)))


@pytest.mark.parametrize("name", ["scorer_", "step_", "group_summary_"])
@pytest.mark.parametrize("value", [None, "gone"])
def test_an_estimator_without_one_of_its_parts_is_refused(name, value, forge):
    pytest.importorskip("skops")
    groups = np.arange(100) % 2
    model = ParityRegressor(Ridge(), atoms=5, confidence=None).fit(PROBA, SCORES, sensitive_features=groups)

    def change(tree, members):
        tree["fitted"].pop(name)
        tree["fitted"].update({} if value is None else {name: value})

    with pytest.raises(ModelFileError, match="is not a model's"):
        load(forge(change, model))


def test_a_scorer_of_other_groups_than_its_step_is_refused():
    pytest.importorskip("skops")
    model = ParityRegressor(Ridge(), atoms=5, confidence=None)
    model.fit(PROBA, SCORES, sensitive_features=np.arange(100) % 2)
    other = ParityRegressor(Ridge(), atoms=5, confidence=None)
    other.fit(PROBA, SCORES, sensitive_features=np.arange(100) % 3)
    model.step_ = other.step_
    assert "its scorer_ has other groups than its step_" in find_fault(model)


def classifier():
    model = ParityClassifier(LogisticRegression(), epsilon=0.3, confidence=None)
    return model.fit(PROBA, np.arange(100) % 3 == 0, sensitive_features=np.arange(100) % 2)


def with_cost_of(n_classes):
    """A classifier for two classes, with costs for others: its loops would read scores that are not there."""
    model = classifier()
    cost = replace(model.step_.step.cost, matrix=1.0 - np.eye(n_classes, 2))
    model.step_ = replace(model.step_, step=replace(model.step_.step, cost=cost))
    return model


def with_parts_of_a_regressor(name):
    model, other = classifier(), ParityRegressor(Ridge(), atoms=np.arange(2.0), epsilon=0.3, confidence=None)
    other.fit(PROBA, SCORES, sensitive_features=np.arange(100) % 2)
    setattr(model, name, getattr(other, name))
    return model


@pytest.mark.parametrize(
    "make",
    [
        lambda: with_cost_of(5),
        lambda: with_cost_of(3),
        lambda: with_parts_of_a_regressor("step_"),
        lambda: with_parts_of_a_regressor("scorer_"),
    ],
    ids=["costs of five", "costs of three", "step of numbers", "scorer of numbers"],
)
def test_a_classifier_whose_parts_are_of_other_classes_is_refused(make):
    assert find_fault(classifier()) is None
    assert find_fault(make()) is not None


def test_a_regressor_whose_step_takes_classes_is_refused():
    model = ParityRegressor(Ridge(), atoms=np.arange(2.0), epsilon=0.3, confidence=None)
    model.fit(PROBA, SCORES, sensitive_features=np.arange(100) % 2)
    model.step_ = classifier().step_
    assert find_fault(model) is not None


def places(tree, path=()):
    """Where each value of a JSON tree is."""
    for key in tree if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ():
        yield (*path, key)
        yield from places(tree[key], (*path, key))


def streamed():
    rows = np.tile(SCORES, 30), np.tile(PROBA, (30, 1))
    return ParityPostprocessor(atoms=5, cost="absolute", solver=Sgd3(), random_state=0).partial_fit(*rows)


@pytest.mark.parametrize("make", [lambda: None, streamed], ids=["fitted", "streamed"])
def test_a_tree_with_any_value_in_any_place_gives_a_model_or_an_error_about_the_file(make, forge):
    model = make()
    rng = np.random.default_rng(0)
    values = [None, True, -1, 1e308, "x", [], {}, {"tuple": []}, {"array": "arrays/0.npy"}, *HOSTILE_VALUES]
    outcomes = {"loaded": 0, "refused": 0}

    def change(model, members):
        *path, last = rng.choice(np.array([None, *places(model)], dtype=object)[1:])
        for key in path:
            model = model[key]
        model[last] = values[rng.integers(len(values))]

    for _ in range(400):
        path = forge(change, model)
        try:
            load(path)
            outcomes["loaded"] += 1
        except ModelFileError:
            outcomes["refused"] += 1
    assert min(outcomes.values()) > 10


# scikit-learn parts


def regressor(estimator):
    pytest.importorskip("skops")
    return ParityRegressor(estimator, LinearRegression())


def rewrite(members, name, change):
    """Change the schema of a skops member."""
    with zipfile.ZipFile(io.BytesIO(members[name])) as archive:
        contents = {part: archive.read(part) for part in archive.namelist()}
    schema = json.loads(contents["schema.json"])
    change(schema)
    contents["schema.json"] = json.dumps(schema).encode()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for part, data in contents.items():
            archive.writestr(part, data)
    members[name] = buffer.getvalue()


def call(module, function, argument, loader):
    """A skops node that calls a function, for a reader without an audit."""
    text = {"__class__": "str", "__module__": "builtins", "__loader__": "JsonNode", "is_json": True}
    text["content"] = json.dumps(str(argument))
    arguments = {"__class__": "tuple", "__module__": "builtins", "__loader__": "TupleNode", "content": [text]}
    node = {"__class__": function, "__module__": module, "__loader__": loader, "content": arguments}
    return {**node, "__reduce__": {"args": arguments}, "attrs": arguments}


@pytest.mark.parametrize("loader", ["ConstructorFromReduceNode", "ObjectNode", "LossNode", "TreeNode"])
@pytest.mark.parametrize("module", ["os", "posix"])
def test_a_command_inside_a_scikit_learn_part_is_refused(module, loader, forge, canary):
    def change(model, members):
        node = call(module, "system", f"touch {canary}", loader)
        rewrite(
            members,
            "estimators/0.skops",
            lambda schema: schema["content"]["content"].update(fit_intercept=node),
        )

    with pytest.raises(UntrustedTypesError) as caught:
        load(forge(change, regressor(LinearRegression())))
    assert set(caught.value.types) <= {f"{module}.system", "sklearn.tree._tree.Tree"}


def test_an_operator_inside_a_scikit_learn_part_is_refused(forge, canary):
    def change(model, members):
        node = call("operator", "methodcaller", f"touch {canary}", "OperatorFuncNode")
        rewrite(members, "estimators/0.skops", lambda schema: schema.update(node))

    with pytest.raises(UntrustedTypesError, match=r"operator\.methodcaller"):
        load(forge(change, regressor(LinearRegression())))


def test_a_function_of_the_users_is_listed_and_refused_until_trusted(tmp_path):
    model = regressor(make_pipeline(FunctionTransformer(os.path.basename), LinearRegression()))
    save(model, tmp_path / "model")
    with pytest.raises(UntrustedTypesError, match=r"posixpath\.basename") as caught:
        load(tmp_path / "model")
    assert caught.value.types == ("posixpath.basename",)
    again = load(tmp_path / "model", trusted=caught.value.types)
    assert again.estimator[0].func is os.path.basename
    with pytest.raises(UntrustedTypesError):
        load(tmp_path / "model", trusted=["os.path.join"])


def test_every_unknown_type_of_every_part_is_listed_at_once(tmp_path):
    tree = DecisionTreeRegressor(max_depth=1).fit([[0.0], [1.0]], [0, 1])
    save(ParityRegressor(tree, FunctionTransformer(os.path.basename)), tmp_path / "model")
    with pytest.raises(UntrustedTypesError) as caught:
        load(tmp_path / "model")
    assert caught.value.types == ("posixpath.basename", "sklearn.tree._tree.Tree")
    assert f"trusted={list(caught.value.types)}" in str(caught.value)


def test_a_dtype_is_trusted_only_where_it_is_read_off_an_array(forge):
    def change(model, members):
        node = call("numpy", "dtype", "O", "ConstructorFromReduceNode")
        rewrite(members, "estimators/0.skops", lambda schema: schema["content"]["content"].update(tol=node))

    with pytest.raises(UntrustedTypesError, match=r"numpy\.dtype"):
        load(forge(change, regressor(LinearRegression())))


@pytest.mark.parametrize("data", [b"", b"PK", b"PK\x05\x06" + bytes(18)])
def test_a_scikit_learn_part_that_is_no_archive_is_refused(data, forge):
    path = forge(lambda model, members: members.update({"estimators/0.skops": data}), regressor(Ridge()))
    with pytest.raises(ModelFileError, match=r"estimators/0\.skops"):
        load(path)


@pytest.mark.parametrize(
    "content", [{"__loader__": "Nothing"}, {"content": 3}, {"__class__": 5}, {"protocol": 99}]
)
def test_a_scikit_learn_part_that_skops_cannot_read_is_refused(content, forge):
    def change(model, members):
        rewrite(members, "estimators/0.skops", lambda schema: schema.update(content))

    with pytest.raises(ModelFileError, match=r"estimators/0\.skops|not trusted"):
        load(forge(change, regressor(Ridge())))


def test_a_compressed_scikit_learn_part_is_refused(forge):
    def change(model, members):
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("schema.json", "{}" + " " * 10**6)
        members["estimators/0.skops"] = buffer.getvalue()

    with pytest.raises(ModelFileError, match="would unpack to more"):
        load(forge(change, regressor(Ridge())))


@pytest.mark.parametrize("trusted", [True, None, "sklearn.tree._tree.Tree", [Ridge]])
def test_trusted_is_a_list_of_names(trusted, tmp_path):
    with pytest.raises(TypeError, match="trusted must"):
        load(tmp_path / "model", trusted=trusted)


def test_without_skops_the_message_names_the_extra(tmp_path, monkeypatch):
    save(regressor(Ridge()), tmp_path / "model")
    monkeypatch.setitem(sys.modules, "skops.io", None)
    for call in (lambda: load(tmp_path / "model"), lambda: save(regressor(Ridge()), tmp_path / "model")):
        with pytest.raises(ImportError, match=r"pip install 'evenhand\[io\]'"):
            call()


def test_a_skops_with_known_holes_is_refused(tmp_path, monkeypatch):
    save(regressor(Ridge()), tmp_path / "model")
    monkeypatch.setattr(foreign, "skops_version", lambda: "0.14.2")
    with pytest.raises(ImportError, match=r"needs skops 0\.15 or newer, for its safety: this is 0\.14\.2"):
        load(tmp_path / "model")
