"""Quantised models with a head or tail on the CPU: it rounds where the model says, and no rounding is lost on the way.

All scales are powers of two, so that the accelerator's part is exact and every output must equal onnxruntime's to the bit.
"""

import numpy as np
import pytest

from cnna.compiler.frontend.quantised_import import import_quantised

from ..pairs import with_pairs
from ..written import answers, images, written
from .test_quantised_import import run_whole

IN, MID, COARSE = (1 / 32, 3), (1 / 16, -5), (1 / 4, 100)  # the last saturates from 6.75 on, and rounds visibly
CASES = {  # nodes, outputs, rounding of tensors
    "tail rounds its output": ("c = Conv (x, w) y = Sigmoid (c)", "y", {"x": IN, "c": MID, "y": (1 / 128, -128)}),
    "tail saturates": ("c = Conv (x, w) y = Exp (c)", "y", {"x": IN, "c": MID, "y": COARSE}),
    "tail rounds within": ("c = Conv (x, w) t = Exp (c) y = Tanh (t)", "y", {"x": IN, "c": MID, "t": COARSE}),
    "tail rounds the model's input": ("c = Conv (x, w) t = Sigmoid (c) y = Mul (t, x)", "y", {"x": IN, "c": MID, "t": (1 / 64, 0)}),
    "tail reads the input as it came": ("c = Conv (x, w) r = Relu (c) s = Sigmoid (x) y = Mul (r, s)", "y",
                                        {"x": IN, "c": MID, "r": MID}),
    "head's tensor goes to both": ("s = Exp (x) c = Conv (s, w) y = Mul (c, s)", "y", {"s": COARSE, "c": MID}),
    "head's tensor is an output": ("s = Exp (x) y = Conv (s, w)", "s y", {"s": COARSE, "y": MID}),
    "head reads what it rounds": ("s = Exp (x) t = Tanh (s) a = Conv (s, w) b = Conv (t, w) y = Add (a, b)", "y",
                                  {"s": COARSE, "t": (1 / 64, 7), "a": MID, "b": MID, "y": MID}),
    "head alone": ("s = Exp (x) y = Conv (s, w)", "y", {"s": COARSE, "y": MID}),
    "head rounds its input": ("s = Exp (x) t = Relu (x) a = Conv (s, w) y = Add (a, t)", "y",
                              {"x": (1 / 4, 0), "s": COARSE, "t": (1 / 4, 0), "a": MID, "y": MID}),
    "second output of a node": ("e = Exp (x) s, t = Split <axis=2> (e, halves) r = Tanh (t) a = Conv (s, w) y = Add (a, r)", "y",
                                {"s": COARSE, "t": COARSE, "r": (1 / 64, 0), "a": MID, "y": MID}),
    "relu of the tail": ("c = Conv (x, w) t = Tanh (c) y = Relu (t)", "y", {"x": IN, "c": MID, "y": (1 / 64, 0)}),
    "accelerator's tensor is an output and the tail's": ("c = Conv (x, w) y = Tanh (c)", "c y", {"x": IN, "c": MID, "y": MID}),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_every_rounding_of_the_model_is_kept(case):
    """Without a tail's rounding, values would lie between the steps and beyond the ends; without a head's, other readers' would
    too.
    """
    nodes, outputs, rounded = CASES[case]
    rows = dict.fromkeys(outputs.split(), 2 if "Split" in nodes else 4)
    text = f"g (float[N,3,4,5] x) => ({', '.join(f'float[N,3,{rows[name]},5] {name}' for name in rows)}) {{ {nodes} }}"
    model = with_pairs(written(text, {"w": (3, 3, 1, 1), "halves": np.array([2, 2])}), rounded, {"w": 1 / 64})
    feeds = {name: 2 * value for name, value in images(model, 50).items()}
    values = run_whole(import_quantised(model), feeds)
    for name, wanted in zip(outputs.split(), answers(model, feeds), strict=True):
        np.testing.assert_array_equal(values[name], wanted, err_msg=name)
