"""A library with models inside answers as the reference does, from an application in C, on this processor and on a board's."""

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cnna import InferenceSession
from cnna.cli.main import main
from cnna.compiler.compile import compile_model
from cnna.compiler.frontend.onnx_import import load_model
from cnna.compiler.quantise.quantise import quantise
from cnna.compiler.zoo.digits import data
from cnna.serve.models import golden
from cnna.serve.packages.contents import contents_of
from cnna.serve.packages.library import Library, make_library
from cnna.spec.artifact import save
from cnna.spec.config import preset
from cnna.spec.errors import ToolError, UserError
from cnna.spec.samples.preprocess import Preprocess

from .shared_board import shared_board

SECONDS = 600
ARM = "aarch64-linux-gnu-g++"
SAMPLES = 11  # of batches of 1 and 4: two full ones, and one that is not


@pytest.fixture(scope="module")
def images() -> NDArray[np.float32]:
    return data.load().test.images[:SAMPLES].astype(np.float32)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory, images: NDArray[np.float32]) -> Path:
    """A repository with two models: one with, and one without preprocessing and golden answers."""
    root = tmp_path_factory.mktemp("models")
    for name, how in (("digits", Preprocess(1 / 255)), ("plain", None)):
        model, _ = quantise(load_model(data.NETWORK), {"image": data.load().calibration.images}, preprocess=how)
        folder = root / name / "1"
        folder.mkdir(parents=True)
        for batch in (1, 4):
            save(compile_model(model, preset("tiny"), batch), folder / f"tiny-b{batch}.cnna")
        if how:
            golden.write(folder / "golden.npz", {"image": images[:5]}, {"logits": reference(folder / "tiny-b4.cnna", images[:5])})
    return root


def reference(path: Path, x: NDArray[Any]) -> NDArray[Any]:
    with InferenceSession(path, "reference") as session:
        (y,) = session.run(None, {"image": x})
    return np.asarray(y)


@pytest.fixture(scope="module", params=["g++", pytest.param(ARM, marks=pytest.mark.aarch64)])
def application(
    request: pytest.FixtureRequest, root: Path, models: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[list[str], Library]:
    """The example, linked with the library: its command line, and what was packed."""
    folder = tmp_path_factory.mktemp("library")
    assert shutil.which(request.param), f"{request.param} is missing: apt install g++-aarch64-linux-gnu qemu-user"
    library = make_library(contents_of(models), folder / "models", compiler=f"{request.param} -O1 -Werror")
    shutil.copy(root / "examples" / "cpp" / "embedded.c", folder)
    own = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O1", "-I", "models"]
    c = [request.param.replace("g++", "gcc"), *own, "-c", "embedded.c", "-o", "embedded.o"]
    linked = [request.param, "-static", "embedded.o", str(library.archive), "-pthread", "-o", "embedded"]
    for line in (c, linked):
        subprocess.run(line, cwd=folder, check=True, timeout=SECONDS)
    made = str(folder / "embedded")
    return [made] if request.param == "g++" else ["qemu-aarch64", "-cpu", "cortex-a53", made], library


def played(line: list[str], x: NDArray[Any]) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(line, input=x.tobytes(), capture_output=True, timeout=SECONDS, check=False)


def test_it_answers_as_the_reference(
    application: tuple[list[str], Library], models: Path, images: NDArray[np.float32], tmp_path: Path
) -> None:
    """A port, an offset, a register or a batch that is not full would be wrong, in float or for pictures."""
    program, library = application
    assert library.models == ("digits/1", "plain/1")
    pictures = np.random.default_rng(1).integers(0, 256, (SAMPLES, 16, 16, 1), np.uint8)
    with shared_board(tmp_path) as board:
        for name, x, more in (("plain", images, []), ("digits", images, []), ("digits", pictures, ["pictures"])):
            wanted = reference(models / name / "1" / "tiny-b1.cnna", x)
            done = played([*program, *board, name, str(SAMPLES), *more], x)
            assert not done.returncode, done.stderr
            np.testing.assert_array_equal(np.frombuffer(done.stdout, np.float32).reshape(wanted.shape), wanted)


def test_it_says_what_is_wrong(application: tuple[list[str], Library], images: NDArray[np.float32], tmp_path: Path) -> None:
    """An accelerator of another size would write nonsense, NaN become a number, and too little memory be overrun."""
    program, _ = application
    bad = np.where(np.arange(256).reshape(16, 16) == 7, np.float32(np.nan), images)
    with shared_board(tmp_path) as board:
        assert b"running: a float is NaN" in played([*program, *board, "plain", str(SAMPLES)], bad).stderr
        assert b"the model takes no pictures" in played([*program, *board, "plain", "1", "pictures"], images).stderr
        assert b"no such model" in played([*program, *board, "cats", "1"], images).stderr
        assert b"not aligned" in played([*program, *board[:2], "0x800000010", "plain", "1"], images).stderr
    with shared_board(tmp_path, replace(preset("tiny"), pix=4)) as board:
        assert b"not those of the accelerator" in played([*program, *board, "plain", "1"], images).stderr
    with shared_board(tmp_path, ddr_bytes=1 << 16) as board:
        assert b"too small" in played([*program, *board, "plain", "1"], images).stderr


def test_golden_answers_are_compared(root: Path, models: Path, images: NDArray[np.float32], tmp_path: Path) -> None:
    """A board that computes wrongly would be trusted."""
    shutil.copytree(models, tmp_path / "models")
    folder = tmp_path / "models" / "digits" / "1"
    wrong = reference(folder / "tiny-b4.cnna", images[:5])
    wrong[3, 2] += np.float32(0.01)
    golden.write(folder / "golden.npz", {"image": images[:5]}, {"logits": wrong})
    library = make_library(contents_of(tmp_path / "models"), tmp_path / "packed", compiler="g++ -O0")
    shutil.copy(root / "examples" / "cpp" / "embedded.c", tmp_path)
    subprocess.run(["gcc", "-Ipacked", "-c", "embedded.c"], cwd=tmp_path, check=True, timeout=SECONDS)
    line = ["g++", "embedded.o", str(library.archive), "-pthread", "-o", "embedded"]
    subprocess.run(line, cwd=tmp_path, check=True, timeout=SECONDS)
    with shared_board(tmp_path) as board:
        done = played([str(tmp_path / "embedded"), *board, "plain", "1"], images)
    assert b"the golden samples: an answer to a golden sample differs" in done.stderr


def test_what_a_library_cannot_do_is_one_line(models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The compiler's words, or an archive that fails on a board, would come later."""
    contents = contents_of(models)
    for more, error, said in (
        ({"config": "zcu102"}, UserError, "not all models were compiled for it"),
        ({"compiler": "no-such-g++"}, ToolError, "no-such-g++ is not there"),
        ({"compiler": "g++ --no-such-flag"}, ToolError, "fails with code"),
    ):
        with pytest.raises(error, match=re.escape(said)):
            make_library(contents, tmp_path / "out", **more)
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "file").touch()
    assert main(["pack", str(models), "--as", "library", "-o", str(tmp_path / "there")]) == 2
    assert "is there already" in capsys.readouterr().err
    assert main(["pack", str(tmp_path / "none"), "--as", "library", "-o", str(tmp_path / "out")]) == 2
    assert "no such folder or file" in capsys.readouterr().err
