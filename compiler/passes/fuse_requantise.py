"""Folds a requantised copy (a Relu with a scale of its own) into the convolution before it: int8 graph to int8 graph.

The convolution's second rounding is the residual add's, here with nothing to add.
"""

from dataclasses import replace

from cnna.compiler.graph.editor import Editor
from cnna.compiler.graph.ir import Combine, Conv, Graph


def fuse_requantise(graph: Graph) -> Graph:
    """Where nothing else uses the convolution, and it has no residual add already. Both roundings stay."""
    edit = Editor(graph)
    for node in edit:
        if not isinstance(node.op, Combine) or len(node.inputs) != 1:
            continue
        conv = edit.sole(node.inputs[0], Conv)
        if conv is not None and conv.op.residual is None:
            edit.remove(conv)
            edit.put(conv.name, replace(conv.op, residual=node.op), conv.inputs, node.output)
    return edit.finish()
