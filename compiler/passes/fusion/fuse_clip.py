"""Folds a Clip (Relu, ReLU6) into the operator before it.

MaxPool, Concat, Join and Interleave commute with a Clip, so it also moves in front of them.

Requires: typed operators, and Affines already folded (`fuse_affine`), because they fold only into operators without limits.
Ensures: if a Clip is the only reader of its input, the operator that computes the values has its limits.
Leaves alone: Clips of graph inputs and of tensors with other readers; interleaved maps whose producers cannot have limits.
"""

from dataclasses import replace

from cnna.compiler.graph.editor import Editor, settled
from cnna.compiler.graph.float_ops import CLIPPED, Clip, Concat, Interleave, Join, MaxPool
from cnna.compiler.graph.ir import AnyNode, Graph, Tensor


def fuse_clip(graph: Graph) -> Graph:
    """Returns the graph with these limits folded."""
    return settled(graph, _fuse)


def _fuse(edit: Editor, node: AnyNode) -> bool:
    if not isinstance(node.op, Clip):
        return False
    before = edit.sole(node.inputs[0], (*CLIPPED, MaxPool, Concat, Join, Interleave))
    if before is None:
        return False
    if isinstance(before.op, Interleave) and not all(edit.sole(name, CLIPPED) for name in before.inputs):
        return False  # a Clip of its own could not write between the pixels of other maps
    edit.remove(before)
    if isinstance(before.op, CLIPPED):
        low = min(max(before.op.low, node.op.low), node.op.high)
        high = min(max(before.op.high, node.op.low), node.op.high)
        edit.put(before.name, replace(before.op, low=low, high=high), before.inputs, node.output)
        return True
    clipped = []
    for number, name in enumerate(before.inputs):
        output = edit.fresh(f"{name}:clip")
        edit.tensors[output] = Tensor(edit.shape(name))
        clipped.append(edit.put(f"{node.name}:{number}" if number else node.name, node.op, (name,), output))
    edit.put(before.name, before.op, tuple(clipped), node.output)
    return True
