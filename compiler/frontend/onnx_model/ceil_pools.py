"""Rewrites pools with `ceil_mode` whose inferred size differs from the one that runs. `source_model` calls it before shape
inference.

ONNX's shape inference counts a last window that starts beyond the input and its front padding. onnxruntime, and the text of the
specification, drop it. Such a pool is written without `ceil_mode`, or with less padding, so that all agree on its size.
QLinearAveragePool averages over whole windows; it is written with the padding that fills its last window.
"""

from collections.abc import Set
from typing import Any

import onnx
from onnx import ModelProto, NodeProto

from cnna.compiler.frontend.onnx_model.computed_sizes import with_sizes
from cnna.compiler.graph.float_ops import Onnx
from cnna.compiler.graph.ir import Window
from cnna.compiler.passes.canonical.typed_operators import window_of
from cnna.spec.errors import ModelError

POOLS = ("MaxPool", "AveragePool")


def settle_ceil_pools(model: ModelProto, name: str, whole: Set[str] = frozenset()) -> None:
    """Rewrites in place and in order, since one pool's size is the next one's input. ModelError: a pool that cannot be rewritten.

    `whole`: outputs of the pools whose divisor, if it counts padding, is the size of the window even beyond the edge.
    """
    sizes = None
    for node in model.graph.node:
        if node.op_type not in POOLS or node.domain not in ("", "ai.onnx") or not _values(node).get("ceil_mode"):
            continue
        sizes = sizes or _sizes(model)
        size = sizes.get(node.input[0], ())
        if 1 <= len(size) <= 2 and min(size) > 0 and _settle(node, size, name, node.output[0] in whole):
            sizes = None


def _values(node: NodeProto) -> dict[str, Any]:
    return {entry.name: onnx.helper.get_attribute_value(entry) for entry in node.attribute}


def _sizes(model: ModelProto) -> dict[str, tuple[int, ...]]:
    """Spatial sizes, as far as they are known. The inference is not strict, since what follows a wrong size need not fit."""
    graph = with_sizes(model).graph
    known = {}
    for value in (*graph.value_info, *graph.input, *graph.output):
        known[value.name] = tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim)[2:]
    return known


def _settle(node: NodeProto, size: tuple[int, ...], name: str, whole: bool) -> bool:
    """Rewrites a node with a window to drop or to fill, so that all count it alike. Returns whether there was one."""
    values = _values(node)
    values["auto_pad"] = values.get("auto_pad", b"NOTSET").decode()
    window = window_of(Onnx(node.op_type, values), tuple(values["kernel_shape"]), size)
    left_over = [_left_over(window, axis, length) for axis, length in enumerate((1, *size)[-2:])]
    if not any(dropped or (whole and pixels) for dropped, pixels in left_over):
        return False
    keep = bool(values.get("count_include_pad")) and not whole and not all(dropped or not pixels for dropped, pixels in left_over)
    pads = list(window.pads)
    for axis, (dropped, pixels) in enumerate(left_over):
        if keep and dropped:  # the divisor counts padding but not what lies beyond it, so the other axis needs ceil_mode
            pads[axis + 2] -= pixels
        elif not keep and not dropped and pixels:
            pads[axis + 2] += window.stride[axis] - pixels
    if min(pads) < 0:
        raise ModelError(
            f"{name}: node '{node.name or node.output[0]}' ({node.op_type}): ceil_mode=1 drops the last window on one axis and "
            "keeps it on the other, with count_include_pad=1; export it with ceil_mode=0 and explicit pads"
        )
    _replace(node, auto_pad=None, ceil_mode=int(keep), pads=pads if len(size) == 2 else pads[1::2])
    return True


def _left_over(window: Window, axis: int, length: int) -> tuple[bool, int]:
    """Whether the last window is dropped, and how many padded pixels remain behind the last whole window."""
    front, stride = window.pads[axis], window.stride[axis]
    span = (window.kernel[axis] - 1) * window.dilation[axis] + 1
    room = length + front + window.pads[axis + 2] - span
    return -(-room // stride) * stride >= length + front, room % stride


def _replace(node: NodeProto, **values: Any) -> None:
    for old in [entry for entry in node.attribute if entry.name in values]:
        node.attribute.remove(old)
    node.attribute.extend(onnx.helper.make_attribute(key, value) for key, value in values.items() if value is not None)
