"""Maps of one pixel, row or column that become larger between two layers, from ONNX to the emulator and the RTL."""

import numpy as np
import pytest

from cnna.compiler.compile import compile_model
from cnna.compiler.quantise.quantise import quantise
from cnna.host.model.model import Model
from cnna.spec.config import preset
from cnna.spec.manifest import ACCELERATOR

from .passes.alone import ints
from .written import answers, images, written

SIZES = {"s": ints(1, 9, 6, 7)}
SPREAD = {
    "linear": ('r = Resize <mode="linear"> (p, , , s)', SIZES),
    "nearest": ('r = Resize <mode="nearest", coordinate_transformation_mode="asymmetric"> (p, , , s)', SIZES),
    "corners": ('r = Resize <mode="linear", coordinate_transformation_mode="align_corners"> (p, , , s)', SIZES),
    "expand": ("r = Expand (p, s)", SIZES),
    "one row": ("o = MaxPool <kernel_shape=[6,1]> (c) r = Resize (o, , , s)", SIZES),
    "one column": ('o = MaxPool <kernel_shape=[1,7]> (c) r = Resize <mode="linear"> (o, , , s)', SIZES),
    "twice as wide": (
        'o = MaxPool <kernel_shape=[6,1]> (c) t = Resize <mode="linear"> (o, , , w2) '
        "r = MaxPool <kernel_shape=[1,2], strides=[1,2]> (t)",
        {"w2": ints(1, 9, 6, 14)},
    ),
}


def pooled(name):
    """The pooling of DeepLab: a mean of the whole map, a 1x1 convolution, and the result at every pixel beside the map."""
    line, constants = SPREAD[name]
    text = f"""g (float[N,3,6,7] x) => (float[N,5,6,7] y) {{
        a = Conv <pads=[1,1,1,1]> (x, w) c = Relu (a) m = GlobalAveragePool (c) d = Conv (m, v) p = Relu (d)
        {line} b = Concat <axis=1> (r, c) e = Conv (b, u) y = Relu (e) }}"""
    return written(text, {"w": (9, 3, 3, 3), "v": (9, 9, 1, 1), "u": (5, 18, 1, 1), **constants}, 13)


def compared(name, device):
    """Runs the quantised model; its answers may differ from onnxruntime's by one step, where a mean is a tie."""
    model = pooled(name)
    feeds = images(model, 2)
    quantised, _ = quantise(model, feeds)
    artifact = compile_model(quantised, preset("tiny"), 2)
    assert [entry["kind"] for entry in artifact.manifest["pieces"]] == [ACCELERATOR]
    with Model(artifact, device, check=True) as found:
        (got,) = found.run(feeds).values()
        executions = found.agreement.executions
    (want,) = answers(quantised, feeds)
    assert np.abs(got - want).max() <= 1.01 * float(np.ptp(np.append(want, 0))) / 255
    return executions


@pytest.mark.parametrize("name", SPREAD)
def test_a_spread_map_stays_on_the_accelerator(name):
    """On the CPU it would cost a piece of its own, two crossings, and the map's whole size over DDR."""
    compared(name, "emulator")


@pytest.mark.cosim
def test_a_spread_map_through_the_rtl(rtl):
    """The walk takes no step from pixel to pixel; its stride of 0 must hold in both directions."""
    assert "RTL" in compared("linear", rtl(preset("tiny")))
