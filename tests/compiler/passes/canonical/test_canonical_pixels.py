"""Selections of pixels and channels: each spelling becomes one typed operator that selects the same, or stays as it is."""

import numpy as np
import pytest

from cnna.compiler.frontend.pieces import support
from cnna.compiler.graph.even_runs import even_runs
from cnna.compiler.graph.float_ops import Channels, Conv, Onnx, Pixels
from cnna.compiler.passes.canonical.canonical_pixels import canonical_pixels
from cnna.compiler.passes.fold_constants import fold_constants

from ...written import rewritten, written
from ..alone import after, ints, kinds, left_alone, only, typed, untyped

MODES = ("asymmetric", "half_pixel", "pytorch_half_pixel", "align_corners")
ROUNDINGS = ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")


def chosen(line, constants, shape="6,5,7"):
    """The graph of one ONNX operator on a map, its constants folded."""
    return fold_constants(untyped(f"g (float[N,{shape}] x) => (float[N,?,?,?] y) {{ {line} }}", constants, 19))


@pytest.mark.parametrize(
    ("line", "constants", "found"),
    [
        ("y = Slice (x, st, en, ax, sp)", {"st": ints(1, -1), "en": ints(5, -99), "ax": ints(2, 3), "sp": ints(2, -1)}, ["Pixels"]),
        ("y = Slice (x, st, en, ax)", {"st": ints(2, 1), "en": ints(99, 4), "ax": ints(1, 3)}, ["Channels", "Pixels"]),
        ("y = Slice (x, st, en, ax, sp)", {"st": ints(0), "en": ints(6), "ax": ints(1), "sp": ints(3)}, ["Conv"]),
        ("y = Gather <axis=1> (x, order)", {"order": ints(5, -6, 3)}, ["Conv"]),
        ("y = Gather <axis=-2> (x, order)", {"order": ints(0, 4, 4, 1)}, ["Pixels"]),
        ('y = Pad <mode="reflect"> (x, w)', {"w": ints(0, 0, 2, 1, 0, 0, 0, 3)}, ["Pixels"]),
        ('y = Pad <mode="edge"> (x, w, , ax)', {"w": ints(2, 1), "ax": ints(3)}, ["Pixels"]),
        ("y = Slice (x, st, en)", {"st": ints(0, 0), "en": ints(9, 9)}, ["Identity"]),
    ],
)
def test_spellings(line, constants, found):
    """With another order of axes, negative starts, or steps that go back, the wrong pixel would be selected."""
    assert kinds(after(canonical_pixels, chosen(line, constants), 0)) == found


ALONG = {
    "columns of one row": ("6,8", "y = Slice (x, st, en, ax, sp)", {"st": ints(1), "en": ints(7), "ax": ints(2), "sp": ints(3)}),
    "elements of a vector": ("6", "y = Slice (x, st, en, ax)", {"st": ints(2), "en": ints(5), "ax": ints(-1)}),
    "steps of 1": (
        "6,5,7",
        "y = Slice (x, st, en, ax, sp)",
        {"st": ints(1, 1), "en": ints(5, 9), "ax": ints(2, 3), "sp": ints(1, 1)},
    ),
    "wrapped": ("6,5,7", 'y = Pad <mode="wrap"> (x, w)', {"w": ints(0, 0, 2, 1, 0, 0, 0, 3)}),
    "no axes": ("6,5,7", 'y = Pad <mode="edge"> (x, w, , )', {"w": ints(0, 0, 2, 1, 0, 0, 0, 3)}),
    "from the end": ("6,5,7", 'y = Pad <mode="edge"> (x, w, , ax)', {"w": ints(2, 1), "ax": ints(-1)}),
    "as wide as the map": ("6,5,7", 'y = Pad <mode="reflect"> (x, w)', {"w": ints(0, 0, 4, 0, 0, 0, 0, 6)}),
    "the last one": ("6,5,7", "y = Gather <axis=2> (x, i)", {"i": ints(4, -5)}),
}


@pytest.mark.parametrize("name", ALONG)
def test_places_along_an_axis(name):
    """Fewer axes, or ends of the map: an axis too far would choose among other elements, or leave the choice to the CPU."""
    shape, line, constants = ALONG[name]
    text = f"g (float[N,{shape}] x) => (float[N{',?' * len(shape.split(','))}] y) {{ {line} }}"
    found = {*kinds(after(canonical_pixels, fold_constants(untyped(text, constants, 19)), 0))}
    assert found <= {"Pixels", "Channels", "Reshape"}


MAP = (1, 6, 5, 7)


def computed(op, inputs, shape):
    """A graph in which z, an input, says what is chosen."""
    return typed({"x": MAP, "z": (8,)}, [("y", op, ["x", *inputs], shape)], ["y"])


STAYS = {
    "starts that are computed": computed(Onnx("Slice"), ["z", "z", "z"], (1, 6, 2, 7)),
    "indices that are computed": computed(Onnx("Gather", {"axis": 1}), ["z"], (1, 2, 5, 7)),
    "widths that are computed": computed(Onnx("Pad", {"mode": "edge"}), ["z"], (1, 6, 7, 7)),
    "sizes that are computed": computed(Onnx("Resize"), ["", "", "z"], (1, 6, 10, 14)),
    "an index below the first": chosen("y = Gather <axis=1> (x, i)", {"i": ints(0, -7)}),
    "an index beyond the last": chosen("y = Gather <axis=1> (x, i)", {"i": ints(0, 6)}),
    "an edge cut off": chosen('y = Pad <mode="edge"> (x, w)', {"w": ints(0, 0, -1, 0, 0, 0, 1, 0)}),
    "wider than the map": chosen('y = Pad <mode="edge"> (x, w)', {"w": ints(0, 0, 5, 0, 0, 0, 0, 0)}),
    "samples": typed({"x": MAP}, [("y", Onnx("Gather"), ["x", "i"], (2, 6, 5, 7))], ["y"], {"i": ints(0, 0)}),
    "integers": untyped("g (int64[N,6] x) => (int64[N,2] y) { y = Gather <axis=1> (x, i) }", {"i": ints(5, 3)}),
    "a constant's": untyped("g (float[N,2] x) => (float[N,2] y) { c = Gather <axis=1> (w, i) y = Add (x, c) }",
                            {"w": (1, 6), "i": ints(5, 3)}),
    "five axes": untyped("g (float[N,6,2,3,4] x) => (float[N,2,2,3,4] y) { y = Gather <axis=1> (x, i) }", {"i": ints(5, 3)}),
    "axes of unknown size": typed({"x": (1, 6, 0, 7)}, [("y", Onnx("Gather", {"axis": 1}), ["x", "i"], (1, 2, 0, 7))], ["y"],
                                  {"i": ints(0, 3)}),
    "an output of unknown size": typed({"x": MAP}, [("y", Onnx("Gather", {"axis": 1}), ["x", "i"], (1, 0, 5, 7))], ["y"],
                                       {"i": ints(0, 3)}),
}  # fmt: skip


@pytest.mark.parametrize("name", STAYS)
def test_stays(name):
    """What is chosen is not known, or not there, or no real values of one sample."""
    assert left_alone(canonical_pixels, STAYS[name])


@pytest.mark.parametrize("mode", MODES)
def test_resize_takes_the_pixels_that_onnxruntime_takes(mode):
    """In every mode that is said to run, at whole, half and uneven factors, the pixels must be onnxruntime's; unsure ones stay."""
    rng, typed = np.random.default_rng(5), 0
    for rounding in ROUNDINGS:
        for _ in range(4):
            size = ints(1, 2, int(rng.choice([5, 10, 15, 8, 13])), int(rng.choice([7, 14, 21, 4])))
            how = f'coordinate_transformation_mode="{mode}", nearest_mode="{rounding}"'
            text = f"g (float[1,2,5,7] x) => (float[1,2,?,?] y) {{ y = Resize <{how}> (x, , , size) }}"
            typed += "Pixels" in rewritten(written(text, {"size": size}, 18))[1]
    assert typed > 3


def test_a_resize_between_pixels_stays():
    """Linear and cubic modes compute new values."""
    graph = chosen('y = Resize <mode="linear"> (x, , scales)', {"scales": np.array([1, 1, 2, 2], np.float32)})
    assert left_alone(canonical_pixels, graph)


def test_a_coordinate_near_a_border_is_not_guessed():
    """At a scale of 0.3, row 3 is row 10 or, exactly, 9.9999996. float32 decides that, so the pass must not."""
    how = 'coordinate_transformation_mode="asymmetric", nearest_mode="floor"'
    graph = chosen(f"y = Resize <{how}> (x, , scales)", {"scales": np.array([1, 1, 0.3, 1], np.float32)}, "2,40,3")
    assert left_alone(canonical_pixels, graph)


def test_fields():
    """The lowering would read a wrong first channel of a block, or wrong rows."""
    parts = {"st": ints(2, 1), "en": ints(5, 4), "ax": ints(1, 2)}
    graph = after(canonical_pixels, chosen("y = Slice (x, st, en, ax)", parts), 0)
    assert only(graph, Channels).op == Channels(2)
    assert only(graph, Pixels).op == Pixels((1, 2, 3), tuple(range(7)))
    other = after(canonical_pixels, chosen("y = Gather <axis=1> (x, order)", {"order": ints(1, 0)}), 0)
    conv = only(other, Conv).op
    assert (other.constants[conv.weight_scale] == 1).all()


@pytest.mark.parametrize(
    ("rows", "count"),
    [
        ([0, 0, 1, 1, 2, 2], 2),
        ([0, 1, 1, 2, 3, 3, 4, 5, 5], 3),
        ([3], 1),
        ([1, 3, 5], 1),
        ([2, 1, 0, 1, 2, 3, 2], 4),
        ([0, 0, 0, 1, 2, 2], 4),
    ],
)
def test_even_runs_make_the_rows(rows, count):
    """Alternating runs for a Resize, consecutive runs for a Pad: either must give every row once."""
    runs, made = even_runs(rows), {}
    for run in runs:
        made |= {run.at + n * run.apart: run.first + n * run.step for n in range(run.count)}
    assert [made[at] for at in range(len(rows))] == rows
    assert len(runs) == count
    assert sum(run.count for run in runs) == len(rows)


@pytest.mark.parametrize(
    ("sizes", "refused"),
    [((16, 12), [False] * 2), ((16, 8), [False]), ((8, 12), [False]), ((8, 131), [True]), ((16, 131), [False, True])],
)
def test_more_copies_than_may_run_are_made_in_two_steps(sizes, refused):
    """Rows and columns that do not repeat evenly take a copy for each pair of runs, and the accelerator would refuse the Resize."""
    how = 'mode="nearest", coordinate_transformation_mode="align_corners", nearest_mode="floor"'
    text = f"g (float[1,5,8,4] x) => (float[1,5,h,w] y) {{ y = Resize <{how}> (x, , , size) }}"
    graph, found = rewritten(written(text, {"size": np.array([1, 5, *sizes])}, 19))
    assert found == ["Pixels"] * len(refused)
    limits = [support.limit(node, graph) for node in graph.nodes]
    assert ["copies" in (limit or "") for limit in limits] == refused
