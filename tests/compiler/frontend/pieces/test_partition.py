"""Which nodes run where, and in which pieces: examples by hand, from the neighbours of each operator."""

import random
from dataclasses import replace

import numpy as np
import pytest

from cnna.compiler.frontend.onnx_import import to_graph
from cnna.compiler.frontend.pieces import support
from cnna.compiler.frontend.pieces.partition import ISLAND, check_without_cpu, cut, placed
from cnna.compiler.graph.editor import outputs_of
from cnna.compiler.graph.float_ops import Conv, Onnx, Reshape, Transpose
from cnna.compiler.graph.ir import Graph, Node, Tensor, Window
from cnna.compiler.passes.pipeline import REWRITES, run_passes
from cnna.spec.errors import ModelError
from cnna.spec.manifest import ACCELERATOR, CPU

from ...written import Constant, written

WEIGHTS: dict[str, Constant] = {"w": (3, 3, 1, 1), "v": (3, 3, 1, 1), "two": np.full(1, 2, np.float32)}


def graph_of(nodes: str, *outputs: str) -> Graph:
    text = f"g (float[N,3,4,4] x) => ({', '.join(f'float[N,?,?,?] {name}' for name in outputs)}) {{ {nodes} }}"
    return run_passes(to_graph(written(text, WEIGHTS)), REWRITES)


def pieces_of(nodes: str, *outputs: str):
    """The kind and the names of the nodes of each piece, and the pieces."""
    graph = graph_of(nodes, *outputs)
    pieces = cut(graph, placed(graph, support.limit))
    return [(piece.kind, [node.name.split(":")[-1] for node in piece.graph.nodes]) for piece in pieces], pieces


def test_a_whole_graph_is_one_piece():
    found, _ = pieces_of("a = Conv (x, w) y = MaxPool <kernel_shape=[2,2]> (a)", "y")
    assert found == [(ACCELERATOR, ["a", "y"])]


def test_a_node_in_the_middle_cuts():
    """The pool before the first sigmoid could run, but no convolution is joined to it: the crossings would cost more."""
    nodes = """p = MaxPool <kernel_shape=[1,1]> (x) q = Sin (p) a = Conv (q, w) b = Atan (a)
        c = GlobalAveragePool (b) y = Conv (c, v)"""
    found, pieces = pieces_of(nodes, "y")
    assert found == [(CPU, ["p", "q"]), (ACCELERATOR, ["a"]), (CPU, ["b"]), (ACCELERATOR, ["c", "y"])]
    assert [piece.graph.outputs for piece in pieces] == [("q",), ("a",), ("b",), ("y",)]
    found, _ = pieces_of(nodes.replace("y = Conv (c, v)", "y = Relu (c)"), "y")
    assert found == [(CPU, ["p", "q"]), (ACCELERATOR, ["a"]), (CPU, ["b", "c"])]


def test_branches_of_one_depth_share_a_piece():
    """Three heads of a detector must be one crossing, not three."""
    nodes = "a = Conv (x, w) b = Conv (a, v) s = Sin (a) t = Atan (b) y = Conv (s, w) z = Conv (t, v)"
    found, pieces = pieces_of(nodes, "y", "z")
    assert found == [(ACCELERATOR, ["a", "b"]), (CPU, ["s", "t"]), (ACCELERATOR, ["y", "z"])]
    assert pieces[1].graph.inputs == ("a", "b")


def test_two_tails_and_an_output_of_the_accelerator():
    found, pieces = pieces_of("a = Conv (x, w) y = Sin (a) z = Conv (a, v) t = Softmax (z)", "y", "z", "t")
    assert found == [(ACCELERATOR, ["a", "z"]), (CPU, ["y", "t"])]
    assert pieces[0].graph.outputs == ("a", "z")
    assert pieces[1].graph.outputs == ("y", "t")


def test_a_tail_may_read_the_input():
    """With a skip around the accelerator, the tail would lack the model's input beside the accelerator's output."""
    _, pieces = pieces_of("a = Conv (x, w) s = Sin (a) y = Mul (s, x)", "y")
    assert pieces[-1].graph.inputs == ("a", "x")


def test_constants_do_not_cross():
    """A piece has its constants in it: as inputs they would have to be given to each run."""
    _, pieces = pieces_of("a = Conv (x, w) y = Mod <fmod=1> (a, two)", "y")
    assert pieces[-1].graph.inputs == ("a",)
    assert set(pieces[-1].graph.constants) == {"two"}


def test_a_model_without_a_convolution_runs_as_far_as_it_can():
    found, _ = pieces_of("a = MaxPool <kernel_shape=[2,2]> (x) y = Sin (a)", "y")
    assert found == [(ACCELERATOR, ["a"]), (CPU, ["y"])]


@pytest.mark.parametrize("seed", range(40))
def test_pieces_of_any_placement_are_in_order_and_whole(seed):
    """A piece that waited for a later one could never run; a node in no piece, or in two, would give another answer."""
    rng = random.Random(seed)
    names, lines = ["x"], []
    for number in range(12):
        a, b = rng.choice(names), rng.choice(names)
        lines.append(f"n{number} = Add ({a}, {b})" if rng.random() < 0.6 else f"n{number} = Conv ({a}, w)")
        names.append(f"n{number}")
    graph = graph_of(" ".join(lines), *(name for name in names[-3:]))
    pieces = cut(graph, {node.output: rng.choice([None, "drawn"]) for node in graph.nodes})
    known = set(graph.inputs)
    for before, piece in zip([None, *pieces], pieces, strict=False):
        assert set(piece.graph.inputs) <= known
        assert before is None or before.kind != piece.kind
        known |= {name for node in piece.graph.nodes for name in outputs_of(node)}
    assert sorted(node.output for piece in pieces for node in piece.graph.nodes) == sorted(node.output for node in graph.nodes)
    assert set(graph.outputs) <= known


def refuse(nodes: str, reason: str, constants=None) -> None:
    text = f"g (float[N,3,4,4] x) => (float[N,?,?,?] y) {{ {nodes} }}"
    graph = run_passes(to_graph(written(text, WEIGHTS | (constants or {}))), REWRITES)
    with pytest.raises(ModelError, match=reason):
        check_without_cpu(graph, placed(graph, support.limit))


def test_without_the_cpu_a_head_and_a_tail_are_left_to_it():
    graph = graph_of("q = Sin (x) a = Conv (q, w) y = Atan (a)", "y")
    check_without_cpu(graph, placed(graph, support.limit))


def test_without_the_cpu_nothing_is_refused_by_its_first_operator():
    refuse("y = Sin (x)", r"nothing in it runs on the accelerator; node 'Sin:y' \(Sin\)")


def test_without_the_cpu_an_operator_that_runs_in_another_form_is_named_first():
    """Its user can do something about it: no form of a sigmoid runs."""
    refuse("s = Sin (x) y = ReduceMean <axes=[1]> (s)", r"node 'ReduceMean:y' \(ReduceMean\).*not in this form")


def test_without_the_cpu_a_model_without_operators_is_refused():
    """Rewrites may leave nothing of it."""
    graph = graph_of("y = Sin (x)", "y")
    with pytest.raises(ModelError, match="nothing in it runs on the accelerator; it has no operators"):
        check_without_cpu(replace(graph, nodes=()), {})


SHAPE = (1, 3, 4, 4)
BETWEEN = [  # from the least likely cause to the most likely one
    (Node("add:framed", Reshape(SHAPE), ("a",), "b"), r"node 'add' \(Add\)"),
    (Node("flat", Reshape(SHAPE), ("b",), "c"), r"node 'flat' \(Flatten\)"),
    (Node("mul:view", Transpose((0, 1, 2, 3)), ("c",), "d"), r"node 'mul' \(Mul\)"),
    (Node("sin", Onnx("Sin"), ("d",), "e"), r"node 'sin' \(Sin\)"),
]


@pytest.mark.parametrize("count", range(1, 5))
def test_without_the_cpu_the_likely_cause_is_named(count):
    """A view that a rewrite has put around an operator is no cause: the message would name a Reshape that the model lacks."""
    nodes = [node for node, _ in BETWEEN[:count]]
    conv = Conv(Window(), 1, "w", "b")
    nodes = [Node("first", conv, ("x",), "a"), *nodes, Node("last", conv, (nodes[-1].output,), "y")]
    tensors = {name: Tensor(SHAPE) for name in ("x", *(node.output for node in nodes))}
    constants = {"w": np.ones((3, 3, 1, 1), np.float32), "b": np.ones(3, np.float32)}
    sources = {"first": "Conv", "last": "Conv", "add": "Add", "flat": "Flatten", "mul": "Mul", "sin": "Sin"}
    graph = Graph("g", ("x",), ("y",), tuple(nodes), tensors, constants, sources=sources)
    reasons = {node.output: "drawn" for node in nodes} | {"a": None, "y": None}
    with pytest.raises(ModelError, match=BETWEEN[count - 1][1]):
        check_without_cpu(graph, reasons)
    if count > 1:
        with pytest.raises(ModelError, match=BETWEEN[count - 2][1]):
            check_without_cpu(graph, reasons | {nodes[-2].output: ISLAND})


def test_without_the_cpu_a_convolution_of_a_tail_is_refused():
    """Its multiplications would take most of the time."""
    refuse("a = Conv (x, w) t = Atan (a) y = Conv <strides=[64,1]> (t, v)", r"Conv:y.*strides \(64, 1\).*at most 63")


@pytest.mark.parametrize(
    ("node", "reason"),
    [
        ("b = LRN <size=3> (a)", "LRN.*no such operator; replace it with BatchNormalization"),
        ('b = Resize <mode="linear"> (a, , thrice)', "Resize.*at factors 3 and 3; only 1, 2 and 4 run; .*cut the model there"),
        ('b = Resize <mode="cubic"> (a, , scales)', "Resize.*by mode cubic; use mode nearest .*or linear by 2 or 4"),
        ('b = Resize <coordinate_transformation_mode="align_corners"> (a, , , large)', r"Resize.*takes \d+ copies.*at most 64 run"),
        (
            "c = Mul (a, columns) b = Relu (c)",
            r"node .Mul:c. \(Mul\).*not in this form; operands must have equal shapes, or one hold a value for each channel",
        ),
        ("r = Reshape (a, turned) b = Relu (r)", r"node .Reshape:r. \(Reshape\).*orders elements anew.*; cut the model there"),
        ("b = Conv <strides=[64,1]> (a, w)", r"Conv.*strides \(64, 1\).*at most 63"),
        ("b = MaxPool <kernel_shape=[256,1], pads=[255,0,0,0]> (a)", "MaxPool.*256x1 is above 255"),
        ("b = AveragePool <kernel_shape=[2,2], pads=[2,0,0,0]> (a)", "AveragePool.*lies in the padding"),
        ("g2 = GlobalAveragePool (a) b = Div (a, g2)", "Div.*constant for each channel"),
    ],
)
def test_limits_are_named(node, reason):
    scales = np.array([1, 1, 2, 2], np.float32)
    constants = {
        "scales": scales,
        "thrice": np.array([1, 1, 3, 3], np.float32),
        "large": np.array([1, 3, 33, 131]),
        "columns": np.arange(4, dtype=np.float32),
        "turned": np.array([0, 3, 2, -1]),
    }
    refuse(f"a = Conv (x, w) {node} y = Conv (b, v)", reason, constants)
