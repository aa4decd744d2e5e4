"""Resizes that interpolate: each spelling of a factor that runs becomes a Bilinear, and all others stay and say why."""

import re
from dataclasses import replace

import numpy as np
import pytest

from cnna.compiler.frontend.pieces.support import limit
from cnna.compiler.graph.float_ops import Bilinear, Onnx
from cnna.compiler.graph.ir import Tensor
from cnna.compiler.passes.canonical.canonical_bilinear import canonical_bilinear
from cnna.compiler.passes.fold_constants import fold_constants

from ...written import rewritten, written
from ..alone import after, ints, kinds, left_alone, only, untyped


def floats(*values):
    return np.array(values, np.float32)


def interpolated(attributes, scales=(1, 1, 2, 2), sizes=None, shape="3,5,7", opset=19):
    """The graph of one linear Resize, its constants folded."""
    given, names = ({"s": ints(*sizes)}, ", , s") if sizes else ({"s": floats(*scales)}, ", s")
    line = f'y = Resize <mode="linear"{attributes}> (x, {names})'
    rank = ",".join("?" * shape.count(","))
    return fold_constants(untyped(f"g (float[N,{shape}] x) => (float[N,?,{rank}] y) {{ {line} }}", given, opset))


MODE = ', coordinate_transformation_mode="{}"'.format
FORMS = {
    "no mode": (interpolated(""), Bilinear((2, 2), True)),
    "pytorch": (interpolated(MODE("pytorch_half_pixel"), (1, 1, 4, 2)), Bilinear((4, 2), True)),
    "symmetric": (interpolated(MODE("half_pixel_symmetric"), (1, 1, 1, 4)), Bilinear((1, 4), True)),
    "asymmetric": (interpolated(MODE("asymmetric"), (1, 1, 4, 4)), Bilinear((4, 4), False)),
    "sizes": (interpolated(", axes=[2, 3]", sizes=(10, 28)), Bilinear((2, 4), True)),
    "axes": (interpolated(", axes=[3]", (2,)), Bilinear((1, 2), True)),
    "one axis": (interpolated("", (1, 1, 4), shape="3,7"), Bilinear((1, 4), True)),
    "opset 11": (interpolated(MODE("asymmetric"), opset=11), Bilinear((2, 2), False)),
}
STAYS = {
    "another factor": (interpolated("", (1, 1, 3, 2)), "factors 3 and 2; only 1, 2 and 4 run"),
    "smaller": (interpolated("", (1, 1, 0.5, 0.5)), r"factors 0\.5 and 0\.5"),
    "no whole factor": (interpolated("", sizes=(1, 3, 10, 15)), r"factors 2 and 2\.143"),
    "corners": (interpolated(MODE("align_corners")), "align_corners; only half_pixel and asymmetric"),
    "antialias": (interpolated(", antialias=1"), "antialias"),
    "channels": (interpolated("", (1, 2, 2, 2)), "between channels"),
    "policy": (interpolated(', keep_aspect_ratio_policy="not_larger"', sizes=(1, 3, 10, 14)), "follow from a policy"),
}


@pytest.mark.parametrize("form", FORMS)
def test_forms(form):
    """Another factor, or the other kind of coordinates, would give another map."""
    graph, op = FORMS[form]
    made = after(canonical_bilinear, graph)
    assert only(made, Bilinear).op == op


@pytest.mark.parametrize("form", STAYS)
def test_stays(form):
    """The CPU computes these; the reason must name what does not run, for the user to change it."""
    graph, reason = STAYS[form]
    assert left_alone(canonical_bilinear, graph)
    (node,) = graph.nodes
    assert re.search(reason, limit(node, graph))


def test_other_modes_say_so():
    """Cubic weights do not come as whole numbers below 128 on two taps."""
    graph = fold_constants(
        untyped('g (float[N,3,5,7] x) => (float[N,?,?,?] y) { y = Resize <mode="cubic"> (x, , s) }', {"s": floats(1, 1, 2, 2)}, 19)
    )
    assert left_alone(canonical_bilinear, graph)
    assert limit(graph.nodes[0], graph) == "it interpolates by mode cubic"


def test_int8_elements_stay():
    """onnxruntime drops fractions where it interpolates int8; a Bilinear rounds them."""
    graph = interpolated("")
    whole = replace(graph, types={"x": "int8", "y": "int8"})
    assert left_alone(canonical_bilinear, whole)


def test_nothing_to_do_is_nothing():
    """A pass over the map would cost clocks."""
    assert kinds(after(canonical_bilinear, interpolated("", (1, 1, 1, 1)))) == ["Identity"]


@pytest.mark.parametrize("mode", ["half_pixel", "pytorch_half_pixel", "asymmetric"])
def test_what_is_written_back_computes_the_same(mode):
    """`cnna quantize` writes it as ONNX again; `rewritten` compares onnxruntime's answers before and behind."""
    for size, shape in ((ints(1, 2, 10, 28), "1,2,5,7"), (ints(1, 2, 20, 1), "1,2,5,1"), (ints(1, 2, 1, 4), "1,2,1,2")):
        text = f'g (float[{shape}] x) => (float[1,2,?,?] y) {{ y = Resize <mode="linear"{MODE(mode)}> (x, , , size) }}'
        assert rewritten(written(text, {"size": size}, 18))[1] == ["Bilinear"]


def test_a_map_of_unknown_size_stays():
    """Its edges are not known."""
    graph = interpolated("")
    graph = replace(graph, tensors={**graph.tensors, "x": Tensor((1, 3, 0, 7))})
    assert isinstance(graph.nodes[0].op, Onnx)
    assert left_alone(canonical_bilinear, graph)
