"""Chooses a quantisation for the tensor between a Conv and its Add, if the model gives none.

The Add computes y = x + r, where x is the Conv's output. y saturates at y.low and y.high, and r lies within r.low and r.high.
Values of x outside [y.low - r.high, y.high - r.low] therefore cannot change y. The tensor gets this range, in 255 steps.

Requires: quantisations noted and inherited (`annotate_quantisation`, `inherit_quantisation`).
Ensures: if the Add's output and its other operand are quantised, so is the output of a Conv that only the Add reads.
Leaves alone: differences, Adds whose output or both operands have no quantisation, and tensors with other readers.
"""

from dataclasses import replace

from cnna.compiler.graph.editor import Editor
from cnna.compiler.graph.float_ops import Add, Conv
from cnna.compiler.graph.ir import Graph, Quant


def quantise_between(graph: Graph) -> Graph:
    """Returns the graph with these quantisations added."""
    edit = Editor(graph)
    for node in edit:
        if not isinstance(node.op, Add) or node.op.minus or edit.tensors[node.output].quant is None:
            continue
        for mine, other in (node.inputs, node.inputs[::-1]):
            quant = edit.tensors[other].quant
            if edit.tensors[mine].quant is None and quant is not None and edit.sole(mine, Conv):
                (y_low, y_high), (r_low, r_high) = (_range(q) for q in (edit.tensors[node.output].quant, quant))
                low, high = y_low - r_high, y_high - r_low  # 0 lies between them, because every int8 range contains 0
                scale = (high - low) / 255
                edit.tensors[mine] = replace(edit.tensors[mine], quant=Quant(scale, round(-128 - low / scale)))
    return edit.finish()


def _range(quant: Quant | None) -> tuple[float, float]:
    assert quant is not None
    return quant.scale * (-128 - quant.zero), quant.scale * (127 - quant.zero)
