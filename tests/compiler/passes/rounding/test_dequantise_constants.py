"""int8 weights become real values, with their scales beside them."""

from dataclasses import replace

import numpy as np
import pytest

from cnna.compiler.passes.rounding.dequantise_constants import dequantise_constants
from cnna.spec.errors import ModelError

from ..alone import after, kinds, left_alone, untyped

TEXT = """g (float[N,2,3,3] x) => (float[N,2,3,3] y) {
    w = DequantizeLinear <axis=0> (q, s, z)
    y = Conv <kernel_shape=[1,1]> (x, w)}"""
WHOLE = np.array([[5, -128], [127, 1]], np.int8)[:, :, None, None]


def test_weights_can_be_divided_back():
    """int8 weights that come back as others would be another model."""
    scale = np.float32([0.1, 3])
    graph = after(dequantise_constants, untyped(TEXT, {"q": WHOLE, "s": scale, "z": np.zeros(2, np.int8)}))
    assert kinds(graph) == ["Conv"]
    scales = graph.scales["w"]
    np.testing.assert_array_equal(scales.reshape(-1), scale)
    np.testing.assert_array_equal(np.rint(graph.constants["w"] / scales), WHOLE)


UINT8 = (WHOLE.astype(np.int16) + 128).astype(np.uint8)
KNOWN = {
    "int8": (WHOLE, [0.1, 3], [0, 0], True),
    "uint8 about 128": (UINT8, [0.1, 3], [128, 128], True),
    "uint8 about 127": (UINT8, [0.1, 3], [128, 127], False),
    "a scale of 0": (WHOLE, [0.1, 0], [0, 0], False),
    "a scale of few bits": (WHOLE, [0.1, 1e-40], [0, 0], False),
}


@pytest.mark.parametrize("name", KNOWN)
def test_whole_numbers_are_kept_where_a_division_gives_them_again(name):
    """Where it does not, the int8 graph has others: 128 has no place in int8, and a scale of 0 stands for any."""
    values, scale, zero, known = KNOWN[name]
    constants = {"q": values, "s": np.float32(scale), "z": np.array(zero, values.dtype)}
    graph = after(dequantise_constants, untyped(TEXT, constants))
    found = graph.whole("w", np.float64(np.float32(scale)))
    if not known:
        assert found is None
    else:
        np.testing.assert_array_equal(found, WHOLE)
        assert graph.whole("w", np.float64(scale) * 2) is None
        assert replace(graph, constants={**graph.constants, "w": graph.constants["w"] * 2}).whole("w", np.float32(scale)) is None


def test_zero_point_is_subtracted():
    """uint8 weights about 128 must become the same real values."""
    values = {"q": (WHOLE.astype(np.int16) + 128).astype(np.uint8), "s": np.float32(0.1), "z": np.uint8(128)}
    graph = after(dequantise_constants, untyped(TEXT, values))
    np.testing.assert_allclose(graph.constants["w"], WHOLE * np.float32(0.1), rtol=1e-6)


def test_float_weights_behind_q_and_dq_are_rounded():
    """onnxruntime writes float weights with Q and DQ behind them: their int8 values count."""
    text = TEXT.replace("w = ", "q = QuantizeLinear <axis=0> (f, s, z)\n    w = ")
    values = {"f": np.float32([[0.26, -99], [99, 0.1]])[:, :, None, None], "s": np.float32(0.1), "z": np.int8(0)}
    graph = after(dequantise_constants, untyped(text, values))
    np.testing.assert_array_equal(np.rint(graph.constants["w"] / 0.1).reshape(-1), [3, -128, 127, 1])


def test_axis_1_where_none_is_named():
    """ONNX's default: along another axis the scales would be those of other weights."""
    text = TEXT.replace("<axis=0> ", "")
    graph = after(dequantise_constants, untyped(text, {"q": WHOLE, "s": np.float32([0.1, 3]), "z": np.zeros(2, np.int8)}))
    np.testing.assert_allclose(graph.constants["w"][:, :, 0, 0], [[0.5, -384], [12.7, 3]], rtol=1e-6)


@pytest.mark.parametrize("inputs", ["q, s", "q, s, "])
def test_absent_zero_point_is_0(inputs):
    """An exporter may leave it out, or leave it empty."""
    graph = untyped(TEXT.replace("q, s, z", inputs), {"q": WHOLE, "s": np.float32(0.5)})
    np.testing.assert_array_equal(after(dequantise_constants, graph).constants["w"], WHOLE * np.float32(0.5))


def test_biases_keep_32_bits():
    """A float32 has 24: a bias of 2**30 + 1 would lose its last bit. Biases have no scale of their own beside them."""
    text = TEXT.replace("y = Conv <kernel_shape=[1,1]> (x, w)", "b = DequantizeLinear (p, t)  y = Conv (x, w, b)")
    values = {"q": WHOLE, "s": np.float32(1), "z": np.int8(0), "p": np.array([2**30 + 1, -7], np.int32), "t": np.float32(0.5)}
    graph = dequantise_constants(untyped(text, values))
    assert (graph.constants["b"] * 2).tolist() == [2**30 + 1, -7]
    assert "b" not in graph.scales


def test_the_greatest_float32_passes():
    """It is a number as good as any."""
    values = {"q": np.ones_like(WHOLE), "s": np.finfo(np.float32).max, "z": np.int8(0)}
    assert np.isfinite(dequantise_constants(untyped(TEXT, values)).constants["w"]).all()


STAYS = {
    "shown": (
        "g (float[N,2] x) => (float[2] w, float[N,2] y) { w = DequantizeLinear (v, s, z) y = Add (x, w) }",
        {"v": np.array([1, 2], np.int8)},
    ),
    "blocks": (
        "g (float[N,2] x) => (float[N,2] y) { w = DequantizeLinear <axis=0, block_size=2> (v, u, t) y = MatMul (x, w) }",
        {"v": np.array([[1, 2], [3, 4]], np.int8), "u": np.array([[1, 2]], np.float32), "t": np.array([[0, 0]], np.int8)},
    ),
    "another operator": ("g (float[N,2] x) => (float[N,2] y) { w = Mul (s, s) y = Add (x, w) }", {}),
}


@pytest.mark.parametrize("name", STAYS)
def test_stays(name):
    """An output needs a node that makes it; the scales of blocks are no scales of channels."""
    text, values = STAYS[name]
    values = {key: value for key, value in {"s": np.float32(0.1), "z": np.int8(0), **values}.items() if key in text.split("{")[1]}
    assert left_alone(dequantise_constants, untyped(text, values, 21))


def test_activations_stay():
    """Only constants can be computed now."""
    text = """g (float[N,2,3,3] x) => (float[N,2,3,3] y) {
        q = QuantizeLinear (x, s, z)
        y = DequantizeLinear (q, s, z)}"""
    assert left_alone(dequantise_constants, untyped(text, {"s": np.float32(0.1), "z": np.int8(0)}))


def test_values_beyond_float32_are_named():
    """They would be infinite, and so would every sum with them."""
    values = {"q": WHOLE, "s": np.float32(3e38), "z": np.int8(0)}
    with pytest.raises(ModelError, match=r"node 'DequantizeLinear:w' .*exceed the range of float32; use a smaller scale"):
        dequantise_constants(untyped(TEXT, values))
