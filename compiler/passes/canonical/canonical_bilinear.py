"""Turns a Resize that interpolates between four pixels into a Bilinear.

An axis of one pixel may grow by any factor: the Bilinear enlarges the other axis, and a Pixels behind it repeats that pixel.

Requires: folded constants and the shapes that follow from them (`fold_constants`).
Ensures: a Resize in which `bilinear_limit` finds nothing is a Bilinear, or nothing if it changes no size.
Leaves alone: those that select pixels (`canonical_pixels`), and all in which it finds something.
"""

from fractions import Fraction

from cnna.compiler.graph.editor import Editor
from cnna.compiler.graph.float_ops import Bilinear, Onnx, Pixels
from cnna.compiler.graph.ir import Graph, Node
from cnna.compiler.passes.canonical.canonical_pixels import resize_scales
from cnna.compiler.passes.canonical.typed_operators import four_axes, put_framed

TIMES = (1, 2, 4)  # by which rows and columns may grow
CENTRED = ("half_pixel", "pytorch_half_pixel", "half_pixel_symmetric")  # the same unless a map shrinks, or its size is rounded
MODES = (*CENTRED, "asymmetric")  # of coordinates


def canonical_bilinear(graph: Graph) -> Graph:
    """Returns the graph with typed interpolations."""
    edit = Editor(graph)
    for node in edit:
        if isinstance(node.op, Onnx) and node.op.kind == "Resize" and not node.op.domain and bilinear_limit(node, edit) is None:
            down, right = _times(node, edit)
            op = Bilinear((down, right), node.op.attributes.get("coordinate_transformation_mode", CENTRED[0]) in CENTRED)
            if (down, right) == (1, 1):
                edit.put(node.name, Onnx("Identity"), node.inputs[:1], node.output)
            elif _grown(edit, node, op) == four_axes(edit.shape(node.output)):
                put_framed(edit, node, op, node.inputs[:1])
            else:
                _put_repeated(edit, node, op)
    return edit.finish()


def _grown(edit: Editor, node: Node, op: Bilinear) -> tuple[int, int, int, int]:
    """The shape that a Bilinear makes of a node's input."""
    samples, channels, height, width = four_axes(edit.shape(node.inputs[0]))
    return samples, channels, height * op.times[0], width * op.times[1]


def _put_repeated(edit: Editor, node: Node, op: Bilinear) -> None:
    """Replaces a Resize of one row or column by a Bilinear of the other axis, and a Pixels that repeats the row or column."""
    shape = _grown(edit, node, op)
    _, _, height, width = four_axes(edit.shape(node.output))
    line = edit.insert(f"{node.name}:line", op, node.inputs[:1], f"{node.output}:line", shape)
    rows = (0,) * height if shape[2] == 1 else tuple(range(height))
    columns = (0,) * width if shape[3] == 1 else tuple(range(width))
    edit.put(node.name, Pixels(rows, columns), (line,), node.output)


def bilinear_limit(node: Node, graph: Editor | Graph) -> str | None:
    """Why a Resize is no Bilinear; None if it is one."""
    attributes, source = node.op.attributes, graph.tensors.get(node.inputs[0])
    how, mode = attributes.get("mode", "nearest"), attributes.get("coordinate_transformation_mode", CENTRED[0])
    if how != "linear":
        return f"it interpolates by mode {how}"
    before, after = source.shape if source else (), graph.tensors[node.output].shape
    sizes = list(zip(before, after, strict=False))
    if node.output in graph.types or len(before) != len(after) or len(after) not in (3, 4) or min(*before, *after) < 1:
        return "it does not interpolate a real map of channels, rows and columns whose size is known"
    if mode not in MODES:
        return f"it interpolates with {mode}; only half_pixel and asymmetric run"
    if attributes.get("antialias", 0):
        return "it interpolates with antialias"
    scales = resize_scales(graph, node)
    if scales is None:
        return "its factors are computed, or follow from a policy"
    factors = [scales.get(axis, Fraction(1)) for axis in range(len(sizes))]
    if any(factor != 1 for factor in factors[:2]):
        return "it interpolates between channels or samples"
    grown = [(size, made, factor) for (size, made), factor in zip(sizes, factors, strict=True) if size > 1]
    if any(size * factor != made or factor not in TIMES for size, made, factor in grown):
        named = " and ".join(f"{float(factor):.4g}" for factor in factors[2:])
        return f"it interpolates at factors {named}; only {', '.join(map(str, TIMES[:-1]))} and {TIMES[-1]} run"
    return None


def _times(node: Node, graph: Editor) -> tuple[int, int]:
    """By what rows and columns grow, where there is more than one. A map of three axes has one row."""
    scales, before = resize_scales(graph, node) or {}, graph.shape(node.inputs[0])
    down, right = (int(scales.get(axis, 1)) if before[axis] > 1 else 1 for axis in (len(before) - 2, len(before) - 1))
    return (down if len(before) == 4 else 1), right
