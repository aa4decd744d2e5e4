"""Pairs that are one rounding under two names."""

import numpy as np

from cnna.compiler.frontend.quantised_import import import_quantised

from ..frontend.test_quantised_import import run_whole
from ..written import answers, images, written


def test_both_names_of_one_rounding_are_answered():
    """A model may show a tensor twice: whichever name were dropped, its user would miss an output."""
    text = """g (float[N,4,4,4] x) => (float[N,4,4,4] y, float[N,4,4,4] z) {
        a = MaxPool <kernel_shape=[1,1]> (x)
        q = QuantizeLinear (a, s, o)
        y = DequantizeLinear (q, s, o)
        z = DequantizeLinear (q, s, o)}"""
    model = written(text, {"s": np.float32(0.02), "o": np.int8(3)})
    feeds = images(model)
    values = run_whole(import_quantised(model), feeds)
    for name, wanted in zip("yz", answers(model, feeds), strict=True):
        assert np.abs(values[name] - wanted).max() < 0.021, name
