"""Writes the operators of a float graph as nodes of an ONNX model."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from cnna.compiler.frontend.onnx_model.hollow import GREAT, held_elsewhere
from cnna.compiler.frontend.onnx_model.subgraphs import rename_inside
from cnna.compiler.graph import float_ops as f
from cnna.compiler.graph.ir import Graph, Node, Quant, Window
from cnna.spec.samples.pack import WHOLE_BYTES

POOLS_DILATE_SINCE = 19  # the first opset in which an AveragePool may have dilations


def _numbered(name: str) -> Iterator[str]:
    """The name, then variants of it that may take its place."""
    return (f"{name}:{number}" if number else name for number in count())


class NodeWriter:
    """The nodes of one model, and the names under which readers find its tensors. Constants go into `made` at once.

    They are most of a model, and must not be in memory more often than needed. apart: gets the great ones of float32, as arrays by
    name; then the model only says that whoever runs it has them.
    """

    def __init__(self, graph: Graph, made: onnx.GraphProto, apart: dict[str, np.ndarray] | None = None) -> None:
        self.graph = graph
        self._apart = apart
        self.nodes: list[onnx.NodeProto] = []
        self._constants = made.initializer
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
            value = np.ascontiguousarray(value) if value.ndim else value
            if self._apart is not None and value.dtype == np.float32 and value.size > GREAT:
                self._apart[free] = value
                self._constants.append(held_elsewhere(free, value.shape))
            else:
                self._constants.append(numpy_helper.from_array(value, free))
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
        """Adds an ONNX node with one output; returns the output's name."""
        self.nodes.append(helper.make_node(kind, list(inputs), [output], self.node_name(name), domain=domain, **attributes))
        return output

    def node_name(self, name: str) -> str:
        """The name, or a free variant: several nodes may have come from one, and onnxruntime accepts no name twice."""
        free = next(free for free in _numbered(name) if free not in self._taken)
        self._taken.add(free)
        return free

    def quantise(self, source: str, output: str, quant: Quant | None, given: str = "", wanted: str = "") -> str:
        """Adds Q and DQ behind `source`; the result is called `output`.

        given, wanted: the types of the two where they are integers of the model (`whole_type`): then there is no Q, or no DQ.
        """
        assert quant is not None
        if given and wanted:
            source, given = self.quantise(source, self.fresh(f"{output}:real"), quant, given), ""
        kind = given or wanted or "int8"
        scale = self.constant(f"{output}:scale", np.array(quant.scale, np.float32))
        zero = self.constant(f"{output}:zero", np.array(quant.zero + (128 if kind == "uint8" else 0), kind))
        if given:
            return self.emit("DequantizeLinear", (source, scale, zero), output, f"{output}:DQ")
        whole = self.emit(
            "QuantizeLinear", (source, scale, zero), output if wanted else self.fresh(f"{output}:int8"), f"{output}:Q"
        )
        return whole if wanted else self.emit("DequantizeLinear", (whole, scale, zero), output, f"{output}:DQ")

    def whole_type(self, name: str) -> str:
        """The type of an input or output of the model that is integers outside and has a quantisation inside; "" for others."""
        kind = self.graph.types.get(name, "")
        return kind if kind in WHOLE_BYTES else ""


def _onnx(writer: NodeWriter, node: Node, inputs: list[str], output: str) -> None:
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


def _conv(writer: NodeWriter, node: Node, inputs: list[str], output: str) -> None:
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


def _dequantised(writer: NodeWriter, name: str, whole: np.ndarray, scale: np.ndarray) -> str:
    parts = (writer.constant(f"{name}:{whole.dtype}", whole), writer.constant(f"{name}:{whole.dtype}:scale", scale))
    zero = writer.constant(f"{name}:{whole.dtype}:zero", np.zeros(scale.shape, whole.dtype))
    return writer.emit("DequantizeLinear", (*parts, zero), writer.fresh(f"{name}:dq"), f"{name}:DQ", axis=0)


def _window(window: Window) -> dict[str, Any]:
    return {"strides": window.stride, "pads": window.pads, "dilations": window.dilation}


def _pool(writer: NodeWriter, node: Node, inputs: list[str], output: str) -> None:
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
        if writer.graph.opset < POOLS_DILATE_SINCE:
            attributes.pop("dilations")
    writer.emit("AveragePool" if average else "MaxPool", inputs, output, node.name, kernel_shape=window.kernel, **attributes)


def _affine(writer: NodeWriter, node: Node, inputs: list[str], output: str) -> None:
    scale, shift = (
        writer.constant(name, writer.graph.constants[name].astype(np.float32)[:, None, None])
        for name in (node.op.scale, node.op.shift)
    )
    scaled = writer.emit("Mul", [*inputs, scale], writer.fresh(f"{output}:scaled"), f"{node.name}:scale")
    writer.emit("Add", [scaled, shift], output, node.name)


def _reshape(writer: NodeWriter, node: Node, inputs: list[str], output: str) -> None:
    target = writer.constant(f"{output}:shape", np.array((0, *node.op.shape[1:]), np.int64))
    writer.emit("Reshape", [*inputs, target], output, node.name)


def _pixels(writer: NodeWriter, node: Node, inputs: list[str], output: str) -> None:
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


def _bilinear(writer: NodeWriter, node: Node, inputs: list[str], output: str) -> None:
    scales = writer.constant(f"{output}:scales", np.array([1, 1, *node.op.times], np.float32))
    mode = "half_pixel" if node.op.centred else "asymmetric"
    writer.emit("Resize", [*inputs, "", scales], output, node.name, mode="linear", coordinate_transformation_mode=mode)


def _pad(writer: NodeWriter, node: Node, inputs: list[str], output: str) -> None:
    top, left, bottom, right = node.op.widths
    widths = writer.constant(f"{output}:widths", np.array((0, 0, top, left, 0, 0, bottom, right), np.int64))
    value = writer.constant(f"{output}:value", np.array(node.op.value, np.float32))
    writer.emit("Pad", [*inputs, widths, value], output, node.name)


def _channels(writer: NodeWriter, node: Node, inputs: list[str], output: str) -> None:
    end = node.op.first + writer.graph.tensors[node.output].shape[1]
    places = {"starts": node.op.first, "ends": end, "axes": 1}
    given = [writer.constant(f"{output}:{key}", np.array([value], np.int64)) for key, value in places.items()]
    writer.emit("Slice", [*inputs, *given], output, node.name)


def _interleave(writer: NodeWriter, node: Node, inputs: list[str], output: str) -> None:
    joined = writer.emit("Concat", inputs, writer.fresh(f"{output}:joined"), f"{node.name}:joined", axis=1)
    writer.emit("DepthToSpace", [joined], output, node.name, blocksize=node.op.step, mode="DCR")


def _chain(writer: NodeWriter, node: Node, inputs: list[str], output: str) -> None:
    """Adds the nodes of which the chain was made, with the Q and DQ between them."""
    op: f.Chain = node.op
    names = {op.source: inputs[0]}
    for number, (name, value) in enumerate(op.numbers):
        names[name] = writer.constant(f"{output}:number{number}", np.array(value, np.float32))
    for number, one in enumerate(op.nodes):
        made = output if one is op.nodes[-1] else writer.fresh(f"{output}:{number}")
        read = [names.get(name, name) for name in one.inputs]
        if isinstance(one.op, f.Requantise):
            writer.quantise(read[0], made, one.op.quant)
        else:
            writer.emit(one.op.kind, read, made, one.name, **one.op.attributes)
        names[one.output] = made


OPERATORS: dict[type, Callable[[NodeWriter, Node, list[str], str], Any]] = {
    f.Onnx: _onnx,
    f.Chain: _chain,
    f.Conv: _conv,
    f.MaxPool: _pool,
    f.AveragePool: _pool,
    f.Bilinear: _bilinear,
    f.Affine: _affine,
    f.Add: lambda writer, node, inputs, output: writer.emit("Sub" if node.op.minus else "Add", inputs, output, node.name),
    f.Product: lambda writer, node, inputs, output: writer.emit("Mul", inputs, output, node.name),
    f.Minimum: lambda writer, node, inputs, output: writer.emit("Min", inputs, output, node.name),
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
