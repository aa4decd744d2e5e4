"""Rewrites the operators of onnxruntime's domain that this compiler understands as ONNX's own. `source_model` calls it.

The table names every attribute that an operator's rewrite honours; a node with another one is refused, because nobody knows what it
asks for. Operators that are not in the table stay as they are: onnxruntime runs them on the CPU, and refuses what it does not know.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from onnx import AttributeProto, ModelProto, NodeProto

from cnna.compiler.frontend.onnx_model.expansion import Surroundings
from cnna.compiler.frontend.onnx_model.fused import fused_conv, fused_gemm, fused_mat_mul, gelu
from cnna.compiler.frontend.onnx_model.qlinear import nhwc_max_pool, q_linear, q_or_dq
from cnna.compiler.graph.node_names import place_of
from cnna.spec.errors import ModelError

MICROSOFT = "com.microsoft"
INT, INTS, FLOAT, FLOATS, STRING = (getattr(AttributeProto, kind) for kind in ("INT", "INTS", "FLOAT", "FLOATS", "STRING"))
KINDS = {INT: "a whole number", INTS: "whole numbers", FLOAT: "a number", FLOATS: "numbers", STRING: "a word"}

Types = Mapping[str, int]  # of attributes, by name


@dataclass(frozen=True)
class Vendor:
    """An operator: the attributes that its rewrite honours, with their types, and the rewrite."""

    attributes: Types
    expand: Callable[[NodeProto, Surroundings], list[NodeProto]]


_POOL: Types = {"auto_pad": STRING, "ceil_mode": INT, "kernel_shape": INTS, "pads": INTS, "strides": INTS}
_CONV: Types = {"auto_pad": STRING, "dilations": INTS, "group": INT, "kernel_shape": INTS, "pads": INTS, "strides": INTS}
_FUSED_CONV: Types = {**_CONV, "activation": STRING, "activation_params": FLOATS}
_GEMM: Types = {"alpha": FLOAT, "transA": INT, "transB": INT}
_BATCHES: Types = {"transBatchA": INT, "transBatchB": INT}
_ACTIVATION: Types = {"activation": STRING, **{f"activation_{key}": FLOAT for key in ("alpha", "beta", "gamma")}}
_LAST: Types = {"channels_last": INT}

OPERATORS: Mapping[tuple[str, str], Vendor] = {
    ("", "QLinearConv"): Vendor(_CONV, q_linear),
    ("", "QLinearMatMul"): Vendor({}, q_linear),
    (MICROSOFT, "QLinearConv"): Vendor({**_CONV, **_LAST}, q_linear),
    (MICROSOFT, "QLinearAdd"): Vendor({}, q_linear),
    (MICROSOFT, "QLinearMul"): Vendor({}, q_linear),
    (MICROSOFT, "QLinearConcat"): Vendor({"axis": INT}, q_linear),
    (MICROSOFT, "QLinearWhere"): Vendor({}, q_linear),
    (MICROSOFT, "QLinearSigmoid"): Vendor({}, q_linear),
    (MICROSOFT, "QLinearLeakyRelu"): Vendor({"alpha": FLOAT}, q_linear),
    (MICROSOFT, "QLinearSoftmax"): Vendor({"axis": INT, "opset": INT}, q_linear),
    (MICROSOFT, "QLinearGlobalAveragePool"): Vendor(_LAST, q_linear),
    (MICROSOFT, "QLinearAveragePool"): Vendor({**_POOL, **_LAST, "count_include_pad": INT}, q_linear),
    (MICROSOFT, "QGemm"): Vendor(_GEMM, q_linear),
    (MICROSOFT, "NhwcMaxPool"): Vendor({**_POOL, "dilations": INTS}, nhwc_max_pool),
    (MICROSOFT, "QuantizeLinear"): Vendor({"axis": INT}, q_or_dq),
    (MICROSOFT, "DequantizeLinear"): Vendor({"axis": INT}, q_or_dq),
    (MICROSOFT, "FusedConv"): Vendor(_FUSED_CONV, fused_conv),
    (MICROSOFT, "NhwcFusedConv"): Vendor(_FUSED_CONV, fused_conv),
    (MICROSOFT, "FusedGemm"): Vendor({**_GEMM, **_ACTIVATION, "beta": FLOAT}, fused_gemm),
    (MICROSOFT, "FusedMatMul"): Vendor({**_GEMM, **_BATCHES}, fused_mat_mul),
    (MICROSOFT, "TransposeMatMul"): Vendor(_GEMM, fused_mat_mul),
    (MICROSOFT, "Gelu"): Vendor({}, gelu),
    (MICROSOFT, "BiasGelu"): Vendor({}, gelu),
    (MICROSOFT, "FastGelu"): Vendor({}, gelu),
    (MICROSOFT, "QuickGelu"): Vendor({"alpha": FLOAT}, gelu),
}


def expand_vendor(model: ModelProto) -> frozenset[str]:
    """Rewrites in place every node whose operator is in the table.

    Returns the outputs of the average pools, whose divisor differs from AveragePool's: if it counts padding, it also counts the
    part of a window beyond the padding (`ceil_pools` writes that).

    ModelError: a node has an attribute that its rewrite does not know, or as of `q_linear`.
    """
    around = Surroundings(model)
    pools: set[str] = set()
    for node in model.graph.node:
        found = OPERATORS.get(("" if node.domain == "ai.onnx" else node.domain, node.op_type))
        if found is None:
            around.done.append(node)
            continue
        _check_attributes(node, found.attributes)
        made = found.expand(node, around)
        if node.op_type == "QLinearAveragePool":
            pools |= {one.output[0] for one in made if one.op_type == "AveragePool"}
        around.done += made
    nodes = list(around.done)
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    model.graph.initializer.extend(around.constants)
    return frozenset(pools)


def _check_attributes(node: NodeProto, known: Types) -> None:
    """ModelError: a node has an attribute that is not known, or one of another type."""
    for entry in node.attribute:
        if entry.name not in known:
            raise ModelError(
                f"{place_of(node)}: its attribute '{entry.name}' is not honoured here; save the model before a tool optimises it"
            )
        if entry.type != known[entry.name]:
            raise ModelError(f"{place_of(node)}: its attribute '{entry.name}' must be {KINDS[known[entry.name]]}; save it again")
