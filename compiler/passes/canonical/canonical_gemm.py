"""Turns Gemm and MatMul with constant weights into a 1x1 Conv on a 1x1 map.

Requires: folded constants (`fold_constants`), and real weights with the scales of int8 weights beside them
(`dequantise_constants`).
Ensures: no product of an activation [1, C] or [1, ..., C] and a constant matrix is left. alpha is part of the weights, beta of
the bias.
Leaves alone: transA, a second operand or an offset that is computed, and products with alpha or beta beyond float32.
"""

from dataclasses import replace

import numpy as np

from cnna.compiler.graph.editor import Editor
from cnna.compiler.graph.float_ops import Conv, Onnx, Transpose
from cnna.compiler.graph.ir import Graph, Node, Tensor, Window
from cnna.compiler.passes.canonical.typed_operators import keep_whole, put_framed, weight_scales
from cnna.compiler.passes.fusion.fuse_affine import fits
from cnna.spec.errors import ModelError


def canonical_gemm(graph: Graph) -> Graph:
    """Returns the graph with these products as convolutions.

    ModelError: an offset does not have one value, or one per output, or it differs between samples.
    """
    edit = Editor(graph)
    for node in edit:
        if isinstance(node.op, Onnx) and not node.op.domain and node.op.kind in ("Gemm", "MatMul") and edit.is_real(node):
            _convert(edit, node)
    return edit.finish()


def _tokens(edit: Editor, node: Node, x: str, w: str) -> None:
    """[1, ..., C] times a matrix is a 1x1 Conv between two Transposes, which `sink_views` removes where layouts meet."""
    shape, out = edit.shape(x), edit.shape(node.output)
    if w not in edit.constants or edit.constants[w].ndim != 2 or shape[0] != 1 or min(*shape, *out) < 1:
        return
    perm = (0, len(shape) - 1, *range(1, len(shape) - 1))
    scale = weight_scales(edit, w, edit.constants[w].shape, 1)
    weights = _turned(edit.constants[w])
    names = edit.constant(f"{w}:1x1", weights), edit.constant(f"{w}:bias", np.zeros(len(weights), weights.dtype))
    keep_whole(edit, w, names[0], _turned)
    moved = edit.insert(f"{node.name}:to", Transpose(perm), (x,), f"{x}:moved", tuple(shape[axis] for axis in perm))
    output = edit.fresh(f"{node.output}:moved")
    edit.tensors[output] = Tensor(tuple(out[axis] for axis in perm))
    put_framed(edit, replace(node, output=output), Conv(Window(), 1, *names, scale), (moved,))
    edit.put(f"{node.name}:from", Transpose(tuple(int(axis) for axis in np.argsort(perm))), (output,), node.output)


def _convert(edit: Editor, node: Node) -> None:
    x, w = node.inputs[:2]
    attributes = node.op.attributes
    if node.op.kind == "MatMul" and len(edit.shape(x)) > 2:
        _tokens(edit, node, x, w)
        return
    if w not in edit.constants or len(edit.shape(x)) != 2 or edit.constants[w].ndim != 2 or attributes.get("transA"):
        return
    given = len(node.inputs) > 2 and node.inputs[2]
    if given and node.inputs[2] not in edit.constants:
        return
    alpha, beta = float(attributes.get("alpha", 1.0)), float(attributes.get("beta", 1.0))
    matrix = edit.constants[w]
    axis = 0 if attributes.get("transB") else 1
    scale = weight_scales(edit, w, matrix.shape, axis, abs(alpha) or 1.0)
    matrix = matrix if axis == 0 else matrix.T
    if alpha != 1:
        with np.errstate(over="ignore"):  # left alone below
            matrix = matrix * matrix.dtype.type(alpha)
    offset = edit.constants[node.inputs[2]] if given else np.zeros(1, matrix.dtype)
    if offset.ndim == 2 and len(offset) > 1:
        if (offset != offset[:1]).any():
            raise ModelError(
                f"node '{node.name}' ({node.op.kind}): its C has shape {offset.shape} and differs between the samples of a batch; "
                f"give every sample the same, of shape ({len(matrix)},)"
            )
        offset = offset[0]
    if offset.ndim > 2 or offset.size not in (1, len(matrix)):
        wrong = f"its third input has shape {list(offset.shape)}; it must be [{len(matrix)}], one value per output"
        raise ModelError(f"node '{node.name}' ({node.op.kind}): {wrong}")
    with np.errstate(over="ignore"):
        bias = np.broadcast_to(offset * offset.dtype.type(beta), (1, len(matrix)))[0]
    if not fits(matrix, bias):
        return
    weights = edit.constant(f"{w}:1x1", _upright(matrix))
    if alpha == 1:
        keep_whole(edit, w, weights, _upright if axis == 0 else _turned)
    op = Conv(Window(), 1, weights, edit.constant(f"{w}:bias", bias), scale)
    put_framed(edit, node, op, (x,))


def _upright(matrix: np.ndarray) -> np.ndarray:
    """A matrix [outputs, inputs] as weights of a 1x1 Conv."""
    return np.ascontiguousarray(matrix)[:, :, None, None]


def _turned(matrix: np.ndarray) -> np.ndarray:
    """A matrix [inputs, outputs] as weights of a 1x1 Conv."""
    return _upright(matrix.T)
