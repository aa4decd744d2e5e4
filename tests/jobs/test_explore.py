"""`cnna.explore` and `cnna.tilings`: what they give equals what the command writes and prints."""

import json
from pathlib import Path
from typing import Any

import onnx
import pytest

import cnna
from cnna.cli.main import main

LIMITS = "--dsp 48 --bram 60 --batch 1"


@pytest.mark.parametrize("model", ["m.onnx", "q.onnx"])
def test_it_gives_what_the_command_writes(
    in_float: onnx.ModelProto,
    quantised: onnx.ModelProto,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    model: str,
) -> None:
    """A notebook and a script would have two answers to one question."""
    monkeypatch.chdir(tmp_path)
    onnx.save(in_float, "m.onnx")
    onnx.save(quantised, "q.onnx")
    assert main(f"explore {model} {LIMITS} --ddr-latency 90 --png p.png --json f.json".split()) == 0
    said = capsys.readouterr()
    steps: list[tuple[int, int, str]] = []
    limits: dict[str, Any] = {"dsp": 48, "bram": 60, "batch": 1}
    found = cnna.explore(model, **limits, ddr=cnna.Ddr(latency=90), progress=lambda *step: steps.append(step))
    assert capsys.readouterr() == ("", "")
    written = json.loads(Path("f.json").read_text())
    assert json.loads(json.dumps(found.figures())) == written
    assert list(found.figures()) == list(written)
    assert f"{found}\n" == said.out
    assert said.err.splitlines() == [*found.notes, "wrote p.png, f.json"]
    assert bool(found.notes) == (model == "m.onnx")
    assert found.save("s.png").read_bytes() == Path("p.png").read_bytes()
    assert [point.fps for point in found.best] == sorted((point.fps for point in found.best), reverse=True)
    assert steps[-1][0] < steps[-1][1] == len(found.points) + found.refused
    assert "data:image/png;base64," in found._repr_html_()
    assert "<html" in found.save("s.html").read_text()


def test_tilings_are_what_the_command_writes(
    quantised: onnx.ModelProto, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A notebook and a script would have two answers to one question."""
    monkeypatch.chdir(tmp_path)
    onnx.save(quantised, "q.onnx")
    assert main(["explore", "q.onnx", "--layer", "stem", "--config", "tiny", "--png", "p.png", "--json", "f.json"]) == 0
    said = capsys.readouterr().out
    found = cnna.tilings("q.onnx", "stem", "tiny")
    assert json.loads(json.dumps(found.figures())) == json.loads(Path("f.json").read_text())
    assert f"{found}\n" == said
    assert found.picture() == Path("p.png").read_bytes()
    with pytest.raises(cnna.UserError, match="none"):
        cnna.tilings("q.onnx", "none", "tiny")


@pytest.mark.parametrize(
    ("board", "options", "said"),
    [
        ("moon", {}, "--board moon: there is no such board; there are zcu102"),
        ("zcu102", {"batch": 0}, "--batch 0: must be at least 1"),
        ("zcu102", {"dsp": 1}, "no configuration fits"),
        ("zcu102", {"ddr": cnna.Ddr(latency=0)}, "--ddr-latency 0: must be within"),
        ("zcu102", {"ddr": cnna.Ddr(road="zcu102-ps")}, "explore predicts with the plain road"),
    ],
)
def test_what_cannot_be_explored_is_one_line(quantised: onnx.ModelProto, board: str, options: dict[str, Any], said: str) -> None:
    """The command refuses it in its options, which a program does not have."""
    with pytest.raises(cnna.UserError, match=said):
        cnna.explore(quantised, board, **options)


def test_what_no_configuration_can_run_names_the_file(
    quantised: onnx.ModelProto, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user with several models would not learn which of them it is: the graph in a file has any name."""
    monkeypatch.chdir(tmp_path)
    onnx.save(quantised, "q.onnx")
    assert main(["explore", "q.onnx", "--dsp", "48", "--bram", "60", "--batch", "70000"]) == 2
    assert capsys.readouterr().err.startswith("cnna: q.onnx: ")
