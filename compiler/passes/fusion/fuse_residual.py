"""Folds an Add into the convolution that makes one of its operands, in the int8 graph.

Requires: an int8 graph in topological order.
Ensures: if a convolution makes an operand that only the Add reads, the Add is that convolution's residual. The convolution still
rounds to its own int8 first. If both operands come from such convolutions, the later one takes the Add, because the other operand
is ready by then.
Leaves alone: Adds of shared tensors, Adds of operands that no convolution makes, and Adds with a flat operand.
"""

from dataclasses import replace

from cnna.compiler.graph.editor import Editor
from cnna.compiler.graph.ir import Combine, Conv, Graph, Node, is_flat


def fuse_residual(graph: Graph) -> Graph:
    """Returns the graph with these Adds folded. All remaining tensors keep their int8 values."""
    edit = Editor(graph)
    position = {node.output: number for number, node in enumerate(graph.nodes)}
    for node in edit:
        if isinstance(node.op, Combine) and len(node.inputs) == 2:
            _fuse(edit, node, position)
    return edit.finish()


def adders(edit: Editor, node: Node) -> list[Node[Conv]]:
    """The convolutions that can take a sum as their residual."""
    if is_flat(node, edit.tensors):
        return []
    return [conv for name in node.inputs if (conv := edit.sole(name, Conv)) and conv.op.residual is None]


def _fuse(edit: Editor, node: Node, position: dict[str, int]) -> None:
    convs = adders(edit, node)
    if not convs:
        return
    conv = max(convs, key=lambda made: position[made.output])
    combine, other = node.op, node.inputs[1]
    if conv.output == other:
        combine = replace(combine, factor_a=combine.factor_b, factor_b=combine.factor_a)
        other = node.inputs[0]
    edit.remove(conv)
    edit.put(conv.name, replace(conv.op, residual=combine), (conv.inputs[0], other), node.output)
