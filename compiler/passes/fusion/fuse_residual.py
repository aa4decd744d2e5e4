"""Folds an Add into the convolution that makes one of its operands, in the int8 graph.

Requires: an int8 graph in topological order.
Ensures: if a convolution makes an operand that only the Add reads, the Add is that convolution's residual. The convolution still
rounds to its own int8 first. If both operands come from such convolutions, the one with more layers before it takes the Add. The
other one can run while that one waits for its input.
Leaves alone: Adds of shared tensors, Adds of operands that no convolution makes, and Adds with a flat operand.
"""

from collections.abc import Mapping
from dataclasses import replace

from cnna.compiler.graph.editor import Editor
from cnna.compiler.graph.ir import Combine, Conv, Graph, Node, is_flat


def fuse_residual(graph: Graph) -> Graph:
    """Returns the graph with these Adds folded. All remaining tensors keep their int8 values."""
    edit = Editor(graph)
    depth = dict[str, tuple[int, int]]()  # of a tensor: the most nodes on a way to it, and its place
    for number, node in enumerate(graph.nodes):
        depth[node.output] = (1 + max((depth[name][0] for name in node.inputs if name in depth), default=0), number)
    for node in edit:
        if isinstance(node.op, Combine) and len(node.inputs) == 2:
            _fuse(edit, node, depth)
    return edit.finish()


def adders(edit: Editor, node: Node) -> list[Node[Conv]]:
    """The convolutions that can take a sum as their residual."""
    if is_flat(node, edit.tensors):
        return []
    return [conv for name in node.inputs if (conv := edit.sole(name, Conv)) and conv.op.residual is None]


def _fuse(edit: Editor, node: Node, depth: Mapping[str, tuple[int, int]]) -> None:
    convs = adders(edit, node)
    if not convs:
        return
    conv = max(convs, key=lambda made: depth[made.output])
    combine, other = node.op, node.inputs[1]
    if conv.output == other:
        combine = replace(combine, factor_a=combine.factor_b, factor_b=combine.factor_a)
        other = node.inputs[0]
    edit.remove(conv)
    edit.put(conv.name, replace(conv.op, residual=combine), (conv.inputs[0], other), node.output)
