"""Constants far from all data, such as masks and paddings, do not cost the range of int8; where they do, the user is told."""

import numpy as np
import pytest

from cnna.compiler.explain.assumed_ranges import quantised as explained
from cnna.compiler.frontend.onnx_import import load_model
from cnna.compiler.graph.float_ops import MaxPool, Pad
from cnna.compiler.quantise.outliers import LEAST
from cnna.compiler.quantise.quantise import calibrated, float_graph, quantise
from cnna.host.model.divergence import Divergence

from ..written import answers, images, written

VALUES = (-100.0, -65504.0, -1e9, -3.4e38, -np.inf)
MAP = "float[N,4,12,12] x) => (float[N,c,h,u] y"
POOL = "MaxPool <kernel_shape=[3,3], strides=[2,2]>"
CASES = {
    "pad before a pool": f"a = Conv (x, w) b = Pad (a, widths, v) y = {POOL} (b)",
    "pad of the input": f"b = Pad (x, widths, v) c = {POOL} (b) y = Conv (c, w)",
    "pad between": f"a = Conv (x, w) r = Relu (a) b = Pad (r, widths, v) c = {POOL} (b) y = Conv (c, w2)",
    "where before a pool": f"a = Conv (x, w) b = Where (mask, a, v) c = {POOL} (b) y = Conv (c, w2)",
    "where and softmax": "a = Conv (x, w) b = Where (mask, a, v) y = Softmax <axis=3> (b)",
    "mask of pixels before a pool": f"a = Conv (x, w) b = Add (a, pixels) c = {POOL} (b) y = Conv (c, w2)",
    "mask of pixels and softmax": "a = Conv (x, w) b = Add (a, pixels) y = Softmax <axis=3> (b)",
    "mask of classes and softmax": "a = Conv (x, w) b = Add (a, classes) y = Softmax <axis=1> (b)",
    "max": "a = Conv (x, w) b = Max (a, v) y = Conv (b, w2)",
    "min": "a = Conv (x, w) b = Min (minus, a) y = Conv (b, w2)",
    "clip": "a = Conv (x, w) b = Clip (a, v, minus) y = Conv (b, w2)",
    "pad before a limit": "a = Conv (x, w) b = Pad (a, widths, v) c = Relu (b) y = Conv (c, w2)",
    "pad before a limit and a pool": (
        f"a = Conv (x, w) b = Pad (a, widths, v) c = Relu (b) d = {POOL} (b) e = {POOL} (c) y = Add (d, e)"
    ),
    "where before a limit": "a = Conv (x, w) b = Where (mask, a, v) c = Clip (b, one, six) y = Conv (c, w2)",
    "mask of pixels before a limit": "a = Conv (x, w) b = Add (a, pixels) c = Clip (b, one, six) y = Conv (c, w2)",
    "mask of pixels before an upper limit": "a = Conv (x, w) b = Sub (a, pixels) c = Clip (b, , six) y = Conv (c, w2)",
}


def model_of(case, value):
    """The model, without constants that it does not use; masks leave out some pixels of every window, and two classes of six."""
    rng = np.random.default_rng(1)
    masked = np.indices((10, 10)).sum(axis=0)[None, None] % 3 == 0
    arrays = {
        "w": (rng.normal(size=(6, 4, 3, 3)) / 6).astype(np.float32),
        "w2": (rng.normal(size=(5, 6, 3, 3)) / 6).astype(np.float32),
        "v": np.float32(value),
        "minus": np.float32(-value),
        "one": np.float32(-1),
        "six": np.float32(0.75),
        "widths": np.array([0, 0, 1, 1, 0, 0, 1, 1]),
        "mask": ~masked,
        "pixels": np.where(masked, np.float32(value), np.float32(0)),
        "classes": np.where(np.arange(6) % 3, np.float32(0), np.float32(value)).reshape(1, 6, 1, 1),
    }
    text = CASES[case]
    named = {*text.replace("(", " ").replace(")", " ").replace(",", " ").split()}
    return written(f"g ({MAP}) {{ {text} }}", {name: array for name, array in arrays.items() if name in named})


@pytest.mark.parametrize(("case", "value"), [(c, v) for c in CASES for v in VALUES if np.isfinite(v) or "upper" not in c])
def test_constants_that_show_nowhere_leave_the_range_alone(case, value):
    """The answer would be as good as none (0 dB), or the file would be refused though every exporter writes such constants."""
    model = load_model(model_of(case, value).SerializeToString())
    feeds = images(model, 8)
    result, report = quantise(model, feeds)
    explained(float_graph(model))
    one = Divergence("y")
    one.extend(answers(result, feeds)[0], answers(model, feeds)[0])
    assert not one.odd
    assert one.decibels > 30
    assert not report.warnings


@pytest.mark.parametrize("value", VALUES)
def test_a_pad_below_all_data_is_the_pools_own(value):
    """A Pad would be a copy of its own, with the value -128 in a range that has none."""
    model = model_of("pad before a pool", value)
    graph = calibrated(float_graph(model), images(model, 8)).graph
    assert [type(node.op) for node in graph.nodes if isinstance(node.op, Pad | MaxPool)] == [MaxPool]


def test_a_pad_within_the_data_stays():
    """The greatest of a window at the edge may be the padding."""
    model = model_of("pad before a pool", -0.1)
    feeds = images(model, 8)
    given = calibrated(float_graph(model), feeds)
    assert any(isinstance(node.op, Pad) for node in given.graph.nodes)
    one = Divergence("y")
    one.extend(answers(given.quantised()[0], feeds)[0], answers(model, feeds)[0])
    assert one.decibels > 30


SHOWN = f"g ({MAP}) {{ a = Conv (x, w) b = Pad (a, widths, v) c = Conv (b, w2) y = Relu (c) }}"


def shown(value):
    """A network in which the padding's value goes through a convolution, and so shows."""
    rng = np.random.default_rng(1)
    arrays = {"w": rng.normal(size=(6, 4, 3, 3)) / 6, "w2": rng.normal(size=(5, 6, 3, 3)) / 6, "v": np.array(value)}
    return written(SHOWN, {**{k: v.astype(np.float32) for k, v in arrays.items()}, "widths": np.array([0, 0, 1, 1, 0, 0, 1, 1])})


@pytest.mark.parametrize(("value", "floating"), [(-100.0, False), (-65504.0, True), (1e9, True)])
def test_a_value_that_costs_the_range_is_told_with_its_node(value, floating):
    """The user would learn nothing of the one constant that leaves int8 no steps; what has none stays in float."""
    model = shown(value)
    feeds = images(model, 8)
    result, report = quantise(model, feeds)
    assert len(report.warnings) == 1
    assert report.warnings[0].startswith(f"node 'Pad:b' (Pad): the value {value:g} makes the range of 'b'")
    assert "use a value near the data" in report.warnings[0]
    assert ("stays in float" in report.warnings[0]) == floating
    assert ("Pad" in report.floating) == floating
    one = Divergence("y")
    one.extend(answers(result, feeds)[0], answers(model, feeds)[0])
    assert one.decibels > 30


@pytest.mark.parametrize("effort", [0, 1, 2])
@pytest.mark.parametrize("value", [-np.inf, np.inf])
def test_an_infinite_constant_that_shows_stays_in_float(value, effort):
    """It was refused by `quantize` alone, though Relu lets none of it through and every exporter writes such masks."""
    mask = np.where(np.arange(6) % 3, np.float32(0), np.float32(value)).reshape(1, 6, 1, 1)
    text = f"g ({MAP}) {{ a = Conv (x, w) b = Add (a, mask) r = Sigmoid (b) y = Conv (r, w2) }}"
    model = written(text, {"w": (6, 4, 3, 3), "w2": (5, 6, 3, 3), "mask": mask})
    feeds = images(model, 8)
    result, report = quantise(model, feeds, effort=effort)
    assert len(report.warnings) == 1
    assert report.warnings[0].startswith(f"node 'Add:b' (Add): 'b' holds {value:g}, for which int8 has no range")
    one = Divergence("y")
    one.extend(answers(result, feeds)[0], answers(model, feeds)[0])
    assert one.decibels > 25


def test_a_layer_of_which_int8_keeps_too_little_is_told():
    """A single sample a thousand times as large as all others costs the range; 'good' or nothing would be said of 0 dB."""
    model = written(f"g ({MAP}) {{ a = Conv (x, w) y = Relu (a) }}", {"w": (6, 4, 3, 3)})
    feeds = images(model, 9)
    assert not quantise(model, feeds)[1].warnings
    feeds["x"][1] *= 3000  # not among the few samples on which layers are compared
    (told,) = quantise(model, feeds)[1].warnings
    assert f"of signal to noise, below {LEAST:g} dB" in told
    assert told.startswith("'x' (input)")
    assert "--method mse" in told
