"""A command reads each model once and prepares it once, whatever it goes on to do with it."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto

from cnna.cli.main import main
from cnna.compiler.frontend import onnx_import

from ..bad_input import nets

Called = Callable[..., list[str]]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A float network, samples for it, the network quantised, and compiled with pieces on both sides."""
    folder = tmp_path_factory.mktemp("once")
    (folder / "m.onnx").write_bytes(nets.float_net().SerializeToString())
    np.save(folder / "x.npy", nets.samples(4))
    calls = ("quantize m.onnx --calib x.npy -o q.onnx", "compile q.onnx --config tiny -o q.cnna")
    assert [main(_arguments(call, folder)) for call in calls] == [0, 0]
    return folder


@pytest.fixture
def prepared(files: Path, monkeypatch: pytest.MonkeyPatch) -> Called:
    """Runs a command; returns a digest of each model that it prepared."""
    made: list[str] = []
    prepare = onnx_import.prepared

    def counted(model: ModelProto, single: frozenset[str], name: str) -> ModelProto:
        made.append(hashlib.sha256(model.SerializeToString(deterministic=True)).hexdigest()[:12])
        return prepare(model, single, name)

    monkeypatch.setattr(onnx_import, "prepared", counted)

    def run(call: str) -> list[str]:
        made.clear()
        assert main(_arguments(call, files)) == 0
        return list(made)

    return run


def _arguments(call: str, folder: Path) -> list[str]:
    return [str(folder / word) if "." in word else word for word in call.split()]


@pytest.mark.parametrize(
    ("call", "models"),
    [
        ("quantize m.onnx --calib x.npy -o again.onnx", 2),  # the float model, and the one that was made of it
        ("compile q.onnx --config tiny -o again.cnna", 1),
        ("compile q.cnna -o again.cnna", 1),
        ("explain m.onnx --config tiny", 2),  # the float model, and the one with assumed ranges
        ("explain q.onnx --config tiny", 1),
        ("run q.cnna --input x.npy --device emulator", 0),
        ("run q.cnna --input x.npy --device emulator --check", 1),
        ("run q.cnna --input x.npy --device reference --against m.onnx", 1),
        ("run q.cnna --input x.npy --device emulator --check --against m.onnx", 1),
        ("convert m.onnx --calib x.npy --config tiny -o m.cnna", 2),
        ("convert m.onnx --calib x.npy --effort 2 --config tiny -o m.cnna", 2),
        ("quantize m.onnx --calib x.npy --report r.json -o again.onnx", 2),
    ],
)
def test_each_model_is_prepared_once(call: str, models: int, prepared: Called, capsys: pytest.CaptureFixture[str]) -> None:
    """Every room prepared what it was given again, up to six times in a command, and might choose the batch in another way."""
    found = prepared(call)
    assert len(found) == models == len(set(found)), found


def test_a_search_prepares_each_network_that_it_makes_once(
    files: Path, prepared: Called, capsys: pytest.CaptureFixture[str]
) -> None:
    """The two networks whose speeds are told, the first and the one that was found, would be prepared again to be compiled."""
    bright = nets.samples(24)
    bright[::3] *= 200  # their range leaves the other samples few steps
    np.save(files / "bright.npy", bright)
    found = prepared("quantize m.onnx --calib bright.npy --metric noise --search 1 --config tiny -o again.onnx --json s.json")
    figures = json.loads((files / "s.json").read_text())["search"]
    assert figures["fps"], "no layer is kept in float, so no speed is told"
    assert len(found) == 1 + len(figures["tried"]) == len(set(found)), found
