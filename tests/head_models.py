"""Small detectors whose heads are those of SSD, CenterNet, CenterFace and DBNet, and the decode of their outputs by onnxruntime.

All have the trunk of `tools/detectors.py`, as those of `detector_models`. The decode is written cell by cell, as a user might.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

import detectors
import numpy as np
import onnx
from detectors import LEVELS, SIDE
from onnx import ModelProto, numpy_helper

from cnna.host.model.detections import Detections, best, corners
from cnna.spec.detection import areas

from .detector_models import Made, compiled, quantised

CLASSES, ANCHORS, STRIDE = 4, 2, 4
SSD = """
    {l}_u = Conv ({l}, w_{l}_u, b_{l}_u) {l}_ut = Transpose <perm=[0,2,3,1]> ({l}_u) {l}_ur = Reshape ({l}_ut, fours)
    {l}_k = Conv ({l}, w_{l}_k, b_{l}_k) {l}_kt = Transpose <perm=[0,2,3,1]> ({l}_k) {l}_kr = Reshape ({l}_kt, classes)
"""
SSD_BOXES = """
    u = Concat <axis=1> (fine_ur, coarse_ur) k = Concat <axis=1> (fine_kr, coarse_kr) d, s = Split <axis=2> (u, pairs)
    dm = Mul (d, moves) mid = Add (dm, middles) sm = Mul (s, fifth) e = Exp (sm) wh = Mul (e, sizes)
"""
SSD_CORNERS = "h = Mul (wh, half) low = Sub (mid, h) high = Add (mid, h) boxes = Concat <axis=2> (low, high)"
SSD_ROWS_FIRST = """
    h = Mul (wh, half) low = Sub (mid, h) high = Add (mid, h) l1, l2 = Split <axis=2> (low, ones)
    h1, h2 = Split <axis=2> (high, ones) boxes = Concat <axis=2> (l2, l1, h2, h1)
"""
SSD_CUT_APART = """
    h = Mul (wh, half) low = Sub (mid, h) high = Add (mid, h) whole = Concat <axis=2> (low, high)
    far = Mul (whole, side) least = Max (far, nought) most = Min (edge, least) share = Div (most, side)
    l1, l2, h1, h2 = Split <axis=2> (share, four_ones) boxes = Concat <axis=2> (l2, l1, h2, h1)
"""
CENTRES = """
    t_k = Conv (fine, w_t_k, b_t_k) y = Sigmoid (t_k) z = Conv (fine, w_t_z, b_t_z) v = Conv (fine, w_t_v, b_t_v)
"""
TEXT = """
    up = ConvTranspose <strides=[2,2]> (fine, w_up) larger = Relu (up)
    map = ConvTranspose <strides=[2,2]> (larger, w_map) y = Sigmoid (map)
"""


class Variant(NamedTuple):
    """A head. parts: channels of convolutions at both levels, or at the finer one. outputs: names and ranks. family: its name."""

    text: str
    parts: Mapping[str, int]
    outputs: Mapping[str, int]
    family: str
    levels: bool = False
    pixels: bool = False  # places of an SSD; else shares of the picture


SSD_PARTS = {"u": 4 * ANCHORS, "k": (1 + CLASSES) * ANCHORS}
CENTRE_PARTS = {"k": CLASSES, "z": 2, "v": 2}
VARIANTS = {
    "ssd": Variant(
        SSD_BOXES + SSD_CORNERS + " scores = Softmax <axis=2> (k)", SSD_PARTS, {"scores": 3, "boxes": 3}, "SSD", levels=True
    ),
    "ssd in one": Variant(
        SSD_BOXES + "scores = Softmax <axis=-1> (k) y = Concat <axis=2> (mid, wh, scores)", SSD_PARTS, {"y": 3}, "SSD", True, True
    ),
    "ssd sigmoid": Variant(
        SSD_BOXES + SSD_CORNERS + " scores = Sigmoid (k)", SSD_PARTS, {"boxes": 3, "scores": 3}, "SSD", levels=True
    ),
    "ssd rows first": Variant(
        SSD_BOXES + SSD_ROWS_FIRST + " scores = Softmax <axis=2> (k)", SSD_PARTS, {"boxes": 3, "scores": 3}, "SSD", levels=True
    ),
    "ssd cut": Variant(
        SSD_BOXES + SSD_CORNERS.replace("boxes =", "whole =") + " boxes = Clip (whole, nought, unit) scores = Softmax <axis=2> (k)",
        *(SSD_PARTS, {"boxes": 3, "scores": 3}, "SSD"),
        levels=True,
    ),
    "ssd sigmoid rows first cut": Variant(
        SSD_BOXES + SSD_CUT_APART + " scores = Sigmoid (k)", SSD_PARTS, {"scores": 3, "boxes": 3}, "SSD", levels=True
    ),
    "centernet": Variant(CENTRES, CENTRE_PARTS, {"y": 4, "z": 4, "v": 4}, "CenterNet"),
    "centernet of logits": Variant(
        CENTRES.replace("y = Sigmoid (t_k)", "y = Identity (t_k)"), CENTRE_PARTS, {"y": 4, "z": 4, "v": 4}, "CenterNet"
    ),
    "centernet of two": Variant(CENTRES, {**CENTRE_PARTS, "k": 2}, {"y": 4, "z": 4, "v": 4}, "CenterNet"),
    "centerface": Variant(
        CENTRES + "p = Conv (fine, w_t_p, b_t_p)", {**CENTRE_PARTS, "k": 1, "p": 10}, {"y": 4, "z": 4, "v": 4, "p": 4}, "CenterFace"
    ),
    "dbnet": Variant(TEXT, {}, {"y": 4}, "DBNet"),
}  # fmt: skip


def model(name: str, seed: int = 1) -> ModelProto:
    """The float model of a variant."""
    variant = VARIANTS[name]
    levels = "".join(SSD.replace("{l}", level) for level in LEVELS) if variant.levels else ""
    shown = {key: ["N", *(f"{key}{axis}" for axis in range(1, rank))] for key, rank in variant.outputs.items()}
    outputs = ", ".join(f"float[{','.join(sizes)}] {key}" for key, sizes in shown.items())
    text = f"detector (float[N,3,{SIDE},{SIDE}] x) => ({outputs}) {{ {detectors.TRUNK} {levels} {variant.text} }}"
    made = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 18]> {text}')
    rng = np.random.default_rng(seed)
    constants = _priors(variant.pixels) if variant.levels else {}
    shapes = {"wa": (16, 3, 3, 3), "wb": (32, 16, 3, 3), "wc": (32, 32, 3, 3)}
    if not variant.parts:
        shapes |= {"w_up": (32, 8, 2, 2), "w_map": (8, 1, 2, 2)}
    for level in LEVELS if variant.levels else ("t",):
        shapes |= {f"w_{level}_{part}": (channels, 32, 1, 1) for part, channels in variant.parts.items()}
    for key, shape in shapes.items():
        constants[key] = rng.normal(size=shape) / np.prod(shape[1:]) ** 0.5 * 1.5
        if key != "w_up" and key != "w_map":
            constants[f"b{key[1:]}"] = rng.normal(0.5 if key[-1] in "zvu" else 0.0, 0.3, shape[0])
    used = {one for node in made.graph.node for one in node.input}
    for key, value in constants.items():
        if key in used:
            stored = np.asarray(value) if np.asarray(value).dtype == np.int64 else np.asarray(value, np.float32)
            made.graph.initializer.append(numpy_helper.from_array(stored, key))
    return made


def _priors(pixels: bool) -> dict[str, Any]:
    middles, sizes = [], []
    for stride, side in LEVELS.values():
        y, x = (np.mgrid[:side, :side] + 0.5) * (stride if pixels else stride / SIDE)
        middles.append(np.stack([x, y], axis=-1).reshape(-1, 1, 2).repeat(ANCHORS, 1).reshape(1, -1, 2))
        edges = np.array([[3.0, 2.0], [2.0, 4.0]]) * (stride if pixels else stride / SIDE)
        sizes.append(np.tile(edges, (side * side, 1))[None])
    whole = np.concatenate(sizes, axis=1)
    of = {"fours": [0, -1, 4], "classes": [0, -1, 1 + CLASSES], "pairs": [2, 2], "ones": [1, 1], "four_ones": [1, 1, 1, 1]}
    found: dict[str, Any] = {key: np.array(value) for key, value in of.items()}
    found |= {"nought": 0.0, "unit": 1.0, "side": float(SIDE), "edge": float(SIDE)}
    return {**found, "middles": np.concatenate(middles, axis=1), "sizes": whole, "moves": whole * 0.1, "fifth": 0.2, "half": 0.5}


@cache
def made(name: str) -> Made:
    """A variant, quantised and compiled."""
    return compiled(quantised(model(name)))


def wanted(name: str, outputs: Mapping[str, np.ndarray], least: float, overlap: float, labels: str = "all") -> Detections:
    """The detections in the whole float outputs, by name, of one picture."""
    boxes, scores = rows_of(name, outputs)
    if labels == "best":
        scores = np.where(np.arange(scores.shape[1]) == scores.argmax(axis=1)[:, None], scores, np.float32(-1))
    return best(boxes, scores, least, overlap)


def rows_of(name: str, outputs: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Boxes and scores [boxes, classes], -1 where one does not count."""
    if VARIANTS[name].family == "SSD":
        return _ssd(name, outputs)
    if name == "dbnet":
        return _text(outputs["y"][0, 0])
    heat = outputs["y"][0] if "logits" not in name else 1 / (1 + np.exp(-outputs["y"][0]))
    columns = heat.shape[2]
    boxes, scores = np.zeros((heat[0].size, 4), np.float32), []
    for cell in range(len(boxes)):
        y, x = divmod(cell, columns)
        sizes, moves = outputs["z"][0, :, y, x], outputs["v"][0, :, y, x]
        around = heat[:, max(0, y - 1) : y + 2, max(0, x - 1) : x + 2].max(axis=(1, 2))
        if name == "centerface":
            (high, wide), (dy, dx) = np.exp(sizes), moves + 0.5
            scores.append(heat[:, y, x])
        else:
            (wide, high), (dx, dy) = sizes, moves
            scores.append(np.where(heat[:, y, x] >= around, heat[:, y, x], -1))
        middle = np.array([(x + dx) * STRIDE, (y + dy) * STRIDE])
        half = np.array([wide, high]) * STRIDE / 2
        boxes[cell] = [*(middle - half), *(middle + half)]
    return boxes, np.array(scores, np.float32)


def _ssd(name: str, outputs: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    if name == "ssd in one":
        return corners(outputs["y"][0, :, :4]), outputs["y"][0, :, 5:]
    scores = outputs["scores"][0] if "sigmoid" in name else outputs["scores"][0, :, 1:]
    boxes = outputs["boxes"][0] * SIDE
    return boxes[:, [1, 0, 3, 2]] if "rows first" in name else boxes, scores


def _text(scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    boxes, means = [], []
    for area in flooded(scores >= np.float32(0.3)):
        y, x = np.array(area).T
        wide, high = int(np.ptp(x)), int(np.ptp(y))
        if min(wide, high) >= 3:
            grown = areas.GROWTH * wide * high / (2 * (wide + high))
            boxes.append([x.min() - grown, y.min() - grown, x.max() + grown, y.max() + grown])
            means.append(scores[y, x].mean(dtype=np.float64))
    return np.array(boxes, np.float32).reshape(-1, 4), np.array(means, np.float32).reshape(-1, 1)


def flooded(true: np.ndarray) -> list[list[tuple[int, int]]]:
    """The cells of each area, by walking from cell to cell."""
    left, found = set(zip(*(axis.tolist() for axis in np.nonzero(true)), strict=True)), []
    while left:
        waiting, area = [min(left)], []
        left.discard(waiting[0])
        while waiting:
            y, x = waiting.pop()
            area.append((y, x))
            around = {(y + v, x + u) for v in (-1, 0, 1) for u in (-1, 0, 1)} & left
            left -= around
            waiting += around
        found.append(sorted(area))
    return sorted(found)
