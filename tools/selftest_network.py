"""Makes the network of `cnna board selftest` and its answers, which travel with the host (`host/selftest/network`).

It is one small network with a layer of every kind, so that each engine works: convolutions of two strides, depthwise, residual
addition, both pools. Its output is a feature map, not a few scores, so that a wrong byte anywhere shows. Run this tool again when
artifacts of older versions are no longer read. The answers are the integer reference's.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from cnna.compiler.compile import compile_model
from cnna.compiler.frontend.preprocess import Preprocess
from cnna.compiler.quantise.quantise import quantise
from cnna.host.model.model import Model
from cnna.host.selftest.selftest_network import ANSWERS, SIDE, path_of, pictures
from cnna.spec.artifact import save
from cnna.spec.config import PRESETS

BATCH = {"zcu102": 16, "zcu102x2": 16, "zcu104": 8, "kv260": 8}  # 1 elsewhere: a larger array needs more work at once
PREPROCESS = Preprocess(scale=1 / 255, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))
SEED = 5


class _Grown:
    """An ONNX graph that grows node by node."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(SEED)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def node(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Adds an operator and returns its output's name."""
        name = f"{kind.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name, **attributes))
        return name

    def conv(self, x: str, cin: int, cout: int, side: int, stride: int = 1, group: int = 1) -> str:
        """Adds a convolution whose weights keep the activations' range."""
        kernel = self.rng.normal(0, np.sqrt(2 / (cin // group * side * side)), (cout, cin // group, side, side))
        names = [self._weight(kernel), self._weight(self.rng.normal(0, 0.1, cout))]
        sides: dict[str, Any] = {"kernel_shape": [side] * 2, "strides": [stride] * 2, "pads": [side // 2] * 4, "group": group}
        return self.node("Conv", x, *names, **sides)

    def _weight(self, value: NDArray[np.floating]) -> str:
        name = f"weight{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(value.astype(np.float32), name))
        return name


def network() -> onnx.ModelProto:
    """The float network, from [N, 3, 32, 32] to [N, 32, 8, 8]."""
    grown = _Grown()
    stem = grown.node("Relu", grown.conv("picture", 3, 16, 3))
    pooled = grown.node("MaxPool", stem, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    first = grown.node("Relu", grown.conv(pooled, 16, 32, 3))
    deep = grown.node("Relu", grown.conv(first, 32, 32, 3, group=32))
    added = grown.node("Relu", grown.node("Add", grown.conv(deep, 32, 32, 1), first))
    halved = grown.node("AveragePool", added, kernel_shape=[2, 2], strides=[2, 2])
    last = grown.conv(halved, 32, 32, 3)
    ends = [helper.make_tensor_value_info("picture", TensorProto.FLOAT, ["n", 3, SIDE, SIDE])]
    made = [helper.make_tensor_value_info(last, TensorProto.FLOAT, ["n", 32, SIDE // 4, SIDE // 4])]
    graph = helper.make_graph(grown.nodes, "selftest", ends, made, grown.weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def main() -> int:
    """Writes the artifacts and the answers."""
    images = pictures()
    quantised, _ = quantise(network(), {"picture": images.transpose(0, 3, 1, 2)}, preprocess=PREPROCESS)
    for name, config in PRESETS.items():
        artifact = compile_model(quantised, config, BATCH.get(name, 1))
        save(artifact, path_of(name))
    with Model(artifact, "reference") as model:
        np.savez_compressed(ANSWERS, y=model.run(images))
    for path in (*map(path_of, PRESETS), ANSWERS):
        print(f"{path.relative_to(Path.cwd())}: {path.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
