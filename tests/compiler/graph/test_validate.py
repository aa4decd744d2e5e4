"""A graph that a pass has broken is refused, and the message names what is broken."""

from dataclasses import replace

import numpy as np
import pytest

from cnna.compiler.graph import ir
from cnna.compiler.graph.validate import validate, validate_integer

QUANT = ir.Quant(0.1, 3)


def sound() -> ir.Graph:
    """One convolution."""
    op = ir.Conv(ir.Window(), 1, "w", "b", "m", "s", ir.Clamp(3))
    constants = {"w": np.ones((2, 2, 1, 1), np.int8)} | {name: np.ones(2, np.int32) for name in "bms"}
    tensors = {name: ir.Tensor((2, 3, 3), QUANT) for name in "xy"}
    return ir.Graph("g", ("x",), ("y",), (ir.Node("conv", op, ("x",), "y"),), tensors, constants)


def test_sound_graph_passes():
    validate_integer(sound())


BROKEN = {
    "unmade input": (lambda g: replace(g, nodes=(replace(g.nodes[0], inputs=("z",)),)), "reads 'z', which no node before it makes"),
    "made twice": (lambda g: replace(g, nodes=g.nodes * 2), "'y' is made twice"),
    "no shape": (lambda g: replace(g, tensors={"x": g.tensors["x"]}), "has no shape"),
    "unmade output": (lambda g: replace(g, outputs=("q",)), "output 'q' is not made"),
    "batch axis": (lambda g: replace(g, tensors=g.tensors | {"y": ir.Tensor((1, 2, 3, 3), QUANT)}), r"not \(C, H, W\)"),
    "no scale": (lambda g: replace(g, tensors=g.tensors | {"y": ir.Tensor((2, 3, 3))}), "no quantisation"),
    "zero point": (lambda g: replace(g, tensors=g.tensors | {"y": ir.Tensor((2, 3, 3), ir.Quant(1.0, 128))}), "zero point 128"),
    "wide weights": (lambda g: replace(g, constants=g.constants | {"w": g.constants["w"].astype(np.int32)}), "is int32, not int8"),
    "few biases": (lambda g: replace(g, constants=g.constants | {"b": np.ones(1, np.int32)}), "has 1 channels, not 2"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_graph_is_caught(name):
    spoil, message = BROKEN[name]
    with pytest.raises(AssertionError, match=message):
        validate_integer(spoil(sound()))


def test_order_matters():
    graph = sound()
    second = ir.Node("copy", ir.Concat(), ("y",), "z")
    tensors = {**graph.tensors, "z": graph.tensors["y"]}
    with pytest.raises(AssertionError, match="no node before it makes"):
        validate(replace(graph, nodes=(second, *graph.nodes), tensors=tensors))
