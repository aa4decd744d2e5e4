"""Places the numbers of a drawing's points beside them, so that they cover no other point, name or number.

The page and the picture use it for their rooflines. Lengths are in the drawing's units, in which y may go up or down.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

Spot = tuple[float, float]
NEAR = 0.8  # of a line's height: points that are closer share a label


class Rectangle(NamedTuple):
    """An occupied rectangle; `low` and `high` are its lesser and its greater y."""

    left: float
    low: float
    right: float
    high: float

    def overlaps(self, other: "Rectangle") -> bool:
        """Whether the two share an area."""
        return self.left < other.right and other.left < self.right and self.low < other.high and other.low < self.high

    def within(self, other: "Rectangle") -> bool:
        """Whether this rectangle lies inside the other one."""
        return other.left <= self.left and self.right <= other.right and other.low <= self.low and self.high <= other.high


class Label(NamedTuple):
    """The text of a label and where it is drawn; `spot` is its point."""

    words: str
    box: Rectangle
    spot: Spot


def labels(spots: Mapping[int, Spot], taken: Sequence[Rectangle], frame: Rectangle, letter: Spot) -> list[Label]:
    """One label for each point, or for several points that nearly coincide. A point without a free place nearby has none.

    The points that come first choose first. letter: width of a character and height of a line.
    """
    width, height = letter
    groups: list[tuple[Spot, list[int]]] = []
    for number, spot in spots.items():
        near = (numbers for at, numbers in groups if max(abs(at[0] - spot[0]), abs(at[1] - spot[1])) < NEAR * height)
        found = next(near, None)
        if found is None:
            groups.append((spot, [number]))
        else:
            found.append(number)
    made: list[Label] = []
    for spot, numbers in groups:
        words = ", ".join(map(str, sorted(numbers)))
        places = _places(spot, width * len(words), height)
        blocked = [*taken, *(label.box for label in made)]
        free = (box for box in places if box.within(frame) and not any(box.overlaps(other) for other in blocked))
        if box := next(free, None):
            made.append(Label(words, box, spot))
    return made


def _places(spot: Spot, width: float, height: float) -> Iterator[Rectangle]:
    """The places for a label, best first: beside the point, above it, below it, then beside it one or two lines off."""
    x, y = spot
    gap = 0.6 * height
    right, left = x + gap, x - gap - width
    beside = [(at, y - height / 2) for at in (right, left)]
    over = [(x - width / 2, y + gap), (x - width / 2, y - gap - height)]
    apart = [(at, y - height / 2 + lines * height) for lines in (1, -1, 2, -2) for at in (right, left)]
    for at, low in (*beside, *over, *apart):
        yield Rectangle(at, low, at + width, low + height)
