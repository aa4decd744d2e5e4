"""Layout and quantisation of tensors in DDR."""

import numpy as np
import pytest

from cnna.spec.errors import DataError
from cnna.spec.samples.pack import dequantise, pack, quantise, unpack


@pytest.mark.parametrize(("ci", "channels", "row_pad"), [(4, 3, 12), (8, 20, 8), (16, 16, 0)])
def test_every_element_lies_where_the_port_says(ci, channels, row_pad):
    """Wrong strides, block order or padding channels would feed the accelerator another picture."""
    rng = np.random.default_rng(ci)
    x = rng.integers(-128, 128, (2, channels, 3, 5), np.int8)
    row, blocks = 5 * ci + row_pad, -(-channels // ci)
    plane = 3 * row + 64
    port = {"shape": [channels, 3, 5], "zero": -9, "row_bytes": row, "block_bytes": plane, "image_bytes": blocks * plane}
    memory = pack(port, x, ci).view(np.int8)
    for n, c, y, column in np.ndindex(2, blocks * ci, 3, 5):
        at = n * port["image_bytes"] + c // ci * port["block_bytes"] + y * row + column * ci + c % ci
        assert memory[at] == (x[n, c, y, column] if c < channels else -9)
    assert np.array_equal(unpack(port, memory.tobytes(), ci), x)


def test_quantise_rounds_ties_to_even_and_saturates():
    """Rounding other than ONNX QuantizeLinear's would differ from onnxruntime at the very first tensor."""
    x = np.array([0.25, 0.75, -0.25, -0.75, 1e9, -1e9], np.float32)
    expected = [round(value / 0.5) + 7 for value in x[:4].tolist()]  # Python's round goes to even
    assert quantise(x, 0.5, 7).tolist() == [*expected, 127, -128]


def test_quantise_saturates_what_is_too_great():
    """onnxruntime saturates, without a warning of numpy's; float64 beyond float32 must do the same."""
    x = np.array([1e38, -1e38, np.inf, -np.inf, 1e300])
    assert quantise(x, 1e-3, 5).tolist() == [127, -128, 127, -128, 127]


def test_quantise_refuses_nan():
    """Cast to int8, NaN would become some number, and the answer a guess."""
    with pytest.raises(DataError, match="tensor image holds NaN"):
        quantise(np.array([0.0, np.nan]), 0.5, 0, "image")


def test_dequantise_undoes_quantise():
    """Every int8 value must survive the way out and in."""
    q = np.arange(-128, 128).astype(np.int8)
    assert np.array_equal(quantise(dequantise(q, 0.037, -11), 0.037, -11), q)
