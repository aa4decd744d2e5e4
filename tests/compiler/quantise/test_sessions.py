"""Sessions of float graphs: they answer as the model does, and hold its weights once."""

from dataclasses import replace

import numpy as np
import pytest

from cnna.compiler.frontend import onnx_nodes
from cnna.compiler.frontend.onnx_export import to_model
from cnna.compiler.frontend.onnx_model import hollow
from cnna.compiler.frontend.onnx_model.hollow import GREAT
from cnna.compiler.quantise.outliers import SHOWN, OutlierWatch
from cnna.compiler.quantise.quantise import float_graph
from cnna.compiler.quantise.sessions import Session

from .test_noise import CALIBRATION, MODEL

FEEDS = {name: value[:1] for name, value in CALIBRATION.items()}


@pytest.mark.parametrize("brief", [False, True])
def test_a_session_with_shared_weights_answers_as_one_with_its_own(brief, monkeypatch):
    """Statistics would be those of other weights, were an array taken for another or read after it is gone."""
    monkeypatch.setattr(onnx_nodes, "GREAT", 0)
    graph = float_graph(MODEL)
    shown = [node.output for node in graph.nodes]
    inner = [name for name in shown if name not in graph.outputs]
    own = Session(to_model(graph, inner).SerializeToString(), graph.name).run(FEEDS)
    made = [Session.of(replace(graph, constants={**graph.constants}), shown, brief) for _ in range(2)]
    for session in made:
        found = session.run(FEEDS)
        assert found.keys() == own.keys()
        for name, value in own.items():
            np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-4 * np.abs(value).max())


def test_great_weights_are_not_in_the_bytes_of_a_session(monkeypatch):
    """Each session of a great network would write, parse and hold all weights again: half a gigabyte for ResNet-50."""
    graph = float_graph(MODEL)
    name = max(graph.constants, key=lambda name: graph.constants[name].size)
    monkeypatch.setattr(onnx_nodes, "GREAT", min(GREAT, graph.constants[name].size - 1))
    shared: dict[str, np.ndarray] = {}
    whole, small = (len(to_model(graph, (), apart).SerializeToString()) for apart in (None, shared))
    assert shared[name] is graph.constants[name]
    assert small < whole - sum(value.nbytes for value in shared.values()) // 2


def test_a_users_model_answers_without_its_great_weights_in_its_bytes(monkeypatch):
    """The check of the rewritten graph would hold all weights of a great network four times."""
    monkeypatch.setattr(hollow, "GREAT", 4)
    copy, weights = hollow.without_weights(MODEL)
    assert sum(value.nbytes for value in weights.values()) > len(copy.SerializeToString()) // 2
    found = Session.as_it_is(MODEL, "m").run(FEEDS)
    for name, value in Session(MODEL.SerializeToString(), "m").run(FEEDS).items():
        np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-4 * np.abs(value).max())


def test_a_constant_far_out_is_found_wherever_it_lies():
    """A part of the values is looked at first; an extreme outside of it, or data that fill the gap, must count all the same."""
    rng = np.random.default_rng(4)
    data = rng.normal(size=(1, 4, 64, 64)).astype(np.float32)
    assert data.size > SHOWN
    for place in (0, 1, data.size // 2 + 1, data.size - 1):
        masked, filled = data.copy(), data.copy()
        masked.reshape(-1)[place] = -1000
        filled.reshape(-1)[place], filled.reshape(-1)[(place + 3) % data.size] = -1000, -500
        watch = OutlierWatch(("masked", "filled", "data"), (0,))
        watch(0, {}, {"masked": masked, "filled": filled, "data": data})
        assert [(one.tensor, one.value) for one in watch.found()] == [("masked", -1000.0)]
