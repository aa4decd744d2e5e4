"""Moves Reshape and Transpose behind elementwise operators, where they meet views that undo them.

Requires: typed views and elementwise operators (`canonical_views`, `canonical_elementwise`).
Ensures: between two layers, a view is left only if a layer needs it. Views that undo each other are gone. Concatenations of
channels are typed Concats. The model's own integers (`integer_ends`) are made behind the view, by a QuantizeLinear on the CPU.
Leaves alone: views of graph inputs and of operators that the CPU runs. They stay in front of Q and DQ, because they belong to the
head.
"""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from cnna.compiler.graph.editor import Editor, settled
from cnna.compiler.graph.float_ops import (
    VIEWS,
    Add,
    Affine,
    Chain,
    Clip,
    Concat,
    Conv,
    Maximum,
    Minimum,
    Onnx,
    Product,
    Requantise,
    Reshape,
    Transpose,
)
from cnna.compiler.graph.ir import AnyNode, Graph, Node, Quant, Tensor
from cnna.compiler.passes.canonical.typed_operators import put_framed


def sink_views(graph: Graph) -> Graph:
    """Returns the graph with each view as far behind as it can go."""
    return settled(graph, _move)


def _move(edit: Editor, node: AnyNode) -> bool:
    merged = _merge(edit, node) or _sink(edit, node) or _sink_affine(edit, node)
    joined = _sink_concat(edit, node) or _raise(edit, node)
    return merged or joined


def _merge(edit: Editor, node: Node) -> bool:
    """Merges a view of a view into one. A Transpose that moves only axes of size 1 becomes a Reshape."""
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
    name = before.name if node.name not in edit.sources and before.name in edit.sources else node.name
    if isinstance(node.op, Transpose):
        perm = tuple(before.op.perm[axis] for axis in node.op.perm)
        identity = perm == tuple(range(len(perm)))
        edit.put(name, Transpose(perm), (source,), node.output)
    else:
        identity = edit.shape(source) == node.op.shape
        edit.put(name, node.op, (source,), node.output)
    if identity:
        edit.bypass(edit.nodes[node.output])
    return True


def _concat(edit: Editor, node: Node) -> bool:
    """Turns an ONNX Concat of channels into the typed one. If its inputs are transposed alike, it joins their sources instead."""
    shape = edit.shape(node.output)
    if not isinstance(node.op, Onnx) or node.op.kind != "Concat" or node.op.domain or not edit.is_real(node):
        return False
    if any(name in edit.constants or len(edit.shape(name)) != len(shape) for name in node.inputs):
        return False
    if len(shape) < 2 or shape[0] != 1 or min(shape) < 1:
        return False
    axis = node.op.attributes["axis"] % len(shape)
    if axis == 1:
        put_framed(edit, node, Concat(), node.inputs)
        return True
    before = [edit.producer(name, Transpose) for name in node.inputs]
    perms = {view.op.perm if view and len(shape) == 4 else None for view in before}
    (perm, *others) = perms
    if others or perm is None or perm[axis] != 1:
        return False
    sources = tuple(view.inputs[0] for view in before if view)
    inner = edit.insert(node.name, Concat(), sources, f"{node.output}:nchw", tuple(shape[i] for i in np.argsort(perm)))
    edit.put(f"{node.name}:view", Transpose(perm), (inner,), node.output)
    return True


def _sink(edit: Editor, node: Node) -> bool:
    """Turns e(view(x)) into view(e(x)). A view that belongs to the head stays in front of a Requantise."""
    if not isinstance(node.op, Chain | Clip | Requantise | Add | Product | Maximum | Minimum):
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
    if isinstance(node.op, Requantise) and node.output in edit.types:
        real = edit.insert(f"{first.name}:view", first.op, (output,), f"{output}:view", edit.shape(node.output))
        _whole_behind(edit, node, node.op.quant, real)
    else:
        edit.put(f"{first.name}:view", first.op, (output,), node.output)
    return True


def _whole_behind(edit: Editor, node: AnyNode, quant: Quant, real: str) -> None:
    """Makes a model's own integers, which a Requantise made, of the view that moves what it makes now: real numbers."""
    kind = np.dtype(edit.types[node.output])
    scale = edit.constant(f"{node.output}:scale", np.array(quant.scale, np.float32))
    zero = edit.constant(f"{node.output}:zero", np.array(quant.zero + (128 if kind == np.uint8 else 0), kind))
    edit.put(f"{node.name}:whole", Onnx("QuantizeLinear"), (real, scale, zero), node.output)


def _sink_affine(edit: Editor, node: Node) -> bool:
    """As `_sink`, for an Affine whose constants still depend only on the channel in front of the views."""
    view = edit.producer(node.inputs[0], VIEWS) if isinstance(node.op, Affine) else None
    if view is None or _is_heads(edit, view.inputs[0]):
        return False
    views = [view]
    while (earlier := edit.producer(views[-1].inputs[0], VIEWS)) is not None:
        views.append(earlier)
    source = views[-1].inputs[0]
    shape = edit.shape(source)
    if len(shape) != 4:
        return False
    order = elements_behind(shape, [view.op for view in reversed(views)])
    moved = []
    for name in (node.op.scale, node.op.shift):
        values = np.empty(order.size)
        values[order.reshape(-1)] = np.broadcast_to(edit.constants[name][:, None, None], order.shape[1:]).reshape(-1)
        values = values.reshape(shape)
        if (values != values[:, :, :1, :1]).any():
            return False
        moved.append(edit.constant(name, values[0, :, 0, 0].copy()))
    last = edit.insert(node.name, replace(node.op, scale=moved[0], shift=moved[1]), (source,), f"{node.output}:before", shape)
    for view in reversed(views[1:]):
        last = edit.insert(f"{view.name}:view", view.op, (last,), f"{node.output}:view", edit.shape(view.output))
    edit.put(f"{views[0].name}:view", views[0].op, (last,), node.output)
    return True


def _sink_concat(edit: Editor, node: Node) -> bool:
    """As `_sink`, for a Concat of maps whose Reshapes change rows and columns only, all in the same way."""
    views = [edit.producer(name, Reshape) for name in node.inputs] if isinstance(node.op, Concat) else []
    sources = tuple(view.inputs[0] for view in views if view)
    if not views or len(sources) < len(views) or any(_is_heads(edit, source) for source in sources):
        return False
    shapes = [edit.shape(source) for source in sources]
    kept = all(len(shape) == 4 and shape[1] == edit.shape(name)[1] for shape, name in zip(shapes, node.inputs, strict=True))
    if not kept or len({shape[2:] for shape in shapes}) > 1:
        return False
    whole = (1, sum(shape[1] for shape in shapes), *shapes[0][2:])
    inner = edit.insert(node.name, node.op, sources, f"{node.output}:before", whole)
    edit.put(f"{node.name}:view", Reshape(edit.shape(node.output)), (inner,), node.output)
    return True


def elements_behind(shape: tuple[int, ...], views: Iterable[Reshape | Transpose]) -> np.ndarray:
    """For each place behind the views, the number (in raster order) of the element of a tensor of `shape` that ends up there."""
    order = np.arange(int(np.prod(shape))).reshape(shape)
    for view in views:
        order = order.reshape(view.shape) if isinstance(view, Reshape) else order.transpose(view.perm)
    return order


def moved_map(edit: Editor, node: Node) -> tuple[str, np.ndarray] | None:
    """(map, order) of a chain of views that ends in `node`, between two layers. None: there is no such chain.

    order [1, C, H, W]: for each place behind the chain, the number of the map's element there, in raster order. The result is
    None if the last view makes no map or has no reader, or if the first view reads a graph input, a CPU operator's output or a
    tensor that is no map.
    """
    if not isinstance(node.op, VIEWS) or len(edit.shape(node.output)) != 4 or not edit.consumers(node.output):
        return None
    views, source = [node], node.inputs[0]
    while (view := edit.producer(source, VIEWS)) is not None:
        views.append(view)
        source = view.inputs[0]
    maker, before = edit.producer(source), edit.shape(source)
    if maker is None or isinstance(maker.op, Onnx) or len(before) != 4:
        return None
    return source, elements_behind(before, [view.op for view in reversed(views)])


def _raise(edit: Editor, node: Node) -> bool:
    """Turns view(Requantise(x)) into Requantise(view(x)) if x belongs to the head; a view of integers would be no real numbers."""
    before = edit.producer(node.inputs[0], Requantise) if isinstance(node.op, VIEWS) else None
    if before is None or before.inputs[0] in edit.types or not _is_heads(edit, before.inputs[0]):
        return False
    view = edit.insert(node.name, node.op, before.inputs, f"{node.output}:before", edit.shape(node.output))
    edit.put(f"{before.name}:{node.output}", before.op, (view,), node.output)
    return True


def _is_heads(edit: Editor, tensor: str) -> bool:
    """Whether a tensor is made before the first layer of the accelerator.

    If the graph has convolutions, the accelerator begins at them (`split`). Otherwise the head has graph inputs, the outputs of
    CPU operators, and views of these.
    """
    if any(isinstance(node.op, Conv) for node in edit.nodes.values()):
        return not _behind_conv(edit, tensor)
    maker = edit.producer(tensor)
    while maker is not None and isinstance(maker.op, VIEWS):
        maker = edit.producer(maker.inputs[0])
    return maker is None or isinstance(maker.op, Onnx)


def _behind_conv(edit: Editor, tensor: str) -> bool:
    """Whether a tensor depends on a convolution."""
    pending, seen = [tensor], {tensor}
    while pending:
        maker = edit.nodes.get(pending.pop())
        if maker is not None and isinstance(maker.op, Conv):
            return True
        new = {name for name in maker.inputs if name not in seen} if maker is not None else set()
        seen |= new
        pending += new
    return False
