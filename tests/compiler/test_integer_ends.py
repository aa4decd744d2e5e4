"""Models that take or give int8 and uint8: their layers run on the accelerator, and the answers are onnxruntime's."""

import numpy as np
import pytest
from onnx import ModelProto, TensorProto

from cnna.compiler.compile import compile_model
from cnna.compiler.frontend.onnx_import import load_model
from cnna.compiler.quantise.quantise import quantise
from cnna.host.model.model import Model
from cnna.host.model.session import InferenceSession
from cnna.spec.artifact import Artifact
from cnna.spec.config import preset
from cnna.spec.manifest import ACCELERATOR, CPU

from .pairs import with_pairs
from .written import Shapes, answers, written

TINY = preset("tiny")
CONV = "Conv <pads=[1,1,1,1]>"
IN, OUT = {"y": (1 / 19.3, 3)}, {"x": (1 / 31.7, 3)}
U8, I8, F = "uint8[N,4,9,9]", "int8[N,4,9,9]", "float[N,4,9,9]"
MODELS = {  # inputs, outputs, nodes, tensors with pairs, pieces
    "uint8 in": (f"{U8} x", "float[N,6,9,9] y", f"d = DequantizeLinear (x, s, zu) y = {CONV} (d, w)", IN, [ACCELERATOR]),
    "int8 in": (f"{I8} x", "float[N,6,9,9] y", f"d = DequantizeLinear (x, s, z) y = {CONV} (d, w)", IN, [ACCELERATOR]),
    "uint8 about 0": (
        f"{U8} x", "float[N,6,9,9] y", f"d = DequantizeLinear (x, s) y = {CONV} (d, w)", {"y": (1 / 3.3, 3)}, [ACCELERATOR],
    ),
    "int8 out": (f"{F} x", "int8[N,6,9,9] y", f"a = {CONV} (x, w) y = QuantizeLinear (a, s, z)", OUT, [ACCELERATOR]),
    "uint8 out": (f"{F} x", "uint8[N,6,9,9] y", f"a = {CONV} (x, w) y = QuantizeLinear (a, s, zu)", OUT, [ACCELERATOR]),
    "uint8 out, about 0": (
        f"{F} x", "uint8[N,6,9,9] y", f"a = {CONV} (x, w) b = Relu (a) y = QuantizeLinear (b, s)", OUT, [ACCELERATOR],
    ),
    "in and out": (
        f"{U8} x", "uint8[N,6,9,9] y", f"d = DequantizeLinear (x, s, zu) a = {CONV} (d, w) y = QuantizeLinear (a, t, zu)", {},
        [ACCELERATOR],
    ),
    "out, and real too": (
        f"{F} x", "int8[N,6,9,9] y, float[N,6,9,9] r",
        f"a = {CONV} (x, w) y = QuantizeLinear (a, s, z) r = DequantizeLinear (y, s, z)", OUT, [ACCELERATOR],
    ),
    "out, and read on": (
        f"{F} x", "int8[N,6,9,9] y, float[N,6,9,9] r",
        f"a = {CONV} (x, w) y = QuantizeLinear (a, s, z) b = DequantizeLinear (y, s, z) r = Conv (b, v)",
        {**OUT, "r": (1 / 17.9, 0)}, [ACCELERATOR],
    ),
    "out at another scale": (
        f"{F} x", "int8[N,6,9,9] y, float[N,6,9,9] r", f"a = {CONV} (x, w) y = QuantizeLinear (a, s, z) r = Conv (a, v)",
        {**OUT, "a": (1 / 15.7, 1), "r": (1 / 17.9, 0)}, [ACCELERATOR],
    ),
    "in, read by the CPU too": (
        f"{U8} x", "float[N,6,9,9] y, float[N,4,9,9] r", f"d = DequantizeLinear (x, s, zu) y = {CONV} (d, w) r = Sin (d)", IN,
        [CPU, ACCELERATOR],
    ),
    "in, its integers read too": (
        f"{U8} x", "float[N,6,9,9] y, float[N,4,9,9] r", f"d = DequantizeLinear (x, s, zu) y = {CONV} (d, w) r = Cast <to=1> (x)",
        IN, [CPU, ACCELERATOR],
    ),
    "in, limited and pooled": (
        f"{U8} x", "float[N,6,8,8] y",
        f"c = Clip (x, , hu) p = MaxPool <kernel_shape=[2,2]> (c) d = DequantizeLinear (p, s, zu) y = {CONV} (d, w)",
        IN, [ACCELERATOR],
    ),
    "in, channels last": (
        "uint8[N,9,9,4] x", "float[N,6,9,9] y",
        f"n = Transpose <perm=[0,3,1,2]> (x) d = DequantizeLinear (n, s, zu) y = {CONV} (d, w)", IN, [CPU, ACCELERATOR],
    ),
    "in, a vector": (
        "uint8[N,36] x", "float[N,6] y", "d = DequantizeLinear (x, s, zu) y = Gemm <transB=1> (d, m)", IN, [CPU, ACCELERATOR, CPU],
    ),
    "out, a view": (
        f"{F} x", "int8[N,486] y", f"a = {CONV} (x, w) q = QuantizeLinear (a, s, z) y = Flatten (q)", OUT, [ACCELERATOR, CPU],
    ),
    "in and out, vectors": (
        "uint8[N,36] x", "uint8[N,6] y",
        "d = DequantizeLinear (x, s, zu) a = Gemm <transB=1> (d, m) y = QuantizeLinear (a, t, zu)", {}, [CPU, ACCELERATOR, CPU],
    ),
    "out, channels last": (
        f"{F} x", "uint8[N,9,9,6] y",
        f"a = {CONV} (x, w) b = Transpose <perm=[0,2,3,1]> (a) c = Relu (b) y = QuantizeLinear (c, s, zu)", OUT, [ACCELERATOR, CPU],
    ),
    "out, channels last, and real too": (
        f"{F} x", "int8[N,9,9,6] y, float[N,9,9,6] r",
        f"a = {CONV} (x, w) b = Transpose <perm=[0,2,3,1]> (a) y = QuantizeLinear (b, s, z) r = DequantizeLinear (y, s, z)",
        OUT, [ACCELERATOR, CPU],
    ),
    "out, a class": (
        f"{F} x", "int64[N,1,9,9] y", f"a = {CONV} (x, w) q = QuantizeLinear (a, s, z) y = ArgMax <axis=1> (q)",
        OUT, [ACCELERATOR, CPU],
    ),
    "out, of 7 bits": (
        f"{F} x", "int8[N,6,9,9] y", f"a = {CONV} (x, w) q = QuantizeLinear (a, s, z) y = Clip (q, lo, hi)", OUT, [ACCELERATOR],
    ),
}  # fmt: skip
CONSTANTS: Shapes = {
    "s": np.float32(0.031), "t": np.float32(0.047), "z": np.int8(-5), "zu": np.uint8(121), "hu": np.uint8(200), "lo": np.int8(-64),
    "hi": np.int8(63), "w": (6, 4, 3, 3), "v": (6, 6, 1, 1), "m": (6, 36),
}  # fmt: skip


def model_of(name: str) -> ModelProto:
    takes, gives, nodes, pairs, _ = MODELS[name]
    words = nodes.replace("(", " ").replace(")", " ").replace(",", " ").split()
    model = written(f"g ({takes}) => ({gives}) {{ {nodes} }}", {key: value for key, value in CONSTANTS.items() if key in words})
    return with_pairs(model, pairs, {key: 1 / 200 for key in ("w", "v", "m") if key in words})


def given(model: ModelProto, count: int = 3) -> np.ndarray:
    """Seeded values of the input's type over all its range."""
    kind = model.graph.input[0].type.tensor_type
    shape, rng = (count, *(dim.dim_value for dim in kind.shape.dim[1:])), np.random.default_rng(4)
    if kind.elem_type == TensorProto.FLOAT:
        return rng.normal(0, 1, shape).astype(np.float32)
    return rng.integers(0, 256, shape, np.uint8).view(np.uint8 if kind.elem_type == TensorProto.UINT8 else np.int8)


def check(model: ModelProto, artifact: Artifact, device: str) -> None:
    """AssertionError: an answer is another type or shape than onnxruntime's, or more than a unit away."""
    x = given(model)
    with Model(artifact, device, check=True) as opened:
        found = opened.run({"x": x})
    for value, wanted in zip(model.graph.output, answers(model, {"x": x}), strict=True):
        answer = found[value.name]
        assert (answer.dtype, answer.shape) == (wanted.dtype, wanted.shape)
        steps = np.abs(answer.astype(np.float64) - wanted) / np.diff(np.unique(wanted)).min()
        assert steps.max() < 1.5
        assert (steps < 0.5).mean() > 0.999


@pytest.mark.parametrize("name", MODELS)
def test_the_layers_run_on_the_accelerator(name):
    """A microcontroller's model takes and gives integers: all of it ran on the CPU. Taken for real numbers they would be others."""
    model = model_of(name)
    artifact = compile_model(load_model(model.SerializeToString()), TINY, batch=2)
    assert [piece["kind"] for piece in artifact.manifest["pieces"]] == MODELS[name][-1]
    assert artifact.manifest["cpu_macs"] == 0
    check(model, artifact, "emulator")


@pytest.mark.cosim
def test_integers_on_the_rtl():
    """The Verilog gets other bytes than the emulator if the host packs them in two ways."""
    model = model_of("in and out")
    check(model, compile_model(load_model(model.SerializeToString()), TINY), "rtl")


def test_a_session_takes_and_gives_integers():
    """It would refuse them, or want floats that nobody has."""
    model = model_of("in and out")
    with InferenceSession(compile_model(load_model(model.SerializeToString()), TINY)) as session:
        assert [session.get_inputs()[0].type, session.get_outputs()[0].type] == ["tensor(uint8)", "tensor(uint8)"]
        (found,) = session.run(None, {"x": given(model).astype(np.int64)})
    assert np.abs(found.astype(int) - answers(model, {"x": given(model)})[0]).max() <= 1


def test_a_float_model_that_takes_integers_is_quantised():
    """Its DequantizeLinear alone does not make it a quantised model."""
    text = f"g ({U8} x) => (float[N,6,9,9] y) {{ d = DequantizeLinear (x, s, zu) y = {CONV} (d, w) }}"
    model = written(text, {key: CONSTANTS[key] for key in ("s", "zu", "w")})
    quantised, _ = quantise(load_model(model.SerializeToString()), {"x": given(model, 8)})
    check(quantised, compile_model(quantised, TINY), "emulator")
