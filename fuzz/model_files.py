"""Mutated model files and checkpoints: read, and asked for predictions where they can be read.

Most mutants have valid checksums, so that the code behind the checksums is tested, too. Every run first tries
what earlier runs found: `past_findings`, and the files in `corpus/model_files`, which git ignores.
"""

import hashlib
import io
import json
import os
import resource
import struct
import tempfile
import traceback
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.svm import SVR

from evenhand import ParityClassifier, ParityPostprocessor, ParityRegressor, save
from evenhand.datasets import make_population
from evenhand.dual.thresholds import Thresholds
from evenhand.modelfile.arrays import write_npy
from evenhand.modelfile.container import Container
from evenhand.modelfile.saving import read_model
from evenhand.tables.checkpoints import Checkpoints
from fuzz.counts import CORPUS, Counts
from fuzz.judge import judge
from fuzz.past_findings import make_findings

TARGET = "model_files"
TREE = "model.json"
ROOM = 3 * 2**30  # bytes of address space that a case may take beyond what the process has
PEOPLE = make_population(20_000, n_groups=2, random_state=0)
ROWS = slice(0, 12)

NUMBERS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-300, 5e-324, 1e300, -1e300, 1.7e308, 1e16, np.nan, np.inf, -np.inf)
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2**31, 2**53, -(2**53), 10**30, 0.5, 1e308, -1e308, 5e-324, "", "x",
    "cdf", "\ud800",
    [], {}, [[]], [0], [None], [[1, 2], [3]], {"a": 1}, {"tuple": []}, {"tuple": [{"tuple": []}]},
    {"dict": []},
    {"dict": [[{"tuple": []}, 1]]}, {"dict": [[{"array": "arrays/0.npy"}, 1]]}, {"array": "arrays/0.npy"},
    {"array": "arrays/1.npy"}, {"float": "7ff8000000000000"}, {"float": "7ff0000000000000"},
    {"float": "fff0000000000000"}, {"int": "0x" + "f" * 5000}, {"int": "-0x1"}, {"bytes": "AAAA"},
    {"bytes": ""},
    {"date": "2024-02-30"}, {"datetime": "0001-01-01T00:00:00"}, {"uuid": "0" * 32},
    {"scalar": {"dtype": "<f8", "bytes": "AAAAAAAA8H8="}}, {"scalar": {"dtype": "<U1",
    "bytes": "AAAAAA=="}},
    {"scalar": {"dtype": "<M8[D]", "bytes": "AAAAAAAAAIA="}}, {"scalar": {"dtype": "<i8",
    "bytes": "/////////38="}},
    {"objects": {"shape": [0], "items": []}}, {"objects": {"shape": [], "items": [1]}},
    {"objects": {"shape": [2], "items": ["a", {"tuple": [1]}]}}, {"enum": ["Status", "CONVERGED"]},
    {"object": {"class": "CdfParity", "fields": {}}}, {"object": {"class": "Squared", "fields": {}}},
    {"object": {"class": "Pinball", "fields": {"alpha": {"float": "7ff8000000000000"}}}},
    {"object": {"class": "Huber", "fields": {"delta": 5e-324}}},
    {"splitter": {"class": "KFold", "params": {"n_splits": 2, "shuffle": False, "random_state": None}}},
)  # fmt: skip
KEYS = ("class", "fields", "params", "fitted", "array", "tuple", "dict", "object", "model", "x", "step_")


@dataclass(frozen=True, slots=True)
class Seed:
    """A good file, taken apart."""

    name: str
    data: bytes
    members: dict[str, bytes]
    manifest: dict[str, Any]


def run(seconds: float | None, cases: int | None, seed: int) -> Counts:
    """Try what was found before, then mutants until the time or their number is spent."""
    counts, rng = Counts(TARGET, seed), np.random.default_rng(seed)
    seeds = list(make_seeds())
    weights = np.array([8.0 if b".skops" not in each.data else 1.0 for each in seeds])
    with tempfile.TemporaryDirectory(dir=_memory_folder()) as folder, limited_memory():
        path = os.path.join(folder, "mutant.evenhand")
        for file in sorted((CORPUS / TARGET).glob("*.bin")):
            data = file.read_bytes()
            judge(counts, f"corpus {file.name}", lambda data=data: try_file(data), data)
        for told, data in find_again(seeds):
            judge(counts, f"past finding: {told}", lambda data=data: try_file(data), data)
        while not counts.is_over(seconds, cases):
            good = seeds[int(rng.choice(len(seeds), p=weights / weights.sum()))]
            data = mutate(good, rng)
            as_checkpoint = rng.random() < 0.05
            kind = "checkpoint" if as_checkpoint else "file"
            case = f"{kind} of {good.name}, seed {seed}, case {counts.cases}"
            attempt: Callable[[], Any] = (
                (lambda data=data: try_checkpoint(data, path))
                if as_checkpoint
                else (lambda data=data: try_file(data))
            )
            judge(counts, case, attempt, data)
    return counts


def make_seeds() -> Iterator[Seed]:
    """Small models of every kind that files hold."""
    people = PEOPLE
    few = people.scores[:300], people.group_proba[:300]
    table = people.data[:300], people.target[:300]
    groups = {"sensitive_features": people.sensitive_features[:300]}
    classes = (people.data[:300], people.target[:300] > 0)
    plain: dict[str, Any] = {"confidence": None, "calibration": None}
    models = {
        "step": ParityPostprocessor(atoms=5).fit(*few),
        "unfitted": ParityPostprocessor(epsilon=[0.1, 0.2], beta="paper"),
        "pmf": ParityPostprocessor(atoms=5, parity="pmf", cost="pinball", solver="lbfgs").fit(*few),
        "thresholds": ParityPostprocessor(atoms=5, parity=Thresholds(quantiles=[0.5])).fit(*few),
        "stream": ParityPostprocessor(atoms=5).partial_fit(people.scores, people.group_proba),
        "sgd3": ParityPostprocessor(atoms=5, solver="sgd3").partial_fit(people.scores, people.group_proba),
        "begun": ParityPostprocessor(atoms=5).partial_fit(*few),
        "regressor": ParityRegressor(LinearRegression(), LogisticRegression(), **plain).fit(*table, **groups),
        "joint": ParityRegressor(LinearRegression(), LogisticRegression(), epsilon=0.3).fit(*table, **groups),
        "odds": ParityClassifier(
            LogisticRegression(), LogisticRegression(), epsilon=0.3, criterion="equalized_odds"
        ).fit(*classes, **groups),
        "machine": ParityRegressor(SVR(), LogisticRegression(), **plain).fit(*table, **groups),
        "classifier": ParityClassifier(LogisticRegression(), LogisticRegression(), **plain).fit(
            *classes, **groups
        ),
    }
    for name, model in models.items():
        if name in ("stream", "sgd3", "begun"):
            model.table_position_ = 20_000
        with tempfile.NamedTemporaryFile(suffix=".evenhand") as file:
            save(model, file.name)
            data = file.seek(0) or open(file.name, "rb").read()  # noqa: SIM115
        container = Container(data)
        yield Seed(name, data, container.unpack(), container.manifest)


def find_again(seeds: list[Seed]) -> Iterator[tuple[str, bytes]]:
    """Files that earlier versions answered wrongly, and what is wrong with them."""
    by_name = {seed.name: seed for seed in seeds}
    for told, name, members in make_findings({name: seed.members for name, seed in by_name.items()}):
        yield told, pack_quickly(members, by_name[name].manifest)


def try_file(data: bytes) -> Any:
    """Read a file, and ask what comes of it for predictions, or for more rows where it is a stream."""
    return use(read_model(data))


def use(model: Any) -> Any:
    """Predictions of a model; a part of scikit-learn's may refuse in its own words, or its libraries'."""
    try:
        return predictions(model)
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        if any("/sklearn/" in frame.filename for frame in frames):
            return None
        raise


def predictions(model: Any) -> Any:
    """What a model says of a few rows, if it has been fitted."""
    scores, proba, X = PEOPLE.scores[ROWS], PEOPLE.group_proba[ROWS], PEOPLE.data[ROWS]
    if isinstance(model, ParityPostprocessor):
        if not hasattr(model, "step_"):
            return None
        classes = model.policy_.cost.n_classes
        if classes is not None:
            scores = np.full((len(scores), classes), 1.0 / classes)
        n_groups = len(model.policy_.group_prior)
        if n_groups != 2:
            proba = np.full((len(scores), n_groups), 1.0 / n_groups)
        answers = [model.predict_pmf(scores, proba), model.predict(scores, proba), str(model)]
        if hasattr(model, "stream_"):
            model.partial_fit(scores, proba)
            answers.append(model.predict_pmf(scores, proba))
        return answers
    if not hasattr(model, "step_"):
        return None
    by_class = isinstance(model, ParityClassifier)
    predicted = model.predict_proba(X) if by_class else model.predict_pmf(X)
    return [predicted, model.postprocessor_.multipliers_, str(model)]


def try_checkpoint(data: bytes, path: str) -> Any:
    """Resume a stream from a file that says it is a checkpoint."""
    with open(path, "wb") as file:
        file.write(data)
    model = ParityPostprocessor(atoms=5)
    Checkpoints(path, None, None).restore(model, resume=True, trusted=())
    return use(model)


def mutate(good: Seed, rng: np.random.Generator) -> bytes:
    """A file that is like a good one but for a few changes."""
    kind = rng.random()
    if kind < 0.15:
        return spoil_bytes(good.data, rng)
    members = dict(good.members)
    for _ in range(1 + int(rng.random() < 0.3)):
        kind = rng.random()
        if kind < 0.55:
            members[TREE] = mutate_tree(members[TREE], rng)
        elif kind < 0.9 or not any(name.endswith(".skops") for name in members):
            members = mutate_array(members, rng)
        else:
            members = mutate_estimator(members, rng)
    return pack_quickly(members, good.manifest)


def pack_quickly(members: dict[str, bytes], manifest: dict[str, Any]) -> bytes:
    """A file with checksums that hold, not compressed: mutants are many."""
    listed = {
        name: {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for name, data in members.items()
    }
    text = json.dumps({**manifest, "members": listed}).encode()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in {"manifest.json": text, **members}.items():
            archive.writestr(zipfile.ZipInfo(name), data)
    return buffer.getvalue()


def spoil_bytes(data: bytes, rng: np.random.Generator) -> bytes:
    """Bytes changed, lost, doubled or added anywhere."""
    spoilt = bytearray(data)
    for _ in range(int(rng.integers(1, 4))):
        start, stop = sorted(int(each) for each in rng.integers(0, len(spoilt) + 1, 2))
        way = int(rng.integers(5))
        if way == 0 and spoilt:
            spoilt[min(start, len(spoilt) - 1)] = int(rng.integers(256))
        elif way == 1:
            del spoilt[start : min(stop, start + 64)]
        elif way == 2:
            del spoilt[stop:]
        elif way == 3:
            spoilt[start:start] = spoilt[start : min(stop, start + 64)]
        else:
            spoilt[start:start] = rng.bytes(int(rng.integers(1, 9)))
    return bytes(spoilt)


def mutate_tree(text: bytes, rng: np.random.Generator) -> bytes:
    """The JSON of the model with a value replaced, lost, doubled, swapped or wrapped."""
    tree = json.loads(text)
    places = list(_places(tree)) or [({"gone": None}, "gone")]
    for _ in range(int(rng.integers(1, 4))):
        parent, key = places[int(rng.integers(len(places)))]
        other, other_key = places[int(rng.integers(len(places)))]
        way = int(rng.integers(7))
        try:
            if way <= 1:
                parent[key] = deepcopy(VALUES[int(rng.integers(len(VALUES)))])
            elif way == 2:
                parent[key] = _number(rng)
            elif way == 3:
                parent[key] = deepcopy(other[other_key])
            elif way == 4:
                del parent[key]
            elif way == 5:
                parent[key] = [deepcopy(parent[key])] * int(rng.integers(1, 3))
            elif isinstance(parent, dict):
                parent[KEYS[int(rng.integers(len(KEYS)))]] = parent.pop(key)
            else:
                parent.insert(int(key), deepcopy(parent[key]))
        except (KeyError, IndexError, RecursionError):  # gone by an earlier change
            continue
    return json.dumps(tree).encode()


def mutate_array(members: dict[str, bytes], rng: np.random.Generator) -> dict[str, bytes]:
    """One array with other numbers, or of another shape or type; or its bytes spoilt."""
    names = [name for name in members if name.endswith(".npy")]
    if not names:
        return members
    name = names[int(rng.integers(len(names)))]
    if rng.random() < 0.1:
        return {**members, name: spoil_bytes(members[name], rng)}
    try:
        array = np.load(io.BytesIO(members[name])) if rng.random() < 0.9 else np.arange(4.0)
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return {**members, name: write_npy(_spoil_array(array, rng))}
    except Exception:  # spoilt before, or no array can become that
        return members


def mutate_estimator(members: dict[str, bytes], rng: np.random.Generator) -> dict[str, bytes]:
    """One part of scikit-learn's with another schema or other arrays."""
    names = [name for name in members if name.endswith(".skops")]
    name = names[int(rng.integers(len(names)))]
    with zipfile.ZipFile(io.BytesIO(members[name])) as archive:
        inner = {each: archive.read(each) for each in archive.namelist()}
    chosen = list(inner)[int(rng.integers(len(inner)))]
    if chosen.endswith(".npy"):
        inner = mutate_array({chosen: inner[chosen]}, rng) | {
            key: inner[key] for key in inner if key != chosen
        }
    else:
        inner[chosen] = mutate_tree(inner[chosen], rng)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for each, content in inner.items():
            archive.writestr(each, content)
    return {**members, name: out.getvalue()}


def _spoil_array(array: Any, rng: np.random.Generator) -> Any:
    way = int(rng.integers(8))
    changed = array.copy()
    if way <= 2 and changed.size:
        for place in rng.integers(changed.size, size=int(rng.integers(1, 4))):
            changed.flat[place] = NUMBERS[int(rng.integers(len(NUMBERS)))]
    elif way == 3:
        changed = changed[: int(rng.integers(len(changed) + 1))] if changed.ndim else changed[None]
    elif way == 4:
        changed = np.concatenate([changed, changed]) if changed.ndim else changed.reshape(1, 1)
    elif way == 5:
        changed = changed.T if rng.random() < 0.5 else changed.ravel()
    elif way == 6:
        changed = changed.astype(
            str(rng.choice(["<f4", "<i8", "<U3", "|b1", "<c16", ">f8", "<u8", "<M8[s]"]))
        )
    else:
        changed = (changed * NUMBERS[int(rng.integers(len(NUMBERS)))]).astype(changed.dtype)
    return changed


def _number(rng: np.random.Generator) -> Any:
    value = NUMBERS[int(rng.integers(len(NUMBERS)))]
    return value if np.isfinite(value) else {"float": struct.pack(">d", value).hex()}


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Every value inside of lists and dictionaries, by its parent and its key."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        for key in list(node) if isinstance(node, dict) else range(len(node)):
            yield node, key
            if isinstance(node[key], dict | list):
                waiting.append(node[key])


@contextmanager
def limited_memory() -> Iterator[None]:
    """No more address space than the process has and some room: what asks for more fails, and is found."""
    with open("/proc/self/statm") as file:
        taken = int(file.read().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (taken + ROOM, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _memory_folder() -> str | None:
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
