"""Graphs of detectors of 80 classes: YOLOv3, YOLOv5n, YOLOv8n and YOLOX-tiny, with the outputs that their exporters give them.

YOLOv5n and YOLOv8n answer with decoded boxes, [1, 25200, 85] and [1, 84, 8400] at 640. YOLOX-tiny leaves boxes as they come from
the network, [1, 8400, 85]: its exporter decodes outside of the graph. YOLOv3 answers with its three raw maps, as Darknet's layers
give them and as its converters take them. `edge` is the side of the picture, a multiple of 32.
"""

from collections.abc import Callable, Sequence

import numpy as np
import onnx
from numpy.typing import ArrayLike

from cnna.compiler.zoo.network import Feature, Network

CLASSES = 80
STRIDES = (8, 16, 32)  # pixels of the picture for each pixel of the three maps that the heads read
ANCHORS_V5 = ((10, 13, 16, 30, 33, 23), (30, 61, 62, 45, 59, 119), (116, 90, 156, 198, 373, 326))  # width, height of three boxes
BINS = 16  # of each distance from a box's centre to its sides in YOLOv8
DARKNET_53 = ((64, 1), (128, 2), (256, 8), (512, 8), (1024, 4))  # channels and residual blocks of each stage
OPSET = 17

Block = Callable[[Network, Feature, str, int, int, bool], Feature]  # map, name, channels, bottlenecks, their input added: next map


def yolov3(edge: int = 416) -> onnx.ModelProto:
    """YOLOv3 on Darknet-53, LeakyReLU behind every convolution but the three last: maps of 13x13, 26x26 and 52x52 at 416."""
    net = Network("yolov3", "LeakyRelu", (3, edge, edge), OPSET)
    x, maps = net.unit(net.input, "conv", 32, 3), []
    for stage, (channels, blocks) in enumerate(DARKNET_53, 1):
        x = net.unit(x, f"stage{stage}.down", channels, 3, 2)
        for number in range(blocks):
            y = net.unit(x, f"stage{stage}.{number}.conv1", channels // 2, 1)
            x = net.add(net.unit(y, f"stage{stage}.{number}.conv2", channels, 3), x, f"stage{stage}.{number}")
        maps.append(x)
    outputs = dict[Feature, Sequence[int]]()
    for stride, side, channels in zip(reversed(STRIDES), (None, *maps[-2:-4:-1]), (512, 256, 128), strict=True):
        name = f"head{stride}"
        if side:
            x = net.enlarged(net.unit(x, f"{name}.side", channels, 1), f"{name}.up")
            x = net.joined([x, side], f"{name}.joined")
        for number in range(5):
            x = net.unit(x, f"{name}.{number}", channels * (1 + number % 2), 3 if number % 2 else 1)
        end = net.biased(net.unit(x, f"{name}.last", 2 * channels, 3), f"{name}.map", 3 * (5 + CLASSES))
        outputs[end] = (1, end.channels, edge // stride, edge // stride)
    return net.model(outputs)


def _c3(net: Network, x: Feature, name: str, channels: int, blocks: int, add: bool) -> Feature:
    """C3, the block of YOLOv5 and YOLOX: half of the channels pass bottlenecks, the other half goes around them."""
    y = net.unit(x, f"{name}.conv1", channels // 2, 1)
    around = net.unit(x, f"{name}.conv2", channels // 2, 1)
    for number in range(blocks):
        z = net.unit(net.unit(y, f"{name}.{number}.conv1", y.channels, 1), f"{name}.{number}.conv2", y.channels, 3)
        y = net.add(y, z, f"{name}.{number}") if add else z
    return net.unit(net.joined([y, around], f"{name}.joined"), f"{name}.conv3", channels, 1)


def _c2f(net: Network, x: Feature, name: str, channels: int, blocks: int, add: bool) -> Feature:
    """C2f, the block of YOLOv8: the halves of a map and what each bottleneck makes of the part before it, all joined."""
    parts = net.halves(net.unit(x, f"{name}.conv1", channels, 1), f"{name}.split")
    for number in range(blocks):
        y = parts[-1]
        z = net.unit(net.unit(y, f"{name}.{number}.conv1", y.channels, 3), f"{name}.{number}.conv2", y.channels, 3)
        parts.append(net.add(y, z, f"{name}.{number}") if add else z)
    return net.unit(net.joined(parts, f"{name}.joined"), f"{name}.conv2", channels, 1)


def _sppf(net: Network, x: Feature, name: str) -> Feature:
    """Three max pools of 5x5 one after another, all joined with their input."""
    parts = [net.unit(x, f"{name}.conv1", x.channels // 2, 1)]
    for number in range(3):
        parts.append(net.pool(parts[-1], f"{name}.pool{number}", 5, 1))
    return net.unit(net.joined(parts, f"{name}.joined"), f"{name}.conv2", x.channels, 1)


def _sides(net: Network, x: Feature, block: Block, blocks: Sequence[int]) -> list[Feature]:
    """The maps behind the stages of a backbone: each stage halves the map and doubles the channels."""
    found = []
    for stage, number in enumerate(blocks, 1):
        x = net.unit(x, f"stage{stage}.down", 2 * x.channels, 3, 2)
        x = block(net, x, f"stage{stage}", x.channels, number, True)
        found.append(x)
    return found


def _pyramid(net: Network, maps: Sequence[Feature], block: Block, narrow: bool) -> list[Feature]:
    """The three maps that the heads read: coarse maps are enlarged and joined to finer ones, then fine ones reduced and joined.

    narrow: a 1x1 convolution halves the channels before a map is enlarged, as in YOLOv5 and YOLOX.
    """
    fine, middle, coarse = maps
    x, waiting = coarse, []
    for name, side in (("up1", middle), ("up2", fine)):
        x = net.unit(x, f"{name}.narrow", side.channels, 1) if narrow else x
        waiting.append(x)
        x = net.joined([net.enlarged(x, f"{name}.larger"), side], f"{name}.both")
        x = block(net, x, name, side.channels, 1, False)
    found = [x]
    for name, size in (("down1", middle), ("down2", coarse)):
        x = net.unit(x, f"{name}.conv", x.channels, 3, 2)
        x = block(net, net.joined([x, waiting.pop()], f"{name}.both"), name, size.channels, 1, False)
        found.append(x)
    return found


def yolov5n(edge: int = 640) -> onnx.ModelProto:
    """YOLOv5n, version 6: C3, SPPF, and three boxes with anchors for each pixel."""
    net = Network("yolov5n", "SiLU", (3, edge, edge), OPSET)
    x = net.active(net.conv(net.input, "stem", 16, 6, 2, padding=2))
    maps = _sides(net, x, _c3, (1, 2, 3, 1))
    maps = [*maps[1:3], _sppf(net, maps[3], "sppf")]
    found = []
    for level, (y, stride) in enumerate(zip(_pyramid(net, maps, _c3, narrow=True), STRIDES, strict=True)):
        y = net.biased(y, f"head{stride}", 3 * (5 + CLASSES))
        found.append(_boxes_v5(net, y, f"head{stride}", edge // stride, stride, ANCHORS_V5[level]))
    return net.model({net.node("Concat", "output", found, 5 + CLASSES, axis=1): (1, _cells(edge) * 3, 5 + CLASSES)})


def _boxes_v5(net: Network, y: Feature, name: str, side: int, stride: int, anchors: Sequence[int]) -> str:
    """Adds what makes boxes of a raw map; [1, 3 * side * side, 85]: centre, width and height in pixels, then scores."""
    across, down = np.meshgrid(np.arange(side), np.arange(side))
    grid = np.broadcast_to(np.stack([across, down], -1) - 0.5, (1, 3, side, side, 2))
    sizes = np.broadcast_to(np.reshape(anchors, (1, 3, 1, 1, 2)), (1, 3, side, side, 2)).astype(float)
    shapes = {"apart": [1, 3, 5 + CLASSES, side, side], "rows": [1, 3 * side * side, 5 + CLASSES], "parts": [2, 2, 1 + CLASSES]}
    values: dict[str, ArrayLike] = {"two": 2.0, "grid": grid, "stride": float(stride), "anchors": sizes, **shapes}
    of = {key: net.constant(f"{name}.{key}", value) for key, value in values.items()}

    def then(op: str, key: str, *inputs: str, **attributes: object) -> str:
        return net.node(op, f"{name}.{key}", inputs, 0, **attributes).name

    y_last = then("Transpose", "last", then("Reshape", "three", y.name, of["apart"]), perm=[0, 1, 3, 4, 2])
    centre, size, scores = net.split(then("Sigmoid", "sigmoid", y_last), f"{name}.split", of["parts"], 3, axis=4)
    centre = then("Add", "moved", then("Mul", "centre2", centre, of["two"]), of["grid"])
    centre = then("Mul", "centre", centre, of["stride"])
    size = then("Pow", "square", then("Mul", "size2", size, of["two"]), of["two"])
    size = then("Mul", "size", size, of["anchors"])
    return then("Reshape", "boxes", then("Concat", "whole", centre, size, scores, axis=4), of["rows"])


def yolov8n(edge: int = 640) -> onnx.ModelProto:
    """YOLOv8n: C2f, SPPF, and decoupled heads whose boxes are distances to four sides, each the mean over a softmax of bins."""
    net = Network("yolov8n", "SiLU", (3, edge, edge), OPSET)
    maps = _sides(net, net.unit(net.input, "stem", 16, 3, 2), _c2f, (1, 2, 2, 1))
    maps = [*maps[1:3], _sppf(net, maps[3], "sppf")]
    found = []
    for y, stride in zip(_pyramid(net, maps, _c2f, narrow=False), STRIDES, strict=True):
        ends = []
        for kind, wide, channels in (("box", 4 * BINS, 4 * BINS), ("kind", CLASSES, CLASSES)):
            name = f"head{stride}.{kind}"
            z = net.unit(net.unit(y, f"{name}.conv1", wide, 3), f"{name}.conv2", wide, 3)
            ends.append(net.biased(z, f"{name}.conv3", channels))
        both = net.joined(ends, f"head{stride}.joined")
        shape = net.constant(f"head{stride}.shape", [1, both.channels, -1])
        found.append(net.node("Reshape", f"head{stride}.flat", [both.name, shape], both.channels).name)
    whole = net.node("Concat", "heads", found, 4 * BINS + CLASSES, axis=2)
    return net.model({_boxes_v8(net, whole, edge): (1, 4 + CLASSES, _cells(edge))})


def _boxes_v8(net: Network, whole: Feature, edge: int) -> Feature:
    """Adds what makes boxes of the joined maps, [1, 84, pixels]: centre, width and height in pixels, then scores."""
    cells = _cells(edge)
    centres, strides = [], []
    for stride in STRIDES:
        across, down = np.meshgrid(*[np.arange(edge // stride) + 0.5] * 2)
        centres.append(np.stack([across.ravel(), down.ravel()]))
        strides.append(np.full((1, across.size), float(stride)))
    shapes = {"bins": [1, 4, BINS, cells], "four": [1, 4, cells], "parts": [4 * BINS, CLASSES], "halves": [2, 2]}
    values: dict[str, ArrayLike] = {
        "centres": np.concatenate(centres, 1)[None],
        "strides": np.concatenate(strides, 1),
        "two": 2.0,
        **shapes,
    }
    values["means"] = np.arange(BINS, dtype=np.float64).reshape(1, BINS, 1, 1)
    of = {key: net.constant(f"decode.{key}", value) for key, value in values.items()}

    def then(op: str, key: str, *inputs: str, **attributes: object) -> str:
        return net.node(op, f"decode.{key}", inputs, 0, **attributes).name

    box, scores = net.split(whole.name, "decode.split", of["parts"], 2, axis=1)
    far = then("Transpose", "first", then("Reshape", "apart", box, of["bins"]), perm=[0, 2, 1, 3])
    far = then("Conv", "mean", then("Softmax", "softmax", far, axis=1), of["means"])
    before, after = net.split(then("Reshape", "far", far, of["four"]), "decode.sides", of["halves"], 2, axis=1)
    low, high = then("Sub", "low", of["centres"], before), then("Add", "high", of["centres"], after)
    centre, size = then("Div", "centre", then("Add", "sum", low, high), of["two"]), then("Sub", "size", high, low)
    boxes = then("Mul", "boxes", then("Concat", "box", centre, size, axis=1), of["strides"])
    return net.node("Concat", "output", [boxes, then("Sigmoid", "scores", scores)], 4 + CLASSES, axis=1)


def yolox_tiny(edge: int = 640) -> onnx.ModelProto:
    """YOLOX-tiny: Focus, C3, SPP, and decoupled heads without anchors. It was published at 416."""
    net = Network("yolox_tiny", "SiLU", (3, edge, edge), OPSET)
    x = net.unit(_focus(net), "stem", 24, 3)
    maps = _sides(net, x, _c3, (1, 3, 3))
    x = net.unit(net.unit(maps[2], "stage4.down", 384, 3, 2), "spp.conv1", 192, 1)
    x = net.joined([x, *(net.pool(x, f"spp.pool{kernel}", kernel, 1) for kernel in (5, 9, 13))], "spp.joined")
    x = _c3(net, net.unit(x, "spp.conv2", 384, 1), "stage4", 384, 1, add=False)
    found = []
    for y, stride in zip(_pyramid(net, [*maps[1:], x], _c3, narrow=True), STRIDES, strict=True):
        name = f"head{stride}"
        y = net.unit(y, f"{name}.stem", 96, 1)
        kind, box = (net.unit(net.unit(y, f"{name}.{of}.conv1", 96, 3), f"{name}.{of}.conv2", 96, 3) for of in ("kind", "box"))
        ends = [net.biased(box, f"{name}.box", 4), net.biased(box, f"{name}.there", 1), net.biased(kind, f"{name}.kind", CLASSES)]
        ends[1:] = [net.node("Sigmoid", f"{end.name}.sigmoid", [end.name], end.channels) for end in ends[1:]]
        both, shape = net.joined(ends, f"{name}.joined"), net.constant(f"{name}.shape", [1, 5 + CLASSES, -1])
        found.append(net.node("Reshape", f"{name}.flat", [both.name, shape], both.channels).name)
    whole = net.node("Concat", "heads", found, 5 + CLASSES, axis=2)
    output = net.node("Transpose", "output", [whole.name], 5 + CLASSES, perm=[0, 2, 1])
    return net.model({output: (1, _cells(edge), 5 + CLASSES)})


def _focus(net: Network) -> Feature:
    """Every second row and column of the picture, from both, as channels: half as many pixels in each direction."""
    quarters = []
    steps, axes, ends = (
        net.constant("focus.steps", [2, 2]),
        net.constant("focus.axes", [2, 3]),
        net.constant("focus.ends", [2**31] * 2),
    )
    for down, right in ((0, 0), (1, 0), (0, 1), (1, 1)):
        name = f"focus.{down}{right}"
        begins = net.constant(f"{name}.begins", [down, right])
        quarters.append(net.node("Slice", name, [net.input.name, begins, ends, axes, steps], net.input.channels))
    return net.joined(quarters, "focus")


def _cells(edge: int) -> int:
    """Pixels of the three maps that the heads read."""
    return sum((edge // stride) ** 2 for stride in STRIDES)


DETECTORS: dict[str, tuple[Callable[[], onnx.ModelProto], str]] = {  # by name: the generator, and what the network is
    "yolov3": (yolov3, "YOLOv3 at 416, raw maps"),
    "yolov5n": (yolov5n, "YOLOv5n at 640, decoded boxes"),
    "yolov8n": (yolov8n, "YOLOv8n at 640, decoded boxes"),
    "yolox_tiny": (yolox_tiny, "YOLOX-tiny at 640, boxes not yet decoded"),
}
