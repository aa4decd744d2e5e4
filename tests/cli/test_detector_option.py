"""--detector: what is found is said and stored; what is missed is said, and the model stays usable."""

import json
import re
from pathlib import Path

import numpy as np
import onnx
import pytest

from cnna.cli.main import main
from cnna.compiler.explain.explain import DECODES
from cnna.compiler.quantise.quantise import quantise
from cnna.spec.artifact import load

from .. import detector_models
from ..compiler.written import images, written

SCALED = ("--scale", "1/64", "--mean", "2")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A float detector and pictures to calibrate it with."""
    made = tmp_path_factory.mktemp("detector")
    onnx.save(detector_models.model("yolov8"), made / "m.onnx")
    np.savez(made / "calib.npz", x=detector_models.pictures(4))
    return made


def test_convert_finds_and_stores_heads(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The decode would be rounded, so that nothing is found; or compiling the file anew would lose the heads."""
    file = folder / "d.cnna"
    convert = ["convert", str(folder / "m.onnx"), "--calib", str(folder / "calib.npz"), *SCALED, "--config", "tiny"]
    assert main([*convert, "--detector", "auto", "-o", str(file)]) == 0
    assert "detector YOLOv8: 320 boxes on maps of 16x16, 8x8, 4 classes" in capsys.readouterr().out
    assert load(file).manifest["detector"]["family"] == "YOLOv8"
    assert main(["compile", str(file)]) == 0
    assert load(file).manifest["detector"]["family"] == "YOLOv8"


def test_explain_says_what_was_found_or_missed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The user would convert and run a model to learn that its heads have another structure."""
    explain = ["explain", str(folder / "m.onnx"), "--config", "tiny"]
    assert main([*explain, "--detector", "auto"]) == 0
    said = capsys.readouterr().out
    assert "detector YOLOv8: 320 boxes" in said
    gain = r"([\d.]+ -> )?[\d.,]+ pictures a second from picture to answer"  # the first where the decode is quicker than the tail
    assert re.search(rf"decode on integers \(--detector\): {gain}", said)


@pytest.mark.parametrize(("name", "words"), [("yolov5", "detector YOLOv5: 960 boxes"), ("yolov8", "it looks like a YOLOv8")])
def test_explain_knows_a_detector_unasked(name: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The user would follow hints about the shapes of a decode that need not run, and not hear of --detector."""
    onnx.save(detector_models.model(name), tmp_path / "m.onnx")
    assert main(["explain", str(tmp_path / "m.onnx"), "--config", "tiny", "--json", str(tmp_path / "e.json")]) == 0
    said = capsys.readouterr().out
    assert words in said
    assert "--detector" in said.splitlines()[-1]
    found = json.loads((tmp_path / "e.json").read_text())["nodes"]
    behind = [row for row in found if row["side"] == "cpu"]
    assert len(behind) > 10
    assert {row["reason"] for row in behind} == {DECODES}
    assert not any(row["rewrite"] or row["gain_seconds"] for row in behind)


def test_explain_names_no_detector_where_there_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every classifier would get a line about heads that it lacks, and lose its hints."""
    text = "g (float[N,3,8,8] x) => (float[N,6,8,8] y) { c = Conv (x, w) y = Sin (c) }"
    onnx.save(written(text, {"w": (6, 3, 1, 1)}), tmp_path / "m.onnx")
    assert main(["explain", str(tmp_path / "m.onnx"), "--config", "tiny"]) == 0
    said = capsys.readouterr().out
    assert "--detector" not in said
    assert "the accelerator has no such operator" in said


def test_a_miss_leaves_the_model_usable(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A model whose heads are not known would not compile at all, or nobody would learn that they are not."""
    model = written("g (float[N,3,8,8] x) => (float[N,6,8,8] y) { y = Conv (x, w) }", {"w": (6, 3, 1, 1)})
    onnx.save(quantise(model, images(model))[0], tmp_path / "q.onnx")
    command = ["compile", str(tmp_path / "q.onnx"), "--config", "tiny", "-o", str(tmp_path / "m.cnna")]
    assert main([*command, "--detector", "auto"]) == 0
    assert "no detector's heads found: its output should be rows of boxes and scores" in capsys.readouterr().err
    assert "detector" not in load(tmp_path / "m.cnna").manifest
