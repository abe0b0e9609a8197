"""Model files that an earlier version answered wrongly, made again from today's models.

Stored files would go stale: a reader refuses another format before it reaches what was wrong.
"""

import io
import json
import zipfile
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from evenhand.modelfile.arrays import write_npy

Members = dict[str, bytes]
Change = Callable[[dict[str, Any], dict[str, Any], Members], object]  # of params, fitted state and members

TREE = "model.json"
NEW_ARRAY = "arrays/9999.npy"
BAD_HEADER = b"{'descr': '<f8', 'fortran_order': False, 'sh:o\\[ape': (2,), }"


def make_findings(seeds: Mapping[str, Members]) -> Iterator[tuple[str, str, Members]]:
    """What was wrong, the name of the good file, and the members of the changed one."""
    for told, name, change in FINDINGS:
        members = dict(seeds[name])
        tree = json.loads(members[TREE])
        change(tree["model"]["params"], tree["model"]["fitted"], members)
        yield told, name, members | {TREE: json.dumps(tree).encode()}


def _fields(node: dict[str, Any], *names: str) -> dict[str, Any]:
    """The fields of an object, or of one inside of it."""
    fields: dict[str, Any] = node["object"]["fields"]
    for name in names:
        fields = fields[name]["object"]["fields"]
    return fields


def _group_model(fitted: dict[str, Any]) -> dict[str, Any]:
    return _fields(_fields(fitted["scorer_"])["groups"][0])


def _without_rows(params: dict[str, Any], fitted: dict[str, Any], members: Members) -> None:
    del _fields(fitted["step_"])["n_rows"]
    fitted["stream_"] = None


def _bad_escape(params: dict[str, Any], fitted: dict[str, Any], members: Members) -> None:
    header = BAD_HEADER.ljust(117) + b"\n"
    last = [name for name in members if name.endswith(".npy")][-1]
    members[last] = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(16)


def _array_as_flag(params: dict[str, Any], fitted: dict[str, Any], members: Members) -> None:
    params["aware"] = {"objects": {"shape": [2], "items": ["a", {"tuple": [1]}]}}
    _fields(fitted["scorer_"])["aware"] = params["aware"]


def _strata_of_plain_groups(params: dict[str, Any], fitted: dict[str, Any], members: Members) -> None:
    members[NEW_ARRAY] = write_npy(np.zeros(2, np.int64))
    _fields(fitted["step_"], "step")["strata"] = {"array": NEW_ARRAY}


def _two_group_models(params: dict[str, Any], fitted: dict[str, Any], members: Members) -> None:
    model = _group_model(fitted)
    model["model"] = [model["model"], model["model"]]


def _complex_coefficients(params: dict[str, Any], fitted: dict[str, Any], members: Members) -> None:
    name = _fields(fitted["scorer_"], "outcome")["model"]["estimator"]
    changed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(members[name])) as old, zipfile.ZipFile(changed, "w") as new:
        for each in old.namelist():
            content = old.read(each)
            if each.endswith(".npy") and (array := np.load(io.BytesIO(content))).dtype.kind == "f":
                content = write_npy(array.astype("<c16"))
            new.writestr(each, content)
    members[name] = changed.getvalue()


def _outcome_model(value: Any) -> Change:
    def change(params: dict[str, Any], fitted: dict[str, Any], members: Members) -> None:
        _fields(fitted["scorer_"], "outcome")["model"] = value

    return change


def _without_calibrator(params: dict[str, Any], fitted: dict[str, Any], members: Members) -> None:
    del _group_model(fitted)["calibrator"]


FINDINGS: tuple[tuple[str, str, Change], ...] = (
    ("a begun stream without a count of rows", "begun", _without_rows),
    ("an invalid escape in the header of an array", "stream", _bad_escape),
    ("an array in place of a flag", "regressor", _array_as_flag),
    ("strata of groups that are no pairs", "pmf", _strata_of_plain_groups),
    ("a list in place of the model of the group", "joint", _two_group_models),
    ("complex coefficients", "regressor", _complex_coefficients),
    ("a number in place of the model of the outcome", "regressor", _outcome_model(1e308)),
    ("a list in place of a classifier", "classifier", _outcome_model([[]])),
    ("a model of the group without a calibrator", "classifier", _without_calibrator),
)
