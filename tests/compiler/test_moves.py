"""Layers that consist of copies and other layers, from ONNX to the emulator, compared with onnxruntime on the quantised model.

Layers that only move values must be equal to the bit.
"""

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

from cnna.compiler.compile import compile_model
from cnna.compiler.quantise.quantise import quantise
from cnna.host.model.model import Model
from cnna.spec.config import preset
from cnna.spec.manifest import ACCELERATOR

from .passes.alone import ints
from .written import answers, images, written

UP = np.array([1, 1, 2, 2], np.float32)
LAYERS = {
    "neck": ("u = Resize (a, , up) v = Conv (e, w8) b = Concat <axis=1> (u, v)", {"up": UP, "w8": (8, 8, 1, 1)}),
    "uneven": ('b = Resize <nearest_mode="floor"> (a, , up)', {"up": np.array([1, 1, 3, 1.5], np.float32)}),
    "c2f": (
        "c, d = Split <axis=1> (a, parts) f = Conv (d, w8) b = Concat <axis=1> (c, d, f)",
        {"parts": ints(8, 8), "w8": (8, 8, 1, 1)},
    ),
    "split off blocks": ("c, d = Split <axis=1> (a, parts) b = Concat <axis=1> (d, c)", {"parts": ints(5, 11)}),
    "transposed": ("b = ConvTranspose <strides=[2, 2], pads=[1, 1, 1, 1]> (a, v)", {"v": (16, 6, 4, 4)}),
    "transposed, cut off": ("b = ConvTranspose <strides=[2, 2], pads=[0, 1, 1, 0]> (a, v, o)", {"v": (16, 11, 3, 3), "o": (11,)}),
    "transposed, by channel": ("b = ConvTranspose <strides=[2, 2], group=16> (a, v)", {"v": (16, 1, 2, 2)}),
    "pixel shuffle": ('c = Conv (a, v) b = DepthToSpace <blocksize=3, mode="CRD"> (c)', {"v": (27, 16, 1, 1)}),
    "depth to space": ("b = DepthToSpace <blocksize=2> (a)", {}),
    "difference": ("c = Conv (a, v) b = Sub (a, c)", {"v": (16, 16, 1, 1)}),
    "leaky": ("b = LeakyRelu <alpha=0.1> (a)", {}),
    "slopes": (
        "c = PRelu (a, p) b = Conv (c, v)",
        {"p": np.linspace(0, 1, 16, dtype=np.float32)[:, None, None], "v": (9, 16, 1, 1)},
    ),
    "tokens": (
        "c = Transpose <perm=[0,2,3,1]> (a) d = MatMul (c, m) b = Transpose <perm=[0,3,1,2]> (d)",
        {"m": (16, 5)},
    ),
    "focus": (
        "c = Slice (a, s0, n, ax, s) d = Slice (a, s1, n, ax, s) f = Concat <axis=1> (c, d) b = Conv (f, v)",
        {"s0": ints(0, 1), "s1": ints(1, 0), "n": ints(4, 6), "ax": ints(2, 3), "s": ints(2, 2), "v": (5, 32, 2, 2)},
    ),
    "crop": ("b = Slice (a, st, en, ax, sp)", {"st": ints(1, 2), "en": ints(4, 5), "ax": ints(2, 3), "sp": ints(1, 2)}),
    "constant": ("b = Pad (a, w1, v1)", {"w1": ints(0, 0, 1, 2, 0, 0, 1, 0), "v1": np.float32(0.7)}),
    "constant beyond the map's range": ("b = Pad (a, w1, v1)", {"w1": ints(0, 0, 0, 3, 0, 0, 5, 1), "v1": np.float32(-9)}),
    "constant and crop": ("b = Pad (a, w1, v1)", {"w1": ints(0, 0, 2, -1, 0, 0, -1, 4), "v1": np.float32(0.7)}),
    "zeros and crop": ("b = Pad (a, w1)", {"w1": ints(0, 0, -2, 1, 0, 0, 3, -2)}),
    "wide constant": ("b = Pad (a, w1, v1)", {"w1": ints(0, 0, 9, 12, 0, 0, 14, 11), "v1": np.float32(-0.3)}),
    "rows joined": ("c = Conv (a, v) d = Relu (a) b = Concat <axis=2> (d, c, a)", {"v": (16, 16, 1, 1)}),
    "columns joined": ("c = MaxPool <kernel_shape=[1,2]> (a) b = Concat <axis=-1> (c, a)", {}),
    "reflect": ('b = Pad <mode="reflect"> (a, w1)', {"w1": ints(0, 0, 1, 2, 0, 0, 1, 0)}),
}


# Of 255, where a layer computes too: a tie that onnxruntime rounds the other way.
STEPS: dict[str, float] = dict.fromkeys(
    (
        "transposed",
        "transposed, cut off",
        "transposed, by channel",
        "pixel shuffle",
        "focus",
        "rows joined",
        "difference",
        "tokens",
        "leaky",
        "slopes",
    ),
    1.01,
)


@pytest.mark.parametrize("layer", LAYERS)
def test_moves_equal_onnxruntime(layer):
    """With a copy to the wrong pixel or at another scale, the accelerator would answer something else."""
    line, constants = LAYERS[layer]
    text = f"""g (float[N,3,5,6] x, float[N,8,10,12] e) => (float[N,?,?,?] y) {{
        a = Conv <pads=[1,1,1,1]> (x, w) {line} y = Relu (b) }}"""
    if " e" not in line and "(e" not in line:
        text = text.replace(", float[N,8,10,12] e", "")
    model = written(text, {"w": (16, 3, 3, 3), **constants}, 13)
    feeds = images(model, 2)
    quantised, _ = quantise(model, feeds)
    artifact = compile_model(quantised, preset("tiny"), 2)
    with Model(artifact, "emulator", check=True) as emulated:
        found = emulated.run(feeds)
        assert emulated.agreement is not None
    (name,) = found
    want = answers(quantised, feeds)[0]
    assert np.abs(found[name] - want).max() <= STEPS.get(layer, 0.01) * float(np.ptp(np.append(want, 0))) / 255


def test_a_pad_saturates_as_onnx_quantises():
    """A value beyond the output's int8 is its last one, and an output with a scale of its own is a requantised copy inside."""
    text = """g (float[N,4,3,5] x) => (float[N,4,?,?] y) {
        q = QuantizeLinear (x, s, z) a = DequantizeLinear (q, s, z) p = Pad (a, widths, value)
        t = QuantizeLinear (p, s2, z2) b = DequantizeLinear (t, s2, z2) r = Relu (b) u = QuantizeLinear (r, s2, z2)
        y = DequantizeLinear (u, s2, z2) }"""
    scales = {"s": np.float32(0.02), "z": np.int8(-3), "s2": np.float32(0.017), "z2": np.int8(5)}
    for value in (9.0, -9.0, 0.3):
        model = written(text, {**scales, "widths": ints(0, 0, 2, 0, 0, 0, 1, 4), "value": np.float32(value)}, 19)
        feeds = images(model, 2)
        artifact = compile_model(model, preset("tiny"), 2)
        assert [entry["kind"] for entry in artifact.manifest["pieces"]] == [ACCELERATOR]
        with Model(artifact, "emulator", check=True) as emulated:
            (found,) = emulated.run(feeds).values()
        np.testing.assert_array_equal(found, ReferenceEvaluator(model).run(None, feeds)[0])


@pytest.mark.cosim
def test_constant_pads_and_joined_maps_through_the_rtl(rtl):
    """The vector engine's taps outside the map must read the constant, on every side, also where a side is cut off.

    Maps are joined by such copies: each lies where the others hold int8's least value.
    """
    text = """g (float[N,3,5,6] x) => (float[N,?,?,?] y, float[N,?,?,?] z, float[N,?,?,?] j) {
        a = Conv <pads=[1,1,1,1]> (x, w) b = Pad (a, w1, v1) y = Relu (b) c = Pad (a, w2, v2) z = Relu (c)
        d = Concat <axis=3> (a, z, a) e = Concat <axis=2> (d, d) j = Relu (e) }"""
    widths = {"w1": ints(0, 0, 1, 2, 0, 0, 3, 1), "v1": np.float32(0.6), "w2": ints(0, 0, 2, -1, 0, 0, -2, 3), "v2": np.float32(5)}
    model = written(text, {"w": (9, 3, 3, 3), **widths}, 13)
    feeds = images(model, 2)
    quantised, _ = quantise(model, feeds)
    artifact = compile_model(quantised, preset("tiny"), 2)
    assert [entry["kind"] for entry in artifact.manifest["pieces"]] == [ACCELERATOR]
    with Model(artifact, rtl(preset("tiny")), check=True) as simulated:
        found = simulated.run(feeds)
        assert "RTL" in simulated.agreement.executions
    for want, got in zip(answers(quantised, feeds), found.values(), strict=True):
        assert np.abs(got - want).max() <= 0.01 * float(np.ptp(np.append(want, 0))) / 255
