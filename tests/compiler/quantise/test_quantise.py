"""Post-training quantisation: its result is standard, accurate, and comes back as the int8 graph that was meant."""

import numpy as np
import onnx
import pytest

from cnna.compiler.frontend.preprocess import Preprocess, stored
from cnna.compiler.frontend.quantised_import import import_quantised
from cnna.compiler.graph import ir
from cnna.compiler.quantise.quantise import quantise
from cnna.compiler.quantise.ranges import METHODS
from cnna.spec.errors import DataError, ModelError

from ..distance import distances
from ..frontend.test_quantised_import import NETWORK, WEIGHTS, check_distances, run_whole
from ..passes.test_pipeline import FORMS
from ..written import answers, images, written

MODEL = written(NETWORK, WEIGHTS)
CALIBRATION = images(MODEL, 40, seed=5)
LINEAR = ("QuantizeLinear", "DequantizeLinear")


@pytest.fixture(scope="module", params=METHODS)
def quantised(request):
    return quantise(MODEL, CALIBRATION, request.param)


def test_result_is_sound_qdq(quantised):
    """The result would lack int8 activations, int8 weights without -128 for each output channel, int32 biases or a float
    softmax.
    """
    model, report = quantised
    onnx.checker.check_model(model, full_check=True)
    constants = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    assert {value.dtype.name for name, value in constants.items() if ":scale" not in name} <= {"int8", "int32", "int64", "float32"}
    for name, value in constants.items():
        if name.endswith(":int8"):
            assert value.min() >= -127
            assert constants[f"{name}:scale"].shape == (len(value),)
            assert not constants[f"{name}:zero"].any()
    assert [node.op_type for node in model.graph.node][-2:] == ["Reshape", "Softmax"]
    assert report.floating == ("Reshape", "Softmax")
    assert report.samples == 40


def test_answers_stay_near_the_float_network(quantised):
    model, _ = quantised
    feeds = images(MODEL, 16, seed=6)
    got = run_whole(import_quantised(model), feeds)["y"]
    expected = answers(MODEL, feeds)[0]
    assert np.abs(got - expected).max() < 0.05
    assert (got.argmax(axis=1) == expected.argmax(axis=1)).mean() > 0.8


def test_layers_are_at_most_a_unit_from_onnxruntime(quantised):
    check_distances(distances(quantised[0], images(MODEL, 4, seed=6)))


def test_comes_back_as_it_was_meant(quantised):
    """A tensor at the accelerator would not have the report's quantisation. ReLU is in the range, with zero point -128."""
    model, report = quantised
    graphs: dict[str, ir.Graph] = {}
    split = import_quantised(model, graphs.__setitem__)
    found = {name.removesuffix(":float"): tensor.quant for name, tensor in graphs["to_integer"].tensors.items()}
    assert {name: found[name] for name in report.quants} == report.quants
    assert report.quants["b"].zero == report.quants["i"].zero == -128
    assert not [node for node in model.graph.node if node.op_type in ("Relu", "Clip")]
    assert split.programs[0].tensors["x"].quant == report.quants["x"]
    assert len(split.programs[0].nodes) == 8  # 4 convolutions, the add in one of them; 3 pools, concat


def test_concatenated_tensors_share_a_scale(quantised):
    quants = quantised[1].quants
    assert quants["i"] == quants["f"] == quants["j"] == quants["b"]  # b by the max pool that makes f
    assert quants["e"] != quants["i"]


def test_a_chain_is_rounded_once():
    """Q and DQ between Sigmoid and product would round twice. The sum before them needs a range of its own, but only as far as it
    shows: SiLU of -40 is 0, and steps for it would be missing elsewhere.
    """
    text = "g (float[N,3,6,6] x) => (float[N,4,6,6] y) { a = Conv (x, w) s = Sigmoid (a) b = Mul (a, s) y = Conv (b, v) }"
    model = written(text, {"w": np.full((4, 3, 1, 1), 8, np.float32), "v": (4, 4, 1, 1)})
    result, report = quantise(model, images(model, 8))
    assert [node.op_type for node in result.graph.node if node.op_type not in LINEAR] == ["Conv", "Sigmoid", "Mul", "Conv"]
    assert set(report.quants) == {"x", "a", "b", "y"}
    least, greatest = (report.quants["a"].scale * (end - report.quants["a"].zero) for end in (-128, 127))
    assert report.ranges["a"][0] < -30
    assert -8 < least < -4
    assert greatest == pytest.approx(report.ranges["a"][1], rel=0.01)
    (program,) = import_quantised(result).programs
    assert [type(node.op) for node in program.nodes] == [ir.Conv, ir.Conv]
    assert program.nodes[0].op.table


def test_scores_beside_boxes_keep_their_steps():
    """A detector that ends in one tensor of both would have a dozen steps for its scores, which reach from 0 to 1."""
    text = """g (float[N,3,6,6] x) => (float[N,8,36] y) {
        b = Conv (x, w) s = Conv (x, v) t = Sigmoid (s) c = Concat <axis=1> (b, t) y = Reshape (c, shape) }"""
    weights = {"w": np.full((4, 3, 1, 1), 40, np.float32), "v": (4, 3, 1, 1), "shape": np.array([0, 8, 36])}
    model = written(text, weights)
    feeds = images(model, 8)
    result, _ = quantise(model, feeds)
    (found,), (expected,) = answers(result, feeds), answers(model, feeds)
    assert np.abs(found - expected)[:, 4:].max() < 0.02
    assert np.abs(found - expected).max() < 2.5
    split = import_quantised(result)
    assert [piece.cpu is None for piece in split.pieces] == [True, False]


@pytest.mark.parametrize(
    ("made", "rounded"),
    [
        ("b = Identity (x)", {"x", "z", "y"}),  # in float, nothing would run on the accelerator
        ("b = Conv (x, w)", {"x", "b"}),  # only the concatenation reads z, and that is in float
    ],
)
def test_parts_of_a_float_concatenation_are_rounded_where_it_serves(made, rounded):
    """What no layer reads would lose precision for nothing, and a model of moves alone would not run as it is."""
    text = f"g (float[N,3,6,6] x, float[N,3,6,6] z) => (float[N,6,6,6] y) {{ {made} y = Concat <axis=1> (b, z) }}"
    model = written(text, {"w": (3, 3, 1, 1)})
    x = np.random.default_rng(2).normal(size=(8, 3, 6, 6)).astype(np.float32)
    _, report = quantise(model, {"x": x, "z": 20 * x})
    assert {*report.quants} == rounded


def test_a_pad_shares_its_scale_where_the_value_does_not_widen_it():
    """One scale saves a copy; a value far outside would leave the map's other readers few steps."""
    text = "g (float[N,3,4,4] x) => (float[N,3,6,4] y) { a = Conv (x, w) p = Pad (a, widths, value) y = Relu (p) }"
    for value, shared in ((0.1, True), (-100.0, False)):
        model = written(text, {"w": (3, 3, 1, 1), "widths": np.array([0, 0, 1, 0, 0, 0, 1, 0]), "value": np.float32(value)})
        quants = quantise(model, images(model))[1].quants
        assert (quants["a"] == quants["p"]) == shared


EFFORT = """g (float[N,3,12,12] x) => (float[N,4,6,6] y, int64[N,1,6,6] z) {
    a = Conv <pads=[1,1,1,1], kernel_shape=[3,3], strides=[2,2]> (x, w)
    b = LRN <size=5> (a)
    low, high = Split <axis=1, num_outputs=2> (b)
    c = Conv <kernel_shape=[1,1]> (low, w2)
    d = Add (c, high)
    y = Conv <kernel_shape=[1,1]> (d, w3, b3)
    z = ArgMax <axis=1> (y)}"""


@pytest.mark.parametrize("effort", [1, 2])
def test_effort_goes_through_all_kinds_of_pieces(effort):
    """Stages may cross to the CPU, branch, have several outputs or integers. The result is near float, and is the same twice."""
    weights = {"w": (8, 3, 3, 3), "w2": (4, 4, 1, 1), "w3": (4, 4, 1, 1), "b3": (4,)}
    model = written(EFFORT, weights, opset=18)
    feeds = images(model, 12)
    result, report = quantise(model, feeds, effort=effort)
    assert report.effort == effort
    assert result == quantise(model, feeds, effort=effort)[0]
    (expected, _), got = answers(model, feeds), run_whole(import_quantised(result), feeds)["y"]
    assert np.abs(got - expected).max() < 0.05 * np.ptp(expected)


@pytest.mark.parametrize("name", FORMS)
def test_exporters_forms_quantise(name):
    """Whatever the exporter wrote, int8 must be near float; the greatest error is in units of the answers' spread."""
    text, weights, _ = FORMS[name]
    model = written(text, weights)
    result, _ = quantise(model, images(model, 30, seed=7))
    feeds = images(model, 6, seed=8)
    values = run_whole(import_quantised(result), feeds)
    for value, expected in zip((values[one.name] for one in model.graph.output), answers(model, feeds), strict=True):
        assert value.shape == expected.shape
        assert np.abs(value - expected).max() < 0.12 * np.ptp(expected)


def test_bias_correction_brings_the_mean_back():
    """With coarse weights and inputs far from 0, rounding shifts the outputs' mean; the corrected bias must remove most of that."""
    rng = np.random.default_rng(9)
    weights = rng.normal(0, 0.01, (8, 16, 1, 1)).astype(np.float32)
    weights[:, 0] = 3  # makes the steps coarse beside all other weights
    model = written("g (float[N,16,4,4] x) => (float[N,8,4,4] y) { y = Conv <kernel_shape=[1,1]> (x, w) }", {"w": weights})
    samples = {"x": rng.uniform(2, 3, (30, 16, 4, 4)).astype(np.float32)}
    expected = answers(model, samples)[0].mean(axis=(0, 2, 3))
    errors = []
    for correct in (False, True):
        result, _ = quantise(model, samples, correct_bias=correct)
        errors.append(np.abs(run_whole(import_quantised(result), samples)["y"].mean(axis=(0, 2, 3)) - expected).mean())
    assert errors[1] < 0.5 * errors[0]


def test_dead_channels_and_great_biases_survive():
    """A channel of zero weights must still give its bias; a bias beyond int32 at the weights' scale must widen the scale."""
    weights = np.zeros((3, 2, 1, 1), np.float32)
    weights[1] = 1e-9
    bias = np.array([0.7, 5.0, 0.0], np.float32)
    model = written(
        "g (float[N,2,3,3] x) => (float[N,3,3,3] y) { y = Conv <kernel_shape=[1,1]> (x, w, b) }", {"w": weights, "b": bias}
    )
    feeds = images(model, 5)
    result, _ = quantise(model, feeds)
    got = run_whole(import_quantised(result), feeds)["y"]
    assert np.abs(got - answers(model, feeds)[0]).max() < 0.02


def test_uint8_samples_are_preprocessed():
    """Calibration with float32, and with the bytes that it comes from, must give the same model; the metadata says how."""
    preprocess = Preprocess(1 / 255, (0.4, 0.5, 0.6), (0.2, 0.25, 0.3))
    pictures = np.random.default_rng(10).integers(0, 256, (10, 3, 12, 12), np.uint8)
    by_bytes, _ = quantise(MODEL, {"x": pictures}, preprocess=preprocess)
    by_floats, _ = quantise(MODEL, {"x": preprocess.apply(pictures)}, preprocess=preprocess)
    assert by_bytes == by_floats
    assert stored(by_bytes) == preprocess
    assert stored(quantise(MODEL, CALIBRATION)[0]) is None


def test_progress_counts_every_sample():
    seen = []
    quantise(MODEL, CALIBRATION, "mse", progress=lambda done, total: seen.append((done, total)))
    assert seen == [(number + 1, 80) for number in range(80)]


BAD = {
    "empty": ({"x": np.zeros((0, 3, 12, 12), np.float32)}, "holds no samples"),
    "missing": ({"z": np.zeros((1, 3, 12, 12), np.float32)}, "no array for input 'x'"),
    "shape": ({"x": np.zeros((2, 3, 12, 11), np.float32)}, r"shape \[2, 3, 12, 11\]; the model's input is \[N, 3, 12, 12\]"),
    "nan": ({"x": np.full((2, 3, 12, 12), np.nan, np.float32)}, "sample 0 of 'x' holds NaN"),
    "bytes": ({"x": np.zeros((2, 3, 12, 12), np.uint8)}, "is uint8; give --scale"),
    "text": ({"x": np.zeros((2, 3, 12, 12), "U1")}, "it must be float32"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_samples_are_refused(name):
    samples, message = BAD[name]
    with pytest.raises(DataError, match=message):
        quantise(MODEL, samples)


def test_unknown_method_or_effort_is_refused():
    with pytest.raises(DataError, match="'entropy' is unknown; there are minmax, percentile, mse"):
        quantise(MODEL, CALIBRATION, "entropy")
    with pytest.raises(DataError, match="effort 3 is unknown; there are 0, 1, 2"):
        quantise(MODEL, CALIBRATION, effort=3)


def test_quantised_model_is_refused():
    with pytest.raises(ModelError, match="quantised already"):
        quantise(quantise(MODEL, CALIBRATION)[0], CALIBRATION)


def test_an_operator_in_the_middle_stays_float():
    """The layers before and behind it must be quantised all the same; the CPU runs it in between."""
    text = """g (float[N,3,6,6] x) => (float[N,4,6,6] y) {
        a = Conv <kernel_shape=[1,1]> (x, w)
        b = LRN <size=5> (a)
        y = Conv <kernel_shape=[1,1]> (b, w2)}"""
    model = written(text, {"w": (4, 3, 1, 1), "w2": (4, 4, 1, 1)})
    feeds = images(model, 8)
    result, report = quantise(model, feeds)
    assert report.floating == ("LRN",)
    (expected,) = answers(model, feeds)
    got = run_whole(import_quantised(result), feeds)["y"]
    assert np.abs(got - expected).max() < 0.05 * np.ptp(expected)


@pytest.mark.parametrize("least", [-1, 0.5])
def test_limits_that_no_sample_reaches_are_kept(least):
    """Left to the rounding, nothing of the node would remain for the accelerator, and all would be rounded for nothing.

    `cnna explain` has other samples, so that it would promise another place.
    """
    model = written("g (float[N,6] x) => (float[N,6] y) { y = Relu (x) }")
    result, _ = quantise(model, {"x": np.random.default_rng(1).uniform(least, 2, (9, 6)).astype(np.float32)})
    (graph,) = import_quantised(result).programs
    assert [type(node.op) for node in graph.nodes] == [ir.Combine]


def test_a_mask_may_be_infinite():
    """Masks of attention hold -inf, and stay float: only what is quantised must be finite."""
    text = """g (float[N,4,6] x, float[N,6,6] mask) => (float[N,4,6] y) {
        a = MatMul (x, w) s = Softmax (mask) y = MatMul (a, s) }"""
    model = written(text, {"w": (6, 6)})
    feeds = images(model, 4)
    feeds["mask"] = np.where(np.tri(6, dtype=bool), 0, -np.inf).astype(np.float32)[None].repeat(4, 0)
    result, report = quantise(model, feeds)
    assert "Softmax" in report.floating
    (expected,) = answers(model, feeds)
    assert np.abs(answers(result, feeds)[0] - expected).max() < 0.05 * np.ptp(expected)
    with pytest.raises(DataError, match="sample 0 of 'mask' holds numbers beyond float32"):
        quantise(model, feeds | {"mask": np.full((4, 6, 6), -1e300)})
    feeds["x"][1, 2, 3] = np.inf
    with pytest.raises(DataError, match="sample 1 of 'x' holds infinity, which reaches the tensor"):
        quantise(model, feeds)


@pytest.mark.parametrize("value", [0.0, 0.5])
def test_samples_that_are_one_number_are_told(value):
    """Black pictures, or a forgotten read of a file, would give ranges of nothing, and a network that answers anything."""
    name = MODEL.graph.input[0].name
    flat = {name: np.full_like(CALIBRATION[name], value)}
    said = quantise(MODEL, flat)[1].warnings[0]
    assert said == f"input '{name}' is {value:g} in all samples, which shows no range of any tensor; give typical samples"
    assert not [line for line in quantise(MODEL, CALIBRATION)[1].warnings if "in all samples" in line]
