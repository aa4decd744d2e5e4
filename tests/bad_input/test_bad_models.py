"""What a user can get wrong in models, arrays and artifacts: one line that names it, code 2, no traceback, no output file."""

import hashlib
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from cnna.cli.main import main
from cnna.spec.config import preset

from .cases import CHANNELS, CLASSES, SIZE, edited, random_images, small_model


@pytest.mark.parametrize("content", [b"", b"hello\n", b"PK\x03\x04", bytes(range(256)) * 4])
@pytest.mark.parametrize("command", ["quantize", "compile"])
def test_not_an_onnx_file(good: Path, tmp_path: Path, refused: Callable[..., str], content: bytes, command: str) -> None:
    """A user may name any file by mistake."""
    (tmp_path / "bad.onnx").write_bytes(content)
    options = ["--calib", good / "calib.npy"] if command == "quantize" else ["--config", "tiny"]
    assert "bad.onnx" in refused(command, tmp_path / "bad.onnx", *options, "-o", "out")


def test_nan_weights(good: Path, tmp_path: Path, refused: Callable[..., str]) -> None:
    """A training run may diverge; its scales would be NaN too."""

    def edit(model: onnx.ModelProto) -> None:
        weights = numpy_helper.to_array(model.graph.initializer[0]).copy()
        weights[1, 2, 0, 1] = np.nan
        model.graph.initializer[0].CopyFrom(numpy_helper.from_array(weights, "w"))

    line = refused("quantize", edited(tmp_path, edit), "--calib", good / "calib.npy", "-o", "out")
    assert "bad.onnx" in line
    assert "conv" in line
    assert "NaN" in line


def test_unknown_operator_in_the_middle(good: Path, tmp_path: Path, refused: Callable[..., str]) -> None:
    """Between two layers of the accelerator there is an operator for the CPU alone, and the user does not want the CPU there."""
    quantised = tmp_path / "q.onnx"
    model = edited(tmp_path, _tanh_in_the_middle)
    assert main(["quantize", str(model), "--calib", str(good / "calib.npy"), "-o", str(quantised)]) == 0
    line = refused("compile", quantised, "--config", "tiny", "--no-cpu", "-o", "out")
    assert "q.onnx" in line
    assert "strange" in line
    assert "Atan" in line


def _tanh_in_the_middle(model: onnx.ModelProto) -> None:
    """Puts a Atan between two convolutions."""
    model.graph.node[1].CopyFrom(helper.make_node("Atan", ["a"], ["t"], name="strange"))
    model.graph.node.insert(2, helper.make_node("Conv", ["t", "w2"], ["b"], name="conv2", kernel_shape=[1, 1]))
    weights = np.eye(CLASSES, dtype=np.float32)[:, :, None, None]
    model.graph.initializer.append(numpy_helper.from_array(weights, "w2"))


def test_operator_of_another_domain(good: Path, tmp_path: Path, refused: Callable[..., str]) -> None:
    """ONNX itself does not know a custom operator."""

    def edit(model: onnx.ModelProto) -> None:
        model.graph.node[1].CopyFrom(helper.make_node("Frobnicate", ["a"], ["b"], name="strange", domain="com.example"))
        model.opset_import.append(helper.make_opsetid("com.example", 1))

    line = refused("quantize", edited(tmp_path, edit), "--calib", good / "calib.npy", "-o", "out")
    assert "com.example" in line
    assert "Frobnicate" in line


def test_opset_from_the_future(good: Path, tmp_path: Path, refused: Callable[..., str]) -> None:
    """The exporter may be newer than this onnx."""

    def edit(model: onnx.ModelProto) -> None:
        model.opset_import[0].version = 999

    line = refused("quantize", edited(tmp_path, edit), "--calib", good / "calib.npy", "-o", "out")
    assert "999" in line
    assert "bad.onnx" in line


def test_input_without_a_size(good: Path, tmp_path: Path, refused: Callable[..., str]) -> None:
    """The exporter may leave every axis free."""

    def edit(model: onnx.ModelProto) -> None:
        model.graph.input[0].type.tensor_type.shape.dim[2].dim_param = "height"

    line = refused("quantize", edited(tmp_path, edit), "--calib", good / "calib.npy", "-o", "out")
    assert "'x'" in line
    assert "axis 2" in line


def test_float_model_given_to_compile(good: Path, refused: Callable[..., str]) -> None:
    """The user has left out a step: the line must say which."""
    line = refused("compile", good / "m.onnx", "--config", "tiny", "-o", "out")
    assert "m.onnx" in line
    assert "cnna quantize" in line


def test_memory_too_small_for_a_layer(tmp_path: Path, refused: Callable[..., str], capsys: pytest.CaptureFixture[str]) -> None:
    """One output pixel needs a window that feature memory cannot hold, so no tile is small enough."""
    config, kernel = preset("tiny"), 11
    channels = 2 * config.ci * config.feature_words // kernel**2
    onnx.save(small_model(channels, kernel, kernel), tmp_path / "m.onnx")
    np.save(tmp_path / "calib.npy", random_images(2, channels, kernel))
    assert main(["quantize", str(tmp_path / "m.onnx"), "--calib", str(tmp_path / "calib.npy"), "-o", str(tmp_path / "q.onnx")]) == 0
    line = refused("compile", tmp_path / "q.onnx", "--config", "tiny", "-o", "out")
    assert "q.onnx" in line
    assert "conv" in line
    assert "tiny" in line or str(config.feature_words) in line


@pytest.mark.parametrize(("option", "value"), [("--config", "huge"), ("--batch", "0"), ("--batch", "100000")])
def test_compile_options(good: Path, refused: Callable[..., str], option: str, value: str) -> None:
    """No accelerator has such values."""
    options = {"--config": "tiny", option: value}
    assert value in refused("compile", good / "q.onnx", *[part for pair in options.items() for part in pair], "-o", "out")


# --- arrays ---


@pytest.mark.parametrize(
    "images", [random_images(0), random_images(4, size=SIZE + 1), random_images(4)[0], random_images(4).astype(np.uint8)]
)
def test_calibration_that_does_not_fit(good: Path, tmp_path: Path, refused: Callable[..., str], images: np.ndarray) -> None:
    """There may be no array, or one of another size, without a batch axis, or without preprocessing."""
    np.save(tmp_path / "calib.npy", images)
    assert "calib.npy" in refused("quantize", good / "m.onnx", "--calib", tmp_path / "calib.npy", "-o", "out")


def test_input_of_another_shape(good: Path, tmp_path: Path, refused: Callable[..., str]) -> None:
    """The usual mistake is NHWC instead of NCHW."""
    np.save(tmp_path / "x.npy", random_images(2).transpose(0, 2, 3, 1))
    line = refused("run", good / "m.cnna", "--input", tmp_path / "x.npy", "--device", "emulator", "-o", "out")
    assert "x.npy" in line
    assert f"[N, {CHANNELS}, {SIZE}, {SIZE}]" in line


def test_labels_of_anothersmall_model(good: Path, tmp_path: Path, refused: Callable[..., str]) -> None:
    """The names of 1,000 classes would name a model's four classes wrongly."""
    (tmp_path / "labels.txt").write_text("one\ntwo\n")
    run = ["run", good / "m.cnna", "--input", good / "calib.npy", "--device", "emulator", "-o", "out", "--labels"]
    line = refused(*run, tmp_path / "labels.txt")
    assert "labels.txt" in line
    assert f"{CLASSES} classes" in line
    (tmp_path / "labels.txt").write_bytes(b"\xff\xfe\x00")
    assert "not a text file" in refused(*run, tmp_path / "labels.txt")


# --- artifacts ---


def _altered(source: Path, target: Path, change: Callable[[dict], None], resign: bool = True) -> Path:
    """The artifact with its manifest changed; with `resign` its digest is right again."""
    with zipfile.ZipFile(source) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(members["manifest.json"])
    change(manifest)
    members["manifest.json"] = json.dumps(manifest, sort_keys=True, separators=(",", ":")).encode()
    if resign:
        members["manifest.sha256"] = hashlib.sha256(members["manifest.json"]).hexdigest().encode()
    with zipfile.ZipFile(target, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return target


@pytest.mark.parametrize("command", [["report"], ["run", "--device", "emulator", "--input", "calib.npy"]])
def test_artifact_of_another_version(good: Path, tmp_path: Path, refused: Callable[..., str], command: list[str]) -> None:
    """A newer schema may mean anything, so nothing of it may be believed."""
    bad = _altered(good / "m.cnna", tmp_path / "bad.cnna", lambda manifest: manifest.update(schema=99))
    line = refused(command[0], bad, *[good / part if part.endswith(".npy") else part for part in command[1:]])
    assert "bad.cnna" in line
    assert "99" in line


def test_altered_artifact(good: Path, tmp_path: Path, refused: Callable[..., str]) -> None:
    """A flipped bit in the weights would silently give a wrong answer."""
    bad = _altered(good / "m.cnna", tmp_path / "bad.cnna", lambda manifest: manifest.update(macs=1), resign=False)
    assert "bad.cnna" in refused("run", bad, "--input", good / "calib.npy", "--device", "emulator", "-o", "out")


@pytest.mark.parametrize("part", [0.0, 0.3, 0.9, 0.999])
def test_truncated_artifact(good: Path, tmp_path: Path, refused: Callable[..., str], part: float) -> None:
    """A copy may be interrupted."""
    data = (good / "m.cnna").read_bytes()
    (tmp_path / "bad.cnna").write_bytes(data[: int(part * len(data))])
    assert "bad.cnna" in refused("run", tmp_path / "bad.cnna", "--input", good / "calib.npy", "--device", "emulator", "-o", "out")


@pytest.mark.parametrize("more", [b"\0", b"x" * 22, b"PK\x05\x06" + bytes(18)])
@pytest.mark.parametrize("at_end", [True, False])
def test_bytes_that_are_no_members(good: Path, tmp_path: Path, refused: Callable[..., str], more: bytes, at_end: bool) -> None:
    """No digest covers them, so nobody has checked what else the file carries."""
    data = (good / "m.cnna").read_bytes()
    (tmp_path / "bad.cnna").write_bytes(data + more if at_end else b"PK" + more + data)
    assert "bad.cnna" in refused("run", tmp_path / "bad.cnna", "--input", good / "calib.npy", "--device", "emulator", "-o", "out")


def test_onnx_given_to_run(good: Path, refused: Callable[..., str]) -> None:
    """This is the most frequent mistake."""
    assert "q.onnx" in refused("run", good / "q.onnx", "--input", good / "calib.npy", "--device", "emulator", "-o", "out")
