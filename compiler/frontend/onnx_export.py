"""Writes a float graph as an ONNX model: a quantised model, in which each quantised tensor gets Q and DQ, or a CPU part."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from math import inf
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, TensorProto, helper, numpy_helper

from cnna.compiler.frontend.onnx_model.subgraphs import rename_inside
from cnna.compiler.graph import float_ops as f
from cnna.compiler.graph.editor import outputs_of
from cnna.compiler.graph.ir import Clamp, Graph, Node, Quant, Window, clamp

IR_VERSION = 8  # of ONNX; every onnxruntime since 1.14 reads it; newer opsets raise it
NEW_OPSET, NEW_IR_VERSION = 19, 10


def to_model(graph: Graph, extra_outputs: Sequence[str] = ()) -> ModelProto:
    """An ONNX model with a free batch axis.

    extra_outputs: tensors that become outputs as well.
    """
    writer = _Writer(graph)
    for name in graph.inputs:
        if graph.tensors[name].quant:
            writer.names[name] = writer.quantise(name, writer.fresh(f"{name}:dq"), graph.tensors[name].quant)
    for node in graph.nodes:
        writer.node(node)
    inputs = [_input(name, graph.tensors[name].shape, _element_type(graph, name)) for name in graph.inputs]
    names = dict.fromkeys((*graph.outputs, *extra_outputs))  # a model may list an output twice
    shown = [name if name in graph.inputs else writer.names.get(name, name) for name in names]
    outputs = [onnx.ValueInfoProto(name=name) for name in shown]
    made = helper.make_graph(writer.nodes, graph.name, inputs, outputs, writer.constants)
    domains = {node.domain for node in writer.nodes} - {""}
    opsets = [helper.make_opsetid("", graph.opset), *(helper.make_opsetid(domain, 1) for domain in sorted(domains))]
    version = NEW_IR_VERSION if graph.opset >= NEW_OPSET else IR_VERSION
    model = helper.make_model(made, opset_imports=opsets, ir_version=version, producer_name="cnna")
    return _typed_outputs(model, [graph.tensors[name].shape for name in names])


def _input(name: str, shape: tuple[int, ...], kind: int) -> onnx.ValueInfoProto:
    """An input with a free first axis and None for unknown sizes; without a shape if not even the number of axes is known."""
    sizes = ["N", *(size or None for size in shape[1:])] if shape else None
    return helper.make_tensor_value_info(name, kind, sizes)


def _element_type(graph: Graph, name: str) -> int:
    """ONNX's element type of a tensor."""
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(graph.types.get(name) or "float32")))


def _typed_outputs(model: ModelProto, shapes: Sequence[tuple[int, ...]]) -> ModelProto:
    """Adds the types of the outputs that ONNX infers, or else `shapes` with a free first axis, since ONNX wants a shape.

    An output has no shape at all if `shapes` has none either: a shape without axes would be a single number's.
    """
    inferred = onnx.shape_inference.infer_shapes(model)
    for value, found, shape in zip(model.graph.output, inferred.graph.output, shapes, strict=True):
        kind = found.type if found.type.WhichOneof("value") else helper.make_tensor_type_proto(TensorProto.FLOAT, None)
        value.type.CopyFrom(kind)
        if not value.type.tensor_type.HasField("shape") and shape:
            free = [None if number == 0 or size == 0 else size for number, size in enumerate(shape)]
            value.type.CopyFrom(helper.make_tensor_type_proto(kind.tensor_type.elem_type, free))
    return model


def _numbered(name: str) -> Iterator[str]:
    """The name, then variants of it that may take its place."""
    return (f"{name}:{number}" if number else name for number in count())


class _Writer:
    """The nodes and constants of one model, and the names under which readers find its tensors."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[TensorProto] = []
        self.names: dict[str, str] = {}
        self._written: dict[str, np.ndarray] = {}
        self._taken: set[str] = set()
        self._made: set[str] = set()

    def constant(self, name: str, value: np.ndarray) -> str:
        """The name of a constant with this value: `name`, or a variant that is still free."""
        free = next(free for free in _numbered(name) if self._may_hold(free, value))
        if free not in self._written:
            self._written[free] = value
            value = value.astype(np.float32) if value.dtype == np.float64 else value
            self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value) if value.ndim else value, free))
        return free

    def _may_hold(self, name: str, value: np.ndarray) -> bool:
        held = self._written.get(name, self.graph.constants.get(name))
        if held is None:
            return name not in self.graph.tensors and name not in self._made
        return held is value or (held.dtype == value.dtype and np.array_equal(held, value))

    def fresh(self, name: str) -> str:
        """A free name for a tensor that the graph lacks; a graph that was written and read again has those of the first time."""
        free = next(free for free in _numbered(name) if free not in self._made and free not in self.graph.tensors)
        self._made.add(free)
        return free

    def emit(self, kind: str, inputs: Sequence[str], output: str, name: str, domain: str = "", **attributes: Any) -> str:
        self.nodes.append(helper.make_node(kind, list(inputs), [output], self.node_name(name), domain=domain, **attributes))
        return output

    def node_name(self, name: str) -> str:
        """The name, or a free variant: several nodes may have come from one, and onnxruntime accepts no name twice."""
        free = next(free for free in _numbered(name) if free not in self._taken)
        self._taken.add(free)
        return free

    def quantise(self, source: str, output: str, quant: Quant | None) -> str:
        """Adds Q and DQ behind `source`; the result is called `output`."""
        assert quant is not None
        scale = self.constant(f"{output}:scale", np.array(quant.scale, np.float32))
        zero = self.constant(f"{output}:zero", np.array(quant.zero, np.int8))
        whole = self.emit("QuantizeLinear", (source, scale, zero), self.fresh(f"{output}:int8"), f"{output}:Q")
        return self.emit("DequantizeLinear", (whole, scale, zero), output, f"{output}:DQ")

    def node(self, node: Node) -> None:
        """Adds one node, its limits, and the Q and DQ behind it."""
        quant = self.graph.tensors[node.output].quant
        inputs = [self.names.get(name, name) for name in node.inputs]
        if isinstance(node.op, f.Requantise):
            self.quantise(inputs[0], node.output, node.op.quant)
            return
        shown = node.output in self.graph.outputs
        raw = self.fresh(f"{node.output}:float") if quant and shown else node.output
        limited = self._limits(node, quant)
        inner = self.fresh(f"{raw}:unlimited") if limited else raw
        _WRITE[type(node.op)](self, node, inputs, inner)
        for name in outputs_of(node)[1:]:
            if name and self.graph.tensors[name].quant:
                self.names[name] = self.quantise(name, self.fresh(f"{name}:dq"), self.graph.tensors[name].quant)
        if limited == (0.0, inf):
            self.emit("Relu", [inner], raw, f"{node.name}:relu")
        elif limited:
            bounds = [
                "" if bound in (-inf, inf) else self.constant(f"{node.output}:limit{number}", np.array(bound, np.float32))
                for number, bound in enumerate(limited)
            ]
            self.emit("Clip", [inner, *bounds], raw, f"{node.name}:clip")
        if quant:
            self.names[node.output] = self.quantise(raw, node.output if shown else self.fresh(f"{node.output}:dq"), quant)

    def _limits(self, node: Node, quant: Quant | None) -> tuple[float, float] | None:
        """The limits that the operator has, unless the int8 range behind it implies them."""
        op = node.op
        if not isinstance(op, f.CLIPPED) or (op.low, op.high) == (-inf, inf):
            return None
        if isinstance(op, f.Clip):
            return op.low, op.high  # alone, not those of a layer: what they imply depends on the samples, what runs where must not
        implied = quant is not None and clamp(quant, op.low, op.high) == Clamp(quant.zero)
        return None if implied else (op.low, op.high)


def _onnx(writer: _Writer, node: Node, inputs: list[str], output: str) -> None:
    for name in node.inputs:
        if name in writer.graph.constants:
            writer.constant(name, writer.graph.constants[name])
    op: f.Onnx = node.op
    declared = len(inputs) - len(op.captured)
    made = helper.make_node(
        op.kind,
        inputs[:declared],
        [output, *op.more_outputs],
        writer.node_name(node.name),
        domain=op.domain,
        **{
            name: numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value
            for name, value in op.attributes.items()
        },
    )
    rename_inside(made, {old: new for old, new in zip(op.captured, inputs[declared:], strict=True) if old != new})
    writer.nodes.append(made)


def _fits_int8(op: f.Conv, constants: Mapping[str, np.ndarray]) -> bool:
    """Whether the weights are quantised about zero. Weights with another zero point may reach beyond int8, and stay float."""
    if op.weight_scale is None:
        return False
    whole = np.rint(constants[op.weights] / constants[op.weight_scale][:, None, None, None])
    return bool(whole.min(initial=0) >= -128 and whole.max(initial=0) <= 127)


def _conv(writer: _Writer, node: Node, inputs: list[str], output: str) -> None:
    op: f.Conv = node.op
    constants = writer.graph.constants
    if not _fits_int8(op, constants):
        names = [writer.constant(name, constants[name]) for name in (op.weights, op.bias)]
    else:
        assert op.weight_scale is not None
        scale = constants[op.weight_scale]
        whole = np.rint(constants[op.weights] / scale[:, None, None, None])
        names = [_dequantised(writer, op.weights, whole.astype(np.int8), scale)]
        quant = writer.graph.tensors[node.inputs[0]].quant
        if quant:
            bias_scale = np.float32(quant.scale) * scale.astype(np.float32)
            bias = np.clip(np.rint(constants[op.bias] / bias_scale.astype(np.float64)), -(2**31), 2**31 - 1)
            names.append(_dequantised(writer, op.bias, bias.astype(np.int32), bias_scale))
        else:
            names.append(writer.constant(op.bias, constants[op.bias]))
    kernel = constants[op.weights].shape[2:]
    writer.emit("Conv", [*inputs, *names], output, node.name, kernel_shape=kernel, group=op.groups, **_window(op.window))


def _dequantised(writer: _Writer, name: str, whole: np.ndarray, scale: np.ndarray) -> str:
    parts = (writer.constant(f"{name}:{whole.dtype}", whole), writer.constant(f"{name}:{whole.dtype}:scale", scale))
    zero = writer.constant(f"{name}:{whole.dtype}:zero", np.zeros(scale.shape, whole.dtype))
    return writer.emit("DequantizeLinear", (*parts, zero), writer.fresh(f"{name}:dq"), f"{name}:DQ", axis=0)


def _window(window: Window) -> dict[str, Any]:
    return {"strides": window.stride, "pads": window.pads, "dilations": window.dilation}


def _pool(writer: _Writer, node: Node, inputs: list[str], output: str) -> None:
    window: Window = node.op.window
    shape, out = writer.graph.tensors[node.inputs[0]].shape[2:], writer.graph.tensors[node.output].shape[2:]
    average = isinstance(node.op, f.AveragePool)
    if window.kernel == tuple(shape) and not any(window.pads):
        writer.emit("GlobalAveragePool" if average else "GlobalMaxPool", inputs, output, node.name)
        return
    attributes = _window(window)
    floor = [
        (shape[i] + window.pads[i] + window.pads[i + 2] - (window.kernel[i] - 1) * window.dilation[i] - 1) // window.stride[i] + 1
        for i in (0, 1)
    ]
    attributes["ceil_mode"] = int(tuple(floor) != tuple(out))
    if average:
        attributes["count_include_pad"] = int(node.op.include_pad)
        if writer.graph.opset < NEW_OPSET:
            attributes.pop("dilations")
    writer.emit("AveragePool" if average else "MaxPool", inputs, output, node.name, kernel_shape=window.kernel, **attributes)


def _affine(writer: _Writer, node: Node, inputs: list[str], output: str) -> None:
    scale, shift = (
        writer.constant(name, writer.graph.constants[name].astype(np.float32)[:, None, None])
        for name in (node.op.scale, node.op.shift)
    )
    scaled = writer.emit("Mul", [*inputs, scale], writer.fresh(f"{output}:scaled"), f"{node.name}:scale")
    writer.emit("Add", [scaled, shift], output, node.name)


def _reshape(writer: _Writer, node: Node, inputs: list[str], output: str) -> None:
    target = writer.constant(f"{output}:shape", np.array((0, *node.op.shape[1:]), np.int64))
    writer.emit("Reshape", [*inputs, target], output, node.name)


def _pixels(writer: _Writer, node: Node, inputs: list[str], output: str) -> None:
    """Adds a Resize if every pixel is repeated equally often, else a Gather for each axis."""
    shape = writer.graph.tensors[node.inputs[0]].shape
    chosen = {2: node.op.rows, 3: node.op.columns}
    times = [len(index) // shape[axis] or 1 for axis, index in chosen.items()]
    if all(index == tuple(np.repeat(range(shape[axis]), n)) for (axis, index), n in zip(chosen.items(), times, strict=True)):
        scales = writer.constant(f"{output}:scales", np.array([1, 1, *times], np.float32))
        how = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        writer.emit("Resize", [*inputs, "", scales], output, node.name, **how)
        return
    needed = [axis for axis, index in chosen.items() if index != tuple(range(shape[axis]))]
    for axis in needed:
        made = output if axis == needed[-1] else writer.fresh(f"{output}:rows")
        index = writer.constant(f"{output}:index{axis}", np.array(chosen[axis], np.int64))
        inputs = [writer.emit("Gather", [*inputs, index], made, node.name, axis=axis)]


def _pad(writer: _Writer, node: Node, inputs: list[str], output: str) -> None:
    top, left, bottom, right = node.op.widths
    widths = writer.constant(f"{output}:widths", np.array((0, 0, top, left, 0, 0, bottom, right), np.int64))
    value = writer.constant(f"{output}:value", np.array(node.op.value, np.float32))
    writer.emit("Pad", [*inputs, widths, value], output, node.name)


def _channels(writer: _Writer, node: Node, inputs: list[str], output: str) -> None:
    end = node.op.first + writer.graph.tensors[node.output].shape[1]
    places = {"starts": node.op.first, "ends": end, "axes": 1}
    given = [writer.constant(f"{output}:{key}", np.array([value], np.int64)) for key, value in places.items()]
    writer.emit("Slice", [*inputs, *given], output, node.name)


def _interleave(writer: _Writer, node: Node, inputs: list[str], output: str) -> None:
    joined = writer.emit("Concat", inputs, writer.fresh(f"{output}:joined"), f"{node.name}:joined", axis=1)
    writer.emit("DepthToSpace", [joined], output, node.name, blocksize=node.op.step, mode="DCR")


_WRITE: dict[type, Callable[[_Writer, Node, list[str], str], Any]] = {
    f.Onnx: _onnx,
    f.Conv: _conv,
    f.MaxPool: _pool,
    f.AveragePool: _pool,
    f.Affine: _affine,
    f.Add: lambda writer, node, inputs, output: writer.emit("Sub" if node.op.minus else "Add", inputs, output, node.name),
    f.Maximum: lambda writer, node, inputs, output: writer.emit("Max", inputs, output, node.name),
    f.Clip: lambda writer, node, inputs, output: writer.emit("Identity", inputs, output, node.name),
    f.Concat: lambda writer, node, inputs, output: writer.emit("Concat", inputs, output, node.name, axis=1),
    f.Join: lambda writer, node, inputs, output: writer.emit("Concat", inputs, output, node.name, axis=node.op.axis),
    f.Pixels: _pixels,
    f.Pad: _pad,
    f.Channels: _channels,
    f.Interleave: _interleave,
    f.Reshape: _reshape,
    f.Transpose: lambda writer, node, inputs, output: writer.emit("Transpose", inputs, output, node.name, perm=node.op.perm),
}
