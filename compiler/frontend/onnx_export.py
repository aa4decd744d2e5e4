"""Writes a float graph as an ONNX model: a quantised model, in which each quantised tensor gets Q and DQ, or a CPU part."""

from collections.abc import Sequence
from math import inf

import numpy as np
import onnx
from onnx import ModelProto, TensorProto, helper

from cnna.compiler.frontend import scaled_channels
from cnna.compiler.frontend.onnx_model.hollow import hollow
from cnna.compiler.frontend.onnx_nodes import OPERATORS, NodeWriter
from cnna.compiler.graph import float_ops as f
from cnna.compiler.graph.editor import outputs_of
from cnna.compiler.graph.ir import Clamp, Graph, Node, Quant, clamp

IR_VERSION = 8  # of ONNX; every onnxruntime since 1.14 reads it; newer opsets raise it
FIRST = -1
BATCH = "N"  # the name of the batch's size
NEW_OPSET, NEW_IR_VERSION = 19, 10


def to_model(graph: Graph, extra_outputs: Sequence[str] = (), apart: dict[str, np.ndarray] | None = None) -> ModelProto:
    """An ONNX model with a free batch axis.

    extra_outputs: tensors that become outputs as well. apart: gets the great weights, by name, which the model then lacks.
    """
    model = ModelProto()
    writer = NodeWriter(graph, model.graph, apart)
    for name in graph.inputs:
        if graph.tensors[name].quant:
            quant, kind = graph.tensors[name].quant, writer.whole_type(name)
            writer.names[name] = writer.quantise(name, writer.fresh(f"{name}:dq"), quant, kind)
    for node in graph.nodes:
        _write(writer, node)
    names = dict.fromkeys((*graph.outputs, *extra_outputs))  # a model may list an output twice
    shown = [name if name in graph.inputs else writer.names.get(name, name) for name in names]
    model.graph.name = graph.name
    model.graph.node.extend(writer.nodes)
    model.graph.input.extend(_input(name, graph.tensors[name].shape, _element_type(graph, name)) for name in graph.inputs)
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in shown)
    domains = {node.domain for node in writer.nodes} - {""}
    model.opset_import.append(helper.make_opsetid("", graph.opset))
    model.opset_import.extend(helper.make_opsetid(domain, 1) for domain in sorted(domains))
    model.ir_version = NEW_IR_VERSION if graph.opset >= NEW_OPSET else IR_VERSION
    model.producer_name = "cnna"
    scaled_channels.store(model, {name: one for name, one in graph.scaled.items() if name in graph.tensors})
    return _typed_outputs(model, [graph.tensors[name].shape for name in names], [graph.joins.get(name, FIRST) for name in names])


def _input(name: str, shape: tuple[int, ...], kind: int) -> onnx.ValueInfoProto:
    """An input with a free first axis and None for unknown sizes; without a shape if not even the number of axes is known."""
    sizes = [BATCH, *(size or None for size in shape[1:])] if shape else None
    return helper.make_tensor_value_info(name, kind, sizes)


def _element_type(graph: Graph, name: str) -> int:
    """ONNX's element type of a tensor."""
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(graph.types.get(name) or "float32")))


def _typed_outputs(model: ModelProto, shapes: Sequence[tuple[int, ...]], axes: Sequence[int | None]) -> ModelProto:
    """Adds the types of the outputs that ONNX infers, or else `shapes` with a free batch, since ONNX wants a shape.

    axes: of the batch; `FIRST` where it is not known, and the first axis may be it.
    An output has no shape at all if `shapes` has none either: a shape without axes would be a single number's.
    """
    inferred = onnx.shape_inference.infer_shapes(hollow(model))
    for value, found, shape, axis in zip(model.graph.output, inferred.graph.output, shapes, axes, strict=True):
        kind = found.type if found.type.WhichOneof("value") else helper.make_tensor_type_proto(TensorProto.FLOAT, None)
        value.type.CopyFrom(kind)
        if not value.type.tensor_type.HasField("shape") and shape:
            known = [None if axis == FIRST else shape[0], *shape[1:]]
            free = [BATCH if number == axis else size or None for number, size in enumerate(known)]
            value.type.CopyFrom(helper.make_tensor_type_proto(kind.tensor_type.elem_type, free))
    return model


def _write(writer: NodeWriter, node: Node) -> None:
    """Adds one node, its limits, and the Q and DQ behind it."""
    quant = writer.graph.tensors[node.output].quant
    inputs = [writer.names.get(name, name) for name in node.inputs]
    wanted = writer.whole_type(node.output)
    if isinstance(node.op, f.Requantise):
        writer.quantise(inputs[0], node.output, node.op.quant, writer.whole_type(node.inputs[0]), wanted)
        return
    shown = node.output in writer.graph.outputs
    raw = writer.fresh(f"{node.output}:float") if quant and shown else node.output
    limited = _limits(node, quant)
    inner = writer.fresh(f"{raw}:unlimited") if limited else raw
    OPERATORS[type(node.op)](writer, node, inputs, inner)
    for name in outputs_of(node)[1:]:
        if name and writer.graph.tensors[name].quant:
            writer.names[name] = writer.quantise(name, writer.fresh(f"{name}:dq"), writer.graph.tensors[name].quant)
    if limited == (0.0, inf):
        writer.emit("Relu", [inner], raw, f"{node.name}:relu")
    elif limited:
        bounds = [
            "" if bound in (-inf, inf) else writer.constant(f"{node.output}:limit{number}", np.array(bound, np.float32))
            for number, bound in enumerate(limited)
        ]
        writer.emit("Clip", [inner, *bounds], raw, f"{node.name}:clip")
    if quant:
        rounded = node.output if shown else writer.fresh(f"{node.output}:dq")
        writer.names[node.output] = writer.quantise(raw, rounded, quant, wanted=wanted)


def _limits(node: Node, quant: Quant | None) -> tuple[float, float] | None:
    """The limits that the operator has, unless the int8 range behind it implies them."""
    op = node.op
    if not isinstance(op, f.CLIPPED) or (op.low, op.high) == (-inf, inf):
        return None
    if isinstance(op, f.Clip):
        return op.low, op.high  # kept: the int8 range depends on the samples, but which operators remain must not
    implied = quant is not None and clamp(quant, op.low, op.high) == Clamp(quant.zero)
    return None if implied else (op.low, op.high)
