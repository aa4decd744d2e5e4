"""`cnna.bench`: rows of a small model in virtual time and on this computer, kept in a journal, equal to what the command writes."""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import cnna
from cnna.cli.main import main
from cnna.evaluate.speed import benchmark
from cnna.evaluate.speed.load import PACKAGE
from cnna.spec.errors import RunError

from .conftest import samples

pytestmark = pytest.mark.skipif(find_spec(PACKAGE) is None, reason="mlcommons-loadgen (extra `bench`) is not installed")
SETTINGS = "configurations: tiny\nseconds: 0.05\nqueries: 20\ndata: d.npz\n"
VIRTUAL = f"models: q.onnx\nscenarios: [SingleStream, Offline, AccuracyOnly]\ndevices: [predicted, modelled]\n{SETTINGS}"
WALL = f"models: q.onnx\nscenarios: [Offline, AccuracyOnly]\ndevices: onnxruntime\nthreads: 1\n{SETTINGS}"


@pytest.fixture
def folder(quantised: onnx.ModelProto, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """q.onnx, d.npz with targets, v.yaml and w.yaml; it is the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    onnx.save(quantised, "q.onnx")
    np.savez("d.npz", x=samples(8), y=np.arange(8) % 4)
    Path("v.yaml").write_text(VIRTUAL)
    Path("w.yaml").write_text(WALL)
    return tmp_path


def without_wall(found: dict[str, Any]) -> dict[str, Any]:
    """The figures that two runs have in common."""
    return {**found, "rows": [{**row, "wall_seconds": None} for row in found["rows"]]}


def test_rows_in_virtual_time_are_what_clocks_say(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Figures would not be the device's, or would change from run to run; a notebook would have others than a script."""
    found = cnna.bench("v.yaml")
    compiled = cnna.compile("q.onnx", "tiny")
    rate = compiled.predicted_end_to_end.fps()
    assert rate is not None
    by_key = {(row["scenario"], row["device"]): row for row in found.rows}
    milliseconds = compiled.predicted_cycles / (compiled.clock_mhz * 1e3)
    assert by_key["SingleStream", "predicted"]["figure"] == pytest.approx(milliseconds, rel=1e-3)
    assert by_key["Offline", "predicted"]["figure"] == pytest.approx(1e3 / milliseconds, rel=1e-2)
    assert by_key["Offline", "modelled"]["service"]["period_ns"] == round(1e9 / rate.slow)
    assert 0.9 * rate.slow < by_key["Offline", "modelled"]["figure"] < rate.slow  # the first answer comes after a batch's latency
    assert ("AccuracyOnly", "modelled") not in by_key
    assert main(["bench", "v.yaml", "--json", "b.json", "--png", "b.png"]) == 0
    assert f"{found}\n" == capsys.readouterr().out
    assert without_wall(json.loads(Path("b.json").read_text())) == without_wall(json.loads(json.dumps(found.figures())))
    assert Path("b.png").read_bytes().startswith(b"\x89PNG")
    assert main(["compare", "b.json", "b.json"]) == 0
    assert "1.000" in capsys.readouterr().out
    assert str(cnna.compare_benchmarks(found, "b.json")).count("1.000") == 4


def test_accuracy_is_that_of_eval_on_both(folder: Path) -> None:
    """Accuracy would be of other samples or outputs than the user's."""
    cnna.compile("q.onnx", "tiny", output="m.cnna")
    for matrix, model in (("v.yaml", "m.cnna"), ("w.yaml", "q.onnx")):
        row = cnna.bench(matrix).rows[-1]
        metrics = cnna.eval(model, "d.npz").models[0]["metrics"]
        assert row["scenario"] == "AccuracyOnly"
        assert json.loads(json.dumps(row["accuracy"])) == json.loads(json.dumps(metrics))


def test_samples_without_labels_are_asked_and_not_judged(folder: Path) -> None:
    """A user who has pictures and no classes could measure random noise alone; accuracy without labels is one line."""
    np.savez("d.npz", x=samples(8))
    table = {"models": "q.onnx", "devices": "onnxruntime", "scenarios": "SingleStream", "queries": 3, "seconds": 0.01}
    (row,) = cnna.bench({**table, "data": "d.npz", "threads": 1}, cache=folder).rows
    assert row["figure"] > 0
    assert "accuracy" not in row
    with pytest.raises(cnna.UserError, match=r"d\.npz: has arrays x, but none called y, which says what is right"):
        cnna.bench({**table, "data": "d.npz", "scenarios": ["SingleStream", "AccuracyOnly"]}, cache=folder)


def test_what_was_ended_goes_on(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hours on the RTL would be lost to a Ctrl-C."""
    real, begun = benchmark.simulated, []

    def ended(load: Any, *more: Any) -> Any:
        begun.append(load.scenario)
        if len(begun) == 2:
            raise KeyboardInterrupt
        return real(load, *more)

    monkeypatch.setattr(benchmark, "simulated", ended)
    lines: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        cnna.bench("v.yaml", warn=lines.append)
    found = cnna.bench("v.yaml", warn=lines.append)
    assert len(found.rows) == 5
    assert len(begun) == 2 + 4
    assert [line.partition(" of ")[0] for line in lines] == ["1 row", "1 row"]
    assert not list((folder / "cache").rglob("*.jsonl"))


def test_a_row_that_fails_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a matrix of a hundred rows a user would not know which one it was."""

    def failed(load: Any, *more: Any) -> Any:
        raise RunError("LoadGen's process ended: why")

    monkeypatch.setattr(benchmark, "simulated", failed)
    with pytest.raises(RunError, match=r"^q, tiny, batch 1, SingleStream, predicted: LoadGen's process ended: why$"):
        cnna.bench("v.yaml")


@pytest.mark.parametrize(
    ("given", "changed", "said"),
    [
        ("configurations: tiny", "configurations: [tiny, tny]", "v.yaml: configurations: config 'tny' is unknown; there are tiny"),
        ("configurations: tiny", "configurations: ['tiny,pix=x']", "v.yaml: configurations: tiny,pix=x: 'pix=x' is no change"),
        ("configurations: tiny", "configurations: [tiny, 'tiny,clock_mhz=300']", "tiny and tiny,clock_mhz=300 are one; leave"),
        ("data: d.npz", "data: cache", "cache: "),
        ("devices: [predicted, modelled]", "devices: http://127.0.0.1:1", "http://127.0.0.1:1: no server answers there"),
        ("devices: [predicted, modelled]", "devices: grpc://127.0.0.1:1", "grpc://127.0.0.1:1: no server answers there"),
    ],
)
def test_a_mistake_is_said_before_the_first_row(
    folder: Path, given: str, changed: str, said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that took hours would be measured first, or a user would read of options and errors that he has never seen."""
    monkeypatch.setattr(benchmark, "simulated", lambda *given: pytest.fail("a row is measured"))
    (folder / "cache").mkdir()
    Path("v.yaml").write_text(VIRTUAL.replace(given, changed))
    assert main(["bench", "v.yaml"]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert "Error" not in error
