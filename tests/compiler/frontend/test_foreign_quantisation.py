"""What `cnna quantize` and `cnna compile` do with models that are quantised in another way, and say of each other's files."""

import numpy as np
import onnxruntime as ort
import pytest
from onnxruntime.quantization import QuantFormat, QuantType, quantize_dynamic

from cnna import backend
from cnna.cli.main import main
from cnna.compiler.compile import compile_model
from cnna.compiler.explain.explain import explain
from cnna.compiler.explain.rows import CONSTANT
from cnna.compiler.frontend.onnx_import import load_model
from cnna.compiler.frontend.pieces.support import WHOLE_NUMBERS
from cnna.compiler.frontend.quantised_import import import_quantised
from cnna.compiler.quantise.quantise import quantise
from cnna.host.model.model import Model
from cnna.spec.config import PRESETS
from cnna.spec.errors import ModelError
from cnna.spec.manifest import CPU

from ..distance import quantised_by_onnxruntime
from ..written import answers, images, written
from .test_quantised_import import run_whole

TEXT = """g (float[N,3,8,8] x) => (float[N,5] y) {
    a = Conv (x, w) b = Relu (a) c = GlobalAveragePool (b) d = Flatten (c) y = Gemm <transB=1> (d, v) }"""
WEIGHTS = {"w": (4, 3, 3, 3), "v": (5, 4)}


def dynamic(tmp_path):
    source, target = tmp_path / "float.onnx", tmp_path / "dynamic.onnx"
    source.write_bytes(written(TEXT, WEIGHTS).SerializeToString())
    quantize_dynamic(source, target)
    return load_model(target)


def sixteen_bit(tmp_path):
    model = written(TEXT, WEIGHTS)
    return quantised_by_onnxruntime(model, images(model), tmp_path, activation=QuantType.QInt16)


@pytest.mark.parametrize(("make", "how"), [(dynamic, "its scales are computed"), (sixteen_bit, "it is quantised as int16")])
def test_quantised_in_another_way(make, how, tmp_path):
    """The CPU can run it; and who wants it on the accelerator must be told the cause and to bring the float model."""
    model = make(tmp_path)
    with pytest.raises(ModelError, match=rf"node '.+' \(.+\): {how}.*; .* give `cnna quantize` the float model that this one was"):
        quantise(model, images(model))
    artifact = compile_model(model, PRESETS["tiny"])
    assert [entry["kind"] for entry in artifact.manifest["pieces"]] == [CPU]
    assert artifact.manifest["cpu_macs"] >= 4 * 3 * 9 * 36 + 20
    feeds = images(model)
    singles = [answers(model, {"x": x[None]})[0] for x in feeds["x"]]  # a scale that is computed is each sample's own
    np.testing.assert_array_equal(Model(artifact, "emulator").run(feeds)["y"], np.concatenate(singles))
    row = next(row for row in explain(model, PRESETS["tiny"]).rows if row.reason and how in row.reason)
    assert row.side == CPU


def optimised(tmp_path):
    """A model that was quantised for its run, and then saved by onnxruntime's optimiser, which makes operators of its own of it."""
    dynamic(tmp_path)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath, options.log_severity_level = str(tmp_path / "optimised.onnx"), 3
    ort.InferenceSession(tmp_path / "dynamic.onnx", options, providers=["CPUExecutionProvider"])
    return load_model(tmp_path / "optimised.onnx")


@pytest.mark.parametrize("make", [dynamic, optimised])
def test_every_node_says_that_the_model_is_quantised_while_it_runs(make, tmp_path):
    """Relu had "no QuantizeLinear of its own", and the scales' product an unknown shape: neither can be changed in such a model."""
    model, remedy = make(tmp_path), "give `cnna quantize` the float model"
    rows = explain(model, PRESETS["tiny"]).rows
    assert {row.side for row in rows} <= {CPU, CONSTANT}
    assert all(
        remedy in f"{row.reason} {row.rewrite}" for row in rows if row.op in ("Relu", "Mul", "GlobalAveragePool", *WHOLE_NUMBERS)
    )
    with pytest.raises(ModelError, match=rf"nothing in it runs on the accelerator; node .* \(DynamicQuantizeLinear\): .*{remedy}"):
        compile_model(model, PRESETS["tiny"], cpu=False)


def test_compile_says_what_to_do_with_such_a_model(tmp_path, capsys):
    """ "cnna explain says why" sends the user to another command for a line that fits here."""
    dynamic(tmp_path)
    target = str(tmp_path / "m.cnna")
    assert main(["compile", str(tmp_path / "dynamic.onnx"), "--config", "tiny", "-o", target]) == 0
    assert "it is quantised while it runs (DynamicQuantizeLinear, " in capsys.readouterr().err


@pytest.mark.parametrize("batch", ["N", 2])
def test_a_scale_for_all_samples_of_a_model(batch):
    """A model for two samples takes one scale for both: run one by one, they would have two. A free batch is of such as come."""
    text = f"""g (float[{batch},3] x) => (float[{batch},3] y) {{
        q, s, z = DynamicQuantizeLinear (x) y = DequantizeLinear (q, s, z) }}"""
    model = load_model(written(text).SerializeToString())
    x = np.float32([[1, 2, 3], [-10, 3, 7]])
    found = backend.prepare(model).run({"x": x})[0]
    wanted = answers(model, {"x": x})[0] if batch == 2 else np.concatenate([answers(model, {"x": one[None]})[0] for one in x])
    np.testing.assert_array_equal(found, wanted)


def test_ranges_that_cannot_be_compiled():
    """`quantise` would write a file that `compile` refuses, although it has seen the ranges."""
    text = "g (float[N,3,1,1] x) => (float[N,1,1,1] y) { h = Conv (x, one) y = Conv (h, w) }"
    weights = {"one": np.ones((2, 3, 1, 1), np.float32), "w": np.float32([1e12, -1e12]).reshape(1, 2, 1, 1)}
    model = written(text, weights)
    with pytest.raises(ModelError, match=r"node 'Conv:y' \(Conv\): a scale ratio of .* is above the greatest multiplier"):
        quantise(model, images(model))


def test_a_node_is_called_as_in_the_float_model(monkeypatch):
    """The line would name a node that `quantise` has made, and that the user's float model does not have."""
    text = "g (float[N,3] x) => (float[N,5] y) { a = Relu (x) y = Gemm <transB=1> (a, v) }"
    model = written(text, {"v": (5, 3)})
    model.graph.node[1].name = "classifier"

    def refuse(*arguments):
        raise ValueError("its sums are too great")

    monkeypatch.setattr("cnna.compiler.frontend.integer.arith.multipliers", refuse)
    with pytest.raises(ModelError, match=r"^node 'classifier' \(Gemm\): its sums are too great$"):
        quantise(model, images(model))


@pytest.mark.parametrize("form", [QuantFormat.QDQ, QuantFormat.QOperator])
@pytest.mark.parametrize("activation", [QuantType.QInt8, QuantType.QUInt8])
def test_pad_between_quantised_convolutions(form, activation, tmp_path):
    """onnxruntime pads integers with 0, which stands for the zero point. Taken as the number 0 it would be another border."""
    text = """g (float[N,3,8,8] x) => (float[N,6,?,?] y) {
        a = Conv (x, w) b = Relu (a) c = Pad (b, pads) y = Conv (c, v) }"""
    model = written(text, {"w": (4, 3, 3, 3), "v": (6, 4, 3, 3), "pads": np.array([0, 0, 1, 1, 0, 0, 1, 1])})
    quantised = quantised_by_onnxruntime(model, images(model, 8), tmp_path, form, activation)
    split = import_quantised(quantised)
    assert len(split.pieces) == 1
    assert (1, 1, 1, 1) in [node.op.window.pads for node in split.programs[0].nodes]
    feeds = images(model)
    (expected,) = answers(quantised, feeds)
    assert np.abs(run_whole(split, feeds)["y"] - expected).max() < 0.03 * np.ptp(expected)


def test_both_parts_of_a_split_are_quantised():
    """Without Q and DQ of its own, the second output of a head's node would give a file that `compile` refuses."""
    text = (
        "g (float[N,4,8,8] x) => (float[N,4,?,?] y) { a, b = Split <axis=1> (x, parts) c = Concat <axis=1> (b, a) y = Conv (c, w) }"
    )
    model = written(text, {"parts": np.array([1, 3]), "w": (4, 4, 1, 1)})
    feeds = images(model, 8)
    split = import_quantised(load_model(quantise(model, feeds)[0].SerializeToString()))
    (expected,) = answers(model, feeds)
    assert np.abs(run_whole(split, feeds)["y"] - expected).max() < 0.05 * np.ptp(expected)
