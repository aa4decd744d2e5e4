"""Turns DepthToSpace into interleaved channels, and SpaceToDepth into concatenated pixels.

Requires: typed Channels and Pixels (`canonical_pixels`) and typed views (`canonical_views`).
Ensures: no DepthToSpace or SpaceToDepth of a map of known size is left. A Channels that picks exactly one input of a Concat is
replaced by that input.
Leaves alone: maps of unknown size, and maps of integers.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cnna.compiler.graph.editor import Editor
from cnna.compiler.graph.float_ops import Channels, Concat, Interleave, Onnx, Pixels
from cnna.compiler.graph.ir import Graph, Node
from cnna.compiler.passes.canonical.canonical_pixels import put_channels


def canonical_blocks(graph: Graph) -> Graph:
    """Returns the graph with these operators replaced."""
    edit = Editor(graph)
    for node in edit:
        if isinstance(node.op, Onnx) and node.op.kind in ("DepthToSpace", "SpaceToDepth") and not node.op.domain:
            _convert(edit, node)
    for node in edit:
        if isinstance(node.op, Channels):
            _from_concat(edit, node)
    return edit.finish()


def _convert(edit: Editor, node: Node) -> None:
    step = int(node.op.attributes["blocksize"])
    before, after = edit.shape(node.inputs[0]), edit.shape(node.output)
    known = len(before) == len(after) == 4 and min(*before, *after) > 0
    if step < 2 or not known or before[0] != 1 or not edit.is_real(node):
        return
    if node.op.kind == "SpaceToDepth":
        to_depth(edit, node, node.inputs[0], step)
        return
    channels, parts = after[1], np.arange(step * step)[:, None]
    dcr = node.op.attributes.get("mode", "DCR") == "DCR"
    to_space(
        edit, node, node.inputs[0], step, parts * channels + np.arange(channels) if dcr else np.arange(channels) * step**2 + parts
    )


def to_space(edit: Editor, node: Node, x: str, step: int, picked: NDArray[np.int64]) -> None:
    """Replaces `node` by an Interleave of channels of `x`. picked [step * step, channels]: the channels that each phase shows."""
    shape, made = edit.shape(x), []
    for number, index in enumerate(picked):
        output = edit.insert(f"{node.name}:{number}", node.op, (x,), f"{node.output}:{number}", (1, len(index), *shape[2:]))
        put_channels(edit, edit.nodes[output], index)
        made.append(output)
    edit.put(node.name, Interleave(step), tuple(made), node.output)


def to_depth(edit: Editor, node: Node, x: str, step: int) -> None:
    """Replaces `node` by a Concat of `step * step` maps: one for each place in a block of `step` by `step` pixels of `x`."""
    (_, channels, height, width), made = edit.shape(x), []
    for place in range(step * step):
        op = Pixels(tuple(range(place // step, height, step)), tuple(range(place % step, width, step)))
        shape = (1, channels, len(op.rows), len(op.columns))
        made.append(edit.insert(f"{node.name}:{place}", op, (x,), f"{node.output}:{place}", shape))
    edit.put(node.name, Concat(), tuple(made), node.output)


def _from_concat(edit: Editor, node: Node) -> None:
    joined = edit.producer(node.inputs[0])
    if joined is None or node.output in edit.outputs:
        return
    onnx = isinstance(joined.op, Onnx) and joined.op.kind == "Concat" and not joined.op.domain
    if not isinstance(joined.op, Concat) and not (onnx and joined.op.attributes.get("axis") in (1, -3)):
        return
    first = 0
    for name in joined.inputs:
        if first == node.op.first and edit.shape(name) == edit.shape(node.output) and name not in edit.constants:
            edit.nodes[node.output] = replace(node, inputs=(name,))
            edit.bypass(edit.nodes[node.output])
            return
        first += edit.shape(name)[1]
