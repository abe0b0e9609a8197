"""Cells of text that a spreadsheet would run as formulas, made plain text."""

import pyarrow as pa
import pyarrow.compute as pc

# What a spreadsheet takes for a formula, but for numbers, which begin with a sign, too.
_FORMULA = r"^[ ]*[=+\-@\t\r]"
_NUMBER = r"^[ ]*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[ ]*$"
MARK = "'"  # which makes a cell text in every spreadsheet


def escape_formulas(table: pa.Table) -> pa.Table:
    """The table with an apostrophe before each text, and each name of a column, that would be a formula.

    >>> escape_formulas(pa.table({"=a": ["=cmd()", "-5", "@x", "plain"]})).to_pydict()
    {"'=a": ["'=cmd()", '-5', "'@x", 'plain']}
    """
    columns = [_escaped(column) if _is_text(column.type) else column for column in table.columns]
    names = _escaped(pa.chunked_array([pa.array(table.column_names, pa.string())])).to_pylist()
    return pa.table(columns, names=names)


def _escaped(column: pa.ChunkedArray) -> pa.ChunkedArray:
    runs = pc.match_substring_regex(column, _FORMULA)
    risky = pc.and_not(runs, pc.match_substring_regex(column, _NUMBER))
    marked = pc.binary_join_element_wise(pa.scalar(MARK, column.type), column, pa.scalar("", column.type))
    return pc.if_else(risky, marked, column)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
