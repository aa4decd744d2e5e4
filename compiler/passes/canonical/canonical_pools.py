"""Turns MaxPool, AveragePool, the global pools and the reductions over all pixels into the typed pools.

Requires: settled windows (`frontend.ceil_pools`) and typed Transposes (`canonical_views`).
Ensures: every pool over one or two axes is typed. A reduction reads the map in front of a Transpose.
Leaves alone: a MaxPool whose indices are used, and a reduction over other axes than those of all pixels.
"""

import numpy as np

from cnna.compiler.graph.editor import Editor
from cnna.compiler.graph.float_ops import Affine, AveragePool, FloatOperator, MaxPool, Onnx, Transpose
from cnna.compiler.graph.ir import Graph, Node, Tensor, Window
from cnna.compiler.passes.canonical.typed_operators import four_axes, put_framed, window_of

GLOBAL = {
    "GlobalAveragePool": AveragePool,
    "GlobalMaxPool": MaxPool,
    "ReduceMean": AveragePool,
    "ReduceMax": MaxPool,
    "ReduceSum": AveragePool,
}


def canonical_pools(graph: Graph) -> Graph:
    """Returns the graph with typed pools."""
    edit = Editor(graph)
    for node in edit:
        if not isinstance(node.op, Onnx) or node.op.domain or node.inputs[:1] == () or node.inputs[0] in edit.constants:
            continue
        if not edit.is_real(node):
            continue
        if node.op.kind in ("MaxPool", "AveragePool"):
            _windowed(edit, node)
        elif node.op.kind in GLOBAL:
            _global(edit, node)
    return edit.finish()


def _windowed(edit: Editor, node: Node) -> None:
    kernel = tuple(node.op.attributes["kernel_shape"])
    indices = any(name and edit.uses(name) for name in node.op.more_outputs)
    if len(kernel) > 2 or indices or len(edit.shape(node.inputs[0])) != len(kernel) + 2:
        return
    window = window_of(node.op, kernel, edit.shape(node.inputs[0])[2:])
    include_pad = bool(node.op.attributes.get("count_include_pad", 0))
    op: FloatOperator = MaxPool(window) if node.op.kind == "MaxPool" else AveragePool(window, include_pad)
    put_framed(edit, node, op, node.inputs)


def _global(edit: Editor, node: Node) -> None:
    x = node.inputs[0]
    if node.op.kind.startswith("Reduce"):
        before = edit.producer(x, Transpose)
        perm = before.op.perm if before else tuple(range(len(edit.shape(x))))
        axes = _axes(edit, node)
        if axes is None or {perm[axis] for axis in axes} != set(range(2, len(perm))):
            return
        x = before.inputs[0] if before else x
    shape = edit.shape(x)
    if len(shape) < 3 or shape[0] != 1 or min(shape) < 1:
        return
    size = four_axes(shape)
    op = GLOBAL[node.op.kind](Window(kernel=(size[2], size[3])))
    if node.op.kind == "ReduceSum":  # the mean, times the number of pixels
        inner = edit.fresh(f"{node.output}:mean")
        edit.tensors[inner] = Tensor((1, size[1], 1, 1))
        put_framed(edit, Node(f"{node.name}:mean", node.op, (x,), inner), op, (x,))
        counts = (np.full(size[1], float(size[2] * size[3])), np.zeros(size[1]))
        names = [edit.constant(f"{node.name}:{key}", value) for key, value in zip(("scale", "shift"), counts, strict=True)]
        put_framed(edit, node, Affine(names[0], names[1]), (inner,), (1, size[1], 1, 1))
        return
    put_framed(edit, node, op, (x,), (1, size[1], 1, 1))


def _axes(edit: Editor, node: Node) -> set[int] | None:
    axes = node.op.attributes.get("axes")
    if axes is None and len(node.inputs) > 1 and node.inputs[1] in edit.constants:
        axes = edit.constants[node.inputs[1]].reshape(-1).tolist()
    rank = len(edit.shape(node.inputs[0]))
    if axes is None or not rank:  # nothing is known of its input, not even the number of axes
        return None
    return {int(axis) % rank for axis in axes}
