"""Puts a typed operator, which wants [1, C, H, W], between two Reshapes where the model's tensor has fewer axes, or more."""

from math import prod
from typing import Any

from cnna.compiler.graph.editor import Editor
from cnna.compiler.graph.float_ops import Reshape
from cnna.compiler.graph.ir import Node


def four_axes(shape: tuple[int, ...]) -> tuple[int, int, int, int]:
    """[1, C] as [1, C, 1, 1]; [1, C, L] as [1, C, 1, L]; of more than four, all between the second and the last as rows."""
    return shape[0], shape[1], prod(shape[2:-1]), prod(shape[2:][-1:])


def put_framed(edit: Editor, node: Node, op: Any, inputs: tuple[str, ...], framed_output: tuple[int, ...] | None = None) -> None:
    """Lets `op` take the place of `node`, whose output may have two axes or more; `framed_output`: the output's shape with four."""
    output = framed_output or four_axes(edit.shape(node.output))
    framed = []
    for name in inputs:
        shape = edit.shape(name)
        if len(shape) != 4:
            name = edit.insert(f"{node.name}:framed", Reshape(four_axes(shape)), (name,), f"{name}:4d", four_axes(shape))
        framed.append(name)
    if edit.shape(node.output) == output:
        edit.put(node.name, op, tuple(framed), node.output)
        return
    inner = edit.insert(node.name, op, tuple(framed), f"{node.output}:4d", output)
    edit.put(f"{node.name}:unframed", Reshape(edit.shape(node.output)), (inner,), node.output)
