"""`cnna.publish`: what it gives equals what the command writes and prints, and a server answers from it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import cnna
from cnna.cli.main import main
from cnna.serve import Engine

from .conftest import samples


def test_it_gives_what_the_command_writes(
    quantised: onnx.ModelProto, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A program and a script would add other versions of one model."""
    monkeypatch.chdir(tmp_path)
    onnx.save(quantised, "q.onnx")
    np.savez("x.npz", x=samples(3))
    words = "q.onnx --repo a --model m --config tiny --batches 2,1 --input x.npz --limit 2 --fallback onnxruntime --json f.json"
    assert main(["publish", *words.split()]) == 0
    said = capsys.readouterr().out
    steps: list[tuple[int, int, str]] = []
    found = cnna.publish(
        quantised,
        "b",
        "m",
        cnna.compile(quantised, "tiny").artifact.config,
        batches=(2, 1),
        data=samples(3),
        limit=2,
        fallback="onnxruntime",
        progress=lambda *step: steps.append(step),
    )
    assert capsys.readouterr() == ("", "")
    assert str(found).replace("b/m", "a/m") == said.splitlines()[0]
    assert {**found.figures(), "folder": "a/m/1"} == json.loads(Path("f.json").read_text())
    files = [sorted(path.relative_to(root).as_posix() for path in Path(root).rglob("*")) for root in ("a", "b")]
    assert files[0] == files[1]
    assert (0, 0, "compiling for tiny, batch 1") in steps
    with Engine("b", boards=["one=emulator"]) as engine, cnna.InferenceSession(cnna.compile(quantised, "tiny")) as session:
        x = samples(2)
        np.testing.assert_array_equal(engine.infer("m", {"x": x}).outputs["y"], session.run(None, {"x": x})[0])


def test_errors_are_the_commands_lines(
    quantised: onnx.ModelProto, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A program would see another line than its user finds in the pages about the command."""
    monkeypatch.chdir(tmp_path)
    onnx.save(quantised, "q.onnx")
    cases: tuple[tuple[str, dict[str, Any]], ...] = (
        ("--limit 0", {"limit": 0}),
        ("--batches 0", {"batches": [0]}),
        ("--batches 1,512", {"batches": [1, 512]}),
        ("--version first", {"version": "first"}),
        ("--labels none.txt", {"labels": "none.txt"}),
    )
    for words, options in cases:
        assert main(["publish", *["q.onnx", "--repo", "r", "--model", "m", "--config", "tiny"], *words.split()]) == 2
        said = capsys.readouterr().err
        with pytest.raises(cnna.UserError) as raised:
            cnna.publish("q.onnx", "r", "m", "tiny", **options)
        assert said == f"cnna: {raised.value}\n"
    assert not Path("r").exists()
    wrong: tuple[dict[str, Any], ...] = ({"configs": []}, {"configs": ["tiny", "tiny"]}, {"configs": "tiny", "batches": []})
    for given in wrong:
        with pytest.raises(cnna.UserError):
            cnna.publish("q.onnx", "r", "m", **given)
