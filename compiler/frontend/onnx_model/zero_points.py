"""Writes out the zero points that QuantizeLinear and DequantizeLinear leave out. `source_model` calls it behind shape inference.

A Q without a zero point rounds to the type of its `output_dtype`, and to uint8 without either. A DQ without one reads whatever type
its input has. Everything behind this module reads the type from a zero point, so there is one place that knows these rules.
"""

from collections.abc import Mapping
from itertools import count

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

KINDS = ("QuantizeLinear", "DequantizeLinear")
BARE = (TensorProto.INT32, TensorProto.UNDEFINED)  # sums, which have no zero point, and what is not known
Type = tuple[int, list[int] | None]  # element type and sizes of a tensor, None for a shape that is not known


def write_zero_points(model: ModelProto) -> None:
    """Works in place on a model with inferred types. Every Q then has a zero point, and every DQ but those of sums.

    The zero point says what `output_dtype` said, so that attribute goes. A node is left alone if its scale's shape is not known.
    """
    bare = [node for node in model.graph.node if node.domain in ("", "ai.onnx") and node.op_type in KINDS and not _zero(node)]
    types = _types(model) if bare else {}
    taken = {*types}.union(*(node.output for node in model.graph.node))
    for node in bare:
        sizes = types.get(node.input[1], (0, None))[1]
        kind = _kind(node, types)
        if kind and sizes is not None and min(sizes, default=1) > 0:
            name = next(name for n in count() if (name := f"{node.output[0]}:zero{n or ''}") not in taken)
            _write(model, node, numpy_helper.from_array(np.zeros(sizes, helper.tensor_dtype_to_np_dtype(kind)), name))


def _zero(node: NodeProto) -> str:
    """The name of a node's zero point; "" without one."""
    return node.input[2] if len(node.input) > 2 else ""


def _types(model: ModelProto) -> Mapping[str, Type]:
    found: dict[str, Type] = {}
    for value in (*model.graph.value_info, *model.graph.input, *model.graph.output):
        kind = value.type.tensor_type
        found[value.name] = (kind.elem_type, [dim.dim_value for dim in kind.shape.dim] if kind.HasField("shape") else None)
    return found | {tensor.name: (tensor.data_type, list(tensor.dims)) for tensor in model.graph.initializer}


def _kind(node: NodeProto, types: Mapping[str, Type]) -> int:
    """The element type that a node without a zero point rounds to or reads; 0 if the node needs none."""
    if node.op_type == "QuantizeLinear":
        return next((entry.i for entry in node.attribute if entry.name == "output_dtype"), 0) or TensorProto.UINT8
    kind = types.get(node.input[0], (0, None))[0]
    return 0 if kind in BARE else kind


def _write(model: ModelProto, node: NodeProto, zero: TensorProto) -> None:
    if node.op_type == "QuantizeLinear":
        for entry in [entry for entry in node.attribute if entry.name == "output_dtype"]:
            node.attribute.remove(entry)
    model.graph.initializer.append(zero)
    del node.input[2:]
    node.input.append(zero.name)
