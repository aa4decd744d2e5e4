"""Folds a Clip (Relu, ReLU6) into the operator before it, also through MaxPool, Concat, Join and Interleave, which it
commutes with.

Requires: typed operators; Affines already folded (`fuse_affine`), since they fold into an operator without limits only.
Ensures: the limits of a Clip whose input only it reads are those of the operator that computes the values.
Leaves alone: Clips of graph inputs and of tensors with other readers; interleaved maps of what has no limits of its own.
"""

from dataclasses import replace

from cnna.compiler.graph.editor import Editor, settled
from cnna.compiler.graph.float_ops import CLIPPED, Clip, Concat, Interleave, Join, MaxPool
from cnna.compiler.graph.ir import AnyNode, Graph, Tensor


def fuse_clip(graph: Graph) -> Graph:
    """Returns the graph with those limits folded."""
    return settled(graph, _fuse)


def _fuse(edit: Editor, node: AnyNode) -> bool:
    if not isinstance(node.op, Clip):
        return False
    before = edit.sole(node.inputs[0], (*CLIPPED, MaxPool, Concat, Join, Interleave))
    if before is None:
        return False
    if isinstance(before.op, Interleave) and not all(edit.sole(name, CLIPPED) for name in before.inputs):
        return False  # only a kernel with limits can write between other pixels
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
