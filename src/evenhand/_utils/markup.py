"""Small HTML for notebooks: a table with a caption, and sentences below."""

from collections.abc import Iterable, Sequence
from html import escape


def html_block(
    caption: str, heads: Sequence[str], rows: Iterable[Sequence[str]], notes: Iterable[str]
) -> str:
    """A table whose rows begin with a name, and a paragraph for each note; all text is escaped.

    >>> html_block("Two groups", ["Group", "Gap"], [["<b>", "0.1"]], [])[43:]
    '<tr><th>Group</th><th>Gap</th></tr></thead><tbody><tr><th>&lt;b&gt;</th><td>0.1</td></tr></tbody></table>'
    """
    head = "".join(f"<th>{escape(text)}</th>" for text in heads)
    body = "".join(
        f"<tr><th>{escape(name)}</th>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"
        for name, *cells in rows
    )
    below = "".join(f'<p style="max-width: 46rem">{escape(note)}</p>' for note in notes)
    return (
        f"<table><caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table>{below}"
    )


def cell(value: float | None, digits: int = 3) -> str:
    """A number for a table; a dash where there is none.

    >>> cell(0.012345), cell(float("nan")) == cell(None) == "\N{EN DASH}"
    ('0.0123', True)
    """
    return "\N{EN DASH}" if value is None or value != value else f"{value:.{digits}g}"
