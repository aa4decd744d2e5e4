"""Turns a Split into one Slice for each of its outputs.

Requires: folded constants and the shapes that follow from them (`fold_constants`).
Ensures: no Split along an axis of known size is left. Every Slice names its axis.
Leaves alone: Splits whose outputs have unknown shapes.
"""

import numpy as np

from cnna.compiler.graph.editor import Editor, outputs_of
from cnna.compiler.graph.float_ops import Onnx
from cnna.compiler.graph.ir import Graph, Node


def split_slices(graph: Graph) -> Graph:
    """Returns the graph with those Slices."""
    edit = Editor(graph)
    for node in edit:
        if isinstance(node.op, Onnx) and node.op.kind == "Split" and not node.op.domain and node.inputs[0] not in edit.constants:
            _convert(edit, node)
    return edit.finish()


def _convert(edit: Editor, node: Node) -> None:
    before = edit.shape(node.inputs[0])
    after = [edit.shape(name) for name in outputs_of(node) if name]
    if len(after) < len(outputs_of(node)) or any(len(shape) != len(before) or min(shape, default=0) < 1 for shape in after):
        return
    axis = int(node.op.attributes.get("axis", 0)) % len(before)
    starts = np.cumsum([0, *(shape[axis] for shape in after)])
    if starts[-1] != before[axis]:
        return
    for number, name in enumerate(outputs_of(node)):
        if not edit.uses(name):
            continue
        places = {"starts": starts[number], "ends": starts[number + 1], "axes": axis}
        given = [edit.constant(f"{name}:{key}", np.array([value], np.int64)) for key, value in places.items()]
        edit.put(f"{node.name}:{number}" if number else node.name, Onnx("Slice"), (node.inputs[0], *given), name)
    if not edit.uses(node.output):
        edit.remove(node)
