"""The drawings hold every bar and every layer, inside of the frame, with numbers that do not cover each other."""

import re
from itertools import combinations
from xml.etree import ElementTree

import pytest

from cnna.compiler import report, report_svg
from cnna.compiler.compile import compile_graph
from cnna.hw.config import preset

from .. import networks
from ..agreement import artifact_of


@pytest.fixture(scope="module")
def found():
    return report.figures(artifact_of(compile_graph(networks.network(3), preset("tiny"), 2)))


def rects(drawing, kind):
    return [r for r in ElementTree.fromstring(drawing).iter("rect") if r.get("class", "").split()[0] == kind]


def test_bars_are_as_long_as_the_clocks(found):
    """The eye compares lengths: those of an engine must be in the ratio of its clocks."""
    drawing = report_svg.timeline(found)
    most = max(bar[3] for bar in found["timeline"]["predicted"])
    for entry in found["engines"]:
        width = sum(float(rect.get("width")) for rect in rects(drawing, entry["engine"]))
        wanted = entry["predicted_busy_cycles"] / most * (report_svg.WIDTH - report_svg.LEFT - 10)
        assert width == pytest.approx(wanted, rel=0.05, abs=10 * report_svg.NARROWEST)
    assert all(float(r.get("x")) + float(r.get("width")) <= report_svg.WIDTH for r in ElementTree.fromstring(drawing).iter("rect"))


def test_the_roofline_has_each_layer_with_macs_once(found):
    """A layer left out would be the one that somebody looks for."""
    drawing = ElementTree.fromstring(report_svg.roofline(found))
    circles = list(drawing.iter("circle"))
    assert len(circles) == sum(1 for layer in found["layers"] if layer["macs"] and layer["predicted_cycles"])
    assert all(report_svg.LEFT <= float(c.get("cx")) <= report_svg.WIDTH for c in circles)
    assert all(0 <= float(c.get("cy")) <= report_svg.HEIGHT for c in circles)


def test_numbers_of_equal_layers_stand_apart(found):
    """Repeated blocks have equal layers, whose numbers lay on top of each other."""
    layer = max(found["layers"], key=lambda layer: layer["macs"])
    drawing = report_svg.roofline({**found, "layers": [layer] * 8})
    places = [tuple(map(float, at)) for at in re.findall(r'class="small" x="([\d.]+)" y="([\d.]+)"', drawing)]
    assert len(places) == 8
    for (x, y), (u, v) in combinations(places, 2):
        assert abs(x - u) >= report_svg.LABEL[0] or abs(y - v) >= report_svg.LABEL[1] - 0.2
