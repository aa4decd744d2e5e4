"""A Conv with constant weights becomes the typed one."""

from dataclasses import replace

import numpy as np
import pytest

from cnna.compiler.frontend.onnx_export import to_model
from cnna.compiler.frontend.onnx_import import to_graph
from cnna.compiler.graph.float_ops import Conv
from cnna.compiler.graph.ir import Window
from cnna.compiler.passes.canonical.canonical_conv import canonical_conv
from cnna.compiler.passes.rounding.dequantise_constants import dequantise_constants
from cnna.spec.errors import ModelError

from ...written import answers, images, rewritten, written
from ..alone import after, kinds, left_alone, only, untyped


def test_bias_and_window_are_explicit():
    """A Conv without bias or padding does not mention them, but every later pass reads both."""
    text = """g (float[N,4,7,8] x) => (float[N,6,4,3] y) {
        y = Conv <kernel_shape=[3,2], strides=[2,3], pads=[1,0,1,0], group=2> (x, w) }"""
    graph = after(canonical_conv, untyped(text, {"w": (6, 2, 3, 2)}))
    conv = only(graph, Conv).op
    assert (conv.window, conv.groups) == (Window((3, 2), (2, 3), (1, 1), (1, 0, 1, 0)), 2)
    assert not graph.constants[conv.bias].any()


@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER", "VALID"])
def test_auto_pad_becomes_numbers(mode):
    """An even kernel puts the odd zero on the side that the mode names. ONNX's evaluator does not, so onnxruntime is asked."""
    text = f"""g (float[N,2,7,8] x) => (float[N,3,?,?] y) {{
        y = Conv <kernel_shape=[4,2], strides=[2,3], auto_pad="{mode}"> (x, w)}}"""
    model = written(text, {"w": (3, 2, 4, 2)})
    graph, feeds = canonical_conv(to_graph(model)), images(model)
    assert (sum(only(graph, Conv).op.window.pads) > 0) == (mode != "VALID")
    np.testing.assert_allclose(answers(to_model(graph), feeds)[0], answers(model, feeds)[0], rtol=1e-5, atol=1e-5)


def test_one_axis_becomes_two():
    """A signal with one axis must run as a map of one row, between two Reshapes."""
    text = """g (float[N,4,16] x) => (float[N,6,8] y) {
        y = Conv <kernel_shape=[5], pads=[4,0], strides=[2]> (x, w, b) }"""
    graph = after(canonical_conv, untyped(text, {"w": (6, 4, 5), "b": (6,)}))
    assert kinds(graph) == ["Reshape", "Conv", "Reshape"]
    assert only(graph, Conv).op.window == Window((1, 5), (1, 2), (1, 1), (0, 4, 0, 0))


def test_scales_of_int8_weights_are_kept():
    """A channel's weights divided by its scale must be the model's int8 weights again."""
    text = """g (float[N,2,3,3] x) => (float[N,3,3,3] y) {
        w = DequantizeLinear <axis=0> (q, s)
        y = Conv <kernel_shape=[1,1]> (x, w) }"""
    whole = np.array([[5, -128], [127, 1], [0, 3]], np.int8)[:, :, None, None]
    model = untyped(text, {"q": whole, "s": np.array([0.1, 0.02, 3], np.float32)})
    graph = dequantise_constants(model)
    assert "w" in graph.scales
    graph = after(canonical_conv, graph)
    conv = only(graph, Conv).op
    divided = graph.constants[conv.weights] / graph.constants[conv.weight_scale][:, None, None, None]
    np.testing.assert_array_equal(np.rint(divided), whole)


def test_output_channels_that_groups_cannot_share_are_named():
    """Each group makes equally many channels; the last one would have one less."""
    text = "g (float[N,4,4,4] x) => (float[N,4,4,4] y) { y = Conv <group=2> (x, w) }"
    graph = untyped(text, {"w": (4, 2, 1, 1)})
    with pytest.raises(ModelError, match=r"weights \(3, 2, 1, 1\) in 2 groups do not fit"):
        canonical_conv(replace(graph, constants={"w": np.ones((3, 2, 1, 1), np.float32)}))


COMPUTED = {
    "weights": ("float[1,2,3,1,1] z", "Conv (x, v)", {}),
    "bias": ("float[1,2] z", "Conv (x, w, v)", {"w": (2, 3, 1, 1)}),
}


@pytest.mark.parametrize("name", COMPUTED)
def test_computed_weights_and_biases_stay(name):
    """Computed weights or biases cannot be put into the constant segment."""
    given, node, weights = COMPUTED[name]
    text = f"""g (float[1,3,4,4] x, {given}) => (float[1,2,4,4] y) {{
        v = Squeeze (z, first)
        y = {node} }}"""
    assert left_alone(canonical_conv, untyped(text, {**weights, "first": np.array([0])}))


def test_volumes_stay():
    """The array has windows of only two axes."""
    text = "g (float[N,2,3,4,4] x) => (float[N,2,3,4,4] y) { y = Conv <kernel_shape=[1,1,1]> (x, w) }"
    assert left_alone(canonical_conv, untyped(text, {"w": (2, 2, 1, 1, 1)}))


WRONG = {  # message: (weights, bias), beside a kernel_shape of [1, 1]
    "weights (2, 3, 1) in 1 groups do not fit a map of (1, 3, 4, 4); export it again": ((2, 3, 1), (2,)),
    "weights (2, 3, 2, 2) do not match kernel_shape [1, 1]; export it again": ((2, 3, 2, 2), (2,)),
    "weights (2, 4, 1, 1) in 1 groups do not fit a map of (1, 3, 4, 4); export it again": ((2, 4, 1, 1), (2,)),
    "its bias has shape [3]; it must be [2], one value per channel": ((2, 3, 1, 1), (3,)),
}


@pytest.mark.parametrize("message", WRONG)
def test_constants_that_do_not_fit_are_named(message):
    """numpy would say "could not be broadcast", without the node."""
    text = "g (float[N,3,4,4] x) => (float[N,2,4,4] y) { y = Conv <kernel_shape=[1,1]> (x, w, b) }"
    graph = untyped(text, {"w": (2, 3, 1, 1), "b": (2,)})
    weights, bias = (np.ones(shape, np.float32) for shape in WRONG[message])
    with pytest.raises(ModelError) as caught:
        canonical_conv(replace(graph, constants={"w": weights, "b": bias}))
    assert str(caught.value) == f"node 'Conv:y' (Conv): {message}"


def test_a_constant_called_like_a_scale_is_none():
    """Float weights beside a factor that an exporter calls "w:scale" were rounded to whole numbers of it, in float already."""
    model = written(
        "g (float[N,3,6,6] x) => (float[N,4,6,6] y) { c = Conv <pads=[1,1,1,1]> (x, w) r = Relu (c) y = Mul (r, factor) }",
        {"w": (4, 3, 3, 3), "factor": np.float32([0.5])},
    )
    (factor,) = (tensor for tensor in model.graph.initializer if tensor.name == "factor")
    factor.name = model.graph.node[2].input[1] = "w:scale"
    graph, _ = rewritten(model)
    assert only(graph, Conv).op.weight_scale is None
