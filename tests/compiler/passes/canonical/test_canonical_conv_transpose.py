"""Transposed convolutions as interleaved ones."""

import numpy as np
import pytest

from cnna.compiler.graph.float_ops import Conv, Onnx
from cnna.compiler.passes.canonical.canonical_conv_transpose import canonical_conv_transpose
from cnna.compiler.passes.rounding.dequantise_constants import dequantise_constants

from ...written import rewritten, written
from ..alone import after, kinds, left_alone, only, typed, untyped

SHAPE = "g (float[N,6,5,7] x) => (float[N,?,?,?] y) {{ y = ConvTranspose <{how}> (x, w) }}"


@pytest.mark.parametrize(
    ("how", "weights", "found"),
    [
        ("strides=[2,2]", (6, 3, 2, 2), ["Conv"] * 4 + ["Interleave"]),
        ("strides=[2,2], pads=[1,1,1,1], output_padding=[1,1]", (6, 3, 3, 3), ["Conv"] * 4 + ["Interleave"]),
        ("strides=[2,2], pads=[1,1,1,1]", (6, 3, 3, 3), ["Conv"] * 4 + ["Interleave", "Pixels"]),
        ("strides=[3,3], group=6", (6, 1, 2, 5), ["Conv"] * 9 + ["Interleave", "Pixels"]),
        ("strides=[1,1], pads=[1,0,0,1], dilations=[2,1]", (6, 5, 3, 4), ["Conv"]),
    ],
)
def test_phases(how, weights, found):
    """With a weight in the wrong phase, or a row too many in front, the map would be shifted."""
    graph = after(canonical_conv_transpose, untyped(SHAPE.format(how=how), {"w": weights}), 1e-4)
    assert kinds(graph) == found


def test_random_ones(seed):
    """Random strides, kernels, paddings, dilations and groups must give onnxruntime's answer; in time every pair comes up."""
    rng = np.random.default_rng(seed)
    for _ in range(25):
        stride, groups = int(rng.integers(1, 5)), int(rng.choice([1, 2, 6]))
        how = {
            "strides": [stride] * 2,
            "pads": rng.integers(0, 3, 4).tolist(),
            "dilations": rng.integers(1, 3, 2).tolist(),
            "output_padding": rng.integers(0, stride, 2).tolist(),
        }
        text = ", ".join(f"{key}={value}" for key, value in how.items())
        weights = {"w": (6, int(rng.integers(1, 4)), *rng.integers(2, 6, 2).tolist())}
        _, found = rewritten(written(SHAPE.format(how=f"{text}, group={groups}"), weights))
        assert "ConvTranspose" not in found


@pytest.mark.parametrize("how", ["strides=[2,1]", 'auto_pad="SAME_UPPER"', "output_shape=[10,14], strides=[2,2]"])
def test_what_stays(how):
    """Forms that the phases do not cover must be left to the CPU, not guessed."""
    assert left_alone(canonical_conv_transpose, untyped(SHAPE.format(how=how), {"w": (6, 3, 2, 2)}))


@pytest.mark.parametrize("inputs", ["x, w, b", "x, w, "])
@pytest.mark.parametrize("how", ["strides=[2,2]", "strides=[3,3]"])
def test_bias(how, inputs):
    """Every phase adds it, also one that no tap of the kernel reaches."""
    text = SHAPE.format(how=how).replace("x, w", inputs)
    graph = untyped(text, {"w": (6, 3, 2, 2), **({"b": (3,)} if "b" in inputs else {})})
    assert "Conv" in kinds(after(canonical_conv_transpose, graph, 1e-4))


QUANTISED = """g (float[N,6,5,7] x) => (float[N,3,6,8] y) {
    w = DequantizeLinear <axis=AXIS> (q, s)
    y = ConvTranspose (x, w) }"""


def quantised(axis, scales):
    weights = np.random.default_rng(1).integers(-127, 128, (6, 3, 2, 2)).astype(np.int8)
    if len(scales) == 3:
        weights[:, scales == 0] = 0
    return dequantise_constants(untyped(QUANTISED.replace("AXIS", str(axis)), {"q": weights, "s": scales}))


@pytest.mark.parametrize("scales", [np.array(s, np.float32) for s in ([0.5, 2, 0.25], [0.5, 0, 1], [0.5])], ids=str)
def test_int8_weights_stay_int8(scales):
    """Each output channel keeps its scale; one of zeros may have any scale but 0, by which the weights are divided."""
    graph = after(canonical_conv_transpose, quantised(1, scales), 1e-4)
    conv = only(graph, Conv).op
    expected = np.broadcast_to(np.where(scales == 0, 1, scales), 3)
    np.testing.assert_array_equal(graph.constants[conv.weight_scale], expected)
    whole = graph.constants[conv.weights] / expected[:, None, None, None]
    np.testing.assert_array_equal(whole, np.rint(whole))


def test_scales_of_input_channels_stay():
    """No scale of an output channel makes such weights whole numbers again."""
    assert left_alone(canonical_conv_transpose, quantised(0, np.float32([1, 2, 3, 4, 5, 6])))


MAP, MADE = (1, 6, 5, 7), (1, 3, 6, 8)
W = {"w": (6, 3, 2, 2)}
OTHERS = {  # shapes of inputs, of the output, and of constants
    "weights that are computed": ({"x": MAP, "w": W["w"]}, MADE, {}),
    "a bias that is computed": ({"x": MAP, "b": (3,)}, MADE, W),
    "one axis of pixels": ({"x": (1, 6, 5)}, (1, 3, 6), {"w": (6, 3, 2)}),
    "weights of one axis": ({"x": MAP}, MADE, {"w": (6, 3, 2)}),
    "unknown rank": ({"x": ()}, MADE, W),
    "unknown rank of the output": ({"x": MAP}, (), W),
    "unknown size": ({"x": (1, 6, 0, 7)}, (1, 3, 0, 8), W),
    "weights of other channels": ({"x": MAP}, MADE, {"w": (5, 3, 2, 2)}),
    "channels that do not part": ({"x": MAP}, (1, 12, 6, 8), {**W, "group": 4}),
    "padding below 0": ({"x": MAP}, (1, 3, 7, 8), {**W, "pads": (-1, 0, 0, 0)}),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_not_known_stays(name):
    """The phases are counted from sizes and weights; what does not fit is the CPU's to refuse."""
    inputs, shape, constants = OTHERS[name]
    attributes = {key: value for key, value in constants.items() if key in ("group", "pads")}
    constants = {key: value for key, value in constants.items() if key not in attributes}
    names = ["x", "w", *(["b"] if "b" in inputs else [])]
    graph = typed(inputs, [("y", Onnx("ConvTranspose", attributes), names, shape)], ["y"], constants)
    assert left_alone(canonical_conv_transpose, graph)


def test_phases_have_no_more_taps_than_the_kernel():
    """The work must be that of the kernel: 16 taps for 4 x 4, where a map filled with zeros would take 64."""
    how = "strides=[2,2], pads=[1,1,1,1]"
    graph = canonical_conv_transpose(untyped(SHAPE.format(how=how), {"w": (6, 3, 4, 4)}))
    convs = [node.op for node in graph.nodes if isinstance(node.op, Conv)]
    assert [conv.window.kernel for conv in convs] == [(2, 2)] * 4
