"""A small detector for notebooks: it finds discs, squares and crosses on a cluttered ground, and is made in seconds.

Its convolutions have seeded random filters. Only the last layer is fitted, by least squares, to scenes whose boxes are known. So
it really detects, though a trained network of its size would do better. It answers as an SSD does: `scores` and `boxes` for each
cell; or, as `decoding`, as a YOLOX: rows of a box in pixels and its scores.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

CLASSES = ("disc", "square", "cross")
EDGE, STRIDE, PRIOR = 96, 8, 24  # in pixels: side of a scene, distance of cells, side of the box that each cell begins with
CELLS = EDGE // STRIDE
CENTRE, SIZE = 0.1, 0.2  # SSD's variances
LAYERS = ((3, 24, 2), (24, 48, 2), (48, 96, 2), (96, 256, 1))  # channels in and out, stride
GAIN, RIDGE, OWNED = 12.0, 1e-3, 4.0  # slope of the sigmoid; ridge of the fit; weight of an object's own cells in it
NOISE, SPEED = 6, 4.0  # of the ground's pixels; of a clip's objects, in pixels a frame
NEAR, FAR = 0.75, 1.25  # in cells from an object's centre: nearer cells must answer, farther ones must not

Float = NDArray[np.float32]
Layer = tuple[Float, Float]  # weights [out, in] and bias [out]


@dataclass(frozen=True)
class Scene:
    """A picture, uint8 [3, EDGE, EDGE], and its objects: boxes [M, 4] (left, top, right, bottom) and classes [M]."""

    picture: NDArray[np.uint8]
    boxes: Float
    classes: NDArray[np.int64]


def scenes(count: int, seed: int) -> list[Scene]:
    """As many scenes, each with one to four objects that do not touch."""
    rng = np.random.default_rng(seed)
    return [_scene(rng) for _ in range(count)]


def clip(count: int, seed: int) -> list[NDArray[np.uint8]]:
    """So many frames, uint8 [EDGE, EDGE, 3], of one scene whose objects move, and turn round at its edges."""
    rng = np.random.default_rng(seed)
    scene = _scene(rng)
    halves = (scene.boxes[:, 2:] - scene.boxes[:, :2]) / 2
    places, steps = scene.boxes[:, :2] + halves, rng.uniform(-SPEED, SPEED, halves.shape)
    ground, colours = _ground(rng), rng.uniform(160, 255, (len(halves), 3, 1, 1))
    frames = list[NDArray[np.uint8]]()
    for _ in range(count):
        picture = ground + rng.normal(0, NOISE, ground.shape)
        for kind, (x, y), (half, _), colour in zip(scene.classes, places, halves, colours, strict=True):
            picture = np.where(_mask(int(kind), float(x), float(y), float(half)), colour, picture)
        frames.append(np.ascontiguousarray(np.clip(picture, 0, 255).astype(np.uint8).transpose(1, 2, 0)))
        steps = np.where((places + steps < halves) | (places + steps > EDGE - halves), -steps, steps)
        places = places + steps
    return frames


def _ground(rng: np.random.Generator) -> NDArray[np.float64]:
    coarse = rng.uniform(20, 80, (3, 7, 7))
    return np.stack([np.kron(plane, np.ones((14, 14)))[:EDGE, :EDGE] for plane in coarse])


def _scene(rng: np.random.Generator) -> Scene:
    ground = _ground(rng)
    picture = ground + rng.normal(0, NOISE, ground.shape)
    boxes: list[tuple[float, ...]] = []
    classes: list[int] = []
    wanted = int(rng.integers(1, 5))
    for _ in range(40):
        half = rng.uniform(8, 15)
        x, y = rng.uniform(half, EDGE - half, 2)
        box = (x - half, y - half, x + half, y + half)
        if len(boxes) == wanted or any(box[0] < b[2] and b[0] < box[2] and box[1] < b[3] and b[1] < box[3] for b in boxes):
            continue
        boxes.append(box)
        classes.append(int(rng.integers(len(CLASSES))))
        mask = _mask(classes[-1], x, y, half)
        picture = np.where(mask, rng.uniform(160, 255, (3, 1, 1)), picture)
    return Scene(np.clip(picture, 0, 255).astype(np.uint8), np.array(boxes, np.float32), np.array(classes, np.int64))


def _mask(kind: int, x: float, y: float, half: float) -> NDArray[np.bool_]:
    """Where an object is: bool [EDGE, EDGE]."""
    rows, columns = np.mgrid[:EDGE, :EDGE] + 0.5
    across, down = np.abs(columns - x), np.abs(rows - y)
    if kind == 0:
        return np.hypot(across, down) < half
    square = np.maximum(across, down) < half
    return square if kind == 1 else square & (np.minimum(across, down) < half / 3)


def detector(seed: int = 1, count: int = 400) -> onnx.ModelProto:
    """The float model, fitted to `count` scenes.

    Input x: [1, 3, EDGE, EDGE], 0 to 1. Outputs: scores [1, N, 3], boxes [1, N, 4].
    """
    rng = np.random.default_rng(seed)
    filters = [rng.normal(0, (2 / (9 * cin)) ** 0.5, (cout, cin, 3, 3)).astype(np.float32) for cin, cout, _ in LAYERS]
    shown = scenes(count, seed)
    body = onnxruntime.InferenceSession(_model(filters, {}).SerializeToString(), providers=["CPUExecutionProvider"])
    x = np.stack([scene.picture for scene in shown]).astype(np.float32) / 255
    features = np.concatenate([body.run(None, {"x": x[i : i + 50]})[0] for i in range(0, count, 50)])
    rows = features.transpose(0, 2, 3, 1).reshape(-1, LAYERS[-1][1]).astype(np.float64)
    targets, offsets, weights = (np.concatenate(parts) for parts in zip(*map(_targets, shown), strict=True))
    score, bias = _fitted(rows, targets, weights)
    move, rest = _fitted(rows, offsets, (weights == OWNED).astype(float))
    return _model(
        filters, {"scores": (np.float32(GAIN) * score, np.float32(GAIN) * (bias - np.float32(0.5))), "boxes": (move, rest)}
    )


def decoding(model: onnx.ModelProto) -> onnx.ModelProto:
    """The detector with its decode: one output, y [1, N, 4 + 3], centre and size in pixels, and scores."""
    rows, columns = np.mgrid[:CELLS, :CELLS]
    middle = np.stack([columns, rows], axis=-1).reshape(1, -1, 2) * STRIDE + STRIDE / 2
    numbers = {"parts": np.array([2, 2]), "middle": middle, "moved": PRIOR * CENTRE, "grown": SIZE, "prior": PRIOR}
    made = onnx.ModelProto()
    made.CopyFrom(model)
    made.graph.node.extend(
        [
            helper.make_node("Split", ["boxes", "parts"], ["move", "grow"], axis=2),
            helper.make_node("Mul", ["move", "moved"], ["pixels"]),
            helper.make_node("Add", ["pixels", "middle"], ["centre"]),
            helper.make_node("Mul", ["grow", "grown"], ["logarithm"]),
            helper.make_node("Exp", ["logarithm"], ["times"]),
            helper.make_node("Mul", ["times", "prior"], ["size"]),
            helper.make_node("Concat", ["centre", "size", "scores"], ["y"], axis=2),
        ]
    )
    for name, value in numbers.items():
        kept = np.asarray(value) if name == "parts" else np.asarray(value, np.float32)
        made.graph.initializer.append(numpy_helper.from_array(kept, name))
    del made.graph.output[:]
    made.graph.output.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, CELLS**2, 4 + len(CLASSES)]))
    return made


def _targets(scene: Scene) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """For each cell its scores, its offsets and its weight, which is 0 where both answers would be right."""
    rows, columns = np.mgrid[:CELLS, :CELLS]
    middle = np.stack([columns, rows], axis=-1).reshape(-1, 2) * STRIDE + STRIDE / 2
    centres, sizes = (scene.boxes[:, :2] + scene.boxes[:, 2:]) / 2, scene.boxes[:, 2:] - scene.boxes[:, :2]
    away = np.abs(middle[:, None] - centres[None]).max(axis=2)
    nearest = away.argmin(axis=1)
    least = away.min(axis=1) / STRIDE
    owned = least <= NEAR
    scores = np.eye(len(CLASSES))[scene.classes[nearest]] * owned[:, None]
    offsets = np.concatenate([(centres[nearest] - middle) / PRIOR / CENTRE, np.log(sizes[nearest] / PRIOR) / SIZE], axis=1)
    return scores, offsets, np.where(owned, OWNED, least >= FAR)


def _fitted(rows: NDArray[Any], targets: NDArray[Any], weights: NDArray[Any]) -> Layer:
    """The linear layer that fits the targets with the least weighted mean square error."""
    whole = np.concatenate([rows, np.ones((len(rows), 1))], axis=1)
    left = whole.T @ (whole * weights[:, None])
    found = np.linalg.solve(left + RIDGE * np.trace(left) / len(left) * np.eye(len(left)), whole.T @ (targets * weights[:, None]))
    return found[:-1].T.astype(np.float32), found[-1].astype(np.float32)


def _model(filters: Sequence[Float], heads: Mapping[str, Layer]) -> onnx.ModelProto:
    """The network; without heads, only up to the output of its last convolution."""
    nodes, arrays, name = [], {f"filters{number}": weights for number, weights in enumerate(filters)}, "x"
    for number, (_, _, stride) in enumerate(LAYERS):
        nodes.append(helper.make_node("Conv", [name, f"filters{number}"], [f"conv{number}"], strides=[stride] * 2, pads=[1] * 4))
        name = f"relu{number}"
        nodes.append(helper.make_node("Relu", [f"conv{number}"], [name]))
    outputs: dict[str, list[int | str]] = {} if heads else {name: ["n", LAYERS[-1][1], CELLS, CELLS]}
    for end, (weights, bias) in heads.items():
        outputs[end] = [1, CELLS**2, len(bias)]
        rows = f"{end}.rows" if end == "scores" else end
        arrays |= {f"{end}.weights": weights[:, :, None, None], f"{end}.bias": bias, f"{end}.shape": np.array([1, -1, len(bias)])}
        nodes += [
            helper.make_node("Conv", [name, f"{end}.weights", f"{end}.bias"], [f"{end}.map"]),
            helper.make_node("Transpose", [f"{end}.map"], [f"{end}.last"], perm=[0, 2, 3, 1]),
            helper.make_node("Reshape", [f"{end}.last", f"{end}.shape"], [rows]),
            *([helper.make_node("Sigmoid", [rows], [end])] if rows != end else []),
        ]
    ends = {"x": ["n" if not heads else 1, 3, EDGE, EDGE], **outputs}
    values = [helper.make_tensor_value_info(end, TensorProto.FLOAT, shape) for end, shape in ends.items()]
    constants = [numpy_helper.from_array(array, key) for key, array in arrays.items()]
    graph = helper.make_graph(nodes, "shapes", values[:1], values[1:], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
