"""ONNX's element-wise operators of one map, in numpy: what a chain of them makes of every value that int8 can hold.

Each node takes float32 and gives float32, as in a model. Functions such as exp are computed in double precision and rounded once,
so they are the same on every machine, and at most some units in the last place from those of onnxruntime.
"""

from collections.abc import Callable, Mapping
from math import erf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnna.compiler.graph.float_ops import Chain, Onnx
from cnna.compiler.graph.ir import Quant

Real = NDArray[np.float32]
Function = Callable[[Mapping[str, Any], list[Real]], NDArray[Any]]  # of a node's attributes and operands

GENTLE_REACH = 8.0  # values up to which a chain must not be steep: about those of activations
LIVELY_POINTS = 4096  # at which a range is searched for its flat ends
FAR = float(1 << 20)  # beyond the values of activations
STEEPEST = 12.0  # steps of the output's range that one step of the input's may make


def _sigmoid(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return 1 / (1 + np.exp(-x))


def _softplus(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.logaddexp(x, 0.0)


_erf = np.vectorize(erf, otypes=[np.float64])


def _gelu(how: Mapping[str, Any], x: NDArray[np.float64]) -> NDArray[np.float64]:
    if how.get("approximate", "none") == "tanh":
        return x * _sigmoid(2 * np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))
    return x * 0.5 * (1 + _erf(x / np.sqrt(2)))


def _elu(x: NDArray[np.float64], alpha: float, gain: float = 1.0) -> NDArray[np.float64]:
    return gain * np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def _smooth(function: Callable[[Mapping[str, Any], NDArray[np.float64]], NDArray[np.float64]]) -> Function:
    """A function of one operand, in double precision."""
    return lambda how, x: function(how, x[0].astype(np.float64))


def _number(how: Mapping[str, Any], key: str, default: float) -> float:
    """An attribute as the float32 that a model holds."""
    return float(np.float32(how.get(key, default)))


SELU = {"alpha": 1.67326319217681884765625, "gamma": 1.05070102214813232421875}

_SMOOTH: dict[str, Callable[[Mapping[str, Any], NDArray[np.float64]], NDArray[np.float64]]] = {
    "Sigmoid": lambda how, x: _sigmoid(x),
    "Tanh": lambda how, x: np.tanh(x),
    "Erf": lambda how, x: _erf(x),
    "Exp": lambda how, x: np.exp(x),
    "Log": lambda how, x: np.log(x),
    "Sqrt": lambda how, x: np.sqrt(x),
    "Softplus": lambda how, x: _softplus(x),
    "Gelu": _gelu,
    "Mish": lambda how, x: x * np.tanh(_softplus(x)),
    "Swish": lambda how, x: x * _sigmoid(_number(how, "alpha", 1.0) * x),
    "Elu": lambda how, x: _elu(x, _number(how, "alpha", 1.0)),
    "Selu": lambda how, x: _elu(x, *(_number(how, key, value) for key, value in SELU.items())),
    "Celu": lambda how, x: _elu(x / _number(how, "alpha", 1.0), 1.0, _number(how, "alpha", 1.0)),
}


def _hard_sigmoid(x: Real, alpha: float, beta: float) -> Real:
    return np.clip(np.float32(alpha) * x + np.float32(beta), np.float32(0), np.float32(1))


def _leaky(x: Real, slope: Real | np.float32) -> Real:
    return np.where(x < 0, x * slope, x)


def _clip(x: Real, low: Real | None = None, high: Real | None = None) -> Real:
    below = x if low is None else np.maximum(x, low)
    return below if high is None else np.minimum(below, high)


def _power(x: Real, exponent: Real) -> NDArray[Any]:
    whole = exponent.reshape(-1)[0] if exponent.size == 1 else 0
    if whole in (2, 3):  # onnxruntime multiplies
        return x * x if whole == 2 else x * x * x
    return np.power(x.astype(np.float64), exponent.astype(np.float64))


def _over_all(function: Callable[[Real, Real], Real]) -> Function:
    """A function of two operands, taken over all operands in turn."""

    def fold(how: Mapping[str, Any], x: list[Real]) -> Real:
        total = x[0]
        for more in x[1:]:
            total = function(total, more)
        return total

    return fold


_PLAIN: dict[str, Function] = {
    "Identity": lambda how, x: x[0],
    "Relu": lambda how, x: np.maximum(x[0], np.float32(0)),
    "Clip": lambda how, x: _clip(*x),
    "Min": _over_all(np.minimum),
    "Max": _over_all(np.maximum),
    "Add": lambda how, x: x[0] + x[1],
    "Sum": _over_all(np.add),
    "Sub": lambda how, x: x[0] - x[1],
    "Mul": lambda how, x: x[0] * x[1],
    "Div": lambda how, x: x[0] / x[1],
    "Pow": lambda how, x: _power(x[0], x[1]),
    "Abs": lambda how, x: np.abs(x[0]),
    "Neg": lambda how, x: -x[0],
    "Reciprocal": lambda how, x: np.float32(1) / x[0],
    "Round": lambda how, x: np.rint(x[0]),
    "Floor": lambda how, x: np.floor(x[0]),
    "Ceil": lambda how, x: np.ceil(x[0]),
    "Softsign": lambda how, x: x[0] / (np.float32(1) + np.abs(x[0])),
    "HardSigmoid": lambda how, x: _hard_sigmoid(x[0], _number(how, "alpha", 0.2), _number(how, "beta", 0.5)),
    "HardSwish": lambda how, x: x[0] * _hard_sigmoid(x[0], 1 / 6, 0.5),
    "LeakyRelu": lambda how, x: _leaky(x[0], np.float32(how.get("alpha", 0.01))),
    "PRelu": lambda how, x: _leaky(x[0], x[1]),
    "ThresholdedRelu": lambda how, x: np.where(x[0] > np.float32(how.get("alpha", 1.0)), x[0], np.float32(0)),
}

POINTWISE: dict[str, Function] = {**_PLAIN, **{kind: _smooth(function) for kind, function in _SMOOTH.items()}}


def evaluate(chain: Chain, x: Real) -> Real:
    """What a chain makes of real values."""
    values: dict[str, Real] = {chain.source: x}
    numbers = dict(chain.numbers)
    with np.errstate(all="ignore"):  # infinities and NaN are numbers too; `quantised` says what becomes of them
        for node in chain.nodes:
            if isinstance(node.op, Onnx):
                operands = [
                    values[name] if name in values else np.full((), numbers[name], np.float32) for name in node.inputs if name
                ]
                if node.op.kind == "Clip" and node.inputs[1:2] == ("",):
                    operands.insert(1, np.full((), -np.inf, np.float32))
                made = np.asarray(POINTWISE[node.op.kind](node.op.attributes, operands)).astype(np.float32)
            else:
                made = real(quantised(values[node.inputs[0]], node.op.quant), node.op.quant)
            values[node.output] = made
    return np.broadcast_to(values[chain.nodes[-1].output], x.shape)


def quantised(x: Real, quant: Quant) -> NDArray[np.int8]:
    """QuantizeLinear, in float32 as onnxruntime computes it. NaN becomes the least value, as it does there."""
    with np.errstate(all="ignore"):
        whole = np.rint(x / np.float32(quant.scale)) + np.float32(quant.zero)
    return np.where(np.isnan(whole), -128, np.clip(whole, -128, 127)).astype(np.int8)


def real(whole: NDArray[np.int8], quant: Quant) -> Real:
    """DequantizeLinear."""
    return (whole.astype(np.float32) - np.float32(quant.zero)) * np.float32(quant.scale)


def table_of(chain: Chain, source: Quant, result: Quant) -> bytes:
    """What a chain makes of each int8: 256 bytes, that of the value v at v modulo 256."""
    every = np.arange(256, dtype=np.uint8).view(np.int8)
    return quantised(evaluate(chain, real(every, source)), result).tobytes()


def lively(chain: Chain, low: float, high: float, step: float) -> tuple[float, float]:
    """The part of a range outside of which a chain's value stays the same to `step`: SiLU is flat below -8."""
    x = np.linspace(low, high, LIVELY_POINTS, dtype=np.float32)
    values = evaluate(chain, x).astype(np.float64)
    if not np.isfinite(values).all():
        return low, high

    def flat(from_here: NDArray[np.float64]) -> int:
        spread = np.maximum.accumulate(from_here) - np.minimum.accumulate(from_here)
        return int(np.searchsorted(spread, step, "right")) - 1

    first, last = flat(values), len(x) - 1 - flat(values[::-1])
    return (float(x[first]), float(x[last])) if first < last else (low, high)


def felt(chain: Chain, result: Quant) -> tuple[float, float] | None:
    """The range outside of which a chain's value stays at the same int8; None: it never does, or always."""
    ends = []
    for sign in (-1.0, 1.0):
        outside, end = _rounded_at(chain, result, sign * FAR), FAR
        while end > 1 / FAR and _rounded_at(chain, result, sign * end / 2) == outside:
            end /= 2
        ends.append(sign * end)
    x = np.linspace(ends[0], ends[1], LIVELY_POINTS, dtype=np.float32)
    whole = quantised(evaluate(chain, x), result)
    below, above = np.flatnonzero(whole != whole[0]), np.flatnonzero(whole != whole[-1])
    if FAR in (-ends[0], ends[1]) or not below.size or not above.size:
        return None
    return float(x[below[0] - 1]), float(x[above[-1] + 1])


def _rounded_at(chain: Chain, result: Quant, x: float) -> int:
    return int(quantised(evaluate(chain, np.array([x], np.float32)), result)[0])


def is_gentle(chain: Chain) -> bool:
    """Whether int8 can hold what a chain takes and gives, where nobody has chosen scales yet.

    Between two values of the input lie at most STEEPEST of the output, so that rounding the input costs at most half as many.
    """
    values = evaluate(chain, np.linspace(-GENTLE_REACH, GENTLE_REACH, 256, dtype=np.float32)).astype(np.float64)
    if not np.isfinite(values).all():
        return False
    span = float(values.max() - values.min())
    return bool(float(np.abs(np.diff(values)).max()) * 255 <= STEEPEST * span)
