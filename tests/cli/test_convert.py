"""`cnna convert`: equals its steps one by one, can give a poor verdict, and leaves nothing behind when it is stopped."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cnna.cli.main import INTERRUPTED, main
from cnna.host.model import model
from cnna.host.samples.arrays import write_arrays


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """digits.onnx, calib.npz, and the steps' q.onnx, q.json, steps.cnna, steps.json, in batches of two."""
    made = tmp_path_factory.mktemp("convert")
    cnna(made, "models digits -o digits.onnx --calib calib.npz")
    cnna(made, "quantize digits.onnx --calib calib.npz --method percentile --effort 1 -o q.onnx --json q.json")
    cnna(made, "compile q.onnx --config tiny --batch 2 -o steps.cnna --json steps.json")
    return made


def cnna(folder: Path, line: str) -> int:
    """The exit code of a command; words with a dot are files of the folder."""
    return main([str(folder / word) if "." in word else word for word in line.split()])


def figures(folder: Path, name: str) -> dict[str, Any]:
    """The figures that a command has written."""
    found: dict[str, Any] = json.loads((folder / name).read_text())
    return found


def test_it_is_its_steps_in_one(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Another artifact, or other figures, than those of the single steps would make it a second way to quantise."""
    capsys.readouterr()
    line = "convert digits.onnx --calib calib.npz --method percentile --effort 1 --config tiny --batch 2 -o m.cnna --json m.json"
    assert cnna(folder, f"{line} --limit 5") == 0
    said = capsys.readouterr()
    assert (folder / "m.cnna").read_bytes() == (folder / "steps.cnna").read_bytes()
    found, compiled, quantised = (figures(folder, name) for name in ("m.json", "steps.json", "q.json"))
    assert all(found[key] == value for key, value in compiled.items() if key != "output")
    assert found["quantised"] == {key: value for key, value in quantised.items() if key != "output"}
    assert found["mac_share"] == 1
    assert found["agreement"] == "good"
    assert found["against"]["samples"] == 5
    for part in (
        "(percentile, effort 1)",
        "100.0% of 561,472",
        "images a second",
        "output logits",
        "in 5 of 5",
        "agreement with float: good",
    ):
        assert part in said.out
    assert said.err.splitlines()[-1].startswith("wrote")


def test_a_poor_agreement_is_said_and_is_no_error(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One picture of the set is a thousand times too bright, so its range leaves no steps for the others."""
    with np.load(folder / "calib.npz") as calib:
        x = calib["x"][:20].copy()
    x[0] *= 1000
    write_arrays(folder / "bright.npz", {"x": x})
    assert cnna(folder, "convert digits.onnx --calib bright.npz --config tiny -o poor.cnna --json poor.json") == 0
    said = capsys.readouterr()
    assert figures(folder, "poor.json")["agreement"] == "poor"
    assert "agreement with float: poor" in said.out
    assert "cnna: poor agreement with float (output logits): try --effort 2, --method percentile or mse" in said.err
    assert (folder / "poor.cnna").is_file()


def test_stopped_in_its_last_step_it_leaves_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An older file must stay as it was; a new one would look as if it had been compared."""

    def stopped(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(model.Model, "run", stopped)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    for name in ("new.cnna", "steps.cnna"):
        assert cnna(folder, f"convert digits.onnx --calib calib.npz --config tiny -o {name}") == INTERRUPTED
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
