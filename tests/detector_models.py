"""Small detectors with heads as exporters write them, quantised and compiled, and the decode of their outputs by onnxruntime.

All have the trunk of `tools/detectors.py`: maps of 16x16 and 8x8 cells for pictures of 64x64, 4 classes.
"""

from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

import detectors
import numpy as np
import onnx
from detectors import ANCHORS, BINS, CLASSES, LEVELS, SIDE
from onnx import ModelProto, numpy_helper

from cnna.compiler.compile import compile_model
from cnna.compiler.heads.find import Missed, with_detector
from cnna.compiler.quantise.quantise import calibrated, float_graph
from cnna.host.model.detections import Detections, best, yolo_rows, yolox_rows
from cnna.spec.artifact import Artifact, CpuPiece
from cnna.spec.config import preset
from cnna.spec.detection.heads import Heads
from cnna.spec.samples import pack
from cnna.spec.samples.preprocess import Preprocess

from .compiler.written import answers

HOW = Preprocess(scale=1 / 64, mean=(2.0,))  # pictures of squares become what `detectors.pictures` draws
CELLS = sum(side * side for _, side in LEVELS.values())

ALL_LEVELS = """
    {l}_b = Conv ({l}, w_{l}_b, b_{l}_b) {l}_k = Conv ({l}, w_{l}_k, b_{l}_k)
    {l}_c = Concat <axis=1> ({l}_b, {l}_k) {l}_f = Reshape ({l}_c, flat)
"""
ULTRALYTICS = """
    all = Concat <axis=2> (fine_f, coarse_f) d, s = Split <axis=1> (all, bins_and_scores)
    v = Reshape (d, bins) m = Transpose <perm=[0,2,1,3]> (v) w = Softmax <axis=1> (m) n = Conv (w, numbers) far = Reshape (n, sides)
    low = Slice (far, zero, two_i, one) high = Slice (far, two_i, four_i, one)
    from = Sub (middles, low) to = Add (middles, high)
    sum = Add (from, to) half_sum = Div (sum, two) wide = Sub (to, from)
    box = Concat <axis=1> (half_sum, wide) px = Mul (box, strides)
    score = Sigmoid (s) y = Concat <axis=1> (px, score)
"""
SUMMED = """
    all = Concat <axis=2> (fine_f, coarse_f) d = Slice (all, zero, scores_at, one) s = Slice (all, scores_at, many, one)
    v = Reshape (d, bins) w = Softmax <axis=2> (v) weighed = Mul (w, numbers_last) n = ReduceSum <keepdims=0> (weighed, two_i)
    low, high = Split <axis=1> (n, pairs)
    from = Sub (middles, low) to = Add (high, middles)
    box = Concat <axis=1> (from, to) px = Mul (strides, box) score = Sigmoid (s) both = Concat <axis=1> (px, score)
    y = Transpose <perm=[0,2,1]> (both)
"""
NO_BINS = """
    all = Concat <axis=2> (fine_f, coarse_f) d, s = Split <axis=1> (all, four_and_scores)
    low, high = Split <axis=1> (d, pairs) from = Sub (middles, low) to = Add (middles, high)
    sum = Add (from, to) half_sum = Mul (sum, half) wide = Sub (to, from)
    box = Concat <axis=1> (half_sum, wide) px = Mul (box, strides)
    score = Sigmoid (s) y = Concat <axis=1> (px, score)
"""
APART = ULTRALYTICS.replace("y = Concat <axis=1> (px, score)", "y = Identity (px) z = Identity (score)")
SLICED = """
    {l}_h = Conv ({l}, w_{l}_h, b_{l}_h)
    {l}_v = Reshape ({l}_h, {l}_view) {l}_raw = Transpose <perm=[0,1,3,4,2]> ({l}_v) {l}_all = Sigmoid ({l}_raw)
    {l}_p = Slice ({l}_all, zero, two_i, four_i) {l}_q = Slice ({l}_all, two_i, four_i, four_i)
    {l}_score = Slice ({l}_all, four_i, many, four_i)
    {l}_s = Mul ({l}_p, two) {l}_g = Add ({l}_s, {l}_grid) {l}_o = Sub ({l}_g, half) {l}_xy = Mul ({l}_o, {l}_stride)
    {l}_d = Mul ({l}_q, two) {l}_e = Pow ({l}_d, two) {l}_wh = Mul ({l}_e, {l}_size)
    {l}_box = Concat <axis=4> ({l}_xy, {l}_wh, {l}_score)
    {l}_t = Transpose <perm=[0,2,3,1,4]> ({l}_box) {l}_y = Reshape ({l}_t, rows)
"""
RAW_X = """
    {l}_b = Conv ({l}, w_{l}_b, b_{l}_b) {l}_o = Conv ({l}, w_{l}_o, b_{l}_o) {l}_k = Conv ({l}, w_{l}_k, b_{l}_k)
    {l}_s = Sigmoid ({l}_o) {l}_t = Sigmoid ({l}_k)
    {l}_c = Concat <axis=1> ({l}_b, {l}_s, {l}_t) {l}_y = Reshape ({l}_c, flat)
"""
X_END = "all = Concat <axis=2> (fine_y, coarse_y) y = Transpose <perm=[0,2,1]> (all)"
PLAIN_END = "y = Concat <axis=1> (fine_y, coarse_y)"


class Variant(NamedTuple):
    """A way to write a head. text: by level, then the end. parts: the channels of its convolutions. family: what it is found as.

    turned: outputs are [1, numbers, boxes]. corners: its boxes are. raw: they are not decoded. objectness: number 4 is.
    """

    text: str
    end: str
    parts: Mapping[str, int]
    family: str
    turned: bool = False
    corners: bool = False
    raw: bool = False
    objectness: bool = False


DFL = {"b": 4 * BINS, "k": CLASSES}
BY_ANCHOR = {"h": ANCHORS * (5 + CLASSES)}
VARIANTS = {
    "yolov3": Variant(detectors.HEADS["yolov3"], PLAIN_END, BY_ANCHOR, "YOLOv3", objectness=True),
    "yolov5": Variant(detectors.HEADS["yolov5"], PLAIN_END, BY_ANCHOR, "YOLOv5", objectness=True),
    "yolov8": Variant(detectors.HEADS["yolov8"], PLAIN_END, DFL, "YOLOv8"),
    "yolox": Variant(detectors.HEADS["yolox"], PLAIN_END, {"b": 4, "k": CLASSES}, "YOLOX"),
    "yolov5 sliced": Variant(SLICED, PLAIN_END, BY_ANCHOR, "YOLOv5", objectness=True),
    "yolov8 joined first": Variant(ALL_LEVELS, ULTRALYTICS, DFL, "YOLOv8", turned=True),
    "yolov8 summed": Variant(ALL_LEVELS, SUMMED, DFL, "YOLOv8", corners=True),
    "yolov8 apart": Variant(ALL_LEVELS, APART, DFL, "YOLOv8", turned=True),
    "no bins": Variant(ALL_LEVELS, NO_BINS, {"b": 4, "k": CLASSES}, "YOLOv8", turned=True),
    "yolox raw": Variant(RAW_X, X_END, {"b": 4, "o": 1, "k": CLASSES}, "YOLOX", raw=True, objectness=True),
}


def model(name: str, seed: int = 1) -> ModelProto:
    """The float model of a variant."""
    variant = VARIANTS[name]
    body = detectors.TRUNK + "".join(variant.text.replace("{l}", level) for level in LEVELS) + variant.end
    outputs = "float[N,p,q] y, float[N,r,s] z" if "z = " in variant.end else "float[N,p,q] y"
    text = f"detector (float[N,3,{SIDE},{SIDE}] x) => ({outputs}) {{ {body} }}"
    made = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 18]> {text}')
    rng = np.random.default_rng(seed)
    constants = _constants(variant)
    convs = {one: (out, inner, 3) for one, out, inner in (("a", 16, 3), ("b", 32, 16), ("c", 32, 32))}
    convs |= {f"{level}_{part}": (channels, 32, 1) for level in LEVELS for part, channels in variant.parts.items()}
    for key, (out, inner, kernel) in convs.items():
        joint = "_" if "_" in key else ""
        constants |= {f"w{joint}{key}": rng.normal(size=(out, inner, kernel, kernel)) / (inner * kernel * kernel) ** 0.5 * 1.5}
        offset = -1.0 if key[-1] in "koh" else 0.5
        constants |= {f"b{joint}{key}": rng.normal(offset * bool(joint), 1.0 if joint else 0.1, out)}
    for key, value in constants.items():
        stored = np.asarray(value) if np.asarray(value).dtype == np.int64 else np.asarray(value, np.float32)
        made.graph.initializer.append(numpy_helper.from_array(stored, key))
    return made


def _constants(variant: Variant) -> dict[str, np.ndarray]:
    middles, strides = [], []
    for stride, side in LEVELS.values():
        y, x = np.mgrid[:side, :side] + 0.5
        middles.append(np.stack([x.ravel(), y.ravel()]))
        strides.append(np.full((1, side * side), float(stride)))
    whole = sum(variant.parts.values())
    return {
        **detectors.constants("yolox" if "o" in variant.parts or variant.parts.get("b") == 4 else "yolov8"),
        **({"parts": np.array([2, 2, 1 + CLASSES])} if "h" in variant.parts else {}),
        **({"flat": np.array([0, whole, -1])} if "h" not in variant.parts else {}),
        "bins": np.array([0, 4, BINS, -1]),
        "numbers_last": np.arange(BINS, dtype=float).reshape(1, 1, BINS, 1),
        "middles": np.concatenate(middles, 1)[None],
        "strides": np.concatenate(strides, 1)[None],
        "four_and_scores": np.array([4, CLASSES]),
        "scores_at": np.array([4 * BINS]),
        "zero": np.array([0]),
        "one": np.array([1]),
        "two_i": np.array([2]),
        "four_i": np.array([4]),
        "many": np.array([1 << 30]),
    }


def pictures(count: int, seed: int = 2) -> np.ndarray:
    """uint8 [count, 3, SIDE, SIDE]."""
    return np.clip((detectors.pictures(count, seed) + 2) * 64, 0, 255).astype(np.uint8)


def quantised(float_model: ModelProto) -> ModelProto:
    """As `cnna convert --detector auto` quantises it."""
    given = calibrated(float_graph(float_model), {"x": pictures(4)}, preprocess=HOW)
    return given.quantised(given.behind_heads())[0]


class Made(NamedTuple):
    """A detector: the quantised model, and the artifact with what was found."""

    model: ModelProto
    artifact: Artifact
    found: Heads | Missed


@cache
def made(name: str) -> Made:
    """A variant, quantised and compiled."""
    return compiled(quantised(model(name)))


def compiled(int8: ModelProto) -> Made:
    """A quantised model, compiled."""
    return Made(int8, *with_detector(compile_model(int8, preset("tiny"))))


def outputs_of_heads(one: Made, tensors: list[np.ndarray]) -> list[np.ndarray]:
    """What the quantised model makes of some head tensors, by onnxruntime."""
    artifact = one.artifact
    piece = artifact.pieces[-1]
    assert isinstance(piece, CpuPiece)
    ports = {port["name"]: port for program in artifact.programs for port in program.manifest["outputs"]}
    names = artifact.manifest["detector"]["heads"]
    feeds = {
        name: pack.dequantise(q[None], ports[name]["scale"], ports[name]["zero"]) for name, q in zip(names, tensors, strict=True)
    }
    return answers(onnx.load_from_string(piece.model), feeds)


def rows_of(name: str, outputs: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Boxes and scores, as a user of the whole float output decodes it, for one picture."""
    variant = VARIANTS[name]
    rows = np.concatenate([y[0].T if variant.turned else y[0] for y in outputs], axis=1)
    if variant.raw:
        rows = yolox_rows(rows, (SIDE, SIDE), [stride for stride, _ in LEVELS.values()])
    boxes, scores = yolo_rows(rows, variant.objectness)
    return (rows[:, :4] if variant.corners else boxes), scores


def wanted(name: str, outputs: list[np.ndarray], least: float, overlap: float, labels: str, most: int = 200) -> Detections:
    """The detections in the whole float output."""
    boxes, scores = rows_of(name, outputs)
    if labels == "best":
        scores = np.where(np.arange(scores.shape[1]) == scores.argmax(axis=1)[:, None], scores, np.float32(-1))
    return best(boxes, scores, least, overlap, most)
