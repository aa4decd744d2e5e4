"""A copy with another scale becomes the second rounding of a convolution."""

from cnna.compiler.graph.ir import Combine, MaxPool, Window
from cnna.compiler.passes.fusion.fuse_requantise import fuse_requantise
from cnna.compiler.passes.fusion.fuse_residual import fuse_residual

from ..alone import kinds, left_alone
from ..int8_graphs import COPY, conv, exact, int8_graph


def test_copy_is_the_second_rounding():
    """Both roundings must stay: a single one would give other numbers at ties."""
    graph = int8_graph([conv("a", "x"), ("y", COPY, ["a"])], ["y"])
    changed = exact(fuse_requantise, graph)
    assert kinds(changed) == ["Conv"]
    assert changed.nodes[0].op.residual == COPY


def test_copy_of_a_shared_tensor_stays():
    """The other reader needs the first rounding."""
    graph = int8_graph([conv("a", "x"), ("y", COPY, ["a"]), conv("z", "a")], ["y", "z"])
    assert left_alone(fuse_requantise, graph)


def test_copy_behind_a_residual_add_stays():
    """The convolution has only one second rounding."""
    both = Combine(1 << 14, 1 << 14, 0, 15, COPY.out)
    graph = fuse_residual(int8_graph([conv("a", "x"), ("b", both, ["a", "x"]), ("y", COPY, ["b"])], ["y"]))
    assert kinds(graph) == ["Conv", "Combine"]
    assert left_alone(fuse_requantise, graph)


def test_sums_and_pools_stay():
    """A sum has a second operand, which the second rounding of a convolution would not add here; a pool is no rounding."""
    both = Combine(1 << 14, 1 << 14, 0, 15, COPY.out)
    pool = ("y", MaxPool(Window(), COPY), ["a"])
    assert left_alone(fuse_requantise, int8_graph([conv("a", "x"), ("y", both, ["a", "x"])], ["y"]))
    assert left_alone(fuse_requantise, int8_graph([conv("a", "x"), pool], ["y"]))


def test_copy_of_what_is_no_convolution_stays():
    """Only the array has a second rounding."""
    graph = int8_graph([("a", COPY, ["x"]), ("y", COPY, ["a"])], ["y"])
    assert left_alone(fuse_requantise, graph)
