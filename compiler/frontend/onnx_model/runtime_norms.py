"""Writes out the normalisations that onnxruntime's optimiser puts under ONNX's name where ONNX has no such operator.

Its LayerNormalization stands in opsets below 17 too, its SimplifiedLayerNormalization in all. ONNX's checker and shape inference
know neither, so this comes before them. `onnx_import` calls it.
"""

from onnx import ModelProto, NodeProto

from cnna.compiler.frontend.onnx_model.expansion import Expansion, Surroundings

LAYER, SIMPLIFIED = "LayerNormalization", "SimplifiedLayerNormalization"
LAYER_SINCE, AXES_SINCE = 17, 18  # the opsets from which on ONNX has the operator, and a ReduceMean has its axes as an input
KNOWN = {"axis", "epsilon", "stash_type"}


def write_out_norms(model: ModelProto, opset: int) -> None:
    """Works in place. Leaves alone what has other attributes, or axes that nothing tells: it is refused by name later."""
    kinds = {SIMPLIFIED} if opset >= LAYER_SINCE else {LAYER, SIMPLIFIED}
    if not any(node.op_type in kinds and node.domain in ("", "ai.onnx") for node in model.graph.node):
        return
    around = Surroundings(model)
    for node in model.graph.node:
        own = node.op_type in kinds and node.domain in ("", "ai.onnx")
        around.done += (_written_out(node, around, opset) if own else None) or [node]
    nodes = list(around.done)
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    model.graph.initializer.extend(around.constants)


def _written_out(node: NodeProto, around: Surroundings, opset: int) -> list[NodeProto] | None:
    """The nodes for one; None if its axes are not known."""
    parts = Expansion(node, around)
    axis, count = parts.take("axis", -1), len(around.dims.get(node.input[1], ())) or 1
    if not {*parts.kept} <= KNOWN or (axis >= 0 and node.input[1] not in around.dims):
        return None
    axes = list(range(-count if axis >= 0 else axis, 0))
    x, scale, *bias = (name for name in node.input if name)
    outputs = [*node.output, "", ""]
    if node.op_type == LAYER:
        mean = _mean(parts, x, axes, opset, outputs[1])
        x = parts.add("Sub", [x, mean])
    kind = around.kind(scale) or 1
    variance = _mean(parts, parts.add("Mul", [x, x]), axes, opset)
    sum_ = parts.add("Add", [variance, parts.number("epsilon", parts.take("epsilon", 1e-5), kind)])
    deviation = parts.add("Sqrt", [sum_])
    inverse = outputs[2 if node.op_type == LAYER else 1]
    if inverse:
        parts.add("Reciprocal", [deviation], inverse)
    last = node.output[0]
    y = parts.add("Mul", [parts.add("Div", [x, deviation]), scale], "" if bias else last, parts.base)
    if bias:
        parts.add("Add", [y, *bias], last)
    return parts.nodes


def _mean(parts: Expansion, x: str, axes: list[int], opset: int, output: str = "") -> str:
    """Adds the mean over some axes."""
    if opset < AXES_SINCE:
        return parts.add("ReduceMean", [x], output, axes=axes)
    return parts.add("ReduceMean", [x, parts.numbers(f"axes{len(parts.nodes)}", axes)], output)
