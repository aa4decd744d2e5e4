"""A float graph that grows layer by layer, as PyTorch's exporter would write it before it folds batch norms.

In place of each weight there is a ConstantOfShape node with the weight's shape; `weights` fills them. Constants with a meaning
(grids, strides, scales) are Constant nodes, which `weights` leaves as they are.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import onnx
from numpy.typing import ArrayLike
from onnx import helper, numpy_helper

OPSET = 13
PICTURE = (3, 224, 224)
CLASSES = 1000


class Feature(NamedTuple):
    """A tensor of the graph, and its number of channels."""

    name: str
    channels: int


class Network:
    """A graph that grows node by node. A node is named after its layer, a tensor after the node that writes it."""

    def __init__(self, name: str, activation: str, picture: tuple[int, ...] = PICTURE, opset: int = OPSET) -> None:
        self.name, self.activation, self.picture, self.opset = name, activation, picture, opset
        self.input = Feature("input", picture[0])
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []
        if activation == "Clip":
            limits = {"low": 0.0, "high": 6.0}
            self._constants += [numpy_helper.from_array(np.array(value, np.float32), name) for name, value in limits.items()]

    def node(self, op: str, name: str, inputs: Sequence[str], channels: int, **attributes: Any) -> Feature:
        """Adds a node with one output."""
        self._nodes.append(helper.make_node(op, inputs, [name], name, **attributes))
        return Feature(name, channels)

    def constant(self, name: str, value: ArrayLike) -> str:
        """Adds a constant with a meaning of its own: float32, or int64 where the values are whole numbers of Python."""
        array = np.asarray(value)
        array = array.astype(np.int64 if array.dtype.kind == "i" else np.float32)
        return self.node("Constant", name, [], 0, value=numpy_helper.from_array(array)).name

    def conv(
        self, x: Feature, name: str, channels: int, kernel: int, stride: int = 1, groups: int = 1, padding: int | None = None
    ) -> Feature:
        """Adds a convolution without bias and a BatchNorm. padding: half the kernel unless it is given."""
        weight = self._weight(f"{name}.weight", channels, x.channels // groups, kernel, kernel)
        pads, size = [kernel // 2 if padding is None else padding] * 4, [kernel, kernel]
        y = self.node(
            "Conv", name, [x.name, weight], channels, kernel_shape=size, strides=[stride, stride], pads=pads, group=groups
        )
        return self.norm(y)

    def norm(self, x: Feature) -> Feature:
        """Adds a BatchNorm."""
        norms = [self._weight(f"{x.name}.{part}", x.channels) for part in ("scale", "bias", "mean", "variance")]
        return self.node("BatchNormalization", f"{x.name}.norm", [x.name, *norms], x.channels)

    def biased(self, x: Feature, name: str, channels: int, kernel: int = 1, bias: bool = True) -> Feature:
        """Adds a convolution that no BatchNorm follows, padded by half its kernel, with or without a bias."""
        inputs = [x.name, self._weight(f"{name}.weight", channels, x.channels, kernel, kernel)]
        inputs += [self._weight(f"{name}.bias", channels)] if bias else []
        return self.node("Conv", name, inputs, channels, kernel_shape=[kernel, kernel], pads=[kernel // 2] * 4)

    def widened(self, x: Feature, name: str, channels: int) -> Feature:
        """Adds a transposed convolution of 2x2 with stride 2 and a bias: twice as many rows and columns."""
        inputs = [x.name, self._weight(f"{name}.weight", x.channels, channels, 2, 2), self._weight(f"{name}.shift", channels)]
        return self.node("ConvTranspose", name, inputs, channels, kernel_shape=[2, 2], strides=[2, 2])

    def dense(self, x: Feature, name: str, channels: int) -> Feature:
        """Adds a fully connected layer with bias."""
        matrix, bias = self._weight(f"{name}.weight", channels, x.channels), self._weight(f"{name}.bias", channels)
        return self.node("Gemm", name, [x.name, matrix, bias], channels, transB=1)

    def active(self, x: Feature, kind: str | None = None) -> Feature:
        """Adds an activation, the network's unless another is named: Relu, Clip (0 to 6), LeakyRelu (0.1), HardSwish, Tanh or SiLU.

        SiLU is x * Sigmoid(x) in two nodes, as exporters write it.
        """
        kind, name = kind or self.activation, f"{x.name}.active"
        if kind == "SiLU":
            gate = self.node("Sigmoid", f"{x.name}.sigmoid", [x.name], x.channels)
            return self.node("Mul", name, [x.name, gate.name], x.channels)
        limits = ["low", "high"] if kind == "Clip" else []
        return self.node(kind, name, [x.name, *limits], x.channels, **({"alpha": 0.1} if kind == "LeakyRelu" else {}))

    def unit(self, x: Feature, name: str, channels: int, kernel: int, stride: int = 1, groups: int = 1) -> Feature:
        """Adds a convolution, a BatchNorm and the network's activation."""
        return self.active(self.conv(x, name, channels, kernel, stride, groups))

    def add(self, x: Feature, y: Feature, name: str) -> Feature:
        """Adds the sum of two tensors of one shape."""
        return self.node("Add", f"{name}.add", [x.name, y.name], x.channels)

    def joined(self, parts: Sequence[Feature], name: str) -> Feature:
        """Adds the concatenation of maps along their channels."""
        return self.node("Concat", name, [part.name for part in parts], sum(part.channels for part in parts), axis=1)

    def halves(self, x: Feature, name: str) -> list[Feature]:
        """Splits a map's channels into two halves."""
        sizes = self.constant(f"{name}.sizes", [x.channels // 2] * 2)
        return [Feature(part, x.channels // 2) for part in self.split(x.name, name, sizes, 2, axis=1)]

    def split(self, x: str, name: str, sizes: str, parts: int, axis: int) -> list[str]:
        """Splits a tensor into parts along an axis; `sizes` is the constant with their sizes."""
        outputs = [f"{name}.{part}" for part in range(parts)]
        self._nodes.append(helper.make_node("Split", [x, sizes], outputs, name, axis=axis))
        return outputs

    def pool(self, x: Feature, name: str, kernel: int, stride: int) -> Feature:
        """Adds a max pool. With stride 1 the map keeps its size, else the kernel is as wide as the stride."""
        pads = [kernel // 2 if stride == 1 else 0] * 4
        return self.node("MaxPool", name, [x.name], x.channels, kernel_shape=[kernel, kernel], strides=[stride, stride], pads=pads)

    def enlarged(self, x: Feature, name: str, factor: int = 2) -> Feature:
        """Repeats each pixel `factor` times in both directions."""
        scales = self.constant(f"{name}.scales", [1.0, 1.0, float(factor), float(factor)])
        how = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        return self.node("Resize", name, [x.name, "", scales], x.channels, **how)

    def excited(self, x: Feature, name: str, squeezed: int, gate: str) -> Feature:
        """Scales each channel by what two 1x1 convolutions make of all channels' means (squeeze-and-excite).

        squeezed: channels between the two; gate: Sigmoid behind SiLU, or HardSigmoid (x / 6 + 0.5) behind Relu.
        """
        mean = self.node("GlobalAveragePool", f"{name}.mean", [x.name], x.channels)
        y = self.active(self.biased(mean, f"{name}.squeeze", squeezed), "SiLU" if gate == "Sigmoid" else "Relu")
        y = self.biased(y, f"{name}.excite", x.channels)
        slope = {"alpha": 1 / 6} if gate == "HardSigmoid" else {}
        scale = self.node(gate, f"{name}.gate", [y.name], x.channels, **slope)
        return self.node("Mul", f"{name}.scaled", [scale.name, x.name], x.channels)

    def mean(self, x: Feature) -> Feature:
        """Adds the mean over all pixels, without the axes of pixels."""
        mean = self.node("GlobalAveragePool", "mean", [x.name], x.channels)
        return self.node("Flatten", "flat", [mean.name], x.channels, axis=1)

    def classifier(self, x: Feature) -> onnx.ModelProto:
        """Ends the network with a mean over pixels and a fully connected layer, and returns the model."""
        return self.model({self.dense(self.mean(x), "classes", CLASSES): (1, CLASSES)})

    def model(self, outputs: Mapping[Feature, Sequence[int]]) -> onnx.ModelProto:
        """The model with these outputs and their shapes."""
        inputs = [helper.make_tensor_value_info(self.input.name, onnx.TensorProto.FLOAT, [1, *self.picture])]
        ends = [helper.make_tensor_value_info(end.name, onnx.TensorProto.FLOAT, shape) for end, shape in outputs.items()]
        graph = helper.make_graph(self._nodes, self.name, inputs, ends, self._constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], producer_name="cnna")

    def _weight(self, name: str, *shape: int) -> str:
        self._constants.append(numpy_helper.from_array(np.array(shape, np.int64), f"{name}.shape"))
        self._nodes.append(helper.make_node("ConstantOfShape", [f"{name}.shape"], [name], name))
        return name
