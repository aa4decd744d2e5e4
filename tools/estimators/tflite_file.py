"""An int8 graph as a TFLite file, which is what Arm's Vela reads. The flatbuffer's tables are those of Vela's own package.

Weights, biases and scales are the graph's own. TFLite has no residual add in a convolution and no padding of one's own choice, so
each such node becomes two operators.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

import flatbuffers
import numpy as np
from ethosu.vela import tflite
from ethosu.vela.tflite.BuiltinOperator import BuiltinOperator
from ethosu.vela.tflite.BuiltinOptions import BuiltinOptions
from ethosu.vela.tflite.Padding import Padding
from ethosu.vela.tflite.TensorType import TensorType
from numpy.typing import NDArray

from cnna.compiler.graph import ir

IDENTIFIER, SCHEMA = b"TFL3", 3
KINDS = {"int8": TensorType.INT8, "int32": TensorType.INT32}
BYTES = 16  # to which TFLite aligns the data of a buffer
OLD_CODES = 127  # operators above it have no code in the field of old readers


def tflite_of(graph: ir.Graph) -> bytes:
    """The file. ValueError: it has an operator, or limits of one, that this writer does not know."""
    made = _File(graph)
    for node in graph.nodes:
        write = WRITERS.get(type(node.op))
        if write is None:
            raise ValueError(f"{node.name}: no writer for {type(node.op).__name__}")
        write(made, node)
    return made.finished()


class _File:
    """Tensors, buffers and operators, as offsets in one flatbuffer."""

    def __init__(self, graph: ir.Graph) -> None:
        self.graph, self._builder = graph, flatbuffers.Builder(1 << 20)
        self._tensors: list[int] = []
        self._operators: list[int] = []
        self._buffers = [self._table("Buffer")]  # the first one is empty, for tensors without data
        self._codes: dict[str, int] = {}
        self._places: dict[str, int] = {}

    def maps(self, name: str) -> int:
        """The number of an activation's tensor, [1, rows, columns, channels]."""
        if name not in self._places:
            found = self.graph.tensors[name]
            channels, rows, columns = found.shape
            assert found.quant is not None
            self._places[name] = self.tensor(name, (1, rows, columns, channels), "int8", found.quant)
        return self._places[name]

    def tensor(self, name: str, shape: Sequence[int], kind: str, quant: ir.Quant) -> int:
        """The number of a new tensor without data."""
        return self._add(name, shape, kind, [quant.scale], quant.zero, 0, 0)

    def constant(self, name: str, array: NDArray[Any], scales: Sequence[float] | NDArray[Any] = (), axis: int = 0) -> int:
        """The number of a new tensor with data. scales: along `axis`, zero points are 0; none: it is not quantised."""
        self._buffers.append(self._table("Buffer", data=self._bytes(np.ascontiguousarray(array).tobytes())))
        return self._add(name, array.shape, array.dtype.name, scales, 0, axis, len(self._buffers) - 1)

    def operator(self, kind: str, inputs: Sequence[int], outputs: Sequence[int], **options: int | bool) -> None:
        """Adds an operator. kind: as the schema's table of its options is called."""
        name = OPERATORS[kind]
        given = {
            "opcodeIndex": self._codes.setdefault(name, len(self._codes)),
            "inputs": self._builder.CreateNumpyVector(np.array(inputs, np.int32)),
            "outputs": self._builder.CreateNumpyVector(np.array(outputs, np.int32)),
            "builtinOptionsType": getattr(BuiltinOptions, kind),
            "builtinOptions": self._table(kind, **options),
        }
        self._operators.append(self._table("Operator", **given))

    def finished(self) -> bytes:
        """The file's bytes."""
        ends = ("inputs", self.graph.inputs), ("outputs", self.graph.outputs)
        named = {
            key: self._builder.CreateNumpyVector(np.array([self.maps(name) for name in names], np.int32)) for key, names in ends
        }
        name = self._builder.CreateString(self.graph.name)
        subgraph = self._table(
            "SubGraph", tensors=self._offsets(self._tensors), operators=self._offsets(self._operators), name=name, **named
        )
        codes = [getattr(BuiltinOperator, name) for name in self._codes]
        tables = [
            self._table("OperatorCode", deprecatedBuiltinCode=min(code, OLD_CODES), builtinCode=code, version=1) for code in codes
        ]
        own = {"operatorCodes": self._offsets(tables), "subgraphs": self._offsets([subgraph])}
        model = self._table("Model", version=SCHEMA, buffers=self._offsets(self._buffers), **own)
        self._builder.Finish(model, file_identifier=IDENTIFIER)
        return bytes(self._builder.Output())

    def _add(self, name: str, shape: Sequence[int], kind: str, scales: Any, zero: int, axis: int, buffer: int) -> int:
        given: dict[str, int] = {}
        if len(scales):
            zeros = np.full(len(scales), zero, np.int64)
            given["quantization"] = self._table(
                "QuantizationParameters",
                scale=self._builder.CreateNumpyVector(np.array(scales, np.float32)),
                zeroPoint=self._builder.CreateNumpyVector(zeros),
                quantizedDimension=axis,
            )
        given |= {"shape": self._builder.CreateNumpyVector(np.array(shape, np.int32)), "name": self._builder.CreateString(name)}
        self._tensors.append(self._table("Tensor", type=KINDS[kind], buffer=buffer, **given))
        return len(self._tensors) - 1

    def _table(self, kind: str, /, **fields: int | bool) -> int:
        """A table of the schema."""
        module = import_module(f"{tflite.__name__}.{kind}")
        module.Start(self._builder)
        for field, value in fields.items():
            getattr(module, f"Add{field[0].upper()}{field[1:]}")(self._builder, value)
        return int(module.End(self._builder))

    def _offsets(self, tables: Sequence[int]) -> int:
        self._builder.StartVector(4, len(tables), 4)
        for table in reversed(tables):
            self._builder.PrependUOffsetTRelative(table)
        return int(self._builder.EndVector())

    def _bytes(self, data: bytes) -> int:
        """A vector of bytes, aligned."""
        self._builder.StartVector(1, len(data), BYTES)
        start = self._builder.Head() - len(data)
        self._builder.head = start
        self._builder.Bytes[start : start + len(data)] = data
        return int(self._builder.EndVector())


OPERATORS = {
    "Conv2DOptions": "CONV_2D",
    "DepthwiseConv2DOptions": "DEPTHWISE_CONV_2D",
    "Pool2DOptions": "MAX_POOL_2D",
    "ReducerOptions": "MEAN",
    "AddOptions": "ADD",
    "PadOptions": "PAD",
}


def _conv(made: _File, node: ir.Node[ir.Conv]) -> None:
    op, constants = node.op, made.graph.constants
    if op.groups != 1 or op.table or (op.residual is not None and (op.residual.table or len(node.inputs) != 2)):
        raise ValueError(f"{node.name}: groups, tables and copies have no writer")
    window, mid, step = op.window, _middle(made.graph, node), node.output
    if op.residual is None:
        out = made.maps(node.output)
    else:
        _, rows, columns, channels = _nhwc(made.graph, node.output)
        step = f"{node.output}:before"
        out = made.tensor(step, (1, rows, columns, channels), "int8", mid)
    weights = constants[op.weights].transpose(0, 2, 3, 1)
    _convolve(made, node, "Conv2DOptions", window, (weights, 0), mid, out)
    if op.residual is not None:
        made.operator("AddOptions", [out, made.maps(node.inputs[1])], [made.maps(node.output)])


def _depthwise(made: _File, node: ir.Node[ir.Depthwise]) -> None:
    if node.op.table:
        raise ValueError(f"{node.name}: tables have no writer")
    weights = made.graph.constants[node.op.weights].transpose(1, 2, 3, 0)
    mid = _middle(made.graph, node)
    _convolve(made, node, "DepthwiseConv2DOptions", node.op.window, (weights, 3), mid, made.maps(node.output), depthMultiplier=1)


def _convolve(
    made: _File,
    node: ir.Node[Any],
    kind: str,
    window: ir.Window,
    given: tuple[NDArray[Any], int],
    mid: ir.Quant,
    out: int,
    **more: int,
) -> None:
    """A convolution. given: weights, and their axis of output channels. mid: of what it writes."""
    (weights, axis), constants, quant = given, made.graph.constants, made.graph.tensors[node.inputs[0]].quant
    assert quant is not None
    _check(node, node.op.out)
    ratio = constants[node.op.mult] / 2.0 ** constants[node.op.shift]
    scales = ratio * mid.scale / quant.scale
    sums = weights.astype(np.int64).sum(tuple(n for n in range(4) if n != axis))
    bias = (constants[node.op.bias].astype(np.int64) + quant.zero * sums).astype(np.int32)  # ours has the zero point's part
    source, padding = _padded(made, node, window)
    numbers = [
        source,
        made.constant(f"{node.output}:weights", weights.astype(np.int8), scales, axis),
        made.constant(f"{node.output}:bias", bias, scales * quant.scale),
    ]
    steps = {"strideH": window.stride[0], "strideW": window.stride[1]}
    wide = {"dilationHFactor": window.dilation[0], "dilationWFactor": window.dilation[1]}
    made.operator(kind, numbers, [out], padding=padding, **steps, **wide, **more)


def _max_pool(made: _File, node: ir.Node[ir.MaxPool]) -> None:
    window = node.op.window
    source, padding = _padded(made, node, window)
    sizes = {"filterHeight": window.kernel[0], "filterWidth": window.kernel[1]}
    steps = {"strideH": window.stride[0], "strideW": window.stride[1]}
    made.operator("Pool2DOptions", [source], [made.maps(node.output)], padding=padding, **sizes, **steps)


def _mean(made: _File, node: ir.Node[ir.AveragePool]) -> None:
    """The mean of a whole map."""
    _, rows, columns, _ = _nhwc(made.graph, node.inputs[0])
    if node.op.window.kernel != (rows, columns) or any(node.op.window.pads) or node.op.table:
        raise ValueError(f"{node.name}: only the mean of a whole map has a writer")
    axes = made.constant(f"{node.output}:axes", np.array([1, 2], np.int32))
    made.operator("ReducerOptions", [made.maps(node.inputs[0]), axes], [made.maps(node.output)], keepDims=True)


def _padded(made: _File, node: ir.Node[Any], window: ir.Window) -> tuple[int, int]:
    """The tensor that a window slides over, and the padding by TFLite's own rule: SAME, or VALID behind a PAD."""
    name = node.inputs[0]
    _, rows, columns, channels = _nhwc(made.graph, name)
    top, left, bottom, right = window.pads
    if not any(window.pads):
        return made.maps(name), Padding.VALID
    if (top, bottom, left, right) == tuple(_same(rows, window, 0)) + tuple(_same(columns, window, 1)):
        return made.maps(name), Padding.SAME
    quant = made.graph.tensors[name].quant
    assert quant is not None
    wider = made.tensor(f"{node.output}:padded", (1, rows + top + bottom, columns + left + right, channels), "int8", quant)
    sides = made.constant(f"{node.output}:sides", np.array([[0, 0], [top, bottom], [left, right], [0, 0]], np.int32))
    made.operator("PadOptions", [made.maps(name), sides], [wider])
    return wider, Padding.VALID


def _same(size: int, window: ir.Window, axis: int) -> Iterator[int]:
    """What SAME adds before and behind an axis."""
    kernel, step = (window.kernel[axis] - 1) * window.dilation[axis] + 1, window.stride[axis]
    total = max((-(-size // step) - 1) * step + kernel - size, 0)
    yield total // 2
    yield total - total // 2


def _middle(graph: ir.Graph, node: ir.Node[Any]) -> ir.Quant:
    """The quantisation of a convolution's result, which a residual add then takes."""
    quant, residual = graph.tensors[node.output].quant, getattr(node.op, "residual", None)
    assert quant is not None
    if residual is None:
        return quant
    return ir.Quant(quant.scale * residual.factor_a / 2.0**residual.shift, node.op.out.zero)


def _nhwc(graph: ir.Graph, name: str) -> tuple[int, int, int, int]:
    channels, rows, columns = graph.tensors[name].shape
    return 1, rows, columns, channels


def _check(node: ir.Node[Any], out: ir.Clamp) -> None:
    """ValueError: the output stage has limits that int8 does not have by itself."""
    if (out.low, out.high) != (-128, 127):
        raise ValueError(f"{node.name}: limits {out.low}..{out.high} have no writer")


WRITERS: Mapping[type, Callable[[_File, Any], None]] = {
    ir.Conv: _conv,
    ir.Depthwise: _depthwise,
    ir.MaxPool: _max_pool,
    ir.AveragePool: _mean,
}
