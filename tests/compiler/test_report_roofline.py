"""The roofline holds every layer, inside of the frame, with numbers that do not cover each other."""

import re
from itertools import combinations
from xml.etree import ElementTree

import pytest

from cnna.compiler import report, report_roofline
from cnna.compiler.compile import compile_graph
from cnna.compiler.report_svg import LEFT, WIDTH
from cnna.hw.config import preset

from .. import networks
from ..agreement import artifact_of


@pytest.fixture(scope="module")
def found():
    return report.figures(artifact_of(compile_graph(networks.network(3), preset("tiny"), 2)))


def test_the_roofline_has_each_layer_with_macs_once(found):
    """A layer left out would be the one that somebody looks for."""
    drawing = ElementTree.fromstring(report_roofline.roofline(found))
    circles = list(drawing.iter("circle"))
    assert len(circles) == sum(1 for layer in found["layers"] if layer["macs"] and layer["predicted_cycles"])
    assert all(LEFT <= float(c.get("cx")) <= WIDTH for c in circles)
    assert all(0 <= float(c.get("cy")) <= report_roofline.HEIGHT for c in circles)


def test_numbers_of_equal_layers_stand_apart(found):
    """Repeated blocks have equal layers, whose numbers lay on top of each other."""
    layer = max(found["layers"], key=lambda layer: layer["macs"])
    drawing = report_roofline.roofline({**found, "layers": [layer] * 8})
    places = [tuple(map(float, at)) for at in re.findall(r'class="small" x="([\d.]+)" y="([\d.]+)"', drawing)]
    assert len(places) == 8
    for (x, y), (u, v) in combinations(places, 2):
        assert abs(x - u) >= report_roofline.LABEL[0] or abs(y - v) >= report_roofline.LABEL[1] - 0.2
