"""`cnna.compile`: what it gives equals what the command writes and prints, from any form of the model."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

import cnna
from cnna.cli.main import main
from cnna.spec.artifact import load
from cnna.spec.config import as_dict, preset

from .conftest import model, samples


def test_it_gives_what_the_command_writes(quantised: onnx.ModelProto, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A notebook and a script would have two answers to one question."""
    onnx.save(quantised, tmp_path / "q.onnx")
    command = ["compile", tmp_path / "q.onnx", "--config", "tiny", "-o", tmp_path / "m.cnna", "--json", tmp_path / "f.json"]
    assert main([str(word) for word in command]) == 0
    said = capsys.readouterr().out
    found = cnna.compile(tmp_path / "q.onnx", "tiny", output=tmp_path / "n.cnna")
    assert capsys.readouterr() == ("", "")
    written = json.loads((tmp_path / "f.json").read_text())
    assert found.figures() == {**written, "output": str(tmp_path / "n.cnna")}
    assert f"{found}\n" == said.replace("m.cnna", "n.cnna")
    assert (tmp_path / "n.cnna").read_bytes() == (tmp_path / "m.cnna").read_bytes()
    for name, value in written.items():
        assert hasattr(found, name), name
        assert type(getattr(found, name)) is type(value) or not isinstance(value, int | float | bool), name


def test_every_form_of_a_model_gives_one_artifact(quantised: onnx.ModelProto, tmp_path: Path) -> None:
    """A model that is made in a notebook would have to be written to a file first, or would become another program."""
    onnx.save(quantised, tmp_path / "q.onnx")
    quantised = onnx.load(tmp_path / "q.onnx")
    first = cnna.compile(tmp_path / "q.onnx", "tiny", output=tmp_path / "m.cnna")
    forms = (str(tmp_path / "q.onnx"), (tmp_path / "q.onnx").read_bytes(), quantised)
    for other in [cnna.compile(form, "tiny") for form in forms]:
        assert [piece.program for piece in other.artifact.programs] == [piece.program for piece in first.artifact.programs]
        assert {**other.figures(), "output": None} == {**first.figures(), "output": None}
    for known in (first, first.artifact, tmp_path / "m.cnna"):
        again = cnna.compile(known)
        assert again.artifact.programs[0].program == first.artifact.programs[0].program
        assert (cnna.compile(known, batch=2).batch, again.batch) == (2, 1)


def test_a_configuration_is_text_a_value_or_a_file(quantised: onnx.ModelProto, tmp_path: Path) -> None:
    """Who has an accelerator of an own size would have to type it anew in every program."""
    own = cnna.compile(quantised, "tiny,bank_words=2048", output=tmp_path / "m.cnna").artifact.config
    (tmp_path / "own.json").write_text(json.dumps(as_dict(own)))
    for given in (own, tmp_path / "m.cnna", str(tmp_path / "m.cnna"), tmp_path / "own.json", str(tmp_path / "own.json")):
        assert cnna.compile(quantised, given).artifact.config == own
    assert cnna.compile(quantised, preset("tiny")).config == "tiny"


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"name": "own", "pix": 3}', '{"name": "own", "nonsense": 3}'])
def test_a_file_that_holds_no_configuration_is_one_line(quantised: onnx.ModelProto, tmp_path: Path, text: str) -> None:
    """A slip in the file would end in a traceback that names neither the file nor what belongs there."""
    (tmp_path / "own.json").write_text(text)
    with pytest.raises(cnna.UserError, match=r"own\.json: no configuration \(.*\); one is a \.cnna, or JSON") as raised:
        cnna.compile(quantised, tmp_path / "own.json")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("given", "options"),
    [
        ("q.onnx", {"config": "tiny,pix=3"}),
        ("q.onnx", {"config": "nothing"}),
        ("q.onnx", {}),
        ("none.onnx", {"config": "tiny"}),
        ("text.onnx", {"config": "tiny"}),
        ("float.onnx", {"config": "tiny"}),
        ("q.onnx", {"config": "tiny", "shape": "z:1,3,8,8"}),
    ],
)
def test_errors_say_what_the_command_says(
    quantised: onnx.ModelProto,
    in_float: onnx.ModelProto,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    given: str,
    options: dict[str, str],
) -> None:
    """A program would see SystemExit, a traceback of the compiler, or a line that does not name the file."""
    monkeypatch.chdir(tmp_path)
    onnx.save(quantised, "q.onnx")
    onnx.save(in_float, "float.onnx")
    Path("text.onnx").write_text("no model")
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    assert main(["compile", given, *words, "-o", "m.cnna"]) == 2
    said = capsys.readouterr().err
    sizes = {"z": (1, 3, 8, 8)} if "shape" in options else None
    with pytest.raises(cnna.UserError) as raised:
        cnna.compile(given, options.get("config"), shapes=sizes, output="m.cnna")
    assert said == f"cnna: {' '.join(str(raised.value).split())}\n"
    assert capsys.readouterr() == ("", "")
    assert not Path("m.cnna").exists()


def test_ctrl_c_leaves_nothing_behind(quantised: onnx.ModelProto, tmp_path: Path) -> None:
    """Half a file would be taken for a compiled model."""

    def interrupted(done: int, total: int, what: str) -> None:
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cnna.compile(quantised, "tiny", output=tmp_path / "m.cnna", progress=interrupted)
    assert not list(tmp_path.iterdir())


def test_progress_says_what_is_done(quantised: onnx.ModelProto) -> None:
    """A bar in a notebook would stand still, or run backwards within a step."""
    steps: list[tuple[int, int, str]] = []
    cnna.compile(quantised, "tiny", progress=lambda *step: steps.append(step))
    assert steps[0] == (0, 0, "compiling for tiny")
    assert len(steps) > 1
    assert all(0 <= done <= total for done, total, _ in steps)


def test_an_output_that_cannot_be_written_is_said_before_any_work(quantised: onnx.ModelProto, tmp_path: Path) -> None:
    """Minutes of compiling would be lost to a slip in a folder's name."""
    steps: list[str] = []
    with pytest.raises(cnna.UserError, match="does not exist; make it first"):
        cnna.compile(quantised, "tiny", output=tmp_path / "none" / "m.cnna", progress=lambda *step: steps.append(step[2]))
    assert not steps


def test_what_is_compiled_runs_and_is_saved(quantised: onnx.ModelProto, tmp_path: Path) -> None:
    """A caller would have to know that a session takes the artifact inside the result."""
    found = cnna.compile(quantised, "tiny")
    with found.session(check=True) as session, cnna.InferenceSession(found.save(tmp_path / "m.cnna")) as other:
        assert np.array_equal(session.run(None, {"x": samples()})[0], other.run(None, {"x": samples()})[0])
    assert load(tmp_path / "m.cnna").model == found.artifact.model
    assert found.output is None


def test_a_model_on_the_cpu_alone_says_so() -> None:
    """The command warns; a program would not learn why its accelerator does nothing."""
    assert "all of the model runs on the CPU" in (cnna.compile(model("y = Sin (x)", channels=3), "tiny").on_cpu or "")
