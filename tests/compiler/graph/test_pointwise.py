"""A chain's table equals what onnxruntime makes of the Q/DQ chain, at all 256 values."""

import numpy as np
import pytest

from cnna.compiler.frontend.quantised_import import import_quantised
from cnna.compiler.graph import ir

from ..written import Constant, answers, written

EVERY = np.arange(-128, 128, dtype=np.int8)

CHAINS = {
    "Sigmoid": "y = Sigmoid (x)",
    "SiLU": "s = Sigmoid (x) y = Mul (x, s)",
    "SiLU of two roundings": "s = Sigmoid (x) sq = QuantizeLinear (s, ss, zs) sd = DequantizeLinear (sq, ss, zs) y = Mul (sd, x)",
    "SiLU of unsigned ones": "s = Sigmoid (x) sq = QuantizeLinear (s, ss, zu) sd = DequantizeLinear (sq, ss, zu) y = Mul (x, sd)",
    "HardSwish": "y = HardSwish (x)",
    "HardSwish in two": "h = HardSigmoid <alpha=0.16666667> (x) y = Mul (x, h)",
    "HardSwish in four": "a = Add (x, three) b = Clip (a, nought, six) c = Mul (x, b) y = Div (c, six)",
    "Tanh": "y = Tanh (x)",
    "GELU by Erf": "d = Div (x, root) e = Erf (d) f = Add (e, one) g = Mul (x, f) y = Mul (g, half)",
    "GELU by Tanh": """p = Pow (x, three) q = Mul (p, bit) r = Add (x, q) s = Mul (r, pi) t = Tanh (s) u = Add (t, one)
        v = Mul (x, u) y = Mul (v, half)""",
    "Gelu": "y = Gelu (x)",
    "Gelu by tanh": 'y = Gelu <approximate="tanh"> (x)',
    "Mish": "y = Mish (x)",
    "Mish in three": "s = Softplus (x) t = Tanh (s) y = Mul (x, t)",
    "Elu": "y = Elu <alpha=0.7> (x)",
    "Selu": "y = Selu (x)",
    "Celu": "y = Celu <alpha=1.5> (x)",
    "Softplus": "y = Softplus (x)",
    "Softsign": "y = Softsign (x)",
    "LeakyRelu": "y = LeakyRelu <alpha=0.1> (x)",
    "PRelu": "y = PRelu (x, minus)",
    "ThresholdedRelu": "y = ThresholdedRelu <alpha=0.5> (x)",
    "Erf": "y = Erf (x)",
    "Sqrt": "y = Sqrt (x)",
    "Exp": "y = Exp (x)",
    "Log": "y = Log (x)",
    "Abs": "y = Abs (x)",
    "Neg": "y = Neg (x)",
    "Reciprocal": "y = Reciprocal (x)",
    "Pow": "y = Pow (x, minus)",
    "Pow 2.5": "a = Abs (x) y = Pow (a, odd)",
    "square": "y = Mul (x, x)",
    "Round": "y = Round (x)",
    "Floor": "y = Floor (x)",
    "Ceil": "y = Ceil (x)",
    "greater of two": "m = Mul (x, half) y = Max (x, m)",
    "one over": "e = Exp (x) y = Div (one, e)",
    "without a lower limit": "c = Clip (x, , one) y = Tanh (c)",
    "a sigmoid spelled out": "n = Neg (x) e = Exp (n) a = Add (e, one) y = Reciprocal (a)",
    "a sum of limits": "a = Min (x, one) b = Max (x, minus) y = Sum (a, b, x)",
}  # fmt: skip
NUMBERS = {
    "one": 1, "half": 0.5, "three": 3, "six": 6, "nought": 0, "minus": -2, "odd": 2.5, "root": np.sqrt(2), "bit": 0.044715,
    "pi": np.sqrt(2 / np.pi), "ss": 0.0039,
}  # fmt: skip
SCALES = {"fine": (0.031, 3, 0.017, -100), "coarse": (0.25, -17, 0.11, 20)}  # of the input and of the output


def model_of(chain: str, scales: tuple[float, int, float, int]):
    """A Q/DQ model of a chain, and its constants; the convolution before it passes on one channel."""
    step, zero, out_step, out_zero = scales
    text = f"""g (float[N,1,16,16] in) => (float[N,1,16,16] out) {{
        in8 = QuantizeLinear (in, sx, zx) in0 = DequantizeLinear (in8, sx, zx) w0 = DequantizeLinear (w, sw, zs)
        conv = Conv (in0, w0) x8 = QuantizeLinear (conv, sx, zx) x = DequantizeLinear (x8, sx, zx) {chain}
        y8 = QuantizeLinear (y, sy, zy) out = DequantizeLinear (y8, sy, zy) }}"""
    constants: dict[str, Constant] = {name: np.float32(value) for name, value in NUMBERS.items() if name in text}
    constants |= {"sx": np.float32(step), "zx": np.int8(zero), "sy": np.float32(out_step), "zy": np.int8(out_zero)}
    constants |= {"w": np.ones((1, 1, 1, 1), np.int8), "sw": np.float32(1), "zs": np.int8(0)}
    if "zu" in text:
        constants["zu"] = np.uint8(3)
    return written(text, constants, opset=20)


@pytest.mark.parametrize("scales", SCALES)
@pytest.mark.parametrize("name", CHAINS)
def test_a_table_is_what_onnxruntime_computes(name, scales):
    """An operator's entries would be computed otherwise than by the source model, at some value."""
    step, zero, out_step, out_zero = SCALES[scales]
    model = model_of(CHAINS[name], SCALES[scales])
    (program,) = import_quantised(model).programs
    (node,) = program.nodes
    assert isinstance(node.op, ir.Conv)
    assert node.op.table is not None
    x = ((EVERY.astype(np.float32) - np.float32(zero)) * np.float32(step)).reshape(1, 1, 16, 16)
    expected = np.rint(answers(model, {"in": x})[0].reshape(-1) / np.float32(out_step)).astype(int) + out_zero
    found = np.frombuffer(node.op.table.values, np.int8)[EVERY.view(np.uint8)].astype(int)
    assert len(np.unique(expected)) > 1
    assert {int(v): (int(a), int(b)) for v, a, b in zip(EVERY, found, expected, strict=True) if a != b} == {}
