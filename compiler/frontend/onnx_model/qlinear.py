"""Rewrites QLinear operators, as onnxruntime's QOperator format has them, as DQ, operator, Q.

After that there is only one form of quantised models. onnxruntime's optimiser lets the channels of some come last: these get
Transposes around the operator, on the side of the real numbers, so that Q and DQ meet those of their neighbours.
"""

from collections.abc import Sequence

from onnx import NodeProto, TensorProto

from cnna.compiler.frontend.onnx_model.expansion import Expansion, Surroundings
from cnna.compiler.graph.node_names import place_of
from cnna.spec.errors import ModelError

POOLS = {"QLinearGlobalAveragePool": "GlobalAveragePool", "QLinearAveragePool": "AveragePool"}
UNARY = {"QLinearSigmoid": "Sigmoid", "QLinearLeakyRelu": "LeakyRelu", "QLinearSoftmax": "Softmax"}
BINARY = {"QLinearAdd": "Add", "QLinearMul": "Mul"}
AXIS_SOFTMAX = 13  # the opset from which on a Softmax works along one axis
LEAST_INPUTS = {"QGemm": 6, "QLinearConcat": 5, "QLinearWhere": 8, **dict.fromkeys((*UNARY, *POOLS), 4)}  # 7 for others
BARE = ("QLinearSigmoid", "QLinearLeakyRelu")  # may lack both zero points, which are 0 then
SHORT = (TensorProto.INT8, TensorProto.UINT8, TensorProto.INT32)  # what Q and DQ of ONNX's own know in each opset


def q_linear(node: NodeProto, around: Surroundings) -> list[NodeProto]:
    """The nodes for a QLinear operator or QGemm.

    ModelError: it has too few inputs, or its bias has not one value per output channel.
    """
    _check_inputs(node)
    _check_bias(node, around)
    kind, parts, i = node.op_type, Expansion(node, around), [*node.input, *[""] * 10]
    if parts.take("channels_last", 0):
        parts.turn(i[3] if kind == "QLinearConv" else "")
    if kind == "QLinearConv":
        inputs = [_real(parts, i[0:3]), _real(parts, i[3:6], 0), *_bias(parts, i[8], _product(parts, i[1], i[4]))]
        return _rounded(parts, "Conv", inputs, i[6], i[7])
    if kind == "QLinearMatMul":
        return _rounded(parts, "MatMul", [_real(parts, i[0:3]), _real(parts, i[3:6], 1)], i[6], i[7])
    if kind == "QGemm":
        return _gemm(parts, i)
    if kind in BINARY:
        return _rounded(parts, BINARY[kind], [_real(parts, i[0:3]), _real(parts, i[3:6])], i[6], i[7])
    if kind == "QLinearWhere":
        return _rounded(parts, "Where", [i[0], _real(parts, i[1:4]), _real(parts, i[4:7])], i[7], i[8])
    if kind == "QLinearConcat":
        inputs = [_real(parts, node.input[first : first + 3]) for first in range(2, len(node.input), 3)]
        return _rounded(parts, "Concat", inputs, i[0], i[1])
    if kind == "QLinearSoftmax" and parts.take("opset", 0) < AXIS_SOFTMAX:
        return _flat_softmax(parts)
    if kind in BARE and not i[4]:  # its integers are those of its input, not the uint8 that a Q without a zero point makes
        i[4] = parts.number("zero", 0, around.kind(i[0]) or TensorProto.UINT8)
    return _rounded(parts, {**POOLS, **UNARY}[kind], [_real(parts, i[0:3])], i[3], i[4])


def nhwc_max_pool(node: NodeProto, around: Surroundings) -> list[NodeProto]:
    """The nodes for a MaxPool of int8 whose channels come last."""
    parts = Expansion(node, around)
    parts.turn()
    parts.work("MaxPool", node.input, node.output[0], **parts.kept)
    return parts.nodes


def q_or_dq(node: NodeProto, around: Surroundings) -> list[NodeProto]:
    """Q or DQ as ONNX has it. The node itself if it has a type that ONNX gave its own in a later opset."""
    if len(node.input) > 2 and around.types.get(node.input[2]) not in SHORT:
        return [node]
    made = NodeProto()
    made.CopyFrom(node)
    made.domain = ""
    return [made]


def _check_inputs(node: NodeProto) -> None:
    """ModelError: there are too few inputs. ONNX's checker does not see that for operators of com.microsoft."""
    kind, count = node.op_type, sum(map(bool, node.input))
    if kind in BARE and len(node.input) > 3 and all((node.input[0], node.input[1], node.input[3])):
        return
    if count < LEAST_INPUTS.get(kind, 7) or (kind == "QLinearConcat" and len(node.input) % 3 != 2):
        raise ModelError(
            f"node '{node.name or node.output[0]}' ({kind}) has {count} inputs, fewer than it needs; export the model again"
        )


def _check_bias(node: NodeProto, around: Surroundings) -> None:
    """ModelError: a QLinearConv's bias has not one value for each output channel. Its DQ would blame a scale."""
    if node.op_type != "QLinearConv" or len(node.input) < 9:
        return
    weights, bias = around.dims.get(node.input[3]), around.dims.get(node.input[8])
    if weights and bias is not None and bias != weights[:1]:
        raise ModelError(
            f"{place_of(node)}: its bias '{node.input[8]}' has shape {list(bias)}; it must be [{weights[0]}], one value per channel"
        )


def _real(parts: Expansion, operand: Sequence[str], axis: int | None = None) -> str:
    """Adds the DQ of (tensor, scale, zero point); returns its output."""
    output = f"{parts.base}:{operand[0]}:real{len(parts.nodes)}"
    how = {} if axis is None else {"axis": axis}
    return parts.add("DequantizeLinear", [name for name in operand if name], output, f"{output}:dq", **how)


def _rounded(parts: Expansion, kind: str, inputs: list[str], scale: str, zero: str) -> list[NodeProto]:
    """Adds the operator itself and its Q; returns all nodes."""
    raw = parts.work(kind, inputs, f"{parts.node.output[0]}:real", **parts.kept)
    read = [name for name in (raw, scale, zero) if name]
    parts.add("QuantizeLinear", read, parts.node.output[0], f"{parts.base}:q")
    return parts.nodes


def _product(parts: Expansion, *scales: str) -> str:
    """Adds the product of scales; its name is read in errors."""
    name = f"{parts.base}:{' * '.join(scales)}"
    return parts.add("Mul", scales[:2], name, f"{name}:mul")


def _bias(parts: Expansion, bias: str, scale: str) -> list[str]:
    """The real bias of an int32 one."""
    return [_real(parts, [bias, scale, ""], 0)] if bias else []


def _gemm(parts: Expansion, i: Sequence[str]) -> list[NodeProto]:
    """onnxruntime adds the bias to the sum of whole numbers, so `alpha` is a factor of both. Without an output scale, y is real."""
    scale = _product(parts, i[1], i[4]) if i[6] else ""
    bias = _bias(parts, i[6], scale)
    alpha = parts.kept.get("alpha", 1.0)
    if bias and alpha != 1.0:
        bias = [parts.add("Mul", [*bias, parts.number("alpha", alpha)])]
    inputs = [_real(parts, i[0:3]), _real(parts, i[3:6], 0 if parts.kept.get("transB") else 1), *bias]
    if i[7]:
        return _rounded(parts, "Gemm", inputs, i[7], i[8])
    parts.work("Gemm", inputs, parts.node.output[0], **parts.kept)
    return parts.nodes


def _flat_softmax(parts: Expansion) -> list[NodeProto]:
    """A Softmax over all axes from `axis` on, as it was before AXIS_SOFTMAX: of a flattened tensor.

    Without the attribute, onnxruntime takes the last axis, whatever the opset.
    """
    node, x = parts.node, _real(parts, parts.node.input[:3])
    shape, flat, done, raw = (f"{node.output[0]}:{what}" for what in ("shape", "flat", "softmax", "real"))
    parts.add("Shape", [x], shape, f"{parts.base}:shape")
    parts.add("Flatten", [x], flat, f"{parts.base}:flat", axis=parts.take("axis", -1))
    parts.add("Softmax", [flat], done, parts.base, axis=-1)
    parts.add("Reshape", [done, shape], raw, f"{parts.base}:back")
    parts.add("QuantizeLinear", [raw, *node.input[3:5]], node.output[0], f"{parts.base}:q")
    return parts.nodes
