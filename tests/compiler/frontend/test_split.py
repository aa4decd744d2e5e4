"""Which nodes go to head, body and tail; hand-written, from what each operator's neighbours are."""

import numpy as np
import pytest

from cnna.compiler.frontend import support
from cnna.compiler.frontend.onnx_import import to_graph
from cnna.compiler.frontend.split import split
from cnna.compiler.passes.pipeline import REWRITES, run_passes
from cnna.spec.errors import ModelError

from ..written import written

WEIGHTS = {"w": (3, 3, 1, 1), "v": (3, 3, 1, 1)}


def parts_of(nodes: str, *outputs: str):
    """The output names of the nodes of each part, and the parts."""
    text = f"g (float[N,3,4,4] x) => ({', '.join(f'float[N,?,?,?] {name}' for name in outputs)}) {{ {nodes} }}"
    parts = split(run_passes(to_graph(written(text, WEIGHTS)), REWRITES), support.limit)
    return [
        [node.name.split(":")[-1] for node in part.nodes] if part else [] for part in (parts.head, parts.body, parts.tail)
    ], parts


def test_whole_graph_is_body():
    found, _ = parts_of("a = Conv (x, w) y = MaxPool <kernel_shape=[2,2]> (a)", "y")
    assert found == [[], ["a", "y"], []]


def test_ends_go_to_the_cpu_with_all_around_them():
    """The pool before the head's sigmoid could run, but what feeds the CPU stays on it; so does what reads from it."""
    nodes = """p = MaxPool <kernel_shape=[1,1]> (x) q = Sigmoid (p) a = Conv (q, w) b = Tanh (a)
        c = GlobalAveragePool (b) y = Conv (c, v)"""
    with pytest.raises(ModelError, match="Tanh"):  # between two convolutions
        parts_of(nodes, "y")
    found, parts = parts_of(nodes.replace("y = Conv (c, v)", "y = Relu (c)"), "y")
    assert found == [["p", "q"], ["a"], ["b", "c"]]
    assert parts.head.outputs == parts.body.inputs == ("q",)
    assert parts.body.outputs == parts.tail.inputs == ("a",)


def test_two_tails_and_an_output_of_the_body():
    found, parts = parts_of("a = Conv (x, w) y = Sigmoid (a) z = Conv (a, v) t = Softmax (z)", "y", "z", "t")
    assert found == [[], ["a", "z"], ["y", "t"]]
    assert parts.body.outputs == ("a", "z")
    assert parts.tail.outputs == ("y", "t")


def test_tail_may_read_the_input():
    """A skip around the accelerator: the tail wants the model's input beside the body's output."""
    _, parts = parts_of("a = Conv (x, w) s = Sigmoid (a) y = Mul (s, x)", "y")
    assert parts.tail.inputs == ("a", "x")


def test_nothing_runs():
    with pytest.raises(ModelError, match=r"nothing in it runs on the accelerator; node 'Sigmoid:y' \(Sigmoid\)"):
        parts_of("y = Sigmoid (x)", "y")


@pytest.mark.parametrize(
    ("node", "reason"),
    [
        ("b = LRN <size=3> (a)", "LRN.*no such operator; replace it with BatchNormalization"),
        ("b = Resize (a, , scales)", "Resize.*no such operator; no operator enlarges a map; cut the model there"),
        ("b = Resize (a, , halves)", "Resize.*no such operator; use a stride"),
        (
            "c = Mul (a, columns) b = Relu (c)",
            r"node .Mul:c. \(Mul\).*not in this form; one operand must be a constant for each channel",
        ),
        ("r = Reshape (a, turned) b = Relu (r)", r"node .Reshape:r. \(Reshape\).*orders elements anew.*; cut the model there"),
        ("b = Conv <strides=[64,1]> (a, w)", r"Conv.*strides \(64, 1\).*at most 63"),
        ("b = MaxPool <kernel_shape=[256,1], pads=[255,0,0,0]> (a)", "MaxPool.*256x1 is above 255"),
        ("b = AveragePool <kernel_shape=[2,2], pads=[2,0,0,0]> (a)", "AveragePool.*lies in the padding"),
        ("g2 = GlobalAveragePool (a) b = Mul (a, g2)", "Mul.*constant for each channel"),
    ],
)
def test_limits_are_named(node, reason):
    text = f"g (float[N,3,4,4] x) => (float[N,?,?,?] y) {{ a = Conv (x, w) {node} y = Conv (b, v) }}"
    scales = np.array([1, 1, 2, 2], np.float32)
    constants = {
        "scales": scales,
        "halves": 1 / scales,
        "columns": np.arange(4, dtype=np.float32),
        "turned": np.array([0, 3, 2, -1]),
    }
    model = written(text, WEIGHTS | constants)
    with pytest.raises(ModelError, match=reason):
        split(run_passes(to_graph(model), REWRITES), support.limit)
