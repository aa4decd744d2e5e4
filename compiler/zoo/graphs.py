"""Graphs of networks that the onnx package does not ship: ResNets and MobileNets, as torchvision and their papers have them.

Like the shipped ones they have a ConstantOfShape node in place of each weight; `weights` fills them.
224x224 pictures in, 1,000 classes out (logits), BatchNorm not yet folded, opset 13, a picture at a time.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import helper, numpy_helper

OPSET = 13
PICTURE = (3, 224, 224)
CLASSES = 1000
# Blocks in each stage; from 50 layers on they are bottlenecks.
RESNET_BLOCKS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 101: (3, 4, 23, 3)}
EXPANSION = 4  # a bottleneck's output has so many times the channels of its 3x3 convolution
# channels and stride of each pair
MOBILENET_V1 = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *((512, 1),) * 5, (1024, 2), (1024, 1))
MOBILENET_V2 = (  # expansion, channels, blocks, stride of the first
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


class Feature(NamedTuple):
    """A tensor of the graph, and its number of channels."""

    name: str
    channels: int


class _Network:
    """A graph that grows node by node. A node is named after its layer, a tensor after the node that writes it."""

    def __init__(self, name: str, activation: str) -> None:
        self.name, self.activation = name, activation
        self.input = Feature("input", PICTURE[0])
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []
        if activation == "Clip":
            limits = {"low": 0.0, "high": 6.0}
            self._constants += [numpy_helper.from_array(np.array(value, np.float32), name) for name, value in limits.items()]

    def node(self, op: str, name: str, inputs: list[str], channels: int, **attributes: Any) -> Feature:
        """Adds a node with one output."""
        self._nodes.append(helper.make_node(op, inputs, [name], name, **attributes))
        return Feature(name, channels)

    def conv(self, x: Feature, name: str, channels: int, kernel: int, stride: int = 1, groups: int = 1) -> Feature:
        """Adds a convolution without bias, padded by half its kernel, and a BatchNorm."""
        weight = self._weight(f"{name}.weight", channels, x.channels // groups, kernel, kernel)
        pads, size = [kernel // 2] * 4, [kernel, kernel]
        y = self.node(
            "Conv", name, [x.name, weight], channels, kernel_shape=size, strides=[stride, stride], pads=pads, group=groups
        )
        norms = [self._weight(f"{name}.{part}", channels) for part in ("scale", "bias", "mean", "variance")]
        return self.node("BatchNormalization", f"{name}.norm", [y.name, *norms], channels)

    def active(self, x: Feature) -> Feature:
        """Adds the network's activation: Relu, or Clip to 0..6."""
        limits = ["low", "high"] if self.activation == "Clip" else []
        return self.node(self.activation, f"{x.name}.active", [x.name, *limits], x.channels)

    def add(self, x: Feature, y: Feature, name: str) -> Feature:
        """Adds the sum of two tensors of one shape."""
        return self.node("Add", f"{name}.add", [x.name, y.name], x.channels)

    def model(self, x: Feature) -> onnx.ModelProto:
        """Ends the network with a mean over pixels and a fully connected layer, and returns the model."""
        mean = self.node("GlobalAveragePool", "mean", [x.name], x.channels)
        flat = self.node("Flatten", "flat", [mean.name], x.channels, axis=1)
        matrix, bias = self._weight("classes.weight", CLASSES, x.channels), self._weight("classes.bias", CLASSES)
        logits = self.node("Gemm", "classes", [flat.name, matrix, bias], CLASSES, transB=1)
        inputs = [helper.make_tensor_value_info(self.input.name, onnx.TensorProto.FLOAT, [1, *PICTURE])]
        outputs = [helper.make_tensor_value_info(logits.name, onnx.TensorProto.FLOAT, [1, CLASSES])]
        graph = helper.make_graph(self._nodes, self.name, inputs, outputs, self._constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="cnna")

    def _weight(self, name: str, *shape: int) -> str:
        self._constants.append(numpy_helper.from_array(np.array(shape, np.int64), f"{name}.shape"))
        self._nodes.append(helper.make_node("ConstantOfShape", [f"{name}.shape"], [name], name))
        return name


def resnet(depth: int) -> onnx.ModelProto:
    """ResNet of 18, 34 or 101 layers, in version 1.5: the stride of a bottleneck is in its 3x3 convolution."""
    net = _Network(f"resnet{depth}", "Relu")
    x = net.active(net.conv(net.input, "conv1", 64, 7, 2))
    x = net.node("MaxPool", "pool", [x.name], x.channels, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    block = _bottleneck if depth >= 50 else _basic_block
    for stage, blocks in enumerate(RESNET_BLOCKS[depth]):
        for number in range(blocks):
            x = block(net, x, f"layer{stage + 1}.{number}", 64 << stage, 2 if stage and not number else 1)
    return net.model(x)


def _basic_block(net: _Network, x: Feature, name: str, channels: int, stride: int) -> Feature:
    y = net.active(net.conv(x, f"{name}.conv1", channels, 3, stride))
    return _joined(net, x, net.conv(y, f"{name}.conv2", channels, 3), name, stride)


def _bottleneck(net: _Network, x: Feature, name: str, channels: int, stride: int) -> Feature:
    y = net.active(net.conv(x, f"{name}.conv1", channels, 1))
    y = net.active(net.conv(y, f"{name}.conv2", channels, 3, stride))
    return _joined(net, x, net.conv(y, f"{name}.conv3", EXPANSION * channels, 1), name, stride)


def _joined(net: _Network, x: Feature, y: Feature, name: str, stride: int) -> Feature:
    """y plus x; where its shape differs, a convolution projects x first."""
    if stride != 1 or x.channels != y.channels:
        x = net.conv(x, f"{name}.downsample", y.channels, 1, stride)
    return net.active(net.add(y, x, name))


def mobilenet_v1() -> onnx.ModelProto:
    """MobileNetV1 1.0: thirteen pairs of a depthwise 3x3 and a 1x1 convolution, with ReLU6 after each convolution."""
    net = _Network("mobilenet_v1", "Clip")
    x = net.active(net.conv(net.input, "conv", 32, 3, 2))
    for number, (channels, stride) in enumerate(MOBILENET_V1, 1):
        x = net.active(net.conv(x, f"block{number}.depthwise", x.channels, 3, stride, groups=x.channels))
        x = net.active(net.conv(x, f"block{number}.pointwise", channels, 1))
    return net.model(x)


def mobilenet_v2() -> onnx.ModelProto:
    """MobileNetV2 1.0: seventeen inverted residual blocks; the last 1x1 convolution of each has no activation."""
    net = _Network("mobilenet_v2", "Clip")
    x, number = net.active(net.conv(net.input, "conv", 32, 3, 2)), 0
    for expansion, channels, blocks, first_stride in MOBILENET_V2:
        for position in range(blocks):
            x = _inverted_residual(net, x, f"block{number}", expansion, channels, first_stride if not position else 1)
            number += 1
    return net.model(net.active(net.conv(x, "last", 1280, 1)))


def _inverted_residual(net: _Network, x: Feature, name: str, expansion: int, channels: int, stride: int) -> Feature:
    y = net.active(net.conv(x, f"{name}.expand", expansion * x.channels, 1)) if expansion > 1 else x
    y = net.active(net.conv(y, f"{name}.depthwise", y.channels, 3, stride, groups=y.channels))
    y = net.conv(y, f"{name}.project", channels, 1)
    return net.add(x, y, name) if stride == 1 and x.channels == channels else y


GRAPHS: dict[str, tuple[Callable[[], onnx.ModelProto], str]] = {  # by name: the generator, and what the network is
    "mobilenet_v1": (mobilenet_v1, "MobileNetV1 1.0"),
    "mobilenet_v2": (mobilenet_v2, "MobileNetV2 1.0"),
    "resnet18": (lambda: resnet(18), "ResNet-18"),
    "resnet34": (lambda: resnet(34), "ResNet-34"),
    "resnet101": (lambda: resnet(101), "ResNet-101 v1.5 (stride in the 3x3)"),
}
