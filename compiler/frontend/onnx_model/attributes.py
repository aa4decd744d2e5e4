"""The attributes of operators that this compiler honours, and the refusal of others. `onnx_import.read` calls it.

ONNX knows which attributes an operator has. The table says which of them the passes read, or may ignore because they change nothing
that is read; a newer onnx package may know more. Its operators are those that some pass or rewrite looks into. Whatever else a
model has, onnxruntime runs as it stands, so its attributes are those that onnxruntime knows.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import onnx
from onnx import ModelProto, NodeProto

from cnna.compiler.graph.node_names import place_of
from cnna.spec.errors import ModelError

_WINDOW = ("auto_pad", "kernel_shape", "pads", "strides")
_REDUCE = ("axes", "keepdims", "noop_with_empty_axes")
_OLD = ("consumed_inputs",)  # a hint of opset 1, which `old_opsets` takes away
_BROADCAST = (*_OLD, "axis", "broadcast")  # until opset 6; `old_opsets` aligns the operands
_SAMPLES = ("coordinate_transformation_mode", "nearest_mode", "mode", "axes", "keep_aspect_ratio_policy", "antialias")

ATTRIBUTES: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("Abs", "Ceil", "Exp", "Floor", "Log", "Neg", "Reciprocal", "Relu", "Sigmoid", "Sqrt", "Tanh"), _OLD),
    **dict.fromkeys(("Max", "Mean", "Min", "Sum", "PRelu"), _OLD),
    **dict.fromkeys(("Add", "Div", "Mul", "Sub"), _BROADCAST),
    **dict.fromkeys(("Erf", "GlobalAveragePool", "GlobalMaxPool", "HardSwish", "Identity", "MatMul", "Mish", "Round"), ()),
    **dict.fromkeys(("Expand", "Softplus", "Softsign", "QLinearMatMul", "Tile"), ()),
    **dict.fromkeys(("ReduceMax", "ReduceMean", "ReduceSum"), _REDUCE),
    **dict.fromkeys(("Celu", "Swish", "ThresholdedRelu"), ("alpha",)),
    **dict.fromkeys(("Elu", "LeakyRelu"), (*_OLD, "alpha")),
    **dict.fromkeys(("Squeeze", "Unsqueeze"), ("axes",)),
    **dict.fromkeys(("Flatten", "Concat", "Gather"), ("axis",)),
    "AveragePool": (*_WINDOW, "ceil_mode", "count_include_pad", "dilations"),
    "BatchNormalization": (*_OLD, "epsilon", "is_test", "momentum", "spatial", "training_mode"),
    "Cast": ("round_mode", "saturate", "to"),  # only to float32 is looked into
    "Clip": (*_OLD, "max", "min"),
    "Conv": (*_WINDOW, "dilations", "group"),
    "ConvTranspose": (*_WINDOW, "dilations", "group", "output_padding", "output_shape"),
    "DepthToSpace": ("blocksize", "mode"),
    "DequantizeLinear": ("axis", "block_size", "output_dtype"),
    "Dropout": (*_OLD, "is_test", "ratio", "seed"),
    "Gelu": ("approximate",),
    "Gemm": ("alpha", "beta", "broadcast", "transA", "transB"),
    "HardSigmoid": (*_OLD, "alpha", "beta"),
    "MaxPool": (*_WINDOW, "ceil_mode", "dilations", "storage_order"),  # the last one orders the indices, which keep it on the CPU
    "Pad": ("mode", "paddings", "pads", "value"),
    "Pow": ("axis", "broadcast"),
    "QLinearConv": (*_WINDOW, "dilations", "group"),
    "QuantizeLinear": ("axis", "block_size", "output_dtype", "precision", "saturate"),
    "Reshape": (*_OLD, "allowzero", "shape"),
    "Resize": (*_SAMPLES, "cubic_coeff_a", "exclude_outside", "extrapolation_value"),  # these three for the modes of the CPU
    "Selu": (*_OLD, "alpha", "gamma"),
    "Slice": ("axes", "ends", "starts"),
    "SpaceToDepth": ("blocksize",),
    "Split": ("axis", "num_outputs", "split"),
    "Transpose": ("perm",),
    "Upsample": ("height_scale", "mode", "scales", "width_scale"),
}


def check_attributes(model: ModelProto) -> None:
    """ModelError: a node has an attribute that its operator does not have, or that is not in the table."""
    versions = {"" if entry.domain == "ai.onnx" else entry.domain: entry.version for entry in model.opset_import}
    theirs: Mapping[tuple[str, str], Collection[str]] | None = None
    for node in model.graph.node:
        domain = "" if node.domain == "ai.onnx" else node.domain
        known: Collection[str] | None
        if onnx.defs.has(node.op_type, versions.get(domain, 0), domain):
            known = onnx.defs.get_schema(node.op_type, versions[domain], domain).attributes
            known = known if domain else [name for name in known if name in ATTRIBUTES.get(node.op_type, known)]
        elif domain:
            theirs = _known_to_onnxruntime() if theirs is None else theirs
            known = theirs.get((domain, node.op_type))
        else:
            known = None
        if known is not None:
            _check(node, known)


def _check(node: NodeProto, known: Collection[str]) -> None:
    for entry in node.attribute:
        if entry.name not in known:
            has = f"only {', '.join(sorted(known))}" if known else "nor any other"
            what = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
            raise ModelError(f"{place_of(node)}: {what} has no attribute '{entry.name}', {has}; export the model without it")


def _known_to_onnxruntime() -> Mapping[tuple[str, str], Collection[str]]:
    """The attributes of all operators of other domains, by domain and operator. None of them if onnxruntime does not tell."""
    from onnxruntime.capi import onnxruntime_pybind11_state as onnxruntime_state

    schemas: Iterable[Any] = getattr(onnxruntime_state, "get_all_operator_schema", list)()
    found: dict[tuple[str, str], set[str]] = {}
    for schema in schemas:
        found.setdefault((schema.domain, schema.name), set()).update(schema.attributes)
    return found
