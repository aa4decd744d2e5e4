"""`cnna.split`: what it gives equals what the command writes and prints."""

import json
from pathlib import Path
from typing import Any

import onnx
import pytest

import cnna
from cnna.cli.main import main
from cnna.cli.serving.serve import GRPC
from cnna.jobs.split import ADDRESS


def test_it_gives_what_the_command_writes(
    quantised: onnx.ModelProto, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A program and a script would write other halves of one model."""
    monkeypatch.chdir(tmp_path)
    onnx.save(quantised, "q.onnx")
    assert main(["split", "q.onnx", "--link", "10", "--config", "tiny", "--out", "a", "--at", "stem", "--json", "f.json"]) == 0
    said = capsys.readouterr().out.splitlines()
    steps: list[tuple[int, int, str]] = []
    found = cnna.split("q.onnx", 10, "b", at="stem", config="tiny", progress=lambda *step: steps.append(step))
    assert capsys.readouterr() == ("", "")
    assert str(found).splitlines()[-1].replace("b: ", "a: ", 1) == said[2]
    written = json.loads(Path("f.json").read_text())
    for each in (written, figures := json.loads(json.dumps(found.figures()))):
        assert each["cuts"][0].pop("cloud_seconds") > 0  # measured, and so never twice the same
    assert figures == written
    kept = [{path.relative_to(root).as_posix(): path for path in Path(root).rglob("*")} for root in ("a", "b")]
    assert kept[0].keys() == kept[1].keys()
    assert all(path.read_bytes() == kept[1][name].read_bytes() for name, path in kept[0].items() if path.is_file())
    assert steps[-1] == (0, 0, "comparing both halves with the whole")


def test_errors_are_the_commands_lines(
    quantised: onnx.ModelProto, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A program would see another line than its user finds in the pages about the command."""
    monkeypatch.chdir(tmp_path)
    onnx.save(quantised, "q.onnx")
    cases: tuple[tuple[str, dict[str, Any]], ...] = (
        ("--link 0", {"link": 0}),
        ("--tensors 0", {"tensors": 0}),
        ("--name a/b", {"name": "a/b"}),
        ("--address there", {"address": "there"}),
        ("--at nowhere", {"at": "nowhere"}),
    )
    for words, options in cases:
        assert main(["split", *["q.onnx", "--link", "10", "--config", "tiny", "--out", "a"], *words.split()]) == 2
        said = capsys.readouterr().err
        with pytest.raises(cnna.UserError) as raised:
            cnna.split("q.onnx", **{"link": 10, "output": "a", "config": "tiny", **options})
        assert said == f"cnna: {raised.value}\n"
    assert not Path("a").exists()


def test_the_address_is_that_of_a_server_here() -> None:
    """The edge would ask where nobody listens."""
    assert f"grpc://{GRPC}" == ADDRESS
