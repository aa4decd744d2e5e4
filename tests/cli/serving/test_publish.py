"""`cnna publish`: what it writes is what a server loads, whole or not at all."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cnna.cli.main import main
from cnna.compiler.quantise.quantise import quantise
from cnna.compiler.zoo.digits import data
from cnna.host.samples.arrays import Arrays
from cnna.jobs import publish as command
from cnna.serve.models.repository import open_repository
from cnna.spec.artifact import Artifact
from cnna.spec.errors import UserError


@pytest.fixture(scope="module")
def quantised(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The digits network, quantised."""
    import onnx

    path = tmp_path_factory.mktemp("model") / "q.onnx"
    model, _ = quantise(onnx.load(data.NETWORK), {"image": data.load().calibration.images})
    onnx.save(model, path)
    return path


def test_versions_follow_each_other_and_load(quantised: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A version that a server refuses, or that takes the place of another one, would be no publication."""
    np.savez(tmp_path / "x.npz", image=data.load().test.images[:5])
    line = ["publish", str(quantised), "--repo", str(tmp_path / "r"), "--model", "digits", "--config", "tiny"]
    assert main([*line, "--batches", "1,3", "--input", str(tmp_path / "x.npz"), "--limit", "2"]) == 0
    assert "1: 2 artifacts, golden answers to 2 samples" in capsys.readouterr().out
    assert main([*line, "--batches", "2", "--limit", "1"]) == 0
    repository = open_repository(tmp_path / "r")
    assert repository.versions("digits") == ["1", "2"]
    first, second = (repository.version("digits", name) for name in ("1", "2"))
    assert [one.batch for one in first.compiled["tiny"]] == [1, 3]
    assert [one.batch for one in second.compiled["tiny"]] == [2]
    assert first.golden is not None
    assert np.array_equal(first.golden.inputs["image"], data.load().test.images[:2])
    assert main([*line, "--version", "2"]) == 2
    assert "versions never change" in capsys.readouterr().err


def test_a_folder_of_pictures_is_read_as_run_reads_it(quantised: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever calibrates with photographs would have to write a program for golden answers."""
    (tmp_path / "photos").mkdir()
    for number, grey in enumerate((32, 96, 255)):
        Image.new("L", (16, 16), grey).save(tmp_path / "photos" / f"{number}.png")
    line = ["publish", str(quantised), "--repo", str(tmp_path / "r"), "--model", "digits", "--config", "tiny", "--batches", "1"]
    line += ["--input", str(tmp_path / "photos")]
    assert main(line) == 2
    assert "nothing says how pictures become floats" in capsys.readouterr().err
    assert main([*line, "--scale", "1/8", "--mean", "1", "--limit", "2"]) == 0
    golden = open_repository(tmp_path / "r").version("digits", "1").golden
    assert golden is not None
    wanted = np.stack([np.full((1, 16, 16), grey / 8 - 1, np.float32) for grey in (32, 96)])
    assert np.array_equal(golden.inputs["image"], wanted)


def test_a_fallback_is_kept_with_its_digest(quantised: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`fallback: onnxruntime` would have nothing to answer with, or something else than what was published."""
    line = ["publish", str(quantised), "--repo", str(tmp_path / "r"), "--model", "digits", "--config", "tiny", "--batches", "1"]
    assert main([*line, "--fallback", "onnxruntime"]) == 0
    assert "golden answers to 4 samples; a fallback whose answers differ by at most" in capsys.readouterr().out
    (tmp_path / "r" / "digits" / "model.yaml").write_text("fallback: onnxruntime\n")
    version = open_repository(tmp_path / "r").version("digits", "1")
    assert version.runtimes() == ["cnna", "onnxruntime"]
    (spare,) = version.compiled["onnxruntime"]
    assert spare.tolerance is not None
    assert 0 < spare.tolerance["logits"] < 1


def test_nothing_is_left_of_a_failure(
    quantised: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server would load half a version, or one whose artifacts answer wrongly."""
    line = ["publish", str(quantised), "--repo", str(tmp_path / "r"), "--model", "digits", "--config", "tiny", "--batches", "1"]
    whole = command.answers_of

    def wrong(artifact: Artifact, device: str, inputs: Arrays) -> Arrays:
        found = whole(artifact, device, inputs)
        return {name: y + (device == "emulator") for name, y in found.items()}

    monkeypatch.setattr(command, "answers_of", wrong)
    assert main([*line]) == 1
    assert "compiled as tiny-b1, it does not give its golden answers: output logits, element [0, 0]" in capsys.readouterr().err
    monkeypatch.undo()
    monkeypatch.setattr(Path, "rename", lambda self, to: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    assert main([*line]) == 2
    assert "No space left on device" in capsys.readouterr().err
    assert list((tmp_path / "r" / "digits").iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--batches", "1,x"], "--batches 1,x: must be numbers"),
        (["--batches", "0"], "--batches 0"),
        (["--batches", "1,512"], "--batches 1,512: must be numbers within 1..511"),
        (["--model", "../m"], "a model's name has letters"),
        (["--version", "01"], "versions are positive integers"),
        (["--version", "9" * 5000], "versions are positive integers of at most 18 digits"),
        (["--config", "tiny"], "--config tiny: is given twice"),
        (["--limit", "0"], "--limit 0: must be at least 1"),
    ],
)
def test_a_mistake_is_one_line(
    quantised: Path, tmp_path: Path, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It would be found after minutes of compiling, or not at all."""
    line = ["publish", str(quantised), "--repo", str(tmp_path / "r"), "--model", "m", "--config", "tiny", *arguments]
    assert main(line) == 2
    error = capsys.readouterr().err
    assert said in error
    assert len(error.splitlines()) == 1
    shutil.rmtree(tmp_path / "r", ignore_errors=True)


def test_names_of_classes_are_stored_with_the_version(quantised: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Clients would get numbers; or names of another network's classes be published, of which nobody hears until they are shown."""
    names, line = [f"digit {number}" for number in range(10)], ["publish", str(quantised), "--repo", str(tmp_path / "r")]
    line += ["--model", "digits", "--config", "tiny", "--batches", "1", "--labels", str(tmp_path / "names.txt")]
    (tmp_path / "names.txt").write_text("\n".join(names[:-1]))
    assert main(line) == 2
    assert "names.txt: 9 names, but no output has so many values for a sample: logits has 10" in capsys.readouterr().err
    assert not (tmp_path / "r").exists()
    (tmp_path / "names.txt").write_text("\n".join(names))
    assert main(line) == 0
    assert "; 10 names of classes of logits" in capsys.readouterr().out
    assert open_repository(tmp_path / "r").version("digits", "1").labels == {"logits": names}
    (tmp_path / "r" / "digits" / "1" / "labels.json").write_text('{"logits": ["one"]}')
    with pytest.raises(UserError, match="1 name for 10 values"):
        open_repository(tmp_path / "r").version("digits", "1")
