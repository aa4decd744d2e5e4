"""Shapes of a model that computes sizes itself, as exports with open rows and columns do: Shape, Gather, Div, Concat, Resize.

ONNX's inference follows such sizes through some operators alone. Here what is known is computed, and inference goes on from there,
until nothing more becomes known. `fold_constants` does so for the graph; this is for those that need shapes before there is one.
"""

from typing import Any

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, NodeProto, helper, numpy_helper

from cnna.compiler.frontend.onnx_model.hollow import elements_of, hollow, is_hollow
from cnna.compiler.frontend.onnx_model.model_checks import inferred
from cnna.compiler.frontend.onnx_model.strangers import describe_strangers
from cnna.compiler.frontend.onnx_model.subgraphs import graphs_of
from cnna.compiler.frontend.onnx_model.vendor import expand_vendor
from cnna.compiler.passes.fold_constants import NESTED, QUANTISED, SMALL, asked_sizes, evaluated

Constants = dict[str, np.ndarray]


def refresh_shapes(model: ModelProto) -> None:
    """Infers anew what a model says of shapes, in place, after its inputs got sizes: it may be true of others alone.

    The sizes of outputs that inference does not find stay as the model has them.
    """
    _drop_shapes(model.graph)
    copy = hollow(model)
    expand_vendor(copy)  # onnx infers no shapes for com.microsoft
    describe_strangers(copy)
    for value in copy.graph.output:
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")
    found = {value.name: value.type.tensor_type for value in with_sizes(copy).graph.output}
    for value in model.graph.output:
        shape, own = found[value.name].shape, value.type.tensor_type.shape
        if not found[value.name].HasField("shape"):
            continue
        if len(shape.dim) != len(own.dim):
            own.CopyFrom(shape)
        for dim, size in zip(own.dim, shape.dim, strict=True):
            if size.dim_value > 0:
                dim.dim_value = size.dim_value


def _drop_shapes(graph: GraphProto) -> None:
    """Takes the shapes of inner tensors off a graph, and off the graphs in its nodes."""
    del graph.value_info[:]
    for node in graph.node:
        for inner in graphs_of(node):
            _drop_shapes(inner)


def with_sizes(model: ModelProto) -> ModelProto:
    """A copy with inferred shapes, in which a Constant stands in place of each node that computes sizes from known ones."""
    found = inferred(model)
    if not any(node.op_type in ("Shape", "Size", "If") for node in model.graph.node):
        return found
    while _settle(found):
        del found.graph.value_info[:]
        found = inferred(found)
    return found


def _settle(model: ModelProto) -> bool:
    """Whether a node became a constant. In place."""
    constants = {
        tensor.name: numpy_helper.to_array(tensor)
        for tensor in model.graph.initializer
        if elements_of(tensor) <= SMALL and not is_hollow(tensor)
    }
    shapes = {
        value.name: tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim)
        for value in (*model.graph.value_info, *model.graph.input, *model.graph.output)
    }
    version = next((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), 0)
    outputs, changed = {value.name for value in model.graph.output}, False
    for node in model.graph.node:
        value = None if len(node.output) != 1 else _value(node, constants, shapes, version)
        if value is None or value.size > SMALL:
            continue
        constants[node.output[0]] = value
        if node.op_type != "Constant" and node.output[0] not in outputs:
            made = numpy_helper.from_array(value, node.output[0])
            node.CopyFrom(helper.make_node("Constant", [], list(node.output), node.name, value=made))
            changed = True
    return changed


def _value(node: NodeProto, constants: Constants, shapes: dict[str, tuple[int, ...]], version: int) -> np.ndarray | None:
    """What a node gives, if that is known."""
    if node.domain not in ("", "ai.onnx") or node.op_type in (*QUANTISED, *NESTED):
        return None
    if node.op_type in ("Shape", "Size"):
        values: dict[str, Any] = {entry.name: onnx.helper.get_attribute_value(entry) for entry in node.attribute}
        return asked_sizes(node.op_type, values, shapes.get(node.input[0], ()))
    if node.op_type == "Constant" and node.attribute and node.attribute[0].name == "value":
        tensor = node.attribute[0].t
        return numpy_helper.to_array(tensor) if elements_of(tensor) <= SMALL else None
    if any(name not in constants for name in node.input if name) or not (node.input or node.op_type == "Constant"):
        return None
    try:
        return evaluated(node, {name: constants[name] for name in node.input if name}, version)[0]
    except Exception:  # whatever numpy raises; `fold_constants` names the node
        return None
