"""Graphs of classifiers that the onnx package does not ship: ResNets, RegNetX, MobileNets, EfficientNets, as in their papers.

224x224 pictures in, 1,000 classes out (logits), BatchNorm not yet folded, a picture at a time. `network` says what stands for
the weights.
"""

from collections.abc import Callable
from typing import NamedTuple

import onnx

from cnna.compiler.zoo.network import CLASSES, Feature, Network

# Blocks in each stage; from 50 layers on they are bottlenecks.
RESNET_BLOCKS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 101: (3, 4, 23, 3)}
EXPANSION = 4  # a bottleneck's output has so many times the channels of its 3x3 convolution
REGNETX_400MF = ((32, 1), (64, 2), (160, 7), (384, 12))  # channels and blocks of each stage
REGNETX_GROUP = 16  # channels in each group of a 3x3 convolution
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
EFFICIENTNET_B0 = (  # expansion, kernel, channels, blocks, stride of the first
    (1, 3, 16, 1, 1),
    (6, 3, 24, 2, 2),
    (6, 5, 40, 2, 2),
    (6, 3, 80, 3, 2),
    (6, 5, 112, 3, 1),
    (6, 5, 192, 4, 2),
    (6, 3, 320, 1, 1),
)
NEWER_OPSET = 17  # has HardSwish


class Inverted(NamedTuple):
    """A block of MobileNetV3: 1x1 to `wide` channels, depthwise, squeeze-and-excite where `excite`, 1x1 to `channels`."""

    kernel: int
    wide: int
    channels: int
    excite: bool
    activation: str
    stride: int


MOBILENET_V3_LARGE = (
    Inverted(3, 16, 16, False, "Relu", 1),
    Inverted(3, 64, 24, False, "Relu", 2),
    Inverted(3, 72, 24, False, "Relu", 1),
    Inverted(5, 72, 40, True, "Relu", 2),
    Inverted(5, 120, 40, True, "Relu", 1),
    Inverted(5, 120, 40, True, "Relu", 1),
    Inverted(3, 240, 80, False, "HardSwish", 2),
    Inverted(3, 200, 80, False, "HardSwish", 1),
    Inverted(3, 184, 80, False, "HardSwish", 1),
    Inverted(3, 184, 80, False, "HardSwish", 1),
    Inverted(3, 480, 112, True, "HardSwish", 1),
    Inverted(3, 672, 112, True, "HardSwish", 1),
    Inverted(5, 672, 160, True, "HardSwish", 2),
    Inverted(5, 960, 160, True, "HardSwish", 1),
    Inverted(5, 960, 160, True, "HardSwish", 1),
)


def resnet(depth: int) -> onnx.ModelProto:
    """ResNet of 18, 34 or 101 layers, in version 1.5: the stride of a bottleneck is in its 3x3 convolution."""
    net = Network(f"resnet{depth}", "Relu")
    x = net.unit(net.input, "conv1", 64, 7, 2)
    x = net.node("MaxPool", "pool", [x.name], x.channels, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    block = _bottleneck if depth >= 50 else _basic_block
    for stage, blocks in enumerate(RESNET_BLOCKS[depth]):
        for number in range(blocks):
            x = block(net, x, f"layer{stage + 1}.{number}", 64 << stage, 2 if stage and not number else 1)
    return net.classifier(x)


def _basic_block(net: Network, x: Feature, name: str, channels: int, stride: int) -> Feature:
    y = net.unit(x, f"{name}.conv1", channels, 3, stride)
    return _joined(net, x, net.conv(y, f"{name}.conv2", channels, 3), name, stride)


def _bottleneck(net: Network, x: Feature, name: str, channels: int, stride: int) -> Feature:
    y = net.unit(x, f"{name}.conv1", channels, 1)
    y = net.unit(y, f"{name}.conv2", channels, 3, stride)
    return _joined(net, x, net.conv(y, f"{name}.conv3", EXPANSION * channels, 1), name, stride)


def _joined(net: Network, x: Feature, y: Feature, name: str, stride: int) -> Feature:
    """y plus x; where its shape differs, a convolution projects x first."""
    if stride != 1 or x.channels != y.channels:
        x = net.conv(x, f"{name}.downsample", y.channels, 1, stride)
    return net.active(net.add(y, x, name))


def regnetx_400mf() -> onnx.ModelProto:
    """RegNetX-400MF: residual blocks whose 3x3 convolution has groups and as many channels as the block."""
    net = Network("regnetx_400mf", "Relu")
    x = net.unit(net.input, "stem", 32, 3, 2)
    for stage, (channels, blocks) in enumerate(REGNETX_400MF, 1):
        for number in range(blocks):
            name, stride = f"stage{stage}.{number}", 1 if number else 2
            y = net.unit(x, f"{name}.conv1", channels, 1)
            y = net.unit(y, f"{name}.conv2", channels, 3, stride, groups=channels // REGNETX_GROUP)
            x = _joined(net, x, net.conv(y, f"{name}.conv3", channels, 1), name, stride)
    return net.classifier(x)


def mobilenet_v1() -> onnx.ModelProto:
    """MobileNetV1 1.0: thirteen pairs of a depthwise 3x3 and a 1x1 convolution, with ReLU6 after each convolution."""
    net = Network("mobilenet_v1", "Clip")
    x = net.unit(net.input, "conv", 32, 3, 2)
    for number, (channels, stride) in enumerate(MOBILENET_V1, 1):
        x = net.unit(x, f"block{number}.depthwise", x.channels, 3, stride, groups=x.channels)
        x = net.unit(x, f"block{number}.pointwise", channels, 1)
    return net.classifier(x)


def mobilenet_v2() -> onnx.ModelProto:
    """MobileNetV2 1.0: seventeen inverted residual blocks; the last 1x1 convolution of each has no activation."""
    net = Network("mobilenet_v2", "Clip")
    x, number = net.unit(net.input, "conv", 32, 3, 2), 0
    for expansion, channels, blocks, first_stride in MOBILENET_V2:
        for position in range(blocks):
            x = _inverted_residual(net, x, f"block{number}", expansion, channels, first_stride if not position else 1)
            number += 1
    return net.classifier(net.unit(x, "last", 1280, 1))


def _inverted_residual(net: Network, x: Feature, name: str, expansion: int, channels: int, stride: int) -> Feature:
    y = net.unit(x, f"{name}.expand", expansion * x.channels, 1) if expansion > 1 else x
    y = net.unit(y, f"{name}.depthwise", y.channels, 3, stride, groups=y.channels)
    y = net.conv(y, f"{name}.project", channels, 1)
    return net.add(x, y, name) if stride == 1 and x.channels == channels else y


def mobilenet_v3_large() -> onnx.ModelProto:
    """MobileNetV3-Large 1.0: HardSwish as one node, squeeze-and-excite with HardSigmoid."""
    net = Network("mobilenet_v3_large", "HardSwish", opset=NEWER_OPSET)
    x = net.unit(net.input, "conv", 16, 3, 2)
    for number, block in enumerate(MOBILENET_V3_LARGE):
        x = mobilenet_v3_block(net, x, f"block{number}", block, expand=block.wide != x.channels)
    x = net.active(net.dense(net.mean(net.unit(x, "last", 960, 1)), "hidden", 1280))
    return net.model({net.dense(x, "classes", CLASSES): (1, CLASSES)})


def mobilenet_v3_block(net: Network, x: Feature, name: str, block: Inverted, expand: bool = True) -> Feature:
    """Adds a block; without `expand` its first 1x1 convolution is left out."""
    y = net.active(net.conv(x, f"{name}.expand", block.wide, 1), block.activation) if expand else x
    y = net.conv(y, f"{name}.depthwise", block.wide, block.kernel, block.stride, groups=block.wide)
    y = net.active(y, block.activation)
    y = net.excited(y, name, eights(block.wide // 4), "HardSigmoid") if block.excite else y
    y = net.conv(y, f"{name}.project", block.channels, 1)
    return net.add(x, y, name) if block.stride == 1 and x.channels == block.channels else y


def eights(channels: float) -> int:
    """The multiple of eight that MobileNets take for so many channels: the nearest, at least eight, and no tenth below."""
    near = max(8, int(channels + 4) // 8 * 8)
    return near + 8 if near < 0.9 * channels else near


def efficientnet(name: str, lite: bool) -> onnx.ModelProto:
    """EfficientNet-B0 (SiLU, squeeze-and-excite with a quarter of the block's channels) or Lite0 (ReLU6, none)."""
    net = Network(name, "Clip" if lite else "SiLU", opset=NEWER_OPSET)
    x, number = net.unit(net.input, "stem", 32, 3, 2), 0
    for expansion, kernel, channels, blocks, first_stride in EFFICIENTNET_B0:
        for position in range(blocks):
            stride, block = 1 if position else first_stride, f"block{number}"
            y = net.unit(x, f"{block}.expand", expansion * x.channels, 1) if expansion > 1 else x
            y = net.unit(y, f"{block}.depthwise", y.channels, kernel, stride, groups=y.channels)
            y = y if lite else net.excited(y, block, x.channels // 4, "Sigmoid")
            y = net.conv(y, f"{block}.project", channels, 1)
            x = net.add(y, x, block) if stride == 1 and x.channels == channels else y
            number += 1
    return net.classifier(net.unit(x, "head", 1280, 1))


CLASSIFIERS: dict[str, tuple[Callable[[], onnx.ModelProto], str]] = {  # by name: the generator, and what the network is
    "efficientnet_b0": (lambda: efficientnet("efficientnet_b0", lite=False), "EfficientNet-B0 at 224"),
    "efficientnet_lite0": (lambda: efficientnet("efficientnet_lite0", lite=True), "EfficientNet-Lite0"),
    "mobilenet_v1": (mobilenet_v1, "MobileNetV1 1.0"),
    "mobilenet_v2": (mobilenet_v2, "MobileNetV2 1.0"),
    "mobilenet_v3_large": (mobilenet_v3_large, "MobileNetV3-Large 1.0"),
    "regnetx_400mf": (regnetx_400mf, "RegNetX-400MF"),
    "resnet18": (lambda: resnet(18), "ResNet-18"),
    "resnet34": (lambda: resnet(34), "ResNet-34"),
    "resnet101": (lambda: resnet(101), "ResNet-101 v1.5 (stride in the 3x3)"),
}
