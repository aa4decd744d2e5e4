"""Graphs of networks that answer with a map: a text detector, a segmentation and a super-resolution.

- `dbnet` is PaddleOCR's mobile text detector (`ch_ppocr_mobile_v2.0_det`): MobileNetV3-Large with half of its channels
  and without squeeze-and-excite, a feature pyramid of 96 channels, and one head (training has two).
- `unet` is the U-Net with batch norm and 32 channels first that PyTorch Hub has for pictures of 256x256
  (mateuszbuda/brain-segmentation-pytorch).
- `espcn` is ESPCN with its paper's three layers and Tanh. It makes the luma of 640x360 three times as large: 1920x1080.
"""

from collections.abc import Callable

import onnx

from cnna.compiler.zoo.classifiers import MOBILENET_V3_LARGE, eights, mobilenet_v3_block
from cnna.compiler.zoo.network import Feature, Network

OPSET = 17
DBNET_CHANNELS = 96  # of the pyramid
UNET_CHANNELS = (32, 64, 128, 256)  # of the levels, from the largest map on
ESPCN_LAYERS = ((64, 5), (32, 3))  # channels and kernel
ESPCN_FACTOR = 3


def dbnet(edge: int = 640) -> onnx.ModelProto:
    """A DBNet. edge: the side of the picture, a multiple of 32. Output: how likely each pixel is text, [1, 1, edge, edge]."""
    net = Network("dbnet", "Relu", (3, edge, edge), OPSET)
    sides = [net.biased(side, f"side{number}", DBNET_CHANNELS, bias=False) for number, side in enumerate(_half_mobilenet_v3(net))]
    for number in (2, 1, 0):
        larger = net.enlarged(sides[number + 1], f"side{number}.up")
        sides[number] = net.add(sides[number], larger, f"side{number}")
    ends = []
    for number in (3, 2, 1, 0):
        end = net.biased(sides[number], f"end{number}", DBNET_CHANNELS // 4, 3, bias=False)
        ends.append(net.enlarged(end, f"end{number}.up", 2**number) if number else end)
    x = net.unit(net.joined(ends, "joined"), "head.conv", DBNET_CHANNELS // 4, 3)
    x = net.active(net.norm(net.widened(x, "head.up1", x.channels)))
    x = net.widened(x, "head.up2", 1)
    return net.model({net.node("Sigmoid", "output", [x.name], 1): (1, 1, edge, edge)})


def _half_mobilenet_v3(net: Network) -> list[Feature]:
    """The maps at strides 4, 8, 16 and 32 of MobileNetV3-Large with half of its channels."""
    x, maps = net.active(net.conv(net.input, "conv", eights(8), 3, 2), "HardSwish"), []
    for number, block in enumerate(MOBILENET_V3_LARGE):
        if block.stride == 2 and number > 2:  # x is the last map of its size
            maps.append(x)
        half = block._replace(wide=eights(block.wide / 2), channels=eights(block.channels / 2), excite=False)
        x = mobilenet_v3_block(net, x, f"block{number}", half)
    return [*maps, net.active(net.conv(x, "last", 480, 1), "HardSwish")]


def unet(edge: int = 256) -> onnx.ModelProto:
    """A U-Net. edge: the side of the picture, a multiple of 16. Output: a probability for each pixel, [1, 1, edge, edge]."""
    net = Network("unet", "Relu", (3, edge, edge), OPSET)
    x, sides = net.input, []
    for level, channels in enumerate(UNET_CHANNELS):
        sides.append(_double(net, x, f"down{level}", channels))
        x = net.pool(sides[-1], f"pool{level}", 2, 2)
    x = _double(net, x, "middle", 2 * UNET_CHANNELS[-1])
    for level, side in reversed(list(enumerate(sides))):
        x = net.joined([net.widened(x, f"up{level}", side.channels), side], f"up{level}.joined")
        x = _double(net, x, f"up{level}", side.channels)
    x = net.biased(x, "map", 1)
    return net.model({net.node("Sigmoid", "output", [x.name], 1): (1, 1, edge, edge)})


def _double(net: Network, x: Feature, name: str, channels: int) -> Feature:
    return net.unit(net.unit(x, f"{name}.conv1", channels, 3), f"{name}.conv2", channels, 3)


def espcn(rows: int = 360, columns: int = 640) -> onnx.ModelProto:
    """ESPCN. Input: luma, [1, 1, rows, columns]; output: three times as many rows and columns."""
    net = Network("espcn", "Tanh", (1, rows, columns), OPSET)
    x = net.input
    for number, (channels, kernel) in enumerate(ESPCN_LAYERS):
        x = net.active(net.biased(x, f"conv{number}", channels, kernel))
    x = net.biased(x, "last", ESPCN_FACTOR**2, 3)
    end = net.node("DepthToSpace", "output", [x.name], 1, blocksize=ESPCN_FACTOR, mode="CRD")
    return net.model({end: (1, 1, ESPCN_FACTOR * rows, ESPCN_FACTOR * columns)})


MAPS: dict[str, tuple[Callable[[], onnx.ModelProto], str]] = {  # by name: the generator, and what the network is
    "dbnet": (dbnet, "DBNet on half a MobileNetV3, text detector at 640"),
    "espcn": (espcn, "ESPCN, three times 640x360"),
    "unet": (unet, "U-Net at 256"),
}
