"""What a convolution's taps see: the mean output that follows from it, and patches whose products are the outputs."""

import numpy as np
import pytest

from cnna.compiler.graph.ir import Window
from cnna.compiler.quantise.taps import TapMeans, patches
from cnna.compiler.quantise.weights import mean_output

from ..written import answers, written

WINDOWS = {
    "1x1": (Window(), 1),
    "3x3 with edges": (Window((3, 3), pads=(1, 1, 1, 1)), 1),
    "strides, uneven edges": (Window((3, 2), (2, 3), pads=(0, 1, 2, 0)), 2),
    "dilated, depthwise": (Window((2, 3), dilation=(3, 2), pads=(1, 0, 1, 0)), 4),
    "the whole map": (Window((9, 11)), 1),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_taps_see_what_onnxruntime_multiplies(name):
    """A tap that is a row off, or takes an edge for something else than 0, moves every corrected bias."""
    window, groups = WINDOWS[name]
    attributes = f"kernel_shape={list(window.kernel)}, strides={list(window.stride)}, dilations={list(window.dilation)}"
    text = f"""g (float[N,4,9,11] x) => (float[N,8,r,c] y) {{
        y = Conv <{attributes}, pads={list(window.pads)}, group={groups}> (x, w) }}"""
    rng = np.random.default_rng(1)
    weights = rng.normal(size=(8, 4 // groups, *window.kernel)).astype(np.float32)
    x = rng.normal(1, 1, (5, 4, 9, 11)).astype(np.float32)
    expected = answers(written(text, {"w": weights}), {"x": x})[0]
    out = expected.shape[2:]
    taps = TapMeans(window, out)
    for some in (x[:2], x[2:]):
        taps.extend(some)
    np.testing.assert_allclose(mean_output(weights, taps.means, groups), expected.mean(axis=(0, 2, 3)), rtol=1e-4, atol=1e-5)
    seen = patches(x, window, out, groups, out[0] * out[1], rng)
    made = (weights.reshape(groups, 8 // groups, -1) @ seen).reshape(8, 5, *out).swapaxes(0, 1)
    np.testing.assert_allclose(made, expected, rtol=1e-4, atol=1e-4)


def test_fewer_pixels_are_some_of_all():
    """Drawn twice or from outside of the map, they would weigh its taps wrongly."""
    window = Window((3, 3), pads=(1, 1, 1, 1))
    x = np.random.default_rng(2).normal(size=(2, 3, 6, 7)).astype(np.float32)
    every = patches(x, window, (6, 7), 1, 42, np.random.default_rng(3))
    some = patches(x, window, (6, 7), 1, 10, np.random.default_rng(3))
    assert some.shape == (1, 27, 20)
    columns = {column.tobytes() for column in every[0].T}
    assert len({column.tobytes() for column in some[0].T} & columns) == 20
