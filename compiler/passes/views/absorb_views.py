"""Lets a 1x1 Conv of a flattened map read the map itself, with a kernel of the map's size: Flatten and Gemm, in any layout.

Requires: typed views and convolutions, the views directly in front of the Conv (`sink_views`).
Ensures: such a Conv reads the map, with its weights in the order in which the map is stored.
Leaves alone: views of graph inputs and of ONNX operators, which belong to the CPU's head; grouped convolutions.
"""

from dataclasses import replace

import numpy as np

from cnna.compiler.graph.editor import Editor
from cnna.compiler.graph.float_ops import VIEWS, Conv, Onnx
from cnna.compiler.graph.ir import Graph, Node, Window
from cnna.compiler.passes.views.sink_views import elements_behind


def absorb_views(graph: Graph) -> Graph:
    """Returns the graph in which these convolutions read their maps."""
    edit = Editor(graph)
    for node in edit:
        if isinstance(node.op, Conv) and node.op.window == Window() and node.op.groups == 1:
            _absorb(edit, node)
    return edit.finish()


def _absorb(edit: Editor, node: Node) -> None:
    views: list[Node] = []
    source = node.inputs[0]
    while (view := edit.producer(source, VIEWS)) is not None:
        views.append(view)
        source = view.inputs[0]
    maker, shape = edit.producer(source), edit.shape(source)
    vector = edit.shape(node.inputs[0])[2:] == (1, 1)
    if not views or maker is None or isinstance(maker.op, Onnx) or len(shape) != 4 or not vector:
        return
    order = elements_behind(shape, [view.op for view in reversed(views)])
    weights = edit.constants[node.op.weights]
    moved = np.empty_like(weights)
    moved[:, order.reshape(-1)] = weights
    name = edit.constant(node.op.weights, np.ascontiguousarray(moved.reshape(len(weights), *shape[1:])))
    edit.put(node.name, replace(node.op, window=Window(kernel=(shape[2], shape[3])), weights=name), (source,), node.output)
