"""Element-wise nodes of one map become a Chain."""

import numpy as np
import pytest

from cnna.compiler.frontend.onnx_import import to_graph
from cnna.compiler.graph.float_ops import Chain
from cnna.compiler.passes.canonical.canonical_chains import canonical_chains
from cnna.compiler.passes.pipeline import REWRITES, run_passes

from ...pairs import with_pairs
from ...written import Constant, written
from ..alone import after, kinds, left_alone, only, untyped

SHAPE = "[N,3,4,5]"
POOL = "p = MaxPool <kernel_shape=[1,1]> (s)"
ONE: dict[str, Constant] = {
    "one": np.float32(1), "half": np.full((3, 1, 1), 0.5, np.float32), "root": np.float32(1.5), "ten": np.float32(10),
}  # fmt: skip
CASES = {
    "sigmoid": ("y = Sigmoid (x)", ["Chain"]),
    "SiLU": ("s = Sigmoid (x) y = Mul (s, x)", ["Chain"]),
    "GELU": ("d = Div (x, root) e = Erf (d) f = Add (e, one) g = Mul (x, f) y = Mul (g, half)", ["Chain"]),
    "limits and arithmetic with it": ("a = Sub (x, half) t = Tanh (a) y = Clip (t, , one)", ["Chain"]),
    "steep at first": ("a = Mul (x, ten) y = Sigmoid (a)", ["Mul", "Chain"]),
    "slope of one number": ("y = PRelu (x, half)", ["Chain"]),
    "read in the middle": (f"s = Sigmoid (x) {POOL} t = Tanh (s) y = Add (p, t)", ["Chain", "MaxPool", "Chain", "Add"]),
    "read in the middle and more": (f"s = Sigmoid (x) {POOL} t = Mul (s, x) y = Add (p, t)", ["Chain", "MaxPool", "Chain", "Add"]),
}


def float_graph(nodes: str, output: str = "y"):
    """A graph of nodes that read x; those of ONE are its constants."""
    used = {name: value for name, value in ONE.items() if f"{name})" in nodes or f"{name}," in nodes}
    return untyped(f"g (float{SHAPE} x) => (float{SHAPE} {output}) {{ {nodes} }}", used)


@pytest.mark.parametrize("name", CASES)
def test_becomes_a_chain(name):
    """Each of the nodes would run on the CPU; or a chain that ends before its last node would cost a pass and a rounding more."""
    nodes, expected = CASES[name]
    assert sorted(kinds(after(canonical_chains, float_graph(nodes)))) == sorted(expected)


def test_reads_what_is_kept_anyway():
    """A chain of the map itself would need one table more, and the map would have to stay."""
    changed = after(canonical_chains, float_graph(CASES["read in the middle"][0]))
    assert [node.inputs for node in changed.nodes if isinstance(node.op, Chain)] == [("x",), ("s",)]
    changed = after(canonical_chains, float_graph(CASES["read in the middle and more"][0]))
    assert [node.inputs for node in changed.nodes if isinstance(node.op, Chain)] == [("x",), ("x",)]


STAYS = {
    "arithmetic": "a = Mul (x, root) y = Add (a, one)",
    "limit": "y = Relu (x)",
    "hard sigmoid": "y = HardSigmoid (x)",
    "sum of one twice": "y = Add (x, x)",
    "slope of each channel": "y = PRelu (x, w)",
    "factor of each channel": "s = Mul (x, w) y = Mul (s, x)",
    "steep": "y = Exp (x)",
    "not finite": "y = Sqrt (x)",
    "jump": "y = Round (x)",
    "steep as a whole": "e = Exp (x) y = Mul (e, x)",
    "mean": "m = GlobalAveragePool (x) y = Mul (x, m)",
}


@pytest.mark.parametrize("name", STAYS)
def test_stays(name):
    """A convolution takes these for nothing, other constants would be lost, or int8 would ruin a float model unasked."""
    text = STAYS[name]
    weights = {"w": (3, 1, 1)} if " w)" in text else {}
    used = weights | {key: value for key, value in ONE.items() if f"{key})" in text}
    assert left_alone(canonical_chains, untyped(f"g (float{SHAPE} x) => (float{SHAPE} y) {{ {text} }}", used))


@pytest.mark.parametrize(
    ("nodes", "first"),
    [("b = Mul (a, two) c = Add (b, two) s = Sigmoid (c) y = Mul (s, c)", "Sigmoid"), ("r = Relu (a) y = Tanh (r)", "Tanh")],
)
def test_begins_behind_what_the_convolution_takes(nodes, first):
    """The table would be as good, but its input would be rounded over a wider range than is used."""
    text = f"g (float{SHAPE} x) => (float{SHAPE} y) {{ a = Conv <kernel_shape=[1,1]> (x, w) {nodes} }}"
    graph = run_passes(to_graph(written(text, {"w": (3, 3, 1, 1), "two": np.float32(2)})), REWRITES)
    assert kinds(graph) == ["Conv", "Chain"]
    assert graph.nodes[1].op.nodes[0].op.kind == first


def quantised(nodes: str, pairs: str, *more: str):
    """The rewritten graph of a model with Q and DQ behind these tensors. more: outputs beside y."""
    outputs = ", ".join(f"float{SHAPE} {name}" for name in ("y", *more))
    text = f"g (float{SHAPE} x) => ({outputs}) {{ a = Conv <kernel_shape=[1,1]> (x, w) {nodes} }}"
    model = with_pairs(written(text, {"w": (3, 3, 1, 1)}), dict.fromkeys(pairs.split(), (0.05, 3)), {"w": 1 / 64})
    return run_passes(to_graph(model), REWRITES)


def test_roundings_within_are_part_of_it():
    """Each would end the chain: the engines would take two passes, and could not multiply two maps at all."""
    graph = quantised("s = Sigmoid (a) y = Mul (s, a)", "x a s y")
    assert [node.op.kind if hasattr(node.op, "kind") else type(node.op).__name__ for node in only(graph, Chain).op.nodes] == [
        *("Sigmoid", "Requantise", "Mul")
    ]


def test_steep_functions_run_where_the_model_rounds():
    """Whoever quantised the model has chosen to hold both sides in int8."""
    assert only(quantised("y = Exp (a)", "x a y"), Chain).op.nodes[0].op.kind == "Exp"


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        ("x a", ["Sigmoid", "Product"]),  # nobody rounds the result
    ],
)
def test_what_is_not_rounded_stays(pairs, expected):
    """A chain of a float map has no table."""
    assert [kind for kind in kinds(quantised("s = Sigmoid (a) y = Mul (s, a)", pairs)) if kind in ("Chain", *expected)] == expected


def test_begins_at_a_sum_that_nobody_rounds():
    """Quantisers that round only what layers read would have every activation on the CPU."""
    assert only(quantised("s = Sigmoid (a) y = Mul (s, a)", "x y"), Chain).inputs == ("a",)
    shared = quantised("s = Sigmoid (a) y = Mul (s, a) z = MaxPool <kernel_shape=[1,1]> (a)", "x y", "z")
    assert "Chain" not in kinds(shared)


def test_arithmetic_behind_a_rounding():
    """No layer takes it there: it would cost a pass."""
    assert only(quantised("y = HardSigmoid (a)", "x a y"), Chain)
    assert "Chain" not in kinds(quantised("y = Relu (a)", "x a y"))


def test_begins_at_the_first_rounding():
    """With a float part in front, the part behind the rounding would be lost to the CPU as well."""
    graph = quantised("s = Softplus (a) y = Tanh (s)", "x s y")
    assert [kind for kind in kinds(graph) if kind in ("Softplus", "Tanh", "Chain")] == ["Softplus", "Chain"]


def test_rounding_behind_a_view():
    """Exporters put a Flatten between an activation and its rounding."""
    text = "g (float[N,3,4,5] x) => (float[N,60] y) { a = Conv <kernel_shape=[1,1]> (x, w) s = Tanh (a) y = Flatten (s) }"
    model = with_pairs(written(text, {"w": (3, 3, 1, 1)}), dict.fromkeys("xay", (0.05, 3)), {"w": 1 / 64})
    assert "Chain" in kinds(run_passes(to_graph(model), REWRITES))
