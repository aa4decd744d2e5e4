"""The networks that `split_link.py` cuts: the zoo's digits, random ones from seeds, and trained ones where a folder has them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from cnna.compiler.quantise.quantise import quantise
from cnna.compiler.zoo.digits import data

TRAINED = ("mnist_cntk", "kws_dscnn", "resnet8_cifar10", "tmx_cifar10", "vww_mobilenetv1_025_96", "mobilenet_v1_025_128")
RANDOM = 13
EDGES = ("tiny", "tiny,clock_mhz=5", "zcu102")  # quick, slower than the cloud by far, and quicker
OPSET, SAMPLES = 17, 4


@dataclass(frozen=True, eq=False)
class Network:
    """Quantised. config: of the edge's accelerator."""

    name: str
    model: onnx.ModelProto
    config: str


def networks(trained: Path | None, wanted: Callable[[str], bool]) -> Iterator[Network]:
    """Those whose names are wanted, made when their turn comes, each with the next one of the accelerators."""
    for number, (name, model) in enumerate(_floats(trained)):
        if wanted(name):
            yield quantised(name, model, EDGES[number % len(EDGES)])


def quantised(name: str, model: onnx.ModelProto, config: str) -> Network:
    """On noise: seconds do not depend on what the network has learnt."""
    rng, noise = np.random.default_rng(1), dict[str, NDArray[Any]]()
    for one in model.graph.input:
        sizes = [size.dim_value for size in one.type.tensor_type.shape.dim][1:]
        noise[one.name] = rng.normal(size=[SAMPLES, *sizes]).astype(np.float32)
    return Network(name, quantise(model, noise)[0], config)


def _floats(trained: Path | None) -> Iterator[tuple[str, onnx.ModelProto]]:
    yield "digits", onnx.load(data.NETWORK)
    for seed in range(1, RANDOM + 1):
        yield f"random {seed}", random_network(seed)
    for name in TRAINED if trained is not None else ():
        assert trained is not None
        yield name, onnx.load(trained / name / "model.onnx")


def random_network(seed: int) -> onnx.ModelProto:
    """A chain of three to five convolutions, some of them residual, on pictures of 16 to 64 pixels a side."""
    rng = np.random.default_rng(seed)
    side, channels = int(rng.choice([16, 24, 32, 48, 64])), int(rng.choice([1, 3]))
    nodes, weights, name, wide = list[Any](), list[Any](), "x", channels
    source = helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, channels, side, side])
    target = helper.make_tensor_value_info("y", TensorProto.FLOAT, [None, 10])
    for number in range(int(rng.integers(3, 6))):
        stride = int(rng.choice([1, 1, 2])) if side > 4 else 1
        residual = stride == 1 and number > 0 and bool(rng.random() < 0.4)
        out = wide if residual else int(rng.choice([8, 16, 24, 32, 48]))
        kernel = rng.normal(0, (2 / (9 * wide)) ** 0.5, (out, wide, 3, 3)).astype(np.float32)
        weights.append(numpy_helper.from_array(kernel, f"w{number}"))
        read, made, sides = [name, f"w{number}"], [f"c{number}"], [stride, stride]
        nodes.append(helper.make_node("Conv", read, made, f"conv{number}", strides=sides, pads=[1, 1, 1, 1]))
        total = f"c{number}"
        if residual:
            nodes.append(helper.make_node("Add", [total, name], [f"a{number}"], f"add{number}"))
            total = f"a{number}"
        nodes.append(helper.make_node("Relu", [total], [f"r{number}"], f"relu{number}"))
        name, wide, side = f"r{number}", out, -(-side // stride)
    weights.append(numpy_helper.from_array(rng.normal(0, wide**-0.5, (10, wide)).astype(np.float32), "fc"))
    nodes += [
        helper.make_node("GlobalAveragePool", [name], ["mean"], "mean"),
        helper.make_node("Flatten", ["mean"], ["flat"], "flat"),
        helper.make_node("Gemm", ["flat", "fc"], ["y"], "classes", transB=1),
    ]
    graph = helper.make_graph(nodes, f"random{seed}", [source], [target], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
