"""What a user can get wrong about files: one line that names it, exit code 2, no traceback, no output file."""

import resource
import subprocess
import sys
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest

from cnna.spec.errors import UserError

from .cases import OUTPUTS, words_of

COMMANDS = {  # one whole command line each; {} is the place of the bad file
    "model of quantize": "quantize {} --calib calib.npy -o out",
    "calibration": "quantize m.onnx --calib {} -o out",
    "model of compile": "compile {} --config tiny -o out",
    "artifact of run": "run {} --device emulator --input calib.npy -o out",
    "input of run": "run m.cnna --device emulator --input {} -o out",
    "labels of run": "run m.cnna --device emulator --input calib.npy --labels {} -o out",
    "artifact of report": "report {}",
    "figures of report": "report m.cnna --measured {}",
}


@pytest.mark.parametrize("what", COMMANDS)
def test_a_file_that_is_missing(good: Path, tmp_path: Path, refused: Callable[..., str], what: str) -> None:
    """The line would not show the misspelt name."""
    assert "nowhere" in refused(*words_of(COMMANDS[what], good, tmp_path / "nowhere"))


@pytest.mark.parametrize("what", COMMANDS)
def test_a_folder_in_the_place_of_a_file(good: Path, tmp_path: Path, refused: Callable[..., str], what: str) -> None:
    """Tab completion may stop a name too early."""
    (tmp_path / "folder").mkdir()
    assert "folder" in refused(*words_of(COMMANDS[what], good, tmp_path / "folder"))


@pytest.mark.parametrize(
    ("command", "content", "remedy"),
    [
        ("report {}", None, "no such file; `cnna compile` makes one"),
        ("report {}", "folder", "name the .cnna file in it"),
        ("report {}", "calib.npz", "not a .cnna file (a zip archive without manifest.json); `cnna compile` makes one"),
        ("report {}", "q.onnx", "not a .cnna file (no zip archive); `cnna compile` makes one"),
        ("report m.cnna --measured {}", "calib.npz", "not JSON, as `cnna run --json R.json` writes it"),
        ("report m.cnna --measured {}", "labels.txt", "not JSON, as `cnna run --json R.json` writes it"),
        (
            "run m.cnna --device emulator --input {} -o out",
            "m.cnna",
            "not a .npy or .npz file, as numpy.save and numpy.savez write",
        ),
        (
            "run m.cnna --device emulator --input {} -o out",
            "q.onnx",
            "not a .npy or .npz file, as numpy.save and numpy.savez write",
        ),
        ("run m.cnna --device emulator --input {} -o out", "half.npz", "truncated or damaged; copy or save it again"),
        ("run m.cnna --device emulator --input {} -o out", "half.npy", "truncated or damaged; copy or save it again"),
        ("run m.cnna --device emulator --input {} -o out", "words.npz", "holds objects, not numbers; save it as float32"),
        ("quantize m.onnx --calib {} -o out", "half.npz", "truncated or damaged; copy or save it again"),
        (
            "quantize {} --calib calib.npy -o out",
            "m.cnna",
            "a .cnna, which is compiled; give the ONNX model from which it was made",
        ),
        (
            "run m.cnna --input calib.npy --device emulator --against {} -o out",
            "m.cnna",
            "a .cnna, which is compiled; give the ONNX model from which it was made",
        ),
        ("explain {} --html out", "m.cnna", "a .cnna, which is compiled; give the ONNX model from which it was made"),
        (
            "quantize {} --calib calib.npy -o out",
            "calib.npy",
            "not an ONNX file (its protobuf cannot be read); export the model as one",
        ),
        ("quantize m.onnx --calib calib.npy -o {}/q.onnx", "labels.txt", "is a file, not a folder"),
        ("quantize m.onnx --calib calib.npy -o {}/q.onnx", None, "does not exist; make it first"),
    ],
)
def test_another_file_than_the_command_takes(
    good: Path, tmp_path: Path, refused: Callable[..., str], command: str, content: str | None, remedy: str
) -> None:
    """For a file of the wrong kind, or half a copy, the line must say what it is not, and what to do."""
    bad = tmp_path / f"bad{Path(content or '').suffix}"
    if content == "folder":
        bad.mkdir()
    elif content:
        bad.write_bytes(_content(content, good))
    line = refused(*[good / word if "." in word and "{" not in word else word.format(bad) for word in command.split()])
    assert str(bad) in line
    assert line.endswith(remedy)


def _content(name: str, good: Path) -> bytes:
    """The content of a good file or of arrays: whole, half, or without numbers."""
    if (good / name).exists():
        return (good / name).read_bytes()
    arrays = BytesIO()
    images = np.load(good / "calib.npy")
    if name == "half.npy":
        np.save(arrays, images)
    else:
        np.savez(arrays, x=np.array(["a", None], object) if name == "words.npz" else images)
    return arrays.getvalue()[: len(arrays.getvalue()) // (2 if "half" in name else 1)]


@pytest.mark.parametrize("what", OUTPUTS)
def test_an_output_that_cannot_be_written(good: Path, tmp_path: Path, refused: Callable[..., str], what: str) -> None:
    """A missing folder, or a folder as output, must be refused before the work and not after it."""
    (tmp_path / "folder").mkdir()
    for bad in (tmp_path / "folder", tmp_path / "nowhere" / "file"):
        assert str(bad) in refused(*words_of(OUTPUTS[what], good, bad))


@pytest.mark.parametrize("command", ["compile q.onnx --config tiny -o out --dump {}", "rtl --config tiny --module ring -o {}"])
def test_a_file_in_the_place_of_a_folder(good: Path, tmp_path: Path, refused: Callable[..., str], command: str) -> None:
    """It must be refused with its name, and the file must stay as it is."""
    (tmp_path / "file").write_text("precious")
    assert str(tmp_path / "file") in refused(*words_of(command, good, tmp_path / "file"))
    assert (tmp_path / "file").read_text() == "precious"


def test_a_block_that_there_is_not(refused: Callable[..., str]) -> None:
    """The line must list the blocks that exist (without --config those of tiny), and no empty folder may stay."""
    line = refused("rtl", "--module", "flux", "-o", "out")
    assert "flux" in line
    assert "array" in line


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_a_full_disk(good: Path, refused: Callable[..., str]) -> None:
    """There must be one line, without the archive's own complaint that it cannot finish."""
    assert "no space left" in refused(*words_of(OUTPUTS["answers of run"], good, Path("/dev/full")))


@pytest.mark.parametrize("what", ["quantize", "compile", "passes of compile", "picture of report"])
def test_a_place_that_fills_up_has_no_half_file(good: Path, tmp_path: Path, what: str) -> None:
    """The first kilobytes of a file look like a file: there must be one line, code 2, and none of it left."""
    line = {**OUTPUTS, "passes of compile": "compile q.onnx --config tiny -o /dev/null --dump {}"}[what]
    words = words_of(line, good, tmp_path / "out")
    done = subprocess.run(
        [sys.executable, "-m", "cnna.cli.main", *map(str, words)],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512)), capture_output=True, text=True,
    )  # fmt: skip
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert "file too large" in done.stderr
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_every_such_error_is_the_users() -> None:
    """The tests above rely on this definition of exit code 2."""
    assert UserError("x").exit_code == 2


# --- outputs that would destroy something ---

SAME = {  # {} is a copy of the file named first; each command would overwrite it, or write it twice
    "model of quantize": ("m.onnx", "quantize {} --calib calib.npy -o {}"),
    "report of quantize": ("labels.txt", "quantize m.onnx --calib calib.npy --labels {} --report {} -o out"),
    "calibration": ("calib.npy", "quantize m.onnx --calib {} -o {}"),
    "model of compile": ("q.onnx", "compile {} --config tiny -o {}"),
    "figures of compile": ("q.onnx", "compile {} --config tiny -o out --json {}"),
    "input of run": ("calib.npy", "run m.cnna --device emulator --input {} -o {}"),
    "labels of run": ("labels.txt", "run m.cnna --device emulator --input calib.npy --labels {} -o {}"),
    "figures of run": ("m.cnna", "run {} --device emulator --input calib.npy --json {}"),
    "waveform": ("m.cnna", "run {} --input calib.npy --trace {}"),
    "page of report": ("m.cnna", "report {} --html {}"),
    "page and picture": ("labels.txt", "report m.cnna --html {} --png {}"),
    "page and figures": ("labels.txt", "report m.cnna --html {} --json {}"),
    "two sets of images": ("calib.npy", "models digits --calib {} --test {}"),
}


@pytest.mark.parametrize("what", SAME)
def test_one_file_for_two_things(good: Path, tmp_path: Path, refused: Callable[..., str], what: str) -> None:
    """A trained model that is overwritten is lost; the line must name the file, and the file stay as it was."""
    source, command = SAME[what]
    precious = tmp_path / source
    precious.write_bytes((good / source).read_bytes())
    line = refused(*words_of(command, good, precious))
    assert str(precious) in line
    assert "another name" in line
    assert precious.read_bytes() == (good / source).read_bytes()


def test_one_file_by_two_names(good: Path, tmp_path: Path, refused: Callable[..., str]) -> None:
    """The same file may have two names: by way of another folder, or through a link."""
    (tmp_path / "folder").mkdir()
    precious, link = tmp_path / "m.cnna", tmp_path / "link.cnna"
    precious.write_bytes((good / "m.cnna").read_bytes())
    link.symlink_to(precious)
    for other in (tmp_path / "folder" / ".." / "m.cnna", link):
        assert str(other) in refused("report", precious, "--html", other)
    assert precious.read_bytes() == (good / "m.cnna").read_bytes()


def test_outputs_not_there_yet_of_one_name(good: Path, refused: Callable[..., str]) -> None:
    """Nothing is lost then, but the second output would replace the first."""
    assert "--png" in refused("report", good / "m.cnna", "--html", "out", "--png", "out")


@pytest.mark.parametrize("what", ["quantize", "compile", "models"])
def test_figures_that_cannot_be_written(good: Path, tmp_path: Path, refused: Callable[..., str], what: str) -> None:
    """It must be refused before minutes of work, and no output may stay from a command that failed."""
    (tmp_path / "folder").mkdir()
    for bad in (tmp_path / "folder", tmp_path / "nowhere" / "file"):
        words = words_of(OUTPUTS[what], good, tmp_path / "out")
        assert str(bad) in refused(*words, "--json", bad)
