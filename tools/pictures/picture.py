"""Draws docs/architecture.svg. Every box is a module of the tree; if a box's file is gone, the drawing stops.

.venv/bin/python tools/pictures/picture.py
"""

import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from drawing import FILL, arrow, box, document, text

ROOT = Path(__file__).resolve().parent.parent.parent
OUT = ROOT / "docs" / "architecture.svg"
WIDTH, HEIGHT, COLUMN, ROW, MARGIN = 168, 62, 202, 92, 26  # pixels: a box; from one to the next


HARDWARE = "the accelerator, connected by hw/top.py; the same Verilog in simulation and on an FPGA"


class Box(NamedTuple):
    """A module (path without .py) or, with no folder, something outside; column and row of its centre; and what it does."""

    path: str
    column: float
    row: float
    does: str

    @property
    def room(self) -> str:
        return self.path.rpartition("/")[0]

    @property
    def x(self) -> float:
        return MARGIN + WIDTH / 2 + self.column * COLUMN

    @property
    def y(self) -> float:
        return MARGIN + 22 + HEIGHT / 2 + self.row * ROW


BOXES = (
    Box("model.onnx", 0, 0, "float, or quantised"),
    Box("compiler/frontend/onnx_import", 1, 0, "reads and checks it"),
    Box("compiler/passes/pipeline", 2, 0, "rewrites, one a file"),
    Box("compiler/quantise/quantise", 3, 0, "chooses scales"),
    Box("compiler/lower/lower", 4, 0, "which engine, and how"),
    Box("compiler/plan/allocate", 4, 1, "places and tiles"),
    Box("compiler/plan/schedule", 3, 1, "commands and waits"),
    Box("compiler/plan/emit", 2, 1, "the register program"),
    Box("spec/artifact", 1, 1, "the .cnna file, checked"),
    Box("host/model/model", 0, 1, "floats in, floats out"),
    Box("host/device/accelerator", 0, 2, "drives any device"),
    Box("sim/reference/reference", 1, 2, "layer by layer"),
    Box("sim/emulator/emulator", 2, 2, "the program, no clock"),
    Box("sim/rtl/cosim", 3, 2, "Verilog in Verilator"),
    Box("sim/check", 4, 2, "all equal to the bit"),
    Box("hw/control/regfile", 0, 3.5, "AXI4-Lite registers"),
    Box("hw/control/sequencer", 1, 3.5, "plays the program"),
    Box("hw/units/waits", 2, 3.5, "engines wait by counts"),
    Box("hw/control/counters", 3, 3.5, "clocks and stalls"),
    Box("hw/control/faults", 4, 3.5, "stops, keeps the cause"),
    Box("hw/axi/read_master", 0, 4.5, "bursts in"),
    Box("hw/weights/weights", 1, 4.5, "weights, ahead of use"),
    Box("hw/weights/ring", 2, 4.5, "holds and frees them"),
    Box("hw/array/array", 3, 4.5, "DSP48E2 cascades"),
    Box("hw/lanes/requant", 4, 4.5, "rounds sums to int8"),
    Box("DDR", 0, 5.5, "1 to 4 AXI4 ports"),
    Box("hw/dma/load", 1, 5.5, "maps in"),
    Box("hw/memory/feature_memory", 2, 6, "2 x pix banks a region"),
    Box("hw/walk/fetch", 3, 5.5, "reads pixels, pads"),
    Box("hw/array/residual", 4, 5.5, "adds the other branch"),
    Box("hw/axi/write_master", 0, 6.5, "bursts out"),
    Box("hw/dma/store", 1, 6.5, "maps out"),
    Box("hw/vector/vector", 3, 6.5, "pools, depthwise, adds"),
    Box("hw/walk/scatter", 4, 6.5, "writes, counts units"),
)
ARROWS = (
    "model.onnx>compiler/frontend/onnx_import>compiler/passes/pipeline>compiler/quantise/quantise>compiler/lower/lower",
    "compiler/lower/lower>compiler/plan/allocate>compiler/plan/schedule>compiler/plan/emit>spec/artifact>host/model/model",
    "host/model/model>host/device/accelerator>hw/control/regfile>hw/control/sequencer>hw/units/waits",
    "DDR>hw/axi/read_master>hw/weights/weights>hw/weights/ring>hw/array/array>hw/lanes/requant>hw/array/residual>hw/walk/scatter",
    "hw/axi/read_master>hw/dma/load>hw/memory/feature_memory>hw/walk/fetch>hw/array/array",
    "hw/memory/feature_memory>hw/vector/vector>hw/walk/scatter",
    "hw/memory/feature_memory>hw/dma/store>hw/axi/write_master>DDR",
)


def picture() -> str:
    """The whole drawing."""
    places = {one.path: one for one in BOXES}
    width = 2 * MARGIN + 4 * COLUMN + WIDTH
    last = max(one.y for one in BOXES) + HEIGHT / 2
    parts = [
        *_frame("software: the way of a model", [one for one in BOXES if one.row < 3], width),
        *_frame(HARDWARE, [one for one in BOXES if one.row > 3], width, 24, 150),
    ]
    for chain in ARROWS:
        parts += [_joined(places[start], places[end]) for start, end in pairwise(chain.split(">"))]
    scatter, memory = places["hw/walk/scatter"], places["hw/memory/feature_memory"]
    back = [(scatter.x, last), (scatter.x, last + 14), (memory.x, last + 14), (memory.x, memory.y + HEIGHT / 2)]
    parts.append(arrow("scatter writes feature memory", back, curved=False))
    parts += [part for one in BOXES for part in _drawn(one)]
    return document(width, last + 24 + 14, parts)


def _frame(title: str, boxes: list[Box], width: float, below: float = 12, left: float = 0) -> Iterator[str]:
    top, low = min(one.y for one in boxes) - HEIGHT / 2 - 26, max(one.y for one in boxes) + HEIGHT / 2 + below
    yield box(MARGIN / 2, top, width - MARGIN, low - top, "none", dashed=True)
    yield text(MARGIN / 2 + 8 + left, top + 16, title, "panel")


def _drawn(one: Box) -> Iterator[str]:
    yield box(one.x - WIDTH / 2, one.y - HEIGHT / 2, WIDTH, HEIGHT, FILL[one.room.partition("/")[0]])
    lines = ([(f"{one.room}/", "room")] if one.room else []) + [(one.path.rpartition("/")[2], "name"), (one.does, "")]
    first = one.y - 8 * len(lines) + 12
    yield from (text(one.x, first + 16 * number, words, kind) for number, (words, kind) in enumerate(lines))


def _joined(start: Box, end: Box) -> str:
    """An arrow from the middle of one box's edge to the middle of another's."""
    if start.column != end.column:
        side = WIDTH / 2 if end.column > start.column else -WIDTH / 2
        points = [(start.x + side, start.y), (end.x - side, end.y)]
    else:
        side = HEIGHT / 2 if end.row > start.row else -HEIGHT / 2
        points = [(start.x, start.y + side), (end.x, end.y - side)]
    return arrow(f"{start.path} to {end.path}", points, curved=False)


def main() -> None:
    """Writes the picture."""
    gone = [one.path for one in BOXES if one.room and not (ROOT / f"{one.path}.py").is_file()]
    if gone:
        sys.exit(f"{Path(__file__).name}: no such module: {', '.join(gone)}")
    OUT.write_text(picture())


if __name__ == "__main__":
    main()
