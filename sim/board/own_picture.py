"""Draws the accelerator's ports and what each is connected to, as SVG: the same bytes on every machine.

A row is a port or a bus. Its chain of cells goes outwards, from the accelerator to the processing system or to memory.
"""

from collections.abc import Iterator
from html import escape
from typing import NamedTuple

from cnna.hw.axi.buses import OUTPUTS, SINGLE
from cnna.sim.board.blocks import PS, STREAM, Design
from cnna.sim.board.cells import ACCELERATOR

_BOX, _GAP, _ROW, _CORE, _TOP = 138, 118, 42, 200, 60  # sizes, in pixels
_ONWARD = ("BUFGCE_I", "clk_in1", "ext_reset_in")  # ports of cells that pass on a clock or a reset
_STYLE = (
    "text{font-family:sans-serif;font-size:11px;fill:#222}.name{font-family:monospace;font-weight:bold;font-size:12px}"
    ".pin{font-family:monospace;font-size:10px;fill:#555}.middle{text-anchor:middle}.end{text-anchor:end}"
)


class Step(NamedTuple):
    """From a cell's port to a port of the cell that is further out."""

    near: str
    cell: str
    port: str


def chains(design: Design) -> Iterator[tuple[str, bool, list[Step]]]:
    """(port or bus of the accelerator, whether it is drawn on the right, the steps outwards) for each port and bus."""
    for port in SINGLE:
        yield port, port in OUTPUTS, _chain(design, port)
    for interface in design.cell(ACCELERATOR).interfaces:
        yield interface.name, interface.master, _chain(design, interface.name)


def _chain(design: Design, port: str) -> list[Step]:
    steps: list[Step] = []
    cell, near = ACCELERATOR, port
    while cell != PS:
        links = [*design.wires, *design.buses]
        found = [(c, p) for c, p, there, far in links if (there, far) == (cell, near)]
        found += [(c, p) for there, far, c, p in links if (there, far) == (cell, near)]
        if not found:
            break
        outer, far = found[0]
        steps.append(Step(near, outer, far))
        cell, near = outer, _onward(design, outer, far)
    return steps


def _onward(design: Design, cell: str, port: str) -> str:
    """The port by which a cell is fed, or passes on: a clock's or a reset's input, or the first bus on the other side."""
    if any((cell, pin) == (c, p) for _, _, c, p in design.wires for pin in _ONWARD):
        return next(p for _, _, c, p in design.wires if c == cell and p in _ONWARD)
    own = [interface for interface in design.cell(cell).interfaces if interface.name == port]
    if own and own[0].vlnv == STREAM:
        return ""
    return next((i.name for i in design.cell(cell).interfaces if own and i.master != own[0].master), "")


def picture(design: Design) -> str:
    """The file's text."""
    rows = list(chains(design))
    left, right = [row for row in rows if not row[1]], [row for row in rows if row[1]]
    deep = [max((len(steps) for _, _, steps in side), default=0) for side in (left, right)]
    core = 20 + deep[0] * (_BOX + _GAP)
    width, height = core + _CORE + deep[1] * (_BOX + _GAP) + 20, _TOP + max(len(left), len(right)) * _ROW + 20
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">',
        f"<style>{_STYLE}</style>",
        '<defs><marker id="tip" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto">'
        '<path d="M0,0 L8,4 L0,8 z" fill="#444"/></marker></defs>',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        f'<rect x="{core}" y="20" width="{_CORE}" height="{height - 40}" rx="5" fill="#efe3f3" stroke="#777"/>',
        _text(core + _CORE / 2, 40, f"{ACCELERATOR} ({design.config.name})", "name middle"),
    ]
    for side, outwards, edge in ((left, -1, core), (right, 1, core + _CORE)):
        for row, (port, _, steps) in enumerate(side):
            parts += _row(port, steps, edge, outwards, _TOP + row * _ROW + _ROW / 2)
    return "\n".join([*parts, "</svg>", ""])


def _row(port: str, steps: list[Step], edge: float, outwards: int, y: float) -> Iterator[str]:
    """A port's name within the accelerator, then lines and boxes outwards. Arrows go as the bus's master or the driver does."""
    yield _text(edge - outwards * 8, y + 4, port, "name end" if outwards > 0 else "name")
    for step in steps:
        far = edge + outwards * _GAP
        start, end = (edge, far) if outwards > 0 else (far, edge)
        yield f'<path d="M{start},{y} L{end},{y}" stroke="#444" fill="none" marker-end="url(#tip)"/>'
        yield _text(far - outwards * 4, y - 5, step.port, "pin end" if outwards > 0 else "pin")
        box = far if outwards > 0 else far - _BOX
        yield f'<rect x="{box}" y="{y - 13}" width="{_BOX}" height="26" rx="5" fill="#e3f1df" stroke="#777"/>'
        yield _text(box + _BOX / 2, y + 4, step.cell, "middle")
        edge = far + outwards * _BOX


def _text(x: float, y: float, words: str, kind: str) -> str:
    return f'<text x="{x}" y="{y}" class="{kind}">{escape(words)}</text>'
