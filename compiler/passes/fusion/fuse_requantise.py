"""Folds a requantised copy (a Relu with a scale of its own) into the convolution before it, in the int8 graph.

The convolution has a second rounding, for the residual add. The fold uses it with nothing to add.

Requires: an int8 graph, residual adds already folded (`fuse_residual`).
Ensures: a copy that is the only reader of a convolution is that convolution's second rounding. Both roundings stay.
Leaves alone: copies of shared tensors, and of convolutions that have a residual add.
"""

from dataclasses import replace

from cnna.compiler.graph.editor import Editor
from cnna.compiler.graph.ir import Combine, Conv, Graph


def fuse_requantise(graph: Graph) -> Graph:
    """Returns the graph with these copies folded. All remaining tensors keep their int8 values."""
    edit = Editor(graph)
    for node in edit:
        if not isinstance(node.op, Combine) or len(node.inputs) != 1:
            continue
        conv = edit.sole(node.inputs[0], Conv)
        if conv is not None and conv.op.residual is None:
            edit.remove(conv)
            edit.put(conv.name, replace(conv.op, residual=node.op), conv.inputs, node.output)
    return edit.finish()
