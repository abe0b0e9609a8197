"""A digest of what a model has learned: the same before and after a save, and another for another fit."""

import hashlib
from collections.abc import Iterable
from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np

from evenhand._utils.typing import AnyArray

_NAMED = (type, FunctionType, BuiltinFunctionType, np.ufunc)  # what is told by its name alone
_RANDOM = (np.random.RandomState, np.random.Generator)  # for fits: no prediction depends on their state
_VERSION = "_sklearn_version"  # which scikit-learn adds to a model's state


def digest(value: Any) -> str:
    """A text that is the same for values of the same content, in this process or another.

    Objects count by what they would be pickled as, arrays by type, shape and numbers. A save may turn a tuple
    into a list and NumPy's numbers into Python's, so these count alike.

    >>> digest({"a": [1, np.arange(3)]}) == digest({"a": (np.int64(1), np.arange(3))})
    True
    >>> digest(np.arange(3)) == digest(np.arange(3.0))
    False
    """
    return _Digests().of(value).hex()


class _Digests:
    """Digests of the parts of one value; a part that is met again is not looked at again."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[bytes, object]] = {}  # the object is kept so that its id stays its own

    def of(self, value: Any) -> bytes:
        if isinstance(value, np.generic) and value.dtype.names is None:
            value = value.item()
        if value is None or isinstance(value, bool | int | float | complex | str | bytes):
            kind = next(base for base in type(value).__mro__ if base.__module__ == "builtins")
            return _joined(kind.__name__, [repr(kind(value) if value is not None else value).encode()])
        if id(value) not in self._known:
            self._known[id(value)] = b"itself", value  # where a value holds itself
            self._known[id(value)] = self._of_object(value), value
        return self._known[id(value)][0]

    def _of_object(self, value: Any) -> bytes:
        if isinstance(value, np.ndarray):
            return self._of_array(value)
        if isinstance(value, _NAMED):
            return _joined("name", [f"{value.__module__}.{value.__qualname__}".encode()])
        if isinstance(value, _RANDOM):
            return _joined("random", [])
        if isinstance(value, dict):
            items = (self.of(key) + self.of(item) for key, item in value.items() if key != _VERSION)
            return _joined("dict", sorted(items))
        if isinstance(value, set | frozenset):
            return _joined("set", sorted(map(self.of, value)))
        if type(value) in (list, tuple):
            return _joined("list", map(self.of, value))
        reduced = value.__reduce_ex__(4)
        if isinstance(reduced, str):
            return _joined("name", [reduced.encode()])
        builder, arguments, state, entries, pairs = (*reduced, None, None, None)[:5]
        parts = (type(value), builder, arguments, state, list(entries or ()), list(pairs or ()))
        return _joined("object", map(self.of, parts))

    def _of_array(self, array: AnyArray) -> bytes:
        shape = repr(array.shape).encode()
        if array.dtype.names is not None:  # the gaps between fields hold anything
            return _joined("fields", [shape, *(self._of_array(array[name]) for name in array.dtype.names)])
        if array.dtype == object:
            return _joined("objects", [shape, *map(self.of, array.ravel())])
        return _joined(array.dtype.str, [shape, np.ascontiguousarray(array).tobytes()])


def _joined(kind: str, parts: Iterable[bytes]) -> bytes:
    """A digest of the digests of parts, which it tells apart."""
    return hashlib.sha256(
        b"".join(hashlib.sha256(part).digest() for part in (kind.encode(), *parts))
    ).digest()
