"""Random float models of mixed operators, for hypothesis: some run on the accelerator, and the CPU does those in between.

`mixed_graphs(least, most)` draws a model of so many blocks. Weights are seeded, and scaled so that values stay near one.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

OPSET = 17
CHANNELS = (1, 3, 4, 8, 12)
SIDES = (4, 6, 9)


@dataclass
class Growing:
    """A growing graph: nodes, constants, and the shape [C, H, W] of every tensor, in order."""

    draw: Callable[[Any], Any]
    rng: np.random.Generator
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: list[onnx.TensorProto] = field(default_factory=list)
    shapes: dict[str, tuple[int, int, int]] = field(default_factory=dict)

    def pick(self, values: Any) -> Any:
        """One of the values."""
        return self.draw(st.sampled_from(values))

    def constant(self, value: Any) -> str:
        """An initializer."""
        self.constants.append(numpy_helper.from_array(np.asarray(value), f"c{len(self.constants)}"))
        return self.constants[-1].name

    def weights(self, *shape: int) -> str:
        """Normal weights, divided by the square root of the number of terms in a sum."""
        terms = int(np.prod(shape[1:]))
        return self.constant((self.rng.normal(size=shape) / np.sqrt(terms)).astype(np.float32))

    def node(self, kind: str, inputs: list[str], shape: tuple[int, int, int] | None = None, **attributes: Any) -> str:
        """A node with one output, which has the first input's shape unless another is given."""
        name = f"{kind.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name, **attributes))
        self.shapes[name] = shape or self.shapes[inputs[0]]
        return name


def _conv(g: Growing, x: str) -> str:
    channels, rows, columns = g.shapes[x]
    kernel, stride = g.pick((1, 3)), g.pick((1, 1, 2))
    group = channels if g.pick((False, False, True)) else 1
    cout = channels if group > 1 else g.pick(CHANNELS)
    inputs = [x, g.weights(cout, channels // group, kernel, kernel)]
    if g.pick((True, False)):
        inputs.append(g.constant(g.rng.normal(size=cout).astype(np.float32) * np.float32(0.3)))
    side = [(size - 1) // stride + 1 for size in (rows, columns)]
    return g.node("Conv", inputs, (cout, *side), strides=[stride] * 2, pads=[kernel // 2] * 4, group=group)


def _activation(g: Growing, x: str) -> str:
    kind = g.pick(("Relu", "Clip", "LeakyRelu", "HardSwish", "Sigmoid", "SiLU", "Tanh", "GELU", "Mish", "HardSigmoid", "Exp"))
    if kind == "Clip":
        return g.node("Clip", [x, g.constant(np.float32(0)), g.constant(np.float32(1.5))])
    if kind == "Mish":
        return g.node("Mul", [x, g.node("Tanh", [g.node("Softplus", [x])])])
    if kind == "GELU":
        erf = g.node("Erf", [g.node("Div", [x, g.constant(np.float32(1.4142135))])])
        return g.node("Mul", [g.node("Mul", [x, g.node("Add", [erf, g.constant(np.float32(1))])]), g.constant(np.float32(0.5))])
    if kind == "Exp":  # too steep for the accelerator
        return g.node("Exp", [g.node("Neg", [g.node("Abs", [x])])])
    return g.node("Mul", [x, g.node("Sigmoid", [x])]) if kind == "SiLU" else g.node(kind, [x])


def _pool(g: Growing, x: str) -> str:
    channels, rows, columns = g.shapes[x]
    kind, stride = g.pick(("MaxPool", "AveragePool")), g.pick((1, 2))
    shape = (channels, (rows - 1) // stride + 1, (columns - 1) // stride + 1)
    return g.node(kind, [x], shape, kernel_shape=[3, 3], strides=[stride] * 2, pads=[1] * 4)


def _affine(g: Growing, x: str) -> str:
    values = g.rng.uniform(0.5, 1.5, (g.shapes[x][0], 1, 1)).astype(np.float32)
    return g.node(g.pick(("Mul", "Add")), [x, g.constant(values)])


def _gate(g: Growing, x: str) -> str:
    """A squeeze-and-excite block."""
    channels = g.shapes[x][0]
    mean = g.node("GlobalAveragePool", [x], (channels, 1, 1))
    narrow = g.node("Conv", [mean, g.weights(channels, channels, 1, 1)])
    return g.node("Mul", [x, g.node("Sigmoid", [narrow])])


def _enlarge(g: Growing, x: str) -> str:
    channels, rows, columns = g.shapes[x]
    if rows * columns > 100:
        return _pool(g, x)
    shape = (channels, 2 * rows, 2 * columns)
    if g.pick((True, False)):
        return g.node("ConvTranspose", [x, g.weights(channels, channels, 2, 2)], shape, strides=[2, 2])
    scales = g.constant(np.array([1, 1, 2, 2], np.float32))
    how = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return g.node("Resize", [x, "", scales], shape, mode="nearest", **how)


def _shuffle(g: Growing, x: str) -> str:
    channels, rows, columns = g.shapes[x]
    if channels % 2:
        return _activation(g, x)
    apart = g.node("Reshape", [x, g.constant(np.array([1, 2, channels // 2, rows, columns]))])
    turned = g.node("Transpose", [apart], perm=[0, 2, 1, 3, 4])
    whole = g.node("Reshape", [turned, g.constant(np.array([1, channels, rows, columns]))], g.shapes[x])
    del g.shapes[apart], g.shapes[turned]  # these have one axis more, so no other node can read them
    return whole


def _slice(g: Growing, x: str) -> str:
    channels, rows, columns = g.shapes[x]
    if channels < 3:
        return _affine(g, x)
    first = g.pick((0, 1))
    ends = [g.constant(np.array([value])) for value in (first, channels - 1 + first, 1)]
    return g.node("Slice", [x, *ends], (channels - 1, rows, columns))


def _join(g: Growing, x: str) -> str:
    """Adds or concatenates an earlier tensor that fits, if there is one."""
    beside = [name for name, shape in g.shapes.items() if shape[1:] == g.shapes[x][1:] and name != x]
    if not beside:
        return _conv(g, x)
    other = g.pick(beside[-4:])
    if g.shapes[other] == g.shapes[x] and g.pick((True, False)):
        return g.node("Add", [x, other])
    total = g.shapes[x][0] + g.shapes[other][0]
    return g.node("Concat", [x, other], (total, *g.shapes[x][1:]), axis=1)


BLOCKS = (_conv, _conv, _conv, _activation, _activation, _pool, _affine, _gate, _enlarge, _shuffle, _slice, _join, _join)


@st.composite
def mixed_graphs(draw: Callable[[Any], Any], least: int = 3, most: int = 10) -> onnx.ModelProto:
    """A model of one convolution and some more blocks. Every tensor that nothing reads is an output."""
    g = Growing(draw, np.random.default_rng(draw(st.integers(0, 999))))
    shape = (g.pick(CHANNELS), g.pick(SIDES), g.pick(SIDES))
    g.shapes["x"] = shape
    last = _conv(g, "x")
    for block in draw(st.lists(st.sampled_from(BLOCKS), min_size=least, max_size=most)):
        last = block(g, last)
    read = {name for node in g.nodes for name in node.input}
    outputs = [name for name in g.shapes if name not in read]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, *g.shapes[name]]) for name in ("x", *outputs)]
    graph = helper.make_graph(g.nodes, "mixed", values[:1], values[1:], g.constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    return model
