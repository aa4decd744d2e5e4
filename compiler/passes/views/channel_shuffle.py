"""Turns views that only reorder channels (channel shuffles) into a 1x1 Conv with weights 0 and 1.

Requires: typed views, each chain ending in the tensor that a layer reads (`sink_views`).
Ensures: no layer reads a map with reordered channels through views. A Conv with weight scale 1, exact in int8, selects its
channels.
Leaves alone: views that also move pixels, views of graph inputs and of ONNX operators (which the CPU runs), and views without a
reader.
"""

import numpy as np

from cnna.compiler.graph.editor import Editor
from cnna.compiler.graph.float_ops import Conv
from cnna.compiler.graph.ir import Graph, Node, Window
from cnna.compiler.passes.fusion.fuse_pad import unit_scale
from cnna.compiler.passes.views.sink_views import moved_map


def channel_shuffle(graph: Graph) -> Graph:
    """Returns the graph with channel shuffles as convolutions."""
    edit = Editor(graph)
    for node in edit:
        if moved := moved_map(edit, node):
            _convert(edit, node, *moved)
    return edit.finish()


def _convert(edit: Editor, node: Node, source: str, order: np.ndarray) -> None:
    shape = edit.shape(source)
    if shape != edit.shape(node.output):
        return
    pixels = np.arange(shape[2] * shape[3]).reshape(shape[2:])
    channels = order[0, :, 0, 0] // pixels.size
    if (order[0] != channels[:, None, None] * pixels.size + pixels).any():
        return
    weights = np.zeros((shape[1], shape[1], 1, 1), np.float32)
    weights[np.arange(shape[1]), channels] = 1
    names = edit.constant(f"{node.name}:select", weights), edit.constant(f"{node.name}:zeros", np.zeros(shape[1], np.float32))
    edit.put(node.name, Conv(Window(), 1, *names, unit_scale(edit, node, shape[1])), (source,), node.output)
