"""From the quantised float graph to int8: its limits; and passes on int8 graphs change no bit of what is left."""

from dataclasses import replace
from math import inf

import numpy as np
import pytest

from cnna.compiler.frontend.integer import to_integer, whole_weights
from cnna.compiler.frontend.quantised_import import import_quantised
from cnna.compiler.graph import ir
from cnna.compiler.graph.float_ops import Conv
from cnna.sim.reference import reference
from cnna.spec.errors import ModelError

from .test_quantised_import import FORMS, NETWORK, WEIGHTS, made


@pytest.mark.parametrize("operands", ["(e, f)", "(f, e)"])
@pytest.mark.parametrize("name", ["qdq", "qdq, symmetric"])
def test_passes_on_int8_graphs_change_no_bit(name, operands, tmp_path):
    """Residual adds and copies would round otherwise inside convolutions than alone, whichever operand the convolution makes."""
    model, _ = made(tmp_path, name, NETWORK.replace("(e, f)", operands))
    graphs: dict[str, ir.Graph] = {}
    split = import_quantised(model, graphs.__setitem__)
    before = graphs["to_integer"]
    (x,) = before.inputs
    images = np.random.default_rng(1).integers(-128, 128, (3, *before.tensors[x].shape)).astype(np.int8)
    plain, fused = reference.run(before, {x: images}), reference.run(split.programs[0], {x: images})
    assert len(split.programs[0].nodes) < len(before.nodes)
    assert fused.keys() < plain.keys()
    for tensor, value in fused.items():
        assert np.array_equal(value, plain[tensor]), tensor


def test_relu_with_its_own_scale_goes_into_the_convolution(tmp_path):
    """Symmetric models round the sum and the ReLU each to its own scale: a copy would stay behind a convolution that can do
    both.
    """
    graph = import_quantised(made(tmp_path, "qdq, symmetric")[0]).programs[0]
    assert [node for node in graph.nodes if isinstance(node.op, ir.Conv) and node.op.residual and len(node.inputs) == 1]
    for node in graph.nodes:
        before = graph.producer(node.inputs[0])
        if isinstance(node.op, ir.Combine) and before and isinstance(before.op, ir.Conv):
            assert before.op.residual or graph.uses(before.output) > 1


@pytest.mark.parametrize("limits", [(0.0, inf), (0.0, 6.0), (-inf, inf), (-1.0, 1.0), (0.013, 0.2), (100.0, 200.0)])
@pytest.mark.parametrize("quant", [ir.Quant(0.05, -128), ir.Quant(0.02, 7), ir.Quant(3.0, 0)])
def test_clamp_is_rounding_of_the_clipped_value(quant, limits):
    """Clipping a real value and rounding it, and rounding and clamping it, are the same."""
    low, high = limits
    values = np.random.default_rng(2).normal(0, 60 * quant.scale, 5000)
    clipped = np.clip(np.rint(np.clip(values, low, high) / quant.scale) + quant.zero, -128, 127)
    found = ir.clamp(quant, low, high)
    clamped = np.clip(np.rint(values / quant.scale) + found.zero, found.low, found.high)
    assert np.array_equal(clipped, clamped)


@pytest.mark.parametrize("gemm", ["<transB=1> (m, w4, b4)", "<transB=1, alpha=-1.0> (m, w4, b4)", "(m, w4, b4)"])
@pytest.mark.parametrize("name", FORMS)
def test_known_whole_numbers_are_those_that_a_division_finds(name, gemm, tmp_path):
    """The weights that a model holds in int8 are taken as they are; had a pass changed them, other ones would run."""
    weights = WEIGHTS if "transB" in gemm else {**WEIGHTS, "w4": (16, 5)}
    found = import_quantised(made(tmp_path, name, NETWORK.replace("<transB=1> (m, w4, b4)", gemm), weights)[0])
    (graph,) = (piece.source.graph for piece in found.pieces if piece.integer is not None)
    convolutions = [node.op for node in graph.nodes if isinstance(node.op, Conv) and node.op.weight_scale]
    known = [graph.whole(op.weights, graph.constants[op.weight_scale]) for op in convolutions]
    assert sum(values is None for values in known) <= ("alpha" in gemm)  # if it is there: negated, uint8 weights may reach 128
    quick, divided = to_integer(graph), to_integer(replace(graph, wholes={}))
    assert quick.constants.keys() == divided.constants.keys()
    for constant, values in quick.constants.items():
        assert values.dtype == divided.constants[constant].dtype
        np.testing.assert_array_equal(values, divided.constants[constant], err_msg=constant)


def test_sums_beyond_int32_are_found_whatever_is_known():
    """A bound serves where no sum can be too great; near the limit each weight counts."""
    taps = (1 << 31) // (128 * 128)  # whose bound is the limit
    for value, fits in ((-128, False), (-120, True)):
        graph = _one_conv(np.full((1, taps, 1, 1), value, np.int8))
        for each in (graph, replace(graph, wholes={})):
            if fits:
                assert to_integer(each).constants["y:bias"].tolist() == [5 * 120 * taps]
            else:
                with pytest.raises(ModelError, match=r"its sums may reach 2.23e[+]09, beyond int32"):
                    to_integer(each)


def _one_conv(values: np.ndarray) -> ir.Graph:
    """A convolution of a pixel whose zero point is 5."""
    real, scale = values.astype(np.float32), np.ones((1, 1, 1, 1))
    tensors = {"x": ir.Tensor((1, values.shape[1], 1, 1), ir.Quant(1.0, 5)), "y": ir.Tensor((1, 1, 1, 1), ir.Quant(1e6, 0))}
    node = ir.Node("y", Conv(ir.Window(), 1, "w", "b", "s"), ("x",), "y")
    constants: dict[str, np.ndarray] = {"w": real, "b": np.zeros(1), "s": np.ones(1)}
    return ir.Graph("one", ("x",), ("y",), (node,), tensors, constants, wholes={"w": ir.Whole(real, values, scale)})


def test_weights_are_rounded_as_in_float64():
    """float32 is quicker, but halves that it cannot tell from others would go to another number."""
    rng = np.random.default_rng(3)
    scale = rng.uniform(0.001, 0.1, 8).astype(np.float32).astype(np.float64)
    whole = rng.integers(-128, 128, (8, 50, 3, 3))
    for off in (0.0, 0.5 - 1e-8, 0.5, 0.5 + 1e-8, 0.2):
        weights = ((whole + off) * scale[:, None, None, None]).astype(np.float32)
        wanted = np.rint(weights / scale[:, None, None, None])
        np.testing.assert_array_equal(whole_weights(weights, scale), wanted, err_msg=f"{off} off")
    assert whole_weights(weights[:, :0], scale).shape == (8, 0, 3, 3)
