"""`cnna.rtl`: what it gives equals what the command writes and prints."""

import json
from pathlib import Path

import pytest

import cnna
from cnna.cli.main import main


def test_it_gives_what_the_command_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A program and a script would have two descriptions of one module."""
    monkeypatch.chdir(tmp_path)
    assert main(["rtl", "--config", "tiny", "--module", "load", "-o", "out", "--json", "f.json"]) == 0
    said = capsys.readouterr().out
    steps: list[str] = []
    found = cnna.rtl("tiny", "load", output="out", progress=lambda *step: steps.append(step[2]))
    assert capsys.readouterr() == ("", "")
    assert found.figures() == json.loads(Path("f.json").read_text())
    assert f"{found}\n" == said
    assert steps
    for name, content in cnna.rtl("tiny", "load").contents.items():
        assert Path("out", name).read_bytes() == content
    assert found.save("other")[0].read_text() == found.verilog


def test_what_cannot_be_generated_is_one_line(tmp_path: Path) -> None:
    """The user would get the error of another process, and the file in the folder's place would be written over."""
    with pytest.raises(cnna.UserError, match="--module: module flux: no such module; there are"):
        cnna.rtl("tiny", "flux")
    (tmp_path / "file").write_text("mine")
    with pytest.raises(cnna.UserError, match="is a file, not a folder"):
        cnna.rtl("tiny", "load", output=tmp_path / "file")
    assert (tmp_path / "file").read_text() == "mine"
