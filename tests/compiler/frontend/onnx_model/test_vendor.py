"""Operators of onnxruntime's domain, written out as ONNX's own, against onnxruntime."""

from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, helper
from onnxruntime.capi import onnxruntime_pybind11_state as onnxruntime_state

from cnna.compiler.compile import compile_model
from cnna.compiler.explain.explain import explain
from cnna.compiler.frontend.onnx_export import to_model
from cnna.compiler.frontend.onnx_import import load_model, to_graph
from cnna.compiler.frontend.onnx_model.vendor import MICROSOFT, OPERATORS
from cnna.compiler.quantise.quantise import quantise
from cnna.host.model.model import Model
from cnna.spec.config import preset
from cnna.spec.errors import ModelError
from cnna.spec.manifest import ACCELERATOR

from ...written import Shapes, answers, images, written

TINY, STEP = preset("tiny"), 0.05
RNG = np.random.default_rng(5)
Q: Shapes = {
    "s": np.float32(0.03),
    "z": np.uint8(120),
    "t": np.float32(STEP),
    "k": RNG.integers(-90, 90, (6, 3, 3, 3)).astype(np.int8),
    "ks": RNG.uniform(0.006, 0.012, 6).astype(np.float32),
    "kz": np.zeros(6, np.int8),
    "b": RNG.integers(-3000, 3000, 6).astype(np.int32),
    "g": RNG.integers(-90, 90, (6, 4)).astype(np.int8),
    "gs": np.float32(0.02),
    "gz": np.int8(0),
    "h": RNG.integers(-3000, 3000, 4).astype(np.int32),
}
F: Shapes = {"w": (6, 3, 3, 3), "v": (6,), "m": (6, 6), "n": (5, 6), "o": (5,), "r": (3, 6, 5, 7)}
IN, OUT, LAST = "a = QuantizeLinear (x, s, z)", "y = DequantizeLinear (e, t, z)", "e = Transpose <perm=[0,3,1,2]> (l)"
FRONT = f"{IN} f = Transpose <perm=[0,2,3,1]> (a)"
CONV = "com.microsoft.QLinearConv <channels_last=1, {}> (f, s, z, k, ks, kz, t, z, b)"
NHWC = {
    "conv": f"l = {CONV.format('strides=[2,1], pads=[1,0,0,1], dilations=[1,2]')}",
    "max pool": f"""c = {CONV.format("pads=[1,1,1,1]")}
        l = com.microsoft.NhwcMaxPool <kernel_shape=[3,2], strides=[2,1], pads=[1,0,1,1]> (c)""",
    "average": f"""c = {CONV.format("pads=[1,1,1,1]")}
        l = com.microsoft.QLinearAveragePool <channels_last=1, kernel_shape=[3,2], pads=[1,0,1,1]> (c, t, z, t, z)""",
    "global": f"c = {CONV.format('group=1')} l = com.microsoft.QLinearGlobalAveragePool <channels_last=1> (c, t, z, t, z)",
    "sum": f"""c = {CONV.format("group=1")} d = {CONV.format("strides=[1,1]")}
        l = com.microsoft.QLinearAdd (c, t, z, d, t, z, t, z)""",
    "channels": f"c = {CONV.format('group=1')} l = com.microsoft.QLinearConcat <axis=3> (t, z, c, t, z, c, t, z)",
}


def read(text: str, weights: Shapes) -> ModelProto:
    """The model of nodes that make `y` of `x`, with the weights that they name."""
    names = {word.strip("(),") for word in text.split()}
    model = written(f"g (float[N,3,7,9] x) => (float[N,?,?,?] y) {{ {text} }}", {k: v for k, v in weights.items() if k in names})
    model.graph.output[0].type.tensor_type.ClearField("shape")
    return model


@pytest.mark.parametrize("name", NHWC)
def test_channels_that_come_last(name: str) -> None:
    """onnxruntime's optimiser saves such models: read as maps whose channels come first, all of the answer was wrong."""
    model = read(f"{FRONT} {NHWC[name]} {LAST} {OUT}", Q)
    artifact, feeds = compile_model(load_model(model.SerializeToString()), TINY), images(model)
    assert [piece["kind"] for piece in artifact.manifest["pieces"]] == [ACCELERATOR]
    found, wanted = Model(artifact, "emulator").run(feeds)["y"], answers(model, feeds)[0]
    assert found.shape == wanted.shape
    steps = np.rint((found - wanted) / STEP)
    assert np.abs(steps).max() <= 1
    assert np.count_nonzero(steps) <= max(wanted.size // 10, 1)
    assert np.ptp(wanted) > 8 * STEP


GELU = "com.microsoft.{} (c)"
FUSED = {  # nodes that make y of c, a convolution's map [N, 6, 5, 7]
    "activation": 'y = com.microsoft.FusedConv <activation="{}", activation_params={}, pads=[1,0,0,1], strides=[1,2]> (x, w, v)',
    "residual": 'y = com.microsoft.FusedConv <activation="Relu"> (x, w, v, r)',
    "residual alone": "y = com.microsoft.FusedConv (x, w, v, r)",
    "gemm": "f = GlobalAveragePool (c) d = Flatten (f) "
    'y = com.microsoft.FusedGemm <alpha=0.5, beta=2.0, transB=1, activation="LeakyRelu", activation_alpha=0.3> (d, n, o)',
    "transposed b": "y = com.microsoft.FusedMatMul <alpha=0.5, transB=1> (c, c)",
    "transposed a": "y = com.microsoft.FusedMatMul <transA=1> (c, c)",
    "turned batch": "y = com.microsoft.FusedMatMul <transBatchA=1, transBatchB=1, transB=1> (c, c)",
    "gelu": "y = com.microsoft.Gelu (c)",
    "bias": "d = Transpose <perm=[0,2,3,1]> (c) y = com.microsoft.BiasGelu (d, v)",
    "fast": "y = com.microsoft.FastGelu (c)",
    "fast bias": "d = Transpose <perm=[0,2,3,1]> (c) y = com.microsoft.FastGelu (d, v)",
    "quick": "y = com.microsoft.QuickGelu <alpha=1.5> (c)",
    "quick default": "y = com.microsoft.QuickGelu (c)",
}
ACTIVATIONS = {"Relu": [], "Sigmoid": [], "Tanh": [], "LeakyRelu": [0.3], "Clip": [-0.5, 0.25], "HardSigmoid": [0.3, 0.4]}
PARAMETERS = [("activation", kind) for kind in ACTIVATIONS] + [(name, "") for name in FUSED if name != "activation"]


def fused(name: str, kind: str = "") -> ModelProto:
    text = FUSED[name].format(kind, ACTIVATIONS.get(kind)) if kind else FUSED[name]
    text = text.replace("activation_params=[], ", "")
    return read(f"c = Conv (x, w, v) {text}", F)


@pytest.mark.parametrize(("name", "kind"), PARAMETERS)
def test_fused_operators_are_written_out(name: str, kind: str) -> None:
    """A parameter, an operand or a default that was lost would make another network of it."""
    model = fused(name, kind)
    feeds, graph = images(model), to_graph(load_model(model.SerializeToString()))
    (found,), (wanted,) = answers(to_model(graph), feeds), answers(model, feeds)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    assert {getattr(node.op, "domain", None) for node in graph.nodes} == ({""} if name != "turned batch" else {"", MICROSOFT})


GEMMS = {
    "alpha": f"e = com.microsoft.QGemm <alpha=0.5, transB=0> (d, s, z, g, gs, gz, h, t, z) {OUT}",
    "real": "y = com.microsoft.QGemm <alpha=0.5> (d, s, z, g, gs, gz, h)",
    "no bias": f"e = com.microsoft.QGemm (d, s, z, g, gs, gz, , t, z) {OUT}",
}


@pytest.mark.parametrize("name", GEMMS)
def test_alpha_of_a_quantised_gemm_is_a_factor_of_its_bias_too(name: str) -> None:
    """onnxruntime adds the bias to the sum of whole numbers; left out of the bias, `alpha` would double it."""
    front = f"{IN} c = QLinearConv (a, s, z, k, ks, kz, s, z) f = DequantizeLinear (c, s, z) m = GlobalAveragePool (f)"
    model = read(f"{front} n = Flatten (m) d = QuantizeLinear (n, s, z) {GEMMS[name]}", Q)
    feeds = images(model)
    (found,), (wanted,) = answers(to_model(to_graph(load_model(model.SerializeToString()))), feeds), answers(model, feeds)
    assert np.abs(found - wanted).max() <= (1e-4 if name == "real" else STEP * 1.01)
    assert np.ptp(wanted) > 4 * STEP


@pytest.mark.parametrize("kind", [kind for domain, kind in OPERATORS if domain == MICROSOFT])
def test_the_table_knows_every_attribute_of_onnxruntime(kind: str) -> None:
    """What a new onnxruntime has and the table has not would be refused for no reason."""
    schema = next(one for one in onnxruntime_state.get_all_operator_schema() if (one.domain, one.name) == (MICROSOFT, kind))
    assert {*OPERATORS[MICROSOFT, kind].attributes} == {*schema.attributes}


STRANGE: dict[str, tuple[str, str, dict[str, Any], str]] = {
    "understood": ("y = com.microsoft.Gelu (c)", "Gelu", {"axis": 1}, "com.microsoft.Gelu has no attribute 'axis', nor any other"),
    "for the CPU": (
        "y = com.microsoft.Trilu (c)",
        "Trilu",
        {"lower": 1},
        "com.microsoft.Trilu has no attribute 'lower', only upper",
    ),
    "ONNX's own": ("y = Relu (c)", "Relu", {"max": 6.0}, "Relu has no attribute 'max', nor any other"),
    "hidden": ("y = Relu (c)", "Relu", {"__max": 6.0}, "Relu has no attribute '__max', nor any other"),
    "of another": (
        "y = MaxPool <kernel_shape=[2,2]> (c)",
        "MaxPool",
        {"channels_last": 1},
        "MaxPool has no attribute 'channels_last'",
    ),
    "another type": ("y = com.microsoft.QuickGelu (c)", "QuickGelu", {"alpha": 2}, "its attribute 'alpha' must be a number"),
}


@pytest.mark.parametrize("name", STRANGE)
def test_an_attribute_that_nobody_knows_is_refused(name: str) -> None:
    """It may ask for anything; ignored, the model would be another one."""
    text, kind, attributes, message = STRANGE[name]
    model = read(f"c = Conv (x, w, v) {text}", F)
    node = next(node for node in model.graph.node if node.op_type == kind)
    node.attribute.extend(helper.make_attribute(key, value) for key, value in attributes.items())
    with pytest.raises(ModelError, match=rf"node 'y' \({kind}\): {message}"):
        load_model(model.SerializeToString())


BEHIND = {
    "fused": 'f = com.microsoft.FusedConv <activation="Relu"> (x, w, v)',
    "stranger": "c = Conv (x, w, v) f = com.microsoft.Trilu (c)",
}


@pytest.mark.parametrize("name", BEHIND)
def test_layers_behind_a_vendor_operator_know_their_shapes(name: str) -> None:
    """Unknown shapes kept all behind it on the CPU, and the answers to several images came as y.0, y.1, ..."""
    model = load_model(read(f"{BEHIND[name]} y = Conv (f, last)", {**F, "last": (4, 6, 1, 1)}).SerializeToString())
    assert [row.side for row in explain(model, TINY).rows][-1] == ACCELERATOR
    feeds = images(model)
    artifact = compile_model(load_model(quantise(model, feeds)[0].SerializeToString()), TINY)
    found, wanted = Model(artifact, "emulator").run(feeds), answers(model, feeds)[0]
    assert [*found] == ["y"]
    assert np.abs(found["y"] - wanted).max() < 0.1 * np.ptp(wanted)


def test_quantise_and_compile_name_the_node_that_cannot_run() -> None:
    """One line for a whole piece does not say what to replace."""
    model = load_model(read("c = Conv (x, w, v) y = com.microsoft.Nothing (c)", F).SerializeToString())
    with pytest.raises(ModelError, match=r"^node 'Nothing:y' \(Nothing\): onnxruntime cannot run it: .*; replace it, or cut"):
        quantise(model, images(model))
    model = load_model(read(f"{IN} c = DequantizeLinear (a, s, z) y = com.microsoft.Nothing (c)", Q).SerializeToString())
    with pytest.raises(ModelError, match=r"node 'Nothing:y' \(Nothing\): onnxruntime cannot run it: .*; replace it, or cut"):
        compile_model(model, TINY)


def test_weights_laid_out_for_one_processor_are_named() -> None:
    """Saved at onnxruntime's highest level, a float model runs on the CPU alone: the level is what the user can change."""
    text = "c = Conv (x, w) d = com.microsoft.nchwc.ReorderInput (c) y = com.microsoft.nchwc.ReorderOutput <channels=8> (d)"
    model = read(text, {"w": (8, 3, 3, 3)})
    model.opset_import.append(helper.make_opsetid("com.microsoft.nchwc", 1))
    rows = explain(load_model(model.SerializeToString()), TINY).rows
    assert all("save the model at level ORT_ENABLE_EXTENDED at most" in (row.reason or "") for row in rows[1:])
