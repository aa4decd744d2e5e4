"""`cnna.eval`: what it gives equals what the command writes and prints."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import cnna
from cnna.cli.main import main

from .conftest import samples


@pytest.fixture
def folder(quantised: onnx.ModelProto, in_float: onnx.ModelProto, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """m.onnx, q.onnx and m.cnna, and d.npz with a target of each sample; it is the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    onnx.save(in_float, "m.onnx")
    onnx.save(quantised, "q.onnx")
    cnna.compile("q.onnx", "tiny", output="m.cnna")
    np.savez("d.npz", x=samples(8), y=np.arange(8) % 4)
    return tmp_path


def same(answers: dict[str, np.ndarray], target: Any) -> dict[str, float]:
    """A figure of a test's own."""
    return {"mean": float(answers["y"].mean())}


def test_it_gives_what_the_command_writes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A notebook and a script would have two answers to one question."""
    Path("own.py").write_text("def mean(answers, target):\n    return {'mean': float(answers['y'].mean())}\n")
    words = "m.cnna m.onnx --data d.npz --metric own.py:mean --limit 6 --json f.json --html p.html"
    assert main(["eval", *words.split()]) == 0
    said = capsys.readouterr().out
    steps: list[tuple[int, int, str]] = []
    options: dict[str, Any] = {"metric": "own.py:mean", "limit": 6, "progress": lambda *step: steps.append(step)}
    found = cnna.eval(["m.cnna", "m.onnx"], "d.npz", **options)
    assert capsys.readouterr() == ("", "")
    written = json.loads(Path("f.json").read_text())
    for each in (written, figures := json.loads(json.dumps(found.figures()))):
        for model in each["models"]:
            assert model.pop("seconds") >= 0
    assert figures == written
    assert list(figures) == list(written)
    assert f"{found}\n" == said
    assert found.page() == found.save("q.html").read_text()
    assert (steps[0], steps[-1]) == ((0, 0, "opening the models"), (6, 6, "measuring"))
    assert found._repr_html_().count("<") == 2


def test_models_may_be_in_memory(folder: Path) -> None:
    """What a program has compiled would have to be written to a file before it can be measured."""
    of_files = cnna.eval(["m.onnx", "m.cnna"], "d.npz", metric=same)
    compiled = cnna.compile(cnna.quantize("m.onnx", samples()), "tiny")
    found = cnna.eval(["m.onnx", cnna.load("m.cnna"), compiled], "d.npz", metric=same)
    assert [model["metrics"] for model in found.models[:2]] == [model["metrics"] for model in of_files.models]
    assert found.compared_with == "m.onnx"
    assert cnna.eval(compiled, "d.npz", metric=same).models[0]["metrics"] == found.models[2]["metrics"]


def test_errors_are_the_commands_lines(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A program would see another line than its user finds in the pages about the command."""
    for words, options in (("--limit 0", {"limit": 0}), ("--seed 1", {"seed": 1}), ("--scale 0", {"preprocess": {"scale": 0}})):
        assert main(["eval", "m.cnna", "--data", "d.npz", *words.split()]) == 2
        said = capsys.readouterr().err
        with pytest.raises(cnna.UserError) as raised:
            cnna.eval("m.cnna", "d.npz", **options)
        assert said == f"cnna: {raised.value}\n"
    with pytest.raises(cnna.UserError, match="there is no model to measure"):
        cnna.eval([], "d.npz")


def test_two_evaluations_compare_as_the_command_does(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever measures in a program would have to start the command to see which answers have changed."""
    Path("own.py").write_text("def mean(answers, target):\n    return {'mean': float(answers['y'].mean())}\n")
    both = [cnna.eval(name, "d.npz", metric="own.py:mean") for name in ("m.onnx", "m.cnna")]
    for name, one in zip(("a.json", "b.json"), both, strict=True):
        Path(name).write_text(json.dumps(one.figures()))
    assert main(["compare", "a.json", "b.json", "--json", "f.json", "--html", "p.html"]) == 0
    said = capsys.readouterr().out
    found = cnna.compare_evaluations("a.json", "b.json")
    assert f"{found}\n" == said.partition("wrote ")[0]
    assert json.loads(json.dumps(found.figures())) == json.loads(Path("f.json").read_text())
    assert found.page() == Path("p.html").read_text()
    assert cnna.compare_evaluations(*both).models == found.models
    with pytest.raises(
        cnna.DataError, match="the second: not what `cnna eval --json` writes, as the other is; an evaluation compares with another"
    ):
        cnna.compare_evaluations(both[0], {"kind": "run"})
