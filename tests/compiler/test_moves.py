"""Layers that consist of copies and other layers, from ONNX to the emulator, compared with onnxruntime on the quantised model.

Layers that only move values must be equal to the bit.
"""

import numpy as np
import pytest

from cnna.compiler.compile import compile_model
from cnna.compiler.quantise.quantise import quantise
from cnna.host.model.model import Model
from cnna.spec.config import preset

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
    "reflect": ('b = Pad <mode="reflect"> (a, w1)', {"w1": ints(0, 0, 1, 2, 0, 0, 1, 0)}),
}


STEPS: dict[str, float] = dict.fromkeys(
    (
        "transposed",
        "transposed, cut off",
        "transposed, by channel",
        "pixel shuffle",
        "focus",
        "difference",
        "tokens",
        "leaky",
        "slopes",
    ),
    1.01,
)  # of 255, where a layer computes too: a tie that onnxruntime rounds the other way


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
