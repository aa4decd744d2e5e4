"""Operators that onnxruntime lacks, or computes otherwise than ONNX defines them: written in terms of others, or refused."""

import json

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

from cnna import backend
from cnna.cli.main import main
from cnna.compiler.frontend.onnx_import import to_graph
from cnna.spec.errors import ModelError

from ...written import written


def answered(text, feeds, opset=22):
    """By cnna with weights as constants, and by ONNX's reference evaluator."""
    model = written(text, None, opset)
    data = {value.name for value in model.graph.input}
    for name, value in feeds.items():
        if name not in data:
            model.graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
    given = {name: value for name, value in feeds.items() if name in data}
    return backend.run_model(model, given), ReferenceEvaluator(model).run(None, given)


def whole(shape, seed, kind=np.uint8):
    return np.random.default_rng(seed).integers(0, 200, shape).astype(kind)


@pytest.mark.parametrize("groups", [1, 2])
def test_weights_with_a_zero_point_for_each_channel(groups):
    """onnxruntime has no ConvInteger for them; without the sums under each channel every answer would be off."""
    text = f"""g (uint8[1,4,6,5] x) => (int32[1,4,?,?] y) {{
        y = ConvInteger <pads=[1,0,2,1], strides=[2,1], group={groups}> (x, w, a, b) }}"""
    feeds = {"x": whole((1, 4, 6, 5), 1), "w": whole((4, 4 // groups, 3, 2), 2), "a": np.uint8(7), "b": np.uint8([0, 9, 200, 255])}
    (found,), (wanted,) = answered(text, feeds)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("size", [(9, 7), (8, 6)])
def test_unpooling_to_a_size_of_its_own(size):
    """The indices count in the map of the pool's own size: in the greater one they point at other pixels."""
    text = """g (float[1,2,8,6] x) => (float[1,2,?,?] y) {
        p, i = MaxPool <kernel_shape=[2,2], strides=[2,2]> (x) t = Tanh (p)
        y = MaxUnpool <kernel_shape=[2,2], strides=[2,2]> (t, i, size) }"""
    x = np.random.default_rng(3).normal(0, 1, (1, 2, 8, 6)).astype(np.float32)
    (found,), (wanted,) = answered(text, {"x": x, "size": np.array([1, 2, *size])})
    np.testing.assert_allclose(found, wanted, atol=0.02)


@pytest.mark.parametrize("mask", ["", ", mask"])
def test_products_behind_the_mask_of_an_attention(mask):
    """onnxruntime has the least float32 there where ONNX has -inf: a Softmax of one's own behind it would see another number."""
    text = f"""g (float[1,2,4,8] q, float[1,2,4,8] k) => (float[1,2,4,8] y, float[1,2,4,4] products) {{
        y, past, present, products = Attention <is_causal=1, qk_matmul_output_mode=2> (q, k, k{mask}) }}"""
    rng = np.random.default_rng(4)
    feeds = {name: rng.normal(0, 1, (1, 2, 4, 8)).astype(np.float32) for name in "qk"}
    text = text.replace("y, past, present,", 'y, "", "",')
    (_, found), (_, wanted) = answered(text, feeds | {"mask": rng.normal(0, 1, (4, 4)).astype(np.float32)}, 23)
    assert np.isneginf(wanted).sum() == 12
    np.testing.assert_allclose(found, wanted, atol=0.05)


def test_operators_that_onnxruntime_does_not_know():
    """It refuses the whole model for its opset, though ONNX says in older operators what the new one computes."""
    text = """g (float[1,2,9] x) => (float[1,2,9] y, float[1,2,3] state) {
        r = Relu (x) y, state = CausalConvWithState <activation="silu"> (r, w, "", past) }"""
    rng = np.random.default_rng(5)
    feeds = {"x": (1, 2, 9), "w": (2, 1, 4), "past": (1, 2, 3)}
    feeds = {name: rng.normal(0, 1, shape).astype(np.float32) for name, shape in feeds.items()}
    for found, wanted in zip(*answered(text, feeds, 27), strict=True):
        np.testing.assert_allclose(found, wanted, atol=0.05)
    graph = to_graph(written(text, {name: value for name, value in feeds.items() if name != "x"}, 27))
    assert graph.opset < 27
    assert all(node.name.startswith("CausalConvWithState:y:") for node in graph.nodes if node.op.kind != "Relu")


CORNERS = 'coordinate_transformation_mode="align_corners"'
REFUSED = {
    "y = Dropout (x, half, yes)": r"node 'Dropout:y' \(Dropout\): it drops values at random .* with training_mode false",
    "t, mask = Dropout (x, half, yes) y = Where (mask, x, t)": r"\(Dropout\): it drops values at random",
    f'y = Resize <mode="linear", {CORNERS}> (x, "", scales)': (
        r"\(Resize\): with align_corners and scales it would have 2.4 pixels along axis 2, .* give it `sizes`"
    ),
    f'y = Resize <mode="nearest", {CORNERS}> (x, "", scales)': r"\(Resize\): with align_corners",
}
CONSTANTS = {"half": np.float32(0.5), "yes": np.array(True), "scales": np.array([1, 1, 0.6, 2], np.float32)}


@pytest.mark.parametrize("nodes", REFUSED)
def test_a_form_without_a_right_answer_is_refused(nodes, tmp_path, capsys):
    """It ran, and the answer was not what ONNX defines; or a Dropout that trains was taken for one that does nothing."""
    used = {name: value for name, value in CONSTANTS.items() if name in nodes}
    model = written(f"g (float[1,3,4,4] x) => (float[1,3,?,?] y) {{ {nodes} }}", used)
    with pytest.raises(ModelError, match=REFUSED[nodes]):
        backend.run_model(model, [np.ones((1, 3, 4, 4), np.float32)])
    onnx.save(model, tmp_path / "m.onnx")
    assert main(["explain", str(tmp_path / "m.onnx"), "--config", "tiny", "--json", str(tmp_path / "rows.json")]) == 2
    sides = [row["side"] for row in json.loads((tmp_path / "rows.json").read_text())["nodes"]]
    assert sides[0] == "refused", capsys.readouterr()


FINE = {
    "y = Dropout (x, nought, yes)": {"nought": np.float32(0)},
    "y = Dropout (x, half)": {},
    f'y = Resize <mode="linear", {CORNERS}> (x, "", scales)': {"scales": np.array([1, 1, 0.5, 2], np.float32)},
}


@pytest.mark.parametrize("nodes", FINE)
def test_forms_beside_those_run(nodes):
    """Refused without need: nothing is dropped, or the corners are where all put them."""
    text = f"g (float[1,3,4,4] x) => (float[1,3,?,?] y) {{ {nodes} }}"
    x = np.random.default_rng(6).normal(0, 1, (1, 3, 4, 4)).astype(np.float32)
    (found,), (wanted,) = answered(text, {"x": x} | CONSTANTS | FINE[nodes])
    np.testing.assert_allclose(found, wanted, atol=0.02)
