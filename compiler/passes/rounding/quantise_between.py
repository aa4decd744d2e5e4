"""Chooses a quantisation for the tensor between a Conv and its Add, where a model has none.

The add saturates at the ends of y = [low, high]; with the other operand within r = [low, high], what the convolution gives
beyond [y.low - r.high, y.high - r.low] cannot change y. The tensor gets that range, in 255 steps.

Requires: quantisations noted and inherited (`annotate_quantisation`, `inherit_quantisation`).
Ensures: where the Add's output and its other operand are quantised, so is what a Conv makes for the Add alone.
Leaves alone: differences, Adds whose output or both operands have no quantisation, and tensors that others read.
"""

from dataclasses import replace

from cnna.compiler.graph.editor import Editor
from cnna.compiler.graph.float_ops import Add, Conv
from cnna.compiler.graph.ir import Graph, Quant


def quantise_between(graph: Graph) -> Graph:
    """Returns the graph with those quantisations."""
    edit = Editor(graph)
    for node in edit:
        if not isinstance(node.op, Add) or node.op.minus or edit.tensors[node.output].quant is None:
            continue
        for mine, other in (node.inputs, node.inputs[::-1]):
            quant = edit.tensors[other].quant
            if edit.tensors[mine].quant is None and quant is not None and edit.sole(mine, Conv):
                (y_low, y_high), (r_low, r_high) = (_range(q) for q in (edit.tensors[node.output].quant, quant))
                low, high = y_low - r_high, y_high - r_low  # 0 is between them, as it is in every range of int8
                scale = (high - low) / 255
                edit.tensors[mine] = replace(edit.tensors[mine], quant=Quant(scale, round(-128 - low / scale)))
    return edit.finish()


def _range(quant: Quant | None) -> tuple[float, float]:
    assert quant is not None
    return quant.scale * (-128 - quant.zero), quant.scale * (127 - quant.zero)
