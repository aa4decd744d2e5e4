"""The network's graph on the report's page: every layer once, lines from what it reads, in its engine's colour."""

import re

import pytest

from cnna.compiler.compile import compile_graph
from cnna.compiler.report import report
from cnna.compiler.report.charts import ENGINE_COLOURS
from cnna.compiler.report.html import drawing, html
from cnna.compiler.report.network import network
from cnna.spec.config import preset

from ... import networks
from ...agreement import artifact_of


@pytest.fixture(scope="module")
def graph():
    return networks.network(3)


@pytest.fixture(scope="module")
def artifact(graph):
    return artifact_of(compile_graph(graph, preset("tiny"), 2).piece())


def test_edges_are_the_tensors_of_the_graph(graph, artifact):
    """A residual would seem to come from another layer, or a layer to read nothing."""
    found = network(artifact)
    layers = artifact.programs[0].manifest["layers"]
    number = {layer["output"]: index for index, layer in enumerate(layers)}
    boxes = [box["layer"] - 1 for box in found["boxes"]]
    edges = {(boxes[source], boxes[target]) for source, target in found["edges"] if min(boxes[source], boxes[target]) >= 0}
    wanted = {(number[name], index) for index, layer in enumerate(layers) for name in layer["inputs"] if name in number}
    assert edges == wanted
    assert len(edges) >= len(layers) - 1
    reading = {boxes[target] for source, target in found["edges"] if boxes[source] < 0}
    assert reading >= {index for index, layer in enumerate(layers) if set(layer["inputs"]) & set(graph.inputs)}
    assert [box["layer"] for box in found["boxes"] if box["layer"]] == list(range(1, len(layers) + 1))
    assert all(source < target for source, target in found["edges"])


def test_each_layer_is_drawn_once_in_its_colour(artifact):
    """A click would find no box, or the colour would name another engine."""
    found = network(artifact)
    text = drawing(found)
    for box in found["boxes"]:
        if box["layer"]:
            (own,) = re.findall(rf'<g data-layer="{box["layer"]}">.*?</g>', text)
            assert f'fill="{ENGINE_COLOURS.get(box["engine"], "")}' in own
            assert box["op"] in own
    assert text.count('class="line"') == len(set(map(tuple, found["edges"])))


def test_an_artifact_without_the_layers_inputs_has_no_graph(artifact):
    """Artifacts of earlier versions must still have a page."""
    figures = report.figures(artifact)
    assert "<h2>Graph</h2>" in html(figures, "")
    for layer in artifact.programs[0].manifest["layers"]:
        layer.pop("inputs")
    figures = report.figures(artifact)
    assert figures["graph"] is None
    assert "<h2>Graph</h2>" not in html(figures, "")
