"""Moves Reshape and Transpose down past elementwise operators, where they meet others that undo them."""

import numpy as np

from cnna.compiler.editor import Editor
from cnna.compiler.float_ops import VIEWS, Add, Clip, Concat, Onnx, Requantise, Reshape, Transpose
from cnna.compiler.ir import Graph, Node, Tensor


def sink_views(graph: Graph) -> Graph:
    """Views of the graph's inputs or of what runs on the CPU stay in front of Q and DQ: they are the head's."""
    edit = Editor(graph)
    again = True
    while again:
        again = False
        for node in edit:
            again |= _merge(edit, node) or _sink(edit, node) or _raise(edit, node)
    return edit.finish()


def _merge(edit: Editor, node: Node) -> bool:
    """A view of a view becomes one; a Transpose that moves axes of size 1 only becomes a Reshape."""
    if isinstance(node.op, Transpose):
        shape = edit.shape(node.inputs[0])
        moved = [axis for axis in node.op.perm if shape[axis] > 1]
        if moved == sorted(moved):
            edit.put(node.name, Reshape(edit.shape(node.output)), node.inputs, node.output)
            return True
    if isinstance(node.op, Concat | Onnx) and _concat(edit, node):
        return True
    before = edit.producer(node.inputs[0], VIEWS) if node.inputs and isinstance(node.op, VIEWS) else None
    if before is None or type(before.op) is not type(node.op):
        if isinstance(node.op, Reshape) and edit.shape(node.inputs[0]) == node.op.shape:
            return edit.bypass(node)
        return False
    source = before.inputs[0]
    if isinstance(node.op, Transpose):
        perm = tuple(before.op.perm[axis] for axis in node.op.perm)
        identity = perm == tuple(range(len(perm)))
        edit.put(node.name, Transpose(perm), (source,), node.output)
    else:
        identity = edit.shape(source) == node.op.shape
        edit.put(node.name, node.op, (source,), node.output)
    if identity:
        edit.bypass(edit.nodes[node.output])
    return True


def _concat(edit: Editor, node: Node) -> bool:
    """An ONNX Concat of channels becomes the typed one; of equally transposed inputs, one of their sources."""
    if not isinstance(node.op, Onnx) or node.op.kind != "Concat" or node.op.domain:
        return False
    if any(name in edit.constants or len(edit.shape(name)) != 4 for name in node.inputs):
        return False
    axis = node.op.attributes["axis"] % 4
    if axis == 1:
        edit.put(node.name, Concat(), node.inputs, node.output)
        return True
    before = [edit.producer(name, Transpose) for name in node.inputs]
    perms = {view.op.perm if view else None for view in before}
    (perm, *others) = perms
    if others or perm is None or perm[axis] != 1:
        return False
    sources = tuple(view.inputs[0] for view in before if view)
    shape = edit.shape(node.output)
    inner = edit.insert(node.name, Concat(), sources, f"{node.output}:nchw", tuple(shape[i] for i in np.argsort(perm)))
    edit.put(f"{node.name}:view", Transpose(perm), (inner,), node.output)
    return True


def _sink(edit: Editor, node: Node) -> bool:
    """e(view(x)) becomes view(e(x)); a Requantise stays behind a view that only the head has."""
    if not isinstance(node.op, Clip | Requantise | Add):
        return False
    views = [edit.producer(name, VIEWS) for name in node.inputs]
    first = views[0]
    if first is None or any(view is None or view.op != first.op for view in views):
        return False
    sources = tuple(view.inputs[0] for view in views if view)
    shape = edit.shape(sources[0])
    if any(edit.shape(source) != shape for source in sources):
        return False
    if any(_is_heads(edit, source) for source in sources):
        return False
    output = edit.fresh(f"{node.output}:before")
    edit.tensors[output] = Tensor(shape)
    edit.put(node.name, node.op, sources, output)
    edit.put(f"{node.name}:view", first.op, (output,), node.output)
    return True


def _raise(edit: Editor, node: Node) -> bool:
    """view(Requantise(x)) becomes Requantise(view(x)) where x is the head's."""
    before = edit.producer(node.inputs[0], Requantise) if isinstance(node.op, VIEWS) else None
    if before is None or not _is_heads(edit, before.inputs[0]):
        return False
    view = edit.insert(node.name, node.op, before.inputs, f"{node.output}:before", edit.shape(node.output))
    edit.put(f"{before.name}:{node.output}", before.op, (view,), node.output)
    return True


def _is_heads(edit: Editor, tensor: str) -> bool:
    """Whether a tensor is a graph input or the CPU's, or a view of one."""
    maker = edit.producer(tensor)
    while maker is not None and isinstance(maker.op, VIEWS):
        maker = edit.producer(maker.inputs[0])
    return maker is None or isinstance(maker.op, Onnx)
