"""Cells that make a column of numbers one of text: found and named, since all that follows would change."""

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from evenhand._utils.text import plain
from evenhand.tables.columns import drop_missing, find_column, find_kind

MOST_STRAYS = 0.05  # of the filled cells of a column; with more of them it is text that holds numbers
FEW_VALUES = 10  # distinct numbers or fewer may be codes of categories, some of which are letters
SHOWN = 3

_PATTERNS = {
    "numbers": r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$",
    "dates": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}([ T][0-9:.]+Z?)?$",
}


@dataclass(frozen=True, slots=True)
class Strays:
    """The few cells of a column that are not what nearly all others are."""

    column: str
    kind: str  # of the others: "numbers" or "dates"
    count: int
    cells: tuple[tuple[int, str], ...]  # row, counted from one, and text of the first ones
    may_be_codes: bool  # so few distinct numbers that they may stand for categories

    def __str__(self) -> str:
        named = ", ".join(f"row {row}: {plain(repr(cell))}" for row, cell in self.cells)
        more = "" if self.count <= len(self.cells) else f" and {self.count - len(self.cells)} more"
        return f"Column {plain(self.column)} holds {self.kind}, but for {self.count} cell(s) ({named}{more})"


def find_strays(table: pa.Table, name: str) -> Strays | None:
    """The cells that make a column text of which nearly all cells are numbers or dates, if there are any.

    >>> cells = [*map(str, range(40)), "n.a."]
    >>> str(find_strays(pa.table({"age": cells}), "age"))
    "Column age holds numbers, but for 1 cell(s) (row 41: 'n.a.')"
    """
    column = find_column(table, name)
    if find_kind(column) != "text" or not (
        pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    ):
        return None
    cells = drop_missing(column)
    n_filled = len(cells) - cells.null_count
    for kind, pattern in _PATTERNS.items():
        fits = pc.match_substring_regex(cells, pattern)
        count = n_filled - (pc.sum(fits).as_py() or 0)
        if 0 < count <= MOST_STRAYS * n_filled:
            places = pc.indices_nonzero(pc.invert(pc.fill_null(fits, True)))[:SHOWN].to_pylist()
            values = pc.count_distinct(pc.filter(cells, pc.fill_null(fits, False))).as_py()
            shown = tuple((place + 1, cells[place].as_py()) for place in places)
            return Strays(name, kind, count, shown, values <= FEW_VALUES)
    return None


def without_marks(table: pa.Table, marks: list[str]) -> pa.Table:
    """The table with no value where a cell of text is one of `marks`, spaces around it left aside.

    >>> without_marks(pa.table({"age": ["7", " - "]}), ["-"])["age"].to_pylist()
    ['7', None]
    """
    for place, name in enumerate(table.column_names) if marks else ():
        column = table.column(place)
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            words = pa.array([mark.strip() for mark in marks], type=column.type)
            marked = pc.is_in(pc.utf8_trim_whitespace(column), value_set=words)
            blank = pc.if_else(marked, pa.scalar(None, column.type), column)
            table = table.set_column(place, name, blank)
    return table
