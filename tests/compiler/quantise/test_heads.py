"""Detectors' heads: boxes and scores get scales of their own, and the float network stays the same."""

from math import inf

import detectors
import numpy as np
import pytest

from cnna.compiler.frontend.onnx_export import to_model
from cnna.compiler.frontend.quantised_import import import_quantised
from cnna.compiler.graph.float_ops import Conv
from cnna.compiler.quantise import heads
from cnna.compiler.quantise.quantise import calibrated, float_graph, quantise

from ..written import answers, images, written

CALIBRATION, TEST = {"x": detectors.pictures(24, seed=2)}, detectors.pictures(8, seed=3)


@pytest.mark.parametrize("name", detectors.HEADS)
def test_boxes_overlap_those_of_float(name):
    """Boxes of a detector would lie elsewhere in int8, or its scores would be coarse."""
    model = detectors.detector(name)
    result, _ = quantise(model, CALIBRATION)
    expected, found = detectors.answers(model, TEST), detectors.answers(result, TEST)
    assert detectors.overlap(found, expected) > 0.95
    errors = np.abs(found - expected)[..., 4:]
    assert np.square(errors).mean() < 0.003 * np.square(expected[..., 4:]).mean()


def test_one_scale_would_cost_the_boxes():
    """The splitting would bring nothing, or another part of the quantiser would have made it needless."""
    model = detectors.detector("yolov3")
    expected = detectors.answers(model, TEST)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(heads, "APART", inf)
        together = quantise(model, CALIBRATION)[0]
    apart = quantise(model, CALIBRATION)[0]
    overlaps = [detectors.overlap(detectors.answers(one, TEST), expected) for one in (together, apart)]
    assert overlaps[0] < 0.94
    assert 1 - overlaps[1] < 0.5 * (1 - overlaps[0])


@pytest.mark.parametrize("name", ["yolov3", "yolov5"])
def test_split_heads_are_the_same_in_float(name):
    """Channels would be in another order, or layers behind them would be cut off from the accelerator's single piece."""
    model = detectors.detector(name)
    graph = float_graph(model)
    split = calibrated(graph, CALIBRATION).graph
    convs = [[node for node in one.nodes if isinstance(node.op, Conv)] for one in (graph, split)]
    assert len(convs[0]) < len(convs[1])
    np.testing.assert_allclose(detectors.answers(to_model(split), TEST), detectors.answers(model, TEST), rtol=1e-5, atol=1e-5)
    pieces = import_quantised(quantise(model, CALIBRATION)[0]).pieces
    assert [piece.cpu is None for piece in pieces] == [True, False]


def test_channels_that_are_used_together_share_a_scale():
    """Classes of a segmentation would be split because one of them is rare, and the CPU would join what belongs together."""
    text = "g (float[N,3,8,8] x) => (int64[N,1,8,8] y) { a = Conv (x, w) y = ArgMax <axis=1> (a) }"
    weights = np.random.default_rng(1).normal(size=(6, 3, 1, 1)).astype(np.float32)
    weights[:2] *= 20
    model = written(text, {"w": weights})
    assert len(calibrated(float_graph(model), images(model, 8)).graph.nodes) == 2


def test_channels_that_take_turns_are_parted_too():
    """The order of channels would be mixed up where an anchor begins with scores, or has one channel of a kind."""
    text = """g (float[N,3,8,8] x) => (float[N,4,1,8,8] y, float[N,4,1,8,8] z) {
        a = Conv (x, w) v = Reshape (a, view) y, s = Split <axis=2, num_outputs=2> (v) z = Exp (s) }"""
    weights = np.random.default_rng(1).normal(size=(8, 3, 1, 1)).astype(np.float32)
    weights[::2] *= 20
    model = written(text, {"w": weights, "view": np.array([0, 4, 2, 8, 8])}, opset=18)
    graph = calibrated(float_graph(model), images(model, 8)).graph
    assert sum(isinstance(node.op, Conv) for node in graph.nodes) == 2
    for got, expected in zip(answers(to_model(graph), images(model)), answers(model, images(model)), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)


def test_a_tail_that_hardly_multiplies_stays_in_float():
    """YOLOv8 takes the mean of distances by a convolution behind a softmax. In int8 it would round boxes twice more."""
    text = """g (float[N,16,24,24] x) => (float[N,1,24,24] y) {
        a = Conv <kernel_shape=[3,3], pads=[1,1,1,1]> (x, w) b = Relu (a) c = Conv (b, v)
        d = Softmax <axis=1> (c) y = Conv (d, numbers) }"""
    weights = {"w": (64, 16, 3, 3), "v": (8, 64, 1, 1), "numbers": np.arange(8, dtype=np.float32).reshape(1, 8, 1, 1)}
    model = written(text, weights)
    result, report = quantise(model, images(model, 4))
    assert report.floating == ("Softmax", "Conv")
    assert not {"d", "y"} & {*report.quants}
    assert [piece.cpu is None for piece in import_quantised(result).pieces] == [True, False]
