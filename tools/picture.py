"""Draws docs/architecture.svg: every box is a module of the tree, and a box whose file is gone stops the drawing.

.venv/bin/python tools/picture.py [PNG]
"""

import itertools
import sys
from pathlib import Path
from typing import NamedTuple

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "docs" / "architecture.svg"
FILL = {"spec": "#f7efc9", "compiler": "#dbe9f6", "host": "#e3f1df", "sim": "#fdebd3", "hw": "#efe3f3", "": "#f2f2f2"}
WIDTH, HEIGHT = 1.72, 0.62
LABEL_LETTERS = 20  # that fit into a box at the full size


class Box(NamedTuple):
    """A module (path without .py) or, with no folder, something outside; centre, and what it does in a few words."""

    path: str
    x: float
    y: float
    does: str
    width: float = WIDTH

    @property
    def folder(self) -> str:
        return self.path.rpartition("/")[0].partition("/")[0]


BOXES = (
    Box("model.onnx", 0.9, 8.2, "float, or QDQ"),
    Box("compiler/frontend/onnx_import", 2.9, 8.2, "reads, checks"),
    Box("compiler/passes", 4.9, 8.2, "one rewrite a file"),
    Box("compiler/quantise/quantise", 6.9, 8.2, "picks scales"),
    Box("compiler/lower/lower", 8.9, 8.2, "which engine, how"),
    Box("compiler/plan/allocate", 8.9, 7.2, "places, tiles"),
    Box("compiler/plan/schedule", 6.9, 7.2, "orders, adds waits"),
    Box("compiler/plan/emit", 4.9, 7.2, "register program"),
    Box("spec/artifact", 2.9, 7.2, ".cnna, checked"),
    Box("host/model/model", 0.9, 7.2, "floats in and out"),
    Box("host/device/accelerator", 0.9, 6.2, "drives any device"),
    Box("sim/reference/reference", 2.9, 6.2, "layer by layer"),
    Box("sim/emulator/emulator", 4.9, 6.2, "runs the program"),
    Box("sim/rtl/cosim", 6.9, 6.2, "Verilog in Verilator"),
    Box("sim/check", 8.9, 6.2, "equal to the bit"),
    Box("hw/control/regfile", 0.9, 4.6, "AXI4-Lite slave"),
    Box("hw/control/sequencer", 2.9, 4.6, "plays the program"),
    Box("hw/units/tokens", 4.9, 4.6, "engines wait"),
    Box("hw/control/counters", 6.9, 4.6, "cycles, stalls"),
    Box("hw/control/faults", 8.9, 4.6, "stops, keeps cause"),
    Box("DDR", 0.9, 2.3, "1 to 4 AXI4 ports"),
    Box("hw/axi/read_master", 0.9, 3.4, "bursts in"),
    Box("hw/axi/write_master", 0.9, 1.2, "bursts out"),
    Box("hw/weights/weights", 2.9, 3.4, "ahead of use"),
    Box("hw/dma/load", 2.9, 2.3, "tiles in"),
    Box("hw/dma/store", 2.9, 1.2, "tiles out"),
    Box("hw/weights/ring", 4.9, 3.4, "hold, release"),
    Box("hw/memory/feature_memory", 4.9, 1.75, "2 x pix banks, regions"),
    Box("hw/walk/fetch", 6.9, 2.6, "a walk, padded"),
    Box("hw/array/array", 6.9, 3.4, "DSP48E2 cascades"),
    Box("hw/lanes/requant", 8.9, 3.4, "rounds to int8"),
    Box("hw/array/residual", 8.9, 2.6, "adds the other branch"),
    Box("hw/vector/vector", 6.9, 1.75, "pools, depthwise, adds"),
    Box("hw/walk/scatter", 8.9, 1.75, "writes a unit"),
)
ARROWS = (
    "model.onnx>compiler/frontend/onnx_import>compiler/passes>compiler/quantise/quantise>compiler/lower/lower>compiler/plan/allocate>compiler/plan/schedule"
    ">compiler/plan/emit>spec/artifact>host/model/model>host/device/accelerator",
    "DDR>hw/axi/read_master>hw/weights/weights>hw/weights/ring>hw/array/array>hw/lanes/requant>hw/array/residual>hw/walk/scatter",
    "hw/axi/read_master>hw/dma/load>hw/memory/feature_memory>hw/walk/fetch>hw/array/array",
    "hw/memory/feature_memory>hw/vector/vector>hw/walk/scatter",
    "hw/memory/feature_memory>hw/dma/store>hw/axi/write_master>DDR",
    "hw/control/regfile>hw/control/sequencer>hw/units/tokens",
)


def main() -> None:
    """Draws the picture; a PNG beside it where one is named."""
    gone = [box.path for box in BOXES if box.folder and not (ROOT / box.path).is_dir() and not (ROOT / f"{box.path}.py").is_file()]
    if gone:
        sys.exit(f"{Path(__file__).name}: no such module: {', '.join(gone)}")
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "cnna", "font.family": "sans-serif"})
    figure, axes = plt.subplots(figsize=(11, 8.4))
    axes.set(xlim=(-0.1, 10.0), ylim=(0.55, 9.1))
    axes.set_axis_off()
    _frame(axes, "software: compiler/, host/, sim/", 5.8, 8.85)
    _frame(axes, "the accelerator: hw/top, the same Verilog in simulation and on the FPGA", 0.7, 5.25)
    for box in BOXES:
        _draw(axes, box)
    for chain in ARROWS:
        names = chain.split(">")
        for start, end in itertools.pairwise(names):
            _arrow(axes, start, end)
    _arrow(axes, "host/device/accelerator", "hw/control/regfile")
    _path(axes, [(9.76, 1.75), (9.84, 1.75), (9.84, 0.85), (4.9, 0.85), (4.9, 1.42)])
    for name in [str(OUT), *sys.argv[1:]]:
        figure.savefig(name, bbox_inches="tight", metadata={"Date": None} if name.endswith("svg") else None)


def _frame(axes: Axes, title: str, low: float, high: float) -> None:
    axes.add_patch(
        FancyBboxPatch((0.0, low), 9.9, high - low, boxstyle="round,pad=0.02", facecolor="none", edgecolor="#999999", linestyle=":")
    )
    axes.text(9.7, high - 0.04, title, ha="right", va="top", fontsize=8.5, color="#666666", style="italic")


def _draw(axes: Axes, box: Box) -> None:
    corner = (box.x - box.width / 2, box.y - HEIGHT / 2)
    axes.add_patch(
        FancyBboxPatch(
            corner, box.width, HEIGHT, boxstyle="round,pad=0,rounding_size=0.08", facecolor=FILL[box.folder], edgecolor="#555555"
        )
    )
    size = min(8.0, 8.0 * LABEL_LETTERS / len(box.path))
    axes.text(box.x, box.y + 0.1, box.path, ha="center", va="center", fontsize=size, family="monospace", weight="bold")
    axes.text(box.x, box.y - 0.14, box.does, ha="center", va="center", fontsize=7.5, color="#333333")


def _arrow(axes: Axes, start: str, end: str) -> None:
    """From the middle of one box's edge to the other's."""
    by_name = {box.path: box for box in BOXES}
    a, b = by_name[start], by_name[end]
    if abs(a.x - b.x) > 0.1:
        side = 1 if b.x > a.x else -1
        points = ((a.x + side * a.width / 2, a.y), (b.x - side * b.width / 2, b.y))
    else:
        side = 1 if b.y > a.y else -1
        points = ((a.x, a.y + side * HEIGHT / 2), (b.x, b.y - side * HEIGHT / 2))
    axes.annotate("", xy=points[1], xytext=points[0], arrowprops={"arrowstyle": "-|>", "color": "#444444", "lw": 1.1})


def _path(axes: Axes, points: list[tuple[float, float]]) -> None:
    """A bent arrow."""
    xs, ys = zip(*points, strict=True)
    axes.plot(xs, (*ys[:-1], ys[-1] - 0.05), color="#444444", lw=1.1, solid_joinstyle="round")
    axes.annotate("", xy=points[-1], xytext=points[-2], arrowprops={"arrowstyle": "-|>", "color": "#444444", "lw": 1.1})


if __name__ == "__main__":
    main()
