"""Refuses windows whose output has one size by ONNX's rules and another in onnxruntime. `onnx_import.read` calls it.

The sizes of ONNX decide where tensors lie, and onnxruntime computes what stays on the CPU and what users compare with. If the two
differ, no answer fits both. So each window whose size is not given by its pads alone is tried once, with one channel of zeros.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper

from cnna.compiler.graph.node_names import place_of
from cnna.spec.cpu_ops import onnxruntime_errors, session_options
from cnna.spec.errors import ModelError

WINDOWS = ("ConvTranspose", "MaxPool", "AveragePool", "LpPool")
Shape = tuple[int, ...]


def check_disputed_shapes(model: ModelProto) -> None:
    """ModelError: onnxruntime makes another size of a window than a model with inferred shapes says; names both, and the remedy."""
    shapes = _shapes(model)
    tried: dict[tuple[Any, ...], Shape | None] = {}
    for node in model.graph.node:
        how = _undecided(node)
        if how is None:
            continue
        before, after = shapes.get(node.input[0], ()), shapes.get(node.output[0], ())
        if len(before) < 3 or len(after) != len(before) or min(*before[2:], *after[2:]) < 1:
            continue
        kernel = shapes.get(node.input[1], ())[2:] if node.op_type == "ConvTranspose" else ()
        key = (node.op_type, repr(sorted(how.items())), before[2:], kernel)
        if key not in tried:
            tried[key] = _made(node.op_type, how, before[2:], kernel, model)
        if (made := tried[key]) is not None and made != after[2:]:
            named = [" x ".join(map(str, size)) for size in (after[2:], made)]
            raise ModelError(
                f"{place_of(node)}: its output is {named[0]} by ONNX's rules and {named[1]} in onnxruntime; "
                f"export it with explicit pads, without {' and '.join(_named(how))}"
            )


def _shapes(model: ModelProto) -> Mapping[str, Shape]:
    values = (*model.graph.value_info, *model.graph.input, *model.graph.output)
    found = {value.name: tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim) for value in values}
    return found | {tensor.name: tuple(tensor.dims) for tensor in model.graph.initializer}


def _undecided(node: NodeProto) -> dict[str, Any] | None:
    """The attributes of a window, if not its pads alone give its size; None for other nodes."""
    if node.domain not in ("", "ai.onnx") or node.op_type not in WINDOWS:
        return None
    how = {entry.name: helper.get_attribute_value(entry) for entry in node.attribute}
    return how if _named(how) else None


def _named(how: Mapping[str, Any]) -> list[str]:
    """The attributes that decide a size in a way on which tools disagree."""
    same = how.get("auto_pad", b"NOTSET") in (b"SAME_UPPER", b"SAME_LOWER")
    return ["auto_pad"] * same + [key for key in ("ceil_mode", "output_shape") if how.get(key)]


def _made(kind: str, how: Mapping[str, Any], size: Shape, kernel: Shape, model: ModelProto) -> Shape | None:
    """The size that onnxruntime makes; None if it does not run the node at all, which whoever needs it there will say."""
    import onnxruntime as ort  # here and elsewhere in this room only where it is asked: it takes a tenth of a second

    zeros = {"x": np.zeros((1, 1, *size), np.float32)} | ({"w": np.zeros((1, 1, *kernel), np.float32)} if kernel else {})
    own = {key: value for key, value in how.items() if key != "group"}
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, value.shape) for name, value in zeros.items()]
    graph = helper.make_graph([helper.make_node(kind, [*zeros], ["y"], **own)], "one", inputs, [ValueInfoProto(name="y")])
    opsets = [entry for entry in model.opset_import if entry.domain in ("", "ai.onnx")]
    alone = helper.make_model(graph, opset_imports=opsets, ir_version=min(model.ir_version, onnx.IR_VERSION))
    try:
        session = ort.InferenceSession(alone.SerializeToString(), session_options(ort), providers=["CPUExecutionProvider"])
        return tuple(session.run(None, zeros)[0].shape[2:])
    except onnxruntime_errors():
        return None
