"""DepthToSpace and SpaceToDepth become parts."""

import pytest

from cnna.compiler.graph.float_ops import Add, Channels, Clip, Concat, Interleave, Onnx
from cnna.compiler.passes.canonical.canonical_blocks import canonical_blocks

from ..alone import after, kinds, left_alone, typed, untyped

X, PART = (1, 4, 4, 3), (1, 2, 4, 3)


@pytest.mark.parametrize(("mode", "kind"), [("DCR", "Channels"), ("CRD", "Conv")])
def test_depth_to_space(mode, kind):
    """With the channels in the other order, every pixel would differ."""
    text = f'g (float[N,18,2,3] x) => (float[N,2,6,9] y) {{ y = DepthToSpace <blocksize=3, mode="{mode}"> (x) }}'
    assert kinds(after(canonical_blocks, untyped(text), 0)) == [kind] * 9 + ["Interleave"]


def test_space_to_depth():
    """The first channels must be those of the first pixel of every block."""
    text = "g (float[N,3,4,6] x) => (float[N,12,2,3] y) { y = SpaceToDepth <blocksize=2> (x) }"
    assert kinds(after(canonical_blocks, untyped(text), 0)) == ["Pixels"] * 4 + ["Concat"]


UNKNOWN = {
    "rank before": ((), (1, 2, 4, 6)),
    "rank after": ((1, 8, 2, 3), ()),
    "size": ((1, 8, 0, 3), (1, 2, 0, 6)),
    "several samples": ((3, 8, 2, 3), (3, 2, 4, 6)),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_maps_of_unknown_size_stay(name):
    """The parts are maps of one sample, whose rows and columns are counted."""
    before, made = UNKNOWN[name]
    op = Onnx("DepthToSpace", {"blocksize": 2})
    assert left_alone(canonical_blocks, typed({"x": before}, [("y", op, ["x"], made)], ["y"]))


STAYS = {
    "blocks of one pixel": "g (float[N,4,2,2] x) => (float[N,4,2,2] y) { y = DepthToSpace <blocksize=1> (x) }",
    "integers": "g (int64[N,4,2,2] x) => (int64[N,1,4,4] y) { y = DepthToSpace <blocksize=2> (x) }",
    "another kind": "g (float[N,4,2,2] x) => (float[N,4,2,2] y) { y = Relu (x) }",
}


@pytest.mark.parametrize("name", STAYS)
def test_stays(name):
    """The accelerator has no integers of the model, and a map with nothing between its pixels needs no kernel of its own."""
    assert left_alone(canonical_blocks, untyped(STAYS[name]))


def test_blocks_of_another_domain_stay():
    """They may be counted in another order."""
    op = Onnx("DepthToSpace", {"blocksize": 2}, "com.example")
    assert left_alone(canonical_blocks, typed({"x": (1, 8, 2, 3)}, [("y", op, ["x"], (1, 2, 4, 6))], ["y"]))


def parts(joined=None, *chosen):
    """Two maps are concatenated, and parts of that are taken: (first channel, number of channels)."""
    nodes = [("c", joined or Concat(), ["a", "b"], X)]
    nodes += [(f"{first}", Channels(first), ["c"], (1, count, *X[2:])) for first, count in chosen]
    names = [output for output, *_ in nodes[1:]]
    nodes.append(("y", Concat(), names, (1, sum(count for _, count in chosen), *X[2:])))
    return typed({"a": PART, "b": PART}, nodes, ["y"])


JOINED = {"typed": Concat(), "axis 1": Onnx("Concat", {"axis": 1}), "axis from the end": Onnx("Concat", {"axis": -3})}


@pytest.mark.parametrize("name", JOINED)
def test_channels_of_a_concat_are_its_input(name):
    """Interleaved convolutions must be read back as such; a part that is not a whole input must stay."""
    graph = after(canonical_blocks, parts(JOINED[name], (2, 2), (1, 2), (0, 1)), 0)
    assert sorted(kinds(graph)) == ["Channels", "Channels", "Concat", "Concat"]
    assert graph.nodes[-1].inputs == ("b", "1", "0")


OTHERS = {
    "rows": typed({"a": PART, "b": PART}, [("c", Onnx("Concat", {"axis": 2}), ["a", "b"], (1, 2, 8, 3)),
                  ("d", Channels(0), ["c"], PART), ("y", Clip(0.0), ["d"], PART)], ["y"]),
    "another domain's": parts(Onnx("Concat", {"axis": 1}, "com.example"), (2, 2), (0, 2)),
    "another kind": parts(Onnx("Softmax", {"axis": 1}), (2, 2), (0, 2)),
    "typed, another kind": parts(Add(), (2, 2), (0, 2)),
    "shown": typed({"a": PART, "b": PART}, [("c", Concat(), ["a", "b"], X), ("y", Channels(2), ["c"], PART)], ["y"]),
    "constant": typed({"x": PART}, [("c", Onnx("Concat", {"axis": 1}), ["x", "w"], X), ("d", Channels(2), ["c"], PART),
                      ("y", Clip(0.0), ["d"], PART)], ["y"], {"w": PART}),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_other_choices_of_channels_stay(name):
    """They are no input of a concatenation, the model shows them, or no layer could read that input."""
    assert left_alone(canonical_blocks, OTHERS[name])


def test_interleaved_maps_are_read_back():
    """DepthToSpace of a Concat of four maps must become the Interleave from which it was written."""
    nodes = [(name, Channels(0), ["x"], PART) for name in "abcd"]
    graph = typed({"x": X}, [*nodes, ("y", Interleave(2), list("abcd"), (1, 2, 8, 6))], ["y"])
    assert kinds(after(canonical_blocks, graph, 0)) == ["Channels"] * 4 + ["Interleave"]
