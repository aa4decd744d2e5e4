"""`cnna.bench` against a real `cnna serve` with a paced board, over HTTP and gRPC."""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import onnx
import pytest

import cnna
from cnna.cli.main import main
from cnna.evaluate.speed.load import PACKAGE

from .conftest import samples

pytestmark = pytest.mark.skipif(find_spec(PACKAGE) is None, reason="mlcommons-loadgen (extra `bench`) is not installed")
PACE = 0.02  # seconds that a batch takes on the paced board, which this computer needs less than


@pytest.fixture
def addresses(quantised: onnx.ModelProto, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Mapping[str, str]]:
    """Of a server of m.cnna by protocol. The current folder has m.cnna and d.npz, which has targets."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    onnx.save(quantised, "q.onnx")
    np.savez("d.npz", x=samples(8), y=np.arange(8) % 4)
    compiled = cnna.compile("q.onnx", "tiny", output="m.cnna")
    board = f"a=paced,mhz={compiled.predicted_cycles / (PACE * 1e6):.3g}"
    words = ["serve", "m.cnna", "--board", board, "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0"]
    with subprocess.Popen([sys.executable, "-m", "cnna", *words], stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            line = server.stdout.readline()
            yield {word.partition("://")[0]: word for word in line.split() if "://" in word}
        finally:
            server.terminate()
    assert server.returncode == 0


def test_a_server_is_measured_over_both_protocols(addresses: Mapping[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    """A figure or an accuracy would be of something else than of what a server answers."""
    table = {
        "models": ["m.cnna"],
        "scenarios": ["SingleStream", "AccuracyOnly"],
        "devices": list(addresses.values()),
        "seconds": 0.2,
        "queries": 5,
        "clients": 2,
        "data": "d.npz",
    }
    assert {*addresses} == {"http", "grpc"}
    found = cnna.bench(table)
    metrics = cnna.eval("m.cnna", "d.npz").models[0]["metrics"]
    for address in addresses.values():
        single, accuracy = (row for row in found.rows if row["device"] == address)
        assert single["column"] == "measured"
        assert single["figure"] > PACE * 1e3 * 0.95  # no query is quicker than the board
        assert accuracy["accuracy"]["top1"]["value"] == metrics["top1"]["value"]
    for address in addresses.values():
        Path("b.yaml").write_text(f"models: {{name: other, file: m.cnna}}\nscenarios: Offline\ndevices: ['{address}']\n")
        assert main(["bench", "b.yaml"]) == 2
        error = capsys.readouterr().err
        assert f"{address}: model other: " in error
        assert error.count("\n") == 1
