"""QLinear operators, written out as DQ, operator and Q, against onnxruntime's own."""

import numpy as np
import pytest

from cnna.compiler.frontend.onnx_export import to_model
from cnna.compiler.frontend.onnx_import import load_model, to_graph

from ...written import Shapes, answers, written

X = np.random.default_rng(3).normal(size=(2, 3, 4, 5)).astype(np.float32)
SCALES: Shapes = {"s": np.float32(0.03), "z": np.uint8(120), "t": np.float32(1 / 256), "o": np.uint8(0)}
STEP = 1 / 256


@pytest.mark.parametrize("opset", [11, 13])
@pytest.mark.parametrize("axis", ["", "axis=0, ", "axis=1, ", "axis=2, ", "axis=-1, ", "axis=-2, "])
def test_a_softmax_of_an_old_opset_is_over_all_axes_behind_its_own(opset: int, axis: str) -> None:
    """onnxruntime's quantiser keeps the meaning that Softmax had until opset 12 in an attribute; it was taken for one axis."""
    text = f"""g (float[N,3,4,5] x) => (float[N,3,4,5] y) {{
        a = QuantizeLinear (x, s, z)
        b = com.microsoft.QLinearSoftmax <{axis}opset={opset}> (a, s, z, t, o)
        y = DequantizeLinear (b, t, o)}}"""
    model = written(text, SCALES, opset=13)
    read = to_model(to_graph(load_model(model.SerializeToString())))
    x = X[:1] if opset == 11 else X  # until opset 12, `axis=0` mixed the samples
    (found,), (wanted,) = answers(read, {"x": x}), answers(model, {"x": x})
    assert found.shape == wanted.shape
    assert np.abs(found - wanted).max() <= STEP
    assert np.ptp(wanted) > 4 * STEP


@pytest.mark.parametrize("kind", [np.int8, np.uint8])
@pytest.mark.parametrize("operator", ["QLinearSigmoid", "QLinearLeakyRelu <alpha=0.25>"])
@pytest.mark.parametrize("inputs", ["b, s, , t", "b, s, z, t", "b, s, , t, z"])
def test_zero_points_that_are_left_out_are_zeros_of_the_input_s_type(kind: type, operator: str, inputs: str) -> None:
    """Such a model was refused for its few inputs, or its output of int8 became uint8."""
    text = f"""g (float[N,3,4,5] x) => (float[N,3,4,5] y) {{
        a = QuantizeLinear (x, s, z)
        b = Identity (a)
        c = com.microsoft.{operator} ({inputs})
        y = DequantizeLinear (c, t, z)}}"""
    model = written(text, {"s": np.float32(0.03), "t": np.float32(1 / 100), "z": kind(0)})
    node = model.graph.node[2]
    node.input.extend([""] * (5 - len(node.input)))  # onnxruntime wants the places of all five
    read = to_model(to_graph(load_model(model.SerializeToString())))
    (found,), (wanted,) = answers(read, {"x": X}), answers(model, {"x": X})
    assert np.abs(found - wanted).max() <= 1.01 / 100
    assert (found == wanted).mean() > 0.9
    assert np.ptp(wanted) > 0.3
