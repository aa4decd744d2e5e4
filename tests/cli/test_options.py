"""Options that commands share: `--config` makes presets and changed ones, and says what is legal; `--shape` as it is typed."""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cnna.cli.main import main
from cnna.cli.options import add_shape_option, configuration, given_shapes
from cnna.spec.config import PRESETS, Config, as_dict, preset
from cnna.spec.errors import UserError
from cnna.spec.machine import MOST_BATCH


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_itself(name: str) -> None:
    """Another name would mean another simulator, which would be built again."""
    assert configuration(name) == preset(name)


def test_a_changed_one_is_the_preset_but_for_the_change() -> None:
    """Its name must tell the sizes apart in figures and files, and be fit for a file's name."""
    found = configuration("zcu102,pix=4,bank_words=4096")
    assert found == replace(preset("zcu102"), pix=4, bank_words=4096, name=found.name)
    assert found.name == "zcu102-pix4-bank_words4096"


def test_streams_are_a_change_too() -> None:
    """The command line's 1, a test's True and a manifest's 1 would be three simulators, built one by one."""
    found = configuration("tiny,streams=1")
    stored: dict[str, Any] = as_dict(found)
    assert repr(found) == repr(replace(preset("tiny"), streams=True, name=found.name)) == repr(Config(**stored))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("huge", "huge"),
        ("", "tiny"),
        ("huge,pix=4", "huge"),
        ("zcu102,", "''"),
        ("zcu102,pix", "'pix'"),
        ("zcu102,pix=", "pix="),
        ("zcu102,pix=four", "pix=four"),
        ("zcu102,pix=-4", "pix=-4"),
        ("zcu102,pix=4,pix=8", "pix is given twice"),
        (f"zcu102,pix={'9' * 5000}", "PARAMETER=NUMBER"),
        ("zcu102,name=4", "bank_words"),
        ("zcu102,pix=3", "2, 4, 8 and 16"),
        ("zcu102,streams=2", "0 and 1"),
    ],
)
def test_one_that_there_is_not(text: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """There must be one line with the value and what is legal, from every command that takes a configuration."""
    with pytest.raises(UserError, match="--config") as caught:
        configuration(text)
    assert said in str(caught.value)
    assert main(["rtl", "--config", text, "-o", "nowhere"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def shapes_given(*words: str) -> dict[str, tuple[int, ...]]:
    parser = argparse.ArgumentParser()
    add_shape_option(parser)
    return given_shapes(parser.parse_args([word for text in words for word in ("--shape", text)]))


def test_names_may_have_colons() -> None:
    """TensorFlow's names do: cut at the first colon, `input:0` would be an input called `input` with unreadable sizes."""
    assert shapes_given("input:0:1,3,4,4", "x:1,2") == {"input:0": (1, 3, 4, 4), "x": (1, 2)}
    assert shapes_given("1,3,224,224") == {"": (1, 3, 224, 224)}
    assert shapes_given() == {}


@pytest.mark.parametrize("text", ["x:1,3,,4", "x:", "x:1,3,4.5", "x=1,3", "x:1,-3", f"x:1,{'9' * 5000}"], ids=lambda text: text[:9])
def test_what_is_no_shape(text: str) -> None:
    """There must be one line with an example; int() would say `invalid literal`."""
    with pytest.raises(UserError, match="as in images:1,3,640,640"):
        shapes_given(text)


def test_a_change_that_changes_nothing_is_none() -> None:
    """`tiny,pix=2` would be another configuration than `tiny`, and refuse its artifacts."""
    tiny = preset("tiny")
    assert configuration(f"tiny,pix={tiny.pix}") == tiny
    text = f"tiny,pix={tiny.pix},bank_words={2 * tiny.bank_words},ports={tiny.ports}"
    assert configuration(text) == configuration(f"tiny,bank_words={2 * tiny.bank_words}")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("run m.cnna --input x.npy -o {}y.npy", "--output {}y.npy: its name must end in .npz, which says what is written"),
        ("run m.cnna --input x.npy -o {}y.TXT", "--output {}y.TXT: its name must end in .npz"),
        ("report m.cnna --png {}x.jpg", "--png {}x.jpg: its name must end in .png"),
        ("report m.cnna --html {}x.pdf", "--html {}x.pdf: its name must end in .html or .htm"),
        ("explore m.onnx --png {}x.svg", "--png {}x.svg: its name must end in .png"),
        ("models digits --calib {}x.npy", "--calib {}x.npy: its name must end in .npz"),
        ("quantize m.onnx --calib x.npy -o {}q.cnna", "--output {}q.cnna: its name must end in .onnx"),
        ("compile q.onnx --config tiny -o {}m.onnx", "--output {}m.onnx: its name must end in .cnna"),
    ],
)
def test_a_name_of_another_format_is_refused_before_any_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str, said: str
) -> None:
    """numpy.load and viewers would take the name's word, and fail on the file."""
    assert main([word.format(f"{tmp_path}/") for word in line.split()]) == 2
    assert said.format(f"{tmp_path}/") in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["y", "y.npz", "y.NPZ"])
def test_a_name_that_says_nothing_or_the_format_is_taken(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    """What has always been written would be refused. The model is what is missing here."""
    assert main(["run", str(tmp_path / "m.cnna"), "--input", "x.npy", "-o", str(tmp_path / name)]) == 2
    assert "m.cnna: no such file" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["run m.cnna --input x", "report m.cnna", "rtl --config tiny -o o", "cache", "explore m.onnx"])
def test_a_cache_below_nothing_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    """A slip in the name would make a path of folders somewhere, and fill it."""
    with pytest.raises(SystemExit) as ended:
        main([*command.split(), "--cache", str(tmp_path / "none" / "cache")])
    assert ended.value.code == 2
    assert f"none/cache: the folder {tmp_path / 'none'} does not exist; make it first" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("batch", ["0", "-1", "1.5", "many", str(MOST_BATCH + 1)])
@pytest.mark.parametrize("command", [["explain", "m.onnx"], ["convert", "m.onnx", "--calib", "x.npz", "-o", "m.cnna"]])
def test_a_batch_beyond_a_run_is_refused_before_anything_is_read(
    command: list[str], batch: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A network would be quantised for minutes first, and who has typed 0 was told to run several batches."""
    with pytest.raises(SystemExit) as done:
        main([*command, "--batch", batch])
    assert done.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"argument --batch: '{batch}' is no batch; one is 1 to {MOST_BATCH} images" in line
