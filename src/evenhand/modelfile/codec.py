"""Values to JSON and back, for a fixed set of types: any other is refused, both ways.

JSON's own null, true, false, text, lists, finite floats and integers up to 2^53 stand for themselves.
Anything else is an object with one key, its kind: `{"tuple": [...]}`, `{"array": "arrays/0.npy"}`. The
kinds are listed in docs/reference/model-file.md. Floats are exact: `repr` gives the shortest text that reads
back as the same float, and those that JSON does not know are written as their bits.
"""

import base64
import math
import struct
from collections.abc import Callable, Mapping
from datetime import date, datetime
from enum import Enum
from typing import Any, TypeAlias
from uuid import UUID

import numpy as np

from evenhand._utils.stored import Stored, stored_name
from evenhand._utils.typing import AnyArray
from evenhand.modelfile import classes, routing
from evenhand.modelfile.arrays import (
    decode_bytes,
    decode_scalar,
    encode_scalar,
    is_plain,
    read_npy,
    write_npy,
)
from evenhand.modelfile.errors import ModelFileError
from evenhand.modelfile.foreign import dump_estimator, is_estimator

Json: TypeAlias = Any

MAX_DEPTH = 60
MAX_BITS = 1000  # of an integer: more are no number to a float, and take long to write out
_EXACT = 2**53  # integers beyond are not exact in every reader of JSON


class Encoder:
    """Turns values into JSON; arrays and foreign estimators become members of the file."""

    def __init__(self) -> None:
        self.members: dict[str, bytes] = {}
        # one member for one object, however often it is met; the object is kept so that its id stays its own
        self._known: dict[int, tuple[str, object]] = {}

    def encode(self, value: Any, where: str, depth: int = 0) -> Json:
        """The JSON of `value`; `where` is what messages call it."""
        if depth > MAX_DEPTH:
            raise TypeError(f"{where} is nested too deep to be saved, or holds itself.")
        kind = type(value)
        if value is None or kind in (bool, str):
            return value
        if kind in _SIMPLE:
            return _SIMPLE[kind](value)
        if kind in _CONTAINERS:
            return _CONTAINERS[kind](self, value, where, depth + 1)
        if isinstance(value, np.generic):
            return self._scalar(value, where)
        if classes.is_model(value):
            return self._model(value, where, depth + 1)
        if classes.is_object(kind):
            return self._object(value, where, depth + 1)
        if kind in classes.SPLITTERS.values():
            return {"splitter": {"class": kind.__name__, "params": self._params(value, where, depth + 1)}}
        if isinstance(value, Enum) and isinstance(value, Stored):
            return {"enum": [stored_name(kind), value.name]}
        if is_estimator(value):
            return self._estimator(value, where)
        raise _cannot_save(value, where)

    def _list(self, value: list[Any], where: str, depth: int) -> Json:
        return [self.encode(item, f"{where}[{i}]", depth) for i, item in enumerate(value)]

    def _tuple(self, value: tuple[Any, ...], where: str, depth: int) -> Json:
        return {"tuple": self._list(list(value), where, depth)}

    def _dict(self, value: dict[Any, Any], where: str, depth: int) -> Json:
        pairs = [
            [self.encode(key, f"a key of {where}", depth), self.encode(item, f"{where}[{key!r}]", depth)]
            for key, item in value.items()
        ]
        return {"dict": pairs}

    def _array(self, value: AnyArray, where: str, depth: int) -> Json:
        if value.dtype == object:
            items = self._list(value.ravel().tolist(), where, depth)
            return {"objects": {"shape": list(value.shape), "items": items}}
        if not is_plain(value.dtype):
            raise TypeError(f"{where} is an array of type {value.dtype}, which cannot be saved.")
        return {"array": self._member(value, "arrays/{}.npy", lambda: write_npy(value))}

    def _scalar(self, value: np.generic, where: str) -> Json:
        if value.dtype.itemsize and not is_plain(value.dtype):
            raise TypeError(f"{where} is a scalar of type {value.dtype}, which cannot be saved.")
        return {"scalar": encode_scalar(value)}

    def _estimator(self, value: Any, where: str) -> Json:
        name = self._member(value, "estimators/{}.skops", lambda: dump_estimator(value, where))
        return {"estimator": name}

    def _member(self, value: object, pattern: str, write: Callable[[], bytes]) -> str:
        if id(value) not in self._known:
            name = pattern.format(len(self._known))
            self.members[name] = write()
            self._known[id(value)] = name, value
        return self._known[id(value)][0]

    def _object(self, value: Any, where: str, depth: int) -> Json:
        fields = self._params(value, where, depth)
        _require_savable(value, where)
        return {"object": {"class": stored_name(type(value)), "fields": fields}}

    def _params(self, value: Any, where: str, depth: int) -> Json:
        names = classes.parameters(type(value))
        return {name: self.encode(getattr(value, name), f"{where}.{name}", depth) for name in names}

    def _model(self, value: Any, where: str, depth: int) -> Json:
        _require_savable(value, where)
        params = value.get_params(deep=False)
        fitted = {name: item for name, item in vars(value).items() if name not in params}
        requests = fitted.pop(routing.ATTRIBUTE, None)
        for name in fitted:
            if not _is_fitted_name(name, type(value)):
                raise TypeError(f"{where}.{name} is neither a parameter nor fitted: it cannot be saved.")

        def encoded(group: Mapping[str, Any]) -> Json:
            return {name: self.encode(item, f"{where}.{name}", depth) for name, item in group.items()}

        tree = {"class": type(value).__name__, "params": encoded(params), "fitted": encoded(fitted)}
        if requests is not None:
            tree["requests"] = routing.plain_requests(requests)
        return {"model": tree}


class Decoder:
    """Turns the JSON of a file back into values of the types that it may hold, and of no others."""

    def __init__(self, members: Mapping[str, bytes], estimators: Mapping[str, Any]) -> None:
        self._members = members
        self._estimators = estimators
        self._arrays: dict[str, AnyArray] = {}

    def decode(self, tree: Json, where: str, depth: int = 0) -> Any:
        """The value of `tree`; `where` is what messages call it."""
        if depth > MAX_DEPTH:
            raise ModelFileError(f"{where} is nested too deep.")
        if isinstance(tree, int) and tree.bit_length() > MAX_BITS:
            raise ModelFileError(f"{where} is an integer of {tree.bit_length()} bits.")
        if tree is None or isinstance(tree, bool | int | float | str):
            return tree
        if isinstance(tree, list):
            return [self.decode(item, f"{where}[{i}]", depth + 1) for i, item in enumerate(tree)]
        if len(tree) != 1 or (kind := next(iter(tree))) not in _DECODERS:
            raise ModelFileError(f"{where} is of a kind that no model file knows: {_shown(list(tree))}.")
        return _DECODERS[kind](self, tree[kind], where, depth + 1)

    def _tuple(self, tree: Json, where: str, depth: int) -> tuple[Any, ...]:
        return tuple(self._items(tree, where, depth))

    def _dict(self, tree: Json, where: str, depth: int) -> dict[Any, Any]:
        if not isinstance(tree, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in tree):
            raise ModelFileError(f"{where} is not a list of pairs.")
        found = {}
        for key, item in tree:
            label = self.decode(key, f"a key of {where}", depth)
            value = self.decode(item, f"{where}[{_shown(label)}]", depth)
            try:
                found[label] = value
            except TypeError:
                raise ModelFileError(f"{where} has a key that cannot be one: {_shown(label)}.") from None
        if len(found) != len(tree):
            raise ModelFileError(f"{where} has a key twice.")
        return found

    def _array(self, tree: Json, where: str, depth: int) -> AnyArray:
        if not isinstance(tree, str) or tree not in self._members or not tree.endswith(".npy"):
            raise ModelFileError(f"{where} names an array that is not in the file: {_shown(tree)}.")
        if tree not in self._arrays:
            self._arrays[tree] = read_npy(self._members[tree], tree)
        return self._arrays[tree]

    def _objects(self, tree: Json, where: str, depth: int) -> AnyArray:
        shape, listed = _parts(tree, ("shape", "items"), where)
        items = self._items(listed, where, depth)
        if not isinstance(shape, list) or not all(type(size) is int and size >= 0 for size in shape):
            raise ModelFileError(f"{where} has no shape.")
        if math.prod(shape) != len(items) or len(shape) > 32:
            raise ModelFileError(f"{where} has {len(items)} items for shape {_shown(shape)}.")
        array = np.empty(len(items), dtype=object)
        for i, item in enumerate(items):  # one by one: NumPy would take a tuple for a row
            array[i] = item
        return array.reshape(shape)

    def _estimator(self, tree: Json, where: str, depth: int) -> Any:
        if not isinstance(tree, str) or tree not in self._estimators:
            raise ModelFileError(f"{where} names an estimator that is not in the file: {_shown(tree)}.")
        return self._estimators[tree]

    def _enum(self, tree: Json, where: str, depth: int) -> Enum:
        if not isinstance(tree, list) or len(tree) != 2 or not all(isinstance(part, str) for part in tree):
            raise ModelFileError(f"{where} is not a member of an enumeration.")
        cls = _find_class("enum", tree[0], where)
        if tree[1] not in cls.__members__:
            raise ModelFileError(f"{where}: {tree[0]} has no {_shown(tree[1])}.")
        member: Enum = cls.__members__[tree[1]]
        return member

    def _object(self, tree: Json, where: str, depth: int) -> Any:
        name, stored = _parts(tree, ("class", "fields"), where)
        return self._with_params(_find_class("object", name, where), stored, where, depth)

    def _splitter(self, tree: Json, where: str, depth: int) -> Any:
        name, stored = _parts(tree, ("class", "params"), where)
        return self._with_params(_find_class("splitter", name, where), stored, where, depth)

    def _model(self, tree: Json, where: str, depth: int) -> Any:
        requests = None
        if isinstance(tree, dict) and "requests" in tree:
            tree = dict(tree)
            requests = tree.pop("requests")
        name, params, fitted = _parts(tree, ("class", "params", "fitted"), where)
        cls = _find_class("model", name, where)
        if not isinstance(fitted, dict) or not all(_is_fitted_name(attribute, cls) for attribute in fitted):
            raise ModelFileError(f"{where} ({name}) has attributes that no fit leaves.")
        model = self._with_params(cls, params, where, depth, self._values(fitted, where, depth))
        if requests is not None:
            routing.restore_requests(model, requests, where)
        return model

    def _items(self, tree: Json, where: str, depth: int) -> list[Any]:
        if not isinstance(tree, list):
            raise ModelFileError(f"{where} is not a list.")
        return [self.decode(item, f"{where}[{i}]", depth) for i, item in enumerate(tree)]

    def _values(self, stored: Mapping[str, Json], where: str, depth: int) -> dict[str, Any]:
        return {name: self.decode(item, f"{where}.{name}", depth) for name, item in stored.items()}

    def _with_params(
        self, cls: type, stored: Json, where: str, depth: int, fitted: Mapping[str, Any] | None = None
    ) -> Any:
        """An object with these parameters, and fitted attributes if it has any, that is without a fault."""
        what = f"{where} ({stored_name(cls)})"
        _check_names(stored, classes.parameters(cls), what)
        values = self._values(stored, where, depth)
        try:
            built = cls(**values)
        except Exception as error:  # the checks of any constructor
            raise ModelFileError(f"{what} cannot be: {error}") from error
        if fitted:
            vars(built).update(fitted)
        fault = classes.fault_of(built)
        if fault is not None:
            raise ModelFileError(f"{what} is not a model's: {fault}.")
        return built


def _encode_int(value: int) -> Json:
    return value if -_EXACT <= value <= _EXACT else {"int": hex(value)}


def _encode_float(value: float) -> Json:
    return value if math.isfinite(value) else {"float": struct.pack(">d", value).hex()}


def _encode_datetime(value: datetime) -> Json:
    if value.tzinfo is not None or value.fold:
        raise TypeError("A date with a time zone cannot be saved: convert it to text.")
    return {"datetime": value.isoformat()}


_SIMPLE: dict[type, Callable[[Any], Json]] = {
    int: _encode_int,
    float: _encode_float,
    bytes: lambda value: {"bytes": base64.b64encode(value).decode("ascii")},
    datetime: _encode_datetime,
    date: lambda value: {"date": value.isoformat()},
    UUID: lambda value: {"uuid": value.hex},
}
_CONTAINERS: dict[type, Callable[[Encoder, Any, str, int], Json]] = {
    list: Encoder._list,
    tuple: Encoder._tuple,
    dict: Encoder._dict,
    np.ndarray: Encoder._array,
    np.memmap: Encoder._array,
}


def _from_text(read: Callable[[str], Any]) -> Callable[[Decoder, Json, str, int], Any]:
    """A decoder of a kind that is written as text."""

    def decode(decoder: Decoder, tree: Json, where: str, depth: int) -> Any:
        try:
            if isinstance(tree, str):
                return read(tree)
        except (ValueError, struct.error):
            pass
        raise ModelFileError(f"{where} cannot be read: {_shown(tree)}.")

    return decode


def _read_int(text: str) -> int:
    if len(text) > MAX_BITS // 4:
        raise ValueError("too many digits")
    return int(text, 16)


_DECODERS: dict[str, Callable[[Decoder, Json, str, int], Any]] = {
    "int": _from_text(_read_int),
    "float": _from_text(lambda text: struct.unpack(">d", bytes.fromhex(text))[0]),
    "datetime": _from_text(datetime.fromisoformat),
    "date": _from_text(date.fromisoformat),
    "uuid": _from_text(lambda text: UUID(hex=text)),
    "bytes": lambda decoder, tree, where, depth: decode_bytes(tree, where),
    "scalar": lambda decoder, tree, where, depth: decode_scalar(tree, where),
    "tuple": Decoder._tuple,
    "dict": Decoder._dict,
    "array": Decoder._array,
    "objects": Decoder._objects,
    "enum": Decoder._enum,
    "object": Decoder._object,
    "splitter": Decoder._splitter,
    "estimator": Decoder._estimator,
    "model": Decoder._model,
}


def _cannot_save(value: object, where: str) -> TypeError:
    if isinstance(value, np.random.Generator | np.random.RandomState | np.random.BitGenerator):
        return TypeError(
            f"{where} is a {type(value).__name__}, whose state does not go into a model file. Set an integer "
            "instead, with set_params: the draws of a fitted model stay as they are, their key is saved."
        )
    name = f"{type(value).__module__}.{type(value).__qualname__}"
    if isinstance(value, Stored):
        return TypeError(
            f"{where} is a {name}, which cannot be saved, since it is not a dataclass: decorate it with "
            "@dataclass(frozen=True), and its fields say what there is to save."
        )
    return TypeError(
        f"{where} is a {name}, which cannot be saved. A model file takes plain Python and NumPy values, "
        "scikit-learn estimators, evenhand's own classes, and dataclasses of yours that extend them."
    )


def _is_fitted_name(name: str, cls: type) -> bool:
    """Whether `fit` may leave this, by scikit-learn's rule, and it hides nothing of the class."""
    return name.isidentifier() and name.endswith("_") and not name.startswith("_") and not hasattr(cls, name)


def _find_class(kind: str, name: Json, where: str) -> Any:
    cls = classes.find_class(kind, name) if isinstance(name, str) else None
    if cls is None:
        raise ModelFileError(
            f"{where} names {_shown(name)}, which is not a class of a model file, or not one yet: if it is "
            "of your own, import the module that defines it first."
        )
    return cls


def _parts(tree: Json, names: tuple[str, ...], where: str) -> list[Json]:
    if not isinstance(tree, dict) or set(tree) != set(names):
        raise ModelFileError(f"{where} does not have the parts {', '.join(names)}.")
    return [tree[name] for name in names]


def _check_names(stored: Json, names: list[str], where: str) -> None:
    if not isinstance(stored, dict):
        raise ModelFileError(f"{where} has no fields.")
    if extra := sorted(set(stored) - set(names)):
        raise ModelFileError(f"{where} has unknown fields: {_shown(extra)}. Upgrade evenhand to read it.")
    if missing := sorted(set(names) - set(stored)):
        raise ModelFileError(f"{where} lacks the fields {_shown(missing)}.")


def _require_savable(value: object, where: str) -> None:
    fault = classes.fault_of(value)
    if fault is not None:
        raise TypeError(f"{where} cannot be saved: {fault}.")


def _shown(value: object) -> str:
    """A short form for messages: the file may hold anything."""
    text = repr(value)
    return text if len(text) <= 100 else text[:100] + "..."
