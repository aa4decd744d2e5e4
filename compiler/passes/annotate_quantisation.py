"""Notes on each tensor how it is quantised, and takes the Requantise behind it out."""

from dataclasses import replace

from cnna.compiler.graph.editor import Editor
from cnna.compiler.graph.float_ops import Requantise
from cnna.compiler.graph.ir import Graph, Node, Tensor


def annotate_quantisation(graph: Graph) -> Graph:
    """A Requantise stays where its input has a quantisation of its own (it is a copy) or other readers (which see floats).

    It also stays behind a node's second and further outputs, whose rounding would be lost where a node is written as ONNX.
    """
    edit = Editor(graph)
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
    if edit.tensors[source].quant == node.op.quant and edit.bypass(node):
        return
    edit.tensors[node.output] = Tensor(edit.shape(node.output), node.op.quant)
