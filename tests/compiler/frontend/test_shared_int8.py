"""QLinear models whose int8 tensors have several readers: outputs, other layers, views, pools."""

import numpy as np
import pytest

from cnna.compiler.frontend.quantised_import import import_quantised

from ..written import answers
from .test_quantised_import import made, run_whole

WEIGHTS = {"w": (3, 3, 1, 1), "v": (5, 48)}
CASES = {  # nodes, outputs, their shapes: what a tensor is besides a layer's input
    "a model output": ("a = Conv (x, w) y = Conv (a, w)", {"a": "3,4,4", "y": "3,4,4"}),
    "a model output, read by three": ("a = Conv (x, w) b = Conv (a, w) c = Conv (a, w) y = Add (b, c)",
                                      {"a": "3,4,4", "b": "3,4,4", "y": "3,4,4"}),
    "a pooled output": ("a = Conv (x, w) p = MaxPool <kernel_shape=[2,2]> (a) y = Conv (p, w)", {"p": "3,3,3", "y": "3,3,3"}),
    "a pool's, whose input is an output": ("a = Conv (x, w) p = MaxPool <kernel_shape=[2,2]> (a) y = Conv (p, w)",
                                           {"a": "3,4,4", "y": "3,3,3"}),
    "flattened and read as a map": ("a = Conv (x, w) f = Flatten (a) y = Gemm <transB=1> (f, v) z = Conv (a, w)",
                                    {"y": "5", "z": "3,4,4", "a": "3,4,4"}),
    "an output under two names": ("a = Conv (x, w) b = Identity (a) y = Conv (a, w)", {"a": "3,4,4", "b": "3,4,4", "y": "3,4,4"}),
}  # fmt: skip


@pytest.mark.parametrize("form", ["qlinear", "qlinear, uint8", "qdq"])
@pytest.mark.parametrize("case", CASES)
def test_every_reader_gets_the_one_rounding(case, form, tmp_path):
    """Two roundings of one tensor would leave it without a rounding of its own, and the layer would be refused."""
    nodes, outputs = CASES[case]
    text = f"g (float[N,3,4,4] x) => ({', '.join(f'float[N,{shape}] {name}' for name, shape in outputs.items())}) {{ {nodes} }}"
    model, feeds = made(tmp_path, form, text, WEIGHTS)
    split = import_quantised(model)
    assert split.pieces[0].integer is not None
    values, (graph,) = run_whole(split, feeds), split.programs
    for name, wanted in zip(outputs, answers(model, feeds), strict=True):
        step = graph.tensors[name if name in graph.outputs else graph.outputs[0]].quant.scale
        difference = np.abs(values[name].reshape(wanted.shape) - wanted)
        assert difference.max() < 3.5 * step, name  # one unit for each layer on the way
        assert (difference < step / 2).mean() > 0.97, name
