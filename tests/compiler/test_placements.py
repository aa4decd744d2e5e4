"""Pieces for one configuration after another are those that `compile` makes for each."""

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from cnna.compiler import placements
from cnna.compiler.compile import compile_model
from cnna.compiler.frontend.onnx_import import load_model
from cnna.compiler.frontend.quantised_import import Decide
from cnna.compiler.graph.ir import Graph
from cnna.compiler.placements import Placements
from cnna.compiler.quantise.quantise import quantise
from cnna.spec.config import Config, preset
from cnna.spec.manifest import ACCELERATOR, CPU

TINY, LARGE = preset("tiny"), preset("zcu102")
PORTS = {"x": [1, 3, 4, 4], "y": [1, 64, 4, 4]}


@pytest.fixture(scope="module")
def model(seed: int) -> onnx.ModelProto:
    """A convolution so small that the way to the accelerator costs more than it saves, a sine, and a larger convolution."""
    rng = np.random.default_rng(seed)
    shapes = {"w": (2, 3, 1, 1), "v": (64, 2, 3, 3)}
    weights = [numpy_helper.from_array(rng.normal(0, 0.2, shape).astype(np.float32), name) for name, shape in shapes.items()]
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"]),
        helper.make_node("Sin", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "v"], ["y"], pads=[1, 1, 1, 1]),
    ]
    x, y = (helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name, shape in PORTS.items())
    graph = helper.make_graph(nodes, "two", [x], [y], weights)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    samples = {"x": rng.normal(0, 1, (4, *PORTS["x"][1:])).astype(np.float32)}
    return quantise(load_model(made.SerializeToString()), samples)[0]


def kinds(found: placements.Pieces) -> list[str]:
    return [ACCELERATOR if isinstance(piece, Graph) else piece["kind"] for piece in found]


def test_pieces_are_those_of_compile(model: onnx.ModelProto) -> None:
    """An exploration would compile a piece for the accelerator that `compile` leaves to the CPU, and state another speed."""
    found = Placements(model)
    assert len(found.programs) == 2, "the accelerator can run both convolutions"
    artifact = compile_model(model, TINY)
    assert kinds(found.pieces(TINY)) == [piece["kind"] for piece in artifact.manifest["pieces"]] == [CPU, ACCELERATOR]


def test_configurations_that_differ_have_pieces_of_their_own(model: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch) -> None:
    """A configuration would get the pieces of the one before it."""

    def decided(config: Config) -> Decide:
        return lambda graph, reasons: dict(reasons) if config == LARGE else {**reasons, graph.nodes[0].output: "too little"}

    monkeypatch.setattr(placements, "cheaper", decided)
    found = Placements(model)
    for config, expected in ((TINY, 1), (LARGE, 2), (TINY, 1)):
        assert kinds(found.pieces(config)).count(ACCELERATOR) == expected
    assert found.pieces(TINY) is found.pieces(TINY), "each way to cut a model is converted once"
