"""Models that onnxruntime quantised, layer by layer against onnxruntime, and whole."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import trained
from onnx import numpy_helper
from onnxruntime.quantization import QuantFormat, QuantType

from cnna.compiler.frontend.onnx_import import load_model
from cnna.compiler.frontend.quantised_import import QuantisedModel, import_quantised
from cnna.compiler.graph import ir
from cnna.sim.reference import reference
from cnna.spec.errors import ModelError

from ..distance import distances, quantised_by_onnxruntime
from ..pairs import with_pairs
from ..written import Shapes, answers, images, written

NETWORK = """g (float[N,3,12,12] x) => (float[N,5] y) {
    a = Conv <pads=[1,1,1,1], kernel_shape=[3,3]> (x, w1, b1)
    b = Relu (a)
    c = Conv <pads=[1,1,1,1], kernel_shape=[3,3], group=8, strides=[2,2]> (b, w2, b2)
    d = Clip (c, low, high)
    e = Conv <kernel_shape=[1,1]> (d, w3, b3)
    f = MaxPool <kernel_shape=[2,2], strides=[2,2]> (b)
    h = Add (e, f)
    i = Relu (h)
    j = Concat <axis=1> (i, f)
    k = AveragePool <kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]> (j)
    l = GlobalAveragePool (k)
    m = Flatten (l)
    n = Gemm <transB=1> (m, w4, b4)
    y = Softmax (n)}"""
WEIGHTS: Shapes = {
    "w1": (8, 3, 3, 3), "b1": (8,), "w2": (8, 1, 3, 3), "b2": (8,), "low": np.float32(0), "high": np.float32(6), "w3": (8, 8, 1, 1),
    "b3": (8,), "w4": (5, 16), "b4": (5,),
}  # fmt: skip
FORMS: dict[str, dict[str, Any]] = {
    "qdq": {"per_channel": True},
    "qdq, symmetric": {"per_channel": True, "extra_options": {"ActivationSymmetric": True}},
    "qdq, uint8": {"activation": QuantType.QUInt8, "per_channel": True},
    "qdq, uint8 weights": {"activation": QuantType.QUInt8, "weight": QuantType.QUInt8, "extra_options": {"WeightSymmetric": True}},
    "qdq, own pairs": {"per_channel": True, "extra_options": {"DedicatedQDQPair": True}},
    "qlinear": {"form": QuantFormat.QOperator, "per_channel": True},
    "qlinear, uint8": {"form": QuantFormat.QOperator, "activation": QuantType.QUInt8, "weight": QuantType.QInt8},
}


def made(tmp_path: Path, name: str, text: str = NETWORK, weights=None) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    model = written(text, weights or WEIGHTS)
    return quantised_by_onnxruntime(model, images(model, 20, seed=3), tmp_path, **FORMS[name]), images(model, 8)


def run_whole(found: QuantisedModel, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Runs all pieces as the host does, with the reference as accelerator; returns every float tensor at a border."""
    values = dict(feeds)
    for piece in found.pieces:
        if piece.cpu is not None:
            values |= _on_cpu(piece.cpu, values)
            continue
        assert piece.integer is not None
        graph, whole = piece.integer, {}
        for name in graph.inputs:
            quant = graph.tensors[name].quant
            assert quant is not None
            whole[name] = np.clip(np.rint(values[name] / np.float32(quant.scale)) + quant.zero, -128, 127).astype(np.int8)
        results = reference.run(graph, whole)
        for name in graph.outputs:
            quant = graph.tensors[name].quant
            assert quant is not None
            values[name] = (results[name].astype(np.float32) - quant.zero) * np.float32(quant.scale)
    return values


def on_cpu(found: QuantisedModel) -> list[list[str]]:
    """The operators of each piece on the CPU, except those that round."""
    models = [piece.cpu for piece in found.pieces if piece.cpu is not None]
    return [[node.op_type for node in model.graph.node if "Linear" not in node.op_type] for model in models]


def _on_cpu(model: onnx.ModelProto, values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    feeds = {value.name: values[value.name] for value in model.graph.input}
    return dict(zip((value.name for value in model.graph.output), answers(model, feeds), strict=True))


def check_distances(found) -> None:
    """Checks: at most one unit apart, and 99.9 % equal, except for sums on a rounding tie (float32 falls to either side)."""
    assert found
    for one in found:
        place = f"{one.node.name} ({type(one.node.op).__name__})"
        assert one.greatest <= 1, f"{place} is {one.greatest} units from onnxruntime"
        assert one.equal >= 0.999 or one.off_tie == 0, f"{place}: {one.equal:.4%} equal, {one.off_tie} differ off a tie"


@pytest.mark.parametrize("name", FORMS)
def test_layers_are_at_most_a_unit_from_onnxruntime(name, tmp_path):
    model, feeds = made(tmp_path, name)
    found = distances(model, feeds)
    check_distances(found)
    assert {type(one.node.op) for one in found} >= {ir.Conv, ir.Depthwise, ir.AveragePool, ir.Concat, ir.Combine}


@pytest.mark.parametrize("name", ["qdq", "qlinear", "qlinear, uint8"])
def test_matmul_has_a_scale_for_each_column(name, tmp_path):
    """With more columns than rows, scales along the wrong axis would not even fit."""
    weights = {
        "w": np.random.default_rng(4).normal(size=(4, 6)).astype(np.float32) * 2.0 ** np.arange(6, dtype=np.float32),
        "v": (6, 3),
    }
    text = """g (float[N,4] x) => (float[N,3] y) {
        a = MatMul (x, w)
        b = Relu (a)
        y = MatMul (b, v)}"""
    model, feeds = made(tmp_path, name, text, weights)
    check_distances(distances(model, feeds))
    split = import_quantised(model)
    expected = answers(model, feeds)[0]
    assert np.abs(run_whole(split, feeds)["y"] - expected).max() < 0.03 * np.ptp(expected)


@pytest.mark.parametrize("name", FORMS)
def test_whole_network_answers_as_onnxruntime(name, tmp_path):
    """Rounding differs here and there, but probabilities that differ in the first digit would be another network's."""
    model, feeds = made(tmp_path, name)
    split = import_quantised(model)
    got, (expected,) = run_whole(split, feeds)["y"], answers(model, feeds)
    assert np.abs(got - expected).max() < 0.03
    assert on_cpu(split) == [["Reshape", "Softmax"]]
    assert sum(isinstance(node.op, ir.Conv) and len(node.inputs) == 2 for node in split.programs[0].nodes) == 1  # the residual add


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Makes a test for each model in the folder that onnxruntime quantised; without the folder one skipped test says why."""
    if "shared" not in metafunc.fixturenames:
        return
    folder: Path | None = metafunc.config.getoption("--models")
    if folder is None:
        reason = "no folder of trained models: pytest --models DIR (default: ../shared/models)"
        metafunc.parametrize("shared", [pytest.param(None, marks=pytest.mark.skip(reason=reason), id="none")])
        return
    paths = sorted(Path(folder).glob("*/model_ort_qdq_*.onnx"))
    slow = ("mobilenet_v2", "squeezenet", "ultraface")
    marks = [pytest.mark.slow if path.parent.name.startswith(slow) else () for path in paths]
    ids = [f"{path.parent.name}-{path.stem}" for path in paths]
    metafunc.parametrize("shared", [pytest.param(p, marks=m, id=i) for p, m, i in zip(paths, marks, ids, strict=True)])


def test_trained_layers_are_at_most_a_unit_from_onnxruntime(shared: Path) -> None:
    model = load_model(shared)
    (value,) = model.graph.input
    batch = value.type.tensor_type.shape.dim[0].dim_value or 2
    samples = trained.samples(trained.Trained(shared.parent, shared.name), "test", batch)
    check_distances(distances(model, {value.name: samples.x}))


def test_head_and_tail_go_to_the_cpu(tmp_path):
    """onnxruntime must run a sine in front and an arc tangent behind, and the accelerator all else."""
    text = """g (float[N,3,6,6] x) => (float[N,4,6,6] y, float[N,4,6,6] z) {
        a = Sin (x)
        b = Conv <pads=[1,1,1,1], kernel_shape=[3,3]> (a, w)
        y = Atan (b)
        z = Relu (b)}"""
    model, feeds = made(tmp_path, "qdq", text, {"w": (4, 3, 3, 3)})
    split = import_quantised(model)
    assert on_cpu(split) == [["Sin"], ["Atan"]]
    values = run_whole(split, feeds)
    for name, expected in zip("yz", answers(model, feeds), strict=True):
        assert np.abs(values[name] - expected).max() < 0.05


def test_an_operator_in_the_middle_goes_to_the_cpu(tmp_path):
    """The accelerator must work before and behind the operator, and no rounding of the model may be lost."""
    text = """g (float[N,3,6,6] x) => (float[N,4,6,6] y) {
        a = Conv <kernel_shape=[1,1]> (x, w)
        b = Sin (a)
        y = Conv <kernel_shape=[1,1]> (b, w2)}"""
    model, feeds = made(tmp_path, "qdq", text, {"w": (4, 3, 1, 1), "w2": (4, 4, 1, 1)})
    split, (expected,) = import_quantised(model), answers(model, feeds)
    assert len(split.programs) == 2
    assert on_cpu(split) == [["Sin"]]
    assert np.abs(run_whole(split, feeds)["y"] - expected).max() < 0.03 * np.ptp(expected)


def without_pair(model: onnx.ModelProto, tensor: str) -> onnx.ModelProto:
    """Removes Q and DQ of a tensor, so that its readers see the float."""
    quantise = next(node for node in model.graph.node if node.op_type == "QuantizeLinear" and node.input[0] == tensor)
    for dequantise in [node for node in model.graph.node if quantise.output[0] in node.input]:
        for node in model.graph.node:
            for number, name in enumerate(node.input):
                if name == dequantise.output[0]:
                    node.input[number] = tensor
        model.graph.node.remove(dequantise)
    model.graph.node.remove(quantise)
    return model


@pytest.mark.parametrize("tensor", ["e", "f", "m", "l"])
def test_missing_pairs_are_filled_in(tensor, tmp_path):
    """A missing pair must be filled in: between Conv and Add by the range that the add can use, elsewhere by the neighbour's."""
    model, feeds = made(tmp_path, "qdq")
    split = import_quantised(without_pair(model, tensor))
    assert np.abs(run_whole(split, feeds)["y"] - answers(model, feeds)[0]).max() < 0.03


def test_asymmetric_weights_run_on_the_cpu_with_the_reason(tmp_path):
    """Weights with a zero point other than 0 (128 in uint8) would need a sum over the inputs beside each product."""
    model, _ = made(tmp_path, "qdq, uint8 weights")
    for tensor in model.graph.initializer:
        if tensor.name == "w3_zero_point":
            tensor.CopyFrom(numpy_helper.from_array(np.array(0, np.uint8), tensor.name))
    found = import_quantised(model)
    (node,) = (node for node in found.whole.nodes if node.name == "Conv:e")
    assert re.search("reach from .* zero point 0", found.reasons[node.output])


def test_asymmetric_weights_on_the_cpu_stay_as_they_are(tmp_path):
    """Without their zero point such weights reach beyond int8; forced into int8 they would wrap round."""
    text = """g (float[N,3,6,6] x) => (float[N,4,6,6] y) {
        a = Conv <kernel_shape=[1,1]> (x, w1)
        b = Relu (a)
        c = Conv <kernel_shape=[1,1]> (b, w2)
        y = Conv <kernel_shape=[1,1]> (c, w3)}"""
    weights = {"w1": (4, 3, 1, 1), "w2": (4, 4, 1, 1), "w3": (4, 4, 1, 1)}
    model, feeds = made(tmp_path, "qdq", text, weights)
    for tensor in model.graph.initializer:
        if tensor.name in ("w1_zero_point", "w3_zero_point"):  # the first and the last layer, as head and tail
            tensor.CopyFrom(numpy_helper.from_array(np.full(4, 40, np.int8), tensor.name))
    split = import_quantised(model)
    assert [operators[:1] for operators in on_cpu(split)] == [["Conv"], ["Conv"]]
    values, (expected,) = run_whole(split, feeds), answers(model, feeds)
    assert np.abs(values["y"] - expected).max() < 0.05 * np.abs(expected).max()


def test_sums_beyond_int32_are_refused_by_name(tmp_path):
    model, _ = made(tmp_path, "qdq")
    for tensor in model.graph.initializer:
        if tensor.name == "b3_quantized":
            tensor.CopyFrom(numpy_helper.from_array(np.full(8, 2**31 - 1, np.int32), tensor.name))
    with pytest.raises(ModelError, match=r"'Conv:e' \(Conv\): its sums may reach .* beyond int32"):
        import_quantised(model)


@pytest.mark.parametrize("gains", [(0.5, 2, 1), (-0.5, 0, -2)])
def test_batch_norm_goes_into_int8_weights(gains):
    """A gain below 0 must turn the signs of a channel's weights, and one of 0 leave its bias; the weights must stay int8."""
    text = """g (float[N,3,4,4] x) => (float[N,3,4,4] y) {
        a = Conv (x, w)
        y = Mul (a, s)}"""
    weights = {"w": (3, 3, 1, 1), "s": np.array(gains, np.float32)[:, None, None]}
    model = with_pairs(written(text, weights), {"x": (1 / 32, 3), "y": (1 / 16, -5)}, {"w": 1 / 64})
    split, feeds = import_quantised(model), images(model)
    assert [type(node.op) for node in split.programs[0].nodes] == [ir.Conv]
    assert np.array_equal(run_whole(split, feeds)["y"], answers(model, feeds)[0])


def test_a_quantised_model_without_a_layer_for_the_accelerator_runs_on_the_cpu():
    """The user would be told to run `cnna quantize`, which says that the model is quantised already."""
    text = "g (uint8[N,3,4,4] x) => (uint8[N,3,4,4] y) { y = QLinearConv (x, xs, xz, w, ws, wz, ys, yz) }"
    one, zero = np.float32(0.5), np.array(3, np.uint8)
    weights = 30 * np.arange(9, dtype=np.uint8).reshape(3, 3, 1, 1)  # beyond int8 about their zero point
    model = written(text, {"xs": one, "xz": zero, "w": weights, "ws": one, "wz": zero, "ys": one, "yz": zero})
    found = import_quantised(model)
    assert not found.programs
    assert [piece.cpu is not None for piece in found.pieces] == [True]
