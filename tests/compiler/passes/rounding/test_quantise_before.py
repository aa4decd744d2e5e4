"""The sum of a layer in front of a chain gets a quantisation."""

from dataclasses import replace

import numpy as np
import pytest

from cnna.compiler.graph.float_ops import Chain, Clip, Conv, Onnx
from cnna.compiler.graph.ir import Node, Quant, Window
from cnna.compiler.passes.rounding.quantise_before import quantise_before

from ..alone import computed, left_alone, typed

SHAPE = (1, 2, 3, 3)
X, Y = Quant(0.02, -5), Quant(0.01, -90)
CONSTANTS = {"w": np.array([[3, -9], [12, 5]], np.float32).reshape(2, 2, 1, 1), "b": (2,), "w:scales": np.ones(2)}
CONV = ("a", Conv(Window(), 1, "w", "b", "w:scales"), ["x"], SHAPE)


def chain(*kinds: str, **attributes: float) -> Chain:
    """Operators one after another, of which a product takes the map too."""
    names = ["m", *(f"m{number}" for number in range(len(kinds)))]
    read = [(names[n], "m") if kind == "Mul" else (names[n],) for n, kind in enumerate(kinds)]
    return Chain(
        tuple(Node(kind, Onnx(kind, attributes), r, names[n + 1]) for n, (kind, r) in enumerate(zip(kinds, read, strict=True))), "m"
    )


@pytest.mark.parametrize(
    ("how", "low", "high"),
    [
        (chain("Sigmoid", "Mul"), -7.3, 2.2),  # SiLU: below it is 0 to half a step, and the result saturates above
        (chain("LeakyRelu", alpha=0.5), -0.8, 2.2),
        (chain("Tanh"), -0.4, 3.0),
    ],
)
def test_range_is_what_can_change_the_result(how, low, high):
    """A narrower range would cut values that show, and a wider one would lose precision. The answer may move by few steps."""
    graph = typed({"x": SHAPE}, [CONV, ("y", how, ["a"], SHAPE)], ["y"], CONSTANTS, {"x": X, "y": Y})
    changed = quantise_before(graph)
    quant = changed.tensors["a"].quant
    assert quant.scale * (-128 - quant.zero) == pytest.approx(low, rel=0.1)
    assert quant.scale * (127 - quant.zero) == pytest.approx(high, rel=0.1)
    assert np.abs(computed(changed)[0] - computed(graph)[0]).max() <= 0.6 * quant.scale + Y.scale


STAYS = {
    "output without": ([CONV, ("y", chain("Tanh"), ["a"], SHAPE)], {"x": X}, ["y"]),
    "quantised already": ([CONV, ("y", chain("Tanh"), ["a"], SHAPE)], {"x": X, "a": X, "y": Y}, ["y"]),
    "no layer": ([("a", Clip(0.0), ["x"], SHAPE), ("y", chain("Tanh"), ["a"], SHAPE)], {"x": X, "y": Y}, ["y"]),
    "shared": ([CONV, ("y", chain("Tanh"), ["a"], SHAPE), ("v", Clip(0.0), ["a"], SHAPE)], {"x": X, "y": Y}, ["y", "v"]),
    "layer of floats": (
        [("a", replace(CONV[1], weight_scale=None), ["x"], SHAPE), ("y", chain("Tanh"), ["a"], SHAPE)],
        {"x": X, "y": Y},
        ["y"],
    ),
    "always the same": ([CONV, ("y", chain("Tanh"), ["a"], SHAPE)], {"x": X, "y": Quant(1e3, 0)}, ["y"]),
}


@pytest.mark.parametrize("name", STAYS)
def test_stays(name):
    """No range can be derived, or another reader would see values that are cut to it."""
    nodes, quants, outputs = STAYS[name]
    used = {name: value for name, value in CONSTANTS.items() if name != "w:scales" or CONV in nodes}
    constants = used if any(isinstance(op, Conv) for _, op, _, _ in nodes) else {}
    assert left_alone(quantise_before, typed({"x": SHAPE}, nodes, outputs, constants, quants))
