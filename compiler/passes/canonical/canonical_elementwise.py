"""Turns elementwise operators into Affine, Add, Product, Clip, Maximum and Minimum.

BatchNormalization, HardSigmoid and arithmetic with constants become Affines. Sums of activations become Adds, products become
Products, and limits become Clips.

Requires: folded constants (`fold_constants`), and tensors of known shape whose first axis is the batch.
Ensures: arithmetic with a constant is an Affine if the constant is one number or differs along one axis only. If that axis is not
the channels, the Affine lies between two Transposes. Sums and differences are Adds of two operands each, a product of two maps is
a Product, and a Max or Min of maps is made of Maximums or Minimums; an operand may hold one value for each channel. Relu, Clip, Min
and Max with a number are Clips. A leaky Relu with slopes from 0 to 1 is a Maximum, and with slopes from 1 on a Minimum.
Leaves alone: constants that differ along several axes, operands that broadcast otherwise, the product or difference of a map and
itself, divisions by an activation or by 0, factors beyond float32, and masks on scores.
"""

from dataclasses import replace
from math import inf

import numpy as np

from cnna.compiler.graph.editor import Editor
from cnna.compiler.graph.float_ops import Add, Affine, Clip, Maximum, Minimum, Onnx, Product, Transpose
from cnna.compiler.graph.ir import Graph, Node, Tensor
from cnna.compiler.passes.canonical.two_maps import channels_axis, put_all, put_pair
from cnna.compiler.passes.canonical.typed_operators import put_framed
from cnna.compiler.passes.fusion.fuse_affine import fits
from cnna.spec.errors import ModelError

ARITHMETIC = ("Add", "Sub", "Mul", "Div", "Sum")
HARD_SIGMOID = {"alpha": 0.2, "beta": 0.5}  # ONNX's defaults
LIMITS = ("Relu", "Clip", "Min", "Max")
MASK = 64.0  # least magnitude of a mask on scores
COMPARES = ("Softmax", "LogSoftmax", "Hardmax", "ArgMax", "TopK")


def canonical_elementwise(graph: Graph) -> Graph:
    """Returns the graph with typed elementwise operators.

    ModelError: the constants of a BatchNormalization do not have one value per channel, or leave no variance; the limit of a Clip
    is not one number.
    """
    edit = Editor(graph)
    for node in edit:
        if not isinstance(node.op, Onnx) or node.op.domain or not edit.is_real(node) or not _has_channels(edit, node):
            continue
        if node.op.kind == "BatchNormalization":
            _batch_norm(edit, node)
        elif node.op.kind in ARITHMETIC:
            _arithmetic(edit, node)
        elif node.op.kind in LIMITS:
            _limit(edit, node)
        elif node.op.kind in ("LeakyRelu", "PRelu"):
            _leaky(edit, node)
        elif node.op.kind == "HardSigmoid" and node.inputs[0] not in edit.constants:
            channels = edit.shape(node.inputs[0])[1]
            factors = [np.full(channels, float(node.op.attributes.get(key, value))) for key, value in HARD_SIGMOID.items()]
            _put_affine(edit, node, node.inputs[0], factors[0], factors[1], 1, (0.0, 1.0))
    return edit.finish()


def _has_channels(edit: Editor, node: Node) -> bool:
    """Whether the activations of a node have known sizes, one sample, and an axis of channels."""
    shapes = [edit.shape(name) for name in (*node.inputs, node.output) if name and name not in edit.constants]
    return all(len(shape) >= 2 and shape[0] == 1 and min(shape) > 0 for shape in shapes)


def _batch_norm(edit: Editor, node: Node) -> None:
    if node.op.attributes.get("training_mode") or not all(name in edit.constants for name in node.inputs[1:5]):
        return
    channels = edit.shape(node.inputs[0])[1]
    for name in node.inputs[1:5]:
        if edit.constants[name].shape != (channels,):
            wrong = list(edit.constants[name].shape)
            raise ModelError(f"node '{node.name}' (BatchNormalization): '{name}' has shape {wrong}; it must be [{channels}]")
    gain, offset, mean, variance = (edit.constants[name].astype(np.float64) for name in node.inputs[1:5])
    spread = variance + float(node.op.attributes.get("epsilon", 1e-5))
    if not (np.isfinite(spread) & (spread > 0)).all():
        raise ModelError(
            f"node '{node.name}' (BatchNormalization): a variance plus epsilon is {spread.min():g}; it must be above 0; "
            "export it with a greater epsilon"
        )
    scale = gain / np.sqrt(spread)
    _put_affine(edit, node, node.inputs[0], scale, offset - mean * scale, 1)


def _arithmetic(edit: Editor, node: Node) -> None:
    constant = [name in edit.constants for name in node.inputs]
    if not any(constant):
        axis = channels_axis(edit, node.inputs, node.output)
        if axis is None:
            return
        if node.op.kind in ("Add", "Sum"):
            _sum(edit, node, axis)
        elif node.op.kind in ("Sub", "Mul") and len({*node.inputs}) == 2:
            put_pair(edit, node, Product() if node.op.kind == "Mul" else Add(minus=True), node.inputs, axis)
        return
    if len(constant) != 2 or all(constant):
        return
    x, value = (node.inputs[1], node.inputs[0]) if constant[0] else node.inputs
    if edit.shape(x) != edit.shape(node.output):
        return
    found = _along_one_axis(edit.constants[value].astype(np.float64), edit.shape(x))
    if found is None:
        return
    axis, numbers = found
    one, zero = np.ones_like(numbers), np.zeros_like(numbers)
    if node.op.kind in ("Add", "Sum", "Sub") and _masks_scores(edit, node, numbers):
        return
    if node.op.kind in ("Add", "Sum"):
        _put_affine(edit, node, x, one, numbers, axis)
    elif node.op.kind == "Sub":
        scale, shift = (-one, numbers) if constant[0] else (one, -numbers)
        _put_affine(edit, node, x, scale, shift, axis)
    elif node.op.kind == "Mul":
        _put_affine(edit, node, x, numbers, zero, axis)
    elif not constant[0] and numbers.all():
        _put_affine(edit, node, x, 1 / numbers, zero, axis)


def _masks_scores(edit: Editor, node: Node, numbers: np.ndarray) -> bool:
    """Whether a constant is a mask, one great number or 0 for each channel, on scores that the model answers or the CPU compares.

    In int8, the range of masked scores would leave no steps for the others.
    """
    found = np.unique(numbers)
    if len(found) != 2 or 0 not in found or np.abs(found).max() < MASK:
        return False
    kinds = [reader.op.kind for reader in edit.consumers(node.output) if isinstance(reader.op, Onnx)]
    return node.output in edit.outputs or any(kind in COMPARES for kind in kinds)


def _along_one_axis(value: np.ndarray, shape: tuple[int, ...]) -> tuple[int, np.ndarray] | None:
    """(axis, values) of a constant that differs along this axis only; axis 1 if it is the same everywhere; None for others.

    shape: the shape to which the constant broadcasts, with a batch of one.
    """
    value = value.reshape((1,) * (len(shape) - value.ndim) + value.shape)
    varying = [axis for axis in range(len(shape)) if (value != value.take([0], axis)).any()]
    if len(varying) > 1:
        return None
    axis = varying[0] if varying else 1
    numbers = np.moveaxis(value, axis, 0).reshape(value.shape[axis], -1)[:, 0]
    return axis, np.broadcast_to(numbers, (shape[axis],))


def _put_affine(
    edit: Editor,
    node: Node,
    x: str,
    scale: np.ndarray,
    shift: np.ndarray,
    axis: int,
    limits: tuple[float, float] = (-inf, inf),
) -> None:
    """Puts an Affine, between two Transposes if `axis` is not 1. `sink_views` removes Transposes that undo each other.

    Numbers that float32 cannot hold are left alone, such as the inverse of a divisor of 1e-42, or a mask's infinity.
    """
    if not fits(scale, shift):
        return
    op = Affine(edit.constant(f"{node.name}:scale", scale), edit.constant(f"{node.name}:shift", shift), *limits)
    if axis == 1:
        put_framed(edit, node, op, (x,))
        return
    shape = edit.shape(x)
    perm = (0, axis, *(other for other in range(1, len(shape)) if other != axis))
    there = tuple(shape[i] for i in perm)
    moved = edit.insert(f"{node.name}:to", Transpose(perm), (x,), f"{x}:moved", there)
    output = edit.fresh(f"{node.output}:moved")
    edit.tensors[output] = Tensor(there)
    put_framed(edit, replace(node, output=output), op, (moved,))
    edit.put(f"{node.name}:from", Transpose(tuple(int(i) for i in np.argsort(perm))), (output,), node.output)


def _sum(edit: Editor, node: Node, axis: int) -> None:
    """Adds the operands two by two. The sum of a tensor and itself is an Affine with factor 2."""
    if len(node.inputs) == 2 and len({*node.inputs}) == 1:
        channels = edit.shape(node.output)[1]
        _put_affine(edit, node, node.inputs[0], np.full(channels, 2.0), np.zeros(channels), 1)
    else:
        put_all(edit, node, Add(), node.inputs, axis)


def _limit(edit: Editor, node: Node) -> None:
    low, high, rest = -inf, inf, node.inputs[1:]
    if node.op.kind == "Relu":
        low = 0.0
    elif node.op.kind == "Clip":
        if not all(name in edit.constants for name in rest if name):
            return
        low, high = (
            _number(edit, node, name) if name else bound for name, bound in zip((*rest, "", "")[:2], (low, high), strict=True)
        )
    else:
        activations = [name for name in node.inputs if name not in edit.constants]
        if len(activations) == len({*node.inputs}) == len(node.inputs) > 1:
            axis = channels_axis(edit, node.inputs, node.output)
            if axis is not None:
                put_all(edit, node, Maximum() if node.op.kind == "Max" else Minimum(), node.inputs, axis)
            return
        numbers = [edit.constants[name] for name in node.inputs if name in edit.constants]
        if len(activations) != 1 or len(numbers) != 1 or numbers[0].size != 1:
            return
        bound = float(numbers[0].reshape(-1)[0])
        low, high = (bound, inf) if node.op.kind == "Max" else (-inf, bound)
        put_framed(edit, node, Clip(low, high), tuple(activations))
        return
    put_framed(edit, node, Clip(low, high), node.inputs[:1])


def _leaky(edit: Editor, node: Node) -> None:
    """Replaces x for x >= 0 and slope * x for x < 0 by max(x, slope * x), or min: the same for slopes from 0 to 1, or from 1 on."""
    x, channels = node.inputs[0], edit.shape(node.inputs[0])[1]
    slopes = np.full(channels, float(node.op.attributes.get("alpha", 0.01)))
    if node.op.kind == "PRelu":
        found = _along_one_axis(edit.constants[node.inputs[1]], edit.shape(x)) if node.inputs[1] in edit.constants else None
        if found is None or found[0] != 1:
            return
        slopes = found[1].astype(np.float64)
    gentle = bool(((slopes >= 0) & (slopes <= 1)).all())
    if x in edit.constants or not (gentle or (slopes >= 1).all()):
        return
    sloped = edit.fresh(f"{node.output}:sloped")
    edit.tensors[sloped] = Tensor(edit.shape(x))
    _put_affine(edit, Node(f"{node.name}:slope", node.op, (x,), sloped), x, slopes, np.zeros(channels), 1)
    put_framed(edit, node, Maximum() if gentle else Minimum(), (x, sloped))


def _number(edit: Editor, node: Node, name: str) -> float:
    value = edit.constants[name]
    if value.size != 1:
        raise ModelError(f"node '{node.name}' (Clip): its limit '{name}' has {value.size} values; it must be one number")
    return float(value.reshape(-1)[0])
