"""Weights, biases, statistics and factors at the ends of float32: the quantiser says nothing in numpy's words, and makes no NaN.

Python's warnings are errors in tests, so numpy's are too.
"""

import numpy as np
import pytest

from cnna.compiler.explain.assumed_ranges import quantised
from cnna.compiler.quantise.quantise import float_graph, quantise
from cnna.compiler.quantise.weights import nearest, scales_of
from cnna.spec.errors import ModelError

from ..written import answers, images, written

SIZES = (1e-45, 1e-42, 1e-39, 1e-38, 1e-30, 1e30, 1e37)
MAP = "float[N,4,8,8] x) => (float[N,c,h,u] y"
CASES = {
    "weights": f"g ({MAP}) {{ y = Conv (x, w_s, b) }}",
    "one channel": f"g ({MAP}) {{ y = Conv (x, w_one, b) }}",
    "bias": f"g ({MAP}) {{ y = Conv (x, w, b_s) }}",
    "weights and bias": f"g ({MAP}) {{ y = Conv (x, w_s, b_s) }}",
    "variance": f"g ({MAP}) {{ a = Conv (x, w) y = BatchNormalization (a, one, b, b, b_s) }}",
    "norm's scale": f"g ({MAP}) {{ a = Conv (x, w) y = BatchNormalization (a, b_s, b, b, one) }}",
    "second": f"g ({MAP}) {{ a = Conv (x, w) r = Relu (a) y = Conv (r, v_s) }}",
    "up again": f"g ({MAP}) {{ a = Conv (x, w_s) r = Relu (a) y = Conv (r, v_up) }}",
    "factor": f"g ({MAP}) {{ a = Conv (x, w) r = Relu (a) y = Mul (r, s) }}",
    "divisor": f"g ({MAP}) {{ a = Conv (x, w) r = Relu (a) y = Div (r, s) }}",
    "addend": f"g ({MAP}) {{ a = Conv (x, w) r = Relu (a) y = Add (r, s) }}",
    "fully connected": "g (float[N,4,8,8] x) => (float[N,c] y) { f = Flatten (x) y = Gemm (f, w_fc) }",
}


def model_of(case, size):
    rng = np.random.default_rng(1)
    arrays = {"w": rng.normal(size=(6, 4, 3, 3)), "b": np.full(6, 0.5), "one": np.ones(6), "s": np.array(size)}
    arrays |= {"w_s": arrays["w"] * size, "b_s": np.full(6, size), "w_fc": rng.normal(size=(256, 5)) * size}
    arrays |= {"v_s": rng.normal(size=(5, 6, 1, 1)) * size, "v_up": (rng.normal(size=(5, 6, 1, 1)) / size).clip(-3e38, 3e38)}
    arrays["w_one"] = arrays["w"].copy()
    arrays["w_one"][0] *= size
    text = CASES[case]
    named = {
        name: value.astype(np.float32) for name, value in arrays.items() if name in text.replace(",", " ").replace(")", " ").split()
    }
    return written(text, named)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("case", CASES)
def test_numbers_of_any_size_are_quantised_or_refused_in_words(case, size):
    """Scales below float32's least normal number made divisions by zero, and squares and inverses above its greatest infinity."""
    model = model_of(case, size)
    feeds = images(model, 4)
    result = said = None
    try:
        quantised(float_graph(model))  # as `cnna explain` does
        result, _ = quantise(model, feeds)
    except ModelError as error:
        said = str(error)
    if result is None:
        assert any(
            part in said for part in ("int8 has no range, so what makes and reads it", "bring its weights and limits nearer")
        )
        return
    (expected,), (found,) = answers(model, feeds), answers(result, feeds)
    assert not np.isnan(found).any()
    if size in (1e-30, 1e30) and np.abs(expected[np.isfinite(expected)]).max() >= 1e-30:
        assert np.square((found - expected) / np.abs(expected).max()).mean() < 1e-4


def test_weights_below_every_scale_become_zero():
    """A scale without all its bits would be another number in the file, and 0 on processors that have no such numbers."""
    weights = np.full((3, 2, 1, 1), 1e-42)
    weights[1] = 0.5
    scales = scales_of(weights, np.zeros(3), 0.01)
    assert scales.min() >= np.finfo(np.float32).tiny
    assert (scales * 0.01).min() >= np.finfo(np.float32).tiny
    assert (nearest(weights, scales)[[0, 2]] == 0).all()
    np.testing.assert_allclose(nearest(weights, scales)[1], 0.5, rtol=1e-6)
    assert np.isfinite(scales_of(weights, np.full(3, 1e38), 1e-30)).all()
