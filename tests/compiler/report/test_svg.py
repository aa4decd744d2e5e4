"""The drawings hold every bar inside the frame."""

from xml.etree import ElementTree

import pytest

from cnna.compiler.compile import compile_graph
from cnna.compiler.report import report, svg
from cnna.spec.config import preset

from ... import networks
from ...agreement import artifact_of


@pytest.fixture(scope="module")
def found():
    return report.figures(artifact_of(compile_graph(networks.network(3), preset("tiny"), 2).piece()))


def rects(drawing, kind):
    return [r for r in ElementTree.fromstring(drawing).iter("rect") if r.get("class", "").split()[0] == kind]


def test_bars_are_as_long_as_the_clocks(found):
    """The eye compares lengths, so an engine's bars must be in the ratio of its clocks."""
    drawing = svg.timeline(found)
    most = max(bar[3] for bar in found["timeline"]["predicted"])
    for entry in found["engines"]:
        width = sum(float(rect.get("width")) for rect in rects(drawing, entry["engine"]))
        wanted = entry["predicted_busy_cycles"] / most * (svg.WIDTH - svg.LEFT - 10)
        assert width == pytest.approx(wanted, rel=0.05, abs=10 * svg.NARROWEST)
    assert all(float(r.get("x")) + float(r.get("width")) <= svg.WIDTH for r in ElementTree.fromstring(drawing).iter("rect"))
