"""Gives a tensor without Q and DQ the quantisation of its neighbour, if the results stay the same.

Requires: quantisations noted on tensors (`annotate_quantisation`), limits folded (`fuse_clip`).
Ensures: the output of an operator that only selects or orders its input's values has the input's quantisation. So has the output
of a Pad whose value, or a Clip whose limits, this quantisation holds exactly. The input of an operator that commutes with rounding
(MaxPool, Maximum, Minimum, Concat, Pad, Clip) has the quantisation of the output, if no other operator reads it.
Leaves alone: tensors with a quantisation, inputs with other readers, Concats of unequal quantisations, views that only the CPU
reads.
"""

from dataclasses import replace
from math import inf

import numpy as np

from cnna.compiler.graph.editor import Editor
from cnna.compiler.graph.float_ops import MOVES, VIEWS, Clip, Conv, Maximum, Minimum, Onnx, Pad
from cnna.compiler.graph.ir import Graph, Node
from cnna.spec.samples import pack


def inherit_quantisation(graph: Graph) -> Graph:
    """Returns the graph with these quantisations added."""
    edit = Editor(graph)
    for node in edit:
        quants = {edit.tensors[name].quant for name in node.inputs if name in edit.tensors}
        if _keeps_values(edit, node) and edit.tensors[node.output].quant is None and len(quants) == 1:
            edit.tensors[node.output] = replace(edit.tensors[node.output], quant=quants.pop())
    for node in reversed(list(edit)):
        if isinstance(node.op, (*MOVES, Clip, Maximum, Minimum, Pad)):
            for name in node.inputs:
                if edit.tensors[name].quant is None and edit.uses(name) == node.inputs.count(name) and edit.producer(name):
                    edit.tensors[name] = replace(edit.tensors[name], quant=edit.tensors[node.output].quant)
    return edit.finish()


def _keeps_values(edit: Editor, node: Node) -> bool:
    """Whether every element of the output is an element of an input, or a value that the inputs' quantisation holds exactly."""
    op = node.op
    if isinstance(op, Clip):
        return all(bound in (-inf, 0.0, inf) or _is_held(edit, node, bound) for bound in (op.low, op.high))
    if isinstance(op, Conv):
        weights = edit.constants[op.weights]
        chooses = not edit.constants[op.bias].any() and (op.low, op.high) == (-inf, inf) and ((weights == 0) | (weights == 1)).all()
        return bool(chooses and (weights.sum(axis=(1, 2, 3)) <= 1).all())
    if isinstance(op, Pad):
        return _is_held(edit, node, op.value)
    if isinstance(op, VIEWS):
        return node.output not in edit.outputs and _read_by_a_layer(edit, node.output)
    return isinstance(op, MOVES)


def _is_held(edit: Editor, node: Node, number: float) -> bool:
    """Whether the quantisation of a node's input holds a number exactly."""
    quant = edit.tensors[node.inputs[0]].quant
    if quant is None:
        return False
    value = np.array(number, np.float32)
    return bool(pack.dequantise(pack.quantise(value, quant.scale, quant.zero), quant.scale, quant.zero) == value)


def _read_by_a_layer(edit: Editor, tensor: str) -> bool:
    """Whether a typed operator reads the tensor, at once or behind further views. The CPU's own need no rounding of theirs."""
    readers = edit.consumers(tensor)
    behind = [node.output for node in readers if isinstance(node.op, VIEWS)]
    own = any(not isinstance(node.op, (Onnx, *VIEWS)) for node in readers)
    return own or any(_read_by_a_layer(edit, name) for name in behind)
