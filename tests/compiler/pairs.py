"""QDQ models by hand: a float model, and how each of its tensors is rounded."""

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import ModelProto, helper, numpy_helper

Rounding = tuple[float, int]  # scale, zero point


def with_pairs(model: ModelProto, rounded: Mapping[str, Rounding], weights: Mapping[str, float] | None = None) -> ModelProto:
    """Puts Q and DQ behind each tensor of `rounded`, for all its readers; makes `weights` int8 of a scale, with only a DQ."""
    copy = ModelProto()
    copy.CopyFrom(model)
    graph, nodes = copy.graph, []
    for name, scale in (weights or {}).items():
        tensor = next(tensor for tensor in graph.initializer if tensor.name == name)
        whole = np.clip(np.rint(numpy_helper.to_array(tensor) / scale), -127, 127).astype(np.int8)
        tensor.CopyFrom(numpy_helper.from_array(whole, f"{name}:int8"))
        graph.initializer.append(numpy_helper.from_array(np.array(scale, np.float32), f"{name}:scale"))
        nodes.append(helper.make_node("DequantizeLinear", [f"{name}:int8", f"{name}:scale"], [f"{name}:dq"]))
    shown = {value.name for value in graph.output}
    for name, (scale, zero) in rounded.items():
        graph.initializer.append(numpy_helper.from_array(np.array(scale, np.float32), f"{name}:scale"))
        graph.initializer.append(numpy_helper.from_array(np.array(zero, np.int8), f"{name}:zero"))
        raw, real = (f"{name}:raw", name) if name in shown else (name, f"{name}:dq")
        constants = [f"{name}:scale", f"{name}:zero"]
        nodes.append(helper.make_node("QuantizeLinear", [raw, *constants], [f"{name}:q"]))
        nodes.append(helper.make_node("DequantizeLinear", [f"{name}:q", *constants], [real]))
    read = {name: f"{name}:dq" for name in (*rounded, *(weights or {})) if name not in shown}
    for node in graph.node:
        node.input[:] = [read.get(name, name) for name in node.input]
        node.output[:] = [f"{name}:raw" if name in shown and name in rounded else name for name in node.output]
    graph.node.extend(nodes)
    return _sorted(copy)


def _sorted(model: ModelProto) -> ModelProto:
    """The model with its nodes in topological order."""
    known = {"", *(value.name for value in model.graph.input), *(tensor.name for tensor in model.graph.initializer)}
    waiting, done = list(model.graph.node), []
    while waiting:
        ready = [node for node in waiting if known.issuperset(node.input)]
        assert ready, "a cycle"
        done += ready
        known.update(name for node in ready for name in node.output)
        waiting = [node for node in waiting if node not in ready]
    del model.graph.node[:]
    model.graph.node.extend(done)
    onnx.checker.check_model(model)
    return model
