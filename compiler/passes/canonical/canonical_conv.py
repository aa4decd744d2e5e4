"""Turns a Conv with constant weights into the typed Conv: always with a bias, explicit padding and two spatial axes.

Requires: folded constants (`fold_constants`), and real weights with the scales of int8 weights beside them
(`dequantise_constants`).
Ensures: no ONNX Conv with constant weights and one or two spatial axes is left. `auto_pad` has become numbers.
Leaves alone: 3-D convolutions, computed weights, computed biases.
"""

import numpy as np

from cnna.compiler.graph.editor import Editor
from cnna.compiler.graph.float_ops import Conv, Onnx
from cnna.compiler.graph.ir import Graph
from cnna.compiler.passes.canonical.typed_operators import keep_whole, put_framed, weight_scales, window_of
from cnna.spec.errors import ModelError


def canonical_conv(graph: Graph) -> Graph:
    """Returns the graph with typed convolutions. ModelError: the shapes of weights or bias do not fit."""
    edit = Editor(graph)
    for node in edit:
        if not isinstance(node.op, Onnx) or node.op.domain or node.op.kind != "Conv":
            continue
        x, w = node.inputs[:2]
        given = len(node.inputs) > 2 and node.inputs[2]
        shape = edit.shape(x)
        if w not in edit.constants or len(shape) not in (3, 4) or (given and node.inputs[2] not in edit.constants):
            continue
        weights = edit.constants[w]
        groups = int(node.op.attributes.get("group", 1))
        if weights.ndim != len(shape) or weights.shape[1] * groups != shape[1] or len(weights) % groups:
            unfit = f"weights {weights.shape} in {groups} groups do not fit a map of {shape}"
            raise ModelError(f"node '{node.name}' (Conv): {unfit}; export it again")
        if node.op.attributes.get("kernel_shape", weights.shape[2:]) != weights.shape[2:]:
            kernel = list(node.op.attributes["kernel_shape"])
            raise ModelError(
                f"node '{node.name}' (Conv): weights {weights.shape} do not match kernel_shape {kernel}; export it again"
            )
        if given and edit.constants[node.inputs[2]].shape != (len(weights),):
            wrong = list(edit.constants[node.inputs[2]].shape)
            raise ModelError(
                f"node '{node.name}' (Conv): its bias has shape {wrong}; it must be [{len(weights)}], one value per channel"
            )
        window = window_of(node.op, weights.shape[2:], shape[2:])
        bias = node.inputs[2] if given else edit.constant(f"{w}:bias", np.zeros(len(weights), weights.dtype))
        scale = weight_scales(edit, w, weights.shape, 0)
        if weights.ndim == 3:
            flat, w = w, edit.constant(f"{w}:2d", weights[:, :, None])
            keep_whole(edit, flat, w, lambda values: values[:, :, None])
        op = Conv(window, groups, w, bias, scale)
        put_framed(edit, node, op, (x,))
    return edit.finish()
