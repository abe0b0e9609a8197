"""The house look: few inks, told apart by line and marker too, so that grey print loses nothing."""

import textwrap
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from evenhand._utils.labels import label_text
from evenhand._utils.optional import import_optional
from evenhand._utils.typing import AnyArray

# One dark ink for the subject, one warm mark for what it is compared with, grey for the rest. The two differ
# in lightness and in shape, so that neither a printer nor colour blindness confuses them.
INK = "#20506e"
MARK = "#d95f02"
GREY = "#6b6b6b"
PALE = "0.85"  # fills that stay behind
EMPHASIS = 2.2  # width of the line that a picture is about
QUIET = 1.1  # and of the others

# Of the groups in turn; neighbours differ in lightness, hue, dash and marker.
COLOURS = (INK, MARK, "#009e73", "#b0549a", "#4ba3e0", "#7a4a12", "#c79a00", "#3b2a78")
DASHES: tuple[Any, ...] = (
    "-",
    (0, (5, 1.6)),
    (0, (6, 1.5, 1.2, 1.5)),
    (0, (1.2, 1.2)),
    (0, (10, 2)),
    (0, (3, 1, 1, 1, 1, 1)),
    (0, (8, 1.5, 3, 1.5)),
    (0, (2, 3)),
)
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "p")

MOST_NAMED = 3  # lines with a look of their own in one Axes; where there are more groups, the rest is grey
OTHERS: dict[str, Any] = {"color": "0.55", "linestyle": "-", "linewidth": 0.7}
CHARACTER = 0.5  # mean width of a character, in its font size
TITLE_SIZE = 10.0  # points
PANEL_COLUMNS = 4  # panels beside each other, at most


@dataclass(frozen=True, eq=False)
class Display:
    """Numbers, and where they were last drawn: `ax_` and `figure_`, once `plot` was called."""

    ax_: Any = field(default=None, init=False, repr=False)
    figure_: Any = field(default=None, init=False, repr=False)

    def _drawn(self, ax: Any) -> Self:
        """Remember the axes: they are no part of the record, which stays as it was."""
        first = ax.flat[0] if isinstance(ax, np.ndarray) else ax
        object.__setattr__(self, "ax_", ax)
        object.__setattr__(self, "figure_", first.figure)
        return self


def subplots(n_rows: int = 1, n_columns: int = 1, *, size: tuple[float, float], **options: Any) -> AnyArray:
    """Axes of a new figure, (n_rows, n_columns)."""
    pyplot = import_optional("matplotlib.pyplot", extra="plot", purpose="Plotting")
    _, axes = pyplot.subplots(n_rows, n_columns, figsize=size, layout="constrained", squeeze=False, **options)
    grid: AnyArray = axes
    return grid


def group_panels(n_groups: int, *, side: float, shared: bool = True) -> AnyArray:
    """One square panel for each group in a new figure, with common axes if `shared`, (n_groups,)."""
    n_columns = n_groups if n_groups <= PANEL_COLUMNS else -(-n_groups // 2)
    n_rows = -(-n_groups // n_columns)
    # Room for the labels of the axes, and for the sentence above.
    size = (side * n_columns + 0.7, (side + 0.25) * n_rows + 0.9)
    axes = subplots(n_rows, n_columns, size=size, sharex=shared, sharey=shared).ravel()
    for spare in axes[n_groups:]:
        spare.remove()
    for lowest in axes[max(0, n_groups - n_columns) : n_groups]:
        lowest.tick_params(labelbottom=True)
    used: AnyArray = axes[:n_groups]
    return used


def tidy(ax: Any, *, grid: bool = True) -> None:
    """Two axes and a faint grid, no box."""
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    if grid:
        ax.grid(color="0.92", linewidth=0.8)
    ax.set_axisbelow(True)


def headline(ax: Any, text: str, *, pad: float = 8.0) -> None:
    """The sentence that says what is seen, above the axes."""
    width = 72.0 * ax.get_position().width * ax.figure.get_figwidth()
    lines = textwrap.fill(text, max(20, int(1.1 * width / (CHARACTER * TITLE_SIZE))))
    ax.set_title(lines, loc="left", fontsize=TITLE_SIZE, pad=pad)


def figure_headline(figure: Any, text: str) -> None:
    """The sentence above several panels."""
    width = 72.0 * figure.get_figwidth()
    lines = textwrap.fill(text, max(20, int(width / (CHARACTER * TITLE_SIZE))))
    figure.suptitle(lines, x=0.01, ha="left", fontsize=TITLE_SIZE)


def group_line(place: int) -> dict[str, Any]:
    """Colour and dash of a group."""
    return {"color": COLOURS[place % len(COLOURS)], "linestyle": DASHES[place % len(DASHES)]}


def group_marker(place: int) -> dict[str, Any]:
    """Marker and dash of a group, for lines through few points."""
    return {**group_line(place), "marker": MARKERS[place % len(MARKERS)], "markersize": 4.5}


def named_places(sizes: AnyArray) -> list[int]:
    """Groups to name in one Axes, largest first: all of a few, or the first of many.

    >>> named_places(np.array([0.1, 0.4, 0.2, 0.3, 0.0]))
    [1, 3, 2]
    """
    order: list[int] = np.argsort(-sizes, kind="stable").tolist()
    return order if len(order) <= MOST_NAMED + 1 else order[:MOST_NAMED]


def name_of(label: Hashable, width: int = 20) -> str:
    """A group's label, cut where it is too long to stand beside a line.

    >>> name_of("Native Hawaiian or other Pacific Islander")
    'Native Hawaiian or\u2026'
    """
    text = label_text(label)
    return text if len(text) <= width else text[: width - 1].rstrip() + "\N{HORIZONTAL ELLIPSIS}"


def signed(value: float) -> str:
    """Two digits with a sign, and a true minus.

    >>> signed(-0.12345)
    '\u22120.12'
    """
    return f"{float(f'{value:.2g}'):+g}".replace("-", "\N{MINUS SIGN}")


def short(value: float, digits: int = 2) -> str:
    """A few digits, without an exponent below a million.

    >>> short(0.012345), short(45_321.0), short(-2.0, 3)
    ('0.012', '45000', '\u22122')
    """
    return f"{float(f'{value:.{digits}g}'):g}".replace("-", "\N{MINUS SIGN}")


def spread_out(wanted: AnyArray, gap: float) -> AnyArray:
    """Positions at least `gap` apart, near the wanted ones and in their order.

    >>> spread_out(np.array([0.0, 0.1, 5.0]), 1.0)
    array([-0.45,  0.55,  5.  ])
    """
    order = np.argsort(wanted, kind="stable")
    blocks: list[list[float]] = []  # each: sum of (wanted - place in block * gap), count
    for value in np.asarray(wanted, dtype=np.float64)[order]:
        blocks.append([float(value), 1.0])
        # A block starts at the mean of what its members ask for; blocks that touch become one.
        while len(blocks) > 1 and _end(blocks[-2], gap) > blocks[-1][0] / blocks[-1][1]:
            total, count = blocks.pop()
            before_total, before_count = blocks[-1]
            blocks[-1] = [before_total + total - count * before_count * gap, before_count + count]
    placed = [total / count + gap * i for total, count in blocks for i in range(int(count))]
    out = np.empty(len(order))
    out[order] = placed
    return out


def _end(block: list[float], gap: float) -> float:
    """Where the next block may begin."""
    return block[0] / block[1] + gap * block[1]
