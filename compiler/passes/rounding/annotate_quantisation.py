"""Notes on each tensor how it is quantised, and removes the Requantise behind it.

Requires: Q and DQ joined to Requantise (`pair_quantisation`).
Ensures: no tensor has two equal Requantises, as views that cancel out may leave them. A tensor whose only reader is a Requantise
carries that quantisation, and the Requantise is gone.
Leaves alone: a Requantise whose input has a quantisation of its own (it is a copy) or other readers (they need floats). It also
leaves one behind a node's second or later output, because that rounding would be lost when the node is written as ONNX.
"""

from dataclasses import replace

from cnna.compiler.graph.editor import Editor
from cnna.compiler.graph.float_ops import Requantise
from cnna.compiler.graph.ir import Graph, Node, Quant, Tensor


def annotate_quantisation(graph: Graph) -> Graph:
    """Returns the graph with quantisations on its tensors. Every Requantise that stays has one on its output."""
    edit, found = Editor(graph), dict[tuple[str, Quant], str]()
    for node in edit:
        if isinstance(node.op, Requantise) and node.output not in edit.outputs:
            one = found.setdefault((node.inputs[0], node.op.quant), node.output)
            if one != node.output:
                edit.remove(node)
                edit.redirect(node.output, one)
    for node in edit:
        if isinstance(node.op, Requantise):
            _annotate(edit, node, graph.inputs)
    return edit.finish()


def _annotate(edit: Editor, node: Node, inputs: tuple[str, ...]) -> None:
    source = node.inputs[0]
    tensor = edit.tensors[source]
    first = source in edit.nodes or source in inputs
    if tensor.quant is None and first and edit.uses(source) == 1:
        edit.tensors[source] = replace(tensor, quant=node.op.quant)
    shared = node.output in edit.types and edit.uses(source) > 1  # integers outside; other readers would get them for real numbers
    if edit.tensors[source].quant == node.op.quant and not shared and edit.bypass(node):
        return
    edit.tensors[node.output] = Tensor(edit.shape(node.output), node.op.quant)
