"""Gives tensors that a model leaves without Q and DQ the quantisation of their neighbour, where the answer stays the same."""

from dataclasses import replace
from math import inf

from cnna.compiler.editor import Editor
from cnna.compiler.float_ops import Clip, Concat, MaxPool
from cnna.compiler.ir import Graph


def inherit_quantisation(graph: Graph) -> Graph:
    """Down through operators that only choose among int8 values; up through those that commute with rounding."""
    edit = Editor(graph)
    for node in edit:
        quants = {edit.tensors[name].quant for name in node.inputs if name in edit.tensors}
        exact = isinstance(node.op, MaxPool | Concat) or (
            isinstance(node.op, Clip) and {node.op.low, node.op.high} <= {-inf, 0.0, inf}
        )
        if exact and edit.tensors[node.output].quant is None and len(quants) == 1:
            edit.tensors[node.output] = replace(edit.tensors[node.output], quant=quants.pop())
    for node in reversed(list(edit)):
        if isinstance(node.op, MaxPool | Concat | Clip):
            for name in node.inputs:
                if edit.tensors[name].quant is None and edit.uses(name) == node.inputs.count(name) and edit.producer(name):
                    edit.tensors[name] = replace(edit.tensors[name], quant=edit.tensors[node.output].quant)
    return edit.finish()
