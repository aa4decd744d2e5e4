"""Draws docs/rooms.svg and writes CONTRIBUTING's table, both from the table ROOMS of tests/test_layering.py. `make pages` runs it.

.venv/bin/python tools/pictures/rooms.py

The drawing is laid out in ranks: a room stands above every room that it imports. It shows only those allowed imports that no chain
of others implies. An arrow that passes a rank has a place in it, so that it does not cross a box.
"""

import ast
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from textwrap import wrap
from typing import NamedTuple

from drawing import FILL, arrow, box, document, text

ROOT = Path(__file__).resolve().parent.parent.parent
TABLE, PICTURE, PAGE = "tests/test_layering.py", "docs/rooms.svg", "CONTRIBUTING.md"
BEGIN, END = "<!-- rooms: written by `make pages` -->\n", "<!-- end of rooms -->"
GROUND = "spec"
COLUMNS = ("hw", "compiler", "host")  # packages side by side on the ground; the packages after them stand on top, one above another
BOX_WIDTH, BOX_HEIGHT, GAP, RANK, MARGIN, LANE = 138, 64, 10, 96, 18, 6  # in pixels; LANE: the width that a passing arrow takes
LETTERS = 22  # in a line of a box

Rooms = Mapping[str, tuple[str, tuple[str, ...]]]


class Place(NamedTuple):
    """A room in a rank of a package's panel, or the place of a passing arrow there (its `name` is None)."""

    name: str | None
    panel: str
    rank: int
    arrow: tuple[str, str] | None = None

    @property
    def width(self) -> int:
        return BOX_WIDTH if self.name else LANE


Layout = tuple[dict[Place, float], dict[str, tuple[float, float]]]  # centres, and the sides of each column, in pixels from the left


def read(root: Path = ROOT) -> Rooms:
    """ROOMS, read without an import of the tests."""
    for node in ast.parse((root / TABLE).read_text()).body:
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["ROOMS"]:
            rooms: Rooms = eval(compile(ast.Expression(node.value), TABLE, "eval"), {"__builtins__": {}})
            return rooms
    raise LookupError(f"{TABLE} assigns no ROOMS")


def package(room: str) -> str:
    """The top package of a room."""
    return room.partition(".")[0]


def reduced(rooms: Rooms) -> list[tuple[str, str]]:
    """The arrows (importer, imported) that no chain of other arrows implies. The ground is left out."""
    reach: dict[str, set[str]] = {}
    arrows = []
    for room, (_, allowed) in rooms.items():
        implied = set().union(*(reach[other] for other in allowed))
        arrows += [(room, other) for other in allowed if other not in implied and other != GROUND]
        reach[room] = implied | set(allowed)
    return arrows


def ranks(rooms: Rooms) -> dict[str, int]:
    """The height of each room: above all that it imports, and above the packages that its own package stands on."""
    height: dict[str, int] = {}
    base: dict[str, int] = defaultdict(int)
    for room, (_, allowed) in rooms.items():
        if room == GROUND:
            continue
        if package(room) not in (*COLUMNS, *base):
            base[package(room)] = max(height.values()) + 1
        height[room] = max([base[package(room)], *(height[other] + 1 for other in allowed if other != GROUND)])
    return height


def layout(rooms: Rooms) -> tuple[Layout, dict[tuple[str, str], list[Place]]]:
    """The position of every place, and the places that each arrow goes through."""
    height = ranks(rooms)
    boxes = {room: Place(room, package(room), rank) for room, rank in height.items()}
    tops = {name: max(rank for room, rank in height.items() if package(room) == name) for name in map(package, height)}
    routes = {}
    for start, end in reduced(rooms):
        between = [Place(None, _panel(rank, end, tops), rank, (start, end)) for rank in range(height[start] - 1, height[end], -1)]
        routes[start, end] = [boxes[start], *between, boxes[end]]
    near: dict[Place, list[Place]] = defaultdict(list)
    for route in routes.values():
        for upper, lower in pairwise(route):
            near[lower].append(upper)
        for upper, lower in pairwise(route):
            near[upper].append(lower)
    rows: dict[tuple[str, int], list[Place]] = defaultdict(list)
    for place in [*boxes.values(), *(place for route in routes.values() for place in route[1:-1])]:
        rows[place.panel if place.panel in COLUMNS else "", place.rank].append(place)
    return _settle(rows, near), routes


def _panel(rank: int, end: str, tops: Mapping[str, int]) -> str:
    """The panel in which an arrow to `end` passes a rank: the column that it goes down to, or what stands above the columns."""
    low = max(tops[name] for name in COLUMNS)
    return package(end) if package(end) in COLUMNS and rank <= low else ""


def _settle(rows: Mapping[tuple[str, int], list[Place]], near: Mapping[Place, Sequence[Place]]) -> Layout:
    """Moves every place towards those that it is joined to, panel by panel, until little changes."""
    widths = {panel: max(_width(row) for (name, _), row in rows.items() if name == panel) for panel in (*COLUMNS, "")}
    widths[""] = max(widths[""], sum(widths[panel] for panel in COLUMNS) + 2 * (len(COLUMNS) - 1) * MARGIN)
    left = float(MARGIN)
    limits: dict[str, tuple[float, float]] = {}
    for panel in COLUMNS:
        limits[panel] = (left, left + widths[panel])
        left += widths[panel] + 2 * MARGIN
    limits[""] = (MARGIN, MARGIN + widths[""])
    x = {}
    for (panel, _), row in rows.items():
        low, high = limits[panel]
        x.update({place: low + (number + 0.5) * (high - low) / len(row) for number, place in enumerate(row)})
    for turn in range(60):
        for (panel, _), row in sorted(rows.items(), key=lambda item: item[0][1], reverse=turn % 2 == 1):
            middle = {
                place: sum(x[other] for other in near[place]) / len(near[place]) if near[place] else x[place] for place in row
            }
            if turn < 40:
                row.sort(key=middle.__getitem__)
            # An arrow wants to go straight down to its end.
            wanted = [middle[place] if place.name else x[near[place][-1]] for place in row]
            x.update(zip(row, _apart(row, wanted, *limits[panel]), strict=True))
    return x, limits


def _width(row: Iterable[Place]) -> int:
    return sum(place.width + GAP for place in row) - GAP


def _apart(row: Sequence[Place], wanted: Sequence[float], low: float, high: float) -> list[float]:
    """Centres in the order of `row`, without overlap and within the limits, as near as possible to `wanted` (least squares)."""
    offsets = [0.0]
    for one, other in pairwise(row):
        offsets.append(offsets[-1] + (one.width + other.width) / 2 + GAP)
    groups: list[list[float]] = []  # neighbours that touch: the sum of their wanted places, and how many they are
    for want, offset in zip(wanted, offsets, strict=True):
        groups.append([want - offset, 1])
        while len(groups) > 1 and groups[-2][0] / groups[-2][1] >= groups[-1][0] / groups[-1][1]:
            total, count = groups.pop()
            groups[-1] = [groups[-1][0] + total, groups[-1][1] + count]
    least, most = low + row[0].width / 2, high - row[-1].width / 2 - offsets[-1]
    starts = [min(max(total / count, least), most) for total, count in groups for _ in range(int(count))]
    return [start + offset for start, offset in zip(starts, offsets, strict=True)]


def svg(rooms: Rooms) -> str:
    """The whole drawing."""
    (x, sides), routes = layout(rooms)
    top = max(place.rank for place in x)
    right = max(high for _, high in sides.values()) + MARGIN

    def y(rank: float) -> float:
        return MARGIN + (top - rank) * RANK

    parts = []
    for name in dict.fromkeys(place.panel for place in x if place.panel):
        mine = [place for place in x if place.name and place.panel == name]
        low, high = (side + grow for side, grow in zip(sides.get(name, sides[""]), (-8, 8), strict=True))
        above, below = y(max(place.rank for place in mine)) - 10, y(min(place.rank for place in mine)) + BOX_HEIGHT + 10
        parts.append(box(low, above, high - low, below - above, "none", dashed=True))
        parts.append(text(low + 6, above + 13, f"{name}/", "panel"))
    for names, route in routes.items():
        points = [(x[route[0]], y(route[0].rank) + BOX_HEIGHT)]
        for place in route[1:-1]:
            points += [(x[place], y(place.rank)), (x[place], y(place.rank) + BOX_HEIGHT)]
        parts.append(arrow(" imports ".join(names), [*points, (x[route[-1]], y(route[-1].rank))]))
    for place, centre in x.items():
        if place.name:
            parts += _box(place.name, rooms[place.name][0], centre - BOX_WIDTH / 2, y(place.rank), BOX_WIDTH)
    parts += _box(GROUND, rooms[GROUND][0] + "; every room may import it", MARGIN - 8, y(-1), right - 2 * MARGIN + 16, 200)
    return document(right, y(-1) + BOX_HEIGHT + MARGIN, parts)


def _box(room: str, owns: str, left: float, top: float, width: float, letters: int = LETTERS) -> list[str]:
    lines = wrap(owns.replace("`", ""), letters)
    parts = [box(left, top, width, BOX_HEIGHT, FILL[package(room)])]
    first = top + BOX_HEIGHT / 2 - 6.5 * len(lines) + 4  # the lines together stand in the middle
    parts.append(text(left + width / 2, first, room.replace(".", "/"), "name"))
    return parts + [text(left + width / 2, first + 13 * number, line) for number, line in enumerate(lines, 1)]


def table(rooms: Rooms) -> str:
    """The rooms as Markdown, from the bottom up."""
    lines = ["| room | may import, beside `spec` | owns |", "|---|---|---|"]
    lines += [
        f"| `{room.replace('.', '/')}` | {_allowed(room, allowed, rooms)} | {owns} |" for room, (owns, allowed) in rooms.items()
    ]
    return "\n".join(lines) + "\n"


def _allowed(room: str, allowed: Sequence[str], rooms: Rooms) -> str:
    others = [other for other in rooms if package(other) == package(room) and other != room]
    if others and set(others) <= set(allowed):
        rest = [other for other in allowed if other not in others]
        return ", ".join([f"all other rooms of `{package(room)}`", *(f"`{other.replace('.', '/')}`" for other in rest)])
    return ", ".join(f"`{other.replace('.', '/')}`" for other in allowed) or "-"


def with_table(text: str, rooms: Rooms) -> str:
    """CONTRIBUTING with the current table. ValueError: the lines that mark its place are gone."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{PAGE} has no lines {BEGIN.strip()!r} and {END!r}")
    return f"{before}{BEGIN}{table(rooms)}{END}{after}"


def main() -> None:
    """Writes drawing and table."""
    rooms = read()
    (ROOT / PICTURE).write_text(svg(rooms))
    (ROOT / PAGE).write_text(with_table((ROOT / PAGE).read_text(), rooms))


if __name__ == "__main__":
    main()
