"""`cnna.report` and `cnna.compare`: what they give equals what the commands write and print."""

import json
from pathlib import Path

import onnx
import pytest

import cnna
from cnna.cli.main import main

from .conftest import samples


@pytest.fixture
def folder(quantised: onnx.ModelProto, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """m.cnna and w.cnna for two configurations; it is the current folder."""
    monkeypatch.chdir(tmp_path)
    cnna.compile(quantised, "tiny", output="m.cnna")
    cnna.compile(quantised, "tiny,ci=8", output="w.cnna")
    return tmp_path


@pytest.mark.parametrize(
    ("words", "ddr"),
    [
        ("", None),
        ("--ddr-bytes-per-cycle 3 --ddr-latency 50", cnna.Ddr(bytes_per_cycle=3, latency=50)),
        ("--ddr zcu102-ps", cnna.Ddr(road="zcu102-ps")),
    ],
)
def test_it_gives_what_the_command_writes(
    folder: Path, capsys: pytest.CaptureFixture[str], words: str, ddr: cnna.Ddr | None
) -> None:
    """A notebook and a script would have two answers to one question."""
    assert main(f"report m.cnna --png r.png --trace t.json --json f.json {words}".split()) == 0
    said = capsys.readouterr().out
    found = cnna.report("m.cnna", ddr=ddr)
    written = json.loads(Path("f.json").read_text())
    assert json.loads(json.dumps(found.figures())) == written
    assert list(found.figures()) == list(written)
    assert f"{found}\n" == said
    assert found.save("s.png").read_bytes() == Path("r.png").read_bytes()
    assert found.save_trace("u.json").read_bytes() == Path("t.json").read_bytes()
    assert found.page() == found.save("s.html").read_text()
    assert capsys.readouterr() == ("", "")


def test_every_form_of_an_artifact_is_reported_alike(folder: Path) -> None:
    """What is compiled in a program would have to be written before it can be looked at."""
    wanted = cnna.report("m.cnna").figures()
    for form in (Path("m.cnna"), Path("m.cnna").read_bytes(), cnna.compile("m.cnna"), cnna.compile("m.cnna").artifact):
        assert cnna.report(form).figures() == wanted


def test_figures_of_a_session_are_measured_ones(folder: Path) -> None:
    """They would have to go through a file; and those of another artifact would be shown as this one's."""
    with cnna.InferenceSession("m.cnna", "emulator") as session:
        session.run(None, {"x": samples(2)})
        found = cnna.report("m.cnna", session.last)
    assert (found.device, cnna.report("m.cnna").device) == ("emulator", None)
    with pytest.raises(cnna.DataError, match="the figures: "):
        cnna.report("w.cnna", session.last)
    Path("r.json").write_text("{")
    with pytest.raises(cnna.DataError, match=r"r\.json: line 1: not JSON"):
        cnna.report("m.cnna", "r.json")


def test_a_ddr_that_is_none_is_one_line(folder: Path) -> None:
    """The command refuses it in its options, which a program does not have."""
    for ddr, said in (
        (cnna.Ddr(bytes_per_cycle=0), "--ddr-bytes-per-cycle 0: must be within"),
        (cnna.Ddr(road="none"), "--ddr none: there is no such road; there are plain"),
        (cnna.Ddr(mts=3), "--ddr-mts is for"),
        (cnna.Ddr(road="zcu102-ps", bytes_per_cycle=3), "is for --ddr plain"),
    ):
        with pytest.raises(cnna.UserError, match=said):
            cnna.report("m.cnna", ddr=ddr)


def test_a_notebook_shows_the_picture(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would show a table of numbers; and nothing at all on a board, which has no matplotlib."""
    found = cnna.report("m.cnna")
    assert "data:image/png;base64," in found._repr_html_()
    monkeypatch.setitem(__import__("sys").modules, "cnna.compiler.report.picture", None)
    assert found._repr_html_().startswith("<pre")


def test_compare_gives_what_the_command_writes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A notebook and a script would have two answers to one question."""
    for name in ("m", "w"):
        assert main(["report", f"{name}.cnna", "--json", f"{name}.json"]) == 0
    capsys.readouterr()
    assert main(["compare", "m.json", "w.json", "--json", "f.json", "--html", "c.html"]) == 0
    said = capsys.readouterr().out
    found = cnna.compare("m.json", Path("w.json"))
    assert found.figures() == json.loads(Path("f.json").read_text())
    assert f"{found}\n" == said
    assert found.page() == Path("c.html").read_text()
    other = cnna.compare(cnna.report("m.cnna"), cnna.report("w.cnna").figures())
    assert (other.layers, other.ratio, other.a["name"]) == (found.layers, found.ratio, "the first")
    with pytest.raises(cnna.DataError, match="the second: not what"):
        cnna.compare(cnna.report("m.cnna"), {})
