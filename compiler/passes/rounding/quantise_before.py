"""Chooses a quantisation for the sum of a layer in front of a Chain, if the model gives none.

Some quantisers round only what layers read. Between a layer and its activation they round nothing, but the table needs an int8 to
look up. The sum gets the range outside of which the chain's rounded value stays the same, in 255 steps.

Requires: quantisations noted and inherited (`annotate_quantisation`, `inherit_quantisation`).
Ensures: if a Chain's output is quantised, so is the output of a Conv of int8 that only the Chain reads.
Leaves alone: chains without such a range, and tensors with other readers.
"""

from dataclasses import replace

from cnna.compiler.graph.editor import Editor
from cnna.compiler.graph.float_ops import Chain, Conv
from cnna.compiler.graph.ir import Graph, Node, Quant
from cnna.compiler.graph.pointwise import felt


def quantise_before(graph: Graph) -> Graph:
    """Returns the graph with these quantisations added."""
    edit = Editor(graph)
    for node in edit:
        result = edit.tensors[node.output].quant
        if not isinstance(node.op, Chain) or result is None:
            continue
        (name,) = node.inputs
        conv = edit.sole(name, Conv)
        if conv is None or edit.tensors[name].quant is not None or not _is_quantised(edit, conv):
            continue
        if found := felt(node.op, result):
            low, high = min(found[0], 0.0), max(found[1], 0.0)
            scale = (high - low) / 255
            edit.tensors[name] = replace(edit.tensors[name], quant=Quant(scale, round(-128 - low / scale)))
    return edit.finish()


def _is_quantised(edit: Editor, conv: Node[Conv]) -> bool:
    """Whether a layer's input and weights are int8. Others run on the CPU, where nothing is to be rounded."""
    return conv.op.weight_scale is not None and edit.tensors[conv.inputs[0]].quant is not None
