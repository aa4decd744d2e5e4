"""Small detectors with the heads of YOLOv3, YOLOv5, YOLOv8 and YOLOX, and how well the boxes of two networks agree.

Weights are seeded. Each convolution's channels are then scaled as batch norm would leave them on some pictures: those of the trunk
have the deviation 1, boxes and scores about the mean and the deviation that they have in trained networks.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import ModelProto, numpy_helper

from cnna.compiler.quantise.sessions import Session

Array = NDArray[Any]
Wanted = Callable[[int], tuple[float, float]]  # the mean and deviation of a channel

SIDE, ANCHORS, CLASSES, BINS = 64, 3, 4, 16
LEVELS = {"fine": (4, SIDE // 4), "coarse": (8, SIDE // 8)}  # stride, rows and columns
CHANNELS = 32
BEST = 0.1  # share of the boxes that are compared: those with the best scores
SCORES, OFFSETS, SIZES, STRIDES, DISTANCES = (-4.0, 3.0), (0.0, 0.7), (0.0, 0.4), (1.2, 0.5), (0.0, 1.5)

TRUNK = """
    a = Conv <kernel_shape=[3,3], pads=[1,1,1,1], strides=[2,2]> (x, wa, ba)
    sa = Sigmoid (a) fa = Mul (a, sa)
    b = Conv <kernel_shape=[3,3], pads=[1,1,1,1], strides=[2,2]> (fa, wb, bb)
    sb = Sigmoid (b) fine = Mul (b, sb)
    c = Conv <kernel_shape=[3,3], pads=[1,1,1,1], strides=[2,2]> (fine, wc, bc)
    sc = Sigmoid (c) coarse = Mul (c, sc)
"""
PER_ANCHOR = """
    {l}_h = Conv ({l}, w_{l}_h, b_{l}_h)
    {l}_v = Reshape ({l}_h, {l}_view) {l}_raw = Transpose <perm=[0,1,3,4,2]> ({l}_v)
"""
V3 = """
    {l}_p, {l}_q, {l}_r = Split <axis=4> ({l}_raw, parts)
    {l}_s = Sigmoid ({l}_p) {l}_g = Add ({l}_s, {l}_grid) {l}_xy = Mul ({l}_g, {l}_stride)
    {l}_e = Exp ({l}_q) {l}_wh = Mul ({l}_e, {l}_size)
    {l}_score = Sigmoid ({l}_r)
"""
V5 = """
    {l}_all = Sigmoid ({l}_raw)
    {l}_p, {l}_q, {l}_score = Split <axis=4> ({l}_all, parts)
    {l}_s = Mul ({l}_p, two) {l}_o = Sub ({l}_s, half) {l}_g = Add ({l}_o, {l}_grid) {l}_xy = Mul ({l}_g, {l}_stride)
    {l}_d = Mul ({l}_q, two) {l}_e = Mul ({l}_d, {l}_d) {l}_wh = Mul ({l}_e, {l}_size)
"""
ROWS = "{l}_box = Concat <axis=4> ({l}_xy, {l}_wh, {l}_score) {l}_y = Reshape ({l}_box, rows)"
X = """
    {l}_b = Conv ({l}, w_{l}_b, b_{l}_b)
    {l}_k = Conv ({l}, w_{l}_k, b_{l}_k) {l}_s = Sigmoid ({l}_k)
    {l}_c = Concat <axis=1> ({l}_b, {l}_s) {l}_f = Reshape ({l}_c, flat) {l}_t = Transpose <perm=[0,2,1]> ({l}_f)
    {l}_p, {l}_q, {l}_score = Split <axis=2> ({l}_t, parts)
    {l}_g = Add ({l}_p, {l}_cells) {l}_xy = Mul ({l}_g, {l}_stride)
    {l}_e = Exp ({l}_q) {l}_wh = Mul ({l}_e, {l}_stride)
    {l}_y = Concat <axis=2> ({l}_xy, {l}_wh, {l}_score)
"""
V8 = """
    {l}_b = Conv ({l}, w_{l}_b, b_{l}_b) {l}_k = Conv ({l}, w_{l}_k, b_{l}_k)
    {l}_c = Concat <axis=1> ({l}_b, {l}_k) {l}_f = Reshape ({l}_c, flat)
    {l}_d, {l}_s = Split <axis=1> ({l}_f, bins_and_scores)
    {l}_v = Reshape ({l}_d, bins) {l}_m = Transpose <perm=[0,2,1,3]> ({l}_v) {l}_w = Softmax <axis=1> ({l}_m)
    {l}_n = Conv ({l}_w, numbers) {l}_far = Reshape ({l}_n, sides)
    {l}_low, {l}_high = Split <axis=1> ({l}_far, pairs)
    {l}_from = Sub ({l}_middles, {l}_low) {l}_to = Add ({l}_middles, {l}_high)
    {l}_sum = Add ({l}_from, {l}_to) {l}_half = Mul ({l}_sum, half) {l}_wide = Sub ({l}_to, {l}_from)
    {l}_box = Concat <axis=1> ({l}_half, {l}_wide) {l}_px = Mul ({l}_box, {l}_stride) {l}_score = Sigmoid ({l}_s)
    {l}_both = Concat <axis=1> ({l}_px, {l}_score) {l}_y = Transpose <perm=[0,2,1]> ({l}_both)
"""
HEADS = {"yolov3": PER_ANCHOR + V3 + ROWS, "yolov5": PER_ANCHOR + V5 + ROWS, "yolov8": V8, "yolox": X}


def detector(name: str, seed: int = 1) -> ModelProto:
    """A detector with the head of one of HEADS. It returns [n, boxes, 4 + scores]: centre, size, and scores from 0 to 1."""
    rng = np.random.default_rng(seed)
    body = TRUNK + "".join(HEADS[name].replace("{l}", level) for level in LEVELS)
    text = f"detector (float[N,3,{SIDE},{SIDE}] x) => (float[N,boxes,scores] y) {{ {body} y = Concat <axis=1> (fine_y, coarse_y) }}"
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 18]> {text}')
    arrays = constants(name) | {f"w{one}": rng.normal(size=(out, inner, 3, 3)) for one, out, inner in _trunk()}
    arrays |= {f"b{one}": np.zeros(out) for one, out, _ in _trunk()}
    for head, channels in _head_channels(name).items():
        arrays |= {f"w_{head}": rng.normal(size=(channels, CHANNELS, 1, 1)), f"b_{head}": np.zeros(channels)}
    for key, value in arrays.items():
        stored = np.asarray(value) if np.asarray(value).dtype == np.int64 else np.asarray(value, np.float32)
        model.graph.initializer.append(numpy_helper.from_array(stored, key))
    x = pictures(32, seed)
    for tensor, wanted in _wanted(name):
        _scale(model, x, tensor, wanted)
    return model


def pictures(count: int, seed: int) -> Array:
    """Squares of several sizes and noise, [count, 3, SIDE, SIDE]."""
    rng = np.random.default_rng(seed)
    found = np.zeros((count, 3, SIDE, SIDE))
    for size in (1, 2, 4, 8):
        squares = rng.normal(size=(count, 3, SIDE // size, SIDE // size))
        found += squares.repeat(size, axis=2).repeat(size, axis=3) / 2
    return found.astype(np.float32)


def answers(model: ModelProto, x: Array) -> Array:
    """What a detector returns for some pictures."""
    session = Session(model.SerializeToString(), "detector")
    return np.concatenate([session.run({"x": x[number : number + 1]})["y"] for number in range(len(x))])


def overlap(found: Array, wanted: Array) -> float:
    """The mean intersection over union of the boxes that `wanted` is surest of, and of those of `found` in the same places."""
    scores = wanted[..., 4:].max(axis=-1)
    chosen = scores >= np.quantile(scores, 1 - BEST)
    (low, high), (other_low, other_high) = (_corners(boxes[chosen]) for boxes in (found, wanted))
    common = np.prod(np.clip(np.minimum(high, other_high) - np.maximum(low, other_low), 0, None), axis=-1)
    both = np.prod(high - low, axis=-1) + np.prod(other_high - other_low, axis=-1) - common
    return float(np.mean(common / both))


def _corners(boxes: Array) -> tuple[Array, Array]:
    centre, size = boxes[..., :2].astype(np.float64), boxes[..., 2:4].astype(np.float64)
    return centre - size / 2, centre + size / 2


def _trunk() -> list[tuple[str, int, int]]:
    """The trunk's convolutions, with the channels of their output and input."""
    return [("a", 16, 3), ("b", CHANNELS, 16), ("c", CHANNELS, CHANNELS)]


def _head_channels(name: str) -> dict[str, int]:
    parts = (
        {"h": ANCHORS * (5 + CLASSES)} if name in ("yolov3", "yolov5") else {"b": 4 if name == "yolox" else 4 * BINS, "k": CLASSES}
    )
    return {f"{level}_{part}": channels for level in LEVELS for part, channels in parts.items()}


def _wanted(name: str) -> Iterator[tuple[str, Wanted]]:
    """The convolutions in order, and what their channels shall have."""
    for one, _, _ in _trunk():
        yield one, lambda channel: (0.0, 1.0)
    sizes = STRIDES if name == "yolox" else SIZES

    def boxes(channel: int) -> tuple[float, float]:
        return DISTANCES if name == "yolov8" else OFFSETS if channel % (5 + CLASSES) < 2 else sizes

    for head in _head_channels(name):
        if head.endswith("_h"):
            yield head, lambda channel: boxes(channel) if channel % (5 + CLASSES) < 4 else SCORES
        else:
            yield head, boxes if head.endswith("_b") else lambda channel: SCORES


def _scale(model: ModelProto, x: Array, tensor: str, wanted: Wanted) -> None:
    """Gives the channels of a convolution's output the mean and deviation that are wanted."""
    copy = ModelProto()
    copy.CopyFrom(model)
    copy.graph.output.append(onnx.ValueInfoProto(name=tensor))
    values = Session(copy.SerializeToString(), "detector").run({"x": x})[tensor]
    node = next(node for node in model.graph.node if tensor in node.output)
    means, deviations = values.mean(axis=(0, 2, 3)), values.std(axis=(0, 2, 3))
    goals = np.array([wanted(channel) for channel in range(len(means))], np.float32)
    gains = goals[:, 1] / deviations
    for place, change in ((1, lambda w: w * gains[:, None, None, None]), (2, lambda b: (b - means) * gains + goals[:, 0])):
        held = next(one for one in model.graph.initializer if one.name == node.input[place])
        held.CopyFrom(numpy_helper.from_array(change(numpy_helper.to_array(held)).astype(np.float32), held.name))


def constants(name: str) -> dict[str, Any]:
    """Grids, strides, anchors' sizes, and the shapes of views."""
    found: dict[str, Any] = {
        "parts": np.array([2, 2, 1 + CLASSES if name in ("yolov3", "yolov5") else CLASSES]),
        "rows": np.array([0, -1, 5 + CLASSES]),
        "flat": np.array([0, (4 if name == "yolox" else 4 * BINS) + CLASSES, -1]),
        "bins_and_scores": np.array([4 * BINS, CLASSES]),
        "bins": np.array([0, 4, BINS, -1]),
        "sides": np.array([0, 4, -1]),
        "pairs": np.array([2, 2]),
        "numbers": np.arange(BINS, dtype=float).reshape(1, BINS, 1, 1),
        "two": 2.0,
        "half": 0.5,
    }
    for level, (stride, side) in LEVELS.items():
        y, x = np.mgrid[:side, :side]
        cells = np.stack([x, y], axis=-1)
        found |= {
            f"{level}_view": np.array([0, ANCHORS, 5 + CLASSES, side, side]),
            f"{level}_grid": cells[None, None].astype(float),
            f"{level}_cells": cells.reshape(1, -1, 2).astype(float),
            f"{level}_middles": cells.reshape(-1, 2).T[None] + 0.5,
            f"{level}_stride": float(stride),
            f"{level}_size": stride * np.array([[1.5, 2.5], [3, 2], [4, 4]]).reshape(1, ANCHORS, 1, 1, 2),
        }
    return found
