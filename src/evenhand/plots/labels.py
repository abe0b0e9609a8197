"""Labels beside points that cover neither each other nor what is drawn."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from evenhand._utils.typing import AnyArray, FloatArray

Box: TypeAlias = tuple[float, float, float, float]  # left, bottom, right, top, in pixels

STEPS = (6.0, 13.0, 24.0)  # points between a label and what it names
SIDES = ((1, 1), (1, 0), (0, 1), (1, -1), (-1, 1), (0, -1), (-1, -1), (-1, 0))
MARKER = 4.5  # points around a marker that a label keeps clear of
SPACE = 3.0  # points to the left and to the right of a label, lest two of them read as one
# What covering something is worth: never another label, rarely a marker or a line, if need be a thin bar.
ON_LABEL, OUTSIDE, ON_MARKER, ON_LINE, ON_BAR = 1000.0, 400.0, 60.0, 30.0, 4.0
MOST = 25.0  # what a label that may be left out must not exceed
APART = 0.08  # share of the axes' sides: points nearer to a labelled one stay without a label


@dataclass(frozen=True, slots=True, eq=False)
class PointLabel:
    """A text that belongs to a point of the data."""

    text: str
    point: tuple[float, float]
    colour: Any
    needed: bool = True  # else it is left out where there is no room


@dataclass(slots=True, eq=False)
class Obstacles:
    """What is drawn, in the units of the data."""

    markers: list[tuple[float, float]] = field(default_factory=list)
    lines: list[FloatArray] = field(default_factory=list)  # (n_points, 2) each
    bars: list[FloatArray] = field(default_factory=list)  # thin ones, (2, 2) each


def place_labels(
    ax: Any, labels: Sequence[PointLabel], obstacles: Obstacles, *, fontsize: Any = "small"
) -> list[Any]:
    """Write each label at the side of its point where it covers least; the first ones choose first."""
    ax.figure.canvas.figure.draw_without_rendering()  # until then the layout does not know its sizes
    room = _Room(ax, obstacles)
    written = []
    for label in labels:
        text = ax.annotate(
            label.text, label.point, (0, 0), textcoords="offset points", fontsize=fontsize, color=label.colour
        )
        found = room.best(text, label)
        if found is None:
            text.remove()
            continue
        text.set_position(found[0])
        text.set(ha="left", va="bottom")
        written.append(text)
    return written


class _Room:
    """Where labels may go, in pixels."""

    def __init__(self, ax: Any, obstacles: Obstacles) -> None:
        self.to_pixels = ax.transData.transform
        self.pixel = ax.figure.dpi / 72.0
        frame = ax.get_window_extent()
        self.frame: Box = (frame.x0, frame.y0, frame.x1, frame.y1)
        pad = MARKER * self.pixel
        self.markers = [(x - pad, y - pad, x + pad, y + pad) for x, y in self._pixels(obstacles.markers)]
        self.lines = [self._pixels(line) for line in obstacles.lines]
        self.bars = [self._pixels(bar) for bar in obstacles.bars]
        self.sides = np.array([frame.width, frame.height])
        self.taken: list[Box] = []
        self.named: list[FloatArray] = []

    def _pixels(self, points: Any) -> AnyArray:
        table = np.asarray(points, dtype=np.float64).reshape(-1, 2)
        pixels: AnyArray = self.to_pixels(table) if len(table) else table
        return pixels

    def best(self, text: Any, label: PointLabel) -> tuple[tuple[float, float], float] | None:
        """Offset in points and price of the cheapest place; None where that is not worth it."""
        size = text.get_window_extent()
        (point,) = self._pixels([label.point])
        if not label.needed and any(
            np.hypot(*((point - other) / self.sides)) < APART for other in self.named
        ):
            return None
        offers = []
        for farther, step in enumerate(STEPS if label.needed else STEPS[:1]):
            for order, (right, up) in enumerate(SIDES):
                corner = _corner(point, right, up, step * self.pixel, size.width, size.height)
                box = (*corner, corner[0] + size.width, corner[1] + size.height)
                offers.append((self._price(box) + 6.0 * farther + 0.5 * order, box))
        price, box = min(offers, key=lambda offer: offer[0])
        if price > MOST and not label.needed:
            return None
        left, bottom, right, top = box
        self.taken.append((left - SPACE * self.pixel, bottom, right + SPACE * self.pixel, top))
        self.named.append(point)
        offset = (box[0] - point[0]) / self.pixel, (box[1] - point[1]) / self.pixel
        return offset, price

    def _price(self, box: Box) -> float:
        left, bottom, right, top = self.frame
        outside = box[0] < left or box[1] < bottom or box[2] > right or box[3] > top
        price = OUTSIDE if outside else 0.0
        price += ON_LABEL * sum(_overlap(box, other) for other in self.taken)
        price += ON_MARKER * sum(_overlap(box, other) for other in self.markers)
        price += ON_LINE * sum(_crossed(box, line) for line in self.lines)
        return price + ON_BAR * sum(_crossed(box, bar) for bar in self.bars)


def _corner(
    point: FloatArray, right: int, up: int, step: float, width: float, height: float
) -> tuple[float, float]:
    """Lower left corner of a box at one side of a point."""
    x = point[0] + right * step - width * (1 - right) / 2
    y = point[1] + up * step - height * (1 - up) / 2
    return float(x), float(y)


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _crossed(box: Box, line: FloatArray) -> bool:
    """Whether a line of straight pieces passes through a box.

    >>> _crossed((0.0, 0.0, 1.0, 1.0), np.array([[-1.0, 0.5], [9.0, 0.5]]))
    True
    >>> _crossed((0.0, 0.0, 1.0, 1.0), np.array([[-1.0, 0.5], [0.5, 2.5]]))
    False
    """
    start, move = line[:-1], np.diff(line, axis=0)
    low, high = np.array(box[:2]), np.array(box[2:])
    still = move == 0.0  # along that axis: inside from the first to the last, or never
    inside = (start > low) & (start < high)
    ends = np.sort([(side - start) / np.where(still, 1.0, move) for side in (low, high)], axis=0)
    enter = np.where(still, np.where(inside, -np.inf, np.inf), ends[0]).max(axis=1, initial=0.0)
    leave = np.where(still, np.where(inside, np.inf, -np.inf), ends[1]).min(axis=1, initial=1.0)
    return bool((enter < leave).any())
