"""The outer file: a zip archive of named members, each with its checksum in a manifest.

Everything here reads bytes that anybody may have written. Members are never extracted to disk.
"""

import hashlib
import io
import json
import re
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any

from evenhand.modelfile.errors import ModelFileError

MANIFEST = "manifest.json"
MAX_RATIO = 200  # of the members' declared sizes to the file's; deflate can reach 1000
ALWAYS_ALLOWED = 2**24  # bytes that the members may declare in a file of any size
ALWAYS_NODES = 2**17  # values that JSON may hold in a file of any size; beyond, one for each byte of the file

_NAME = re.compile(r"manifest\.json|model\.json|arrays/[0-9]{1,9}\.npy|estimators/[0-9]{1,9}\.skops")
_EPOCH = (1980, 1, 1, 0, 0, 0)  # no clock in the file: the same model gives the same bytes
_ENCRYPTED = 0x1


def pack(members: Mapping[str, bytes], manifest: Mapping[str, Any]) -> bytes:
    """The file's bytes; the manifest gets size and SHA-256 of every member."""
    listed = {name: {"size": len(data), "sha256": _digest(data)} for name, data in members.items()}
    text = json.dumps({**manifest, "members": listed}, indent=1, allow_nan=False)
    contents = {MANIFEST: text.encode("ascii"), **members}
    packed = _zip(contents, zipfile.ZIP_DEFLATED)
    too_many_nodes = any(count_nodes(data) > max_nodes(len(packed)) for data in contents.values())
    if _too_large(sum(map(len, contents.values())), len(packed)) or too_many_nodes:
        return _zip(contents, zipfile.ZIP_STORED)  # compresses like a bomb: `unpack` would refuse it
    return packed


class Container:
    """A file's bytes, opened: the manifest at once, the members when their format is known."""

    def __init__(self, data: bytes) -> None:
        self.size = len(data)
        self._archive = _open(data)
        self._require_alone()
        self._infos = {info.filename: info for info in self._archive.infolist()}
        if MANIFEST not in self._infos:
            raise ModelFileError(f"Not an evenhand model file: the archive has no {MANIFEST}.")
        self._check_declared([self._infos[MANIFEST]])
        self.manifest = self._read_manifest()

    def unpack(self) -> dict[str, bytes]:
        """Every member but the manifest, checked against it."""
        infos = self._archive.infolist()
        for info in infos:
            if not _NAME.fullmatch(info.filename):
                raise ModelFileError(f"The file holds {info.filename[:100]!r}, which no model file does.")
        if len(infos) != len(self._infos):
            raise ModelFileError("The file holds two members of the same name.")
        self._check_declared(infos)
        listed = self._listed()
        present = set(self._infos) - {MANIFEST}
        if missing := sorted(set(listed) - present):
            raise ModelFileError(f"The file has lost {', '.join(missing[:5])}: get a fresh copy.")
        if extra := sorted(present - set(listed)):
            raise ModelFileError(f"The file holds {', '.join(extra[:5])}, which its manifest does not list.")
        return {name: self._checked(name, listed[name]) for name in listed}

    def _require_alone(self) -> None:
        """Refuse an archive with something before or behind it: of two files in one, one is not read."""
        first = min((info.header_offset for info in self._archive.infolist()), default=0)
        if first != 0 or self._archive.comment:
            raise ModelFileError(
                "The file is damaged or foreign: its archive is only a part of it. Get a fresh copy."
            )

    def _read_manifest(self) -> dict[str, Any]:
        manifest = read_json(self._read(MANIFEST), MANIFEST, self.size)
        if not isinstance(manifest, dict):
            raise ModelFileError(f"Not an evenhand model file: its {MANIFEST} is not an object.")
        return manifest

    def _listed(self) -> dict[str, dict[str, Any]]:
        listed = self.manifest.get("members")
        if not isinstance(listed, dict) or not all(isinstance(entry, dict) for entry in listed.values()):
            raise ModelFileError(f"The file's {MANIFEST} has no list of members.")
        return listed

    def _checked(self, name: str, entry: dict[str, Any]) -> bytes:
        data = self._read(name)
        if entry.get("size") != len(data) or entry.get("sha256") != _digest(data):
            raise ModelFileError(
                f"The file is damaged: {name} is not what was saved (SHA-256). Get a fresh copy."
            )
        return data

    def _check_declared(self, infos: list[zipfile.ZipInfo]) -> None:
        """Refuse what would unpack to far more than the file, or cannot be ours, before reading it."""
        for info in infos:
            if info.flag_bits & _ENCRYPTED:
                raise ModelFileError(f"The file is damaged or foreign: {info.filename} is encrypted.")
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise ModelFileError(f"The file is damaged or foreign: {info.filename} is packed otherwise.")
        total = sum(info.file_size for info in infos)
        if _too_large(total, self.size):
            raise ModelFileError(
                f"The file has {self.size} bytes and would unpack to {total}: no saved model is like that."
            )

    def _read(self, name: str) -> bytes:
        info = self._infos[name]
        try:
            with self._archive.open(info) as member:
                data = member.read(info.file_size)  # a bound: the stream may hold more than it declares
        except Exception as error:  # zipfile has no one exception for broken input
            raise _damaged(error) from error
        if len(data) != info.file_size or zlib.crc32(data) != info.CRC:
            raise ModelFileError(f"The file is damaged: {name} fails its checksum. Get a fresh copy.")
        return data


def read_json(data: bytes, name: str, file_size: int) -> Any:
    """Strict JSON: ASCII, no repeated keys, no NaN, no depth that Python cannot follow.

    Values in memory take many times the bytes of their text, of which a small file can hold much: how many
    there may be goes by the size of the file.
    """
    require_few_nodes(data, name, file_size)
    try:
        return json.loads(data.decode("ascii"), object_pairs_hook=_no_repeats, parse_constant=_no_constants)
    except RecursionError:
        raise ModelFileError(f"The file's {name} is nested too deep.") from None
    except ValueError as error:
        raise ModelFileError(f"The file's {name} cannot be read: {error}") from None


def _open(data: bytes) -> zipfile.ZipFile:
    if not data.startswith(b"PK\x03\x04"):
        hint = ""
        if data.startswith(b"\x80"):
            hint = " It looks like a pickle, which runs code when opened: evenhand does not open those."
        raise ModelFileError(f"Not an evenhand model file: it has no zip header.{hint}")
    try:
        return zipfile.ZipFile(io.BytesIO(data))
    except Exception as error:  # zipfile has no one exception for broken input
        raise _damaged(error) from error


def _damaged(error: Exception) -> ModelFileError:
    return ModelFileError(f"The file is cut short or damaged ({error}). Get a fresh copy.")


def _zip(contents: Mapping[str, bytes], compression: int) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in contents.items():
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), data, compression)
    return buffer.getvalue()


def count_nodes(text: bytes) -> int:
    """At least as many as there are values in JSON, and at most as many as it has bytes."""
    return sum(text.count(sign) for sign in (b"[", b"{", b",", b":"))


def max_nodes(file_size: int) -> int:
    """How many values the JSON of a file may hold."""
    return max(ALWAYS_NODES, file_size)


def require_few_nodes(text: bytes, name: str, file_size: int) -> None:
    """Refuse JSON that would take far more memory than the file."""
    if (n_nodes := count_nodes(text)) > max_nodes(file_size):
        raise ModelFileError(
            f"The file has {file_size} bytes, and about {n_nodes} values in its {name}: no saved model "
            "is like that."
        )


def _too_large(unpacked: int, packed: int) -> bool:
    return unpacked > max(ALWAYS_ALLOWED, MAX_RATIO * packed)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is there twice")
    return found


def _no_constants(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
