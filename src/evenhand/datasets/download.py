"""The data sets' public homes: a download that is checked, kept, and never half there."""

import hashlib
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenhand._utils.atomic import whole_file
from evenhand._utils.optional import import_optional

GERRYFAIR = "https://raw.githubusercontent.com/algowatchpenn/GerryFair"
UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases"
TIMEOUT = 30  # seconds without an answer
ADULT_COLUMNS = (
    *("age", "workclass", "fnlwgt", "education", "education.num", "marital.status", "occupation"),
    *("relationship", "race", "sex", "capital.gain", "capital.loss", "hours.per.week"),
    *("native.country", "income"),
)


@dataclass(frozen=True, slots=True)
class Source:
    """Where a file is served, and how to know it."""

    url: str
    sha256: str | None  # of the file as it is served; None where it is served in another layout
    convert: Callable[[str], str] | None = None  # text that is served -> text of the file
    rows_sha256: str | None = None  # of the converted rows, in any order


def fetch(source: Source, file_name: str, folder: Path) -> Path:
    """The file in `folder`, downloaded if it is not there, with a bar that shows the progress.

    What is downloaded counts only once it is whole and its checksum is right; until then it has another name.
    """
    path = folder / file_name
    if path.is_file():
        return path
    pooch = require_downloads()
    try:
        with tempfile.TemporaryDirectory() as unchecked:
            served = Path(_retrieve(pooch, source, file_name, unchecked))
            content = served.read_bytes()
        if source.convert is not None:
            content = _converted(source, file_name, content.decode("utf-8"))
    except (OSError, ValueError) as error:  # no connection or no such page; another file than the known one
        raise ConnectionError(
            f"{file_name} could not be downloaded from {source.url}: {str(error).rstrip('.')}. Try again "
            "when online, or get the file yourself and pass the folder that holds it as data_home=, or name "
            "that folder in the environment variable EVENHAND_DATA."
        ) from error
    folder.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as file:
        file.write(content)
    return path


def require_downloads() -> Any:
    """The library that downloads, with the one that draws its bar, or an error that names their extra."""
    import_optional("tqdm", extra="data", purpose="Downloading a data set")
    return import_optional("pooch", extra="data", purpose="Downloading a data set")


def cache_folder() -> Path | None:
    """Where downloads go that nobody gave a folder for; None without the extra that downloads."""
    try:
        return Path(require_downloads().os_cache("evenhand"))
    except ImportError:
        return None


def rows_digest(text: str) -> str:
    r"""Checksum of a table that does not depend on the order of its rows.

    >>> rows_digest("a,b\n1,2\n3,4\n") == rows_digest("a,b\n3,4\n1,2\n")
    True
    """
    header, *rows = text.splitlines()
    return hashlib.sha256("\n".join([header, *sorted(rows)]).encode()).hexdigest()


def adult_layout(text: str) -> str:
    """UCI's `adult.data` with a header and quoted words, rows with a capital loss or gain first.

    That is the layout in which the data set is mostly passed on, order of the rows included, so that a seed
    draws the same rows from either.
    """
    rows = [[cell.strip() for cell in line.split(",")] for line in text.splitlines() if line.strip()]
    if any(len(row) != len(ADULT_COLUMNS) for row in rows):
        raise ValueError(f"not every row has {len(ADULT_COLUMNS)} cells: this is another file.")
    loss, gain = ADULT_COLUMNS.index("capital.loss"), ADULT_COLUMNS.index("capital.gain")
    rows.sort(key=lambda row: (-int(row[loss]), -int(row[gain])))
    lines = [",".join(cell if cell.isdigit() else f'"{cell}"' for cell in row) for row in rows]
    return "\n".join([",".join(f'"{name}"' for name in ADULT_COLUMNS), *lines]) + "\n"


SOURCES = {
    "lawschool.csv": Source(
        f"{GERRYFAIR}/78e2db5ab17d3e5c50dcfaeee9212d8b6ce03ec3/lawschool.csv",
        "417f7e65505e87cfc2b952b8b06287f02bcc1702508315e8a8d843b046e59606",
    ),
    "communities.csv": Source(
        f"{GERRYFAIR}/673c5fd57bf156569f657e3df2fc73b72a7af8a1/dataset/communities.csv",
        "b97393d2700dd0a320f609762b34ea7a8eccccada9f5bdfdeafbdb5bf8e32110",
    ),
    "adult.csv": Source(
        f"{UCI}/adult/adult.data",
        None,
        adult_layout,
        "d088e0b56e7e5166ba9d9aadf92f1cf283482160c4971a8a84a0c652c1b34034",
    ),
}


def _retrieve(pooch: Any, source: Source, file_name: str, folder: str) -> str:
    downloader = pooch.HTTPDownloader(progressbar=True, timeout=TIMEOUT)
    known = None if source.sha256 is None else f"sha256:{source.sha256}"
    path: str = pooch.retrieve(source.url, known, fname=file_name, path=folder, downloader=downloader)
    return path


def _converted(source: Source, file_name: str, text: str) -> bytes:
    assert source.convert is not None
    converted = source.convert(text)
    found = rows_digest(converted)
    if found != source.rows_sha256:
        raise ValueError(
            f"its rows are not the known ones (sha256 {found}, expected {source.rows_sha256}): the file was "
            "changed at its home, or the download was cut short."
        )
    return converted.encode()
