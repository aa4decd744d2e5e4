"""Samples for a model of which there are none."""

import numpy as np

from cnna.compiler.quantise.calibrate import calibrate, random_samples
from cnna.compiler.quantise.quantise import float_body, float_graph

from ..written import written


def test_random_samples_can_be_computed_and_are_the_same_each_time():
    """`explore` and `explain` would stop at a model that has an input of whole numbers, or find other ranges each time."""
    model = written(
        "g (float[N,4,8,8] x, int64[N,1,1,1] t) => (float[N,4,8,8] y) { f = Cast <to=1> (t) c = Conv (x, w) y = Div (c, f) }",
        {"w": (4, 4, 1, 1)},
    )
    graph = float_graph(model)
    samples = random_samples(graph)
    assert {name: (x.dtype, x.shape) for name, x in samples.items()} == {
        "x": (np.float32, (1, 4, 8, 8)),
        "t": (np.int64, (1, 1, 1, 1)),
    }
    assert samples["t"].all(), "a whole number may be a divisor"
    assert samples["x"].std() > 0.5
    assert all(np.array_equal(x, random_samples(graph)[name]) for name, x in samples.items())
    _, body = float_body(graph)
    assert calibrate(graph, (*body.tensors,), samples, False)
