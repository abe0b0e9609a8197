"""Estimators that are not ours: skops writes them, and builds only what is trusted."""

import io
import json
import re
import warnings
import zipfile
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import numpy as np

from evenhand._utils.optional import import_optional
from evenhand.modelfile.container import require_few_nodes
from evenhand.modelfile.errors import ModelFileError, UntrustedTypesError
from evenhand.modelfile.memory_safety import find_memory_fault

OLDEST_SKOPS = (0, 15)  # the ones before build some things that their own audit does not see


def is_estimator(value: object) -> bool:
    """Whether `value` is an instance with the methods of a scikit-learn estimator."""
    return not isinstance(value, type) and hasattr(value, "get_params") and hasattr(value, "fit")


def dump_estimator(estimator: Any, where: str) -> bytes:
    """The estimator's `.skops` bytes, uncompressed: the outer file compresses them."""
    skops = _skops("saving a model with scikit-learn parts")
    try:
        data: bytes = skops.dumps(estimator, compression=zipfile.ZIP_STORED)
    except Exception as error:  # whatever the estimator's own state raises
        raise TypeError(f"{where}, a {type(estimator).__name__}, cannot be saved: {error}") from error
    return data


def load_estimators(members: Mapping[str, bytes], trusted: Collection[str], file_size: int) -> dict[str, Any]:
    """The estimators by member; all types of all members are looked at before anything is built."""
    if not members:
        return {}
    skops = _skops("loading a model with scikit-learn parts")
    found: dict[str, list[str]] = {}
    unknown: set[str] = set()
    for name, data in members.items():
        schema = _read_schema(data, name)
        require_few_nodes(schema, name, file_size)
        found[name] = _guarded(name, skops.get_untrusted_types, data=data)
        unknown |= {kind for kind in found[name] if not _is_harmless(kind, schema)}
    if untrusted := unknown - set(trusted):
        raise UntrustedTypesError(untrusted, _reasons())
    built = {}
    for name, data in members.items():
        # only the names that this member needs, so that none is trusted by accident
        built[name] = _guarded(name, skops.loads, data, trusted=found[name])
        if not is_estimator(built[name]):
            raise ModelFileError(f"The file's {name} holds a {type(built[name]).__name__}, not an estimator.")
        if (fault := find_memory_fault(built[name])) is not None:
            raise ModelFileError(f"The file's {name} cannot be used: {fault}.")
    return built


def check_trusted(trusted: Iterable[str]) -> frozenset[str]:
    """The names in `trusted`, which are all strings."""
    if isinstance(trusted, str) or not isinstance(trusted, Iterable):
        raise TypeError(f"trusted must be a list of names of types: got {trusted!r}.")
    names = tuple(trusted)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"trusted must hold names of types, as text: got {name!r}.")
    return frozenset(names)


def skops_version() -> str | None:
    """The version of skops, where it is there."""
    try:
        version: str = import_optional("skops", extra="io", purpose="a model file").__version__
    except ImportError:
        return None
    return version


def _skops(purpose: str) -> Any:
    skops = import_optional("skops.io", extra="io", purpose=purpose)
    version = skops_version() or ""
    if tuple(map(int, re.findall(r"\d+", version)[:2])) < OLDEST_SKOPS:
        raise ImportError(
            f"{purpose} needs skops {'.'.join(map(str, OLDEST_SKOPS))} or newer, for its safety: this is "
            f"{version}. Run: pip install --upgrade 'evenhand[io]'"
        )
    return skops


def _reasons() -> dict[str, str]:
    """Why skops itself does not trust some types of scikit-learn."""
    exceptions = import_optional("skops.io.exceptions", extra="io", purpose="loading a model")
    reasons: dict[str, str] = getattr(exceptions, "UNTRUSTED_TYPE_REASONS", {})
    return reasons


def _read_schema(data: bytes, name: str) -> bytes:
    """The text of the inner archive, whose members are stored as they are: they cannot grow when read."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            infos = archive.infolist()
            packed = any(info.compress_type != zipfile.ZIP_STORED for info in infos)
            if packed or sum(info.file_size for info in infos) > len(data):
                raise ModelFileError(f"The file's {name} would unpack to more than it holds.")
            return archive.read("schema.json")
    except ModelFileError:
        raise
    except Exception as error:  # zipfile has no one exception for broken input
        raise ModelFileError(f"The file's {name} is not a skops archive ({error}).") from error


def _is_harmless(kind: str, schema: bytes) -> bool:
    """Whether `kind` is NumPy's dtype, and only ever read off an array.

    skops lists it, and many a model holds one (SimpleImputer, for example). Read in this way, and only
    in this way, it is no more than the type of an array that skops has looked at.
    """
    if kind != "numpy.dtype":
        return False
    loaders = set()

    def look(node: dict[str, Any]) -> None:
        if node.get("__module__") == "numpy" and node.get("__class__") == "dtype":
            loaders.add(str(node.get("__loader__")))

    try:
        json.loads(schema, object_hook=look)
    except (ValueError, RecursionError):
        return False
    return loaders == {"DTypeNode"}


def _guarded(name: str, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Any failure of skops on this member, as an error about the file."""
    try:
        with warnings.catch_warnings():  # of numbers that their array cannot hold
            for loss in (RuntimeWarning, np.exceptions.ComplexWarning):
                warnings.simplefilter("error", loss)
            return call(*args, **kwargs)
    except Exception as error:  # hostile or foreign content fails in many ways
        raise ModelFileError(
            f"The file's {name} cannot be read ({type(error).__name__}: {error}). If the file is good, "
            "install the versions that its manifest.json names."
        ) from error
