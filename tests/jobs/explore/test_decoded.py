"""`--detector` of an exploration: its figures are those that `cnna compile` says of the same configuration."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import cnna
from cnna.cli.main import main
from cnna.compiler.explore.aim import Aim
from cnna.jobs.explore import sweep
from cnna.spec.host_time.detector_time import detector_end_to_end
from cnna.spec.host_time.end_to_end import EndToEnd

from ... import detector_models
from ...pruning import small

ALL = ("dsp", "bram", "energy")  # no energy is known before a point is compiled, so the bound rules nothing out
SMALL: dict[str, Any] = {"dsp": 48, "bram": 60, "batch": 1}


@pytest.fixture(scope="module", params=["yolov8", "yolov5"])
def detector(request: pytest.FixtureRequest) -> onnx.ModelProto:
    """One that is quantised, with its tail in float."""
    return detector_models.made(request.param).model


def of_compile(model: onnx.ModelProto, config: str, batch: int) -> EndToEnd:
    """What `cnna compile --detector auto` takes its line about cnna.Detector from."""
    artifact = cnna.compile(model, config, batch=batch, detector="auto").artifact
    manifest = artifact.manifest
    run = manifest["pieces"], artifact.predicted_clocks(), artifact.config.clock_mhz, manifest["batch"]
    return detector_end_to_end(manifest["detector"], *run)


@pytest.mark.parametrize(("batch", "native"), [(1, True), (2, False)])
def test_figures_are_those_of_compile(
    detector: onnx.ModelProto, batch: int, native: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user would choose a configuration by one speed and read another once it is compiled. The decode is modelled with the native
    library, whether this machine has it or not.
    """
    monkeypatch.setattr(sweep, "native_host", lambda: native)
    found = cnna.explore(detector, **{**SMALL, "batch": batch}, axes=ALL, cache=tmp_path, detector="auto")
    assert found.host == "native"
    for place in (0, -1):
        figures, point = found.points[place], found.all_points[place]
        said = of_compile(detector, figures["config"], batch).figures()
        assert point.whole.figures() == said
        assert figures["fps_end_to_end"] == said["fps_end_to_end"]
        assert figures["latency_seconds"] == said["modelled"]["latency_seconds_by_cores"]["4"][0]


def test_the_bound_leaves_the_answer_as_it_is(detector: onnx.ModelProto, tmp_path: Path) -> None:
    """The least work of a host that runs the tail would rule out what cnna.Detector makes quick enough."""
    whole = cnna.explore(detector, **SMALL, axes=ALL, cache=tmp_path / "a", detector="auto")
    target = sorted(point.fps for point in whole.all_points)[len(whole.points) // 2]
    asked: list[dict[str, Any]] = [{}, {"objective": "dsp", "target_fps": target}]
    for options in asked:
        aim = Aim(**options)
        found = cnna.explore(detector, **SMALL, **options, cache=tmp_path / "b", detector="auto", again=True)
        assert [point.config for point in found.best] == [point.config for point in aim.best(whole.all_points)]
        assert found.discarded > 0
        assert found.host == whole.host


def test_what_is_kept_is_of_the_same_question(detector: onnx.ModelProto, tmp_path: Path) -> None:
    """The speed with the tail would be read as that of cnna.Detector, or all be compiled anew each time."""
    options: dict[str, Any] = {**SMALL, "axes": ALL, "cache": tmp_path}
    tail = cnna.explore(detector, **options)
    assert tail.detectors == [None]
    assert any("--detector auto" in line for line in tail.notes)
    heads = cnna.explore(detector, **options, detector="auto")
    assert heads.compiled == len(heads.points) == len(tail.points)
    assert all(one["fps_end_to_end"] != other["fps_end_to_end"] for one, other in zip(heads.points, tail.points, strict=True))
    again = cnna.explore(detector, **options, detector="auto", resume=True)
    assert (again.compiled, again.figures()) == (0, heads.figures())
    assert cnna.explore(detector, **options).points == tail.points


def test_each_of_several_models_has_its_own(
    quantised: onnx.ModelProto, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A classifier beside a detector would be refused, or be modelled as a detector. It is said which of both has no heads."""
    monkeypatch.chdir(tmp_path)
    model = detector_models.made("yolov8").model
    onnx.save(quantised, "c.onnx")
    onnx.save(model, "d.onnx")
    command = "explore d.onnx c.onnx --dsp 48 --bram 60 --batch 1 --jobs 2 --cache c --detector auto --json f.json"
    assert main(command.split()) == 0
    said, written = capsys.readouterr(), json.loads(Path("f.json").read_text())
    last = said.out.splitlines()[-1]
    assert last == "detector: cnna.Detector decodes boxes on integers (YOLOv8: 320 boxes on maps of 16x16, 8x8, 4 classes)"
    (missed,) = [line for line in said.err.splitlines() if "no detector's heads found" in line]
    assert "c.onnx: no detector's heads found: its output should be" in missed
    assert missed.endswith("; its outputs stay as they are")
    assert (written["detectors"][0]["family"], written["detectors"][1]) == ("YOLOv8", None)
    found = cnna.explore([model, quantised], dsp=48, bram=60, batch=1, cache="d", detector="auto")
    (best,) = [point for point in written["points"] if point["pareto"]][:1]
    parts = found.best[0].parts
    assert found.best[0].figures()["config"] == best["config"]
    assert parts[0].whole.figures() == of_compile(model, best["config"], 1).figures()
    own = cnna.compile(quantised, best["config"]).predicted_end_to_end
    assert parts[1].whole.figures()["modelled"]["fps_by_cores"] == own.figures()["modelled"]["fps_by_cores"]


def test_without_heads_the_figures_are_the_usual_ones(quantised: onnx.ModelProto, tmp_path: Path) -> None:
    """All that is kept would be compiled again for a model that the option changes nothing of."""
    options: dict[str, Any] = {**SMALL, "cache": tmp_path}
    usual = cnna.explore(quantised, **options)
    asked = cnna.explore(quantised, **options, detector="auto")
    assert (asked.compiled, asked.figures()) == (0, usual.figures())
    assert ["no detector's heads found" in line for line in asked.notes] == [True]
    assert not usual.notes


def test_a_float_detector_keeps_its_decode_in_float(tmp_path: Path) -> None:
    """Its decode would be rounded, so that nothing is found, as `cnna convert --detector` does not."""
    found = cnna.explore(detector_models.model("yolov8"), **SMALL, cache=tmp_path, detector="auto")
    assert found.detectors[0] is not None
    assert found.detectors[0]["family"] == "YOLOv8"


def test_a_host_that_is_too_slow_for_the_tail_names_the_remedy(tmp_path: Path) -> None:
    """The user would read that no accelerator is quick enough, where cnna.Detector is."""
    model = detector_models.made("yolov8").model
    with pytest.raises(cnna.UserError, match=r"host's part.* a detector's boxes are made on integers with --detector auto"):
        cnna.explore(model, target_fps=1e5, cache=tmp_path)
    with pytest.raises(cnna.UserError, match="ask for less") as raised:
        cnna.explore(model, target_fps=1e5, cache=tmp_path, detector="auto")
    assert "--detector" not in str(raised.value)


def test_no_detector_is_spoken_of_for_a_classifier_whose_end_is_on_the_cpu(tmp_path: Path) -> None:
    """The user would read of boxes, and try an option that changes nothing."""
    text = "c = Conv <pads = [1, 1, 1, 1]> (x, w) r = Relu (c) g = GlobalAveragePool (r) f = Reshape (g, flat) y = Softmax (f)"
    weights: dict[str, Any] = {"w": (16, 3, 3, 3), "flat": np.array([0, -1])}
    model = small.model(text, weights, "float[N,3,12,12] x", "float[N,16] y")
    with pytest.raises(cnna.UserError, match=r"the host's part.* says what runs on the CPU; ask for less$"):
        cnna.explore(model, target_fps=1e7, cache=tmp_path)


def test_what_is_no_detector_is_one_line(quantised: onnx.ModelProto, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A slip would be explored for minutes, as another question."""
    with pytest.raises(cnna.UserError, match="--detector yolov9: must be one of auto, yolov3, yolov5"):
        cnna.explore(quantised, detector="yolov9")
    onnx.save(quantised, tmp_path / "q.onnx")
    assert main(["explore", str(tmp_path / "q.onnx"), "--layer", "stem", "--detector", "auto"]) == 2
    assert capsys.readouterr().err.startswith("cnna: --detector is for comparing configurations")
