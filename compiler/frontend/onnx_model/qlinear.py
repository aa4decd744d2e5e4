"""Rewrites QLinear operators, as onnxruntime's QOperator format has them, in place as DQ, operator, Q.

After that there is only one form of quantised models. The operators of the domain com.microsoft are known by name only; ONNX
itself has no shape rule for them.
"""

from collections.abc import Mapping, Sequence

from onnx import ModelProto, NodeProto, helper

from cnna.compiler.graph.node_names import node_name, place_of
from cnna.spec.errors import ModelError

POOLS = {"QLinearGlobalAveragePool": "GlobalAveragePool", "QLinearAveragePool": "AveragePool"}
UNARY = {"QLinearSigmoid": "Sigmoid", "QLinearLeakyRelu": "LeakyRelu", "QLinearSoftmax": "Softmax"}
BINARY = {"QLinearAdd": "Add", "QLinearMul": "Mul"}
OTHERS = ("QLinearConv", "QLinearMatMul", "QGemm", "QLinearConcat")
AXIS_SOFTMAX = 13  # the opset from which on a Softmax works along one axis
LEAST_INPUTS = {**dict.fromkeys((*OTHERS, *BINARY), 7), "QGemm": 6, "QLinearConcat": 5}  # 4 for those that are not named


def expand_qlinear(model: ModelProto) -> frozenset[str]:
    """Rewrites every QLinear node of `model`; others stay as they are.

    Returns the outputs of the average pools, whose divisor differs from AveragePool's: if it counts padding, it also counts the
    part of a window beyond the padding (`ceil_pools` writes that).

    ModelError: a node has too few inputs, or its bias has not one value per output channel.
    """
    dims = {tensor.name: tuple(tensor.dims) for tensor in model.graph.initializer}
    nodes: list[NodeProto] = []
    pools: set[str] = set()
    for node in model.graph.node:
        _check_bias(node, dims)
        made = _expand(node)
        if node.op_type == "QLinearAveragePool":
            pools |= {one.output[0] for one in made if one.op_type == "AveragePool"}
        nodes += made
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return frozenset(pools)


class _Expansion:
    """The nodes that one QLinear node becomes."""

    def __init__(self, node: NodeProto) -> None:
        self.base = node_name(node)
        self.nodes: list[NodeProto] = []

    def real(self, operand: Sequence[str], axis: int | None = None) -> str:
        """Adds the DQ of (tensor, scale, zero point); returns its output."""
        output = f"{self.base}:{operand[0]}:real{len(self.nodes)}"
        inputs = [name for name in operand if name]
        made = helper.make_node("DequantizeLinear", inputs, [output], f"{output}:dq")
        if axis is not None:
            made.attribute.append(helper.make_attribute("axis", axis))
        self.nodes.append(made)
        return output

    def finish(
        self, kind: str, inputs: list[str], node: NodeProto, scale: str, zero: str, drop: tuple[str, ...] = ()
    ) -> list[NodeProto]:
        """Adds the operator itself and its Q."""
        raw = f"{node.output[0]}:real"
        made = helper.make_node(kind, inputs, [raw], self.base)
        made.attribute.extend(entry for entry in node.attribute if entry.name not in drop)
        quantise = helper.make_node(
            "QuantizeLinear", [name for name in (raw, scale, zero) if name], [node.output[0]], f"{self.base}:q"
        )
        return [*self.nodes, made, quantise]


def _check_inputs(node: NodeProto) -> None:
    """ModelError: there are too few inputs. ONNX's checker does not see that for operators of com.microsoft."""
    kind, count = node.op_type, sum(map(bool, node.input))
    least = LEAST_INPUTS.get(kind, 4)
    if count < least or (kind == "QLinearConcat" and len(node.input) % 3 != 2):
        raise ModelError(
            f"node '{node.name or node.output[0]}' ({kind}) has {count} inputs, fewer than it needs; export the model again"
        )


def _check_bias(node: NodeProto, dims: Mapping[str, tuple[int, ...]]) -> None:
    """ModelError: a QLinearConv's bias, of `dims`, has not one value for each output channel. Its DQ would blame a scale."""
    if node.op_type != "QLinearConv" or len(node.input) < 9:
        return
    weights, bias = dims.get(node.input[3]), dims.get(node.input[8])
    if weights and bias is not None and bias != weights[:1]:
        raise ModelError(
            f"{place_of(node)}: its bias '{node.input[8]}' has shape {list(bias)}; it must be [{weights[0]}], one value per channel"
        )


def _expand(node: NodeProto) -> list[NodeProto]:
    kind, parts = node.op_type, _Expansion(node)
    if node.domain not in ("", "ai.onnx", "com.microsoft"):
        return [node]
    if kind in (*OTHERS, *BINARY, *POOLS, *UNARY):
        _check_inputs(node)
    i = [*node.input, *[""] * 10]
    if kind == "QLinearConv":
        inputs = [parts.real(i[0:3]), parts.real(i[3:6], 0), *_bias(parts, node, i[8], i[1], i[4])]
        return parts.finish("Conv", inputs, node, i[6], i[7])
    if kind == "QLinearMatMul":
        return parts.finish("MatMul", [parts.real(i[0:3]), parts.real(i[3:6], 1)], node, i[6], i[7])
    if kind == "QGemm" and i[7]:
        axis = 0 if any(entry.name == "transB" and entry.i for entry in node.attribute) else 1
        inputs = [parts.real(i[0:3]), parts.real(i[3:6], axis), *_bias(parts, node, i[6], i[1], i[4])]
        return parts.finish("Gemm", inputs, node, i[7], i[8])
    if kind in BINARY:
        return parts.finish(BINARY[kind], [parts.real(i[0:3]), parts.real(i[3:6])], node, i[6], i[7])
    if kind in POOLS and not any(entry.name == "channels_last" and entry.i for entry in node.attribute):
        return parts.finish(POOLS[kind], [parts.real(i[0:3])], node, i[3], i[4], ("channels_last",))
    if kind == "QLinearSoftmax" and _number(node, "opset", 0) < AXIS_SOFTMAX:
        return _flat_softmax(parts, node)
    if kind in UNARY:
        return parts.finish(UNARY[kind], [parts.real(i[0:3])], node, i[3], i[4], ("opset",))
    if kind == "QLinearConcat":
        inputs = [parts.real(node.input[first : first + 3]) for first in range(2, len(node.input), 3)]
        return parts.finish("Concat", inputs, node, i[0], i[1])
    if node.domain == "com.microsoft" and kind in ("QuantizeLinear", "DequantizeLinear"):
        made = NodeProto()
        made.CopyFrom(node)
        made.domain = ""
        return [made]
    return [node]


def _number(node: NodeProto, name: str, default: int) -> int:
    """An integer attribute of a node."""
    return next((int(entry.i) for entry in node.attribute if entry.name == name), default)


def _flat_softmax(parts: _Expansion, node: NodeProto) -> list[NodeProto]:
    """A Softmax over all axes from `axis` on, as it was before AXIS_SOFTMAX: of a flattened tensor.

    Without the attribute, onnxruntime takes the last axis, whatever the opset.
    """
    x = parts.real(node.input[:3])
    shape, flat, done, raw = (f"{node.output[0]}:{what}" for what in ("shape", "flat", "softmax", "real"))
    return [
        *parts.nodes,
        helper.make_node("Shape", [x], [shape], f"{parts.base}:shape"),
        helper.make_node("Flatten", [x], [flat], f"{parts.base}:flat", axis=_number(node, "axis", -1)),
        helper.make_node("Softmax", [flat], [done], parts.base, axis=-1),
        helper.make_node("Reshape", [done, shape], [raw], f"{parts.base}:back"),
        helper.make_node("QuantizeLinear", [raw, *node.input[3:5]], [node.output[0]], f"{parts.base}:q"),
    ]


def _bias(parts: _Expansion, node: NodeProto, bias: str, scale_x: str, scale_w: str) -> list[str]:
    """The real bias of an int32 one: its scale is the product of the input's and the weights' scales."""
    if not bias:
        return []
    scale = f"{parts.base}:{scale_x} * {scale_w}"  # the name is read in errors
    parts.nodes.append(helper.make_node("Mul", [scale_x, scale_w], [scale], f"{scale}:mul"))
    return [parts.real([bias, scale, ""], 0)]
