"""Rewrites the operators that onnxruntime's optimiser makes of several float ones: a FusedConv is a Conv and its activation again.

After that, shapes can be inferred, and passes find the operators that they know.
"""

from collections.abc import Sequence
from math import pi, sqrt
from typing import Any

from onnx import NodeProto

from cnna.compiler.frontend.onnx_model.expansion import Expansion, Surroundings

ACTIVATIONS: dict[str, tuple[str, ...]] = {  # and the attributes that their parameters are, in order
    **dict.fromkeys(("Relu", "Sigmoid", "Tanh", "Softplus", "Softsign", "HardSwish"), ()),
    **dict.fromkeys(("LeakyRelu", "Elu", "ThresholdedRelu"), ("alpha",)),
    "HardSigmoid": ("alpha", "beta"),
    "Selu": ("alpha", "gamma"),
    "Clip": ("min", "max"),
}


def fused_conv(node: NodeProto, around: Surroundings) -> list[NodeProto]:
    """The nodes for a FusedConv, or for one whose channels come last; itself if its activation is not in the table.

    With a fourth input it adds that to its sums, before the activation.
    """
    parts = Expansion(node, around)
    activation, given = parts.take("activation", ""), parts.take("activation_params", [])
    if activation and len(given) > len(ACTIVATIONS.get(activation, ())):
        return [node]
    values = dict(zip(ACTIVATIONS.get(activation, ()), given, strict=False))
    if node.op_type.startswith("Nhwc"):
        parts.turn(node.input[1])
    more = node.input[3] if len(node.input) > 3 else ""
    inputs = list(node.input[:3])
    while not inputs[-1]:
        inputs.pop()
    last = "" if more or activation else node.output[0]
    y = parts.work("Conv", inputs, last, **parts.kept)
    if more:
        y = parts.add("Add", [y, more], "" if activation else node.output[0])
    return _activated(parts, y, activation, values)


def fused_gemm(node: NodeProto, around: Surroundings) -> list[NodeProto]:
    """The nodes for a FusedGemm; itself if its activation is not in the table."""
    parts = Expansion(node, around)
    activation = parts.take("activation", "")
    values = {key.removeprefix("activation_"): parts.take(key) for key in [*parts.kept] if key.startswith("activation_")}
    if not set(values) <= set(ACTIVATIONS.get(activation, ())):
        return [node]
    y = parts.work("Gemm", [name for name in node.input if name], "" if activation else node.output[0], **parts.kept)
    return _activated(parts, y, activation, values)


def fused_mat_mul(node: NodeProto, around: Surroundings) -> list[NodeProto]:
    """The nodes for a FusedMatMul; itself if it turns batches, or an operand of an unknown number of axes."""
    parts = Expansion(node, around)
    turned = [parts.take(key, 0) for key in ("transA", "transB")]
    alpha, inputs = parts.take("alpha", 1.0), list(node.input)
    ranks = [around.rank(name) if turn else None for name, turn in zip(inputs, turned, strict=True)]
    if any(parts.take(key, 0) for key in ("transBatchA", "transBatchB")) or ranks.count(None) > turned.count(0):
        return [node]
    for side, rank in enumerate(ranks):
        if rank is not None and rank > 1:
            inputs[side] = parts.add("Transpose", [inputs[side]], perm=(*range(rank - 2), rank - 1, rank - 2))
    y = parts.work("MatMul", inputs, node.output[0] if alpha == 1 else "")
    if alpha != 1:
        parts.add("Mul", [y, parts.number("alpha", alpha)], node.output[0])
    return parts.nodes


def gelu(node: NodeProto, around: Surroundings) -> list[NodeProto]:
    """The nodes for a Gelu, BiasGelu, FastGelu or QuickGelu: as exporters spell them where ONNX has no such operator."""
    parts = Expansion(node, around)
    x, y = node.input[0], node.output[0]
    if len(node.input) > 1 and node.input[1]:
        x = parts.add("Add", [x, node.input[1]])
    if node.op_type == "QuickGelu":
        inner = parts.add("Mul", [x, parts.number("alpha", parts.take("alpha", 1.702))])
        parts.add("Mul", [x, parts.add("Sigmoid", [inner])], y, parts.base)
        return parts.nodes
    if node.op_type == "FastGelu":
        cube = parts.add("Mul", [parts.add("Mul", [x, x]), x])
        sum_ = parts.add("Add", [x, parts.add("Mul", [cube, parts.number("cubic", 0.044715)])])
        inner = parts.add("Tanh", [parts.add("Mul", [sum_, parts.number("root", sqrt(2 / pi))])])
    else:
        inner = parts.add("Erf", [parts.add("Mul", [x, parts.number("root", sqrt(0.5))])])
    share = parts.add("Mul", [parts.add("Add", [inner, parts.number("one", 1.0)]), parts.number("half", 0.5)])
    parts.add("Mul", [x, share], y, parts.base)
    return parts.nodes


def _activated(parts: Expansion, x: str, activation: str, values: dict[str, Any]) -> list[NodeProto]:
    """Adds the activation, if there is one, behind `x`; returns all nodes."""
    if activation not in ACTIVATIONS:
        return [parts.node] if activation else parts.nodes
    output = parts.node.output[0]
    if activation == "Clip":
        limits: Sequence[str] = [parts.number(key, values[key]) if key in values else "" for key in ACTIVATIONS["Clip"]]
        parts.add("Clip", [x, *limits], output)
    else:
        parts.add(activation, [x], output, **values)
    return parts.nodes
