"""An Add becomes the residual of a convolution."""

from dataclasses import replace

import pytest

from cnna.compiler.graph.ir import Combine, Maximum, Tensor
from cnna.compiler.passes.fusion.fuse_residual import fuse_residual

from ..alone import kinds, left_alone
from ..int8_graphs import COPY, QUANT, SHAPE, conv, exact, int8_graph

ADD = Combine(3 << 12, 1 << 14, 77, 15, COPY.out)


@pytest.mark.parametrize("operands", [["a", "x"], ["x", "a"]])
def test_add_is_the_convolutions_residual(operands):
    """Inside, the convolution is the first operand: if it was the second, the factors must change places."""
    changed = exact(fuse_residual, int8_graph([conv("a", "x"), ("y", ADD, operands)], ["y"]))
    assert kinds(changed) == ["Conv"]
    assert changed.nodes[0].inputs == ("x", "x")
    expected = (ADD.factor_a, ADD.factor_b) if operands[0] == "a" else (ADD.factor_b, ADD.factor_a)
    assert (changed.nodes[0].op.residual.factor_a, changed.nodes[0].op.residual.factor_b) == expected


@pytest.mark.parametrize("order", [["a", "b", "c"], ["c", "a", "b"]])
def test_the_deeper_of_two_convolutions_takes_it(order):
    """A convolution of a short branch could not run while the long branch waits, if it needed the long one's end as operand."""
    makers = {"a": conv("a", "x"), "b": conv("b", "a"), "c": conv("c", "x")}
    nodes = [*(makers[name] for name in order), ("y", ADD, ["c", "b"])]
    changed = exact(fuse_residual, int8_graph(nodes, ["y"]))
    assert kinds(changed) == ["Conv", "Conv", "Conv"]
    assert changed.nodes[-1].inputs == ("a", "c")


def test_the_later_of_two_convolutions_takes_it():
    """Of two that are equally deep, the earlier one would have to wait for an operand that is made after it."""
    nodes = [conv("a", "x"), conv("b", "x"), ("y", ADD, ["a", "b"])]
    changed = exact(fuse_residual, int8_graph(nodes, ["y"]))
    assert changed.nodes[-1].inputs == ("x", "a")


def test_convolution_has_one_residual():
    """The second Add must stay for the vector engine."""
    nodes = [conv("a", "x"), ("b", ADD, ["a", "x"]), ("y", ADD, ["b", "x"])]
    assert kinds(exact(fuse_residual, int8_graph(nodes, ["y"]))) == ["Conv", "Combine"]


STAYS = {
    "shared": ([conv("a", "x"), ("y", ADD, ["a", "x"]), conv("z", "a")], ["y", "z"]),
    "one tensor twice": ([conv("a", "x"), ("y", ADD, ["a", "a"])], ["y"]),
    "no convolution": ([("a", COPY, ["x"]), ("y", ADD, ["a", "x"])], ["y"]),
    "maximum": ([conv("a", "x"), ("y", Maximum(), ["a", "x"])], ["y"]),
    "copy": ([conv("a", "x"), ("y", COPY, ["a"])], ["y"]),
}


def test_a_flat_operand_is_no_residual():
    """The array reads a residual pixel by pixel: words behind the flat one would be added."""
    graph = int8_graph([("a", COPY, ["x"]), conv("b", "x"), ("y", ADD, ["b", "a"])], ["y"])
    graph = replace(
        graph, inputs=("x", "a"), nodes=graph.nodes[1:], tensors={**graph.tensors, "a": Tensor((SHAPE[0], 1, 1), QUANT)}
    )
    assert left_alone(fuse_residual, graph)


@pytest.mark.parametrize("name", STAYS)
def test_stays(name):
    """Folded, the convolution's own output would be missing; or there is no convolution to fold into."""
    assert left_alone(fuse_residual, int8_graph(*STAYS[name]))
