"""The paper's three data sets, read from CSV files and prepared as its experiments do.

The files are public, and none of them is part of the package. Each loader looks in `data_home`, or in
the folder that the environment variable EVENHAND_DATA names, or else in `../shared/data` of a checkout of
the project and in the cache of earlier downloads. With `download_if_missing=True` a file that is not there
is downloaded: into `data_home` or the named folder where there is one, and into the cache otherwise.
"""

import csv
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from sklearn.utils import Bunch

from evenhand._utils.typing import AnyArray, FloatArray
from evenhand.datasets.download import SOURCES, cache_folder, fetch, require_downloads

DATA_VARIABLE = "EVENHAND_DATA"
PAPER_SAMPLE_SIZE = 2000  # of Law School and Adult; Communities is used whole
RACE_SHARES = ["racepctblack", "racePctWhite", "racePctAsian", "racePctHisp"]
LAW_SCHOOL_WHITE = "7"  # its code in the column `race`

# Columns that may be the target, and what each is divided by to lie in [0, 1].
LAW_SCHOOL_TARGETS = {"ugpa": 4.0, "lsat": 48.0}
ADULT_TARGETS = {"age": 100.0, "hours.per.week": 100.0, "income": 1.0}

Table = dict[str, AnyArray]  # columns of text by name
Names = str | Sequence[str]


def load_law_school(
    data_home: str | Path | None = None,
    *,
    target: str = "ugpa",
    sensitive: Names = "white",
    download_if_missing: bool = False,
) -> Bunch:
    """Law School: the undergraduate grade `ugpa` / 4, with group 1 for white students and 0 for others.

    Rows with a missing value are dropped, which leaves 20 800 rows and 9 features.

    Parameters
    ----------
    data_home : path, optional
        Folder that holds `lawschool.csv`; see the module for where else it may lie.
    target : {"ugpa", "lsat"}, default="ugpa"
        What is predicted: the grade / 4, or the score of the admission test / 48. The other is a feature.
    sensitive : {"white", "race", "gender"} or several of them, default="white"
        What makes the groups: two, the eight codes of `race`, two, or their combinations, such as the four
        of `["white", "gender"]`. It is not among the features.
    download_if_missing : bool, default=False
        Download the file if it is not found (`pip install 'evenhand[data]'`).

    Returns
    -------
    Bunch
        `data`, `target`, `sensitive_features`, `feature_names`, `target_name`, `DESCR`,
        `paper_sample_size`, and `race`, the eight codes behind the two groups.
    """
    table = _read_table("lawschool.csv", data_home, download_if_missing)
    table = _rows(table, ~_any_equal(table, ("", "NA")))
    race = table.pop("race").astype(np.int64)
    kinds = {
        "white": (race == int(LAW_SCHOOL_WHITE)).astype(np.int64),
        "race": race,
        "gender": table["gender"],
    }
    groups = _groups(kinds, sensitive)
    outcome = _pop_target(table, target, LAW_SCHOOL_TARGETS)
    table["gender"] = table["gender"] == "male"
    table["bar1"] = table["bar1"] == "P"
    features = _without(table, sensitive)
    return Bunch(
        data=_matrix(features),
        target=outcome,
        sensitive_features=groups,
        race=race,
        feature_names=list(features),
        target_name=target,
        paper_sample_size=PAPER_SAMPLE_SIZE,
        DESCR=(
            f"Law School admissions (LSAC): {target} / {LAW_SCHOOL_TARGETS[target]:g}; groups by "
            f"{_listed(sensitive)}. Race code 7 is white."
        ),
    )


def load_communities(
    data_home: str | Path | None = None,
    *,
    target: str = "ViolentCrimesPerPop",
    sensitive: Names = "white",
    download_if_missing: bool = False,
) -> Bunch:
    """Communities and Crime: violent crimes per head, with group 1 where white is the largest share.

    Rows with no violent crime are dropped and missing values become 0, which leaves 1984 rows and 118
    features; the four columns that define the group are not among them.

    Parameters
    ----------
    data_home : path, optional
        Folder that holds `communities.csv`; see the module for where else it may lie.
    target : str, default="ViolentCrimesPerPop"
        What is predicted: any column but the four shares; the file has them all scaled to [0, 1].
    sensitive : {"white", "race"}, default="white"
        What makes the groups: whether white is the largest share, or which of the four is.
    download_if_missing : bool, default=False
        Download the file if it is not found (`pip install 'evenhand[data]'`).

    Returns
    -------
    Bunch
        `data`, `target`, `sensitive_features`, `feature_names`, `target_name`, `DESCR`,
        `paper_sample_size`, and `race`, the column with the largest share (four values).
    """
    table = _read_table("communities.csv", data_home, download_if_missing)
    table = {name: np.where(column == "", "0", column) for name, column in table.items()}
    table = _rows(table, table["ViolentCrimesPerPop"].astype(np.float64) != 0.0)
    shares = _matrix({name: table.pop(name) for name in RACE_SHARES})
    race = np.array(RACE_SHARES)[shares.argmax(axis=1)]
    outcome = _pop_target(table, target, dict.fromkeys(table, 1.0))
    return Bunch(
        data=_matrix(table),
        target=outcome,
        sensitive_features=_groups(
            {"white": (race == "racePctWhite").astype(np.int64), "race": race}, sensitive
        ),
        race=race,
        feature_names=list(table),
        target_name=target,
        paper_sample_size=None,
        DESCR=(
            f"Communities and Crime (UCI): {target}, normalised; groups by {_listed(sensitive)}, the largest "
            "share of the population."
        ),
    )


def load_adult(
    data_home: str | Path | None = None,
    *,
    target: str = "age",
    sensitive: Names = "sex",
    download_if_missing: bool = False,
) -> Bunch:
    """Adult census: `age` / 100, or another target, with group 1 for men and 0 for women.

    Rows with a '?' are dropped and only numeric columns are kept, on the scale log(1 + v) where they have
    more than two values, which leaves 30 162 rows and 6 features, as in the paper. For "income", which the
    paper does not use, the others are kept too, with a column of zeros and ones for each value.

    Parameters
    ----------
    data_home : path, optional
        Folder that holds `adult.csv`; see the module for where else it may lie.
    target : {"age", "hours.per.week", "income"}, default="age"
        What is predicted: one of the first two / 100, or whether the income is above 50 000 dollars (0 or
        1). The others are features.
    sensitive : {"sex", "race", "white"} or several of them, default="sex"
        What makes the groups: two, the five recorded races, two, or their combinations, such as the four of
        `["sex", "white"]`.
    download_if_missing : bool, default=False
        Download the file if it is not found (`pip install 'evenhand[data]'`).

    Returns
    -------
    Bunch
        `data`, `target`, `sensitive_features`, `race` (as recorded), `feature_names`, `target_name`,
        `DESCR`, `paper_sample_size`.
    """
    table = _read_table("adult.csv", data_home, download_if_missing)
    table = _rows(table, ~_any_equal(table, ("?",)))
    race = table.pop("race")
    kinds = {
        "sex": (table.pop("sex") == "Male").astype(np.int64),
        "race": race,
        "white": (race == "White").astype(np.int64),
    }
    groups = _groups(kinds, sensitive)
    table["income"] = (table["income"] == ">50K").astype(np.int64)
    outcome: AnyArray = _pop_target(table, target, ADULT_TARGETS)
    others: Table = {}
    if target == "income":
        outcome = outcome.astype(np.int64)
        others = _indicators({name: column for name, column in table.items() if not _is_numeric(column)})
    numeric = {name: _log_scaled(column) for name, column in table.items() if _is_numeric(column)} | others
    return Bunch(
        data=_matrix(numeric),
        target=outcome,
        sensitive_features=groups,
        race=race,
        feature_names=list(numeric),
        target_name=target,
        paper_sample_size=PAPER_SAMPLE_SIZE,
        DESCR=(
            f"Adult census (UCI): {target}{'' if target == 'income' else ' / 100'}; groups by "
            f"{_listed(sensitive)}. Sex 1 is male, 0 female."
        ),
    )


def _read_table(file_name: str, data_home: str | Path | None, download_if_missing: bool) -> Table:
    path = _find(file_name, data_home, download_if_missing)
    with path.open(newline="", encoding="utf-8") as lines:
        header: list[str] = next(reader := csv.reader(lines), [])
        rows = list(reader)
    broken = [number for number, row in enumerate(rows, start=2) if len(row) != len(header)]
    if broken or not rows:
        what = (
            f"line {broken[0]} has not the {len(header)} cells of the header" if broken else "it has no rows"
        )
        raise ValueError(f"{path} is not the whole data set: {what}. Get the file again.")
    return dict(zip(header, np.array(rows).T, strict=True))


def _find(file_name: str, data_home: str | Path | None, download_if_missing: bool) -> Path:
    """The file in the first folder that holds it; in the last one, if it is to be downloaded."""
    folders = _folders(data_home)
    for folder in folders:
        if (folder / file_name).is_file():
            return folder / file_name
    if download_if_missing:
        require_downloads()  # first: without the extra there is no cache among the folders
        return fetch(SOURCES[file_name], file_name, folders[-1])
    looked = ", ".join(str(folder) for folder in folders) or "no folder, since none was given"
    raise FileNotFoundError(
        f"{file_name} was not found; looked in {looked}. Pass the folder that holds it as data_home=, "
        f"name it in the environment variable {DATA_VARIABLE}, or pass download_if_missing=True."
    )


def _folders(data_home: str | Path | None) -> list[Path]:
    """Where to look: in the folder that was asked for, or else in the checkout's and in the cache."""
    asked = data_home if data_home is not None else os.environ.get(DATA_VARIABLE)
    if asked:
        return [Path(asked).expanduser()]
    return [folder for folder in (_checkout_folder(), cache_folder()) if folder is not None]


def _checkout_folder() -> Path | None:
    checkout = Path(__file__).resolve().parents[3]
    return checkout.parent / "shared" / "data" if (checkout / "pyproject.toml").is_file() else None


def _groups(kinds: Mapping[str, AnyArray], sensitive: Names) -> AnyArray:
    """One label for each row: of one kind as it is, of several joined by a slash."""
    names = _names(sensitive)
    unknown = [name for name in names if name not in kinds]
    if unknown or not names:
        raise ValueError(f"sensitive must be one or several of {', '.join(kinds)}: got {sensitive!r}.")
    if len(names) == 1:
        return kinds[names[0]]
    return np.array(["/".join(map(str, row)) for row in zip(*(kinds[name] for name in names), strict=True)])


def _names(sensitive: Names) -> list[str]:
    return [sensitive] if isinstance(sensitive, str) else list(sensitive)


def _listed(sensitive: Names) -> str:
    return " and ".join(_names(sensitive))


def _pop_target(table: Table, target: str, scales: Mapping[str, float]) -> FloatArray:
    """Take the target out of the table, scaled."""
    if target not in scales:
        shown = ", ".join(list(scales)[:5]) + (", ..." if len(scales) > 5 else "")
        raise ValueError(f"target must be one of {shown}: got {target!r}.")
    outcome: FloatArray = table.pop(target).astype(np.float64) / scales[target]
    return outcome


def _without(table: Table, sensitive: Names) -> Table:
    return {name: column for name, column in table.items() if name not in _names(sensitive)}


def _rows(table: Table, keep: AnyArray) -> Table:
    return {name: column[keep] for name, column in table.items()}


def _any_equal(table: Table, values: tuple[str, ...]) -> AnyArray:
    """Rows in which some column is one of `values`."""
    found: AnyArray = np.any([np.isin(column, values) for column in table.values()], axis=0)
    return found


def _matrix(columns: Table) -> FloatArray:
    return np.column_stack([column.astype(np.float64) for column in columns.values()])


def _indicators(table: Table) -> Table:
    """A column of zeros and ones for each value of each column."""
    return {
        f"{name}={value}": column == value for name, column in table.items() for value in np.unique(column)
    }


def _is_numeric(column: AnyArray) -> bool:
    try:
        column.astype(np.float64)
    except ValueError:
        return False
    return True


def _log_scaled(column: AnyArray) -> FloatArray:
    values: FloatArray = column.astype(np.float64)
    return np.log1p(values) if len(np.unique(values)) > 2 else values
