"""A depthwise network with seeded weights that quantise as badly as trained ones do, and seeded pictures for it."""

from collections.abc import Callable

import numpy as np
from onnx import ModelProto, numpy_helper

from cnna.compiler.zoo.weights import measure_norms

from ..written import answers, written

BLOCKS, CHANNELS, CLASSES, SIZE = 6, 16, 10, 16
TAILS = 2  # degrees of freedom of the weights' t distribution: few great ones among many small ones, so that steps are coarse


def depthwise_network(seed: int, high: float = 6.0) -> ModelProto:
    """Pairs of a depthwise 3x3 and a 1x1 convolution, each with batch norm and ReLU6; every class is some picture's greatest.

    high: the limit of a ReLU6; infinite for a ReLU.
    Inputs of the convolutions are positive in the mean, as behind a ReLU6, so that rounding a weight shifts its sums.
    """
    text, shapes = _graph()
    rng = np.random.default_rng(seed)
    make: dict[str, Callable[[tuple[int, ...]], np.ndarray]] = {
        "w": lambda shape: rng.standard_t(TAILS, shape) / np.sqrt(np.prod(shape[1:])),
        "scale": lambda shape: rng.uniform(0.5, 1.5, shape),
        "shift": lambda shape: rng.normal(1.5, 0.5, shape),
        "mean": np.zeros,
        "var": np.ones,
    }
    weights = {name: make[name.split("_")[0]](shape).astype(np.float32) for name, shape in shapes.items()}
    limits = {"low": np.float32(0), "high": np.float32(high)}
    model = written(text, {**weights, "w_bias": np.zeros(CLASSES, np.float32), **limits})
    measure_norms(model, pictures(8, seed=1))
    middle = answers(model, {"x": pictures(64, seed=2)})[0].mean(axis=0)
    bias = next(tensor for tensor in model.graph.initializer if tensor.name == "w_bias")
    bias.CopyFrom(numpy_helper.from_array(-middle, "w_bias"))
    return model


def pictures(count: int, seed: int) -> np.ndarray:
    """[count, 3, SIZE, SIZE]: coarse squares with noise on them."""
    rng = np.random.default_rng(seed)
    coarse = np.kron(rng.normal(size=(count, 3, 4, 4)), np.ones((SIZE // 4, SIZE // 4)))
    return (coarse + 0.5 * rng.normal(size=coarse.shape)).astype(np.float32)


def _graph() -> tuple[str, dict[str, tuple[int, ...]]]:
    """The graph in ONNX's text form, and the shapes of its weights."""
    lines = [f"g (float[N,3,{SIZE},{SIZE}] x) => (float[N,{CLASSES}] y) {{"]
    shapes: dict[str, tuple[int, ...]] = {"w_0": (CHANNELS, 3, 3, 3)}
    lines.append("c0 = Conv <pads=[1,1,1,1], kernel_shape=[3,3], strides=[2,2]> (x, w_0)")
    for number in range(1, 2 * BLOCKS + 1):
        lines += _active(number - 1, shapes)
        how = f"<pads=[1,1,1,1], kernel_shape=[3,3], group={CHANNELS}>" if number % 2 else "<kernel_shape=[1,1]>"
        shapes[f"w_{number}"] = (CHANNELS, 1, 3, 3) if number % 2 else (CHANNELS, CHANNELS, 1, 1)
        lines.append(f"c{number} = Conv {how} (r{number - 1}, w_{number})")
    lines += _active(2 * BLOCKS, shapes)
    lines += [f"m = GlobalAveragePool (r{2 * BLOCKS})", "f = Flatten (m)", "y = Gemm <transB=1> (f, w_last, w_bias)}"]
    shapes["w_last"] = (CLASSES, CHANNELS)
    return "\n".join(lines), shapes


def _active(number: int, shapes: dict[str, tuple[int, ...]]) -> list[str]:
    """Batch norm and ReLU6 behind convolution `number`."""
    parts = [f"{part}_{number}" for part in ("scale", "shift", "mean", "var")]
    shapes |= dict.fromkeys(parts, (CHANNELS,))
    return [f"n{number} = BatchNormalization (c{number}, {', '.join(parts)})", f"r{number} = Clip (n{number}, low, high)"]
