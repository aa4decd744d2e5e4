"""Draws docs/serving/lifecycle.svg from the tables of `serve.lifecycle`: the states of versions and of boards, and their arrows.

.venv/bin/python tools/pictures/lives.py
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from math import hypot
from pathlib import Path

from drawing import FILL, arrow, box, document, text

from cnna.serve.lifecycle import boards, versions
from cnna.serve.lifecycle.arrow import ABSENT, Machine

OUT = Path(__file__).resolve().parent.parent.parent / "docs" / "serving" / "lifecycle.svg"
WIDTH, HEIGHT, COLUMN, ROW, MARGIN = 112, 34, 280, 130, 50  # pixels: a box; from one to the next
PANEL = 2 * ROW + 2 * MARGIN + HEIGHT
APART, TIP = 9, 2  # of an arrow and the one that runs back; from a tip to its box
Places = Mapping[str, tuple[float, float]]  # of each state: column and row
PANELS: tuple[tuple[str, Machine, Places], ...] = (
    (
        "a version",
        versions.MACHINE,
        {
            ABSENT: (0, 1),
            versions.LOADING: (0.8, 0),
            versions.READY: (2, 0),
            versions.UNLOADING: (2, 2),
            versions.UNAVAILABLE: (0.8, 2),
        },
    ),
    (
        "a board",
        boards.MACHINE,
        {boards.STARTING: (0, 0), boards.READY: (2, 0), boards.RESTING: (1, 1), boards.OUT: (1, 2), boards.CLOSED: (2, 2)},
    ),
)
WORDS_AT = {(ABSENT, versions.READY): 0.6, (boards.STARTING, boards.OUT): 0.62, (boards.OUT, boards.STARTING): 0.2}
NEAR = 0.36  # of an arrow's length from its source, where its words are: so those of crossing arrows do not meet


def picture() -> str:
    """The whole file."""
    parts = [part for number, panel in enumerate(PANELS) for part in _panel(number, *panel)]
    return document(2 * MARGIN + 2 * COLUMN + WIDTH, 2 * PANEL, parts)


def _panel(number: int, name: str, machine: Machine, places: Places) -> Iterator[str]:
    top = number * PANEL
    yield text(12, top + 20, name, "panel")
    centres = {state: (MARGIN + WIDTH / 2 + x * COLUMN, top + MARGIN + HEIGHT / 2 + y * ROW) for state, (x, y) in places.items()}
    found = defaultdict[tuple[str, str], list[str]](list)
    for one in machine:
        found[one.source, one.target].append(one.what + (f" ({one.when})" if one.when else ""))
    for state, (x, y) in centres.items():
        yield box(x - WIDTH / 2, y - HEIGHT / 2, WIDTH, HEIGHT, FILL["serve"], dashed=state == ABSENT)
        yield text(x, y + 4, state, "name")
    for end in set(places) - {one.source for one in machine}:  # one arrow stands for all: every state has it
        (words,) = {tuple(found.pop((source, end))) for source in places if source != end}
        x, y = centres[end]
        yield arrow(f"every state to {end}", [(x, y - ROW / 2), (x, y - HEIGHT / 2 - TIP)], curved=False)
        yield text(x, y - ROW / 2 - 6, f"{', '.join(words)}, in every state")
    for (source, target), what in found.items():
        at = WORDS_AT.get((source, target), NEAR)
        yield from _arrow(centres[source], centres[target], f"{source} to {target}", what, at)


def _arrow(start: tuple[float, float], end: tuple[float, float], title: str, words: list[str], place: float) -> Iterator[str]:
    """An arrow on the right of the line between two boxes, with its words beside it; one that ends where it begins is a loop."""
    (x, y), (to_x, to_y) = start, end
    if start == end:
        side = x - WIDTH / 2
        yield arrow(title, [(side, y + 9), (side - 22, y + 9), (side - 22, y - 9), (side - TIP, y - 9)], curved=False)
        yield from _words(side + 42, y + 38, words)
        return
    length = hypot(to_x - x, to_y - y)
    along_x, along_y = (to_x - x) / length, (to_y - y) / length
    aside_x, aside_y = -along_y * APART, along_x * APART
    first, last = (
        _border(along_x, along_y, aside_x, aside_y),
        length - _border(-along_x, -along_y, aside_x, aside_y) - TIP,
    )
    points = [(x + along_x * at + aside_x, y + along_y * at + aside_y) for at in (first, last)]
    yield arrow(title, points, curved=False)
    at = first + place * (last - first)
    yield from _words(x + along_x * at + 3.2 * aside_x, y + along_y * at + 2 * aside_y + 4, words)


def _border(along_x: float, along_y: float, aside_x: float, aside_y: float) -> float:
    """How far a line that passes a box's centre at `aside` runs inside the box, from the point beside the centre."""
    ways = ((along_x, aside_x, WIDTH / 2), (along_y, aside_y, HEIGHT / 2))
    return min((half - aside * (1 if along > 0 else -1)) / abs(along) for along, aside, half in ways if abs(along) > 1e-9)


def _words(x: float, y: float, words: list[str]) -> Iterator[str]:
    for number, one in enumerate(words):
        yield text(x, y + 13 * (number - (len(words) - 1) / 2), one)


if __name__ == "__main__":
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(picture())
