"""Turns a Concat of rows or columns into a Join.

Requires: views moved out of the way (`sink_views`), which has also typed each Concat of channels that had another order of axes.
Ensures: each Concat of rows or columns of real maps with one sample is a Join.
Leaves alone: Concats of constants, of views or of samples; maps of other than four axes or of unknown size.
"""

from cnna.compiler.graph.editor import Editor
from cnna.compiler.graph.float_ops import VIEWS, Join, Onnx
from cnna.compiler.graph.ir import Graph, Node


def canonical_join(graph: Graph) -> Graph:
    """Returns the graph with typed Joins."""
    edit = Editor(graph)
    for node in edit:
        axis = _axis(edit, node)
        if axis is not None:
            edit.put(node.name, Join(axis), node.inputs, node.output)
    return edit.finish()


def _axis(edit: Editor, node: Node) -> int | None:
    """The axis of rows (2) or columns (3) along which a node joins maps; None for other nodes."""
    if not isinstance(node.op, Onnx) or node.op.kind != "Concat" or node.op.domain or not edit.is_real(node):
        return None
    if any(name in edit.constants or edit.producer(name, VIEWS) for name in node.inputs):
        return None
    shapes = [edit.shape(name) for name in (*node.inputs, node.output)]
    if any(len(shape) != 4 or shape[0] != 1 or min(shape) < 1 for shape in shapes):
        return None
    axis = int(node.op.attributes["axis"]) % 4
    return axis if axis in (2, 3) else None
