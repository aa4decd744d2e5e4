"""Elementwise operators become Affine, Add, Product, Clip, Maximum and Minimum."""

from dataclasses import replace

import numpy as np
import pytest

from cnna.compiler.graph.float_ops import Add, Affine, Clip, Onnx
from cnna.compiler.passes.canonical.canonical_elementwise import canonical_elementwise
from cnna.spec.errors import ModelError

from ..alone import after, kinds, left_alone, only, untyped

SHAPE = "[N,3,4,5]"
MAPS = f"float{SHAPE} x, float{SHAPE} z, float[N,3,1,1] k, float[N,1,1,5] l, float[N,1,4,5] p, float[N,1,1,1] n"
CASES = {
    "batch norm": ("BatchNormalization <epsilon=0.01> (x, s, o, m, var)", dict.fromkeys(("s", "o", "m", "var"), (3,)), ["Affine"]),
    "times a number": ("Mul (x, s)", {"s": np.float32(3)}, ["Affine"]),
    "channels": ("Add (s, x)", {"s": (1, 3, 1, 1)}, ["Affine"]),
    "minus": ("Sub (x, s)", {"s": (3, 1, 1)}, ["Affine"]),
    "from": ("Sub (s, x)", {"s": (3, 1, 1)}, ["Affine"]),
    "hard sigmoid": ("HardSigmoid <alpha=0.3> (x)", {}, ["Affine"]),
    "divided": ("Div (x, s)", {"s": np.array([[[2]], [[-3]], [[0.5]]], np.float32)}, ["Affine"]),
    "columns": ("Mul (x, s)", {"s": (5,)}, ["Transpose", "Affine", "Transpose"]),
    "sum of three": ("Sum (x, z, x)", {}, ["Add", "Add"]),
    "sum of one twice": ("Add (x, x)", {}, ["Affine"]),
    "relu": ("Relu (x)", {}, ["Clip"]),
    "clip": ("Clip (x, low, high)", {"low": np.float32(-0.5), "high": np.float32(0.5)}, ["Clip"]),
    "clip, upper limit": ("Clip (x, , high)", {"high": np.float32(0.5)}, ["Clip"]),
    "clip, one limit": ("Clip (x, low)", {"low": np.float32(-0.5)}, ["Clip"]),
    "min": ("Min (x, low)", {"low": np.float32(-0.5)}, ["Clip"]),
    "max": ("Max (low, x)", {"low": np.array([0.5], np.float32)}, ["Clip"]),
    "product of maps": ("Mul (x, z)", {}, ["Product"]),
    "scale of each channel": ("Mul (k, x)", {}, ["Product"]),
    "term of each channel": ("Add (x, k)", {}, ["Add"]),
    "minus each channel": ("Sub (k, x)", {}, ["Add"]),
    "sum with each channel": ("Sum (k, x, z)", {}, ["Add", "Add"]),
    "greater of two maps": ("Max (z, x)", {}, ["Maximum"]),
    "lesser of two maps": ("Min (x, z)", {}, ["Minimum"]),
    "lesser of three": ("Min (k, x, z)", {}, ["Minimum", "Minimum"]),
    "scale of each column": ("Mul (x, l)", {}, ["Transpose", "Transpose", "Product", "Transpose"]),
}


@pytest.mark.parametrize("name", CASES)
def test_becomes_typed(name):
    """A form that is not recognised would be refused between two layers."""
    node, weights, expected = CASES[name]
    graph = untyped(f"g ({MAPS}) => (float{SHAPE} y) {{ y = {node} }}", weights)
    changed = after(canonical_elementwise, graph)
    assert kinds(changed) == expected
    assert not any(isinstance(node.op, Onnx) for node in changed.nodes)


STAYS = {
    "constant of every pixel": ("Add (x, s)", {"s": (3, 4, 5)}),
    "operand of each pixel": ("Mul (x, p)", {}),
    "operand of a sample": ("Mul (x, n)", {}),
    "two that broadcast": ("Mul (k, l)", {}),
    "operands along two axes": ("Sum (x, k, l)", {}),
    "square": ("Mul (x, x)", {}),
    "computed divisor": ("Div (x, z)", {}),
    "divisor": ("Div (s, x)", {"s": (3, 1, 1)}),
    "division by 0": ("Div (x, s)", {"s": np.float32(0)}),
    "limit of two": ("Max (x, z, s)", {"s": np.float32(0)}),
    "two limits": ("Max (x, s, t)", {"s": np.float32(0), "t": np.float32(1)}),
    "limit of each channel": ("Max (x, s)", {"s": (3, 1, 1)}),
    "computed limit of a Clip": ("Clip (x, z)", {}),
    "sum of a constant and two": ("Sum (x, s, z)", {"s": np.float32(1)}),
    "sum of constants": ("Add (t, s)", {"s": (1, 3, 4, 5), "t": np.float32(1)}),
    "sum of one": ("Sum (x)", {}),
    "factor that makes a map larger": ("Mul (k, s)", {"s": np.full((4, 5), 2, np.float32)}),
}


@pytest.mark.parametrize("name", STAYS)
def test_stays(name):
    """No Affine, Add or Clip computes the same."""
    node, weights = STAYS[name]
    size = "[N,3,1,5]" if node == "Mul (k, l)" else SHAPE
    text = f"g ({MAPS}) => (float{size} y) {{ y = {node} }}"
    assert left_alone(canonical_elementwise, untyped(text, weights))


def test_a_batch_normalization_without_constants_stays():
    """In training, or with computed statistics, its factors are not known here."""
    text, weights = "y = BatchNormalization (x, s, o, m, var)", dict.fromkeys(("s", "o", "m", "var"), (3,))
    graph = untyped(f"g (float{SHAPE} x, float{SHAPE} z) => (float{SHAPE} y) {{ {text} }}", weights)
    (node,) = graph.nodes
    training = replace(node, op=replace(node.op, attributes={**node.op.attributes, "training_mode": 1}))
    assert left_alone(canonical_elementwise, replace(graph, nodes=(training,)))
    constants = {name: value for name, value in graph.constants.items() if name != "s"}
    computed = replace(node, inputs=("x", "z", "o", "m", "var"))
    assert left_alone(canonical_elementwise, replace(graph, nodes=(computed,), constants=constants))


def test_a_row_without_channels_stays():
    """An Affine has one factor for each channel, so it needs an axis of channels."""
    assert left_alone(canonical_elementwise, untyped("g (float[7] x) => (float[7] y) { y = Mul (x, s) }", {"s": np.float32(2)}))


def test_a_clip_with_two_lower_limits_is_named():
    """The first limit would be taken for both."""
    graph = untyped(f"g (float{SHAPE} x) => (float{SHAPE} y) {{ y = Clip (x, low) }}", {"low": np.float32(0)})
    with pytest.raises(ModelError, match=r"its limit 'low' has 2 values; it must be one number"):
        canonical_elementwise(replace(graph, constants={"low": np.zeros(2, np.float32)}))


def test_limits_are_read():
    """A missing limit must become infinite; two exchanged limits would cut everything off."""
    text = f"g (float{SHAPE} x) => (float{SHAPE} y) {{ y = Clip (x, low) }}"
    clip = only(canonical_elementwise(untyped(text, {"low": np.float32(-0.5)})), Clip).op
    assert (clip.low, clip.high) == (-0.5, np.inf)


def test_sign_of_a_difference():
    """s - x and x - s must differ in both constants."""
    text = f"g (float{SHAPE} x) => (float{SHAPE} y) {{ y = Sub (s, x) }}"
    graph = canonical_elementwise(untyped(text, {"s": np.float32(2)}))
    affine = only(graph, Affine).op
    assert (graph.constants[affine.scale] == -1).all()
    assert (graph.constants[affine.shift] == 2).all()


@pytest.mark.parametrize(
    ("node", "slopes", "chosen"),
    [
        ("LeakyRelu <alpha=0.2> (x)", [0.0], "Maximum"),
        ("PRelu (x, s)", [0.25, 1, 0], "Maximum"),
        ("PRelu (x, s)", [1.25, 1, 7], "Minimum"),
        ("PRelu (x, s)", [0.25, 1.5, 0], None),
        ("LeakyRelu <alpha=-0.1> (x)", [0.0], None),
    ],
)
def test_slopes_on_one_side_of_1_are_a_choice_of_two(node, slopes, chosen):
    """Beyond 1, the greater of x and a * x is x below 0, and the lesser is right; of slopes on both sides neither is."""
    constants = {"s": np.array(slopes, np.float32)[:, None, None]}
    graph = untyped(f"g (float{SHAPE} x) => (float{SHAPE} y) {{ y = {node} }}", constants)
    if chosen:
        assert kinds(after(canonical_elementwise, graph)) == ["Affine", chosen]
    else:
        assert left_alone(canonical_elementwise, graph)


def test_difference_of_two_maps():
    """A difference taken for a sum would have another sign. The difference of a map and itself is left to the CPU."""
    graph = after(canonical_elementwise, untyped(f"g (float{SHAPE} x, float{SHAPE} z) => (float{SHAPE} y) {{ y = Sub (z, x) }}"))
    assert only(graph, Add).op.minus
    assert left_alone(canonical_elementwise, untyped(f"g (float{SHAPE} x) => (float{SHAPE} y) {{ y = Sub (x, x) }}"))


WRONG = {
    "'var' has shape [4]; it must be [3]": ("BatchNormalization (x, s, o, m, var)", np.ones(4, np.float32)),
    "a variance plus epsilon is -1; it must be above 0": (
        "BatchNormalization <epsilon=0.0> (x, s, o, m, var)",
        np.full(3, -1, np.float32),
    ),
}


@pytest.mark.parametrize("message", WRONG)
def test_constants_that_cannot_be_are_named(message):
    """numpy would give NaN, or an error without the node."""
    node, wrong = WRONG[message]
    graph = untyped(f"g (float{SHAPE} x) => (float{SHAPE} y) {{ y = {node} }}", dict.fromkeys(("s", "o", "m", "var"), (3,)))
    with pytest.raises(ModelError) as caught:
        canonical_elementwise(replace(graph, constants={**graph.constants, "var": wrong}))
    assert message in str(caught.value)
