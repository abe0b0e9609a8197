"""Formats of tables by the names of their files, and what can be wrong with a table."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from evenhand._utils.text import plain

STANDARD = "-"  # standard input or output, in place of a path
FORMATS = ("csv", "parquet", "arrow")
SUFFIXES = {
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}


class TableError(ValueError):
    """The table, or a column of it, is not what is needed."""


class TableOptionError(ValueError):
    """A format or a delimiter that there is not."""


def find_format(path: str, given: str | None = None) -> str:
    """The format by its name, or by the suffix of the path; CSV for standard input and output."""
    if given is not None:
        if given not in FORMATS:
            raise TableOptionError(f"The format is one of {', '.join(FORMATS)}: got {given!r}.")
        return given
    found = "csv" if path == STANDARD else suffix_format(path)
    if found is None:
        raise TableOptionError(
            f"The name {plain(path)} does not tell its format: end it in {', '.join(SUFFIXES)}, or name the "
            "format with an option."
        )
    return found


def suffix_format(path: str) -> str | None:
    """The format that the suffix of a path tells, where it tells one.

    >>> suffix_format("rows.csv.gz"), suffix_format("rows.PQ"), suffix_format("rows")
    ('csv', 'parquet', None)
    """
    return SUFFIXES.get(Path(path.removesuffix(".gz")).suffix.lower())


def find_delimiter(path: str, given: str | None = None) -> str:
    r"""What parts the columns of a CSV file: what is given (`\t` is a tab), or what its suffix tells."""
    if given is None:
        return "\t" if path.removesuffix(".gz").lower().endswith(".tsv") else ","
    delimiter = given.replace("\\t", "\t")
    if len(delimiter.encode()) != 1:
        raise TableOptionError(f"--delimiter must be one ASCII character: got {delimiter!r}.")
    return delimiter


def require_columns(present: Sequence[str], wanted: Iterable[str], where: str = "There is") -> None:
    """Refuse names that are not there, with the names that are."""
    missing = [name for name in wanted if name not in present]
    if not missing:
        return
    shown = ", ".join(map(plain, present[:12])) + (", ..." if len(present) > 12 else "")
    hint = ""
    if len(present) == 1 and any(sign in present[0] for sign in ",;\t|"):
        hint = " Another sign seems to part its columns: see --delimiter."
    raise TableError(f"{where} no column {', '.join(map(plain, missing))}. The columns are: {shown}.{hint}")
