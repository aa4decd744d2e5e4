"""The roofline's points lie under the limits of the engines that computed them."""

import numpy as np

from cnna.compiler.compile import compile_graph
from cnna.compiler.graph import ir
from cnna.compiler.report import report, roofline
from cnna.spec.config import preset

from ...agreement import artifact_of
from ...graph_builder import Builder


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
