"""What pieces take adds up to what the whole is predicted to take."""

import pytest

from cnna.compiler.explain.explain import explain
from cnna.spec.config import preset
from cnna.spec.host_time.end_to_end import PIECE_SECONDS
from cnna.spec.host_time.piece_times import HEADS, piece_lines, several
from cnna.spec.manifest import ACCELERATOR, CPU
from cnna.spec.names import called

from ...compiler.explain.test_explain import NETWORKS, network


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("batch", [1, 3])
def test_times_add_up(name, batch):
    """A user would add up 20 and 60 microseconds and read 301 in the line below."""
    found = explain(network(name), preset("ultra96"), batch=batch)
    assert [time.kind for time in found.times] == list(found.pieces)
    for kind, wanted in ((ACCELERATOR, found.speed.accelerator_seconds), (CPU, found.speed.cpu_seconds)):
        own = [time for time in found.times if time.kind == kind]
        assert sum(time.node_seconds + (time.more_seconds if kind == CPU else 0) for time in own) == pytest.approx(wanted)
    assert sum(time.more_seconds for time in found.times if time.kind == ACCELERATOR) == pytest.approx(
        found.speed.crossing_seconds.middle
    )
    calls = {time.more_seconds for time in found.times if time.kind == CPU}
    assert calls <= {0.0, batch * PIECE_SECONDS}


def test_a_line_for_each_piece():
    """A piece of the CPU, which bounds the whole, would not be seen among a hundred nodes."""
    found = explain(network("enlarged"), preset("tiny"))
    head, *lines, last = piece_lines(found.times)
    assert head.split("  ")[0] == HEADS[0]
    assert len(lines) == len(found.pieces)
    assert "modelled" in last
    assert several(found.times)
    assert not several(explain(network("flat"), preset("tiny")).times), "a change of shape is no piece that bounds anything"


@pytest.mark.parametrize(
    ("graph", "file", "name"),
    [("main_graph", "a/photos.onnx", "photos"), ("", "x.y.cnna", "x.y"), ("resnet50", "m.onnx", "resnet50"), ("", "", "model")],
)
def test_a_model_is_called_by_its_file_where_its_graph_says_nothing(graph, file, name):
    """The pages of all models that PyTorch has written would have one title."""
    assert called(graph, file) == name
