"""Random quantised ONNX models, as onnxruntime's quantiser writes them: for tests of the whole way from model to answer.

`model(seed)` is a small QDQ network with activations in int8 or uint8, weights per channel or per tensor, now and then without
zero points; `images(model, count, seed)` are float inputs for it.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

OPSET = 17


class Builder:
    """Grows a QDQ model. Every tensor is a dequantised one with its scale and its shape [C, H, W]."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.unsigned = bool(rng.random() < 0.5)
        self.symmetric = bool(not self.unsigned and rng.random() < 0.3)
        self.per_channel = bool(rng.random() < 0.7)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.scales: dict[str, float] = {}
        self.parameters: dict[str, list[str]] = {}  # scale and zero point
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.inputs: list[onnx.ValueInfoProto] = []

    def input(self, *shape: int) -> str:
        """Adds a float graph input with its Q and DQ."""
        name = f"x{len(self.inputs)}"
        self.inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", *shape]))
        return self.quantised(name, float(self.rng.uniform(0.01, 0.1)), shape)

    def quantised(self, name: str, scale: float, shape: tuple[int, ...], like: str | None = None) -> str:
        """Adds Q and DQ behind a float tensor; `like`: with the parameters of that tensor, as behind a max pool."""
        kind = np.uint8 if self.unsigned else np.int8
        low, high = (0, 256) if self.unsigned else (-128, 128)
        zero = 0 if self.symmetric else int(self.rng.choice([low, high - 1, int(self.rng.integers(low, high))]))
        parameters = [self.constant(np.float32(scale)), self.constant(np.array(zero, kind))]
        if like:
            parameters = self.parameters[like]
        q, dq = f"{name}_q", f"{name}_dq"
        self.nodes.append(helper.make_node("QuantizeLinear", [name, *parameters], [q], f"{name}_Q"))
        self.nodes.append(helper.make_node("DequantizeLinear", [q, *parameters], [dq], f"{name}_DQ"))
        self.scales[dq], self.shapes[dq] = self.scales[like] if like else scale, shape
        self.parameters[dq] = parameters
        return dq

    def constant(self, value: NDArray[np.generic] | np.generic) -> str:
        """Adds an initializer."""
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def node(self, op: str, inputs: list[str], **attributes: Any) -> str:
        """Adds a float node with one output."""
        name = f"{op.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], name, **attributes))
        return name

    def weights(self, *shape: int) -> tuple[str, NDArray[np.float32]]:
        """Adds dequantised weights of int8 values; returns them with their scales (one for each of the first axis, or one)."""
        scales = self.rng.uniform(0.002, 0.02, shape[0] if self.per_channel else ()).astype(np.float32)
        values = self.rng.integers(-127, 128, shape).astype(np.int8)
        zero = np.zeros(scales.shape, np.int8)
        names = [self.constant(values), self.constant(scales), self.constant(zero)]
        axis = {"axis": 0} if self.per_channel else {}
        return self.node("DequantizeLinear", names, **axis), scales

    def bias(self, scales: NDArray[np.float32], scale: float, count: int) -> str:
        """Adds a dequantised int32 bias at the scale of the products."""
        values = self.rng.integers(-5000, 5000, count).astype(np.int32)
        names = [self.constant(values), self.constant((scales * np.float32(scale)).astype(np.float32))]
        names.append(self.constant(np.zeros(scales.shape, np.int32)))
        return self.node("DequantizeLinear", names, **({"axis": 0} if self.per_channel else {}))

    def activated(self, name: str, scale: float, shape: tuple[int, ...]) -> str:
        """Adds nothing, Relu or Clip, then Q and DQ."""
        kind = int(self.rng.integers(4))
        if kind == 1:
            name = self.node("Relu", [name])
        if kind == 2:
            name = self.node("Clip", [name, self.constant(np.float32(0)), self.constant(np.float32(6))])
        return self.quantised(name, scale, shape)


def _conv(b: Builder, x: str, group: int = 1, cout: int | None = None) -> str:
    rng, (channels, height, width) = b.rng, b.shapes[x]
    kernel, stride = int(rng.choice([1, 1, 3, 3, 5])), int(rng.choice([1, 1, 2]))
    pad = int(rng.integers(0, kernel // 2 + 1)) if min(height, width) >= kernel else kernel // 2
    cout = cout or int(rng.integers(1, 25))
    weights, scales = b.weights(cout, channels // group, kernel, kernel)
    terms = channels // group * kernel * kernel
    inputs = [x, weights] + ([b.bias(scales, b.scales[x], cout)] if rng.random() < 0.8 else [])
    name = b.node("Conv", inputs, strides=[stride] * 2, pads=[pad] * 4, group=group)
    size = tuple((side + 2 * pad - kernel) // stride + 1 for side in (height, width))
    return b.activated(name, float(scales.mean()) * b.scales[x] * 74 * 74 * np.sqrt(terms) / 50, (cout, *size))


def _depthwise(b: Builder, x: str) -> str:
    return _conv(b, x, b.shapes[x][0], b.shapes[x][0])


def _max_pool(b: Builder, x: str) -> str:
    channels, *sides = b.shapes[x]
    if min(sides) < 2:
        return _conv(b, x)
    name = b.node("MaxPool", [x], kernel_shape=[2, 2], strides=[2, 2])
    return b.quantised(name, 0, (channels, *(side // 2 for side in sides)), like=x)


def _average_pool(b: Builder, x: str) -> str:
    channels, *sides = b.shapes[x]
    name = b.node("AveragePool", [x], kernel_shape=[3, 3], pads=[1] * 4, count_include_pad=int(b.rng.integers(2)))
    return b.quantised(name, b.scales[x] * float(b.rng.uniform(0.5, 1.5)), (channels, *sides))


def _add(b: Builder, x: str, other: str) -> str:
    return b.activated(b.node("Add", [x, other]), max(b.scales[x], b.scales[other]) * 1.3, b.shapes[x])


def _concat(b: Builder, x: str, other: str) -> str:
    channels = b.shapes[x][0] + b.shapes[other][0]
    scale = max(b.scales[x], b.scales[other])
    return b.quantised(b.node("Concat", [x, other], axis=1), scale, (channels, *b.shapes[x][1:]))


def _classifier(b: Builder, x: str) -> str:
    """Adds a global average pool or none, Flatten and Gemm."""
    channels = b.shapes[x][0]
    if b.rng.random() < 0.6:
        x = b.quantised(b.node("GlobalAveragePool", [x]), b.scales[x], (channels, 1, 1))
    size = int(np.prod(b.shapes[x]))
    flat = b.node("Flatten", [x])
    weights, scales = b.weights(10, size)
    name = b.node("Gemm", [flat, weights, b.bias(scales, b.scales[x], 10)], transB=1)
    return b.quantised(name, float(scales.mean()) * b.scales[x] * 74 * 74 * np.sqrt(size) / 50, (10,))


def model(seed: int) -> onnx.ModelProto:
    """A small network, always the same for a seed."""
    b = Builder(np.random.default_rng([seed, 3000]))
    tensors = [b.input(int(b.rng.integers(1, 9)), int(b.rng.integers(5, 13)), int(b.rng.integers(5, 13)))]
    for _ in range(int(b.rng.integers(2, 7))):
        x = tensors[-1]
        equal = [t for t in tensors[:-1] if b.shapes[t] == b.shapes[x]]
        beside = [t for t in tensors[:-1] if b.shapes[t][1:] == b.shapes[x][1:]]
        choices: list[Callable[[], str]] = [
            *(partial(add, b, x) for add in (_conv, _conv, _depthwise, _max_pool, _average_pool)),
        ]
        choices += [partial(_add, b, x, other) for other in equal] * 3
        choices += [partial(_concat, b, x, other) for other in beside] * 2
        tensors.append(choices[int(b.rng.integers(len(choices)))]())
    if b.rng.random() < 0.7:
        tensors.append(_classifier(b, tensors[-1]))
    output = helper.make_tensor_value_info(tensors[-1], TensorProto.FLOAT, ["N", *b.shapes[tensors[-1]]])
    graph = helper.make_graph(b.nodes, f"qdq_{seed}", b.inputs, [output], b.constants)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
    onnx.checker.check_model(made)
    return made


def images(made: onnx.ModelProto, count: int, seed: int) -> dict[str, NDArray[np.float32]]:
    """Float inputs by name, wide enough to reach both ends of every scale."""
    rng = np.random.default_rng([seed, 4000])
    found = {}
    for value in made.graph.input:
        shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim][1:]
        found[value.name] = rng.normal(0, 4, (count, *shape)).astype(np.float32)
    return found
