"""Save a model to one file, and load it again (docs/reference/model-file.md describes the format)."""

import json
import os
import platform
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import sklearn

from evenhand._utils.atomic import whole_file
from evenhand._utils.version import __version__
from evenhand.modelfile.classes import is_model
from evenhand.modelfile.codec import Decoder, Encoder
from evenhand.modelfile.container import Container, pack, read_json
from evenhand.modelfile.errors import ModelFileError
from evenhand.modelfile.foreign import check_trusted, load_estimators, skops_version

FORMAT = "evenhand-model"
FORMAT_VERSION = 4  # versions 1 to 3 were written before the first release, and are not read
TREE = "model.json"


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a model to one file that `load` opens without running anything from it.

    The file appears whole or not at all: a failure leaves what was at `path` before. Estimators inside the
    model that are not evenhand's are written by skops (`pip install 'evenhand[io]'`).

    Parameters
    ----------
    model : ParityPostprocessor, ParityRegressor, or a Pipeline with one of them inside
        Fitted or not.
    path : str or path
        Any name; the suffix `.evenhand` is a good one.
    """
    if not is_model(model):
        raise TypeError(
            f"save takes an evenhand model, or a pipeline with one inside: got {type(model).__name__}. Of a "
            "search, save its best_estimator_; a subclass of your own cannot be saved."
        )
    encoder = Encoder()
    tree = encoder.encode(model, type(model).__name__)
    text = json.dumps(tree, allow_nan=False, separators=(",", ":"))
    members = {TREE: text.encode("ascii"), **encoder.members}
    data = pack(members, _manifest(model, encoder.members))
    with whole_file(path) as file:
        file.write(data)


def load(path: str | os.PathLike[str], *, trusted: Iterable[str] = ()) -> Any:
    """Read a model that `save` wrote; nothing in the file is run.

    Raises `ModelFileError` where the file is damaged, too new, or not a model file, and `UntrustedTypesError`
    where it holds types that neither evenhand nor skops trusts, with their names.

    Parameters
    ----------
    path : str or path
    trusted : list of str, default=()
        Full names of types to trust beside those. Trusting a type imports its module and builds it from the
        file's content: name only what you expect from whoever wrote the file.
    """
    names = check_trusted(trusted)
    return read_model(Path(path).read_bytes(), names)


def read_model(data: bytes, trusted: Collection[str] = ()) -> Any:
    """The model in the bytes of a file; `load` says what is raised."""
    container = Container(data)
    _check_format(container.manifest)
    members = container.unpack()
    if TREE not in members:
        raise ModelFileError(f"The file has no {TREE}.")
    tree = read_json(members[TREE], TREE, container.size)
    if not isinstance(tree, dict) or set(tree) != {"model"}:
        raise ModelFileError(f"The file's {TREE} does not hold a model.")
    foreign = {name: data for name, data in members.items() if name.endswith(".skops")}
    estimators = load_estimators(foreign, trusted, container.size)
    try:
        with np.errstate(all="ignore"):  # numbers of a file are checked, whatever they come to on the way
            return Decoder(members, estimators).decode(tree, "The model")
    except (ModelFileError, MemoryError):
        raise
    except Exception as error:  # content so far from what is expected that no check foresaw it
        raise ModelFileError(
            f"The file's {TREE} cannot be read ({type(error).__name__}: {str(error)[:200]})."
        ) from error


def is_model_file(path: str | os.PathLike[str]) -> bool:
    """Whether a file says of itself that it is a model that `save` wrote; it may be damaged all the same.

    Parameters
    ----------
    path : str or path
        A file that cannot be read is no model file.
    """
    try:
        return bool(Container(Path(path).read_bytes()).manifest.get("format") == FORMAT)
    except (ModelFileError, OSError):
        return False


def _manifest(model: object, members: Iterable[str]) -> dict[str, Any]:
    has_foreign = any(name.endswith(".skops") for name in members)
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "model_class": type(model).__name__,
        "evenhand": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scikit-learn": sklearn.__version__,
        "skops": skops_version() if has_foreign else None,
    }


def _check_format(manifest: dict[str, Any]) -> None:
    if manifest.get("format") != FORMAT:
        raise ModelFileError("Not an evenhand model file: its manifest names another format.")
    version = manifest.get("format_version")
    if type(version) is not int or version < 1:
        raise ModelFileError("The file's manifest has no format version.")
    if version != FORMAT_VERSION:
        writer = str(manifest.get("evenhand"))[:40]
        way_out = "Upgrade evenhand" if version > FORMAT_VERSION else "Fit the model again and save it"
        raise ModelFileError(
            f"The file has format version {version}, written by evenhand {writer}; this is evenhand "
            f"{__version__}, which reads version {FORMAT_VERSION}. {way_out}."
        )
