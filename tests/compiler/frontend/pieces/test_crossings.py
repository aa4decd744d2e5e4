"""Pieces that go to the CPU because the way to the accelerator and back would take longer; the seconds are summed by hand."""

import pytest

from cnna.compiler.frontend.pieces.crossings import TOO_LITTLE, cheaper, cpu_seconds, node_seconds
from cnna.compiler.frontend.pieces.partition import cut
from cnna.compiler.graph.float_ops import Clip, Conv, Onnx, Reshape
from cnna.compiler.graph.ir import Window, constants_of
from cnna.spec.config import preset
from cnna.spec.host_time.end_to_end import ELEMENT_SECONDS, MAC_SECONDS, NODE_SECONDS, PIECE_SECONDS, VIEW_SECONDS, crossing_seconds
from cnna.spec.manifest import ACCELERATOR, CPU

from ...passes.alone import typed

CONFIG = preset("tiny")
MAP = (1, 100, 1, 1)
ONE_SECONDS = NODE_SECONDS + 2 * 100 * ELEMENT_SECONDS  # of an operator that has no multiplications
ENOUGH = int(crossing_seconds(1, 2 * 100) / ONE_SECONDS) + 1  # of them take the CPU longer than a start of the accelerator
CONV, SMALL = Conv(Window(), 1, "w", "b"), Conv(Window(), 50, "v", "b")
CONSTANTS = {"w": (100, 100, 1, 1), "v": (100, 2, 1, 1), "b": (100,)}


def chain(*pieces):
    """A graph of operators one after another, and who runs them: lists the accelerator, operators alone the CPU."""
    nodes, reasons, source = [], {}, "x"
    for number, piece in enumerate(pieces):
        for place, op in enumerate(piece if isinstance(piece, list) else [piece]):
            output = f"{number}.{place}"
            nodes.append((output, op, [source], MAP))
            reasons[output] = None if isinstance(piece, list) else "drawn"
            source = output
    used = {name for _, op, _, _ in nodes for name in constants_of(op)}
    return typed({"x": MAP}, nodes, [source], {name: CONSTANTS[name] for name in used}), reasons


def moved(*pieces):
    """Numbers of the pieces that go to the CPU in the end."""
    graph, reasons = chain(*pieces)
    found = cheaper(CONFIG)(graph, reasons)
    assert {name for name in reasons if found[name] != reasons[name]} == {name for name in reasons if found[name] == TOO_LITTLE}
    return sorted({int(name.split(".")[0]) for name in reasons if found[name] == TOO_LITTLE})


def test_seconds_of_the_cpu():
    """A call of the piece, a call of each operator, what it reads and writes, and its multiplications."""
    graph, reasons = chain([CONV, Clip(0.0)], Onnx("Sin"))
    elements, macs = 100, 100 * 100
    conv = NODE_SECONDS + 2 * elements * ELEMENT_SECONDS + macs * MAC_SECONDS
    assert node_seconds(graph.nodes[0], graph) == pytest.approx(conv)
    first, second = cut(graph, reasons)
    assert (first.kind, second.kind) == (ACCELERATOR, CPU)
    assert cpu_seconds(first, views=False) == pytest.approx(PIECE_SECONDS + conv + NODE_SECONDS + 2 * elements * ELEMENT_SECONDS)
    assert cpu_seconds(second, views=False) == pytest.approx(PIECE_SECONDS + NODE_SECONDS + 2 * elements * ELEMENT_SECONDS)
    assert cpu_seconds(second, views=True) == pytest.approx(VIEW_SECONDS)


def test_constants_take_no_time_to_move():
    """They stay in the CPU's memory, and have no shape in the graph."""
    graph = typed({"x": MAP}, [("y", Onnx("Mul"), ["x", "b"], MAP)], ["y"], {"b": (100, 1, 1)})
    assert node_seconds(graph.nodes[0], graph) == pytest.approx(NODE_SECONDS + 2 * 100 * ELEMENT_SECONDS)


LIMIT, SIN, COS, VIEW = Clip(0.0), Onnx("Sin"), Onnx("Cos"), Onnx("Squeeze")
CASES = {
    "one operator behind the CPU's": ([[CONV], SIN, [LIMIT]], [2]),
    "the only piece": ([[LIMIT], SIN], []),
    "a fiftieth of the multiplications": ([[CONV], SIN, [SMALL]], []),
    "operators that take the CPU longer, at the end": ([[CONV], SIN, [LIMIT] * ENOUGH], []),
    "the same between two pieces of the CPU": ([[CONV], SIN, [LIMIT] * ENOUGH, COS], [2]),
    "the same behind the first piece of the CPU": ([SIN, [LIMIT] * ENOUGH, COS, [CONV]], [1]),
    "the same between the CPU and a view": ([[CONV], SIN, [LIMIT] * ENOUGH, VIEW], []),
    "the same in front": ([[LIMIT] * ENOUGH, SIN, [CONV]], []),
    "one operator behind a view": ([[CONV], VIEW, [LIMIT]], [2]),
    "one operator behind a typed view": ([[CONV], Reshape(MAP), [LIMIT]], [2]),
    "one operator too few": ([[CONV], SIN, [LIMIT] * (ENOUGH - 1)], [2]),
    "two small pieces": ([[CONV], SIN, [LIMIT], COS, [LIMIT]], [2, 4]),
    "nothing but small pieces": ([[LIMIT], SIN, [LIMIT, LIMIT]], [0]),
}


@pytest.mark.parametrize("name", CASES)
def test_pieces_that_go_to_the_cpu(name):
    """A crossing that costs more than it gains makes a model slower than it was; a piece too many on the CPU does as well."""
    pieces, expected = CASES[name]
    assert moved(*pieces) == expected
