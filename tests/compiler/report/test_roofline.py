"""The roofline holds every layer inside the frame, with numbers that do not cover each other."""

from itertools import combinations
from xml.etree import ElementTree

import numpy as np
import pytest

from cnna.compiler.compile import compile_graph
from cnna.compiler.graph import ir
from cnna.compiler.report import report, roofline
from cnna.compiler.report.labels import Rectangle
from cnna.compiler.report.svg import LEFT, WIDTH
from cnna.spec.config import preset

from ... import networks
from ...agreement import artifact_of
from ...graph_builder import Builder


@pytest.fixture(scope="module")
def found():
    return report.figures(artifact_of(compile_graph(networks.network(3), preset("tiny"), 2).piece()))


def test_the_roofline_has_each_layer_with_macs_once(found):
    """The layer that is left out would be the one that somebody looks for."""
    drawing = ElementTree.fromstring(roofline.roofline(found))
    circles = list(drawing.iter("circle"))
    assert len(circles) == sum(1 for layer in found["layers"] if layer["macs"])
    assert all(LEFT <= float(c.get("cx")) <= WIDTH for c in circles)
    assert all(0 <= float(c.get("cy")) <= roofline.HEIGHT for c in circles)


def test_layers_beside_the_array_lie_under_the_vector_engines_roof():
    """Depthwise layers that work while the array has others' commands have few clocks of their own: they would lie too high."""
    builder = Builder(np.random.default_rng(1), "mobile")
    x = builder.conv(builder.input(3, 24, 24), 16, ir.Window())
    for _ in range(3):
        x = builder.conv(builder.depthwise(x, ir.Window((3, 3), pads=(1, 1, 1, 1))), 32, ir.Window())
    found = report.figures(artifact_of(compile_graph(builder.graph(x), preset("tiny"), 1).piece()))
    roofs = {"conv": found["macs_per_cycle"], "vector": found["vector_macs_per_cycle"]}
    spots = [(layer["engine"], roofline.point(layer, "predicted")) for layer in found["layers"]]
    assert [engine for engine, _ in spots].count("vector") == 3
    assert all(spot and spot[1] <= roofs[engine] for engine, spot in spots)
    assert roofline.vector_roof(found) == roofs["vector"]


def test_equal_layers_share_a_label(found):
    """Repeated blocks have equal layers, whose numbers would lie on top of each other."""
    layer = max(found["layers"], key=lambda layer: layer["macs"])
    assert numbers(roofline.roofline({**found, "layers": [layer] * 8})) == ["1, 2, 3, 4, 5, 6, 7, 8"]


def test_numbers_are_those_of_the_most_clocks_and_cover_no_name(found):
    """A number on the name of the array's roof could not be read, and good layers lie there."""
    peak, layer = found["macs_per_cycle"], max(found["layers"], key=lambda layer: layer["macs"])
    clocks = [layer["macs"] / peak * (1 + n / 9) for n in range(20)]
    layers = [{**layer, "predicted_cycles": each, "predicted_busy": {layer["engine"]: each}} for each in clocks]
    drawing = roofline.roofline({**found, "layers": layers})
    shown = {int(word) for words in numbers(drawing) for word in words.split(", ")}
    assert shown
    assert shown <= set(range(13, 21))
    width, height = roofline.LETTER
    texts = [e for e in ElementTree.fromstring(drawing).iter("text") if e.get("class") in ("small", "right")]
    boxes = []
    for element in texts:
        x, y, across = float(element.get("x")), float(element.get("y")), width * len(element.text)
        left = x - across if element.get("class") == "right" else x
        boxes.append(Rectangle(left, y - height + 3, left + across, y + 2))
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))


def numbers(drawing):
    return [element.text for element in ElementTree.fromstring(drawing).iter("text") if element.get("class") == "small"]
