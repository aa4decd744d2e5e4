"""A tensor takes its quantisation from its neighbour."""

import numpy as np
import pytest

from cnna.compiler.graph.float_ops import Add, Clip, Concat, Conv, MaxPool, Onnx, Pad, Reshape, Transpose
from cnna.compiler.graph.ir import Quant, Window
from cnna.compiler.passes.rounding.inherit_quantisation import inherit_quantisation

from ..alone import after, left_alone, typed

SHAPE = (1, 2, 3, 3)
FINE, COARSE = Quant(float(np.float32(0.02)), -5), Quant(0.1, 3)
SELECT = {"w": np.eye(2, dtype=np.float32)[::-1].reshape(2, 2, 1, 1).copy(), "b": np.zeros(2, np.float32)}
DOWN = {
    "pool": (MaxPool(Window((3, 3), pads=(1, 1, 1, 1))), {}),
    "relu": (Clip(0.0), {}),
    "selection of channels": (Conv(Window(), 1, "w", "b"), SELECT),
}


@pytest.mark.parametrize("name", DOWN)
def test_down_through_what_chooses_values(name):
    """The output's values are among the input's, so another rounding changes nothing."""
    op, constants = DOWN[name]
    graph = typed({"x": SHAPE}, [("y", op, ["x"], SHAPE)], ["y"], constants, {"x": FINE})
    assert after(inherit_quantisation, graph).tensors["y"].quant == FINE


@pytest.mark.parametrize(("view", "shape"), [(Transpose((0, 2, 1, 3)), (1, 3, 2, 3)), (Reshape((1, 3, 3, 2)), (1, 3, 3, 2))])
def test_down_through_a_view(view, shape):
    """A convolution behind a view that the CPU makes, such as the one behind a LayerNorm, would stay with the CPU too."""
    nodes = [("a", Onnx("Sin"), ["x"], SHAPE), ("b", view, ["a"], shape), ("y", MaxPool(Window()), ["b"], shape)]
    assert after(inherit_quantisation, typed({"x": SHAPE}, nodes, ["y"], {}, {"a": FINE})).tensors["b"].quant == FINE


def test_down_through_a_pad_whose_value_int8_has():
    """Models in int8 pad with an int8 value: without the input's quantisation the Pad would stay with the CPU."""
    pad = Pad((1, 0, 0, 2), float(np.float32(7) * np.float32(FINE.scale)))
    graph = typed({"x": SHAPE}, [("y", pad, ["x"], (1, 2, 4, 5))], ["y"], {}, {"x": FINE})
    assert after(inherit_quantisation, graph).tensors["y"].quant == FINE


def test_up_through_what_commutes_with_rounding():
    """The pool of rounded values is the rounded pool, so the convolution in front may round to the pool's int8."""
    nodes = [
        ("a", Conv(Window(), 1, "w", "b"), ["x"], SHAPE),
        ("m", MaxPool(Window()), ["a"], SHAPE),
        ("y", Clip(0.0), ["m"], SHAPE),
    ]
    graph = typed({"x": SHAPE}, nodes, ["y"], {"w": (2, 2, 1, 1), "b": (2,)}, {"x": FINE, "y": COARSE})
    changed = after(inherit_quantisation, graph)
    assert changed.tensors["m"].quant == changed.tensors["a"].quant == COARSE


CONV = ("y", Conv(Window(), 1, "w", "b"), ["x"], SHAPE)
CLIPPED = ("a", Clip(0.0), ["x"], SHAPE)
CHOICE = {"w": SELECT["w"], "b": SELECT["b"]}
STAYS = {
    "inputs of a sum": ([CLIPPED, ("y", Add(), ["a", "z"], SHAPE)], {"y": COARSE}, {}),
    "an input with its own": ([CLIPPED, ("y", MaxPool(Window()), ["a"], SHAPE)], {"a": FINE, "y": COARSE}, {}),
    "the model's input": ([("y", MaxPool(Window()), ["x"], SHAPE)], {"y": COARSE}, {}),
    "an operator of the CPU": ([("y", Onnx("Mul"), ["x", "b"], SHAPE)], {"x": FINE}, {"b": np.float32(2)}),
    "channels chosen and moved": ([CONV], {"x": FINE}, {**CHOICE, "b": np.array([0, 1], np.float32)}),
    "channels chosen and limited": ([("y", Conv(Window(), 1, "w", "b", low=0.13), ["x"], SHAPE)], {"x": FINE}, CHOICE),
    "channels added": ([CONV], {"x": FINE}, {**CHOICE, "w": np.ones((2, 2, 1, 1), np.float32)}),
    "channels scaled": ([CONV], {"x": FINE}, {**CHOICE, "w": SELECT["w"] / 2}),
    "pad with no value of int8": ([("y", Pad((1, 0, -1, 0), 0.13), ["x"], SHAPE)], {"x": FINE}, {}),
    "pad beyond int8": ([("y", Pad((1, 0, -1, 0), 8.0), ["x"], SHAPE)], {"x": FINE}, {}),
    "limit that is no int8 value": ([("y", Clip(0.0, 0.13), ["x"], SHAPE)], {"x": FINE}, {}),
    "view of the CPU": ([("a", Transpose((0, 1, 3, 2)), ["x"], SHAPE), ("y", Onnx("Sin"), ["a"], SHAPE)], {"x": FINE}, {}),
    "view at the end": ([("y", Transpose((0, 1, 3, 2)), ["x"], SHAPE)], {"x": FINE}, {}),
    "sum": ([("y", Add(), ["x", "x"], SHAPE)], {"x": FINE}, {}),
    "weights of any kind": ([CONV], {"x": FINE}, {"w": (2, 2, 1, 1), "b": SELECT["b"]}),
    "unequal parts": ([("y", Concat(), ["x", "z"], (1, 4, 3, 3))], {"x": FINE, "z": COARSE}, {}),
    "shared input": (
        [("a", Add(), ["x", "x"], SHAPE), ("y", MaxPool(Window()), ["a"], SHAPE), ("v", Clip(0.0, 0.13), ["a"], SHAPE)],
        {"y": COARSE},
        {},
    ),
}


@pytest.mark.parametrize("name", STAYS)
def test_stays(name):
    """A quantisation here would round what the model does not round, or what another reader sees."""
    nodes, quants, constants = STAYS[name]
    outputs = [name for name in ("y", "v") if any(node[0] == name for node in nodes)]
    assert left_alone(inherit_quantisation, typed({"x": SHAPE, "z": SHAPE}, nodes, outputs, constants, quants))
