"""Models to try: the project's own trained one, and the graphs of well-known networks, shipped by the onnx package or generated.

Those graphs are real, their weights are not: `build` gives them seeded weights (`weights`). Their answers mean nothing; their
layers, sizes and cycles are those of the network.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import prod
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray

from cnna.compiler.zoo import weights
from cnna.compiler.zoo.classifiers import CLASSIFIERS
from cnna.compiler.zoo.detectors import DETECTORS
from cnna.compiler.zoo.digits import data as digits
from cnna.compiler.zoo.maps import MAPS
from cnna.spec.errors import ModelError

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
VARIANTS = {  # variants of shipped graphs, where one name has several
    "alexnet": "AlexNet of BVLC, grouped",
    "inception_v1": "Inception-v1 (GoogLeNet)",
    "inception_v2": "Inception-v2",
    "resnet50": "ResNet-50 v1.5 (stride in the 3x3)",
    "squeezenet": "SqueezeNet 1.1",
}

Float = NDArray[np.float32]


@dataclass(frozen=True)
class Entry:
    """A model that can be written: its name, a description, and its graph, which has no weights unless the model is trained."""

    name: str
    about: str
    graph: Callable[[], onnx.ModelProto]
    trained: bool = False


def entries() -> list[Entry]:
    """Every model that this machine has: the trained one first, then the others by name."""
    found = []
    for path in LIGHT.glob("light_*.onnx"):
        name = path.stem.removeprefix("light_").removeprefix("bvlc_")
        variant = f"{VARIANTS[name]}, " if name in VARIANTS else ""
        without = ", its LRN left out" if _has_lrn(path) else ""
        about = f"{variant}graph of {path.name} in the onnx package{without}, seeded random weights"
        found.append(Entry(name, about, partial(_shipped, path)))
    generated = {**CLASSIFIERS, **DETECTORS, **MAPS}
    found += [Entry(name, f"{variant}, generated, seeded random weights", make) for name, (make, variant) in generated.items()]
    found.sort(key=lambda entry: entry.name)
    about = "residual CNN trained on handwritten digits, 16x16"
    return [Entry("digits", about, partial(onnx.load, digits.NETWORK), trained=True), *found]


def entry(name: str) -> Entry:
    """The model with that name. ModelError: there is none; the message lists the names."""
    found = {one.name: one for one in entries()}
    if name not in found:
        raise ModelError(f"model {name!r} is unknown; there are {', '.join(found)}")
    return found[name]


def build(one: Entry, seed: int = 1) -> onnx.ModelProto:
    """The model with weights: the committed ones, or weights drawn from `seed`."""
    model = one.graph()
    if one.trained:
        return model
    model = weights.with_weights(model, np.random.default_rng(seed))
    weights.measure_norms(model, pictures(one, 1, seed))
    onnx.checker.check_model(model, full_check=True)
    return model


def pictures(one: Entry, count: int, seed: int = 1) -> Float:
    """Inputs for calibration or runs: [n, C, H, W], zero mean, coarse shapes with noise (for graphs that are not trained)."""
    graph = one.graph().graph
    constants = {tensor.name for tensor in graph.initializer}
    value = next(value for value in graph.input if value.name not in constants)
    channels, height, width = (axis.dim_value for axis in value.type.tensor_type.shape.dim[1:])
    rng = np.random.default_rng([seed, 1])
    coarse = rng.normal(size=(count, channels, -(-height // 16), -(-width // 16)))
    shapes = np.kron(coarse, np.ones((16, 16)))[:, :, :height, :width]
    return (0.8 * shapes + 0.6 * rng.normal(size=shapes.shape)).astype(np.float32)


def parameters(model: onnx.ModelProto) -> int:
    """Number of a model's weights: elements of its nodes' constants, without the shapes of Reshapes and the limits of Clips."""
    used = {name for node in model.graph.node for name in node.input if node.op_type not in ("ConstantOfShape", "Clip")}
    return sum(prod(shape) for name, shape in weights.weight_shapes(model.graph).items() if name in used)


def macs(model: onnx.ModelProto) -> int:
    """Multiply-accumulates of a model's convolutions and fully connected layers for one image, padding included.

    A transposed convolution multiplies every pixel that it reads by its whole kernel.
    """
    graph = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
    values = [*graph.input, *graph.value_info, *graph.output]
    shapes = {value.name: tuple(axis.dim_value for axis in value.type.tensor_type.shape.dim) for value in values}
    shapes |= weights.weight_shapes(graph)
    total = 0
    for node in graph.node:
        if node.op_type in ("Conv", "ConvTranspose", "Gemm", "MatMul"):
            end = {"Conv": node.output[0], "ConvTranspose": node.input[0]}.get(node.op_type)
            total += (prod(shapes[end][2:]) if end else 1) * prod(shapes[node.input[1]])
    return total


def _shipped(path: Path) -> onnx.ModelProto:
    """A graph of the onnx package without its LRN layers.

    Those who deploy these networks leave them out, as AMD does for its DPU.
    """
    model = onnx.load(path)
    instead: dict[str, str] = {}
    kept = []
    for node in model.graph.node:
        for position, name in enumerate(node.input):
            node.input[position] = instead.get(name, name)
        if node.op_type == "LRN":
            instead[node.output[0]] = node.input[0]
        else:
            kept.append(node)
    del model.graph.node[:]
    model.graph.node.extend(kept)
    return model


def _has_lrn(path: Path) -> bool:
    return any(node.op_type == "LRN" for node in onnx.load(path).graph.node)
