"""The roofline's points lie under the limits of the engines that computed them."""

from dataclasses import replace

import numpy as np

from cnna.compiler.compile import compile_graph
from cnna.compiler.graph import ir
from cnna.compiler.report import charts, report, roofline
from cnna.compiler.report.html import html
from cnna.compiler.report.picture import drawn
from cnna.spec.boards import ddr_of
from cnna.spec.config import BEAT_BYTES, preset

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


def test_the_line_of_ddr_says_what_limits_it():
    """`tiny` would be said to have 48 bytes of DDR a clock, and its charts draw 16, without a word why."""
    builder = Builder(np.random.default_rng(1), "one")
    graph = builder.graph(builder.conv(builder.input(3, 8, 8), 16, ir.Window()))
    limits = {}
    for name in ("tiny", "zcu102"):
        config = preset(name)
        found = report.figures(artifact_of(compile_graph(graph, config, 1).piece()))
        limits[name] = found["ddr_limit"], found["ddr_bytes_per_cycle"]
        for shown in (str(charts.roofline(found)), str(html(found, ""))):
            assert (
                f"{found['ddr_limit']}{',' if shown.startswith('<') else ''} {found['ddr_bytes_per_cycle']} bytes a clock" in shown
            )
    assert limits == {"tiny": ("its port", BEAT_BYTES), "zcu102": ("DDR", ddr_of(preset("zcu102")).bytes_per_cycle)}
    assert (
        report.figures(artifact_of(compile_graph(graph, replace(preset("tiny"), ports=2), 1).piece()))["ddr_limit"] == "its 2 ports"
    )


def test_the_picture_of_layers_that_all_wait_for_the_array_has_the_memorys_slope_on_the_left():
    """Where every layer lies right of the ridge, the slope would begin right of it too and go back, and hide behind the legend."""
    builder = Builder(np.random.default_rng(1), "wide")
    x = builder.conv(builder.input(8, 24, 24), 16, ir.Window((3, 3), pads=(1, 1, 1, 1)))
    x = builder.conv(x, 16, ir.Window((3, 3), pads=(1, 1, 1, 1)))
    found = report.figures(artifact_of(compile_graph(builder.graph(x), preset("tiny"), 1).piece()))
    ridge = found["macs_per_cycle"] / found["ddr_bytes_per_cycle"]
    assert all(spot[0] > 2 * ridge for layer in found["layers"] if (spot := roofline.point(layer, "predicted")))
    figure = drawn(found)
    (axes,) = [axes for axes in figure.axes if axes.get_ylabel() == "MACs a clock"]
    roof = max(axes.lines, key=lambda line: len(line.get_xdata()))
    x, y = roof.get_data()
    assert (np.diff(x) > 0).all()
    assert np.allclose(y, np.minimum(x * found["ddr_bytes_per_cycle"], found["macs_per_cycle"]))
    assert (*axes.get_xlim(), *axes.get_ylim()) == roofline.limits(found)
    legend = axes.get_legend().get_window_extent()
    assert not any(legend.contains(*axes.transData.transform(spot)) for dots in axes.collections for spot in dots.get_offsets())
