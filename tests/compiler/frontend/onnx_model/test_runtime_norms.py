"""Normalisations as onnxruntime's optimiser saves them, against onnxruntime itself."""

import numpy as np
import onnx
import onnxruntime as ort
import pytest

from cnna.compiler.frontend.onnx_export import to_model
from cnna.compiler.frontend.onnx_import import load_model, to_graph

from ...written import answers, images, written

SQUARED = "v = Mul (c, c) m = ReduceMean <axes=[-1]> (v) e = Add (m, eps) d = Sqrt (e) n = Div (c, d)"
SPELT = {
    "LayerNormalization": f"u = ReduceMean <axes=[-1]> (x) c = Sub (x, u) {SQUARED} s = Mul (n, scale) y = Add (s, bias)",
    "SimplifiedLayerNormalization": f"c = Identity (x) {SQUARED} y = Mul (n, scale)",
}
CONSTANTS = {"eps": np.float32(1e-5), "scale": (8,), "bias": (8,)}


@pytest.mark.parametrize("opset", [11, 13, 17])
@pytest.mark.parametrize("kind", SPELT)
def test_a_normalisation_that_onnxruntime_has_fused_is_read(kind, opset, tmp_path):
    """ONNX knows no such operator there, so a model that onnxruntime has optimised and runs was refused."""
    text = f"g (float[N,5,8] x) => (float[N,5,8] y) {{ {SPELT[kind].replace('Mul (c, c)', 'Pow (c, two)')} }}"
    named = {name: value for name, value in {**CONSTANTS, "two": np.float32(2)}.items() if name in text}
    model = written(text, named, opset)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(tmp_path / "fused.onnx")
    ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    fused = onnx.load(tmp_path / "fused.onnx")
    assert kind in {node.op_type for node in fused.graph.node}
    read = to_model(to_graph(load_model(fused.SerializeToString())))
    feeds = images(model)
    np.testing.assert_allclose(answers(read, feeds)[0], answers(model, feeds)[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("axis", "shape"), [(-2, (5, 8)), (1, (5, 8)), (2, (8,)), (-1, (8,))])
@pytest.mark.parametrize("opset", [13, 16])
def test_axes_and_more_outputs(axis, shape, opset):
    """It would be another mean than that over all axes from `axis` on, and its other outputs would be lost."""
    node = f"y, u, r = LayerNormalization <axis={axis}, epsilon=0.01> (x, scale, bias)"
    text = f"g (float[N,5,8] x) => (float[N,5,8] y, float[N,a,b] u, float[N,a,b] r) {{ {node} }}"
    model = written(text, {"scale": shape, "bias": shape}, opset)
    read = to_model(to_graph(load_model(model.SerializeToString())))
    for found, wanted in zip(answers(read, images(model)), answers(model, images(model)), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
