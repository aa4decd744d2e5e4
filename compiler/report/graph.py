"""The network's graph for the report's page, as SVG: a box for each layer in its engine's colour, and lines for its tensors.

A layer's box has the number by which `report.js` marks it in all charts. Operators of the CPU, inputs and outputs are boxes too.
"""

from html import escape
from typing import Any

from cnna.compiler.report.charts import ENGINE_COLOURS
from cnna.compiler.report.layout import Spot, layered, path
from cnna.compiler.report.network import ENGINE, LAYER, NAME, OP
from cnna.spec.manifest import CPU

BOX, END = (168.0, 36.0), (120.0, 20.0)  # sizes of a layer's box, and of an input's or output's
LETTERS = {BOX[0]: 23, END[0]: 16}  # that fit into a box of that width
OTHER = "#8fa3b8"  # the colour of what no engine does


def drawing(found: dict[str, Any]) -> str:
    """The graph of `network` as SVG, from the top to the bottom."""
    sizes = [BOX if box[OP] else END for box in found["boxes"]]
    layout = layered(sizes, [(source, target) for source, target in found["edges"]])
    parts = [f'<path class="line" d="{path(points)}"/>' for points in layout.routes.values()]
    parts += [_box(box, size, centre) for box, size, centre in zip(found["boxes"], sizes, layout.centres, strict=True)]
    size = f'width="{layout.width:.0f}" height="{layout.height:.0f}" viewBox="0 0 {layout.width:.0f} {layout.height:.0f}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">\n' + "\n".join(parts) + "\n</svg>"


def _box(box: dict[str, Any], size: Spot, centre: Spot) -> str:
    (width, height), name = size, box[NAME]
    left, top = centre[0] - width / 2, centre[1] - height / 2
    shown = escape(name if len(name) <= LETTERS[width] else f"…{name[1 - LETTERS[width] :]}")
    place = f'x="{left:.1f}" y="{top:.1f}" width="{width}" height="{height}"'
    if not box[OP]:
        text = f'<text class="end" x="{centre[0]:.1f}" y="{centre[1] + 4:.1f}">{shown}</text>'
        return f'<g><title>{escape(name)}</title><rect {place} rx="10"/>{text}</g>'
    engine = box[ENGINE]
    about = f"{name} ({box[OP]}), {'on the CPU' if engine == CPU else f'layer {box[LAYER]}, {engine}'}"
    colour = ENGINE_COLOURS.get(engine, OTHER)
    bar = f'<rect class="engine" x="{left:.1f}" y="{top:.1f}" width="6" height="{height}" fill="{colour}"/>'
    texts = f'<text class="op" x="{left + 12:.1f}" y="{top + 15:.1f}">{escape(box[OP])}</text>'
    texts += f'<text x="{left + 12:.1f}" y="{top + 29:.1f}">{shown}</text>'
    mark = f' data-layer="{box[LAYER]}"' if box[LAYER] else ""
    return f"<g{mark}><title>{escape(about)}</title><rect {place}/>{bar}{texts}</g>"
