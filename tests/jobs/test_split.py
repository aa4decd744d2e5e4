"""`cnna.split`: what it gives equals what the command writes and prints."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import cnna
from cnna.cli.main import main
from cnna.cli.serving.serve import GRPC
from cnna.jobs.split import ADDRESS, COMPILED, _noise


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
        ("--link 5e-324", {"link": 5e-324}),
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


def test_the_best_cuts_have_the_clocks_of_their_own_halves(quantised: onnx.ModelProto, tmp_path: Path) -> None:
    """A layer that lies on both sides of a cut would count as a whole on the edge: a cut within it would never be chosen."""
    found = cnna.split(quantised, 10, tmp_path / "a", config="tiny")
    half = cnna.compile(tmp_path / "a" / "edge.onnx", "tiny")
    assert found.costs[0].edge == pytest.approx(half.predicted_cycles / (half.clock_mhz * 1e6), rel=1e-9)
    compiled = [cost.total for cost in found.costs[:COMPILED]]
    assert compiled == sorted(compiled)


@pytest.mark.parametrize(
    ("kind", "low", "most"), [("UINT8", 0, 255), ("INT8", -128, 127), ("INT64", 0, 1), ("BOOL", 0, 1), ("FLOAT", None, None)]
)
def test_the_halves_are_compared_on_more_than_zeros(kind: str, low: int | None, most: int | None) -> None:
    """Halves that differ would pass: a picture of zeros is zero behind many layers. Numbers of rows must be ones that there are."""
    element = getattr(TensorProto, kind)
    graph = helper.make_graph([], "g", [helper.make_tensor_value_info("x", element, [None, 3, 16, 16])], [])
    found = _noise(helper.make_model(graph))["x"]
    assert found.dtype == helper.tensor_dtype_to_np_dtype(element)
    assert len(np.unique(found)) > (100 if kind in ("UINT8", "INT8", "FLOAT") else 1)
    if low is not None:
        assert (found.min(), found.max()) == (low, most)
    assert np.array_equal(found, _noise(helper.make_model(graph))["x"])
