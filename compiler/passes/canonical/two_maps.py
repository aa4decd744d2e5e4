"""Helpers of `canonical_elementwise` for operators of two maps. One may be flat: one value of each channel for all pixels."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from cnna.compiler.graph.editor import Editor
from cnna.compiler.graph.float_ops import Add, Maximum, Minimum, Product, Transpose
from cnna.compiler.graph.ir import Node, Tensor
from cnna.compiler.passes.canonical.typed_operators import put_framed

Pair = Add | Product | Maximum | Minimum


def channels_axis(edit: Editor, inputs: Sequence[str], output: str) -> int | None:
    """The axis of the channels, if the operands have the output's shape or are flat, and at least one has that shape.

    This is axis 1 unless a flat operand differs along another one, as in a model whose channels come last. None: an operand
    broadcasts in another way.
    """
    shape, axes = edit.shape(output), set()
    others = [edit.shape(name) for name in inputs if edit.shape(name) != shape]
    for other in others:
        wide = [axis for axis, size in enumerate(other) if size > 1] or [1]
        if len(other) != len(shape) or len(wide) > 1 or other[wide[0]] != shape[wide[0]]:
            return None
        axes.add(wide[0])
    if len(others) == len(inputs) or len(axes) > 1:
        return None
    return axes.pop() if axes else 1


def put_pair(edit: Editor, node: Node, op: Pair, inputs: tuple[str, ...], axis: int) -> None:
    """Puts an operator of two maps, between Transposes if `axis` (see `channels_axis`) is not 1. `sink_views` removes those."""
    if axis == 1:
        put_framed(edit, node, op, inputs)
        return
    shape = edit.shape(node.output)
    perm = (0, axis, *(other for other in range(1, len(shape)) if other != axis))
    moved = []
    for name in inputs:
        there = tuple(edit.shape(name)[i] for i in perm)
        moved.append(edit.insert(f"{node.name}:to", Transpose(perm), (name,), f"{name}:moved", there))
    output = edit.fresh(f"{node.output}:moved")
    edit.tensors[output] = Tensor(tuple(shape[i] for i in perm))
    put_framed(edit, replace(node, output=output), op, tuple(moved))
    edit.put(f"{node.name}:from", Transpose(tuple(int(i) for i in np.argsort(perm))), (output,), node.output)


def put_all(edit: Editor, node: Node, op: Pair, inputs: Sequence[str], axis: int) -> None:
    """Applies an operator to several maps two by two, those of the output's shape first."""
    shape = edit.shape(node.output)
    total, *rest = sorted(inputs, key=lambda name: edit.shape(name) != shape)
    for number, name in enumerate(rest, 1):
        part = node.output if number == len(rest) else edit.fresh(f"{node.output}:part{number}")
        made = replace(node, name=node.name if number == len(rest) else f"{node.name}:{number}", inputs=(total, name), output=part)
        edit.tensors.setdefault(part, edit.tensors[node.output])
        put_pair(edit, made, op, made.inputs, axis)
        total = part
