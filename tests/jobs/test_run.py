"""`cnna.run`: what it gives equals what the command writes and prints."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import cnna
from cnna.cli.main import main
from cnna.host.model.model import Model
from cnna.jobs.run import _on

from ..host.emulated_board import EmulatedBoard
from .conftest import samples


@pytest.fixture
def folder(quantised: onnx.ModelProto, in_float: onnx.ModelProto, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """m.onnx, m.cnna and x.npz; it is the current folder."""
    monkeypatch.chdir(tmp_path)
    onnx.save(in_float, "m.onnx")
    cnna.compile(quantised, "tiny", output="m.cnna")
    np.savez("x.npz", x=samples(3))
    return tmp_path


def test_it_gives_what_the_command_writes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A notebook and a script would have two answers to one question."""
    words = "m.cnna --input x.npz --device emulator --check --against m.onnx --limit 2 --json f.json -o y.npz"
    assert main(["run", *words.split()]) == 0
    said = capsys.readouterr().out.splitlines()
    steps: list[tuple[int, int, str]] = []
    found = cnna.run("m.cnna", "x.npz", check=True, against="m.onnx", limit=2, progress=lambda *step: steps.append(step))
    assert capsys.readouterr() == ("", "")
    written, figures = json.loads(Path("f.json").read_text()), json.loads(json.dumps(found.figures()))
    for each in (written, figures):
        assert all(each.pop(name) > 0 for name in ("wall_seconds", "cpu_seconds"))
        assert list(each.pop("stage_seconds")) == ["opening", "reading", "running"]
    assert figures == written
    assert list(figures) == list(written)
    assert str(found).splitlines()[2:] == said[2 : len(str(found).splitlines())], "seconds differ in the first two lines"
    assert found.agreement in said
    with np.load("y.npz") as file:
        np.testing.assert_array_equal(found.answers["y"], file["y"])
    assert steps[0] == (0, 0, "opening the device")
    assert (0, 2, "running on emulator") in steps


def test_arrays_and_what_was_compiled_serve_as_well(folder: Path) -> None:
    """What a program has in memory would have to be written to files before it can run."""
    x = samples(3)
    found = cnna.run(cnna.load("m.cnna"), x, device="reference", output="y.npz")
    with cnna.InferenceSession("m.cnna", "reference") as session:
        np.testing.assert_array_equal(found.answers["y"], session.run(None, {"x": x})[0])
    assert (found.samples, found.device, found.ddr, found.cycles) == (3, "reference", None, None)
    assert "against" not in found.figures()
    assert Path("y.npz").is_file()


def test_a_board_is_compared_by_its_outputs(folder: Path) -> None:
    """A board shows no inner tensors, and whoever asks for a check would get an error, or none at all."""
    found = cnna.run("m.cnna", samples(2), device=EmulatedBoard(), check=True)
    assert (found.device, found.matches_reference) == ("pynq", True)
    assert "board == reference" in (found.agreement or "")
    assert [_on(device) for device in ("build/cnna.bit", Path("cnna.bit"), "rtl", "reference")] == [
        "pynq",
        "pynq",
        "rtl",
        "reference",
    ]


def test_errors_are_the_commands_lines(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A program would see another line than its user finds in the pages about the command."""
    cases: tuple[tuple[str, dict[str, Any]], ...] = (
        ("--limit 0", {"limit": 0}),
        ("--trace t.fst", {"trace": "t.fst"}),
        ("--from-cycle 5 --to-cycle 3", {"from_cycle": 5, "to_cycle": 3}),
        ("--ddr-latency 5", {"ddr": cnna.Ddr(latency=5)}),
        ("--metric top1", {"metrics": "top1"}),
        ("--against x.npz", {"against": "x.npz"}),
    )
    for words, options in cases:
        assert main(["run", "m.cnna", "--input", "x.npz", "--device", "emulator", *words.split()]) == 2
        said = capsys.readouterr().err
        with pytest.raises(cnna.UserError) as raised:
            cnna.run("m.cnna", "x.npz", **options)
        assert said == f"cnna: {raised.value}\n"


def test_a_difference_has_the_figures_of_its_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command would write no figures of the very run that its user has to look into."""

    def differ(self: Model, inputs: Any) -> Any:
        raise cnna.CheckError("layer stem: 1 of 256 elements differ")

    monkeypatch.setattr(Model, "run", differ)
    monkeypatch.setattr(Model, "at_once", lambda self, feed: None)
    with pytest.raises(cnna.CheckError) as raised:
        cnna.run("m.cnna", "x.npz", check=True)
    assert raised.value.figures is not None
    assert raised.value.figures["matches_reference"] is False
    assert main(["run", "m.cnna", "--input", "x.npz", "--device", "emulator", "--check", "--json", "f.json"]) == 1
    assert "1 of 256 elements differ" in capsys.readouterr().err
    assert json.loads(Path("f.json").read_text()).keys() == {**raised.value.figures}.keys() - {"pictures"}
