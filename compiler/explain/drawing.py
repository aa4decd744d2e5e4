"""Draws an explained model as SVG: a box for each node, in the colour of its piece, and lines for its tensors.

Colours are CSS classes of the page. A box says all about its node when pointed at, and leads to its row when clicked.
"""

from collections.abc import Sequence
from html import escape

from onnx import ModelProto

from cnna.compiler.explain.explain import Explanation
from cnna.compiler.explain.rows import CONSTANT, Row
from cnna.compiler.explain.text import cost, where, why
from cnna.compiler.report.layout import Edge, Layout, Spot, layered, path
from cnna.spec.manifest import ACCELERATOR

# Sizes of a node's box, of a node folded into another, of an input or output.
BOX, CHIP, END = (164.0, 36.0), (120.0, 18.0), (120.0, 20.0)
LETTERS = {BOX[0]: 23, CHIP[0]: 18}  # that fit into a box of that width
SHADES = 3  # of a side's colour, for its pieces in turn


def drawing(found: Explanation, model: ModelProto) -> str:
    """Draws the whole graph without constants. The model's inputs and outputs are boxes too."""
    return _Drawing(found, model).svg()


class _Drawing:
    """Boxes in order: the model's inputs, its nodes, its outputs."""

    def __init__(self, found: Explanation, model: ModelProto) -> None:
        self.rows = [(number, row) for number, row in enumerate(found.rows) if row.side != CONSTANT]
        weights = {tensor.name for tensor in model.graph.initializer}
        read = {name for node in model.graph.node for name in node.input}
        self.inputs = [value.name for value in model.graph.input if value.name not in weights and value.name in read]
        self.outputs = [value.name for value in model.graph.output]
        self.nodes = [model.graph.node[number] for number, _ in self.rows]

    def edges(self) -> list[Edge]:
        maker = {name: index for index, name in enumerate(self.inputs)}
        maker |= {name: len(self.inputs) + index for index, node in enumerate(self.nodes) for name in node.output if name}
        readers = [list(node.input) for node in self.nodes] + [[name] for name in self.outputs]
        found = [(maker[name], len(self.inputs) + index) for index, names in enumerate(readers) for name in names if name in maker]
        return [(source, target) for source, target in found if source < target]

    def svg(self) -> str:
        sizes = [END] * len(self.inputs) + [CHIP if row.folded else BOX for _, row in self.rows] + [END] * len(self.outputs)
        layout = layered(sizes, self.edges())
        parts = [self._line(edge, points) for edge, points in layout.routes.items()]
        first, last = len(self.inputs), len(self.inputs) + len(self.rows)
        parts += [_end(name, centre) for name, centre in zip(self.inputs, layout.centres[:first], strict=True)]
        parts += [_box(*entry, centre) for entry, centre in zip(self.rows, layout.centres[first:last], strict=True)]
        parts += [_end(name, centre) for name, centre in zip(self.outputs, layout.centres[last:], strict=True)]
        return _svg(layout, parts)

    def _line(self, edge: Edge, points: Sequence[Spot]) -> str:
        """The line of a tensor. It is marked if the tensor goes to or comes from the accelerator."""
        source, target = (self._place(box) for box in edge)
        kind = "line" if source == target else "line cross"
        return f'<path class="{kind}" d="{path(points)}"/>'

    def _place(self, box: int) -> int | None:
        """The piece of the accelerator that a box belongs to; None if it is on the host."""
        number = box - len(self.inputs)
        if not 0 <= number < len(self.rows):
            return None
        row = self.rows[number][1]
        return row.piece if row.side == ACCELERATOR else None


def shade(side: str, piece: int | None) -> str:
    """The class of a node's or piece's colour."""
    return side if piece is None else f"{side} shade{piece // 2 % SHADES}"


def _box(number: int, row: Row, centre: Spot) -> str:
    width, height = CHIP if row.folded else BOX
    left, top = centre[0] - width / 2, centre[1] - height / 2
    about = "\n".join(filter(None, (f"{row.name} ({row.op})", f"{where(row)}, {cost(row)}", why(row))))
    letters = LETTERS[width]
    parts = [f'<rect class="{shade(row.side, row.piece)}" x="{left:.1f}" y="{top:.1f}" width="{width}" height="{height}" rx="4"/>']
    if row.folded:
        parts.append(_text(centre[0], centre[1] + 4, row.op[:letters], "chip"))
    else:
        parts.append(_text(left + 7, top + 15, row.op[:letters], "op"))
        parts.append(_text(left + 7, top + 29, row.name if len(row.name) <= letters else f"…{row.name[1 - letters :]}", "name"))
        if row.piece is not None:
            parts.append(_text(left + width - 6, top + 15, str(row.piece + 1), "piece"))
    return f'<a href="#r{number}"><g id="g{number}"><title>{escape(about)}</title>{"".join(parts)}</g></a>'


def _end(name: str, centre: Spot) -> str:
    width, height = END
    left, top = centre[0] - width / 2, centre[1] - height / 2
    box = f'<rect class="end" x="{left:.1f}" y="{top:.1f}" width="{width}" height="{height}" rx="10"/>'
    shown = name if len(name) <= LETTERS[width] else f"{name[: LETTERS[width] - 1]}…"
    return f"<g><title>{escape(name)}</title>{box}{_text(centre[0], centre[1] + 4, shown, 'chip')}</g>"


def _text(x: float, y: float, words: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{escape(words)}</text>'


def _svg(layout: Layout, parts: Sequence[str]) -> str:
    size = f'width="{layout.width:.0f}" height="{layout.height:.0f}" viewBox="0 0 {layout.width:.0f} {layout.height:.0f}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">\n' + "\n".join(parts) + "\n</svg>"
