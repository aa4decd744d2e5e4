"""The network of the self-test: its files are complete, its answers right, and it has every kind of layer."""

from dataclasses import replace

import numpy as np
import pytest

from cnna.host.model.model import Model
from cnna.host.selftest.selftest_network import ANSWERS, network_for, path_of
from cnna.spec.config import PRESETS, preset
from cnna.spec.regmap import offset

MOST_BYTES = 50_000  # a preset, because they travel with every installation


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("device", ["reference", "emulator"])
def test_its_answers_are_right(name: str, device: str) -> None:
    """A self-test that expects other answers would fail every sound board; tools/selftest_network.py writes the files anew."""
    found = network_for(preset(name))
    assert found is not None
    with Model(found.artifact, device) as model:
        assert np.array_equal(model.run(found.pictures), found.answers)
    assert len(np.unique(found.answers)) > 200, "answers that are nearly constant would show nothing"


@pytest.mark.parametrize("name", PRESETS)
def test_every_engine_works(name: str) -> None:
    """An engine that no layer uses would not be tested."""
    found = network_for(preset(name))
    assert found is not None
    manifest = found.artifact.program.manifest
    assert {command["engine"] for command in manifest["commands"]} == {
        "weight",
        "load",
        "conv",
        "vector",
        "store",
    }
    layers = manifest["layers"]
    assert {"Conv", "Depthwise", "MaxPool", "AveragePool"} <= {layer["op"] for layer in layers}
    writes = np.frombuffer(found.artifact.program.program, "<u4").reshape(-1, 2)
    assert (offset("CONV_RES_ENABLE"), 1) in [tuple(write) for write in writes.tolist()], "no residual addition"


def test_it_is_chosen_by_sizes() -> None:
    """A board knows its sizes, but not the name of its preset; for other sizes there is no network."""
    config = preset("tiny")
    assert network_for(replace(config, name="device", clock_mhz=200, streams=True)) is not None
    assert network_for(replace(config, bank_words=512)) is None


def test_it_is_small() -> None:
    """Nobody wants a large model in a wheel for boards."""
    assert sum(path.stat().st_size for path in (*map(path_of, PRESETS), ANSWERS)) < MOST_BYTES * len(PRESETS)
