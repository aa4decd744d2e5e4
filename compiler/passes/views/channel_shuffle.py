"""Views that only put channels in another order (channel shuffles) become a 1x1 Conv with weights 0 and 1.

Requires: typed views, each chain ending in the tensor that a layer reads (`sink_views`).
Ensures: a layer never reads a reordered map through views: a Conv with weight scale 1, exact in int8, selects its channels.
Leaves alone: views that also move pixels, views of graph inputs and of ONNX operators (the CPU's), and those that nobody reads.
"""

import numpy as np

from cnna.compiler.graph.editor import Editor
from cnna.compiler.graph.float_ops import VIEWS, Conv, Onnx
from cnna.compiler.graph.ir import Graph, Node, Window
from cnna.compiler.passes.fusion.fuse_pad import unit_scale
from cnna.compiler.passes.views.sink_views import elements_behind


def channel_shuffle(graph: Graph) -> Graph:
    """Returns the graph with channel shuffles as convolutions."""
    edit = Editor(graph)
    for node in edit:
        if isinstance(node.op, VIEWS) and len(edit.shape(node.output)) == 4:
            _convert(edit, node)
    return edit.finish()


def _convert(edit: Editor, node: Node) -> None:
    views, source = [node], node.inputs[0]
    while (view := edit.producer(source, VIEWS)) is not None:
        views.append(view)
        source = view.inputs[0]
    maker, shape = edit.producer(source), edit.shape(source)
    if maker is None or isinstance(maker.op, Onnx) or shape != edit.shape(node.output) or not edit.consumers(node.output):
        return
    pixels = np.arange(shape[2] * shape[3]).reshape(shape[2:])
    order = elements_behind(shape, [view.op for view in reversed(views)])
    channels = order[0, :, 0, 0] // pixels.size
    if (order[0] != channels[:, None, None] * pixels.size + pixels).any():
        return
    weights = np.zeros((shape[1], shape[1], 1, 1), np.float32)
    weights[np.arange(shape[1]), channels] = 1
    names = edit.constant(f"{node.name}:select", weights), edit.constant(f"{node.name}:zeros", np.zeros(shape[1], np.float32))
    edit.put(node.name, Conv(Window(), 1, *names, unit_scale(edit, node, shape[1])), (source,), node.output)
