"""Folds an Affine (BatchNorm, bias, scale) into the convolution before it, or into the one after it if that is exact.

Requires: typed Affines and convolutions, views moved out of their way (`sink_views`).
Ensures: an Affine that is the only reader of its input is part of the Conv, the Affine or the interleaved Convs before it. An
Affine that only one Conv reads is part of that Conv, unless the Conv pads a map to which the Affine would have added a shift.
Leaves alone: Affines behind limits or shared tensors, which the vector engine runs; int8 weights that would leave the range of
int8 (-128 has no negative); products beyond float32.
"""

from dataclasses import replace
from math import inf

import numpy as np

from cnna.compiler.graph.editor import Editor
from cnna.compiler.graph.float_ops import Affine, Conv, Interleave
from cnna.compiler.graph.ir import Graph, Node

FLOAT_MAX = float(np.finfo(np.float32).max)


def fuse_affine(graph: Graph) -> Graph:
    """Returns the graph with these Affines folded."""
    edit = Editor(graph)
    for node in edit:
        if isinstance(node.op, Affine):
            _before_interleave(edit, node)
    for node in edit:
        if isinstance(node.op, Affine):
            _into_before(edit, node)
    for node in edit:
        if isinstance(node.op, Affine):
            _into_after(edit, node)
    return edit.finish()


def _before_interleave(edit: Editor, node: Node) -> None:
    """Replaces an Affine of interleaved maps by one Affine for each map, if all maps come from convolutions that can take it."""
    before = edit.sole(node.inputs[0], Interleave)
    if before is None:
        return
    makers = [edit.sole(name, Conv) for name in before.inputs]
    scale = edit.constants[node.op.scale].astype(np.float64)
    if any(maker is None or _limits(maker.op) != (-inf, inf) or _scaled(edit, maker.op, scale) is None for maker in makers):
        return
    made = []
    for number, name in enumerate(before.inputs):
        made.append(edit.insert(f"{node.name}:{number}", node.op, (name,), f"{name}:scaled", edit.shape(name)))
    edit.remove(before)
    edit.put(before.name, before.op, tuple(made), node.output)


def _limits(op: Conv | Affine) -> tuple[float, float]:
    return op.low, op.high


def _into_before(edit: Editor, node: Node) -> None:
    before = edit.sole(node.inputs[0], (Conv, Affine))
    if before is None or _limits(before.op) != (-inf, inf):
        return
    scale, shift = (edit.constants[name].astype(np.float64) for name in (node.op.scale, node.op.shift))
    if isinstance(before.op, Affine):
        old, offset = (edit.constants[name].astype(np.float64) for name in (before.op.scale, before.op.shift))
        scale, shift = old * scale, offset * scale + shift
        if not fits(scale, shift):
            return
        op = replace(node.op, scale=edit.constant(node.op.scale, scale), shift=edit.constant(node.op.shift, shift))
    else:
        changed = _scaled(edit, before.op, scale)
        bias = edit.constants[before.op.bias].astype(np.float64) * scale + shift
        if changed is None or not fits(bias):
            return
        op = replace(changed, bias=edit.constant(before.op.bias, bias), low=node.op.low, high=node.op.high)
    edit.remove(before)
    edit.put(before.name, op, before.inputs, node.output)


def fits(*values: np.ndarray) -> bool:
    """Whether all values are finite in float32."""
    return all(np.abs(value).max(initial=0) <= FLOAT_MAX for value in values)


def _scaled(edit: Editor, op: Conv, scale: np.ndarray) -> Conv | None:
    """The convolution with its output channels times `scale`.

    None: int8 weights would leave int8, because -128 has no negative, or weights would leave float32.
    """
    if (scale == 1).all():
        return op
    weights = edit.constants[op.weights]
    scaled = weights * scale[:, None, None, None]
    if not fits(scaled):
        return None
    if op.weight_scale is not None:
        scales = edit.constants[op.weight_scale]
        least = (weights / scales[:, None, None, None]).min(axis=(1, 2, 3))
        if ((scale < 0) & (least < -127.5)).any():
            return None
        op = replace(op, weight_scale=edit.constant(op.weight_scale, scales * np.where(scale == 0, 1, np.abs(scale))))
    return replace(op, weights=edit.constant(op.weights, scaled.astype(weights.dtype)))


def _into_after(edit: Editor, node: Node) -> None:
    """Folds an Affine into the Conv behind it, if that pads nothing or `shift` is 0: the Affine does not apply to padded zeros."""
    users = edit.consumers(node.output)
    if len(users) != 1 or edit.uses(node.output) != 1 or _limits(node.op) != (-inf, inf):
        return
    conv = users[0]
    scale, shift = (edit.constants[name].astype(np.float64) for name in (node.op.scale, node.op.shift))
    if not isinstance(conv.op, Conv) or conv.op.weight_scale or (any(conv.op.window.pads) and shift.any()):
        return
    weights = edit.constants[conv.op.weights]
    cout, per_group = weights.shape[:2]
    of_output = np.repeat(scale.reshape(conv.op.groups, per_group), cout // conv.op.groups, axis=0)
    shift_of_output = np.repeat(shift.reshape(conv.op.groups, per_group), cout // conv.op.groups, axis=0)
    bias = edit.constants[conv.op.bias] + (weights.astype(np.float64).sum(axis=(2, 3)) * shift_of_output).sum(axis=1)
    scaled = weights * of_output[:, :, None, None]
    if not fits(scaled, bias):
        return
    op = replace(
        conv.op,
        weights=edit.constant(conv.op.weights, scaled.astype(weights.dtype)),
        bias=edit.constant(conv.op.bias, bias),
    )
    edit.remove(node)
    edit.put(conv.name, op, node.inputs, conv.output)
