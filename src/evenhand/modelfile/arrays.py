"""NumPy arrays as `.npy` members, and NumPy scalars inside JSON; never a pickle."""

import base64
import io
import math
import re
from typing import Any

import numpy as np
from numpy.lib import format as npy

from evenhand._utils.typing import AnyArray
from evenhand.modelfile.errors import ModelFileError

_PLAIN = re.compile(r"[<>|=]?[biufcSUMm][0-9]+(\[[0-9A-Za-z]+\])?")  # no objects, no records
_VERSION = (1, 0)
_LAST_CODE_POINT = 0x10FFFF


def is_plain(dtype: np.dtype[Any]) -> bool:
    """Whether values of `dtype` are nothing but their bytes."""
    return dtype.itemsize > 0 and _PLAIN.fullmatch(dtype.str) is not None


def write_npy(array: AnyArray) -> bytes:
    """The bytes of a `.npy` file, version 1.0."""
    stream = io.BytesIO()
    npy.write_array(stream, np.asanyarray(array), version=_VERSION, allow_pickle=False)
    return stream.getvalue()


def read_npy(data: bytes, name: str) -> AnyArray:
    """The array in a `.npy` file, whose length is checked against its shape before anything is allocated."""
    stream = io.BytesIO(data)
    try:
        if npy.read_magic(stream) != _VERSION:
            raise ValueError("its version is not 1.0")
        shape, fortran, dtype = npy.read_array_header_1_0(stream)
    except Exception as error:  # NumPy parses the header as Python literals, and fails in as many ways
        raise ModelFileError(f"The file's {name} is not an array ({error}).") from error
    if dtype.hasobject:
        raise ModelFileError(f"The file's {name} holds Python objects, which only a pickle can: refused.")
    payload = data[stream.tell() :]
    if not is_plain(dtype) or min(shape, default=0) < 0 or len(payload) != math.prod(shape) * dtype.itemsize:
        raise ModelFileError(f"The file's {name} does not hold the {dtype} array of shape {shape} it claims.")
    flat = np.frombuffer(payload, dtype)
    if dtype.kind == "U":
        _check_text(flat, name)
    array: AnyArray = flat.reshape(shape, order="F" if fortran else "C").copy(order="K")
    return array


def encode_scalar(value: np.generic) -> dict[str, str]:
    """A NumPy scalar's type and bytes."""
    data = value.tobytes() if value.dtype.itemsize else b""
    return {"dtype": value.dtype.str, "bytes": base64.b64encode(data).decode("ascii")}


def decode_scalar(tree: Any, where: str) -> np.generic:
    """The NumPy scalar of a type and its bytes."""
    if not isinstance(tree, dict) or set(tree) != {"dtype", "bytes"}:
        raise ModelFileError(f"{where} is not a scalar.")
    kind = tree["dtype"]
    if not isinstance(kind, str) or not _PLAIN.fullmatch(kind):
        raise ModelFileError(f"{where} is a scalar of unknown type {kind!r}.")
    data = decode_bytes(tree["bytes"], where)
    try:
        dtype = np.dtype(kind)
    except TypeError:
        raise ModelFileError(f"{where} is a scalar of unknown type {kind!r}.") from None
    if dtype.itemsize == 0 and not data:
        return np.str_("") if dtype.kind == "U" else np.bytes_(b"")
    if dtype.itemsize != len(data):
        raise ModelFileError(f"{where} has {len(data)} bytes for a scalar of type {kind!r}.")
    flat = np.frombuffer(data, dtype)
    if dtype.kind == "U":
        _check_text(flat, where)
    scalar: np.generic = flat[0]
    return scalar


def decode_bytes(text: Any, where: str) -> bytes:
    """Bytes from base64."""
    try:
        return base64.b64decode(text.encode("ascii"), validate=True)
    except (AttributeError, ValueError):
        raise ModelFileError(f"{where} is not base64.") from None


def _check_text(flat: AnyArray, where: str) -> None:
    codes = np.frombuffer(flat.tobytes(), flat.dtype.str[0] + "u4")
    if codes.size and int(codes.max()) > _LAST_CODE_POINT:
        raise ModelFileError(f"The text in {where} is not text.")
