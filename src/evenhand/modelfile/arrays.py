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
# The header as NumPy writes it, and in no other way: NumPy itself would read it as any Python literal.
_MAGIC = b"\x93NUMPY\x01\x00"
_HEADER = re.compile(
    re.escape(_MAGIC) + rb"(..)\{'descr': '([^'\\]{1,40})', 'fortran_order': (True|False), "
    rb"'shape': \(((?:[0-9]{1,18}, )*(?:[0-9]{1,18},?)?)\), \} *\n",
    re.DOTALL,
)
_NUMBER = re.compile(rb"[0-9]+")
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
    header = _HEADER.match(data)
    if header is None or header.end() != len(_MAGIC) + 2 + int.from_bytes(header[1], "little"):
        raise ModelFileError(f"The file's {name} is not an array: it has no header of version 1.0.")
    try:
        dtype = np.dtype(header[2].decode("ascii"))
    except (TypeError, ValueError):
        raise ModelFileError(f"The file's {name} is not an array: its type is unknown.") from None
    shape, fortran = tuple(map(int, _NUMBER.findall(header[4]))), header[3] == b"True"
    if dtype.hasobject:
        raise ModelFileError(f"The file's {name} holds Python objects, which only a pickle can: refused.")
    payload = data[header.end() :]
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
