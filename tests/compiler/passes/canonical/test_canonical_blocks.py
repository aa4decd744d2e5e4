"""DepthToSpace and SpaceToDepth become parts."""

import pytest

from cnna.compiler.graph.float_ops import Channels, Concat, Interleave
from cnna.compiler.graph.ir import Quant
from cnna.compiler.passes.canonical.canonical_blocks import canonical_blocks

from ..alone import after, kinds, left_alone, typed, untyped

X, PART = (1, 4, 2, 3), (1, 2, 2, 3)


@pytest.mark.parametrize(("mode", "kind"), [("DCR", "Channels"), ("CRD", "Conv")])
def test_depth_to_space(mode, kind):
    """With the channels in the other order, every pixel would differ."""
    text = f'g (float[N,18,2,3] x) => (float[N,2,6,9] y) {{ y = DepthToSpace <blocksize=3, mode="{mode}"> (x) }}'
    assert kinds(after(canonical_blocks, untyped(text), 0)) == [kind] * 9 + ["Interleave"]


def test_space_to_depth():
    """The first channels must be those of the first pixel of every block."""
    text = "g (float[N,3,4,6] x) => (float[N,12,2,3] y) { y = SpaceToDepth <blocksize=2> (x) }"
    assert kinds(after(canonical_blocks, untyped(text), 0)) == ["Pixels"] * 4 + ["Concat"]


def parts(quants=None):
    """Two maps are concatenated, and taken apart at another place and at the same place."""
    nodes = [("c", Concat(), ["a", "b"], X), ("d", Channels(2), ["c"], PART), ("e", Channels(1), ["c"], PART)]
    nodes.append(("y", Concat(), ["d", "e"], X))
    return typed({"a": PART, "b": PART}, nodes, ["y"], quants=quants)


def test_channels_of_a_concat_are_its_input():
    """Interleaved convolutions must be read back as such; a part that is not a whole input must stay."""
    graph = after(canonical_blocks, parts(), 0)
    assert sorted(kinds(graph)) == ["Channels", "Concat", "Concat"]
    assert graph.nodes[-1].inputs[0] == "b"


def test_a_quantised_concat_stays():
    """Its inputs may be rounded differently."""
    assert left_alone(canonical_blocks, parts({"c": Quant(0.5, 0)}))


def test_interleaved_maps_are_read_back():
    """DepthToSpace of a Concat of four maps must become the Interleave from which it was written."""
    nodes = [(name, Channels(0), ["x"], PART) for name in "abcd"]
    graph = typed({"x": X}, [*nodes, ("y", Interleave(2), list("abcd"), (1, 2, 4, 6))], ["y"])
    assert kinds(after(canonical_blocks, graph, 0)) == ["Channels"] * 4 + ["Interleave"]
