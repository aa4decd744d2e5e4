"""`cnna.explain`: what it gives equals what the command writes and prints."""

import json
from pathlib import Path

import onnx
import pytest

import cnna
from cnna.cli.main import main

from .conftest import model


@pytest.mark.parametrize("config", [None, "tiny"])
def test_it_gives_what_the_command_writes(
    in_float: onnx.ModelProto, tmp_path: Path, capsys: pytest.CaptureFixture[str], config: str | None
) -> None:
    """A notebook and a script would have two answers to one question."""
    path = tmp_path / "m.onnx"
    onnx.save(in_float, path)
    words = ["--config", config] if config else []
    assert main(["explain", str(path), *words, "--html", str(tmp_path / "m.html"), "--json", str(tmp_path / "f.json")]) == 0
    said = capsys.readouterr().out
    found = cnna.explain(path, config)
    assert capsys.readouterr() == ("", "")
    written = json.loads((tmp_path / "f.json").read_text())
    assert json.loads(json.dumps(found.figures())) == written
    assert list(found.figures()) == list(written)
    assert f"{found}\n" == said
    assert found.page() == (tmp_path / "m.html").read_text() == found.save(tmp_path / "n.html").read_text()


def test_rows_are_values_of_their_kind(in_float: onnx.ModelProto) -> None:
    """Who asks for the slowest node would have to parse a table."""
    found = cnna.explain(in_float, "tiny")
    assert [(row.name, row.side) for row in found.nodes] == [("stem", "accelerator"), ("act", "cpu")]
    assert [row.name for row in found.slowest(1)] == [max(found.nodes, key=lambda row: row.seconds or 0).name]
    assert found.predicted_end_to_end is not None
    assert found.predicted_end_to_end.figures() == found.figures()["predicted_end_to_end"]
    assert (found.model, found.refused, found.macs) == ("the model", False, 3 * 4 * 64)


def test_a_model_that_is_refused_has_rows_and_problems() -> None:
    """An error would hide all other nodes; the command shows them, and its code says that `compile` refuses."""
    found = cnna.explain(model("[stem] a = Conv (x, w) [odd] y = com.microsoft.Nothing (a)"), "tiny")
    assert found.refused
    assert "node 'odd' (Nothing)" in found.problems[0]
    assert found.predicted_end_to_end is None


def test_a_notebook_shows_the_page_in_a_frame(in_float: onnx.ModelProto) -> None:
    """The page's style would change the whole notebook, and its ids those of another page."""
    shown = cnna.explain(in_float, "tiny")._repr_html_()
    assert shown.startswith("<iframe srcdoc=")
    assert shown.count("<") == 2


@pytest.mark.parametrize(("batch", "said"), [(0, "a batch of 0 is not within"), (1000, "a batch of 1000 is not within")])
def test_a_batch_that_no_run_takes_is_one_line(in_float: onnx.ModelProto, batch: int, said: str) -> None:
    """The command refuses it in its options, which a program does not have."""
    with pytest.raises(cnna.ModelError, match=said):
        cnna.explain(in_float, "tiny", batch=batch)
