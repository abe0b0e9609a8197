"""The paper's three data sets, read from CSV files and prepared as its experiments do.

The files are public, and none of them is part of the package. Each loader looks in `data_home`, or in
the folder that the environment variable EVENHAND_DATA names, or, in a checkout of the project, in
`../shared/data`.
"""

import csv
import os
from pathlib import Path

import numpy as np
from sklearn.utils import Bunch

from evenhand._typing import AnyArray, FloatArray

DATA_VARIABLE = "EVENHAND_DATA"
PAPER_SAMPLE_SIZE = 2000  # of Law School and Adult; Communities is used whole
RACE_SHARES = ["racepctblack", "racePctWhite", "racePctAsian", "racePctHisp"]
LAW_SCHOOL_WHITE = "7"  # its code in the column `race`

Table = dict[str, AnyArray]  # columns of text by name


def load_law_school(data_home: str | Path | None = None) -> Bunch:
    """Law School: the undergraduate grade `ugpa` / 4, with group 1 for white students and 0 for others.

    Rows with a missing value are dropped, which leaves 20 800 rows and 9 features.

    Parameters
    ----------
    data_home : path, optional
        Folder that holds `lawschool.csv`; see the module for where else it may lie.

    Returns
    -------
    Bunch
        `data`, `target`, `sensitive_features`, `feature_names`, `DESCR`, `paper_sample_size`, and `race`,
        the eight codes behind the two groups.
    """
    table = _read_table("lawschool.csv", data_home)
    table = _rows(table, ~_any_equal(table, ("", "NA")))
    race = table.pop("race")
    target = table.pop("ugpa").astype(np.float64) / 4.0
    table["gender"] = table["gender"] == "male"
    table["bar1"] = table["bar1"] == "P"
    return Bunch(
        data=_matrix(table),
        target=target,
        sensitive_features=(race == LAW_SCHOOL_WHITE).astype(np.int64),
        race=race.astype(np.int64),
        feature_names=list(table),
        paper_sample_size=PAPER_SAMPLE_SIZE,
        DESCR="Law School admissions: undergraduate grade / 4; group 1 is race code 7 (white), 0 any other.",
    )


def load_communities(data_home: str | Path | None = None) -> Bunch:
    """Communities and Crime: violent crimes per head, with group 1 where white is the largest share.

    Rows with target 0 are dropped and missing values become 0, which leaves 1984 rows and 118 features;
    the four columns that define the group are not among them.

    Parameters
    ----------
    data_home : path, optional
        Folder that holds `communities.csv`; see the module for where else it may lie.

    Returns
    -------
    Bunch
        `data`, `target`, `sensitive_features`, `feature_names`, `DESCR`, `paper_sample_size`, and `race`,
        the column with the largest share (four values) behind the two groups.
    """
    table = _read_table("communities.csv", data_home)
    table = {name: np.where(column == "", "0", column) for name, column in table.items()}
    table = _rows(table, table["ViolentCrimesPerPop"].astype(np.float64) != 0.0)
    target = table.pop("ViolentCrimesPerPop").astype(np.float64)
    shares = _matrix({name: table.pop(name) for name in RACE_SHARES})
    race = np.array(RACE_SHARES)[shares.argmax(axis=1)]
    return Bunch(
        data=_matrix(table),
        target=target,
        sensitive_features=(race == "racePctWhite").astype(np.int64),
        race=race,
        feature_names=list(table),
        paper_sample_size=None,
        DESCR="Communities and Crime: violent crimes per head, normalised; group 1 is mostly white.",
    )


def load_adult(data_home: str | Path | None = None, *, target: str = "age") -> Bunch:
    """Adult census: `age` / 100, or income, with group 1 for men and 0 for women.

    Rows with a '?' are dropped. For "age" only numeric columns are kept, on the scale log(1 + v) where they
    have more than two values, which leaves 30 162 rows and 6 features, as in the paper. For "income", which
    the paper does not use, the others are kept too, with a column of zeros and ones for each value.

    Parameters
    ----------
    target : {"age", "income"}, default="age"
        What is predicted: age / 100, or whether the income is above 50 000 dollars (0 or 1).
    data_home : path, optional
        Folder that holds `adult.csv`; see the module for where else it may lie.

    Returns
    -------
    Bunch
        `data`, `target`, `sensitive_features`, `race` (as recorded, for richer groups), `feature_names`,
        `DESCR`, `paper_sample_size`.
    """
    table = _read_table("adult.csv", data_home)
    table = _rows(table, ~_any_equal(table, ("?",)))
    groups = (table.pop("sex") == "Male").astype(np.int64)
    race = table.pop("race")
    table["income"] = table["income"] == ">50K"
    if target == "age":
        outcome = table.pop("age").astype(np.float64) / 100.0
        others: Table = {}
    elif target == "income":
        outcome = table.pop("income").astype(np.int64)
        others = _indicators({name: column for name, column in table.items() if not _is_numeric(column)})
    else:
        raise ValueError(f'target must be "age" or "income": got {target!r}.')
    numeric = {name: _log_scaled(column) for name, column in table.items() if _is_numeric(column)} | others
    return Bunch(
        data=_matrix(numeric),
        target=outcome,
        sensitive_features=groups,
        race=race,
        feature_names=list(numeric),
        paper_sample_size=PAPER_SAMPLE_SIZE,
        DESCR=f"Adult census: {'age / 100' if target == 'age' else 'income'}; group 1 is male, 0 female.",
    )


def _folders(data_home: str | Path | None) -> list[Path]:
    """Where to look: the first of argument, variable and checkout that is given."""
    asked = data_home if data_home is not None else os.environ.get(DATA_VARIABLE)
    if asked:
        return [Path(asked).expanduser()]
    checkout = Path(__file__).resolve().parents[3]
    return [checkout.parent / "shared" / "data"] if (checkout / "pyproject.toml").is_file() else []


def _read_table(file_name: str, data_home: str | Path | None) -> Table:
    folders = _folders(data_home)
    path = next((folder / file_name for folder in folders if (folder / file_name).is_file()), None)
    if path is None:
        looked = ", ".join(str(folder) for folder in folders) or "no folder, since none was given"
        raise FileNotFoundError(
            f"{file_name} was not found; looked in {looked}. Pass the folder that holds it as data_home=, "
            f"or name it in the environment variable {DATA_VARIABLE}."
        )
    with path.open(newline="", encoding="utf-8") as lines:
        header, *rows = csv.reader(lines)
    return dict(zip(header, np.array(rows).T, strict=True))


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
