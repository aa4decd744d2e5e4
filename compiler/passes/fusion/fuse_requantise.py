"""Folds a requantised copy (a Relu with a scale of its own) into the convolution before it, in the int8 graph.

The convolution's second rounding is that of the residual add, here with nothing to add.

Requires: an int8 graph, residual adds already folded (`fuse_residual`).
Ensures: a copy of a convolution that nothing else reads is the convolution's second rounding; both roundings stay.
Leaves alone: copies of shared tensors, and of convolutions that have a residual add.
"""

from dataclasses import replace

from cnna.compiler.graph.editor import Editor
from cnna.compiler.graph.ir import Combine, Conv, Graph


def fuse_requantise(graph: Graph) -> Graph:
    """Returns the graph with those copies folded; every value of what remains is the same int8."""
    edit = Editor(graph)
    for node in edit:
        if not isinstance(node.op, Combine) or len(node.inputs) != 1:
            continue
        conv = edit.sole(node.inputs[0], Conv)
        if conv is not None and conv.op.residual is None:
            edit.remove(conv)
            edit.put(conv.name, replace(conv.op, residual=node.op), conv.inputs, node.output)
    return edit.finish()
