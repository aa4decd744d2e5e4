"""Small float networks for tests of pruning, and their answers by onnxruntime."""

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import numpy_helper, parser

ALIKE = 1e-5  # of the greatest answer: what another order of sums changes
CONV = "<pads = [1, 1, 1, 1]>"
NODES = f"""a = Conv {CONV} (x, w1, b1) r = Relu (a) c = Conv {CONV} (r, w2, b2) s = Relu (c) d = Conv {CONV} (s, w3, b3)
t = Add (d, r) h = Relu (t) g = GlobalAveragePool (h) f = Flatten (g) y = Gemm <transB = 1> (f, wf, bf)"""


def model(
    nodes: str, weights: Mapping[str, Sequence[int] | NDArray], inputs: str, outputs: str, opset: int = 17
) -> onnx.ModelProto:
    """A network in ONNX's text form. weights: seeded random numbers of a shape, or an array."""
    rng = np.random.default_rng(1)
    made = parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> net ({inputs}) => ({outputs}) {{ {nodes} }}')
    for name, one in weights.items():
        value = one if isinstance(one, np.ndarray) else rng.normal(0, 0.3, tuple(one)).astype(np.float32)
        made.graph.initializer.append(numpy_helper.from_array(value, name))
    onnx.checker.check_model(made, full_check=True)
    return made


def answers(made: onnx.ModelProto, feeds: Mapping[str, NDArray]) -> list[NDArray]:
    """The outputs, without optimisations."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])
    found: list[NDArray] = session.run(None, dict(feeds))
    return found


def sample(shape: Sequence[int], seed: int = 2) -> NDArray[np.float32]:
    """An input."""
    return np.random.default_rng(seed).normal(0, 1, tuple(shape)).astype(np.float32)


def numbers(*values: int) -> NDArray[np.int64]:
    """A constant of whole numbers, such as a shape."""
    return np.array(values, np.int64)


def spare_weights() -> dict[str, np.ndarray]:
    """Two layers make channels 8 to 15 as sums of channels 0 to 7, or nearly so: those can be spared."""
    rng = np.random.default_rng(5)
    shapes = {"w1": (16, 3, 3, 3), "b1": (16,), "w2": (16, 16, 3, 3), "b2": (16,), "w3": (16, 16, 3, 3), "b3": (16,)}
    made = {name: rng.normal(0, 0.2, shape).astype(np.float32) for name, shape in {**shapes, "wf": (6, 16), "bf": (6,)}.items()}
    for name in ("w2", "b2"):
        made[name][8:] = made[name][:8] * 0.5
    return made
