"""Numbers in a model file that no fit leaves are refused when it is read: nobody gets an answer of theirs."""

import io
import json
from dataclasses import replace

import numpy as np
import pytest

import evenhand as eh
from evenhand._utils.stored import find_fault
from evenhand.calibration import JointCalibrator
from evenhand.modelfile import ModelFileError, load, save
from evenhand.modelfile.arrays import write_npy
from evenhand.modelfile.container import Container, pack

PEOPLE = eh.datasets.make_population(40_000, n_groups=2, random_state=0)
NAN, INF = {"float": "7ff8000000000000"}, {"float": "7ff0000000000000"}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Model files by what they hold."""
    folder = tmp_path_factory.mktemp("invariants")
    rows = PEOPLE.scores[:500], PEOPLE.group_proba[:500]
    models = {
        "step": eh.ParityPostprocessor(atoms=5).fit(*rows),
        "stream": eh.ParityPostprocessor(atoms=5, solver="sgd3").partial_fit(
            PEOPLE.scores, PEOPLE.group_proba
        ),
    }
    # a map to the scores, whichever way the fit went: maps are kept where they help
    model = eh.ParityRegressor(epsilon=0.2).fit(
        PEOPLE.data[:500], PEOPLE.target[:500], sensitive_features=PEOPLE.sensitive_features[:500]
    )
    ends = -np.ones(2), np.ones(2)
    shift = JointCalibrator(
        "shift", *ends, np.zeros(2), np.ones(2), np.eye(2, dtype=int), np.ones((1, 2)), np.zeros(1)
    )
    model.scorer_ = model.scorer_.with_maps([shift, None])
    models["estimator"] = model
    for name, model in models.items():
        save(model, folder / name)
    return folder


def refused(files, name, path, change):
    """Change one value of a file, named by its place, and read it; the words of the refusal."""
    good = Container((files / name).read_bytes())
    members = good.unpack()
    tree = json.loads(members["model.json"])
    *way, last = path.split(".")
    node = tree["model"]["fitted"]
    for key in way:
        node = node[int(key) if key.isdecimal() else key]
        node = node.get("object", node).get("fields", node) if isinstance(node, dict) else node
        node = node["model"]["fitted"] if isinstance(node, dict) and set(node) == {"model"} else node
    if isinstance(node[last], dict) and "array" in node[last]:
        array = np.load(io.BytesIO(members[node[last]["array"]]))
        members["arrays/999.npy"] = write_npy(change(array))
        node[last] = {"array": "arrays/999.npy"}
    else:
        node[last] = change(node[last])
    members["model.json"] = json.dumps(tree).encode()
    (files / "changed").write_bytes(pack(members, good.manifest))
    with pytest.raises(ModelFileError) as error:
        load(files / "changed")
    return str(error.value)


def with_(value):
    """Put a value into an array."""

    def change(array):
        changed = array.copy()
        changed.flat[0] = value
        return changed

    return change


CASES = {
    "beta below zero": ("step", "step_.step.beta", lambda _: -1.0, "beta"),
    "beta zero": ("step", "step_.step.beta", lambda _: 0.0, "beta"),
    "beta NaN": ("step", "step_.step.beta", lambda _: NAN, "beta"),
    "beta infinite": ("step", "step_.step.beta", lambda _: INF, "beta"),
    "multipliers NaN": ("step", "step_.multipliers", with_(np.nan), "multipliers"),
    "multipliers infinite": ("step", "step_.multipliers", with_(-np.inf), "multipliers"),
    "multipliers huge": ("step", "step_.multipliers", with_(1e300), "logits"),
    "prior NaN": ("step", "step_.step.group_prior", with_(np.nan), "prior"),
    "prior infinite": ("step", "step_.step.group_prior", with_(np.inf), "prior"),
    "prior tiny": ("step", "step_.step.group_prior", with_(5e-324), "logits"),
    "bounds reversed": ("step", "step_.step.grid.bounds", lambda _: {"tuple": [1.0, -1.0]}, "lower bound"),
    "bounds NaN": ("step", "step_.step.grid.bounds", lambda _: {"tuple": [NAN, 1.0]}, "lower bound"),
    "atoms NaN": ("step", "step_.step.grid.atoms", with_(np.nan), "atoms"),
    "atoms reversed": ("step", "step_.step.grid.atoms", lambda atoms: atoms[::-1].copy(), "atoms"),
    "epsilon NaN": ("step", "step_.epsilon", with_(np.nan), "tolerances"),
    "epsilon infinite": ("step", "step_.epsilon", with_(np.inf), "tolerances"),
    "epsilon negative": ("step", "step_.epsilon", with_(-0.1), "tolerances"),
    "tolerance NaN": ("step", "step_.step.epsilon", with_(np.nan), "tolerances"),
    "tolerance infinite": ("step", "step_.step.epsilon", with_(np.inf), "tolerances"),
    "result NaN": ("step", "step_.result.multipliers", with_(np.nan), "multipliers"),
    "certificate NaN": ("step", "step_.certificate.violation", with_(np.nan), "violations"),
    "rows below zero": ("step", "step_.n_rows", lambda _: -1, "counts"),
    "stream multipliers": ("stream", "stream_.multipliers", with_(np.inf), "multipliers"),
    "stream weight": ("stream", "stream_.record.weight", lambda _: INF, "weights"),
    "stream moments": ("stream", "stream_.record.moments.policy", with_(np.nan), "policy"),
    "stream means": ("stream", "stream_.record.moments.smooth", lambda _: NAN, "means"),
    "stream charts": ("stream", "stream_.record.monitor.up", with_(np.nan), "charts"),
    "stream charts below": ("stream", "stream_.record.monitor.down", with_(-1.0), "charts"),
    "solver's point": ("stream", "stream_.record.solver_state.iterate", with_(np.nan), "points"),
    "map NaN": ("estimator", "scorer_.outcome.calibrator.coefficients", with_(np.nan), "not finite"),
    "map of no width": ("estimator", "scorer_.outcome.calibrator.scale", with_(0.0), "scales"),
    "map of a root": ("estimator", "scorer_.outcome.calibrator.powers", with_(-1), "powers"),
    "confidence of two": (
        "estimator",
        "step_.certificate.out_of_sample.confidence",
        lambda _: 2.0,
        "confidence",
    ),
    "summary NaN": ("estimator", "group_summary_.counts", with_(np.nan), "counts"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_number_that_no_fit_leaves_is_refused_at_load(case, files):
    name, path, change, word = CASES[case]
    assert word in refused(files, name, path, change)


def test_a_joint_map_with_reversed_bounds_is_refused():
    ends, one = (np.array([0.0]), np.array([1.0])), np.ones((1, 1))
    good = JointCalibrator("shift", *ends, *ends, one.astype(np.int64), one, np.zeros(1))
    assert find_fault(good) is None
    assert "lower bounds are above" in find_fault(replace(good, low=np.array([2.0])))
