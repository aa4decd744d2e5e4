"""Asks onnxruntime for the shapes of tensors that operators unknown to ONNX make. `source_model` calls it before shape inference.

ONNX infers nothing behind an operator of another domain. onnxruntime has rules for its own, and applies them when it opens a model,
so nothing runs.
"""

import onnx
from onnx import ModelProto, ValueInfoProto, helper

from cnna.compiler.frontend.onnx_model.hollow import as_inputs, hollow
from cnna.spec.cpu_ops import onnxruntime_errors, session_options

_NAMES = "float double float16 bfloat16 bool int8 int16 int32 int64 uint8 uint16 uint32 uint64"
# As onnxruntime calls them.
ELEMENTS = {f"tensor({name})": onnx.TensorProto.DataType.Value(name.upper()) for name in _NAMES.split()}


def describe_strangers(model: ModelProto) -> None:
    """Adds types and shapes of what strangers make to a hollow model, in place, as far as onnxruntime knows them."""
    names = [name for node in model.graph.node if is_stranger(node) for name in node.output if name]
    if not names:
        return
    import onnxruntime as ort

    copy = as_inputs(hollow(model))
    del copy.graph.output[:]
    copy.graph.output.extend(ValueInfoProto(name=name) for name in names)
    options = session_options(ort)
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        found = ort.InferenceSession(copy.SerializeToString(), options, providers=["CPUExecutionProvider"]).get_outputs()
    except onnxruntime_errors():
        return  # whoever runs it will say why
    outputs = {value.name: value for value in model.graph.output}
    for value in found:
        if value.type in ELEMENTS:
            made = helper.make_tensor_value_info(value.name, ELEMENTS[value.type], value.shape or None)
            (outputs[value.name] if value.name in outputs else model.graph.value_info.add()).CopyFrom(made)


def is_stranger(node: onnx.NodeProto) -> bool:
    """Whether ONNX does not know a node's operator, or has no rule for its shape, as for most of ai.onnx.ml."""
    return node.domain not in ("", "ai.onnx") and (node.domain == "ai.onnx.ml" or not onnx.defs.has(node.op_type, node.domain))
