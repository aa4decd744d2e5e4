"""Weights that exporters write otherwise than as one DequantizeLinear in front of the layer: they run in int8 all the same."""

import numpy as np
import pytest

from cnna.compiler.compile import compile_model
from cnna.compiler.explain.explain import explain
from cnna.compiler.explain.rows import CONSTANT
from cnna.compiler.frontend.onnx_import import load_model
from cnna.compiler.passes.fold_constants import fold_constants
from cnna.compiler.passes.rounding.dequantise_constants import dequantise_constants
from cnna.host.model.model import Model
from cnna.spec.config import preset
from cnna.spec.manifest import ACCELERATOR

from .one_piece import compiled_whole
from .pairs import with_pairs
from .passes.alone import after, ints, kinds, untyped
from .written import answers, images, written

TINY = preset("tiny")
RNG = np.random.default_rng(5)
WHOLE = RNG.integers(-127, 128, (8, 3, 3, 3), np.int8)
EACH = RNG.uniform(0.002, 0.02, 8).astype(np.float32)
REAL = RNG.normal(0, 0.2, WHOLE.shape).astype(np.float32)
DQ = "DequantizeLinear <axis={axis}> ({q}, s)"
CONV = "Conv <pads=[1,1,1,1]> (x, w)"
SPELLINGS = {  # how w is made of the constants
    "transposed": (f"d = {DQ.format(axis=3, q='q')} w = Transpose <perm=[3,2,0,1]> (d)", {"q": WHOLE.transpose(2, 3, 1, 0)}),
    "reshaped": (f"d = {DQ.format(axis=0, q='q')} w = Reshape (d, n)", {"q": WHOLE.reshape(8, 27), "n": ints(8, 3, 3, 3)}),
    "squeezed": (f"d = {DQ.format(axis=1, q='q')} w = Squeeze (d, n)", {"q": WHOLE[None], "n": ints(0)}),
    "unsqueezed": (f"d = {DQ.format(axis=0, q='q')} w = Unsqueeze (d, n)", {"q": WHOLE[:, :, 0, 0], "n": ints(2, -1)}),
    "flattened and reshaped": (
        f"d = {DQ.format(axis=0, q='q')} f = Flatten (d) w = Reshape (f, n)",
        {"q": WHOLE, "n": ints(8, -1, 3, 3)},
    ),
    "concatenated": (
        f"d = {DQ.format(axis=0, q='q')} e = DequantizeLinear (r, t) w = Concat <axis=0> (d, e)",
        {"q": WHOLE, "r": WHOLE[:4], "t": np.float32(0.013)},
    ),
    "sliced": (
        "d = DequantizeLinear <axis=0> (q, s) w = Slice (d, a, b, n)",
        {"q": np.concatenate([WHOLE, WHOLE[:4]]), "s": np.resize(EACH, 12), "a": ints(2), "b": ints(10), "n": ints(0)},
    ),
    "flipped": (
        f"d = {DQ.format(axis=0, q='q')} w = Slice (d, a, b, n, t)",
        {"q": WHOLE, "a": ints(7), "b": ints(-9), "n": ints(0), "t": ints(-1)},
    ),
    "split": (
        "d = DequantizeLinear <axis=0> (q, s) v, w = Split <axis=0> (d, n)",
        {"q": np.concatenate([WHOLE[:3], WHOLE]), "s": np.resize(EACH, 11), "n": ints(3, 8)},
    ),
    "chosen": (f"d = {DQ.format(axis=0, q='q')} w = Gather <axis=0> (d, n)", {"q": WHOLE, "n": ints(7, 0, 3, 3, 5)}),
    "padded": (
        f"d = {DQ.format(axis=0, q='q')} w = Pad (d, n)",
        {"q": WHOLE[:, :, :1, :1], "n": ints(0, 0, 1, 1, 0, 0, 1, 1)},
    ),
    "expanded": (f"d = {DQ.format(axis=0, q='q')} w = Expand (d, n)", {"q": WHOLE[:, :, :1, :1], "n": ints(1, 1, 3, 3)}),
    "cast": (f"d = {DQ.format(axis=0, q='q')} c = Cast <to=1> (d) w = Identity (c)", {"q": WHOLE}),
    "rounded, then transposed": (
        "i = QuantizeLinear <axis=1> (f, s, z) d = DequantizeLinear <axis=1> (i, s, z) w = Transpose <perm=[1,0,2,3]> (d)",
        {"f": REAL.transpose(1, 0, 2, 3), "z": np.zeros(8, np.int8)},
    ),
    "of 4 bits": (
        "c = Clip (q, low, high) d = DequantizeLinear <axis=0> (c, s) w = Identity (d)",
        {"q": WHOLE, "low": np.int8(-7), "high": np.int8(7)},
    ),
    "rounded to 4 bits": (
        "i = QuantizeLinear <axis=0> (f, s, z) c = Clip (i, low, high) w = DequantizeLinear <axis=0> (c, s, z)",
        {"f": REAL, "s": EACH * 4, "z": np.zeros(8, np.int8), "low": np.int8(-8), "high": np.int8(7)},
    ),
    "of 2 bits by Max and Min": (
        "i = QuantizeLinear <axis=0> (f, s, z) a = Max (i, low) c = Min (a, high) w = DequantizeLinear <axis=0> (c, s, z)",
        {"f": REAL, "s": EACH * 20, "z": np.zeros(8, np.int8), "low": np.int8(-2), "high": np.int8(1)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SPELLINGS)
def test_a_layer_runs_in_int8_whatever_its_weights_went_through(name):
    """The layer would run on the CPU, where its weights' first axis would be taken for the batch; or in other integers."""
    spelling, constants = SPELLINGS[name]
    text = f"g (float[N,3,10,10] x) => (float[N,?,?,?] y) {{ {spelling} y = {CONV} }}"
    model = with_pairs(written(text, {"s": EACH, **constants}), {"x": (1 / 40, 3), "y": (1 / 9, -5)})
    feeds = images(model, 4)
    compiled_whole(model, feeds, TINY, 1.5, 0.999)
    assert {row.side for row in explain(load_model(model.SerializeToString()), TINY).rows} == {ACCELERATOR, CONSTANT}


PRODUCTS = {
    "MatMul": ("t = Transpose <perm=[1,0]> (d) m = MatMul (f, t) y = Add (m, b)", 0),
    "Gemm": ("t = Transpose <perm=[1,0]> (d) y = Gemm (f, t, b)", 0),
    "Gemm, transposed twice": ("t = Transpose <perm=[1,0]> (d) y = Gemm <transB=1> (f, t, b)", 1),
}


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("opset", [13, 17, 21])
def test_a_product_with_transposed_weights(name, opset):
    """PyTorch stores [outputs, inputs], and its exporters transpose behind the DequantizeLinear."""
    text, axis = PRODUCTS[name]
    whole = RNG.integers(-127, 128, (6, 48), np.int8)
    constants = {"q": whole if axis == 0 else whole.T, "s": np.resize(EACH, 6) / 3, "b": RNG.normal(size=6).astype(np.float32)}
    text = f"g (float[N,3,4,4] x) => (float[N,6] y) {{ f = Flatten (x) d = DequantizeLinear <axis={axis}> (q, s) {text} }}"
    model = with_pairs(written(text, constants, opset), {"x": (1 / 40, 3), "y": (1 / 9, -5)})
    feeds = images(model, 16)
    artifact = compile_model(load_model(model.SerializeToString()), TINY)
    assert artifact.manifest["cpu_macs"] == 0
    with Model(artifact, "emulator", check=True) as opened:
        found = opened.run(feeds)["y"]
    steps = np.rint((found - answers(model, feeds)[0]) * 9)
    assert np.abs(steps).max() <= 1
    assert (steps == 0).mean() > 0.98


@pytest.mark.parametrize("axis", [0, 1])
def test_scales_that_differ_within_an_output_channel_run_on_the_cpu(axis):
    """One sum cannot have two scales. The model is sound, so it is not refused: the CPU computes the layer."""
    text = f"""g (float[N,6,8,8] x) => (float[N,?,8,8] y) {{
        d = DequantizeLinear (q, s) e = DequantizeLinear (q, t) w = Concat <axis={axis}> (d, e)
        y = Conv <pads=[1,1,1,1], group={1 if axis else 2}> (x, w) }}"""
    constants = {"q": WHOLE, "s": np.float32(0.01), "t": np.float32(0.02)}
    model = with_pairs(written(text, constants), {"x": (1 / 40, 3), "y": (1 / 9, -5)})
    feeds = images(model, 2)
    if axis == 0:
        compiled_whole(model, feeds, TINY, 1.5, 0.999)
        return
    artifact = compile_model(load_model(model.SerializeToString()), TINY)
    with Model(artifact, "emulator", check=True) as opened:
        assert np.abs(opened.run(feeds)["y"] - answers(model, feeds)[0]).max() < 1.5 / 9
    reasons = [row.reason or "" for row in explain(load_model(model.SerializeToString()), TINY).rows]
    assert any("one scale for each output channel" in reason for reason in reasons)


ON_THE_CPU = {  # operators that the accelerator lacks, with weights of int8
    "Conv in three dimensions": ("y = Conv (x, w)", (7, 2, 3, 3, 3)),
    "ConvTranspose in three dimensions": ("y = ConvTranspose (x, w)", (2, 7, 2, 2, 2)),
    "Einsum": ('y = Einsum <equation = "nchwd,kc->nkhwd"> (x, w)', (7, 2)),
    "MatMul of many matrices": ("y = MatMul (x, w)", (5, 4, 4)),
}


@pytest.mark.parametrize("name", ON_THE_CPU)
@pytest.mark.parametrize("samples", [1, 3])
def test_weights_of_int8_stay_constants_of_a_piece_on_the_cpu(name, samples):
    """They would be an input of the piece, whose first axis is a batch, and the model would be refused for its shape."""
    node, shape = ON_THE_CPU[name]
    text = f"g (float[N,2,5,4,4] x) => (float[N,?,?,?,?] y) {{ w = DequantizeLinear (q, s) {node} }}"
    constants = {"q": RNG.integers(-127, 128, shape, np.int8), "s": np.float32(0.01)}
    model = with_pairs(written(text, constants), {"x": (1 / 40, 3), "y": (1 / 9, -5)})
    feeds = images(model, samples)
    artifact = compile_model(load_model(model.SerializeToString()), TINY)
    with Model(artifact, "emulator", check=True) as opened:
        assert np.abs(opened.run(feeds)["y"] - answers(model, feeds)[0]).max() < 0.1 / 9


def test_a_bias_keeps_its_bits_behind_a_reshape():
    """A float32 has 24 of the 32 bits that a bias has."""
    text = "g (float[N,2] x) => (float[N,2] y) { b = DequantizeLinear (p, t) c = Reshape (b, n) y = Add (x, c) }"
    graph = untyped(text, {"p": np.array([[2**30 + 1], [-7]], np.int32), "t": np.float32(0.5), "n": ints(-1)})
    assert (dequantise_constants(graph).constants["c"] * 2).tolist() == [2**30 + 1, -7]


def test_what_computes_with_dequantised_constants_is_computed():
    """A shape or a norm of the weights would be a node that depends on no sample, whose first axis is no batch."""
    text = """g (float[N,2] x) => (float[N,2] y) {
        b = DequantizeLinear (p, t) c = Abs (b) d = Shape (c) e = ReduceSum <keepdims=0> (c) f = Expand (e, d) y = Mul (x, f) }"""
    graph = untyped(text, {"p": np.array([3, -7], np.int8), "t": np.float32(0.5)})
    assert kinds(after(dequantise_constants, graph)) == ["Mul"]


def test_a_split_of_constants_is_computed():
    """One matrix for three products, as attention has it, would be cut on the CPU, for each sample anew."""
    text = "g (float[N,2] x) => (float[N,2] y) { a, b = Split (w) c = Mul (x, a) y = Add (c, b) }"
    assert kinds(after(fold_constants, untyped(text, {"w": (4,)}, 17))) == ["Mul", "Add"]
