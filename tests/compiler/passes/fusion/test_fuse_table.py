"""A table becomes part of the operator that makes its input."""

from dataclasses import replace

import numpy as np
import pytest

from cnna.compiler.graph.ir import AveragePool, Clamp, Combine, Maximum, MaxPool, Product, Table, Window
from cnna.compiler.graph.validate import validate_integer
from cnna.compiler.passes.fusion.fuse_table import fuse_table
from cnna.compiler.passes.pipeline import INTEGER, run_passes
from cnna.sim.reference import reference
from cnna.spec.arith import factors, multiplier

from .... import networks
from ....graph_builder import Builder
from ..alone import kinds, left_alone
from ..int8_graphs import COPY, QUANT, conv, exact, int8_graph

TABLE = Table(np.random.default_rng(5).permutation(256).astype(np.uint8).tobytes())
OTHER = Table(np.random.default_rng(6).permutation(256).astype(np.uint8).tobytes())
ADD = Combine(3 << 12, 1 << 14, 77, 15, COPY.out)
SMALLER = Combine(*factors(0.6, QUANT.zero), Clamp(QUANT.zero))
POOL = Window((3, 3), pads=(1, 1, 1, 1))
MAKERS = {
    "convolution": conv("a", "x"),
    "max pool": ("a", MaxPool(POOL, SMALLER), ["x"]),
    "average pool": ("a", AveragePool(POOL, True, 1.3, QUANT.zero, COPY.out), ["x"]),
    "sum": ("a", ADD, ["x", "x"]),
    "product": ("a", Product(3, -20, *multiplier(0.02), COPY.out), ["x", "x"]),
}


@pytest.mark.parametrize("name", MAKERS)
def test_is_part_of_what_makes_its_input(name):
    """It would take a pass of its own."""
    changed = exact(fuse_table, int8_graph([MAKERS[name], ("y", TABLE, ["a"])], ["y"]))
    assert len(changed.nodes) == 1
    assert not isinstance(changed.nodes[0].op, Table)


@pytest.mark.parametrize(
    "chain",
    [
        [("b", TABLE, ["x"]), ("y", COPY, ["b"])],
        [("b", COPY, ["x"]), ("y", TABLE, ["b"])],
        [("b", TABLE, ["x"]), ("y", OTHER, ["b"])],
        [("b", SMALLER, ["x"]), ("c", TABLE, ["b"]), ("y", SMALLER, ["c"])],
    ],
)
def test_copies_and_tables_in_a_row_are_one_table(chain):
    """Each copy at another scale would take a pass of its own."""
    assert kinds(exact(fuse_table, int8_graph(chain, ["y"]))) == ["Table"]


def test_comes_before_the_residual():
    """C2f adds behind its activation: a convolution that took the sum first would have no place for the table."""
    nodes = [conv("a", "x"), ("b", TABLE, ["a"]), ("y", ADD, ["b", "x"])]
    graph = int8_graph(nodes, ["y"])
    changed = exact(lambda given: run_passes(given, INTEGER), graph)
    assert kinds(changed) == ["Conv"]
    assert changed.nodes[0].op.table == TABLE
    assert changed.nodes[0].op.residual is not None


def test_of_a_sum_leaves_the_sum_to_the_convolution():
    """A table in the sum would keep the sum from the convolution: a pass over two operands instead of one."""
    graph = int8_graph([conv("a", "x"), ("b", ADD, ["a", "x"]), ("y", TABLE, ["b"])], ["y"])
    assert kinds(exact(lambda given: run_passes(given, INTEGER), graph)) == ["Conv", "Table"]


def phased(maker=None) -> tuple[Builder, str]:
    """Four convolutions whose pixels alternate, as of a ConvTranspose; the first one's operator is changed by `maker`."""
    b = Builder(np.random.default_rng(3), "phased")
    y = b.phases(b.input(5, 6, 7), 9, [(2, 2), (2, 1), (1, 2), (1, 1)], (12, 14))
    if maker:
        b.nodes[0] = replace(b.nodes[0], op=maker(b.nodes[0].op))
    return b, y


def test_of_a_mosaic_is_part_of_all_that_make_its_parts():
    """DBNet ends in a ConvTranspose and a Sigmoid: the table would be a pass over the largest map of the network."""
    b, y = phased()
    z = b.node(TABLE, (y,), b.shape(y), 5)
    graph = b.graph()
    changed = fuse_table(graph)
    validate_integer(changed)
    assert kinds(changed) == ["Conv"] * 4 + ["Mosaic"]
    assert {node.op.table for node in changed.nodes[:4]} == {TABLE}
    assert {changed.tensors[node.output].quant.zero for node in changed.nodes} == {5}
    image = networks.inputs(graph, 2, 4)
    expected = reference.run(graph, image)[z]
    np.testing.assert_array_equal(reference.run(changed, image)[z], expected)
    assert len(np.unique(expected)) > 20


def test_of_a_mosaic_stays_if_a_part_has_no_place_for_it():
    """Some pixels would be looked up twice, or not at all: Pixels round nothing."""
    b, y = phased(lambda op: replace(op, table=OTHER))
    b.node(TABLE, (y,), b.shape(y), 5)
    assert left_alone(fuse_table, b.graph())
    b = Builder(np.random.default_rng(3), "copies")
    y = b.enlarged(b.input(5, 6, 7), (2, 2))
    b.node(TABLE, (y,), b.shape(y), 5)
    assert left_alone(fuse_table, b.graph())


STAYS = {
    "of an input": ([("y", TABLE, ["x"])], ["y"]),
    "shared": ([conv("a", "x"), ("y", TABLE, ["a"]), conv("z", "a")], ["y", "z"]),
    "of an output": ([conv("a", "x"), ("y", TABLE, ["a"])], ["a", "y"]),
    "of what rounds nothing": ([("a", COPY, ["x"]), ("b", Maximum(), ["a", "x"]), ("y", TABLE, ["b"])], ["y"]),
    "copies alone": ([conv("a", "x"), ("b", COPY, ["a"]), ("y", COPY, ["b"])], ["y"]),
    "second table": ([("a", replace(ADD, table=TABLE), ["x", "x"]), ("y", OTHER, ["a"])], ["y"]),
}


@pytest.mark.parametrize("name", STAYS)
def test_stays(name):
    """Another reader would get the table's values, or there is no place for a table."""
    assert left_alone(fuse_table, int8_graph(*STAYS[name]))
