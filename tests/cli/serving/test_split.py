"""`cnna split`: the repositories of both sides answer as the whole model does."""

import argparse
import shlex
from pathlib import Path

import numpy as np
import onnx
import pytest

from cnna.cli.main import main
from cnna.cli.serving import serve
from cnna.cli.serving.split import TLS, listening
from cnna.compiler.frontend.onnx_import import load_model
from cnna.compiler.quantise.quantise import quantise
from cnna.compiler.split.halves import ran
from cnna.compiler.zoo.digits import data
from cnna.jobs.split import COMPILED
from cnna.serve import Engine
from cnna.serve.boards.limits import Limits
from cnna.serve.fronts.listening import Listening
from cnna.serve.grpc.front import GrpcFront

PATIENT = Limits(hang_seconds=60.0, pause_seconds=(0.0, 0.0), failures=1000)


@pytest.fixture(scope="module")
def quantised(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The digits network, quantised."""
    path = tmp_path_factory.mktemp("model") / "q.onnx"
    model, _ = quantise(load_model(data.NETWORK), {"image": data.load().calibration.images})
    onnx.save(model, path)
    return path


def test_edge_and_cloud_answer_together(quantised: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The edge's pipeline would not find its halves, or they would answer something else than the whole."""
    out = tmp_path / "split"
    line = ["split", str(quantised), "--link", "10", "--config", "tiny", "--name", "digits", "--out", str(out)]
    assert main([*line, "--at", "block1.add"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0].split()[:2] == ["behind", "kB"]
    assert said[1].split()[:2] == ["block1.relu2:dq:Q", "1.0"]
    assert said[2] == f"{out}: cut behind block1.relu2:dq:Q; both halves together equal the whole model"
    publish = said[3].split()
    assert publish[0] == "cnna"
    assert main([*publish[1:], "--batches", "1"]) == 0
    images = data.load().test.images[:5]
    wanted = ran(onnx.load(quantised), {"image": images})["logits"]
    with Engine(out / "cloud", [], PATIENT) as far:
        front = far.of_loop(lambda: GrpcFront(far.core, Listening("127.0.0.1", 0), "9.9"))
        address = far.of_loop(front.start)
        settings = out / "edge" / "digits-cloud" / "model.yaml"
        settings.write_text(settings.read_text().replace("grpc://127.0.0.1:8001", address))
        with Engine(out / "edge", ["a=emulator"], PATIENT) as near:
            result = near.infer("digits", {"image": images})
        far.of_loop(front.stop)
    assert result.runtime == "remote"
    assert np.abs(result.outputs["logits"] - wanted).max() < 0.1  # onnxruntime's convolutions before the cut may round otherwise
    assert (result.outputs["logits"].argmax(1) == wanted.argmax(1)).all()


def test_auto_takes_the_quickest(quantised: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A slow link would be given the largest tensor."""
    line = ["split", str(quantised), "--config", "tiny", "--name", "digits", "--out", str(tmp_path / "s"), "--link", "0.1"]
    assert main(line) == 0
    rows = [row.split() for row in capsys.readouterr().out.splitlines()[1:]]
    rows = rows[: next(number for number, row in enumerate(rows) if row[0].endswith(":"))]
    assert len(rows) > 1
    own, link, total = rows[:COMPILED], 4, 6  # columns; only the first rows have the clocks of their own halves
    assert [float(row[total]) for row in own] == sorted(float(row[total]) for row in own)
    assert float(rows[0][link]) == min(float(row[link]) for row in rows)
    assert all(abs(sum(map(float, row[2:total])) - float(row[total])) < 0.01 for row in rows)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--link", "0"], "--link 0: must be millions of bits a second"),
        (["--address", "10.0.0.2"], "--address 10.0.0.2: must be grpc://HOST:PORT"),
        (["--address", "grpc://[::1]"], "--address grpc://[::1]: must be grpc://HOST:PORT"),
        (["--address", "grpc://10.0.0.2 :8001"], "--address grpc://10.0.0.2 :8001: must be grpc://HOST:PORT"),
        (["--address", "grpc://10.0.0.2/x:8001"], "--address grpc://10.0.0.2/x:8001: must be grpc://HOST:PORT"),
        (["--address", "grpc://10.0.0.2:70000"], "--address grpc://10.0.0.2:70000: must be grpc://HOST:PORT"),
        (["--tensors", "0"], "--tensors 0: must be at least 1"),
        (["--name", "../m"], "--name ../m: a model's name has letters"),
        (["--at", "nowhere"], "q.onnx: there is no node 'nowhere'"),
        (["--out", "."], ".: is there already"),
        (["--config", "none"], "none"),
    ],
)
def test_a_mistake_is_one_line(
    quantised: Path, tmp_path: Path, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It would be found after minutes of measuring, or half of the files be written."""
    out = tmp_path / "split"
    assert main(["split", str(quantised), "--link", "10", "--config", "tiny", "--out", str(out), *arguments]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert len(error.splitlines()) == 1
    assert not out.exists()


def asked_for(options: str) -> argparse.Namespace:
    """What `cnna serve` understands of printed options; it must not refuse them for their addresses."""
    parser = argparse.ArgumentParser()
    serve.configure(parser)
    return parser.parse_args(["nowhere", *shlex.split(options)])


@pytest.mark.parametrize(
    "address", ["127.0.0.1:9001", "127.0.0.1:8001", "127.0.0.1:8002", "127.0.0.1:1", "[::1]:8000", "localhost:8003"]
)
def test_both_servers_can_listen_on_this_machine(address: str) -> None:
    """As printed, the cloud's server would not be where the edge asks, or the second server find its ports taken."""
    cloud, edge = map(asked_for, listening(f"grpc://{address}"))
    assert cloud.grpc == address
    places = [cloud.grpc, cloud.http, edge.grpc, edge.http]
    assert len({place.rpartition(":")[2] for place in places}) == len(places)
    assert not cloud.insecure


@pytest.mark.parametrize(
    ("address", "at"),
    [
        ("grpc://10.0.0.2:9001", "0.0.0.0:9001"),
        ("grpc://192.0.2.7:8000", "0.0.0.0:8000"),
        ("grpcs://10.0.0.2:443", "0.0.0.0:443"),
        ("grpc://[2001:db8::1]:8001", "[::]:8001"),
    ],
)
def test_a_server_elsewhere_listens_to_others(address: str, at: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It would listen to its own machine alone, or `cnna serve` refuse the address that it is told."""
    options, here = listening(address)
    cloud = asked_for(options)
    assert cloud.grpc == at
    assert cloud.http.rpartition(":")[2] != at.rpartition(":")[2]
    assert here == "", "this machine's ports are free: the cloud's server is elsewhere"
    assert ("--tls-key" in options) == address.startswith("grpcs:")
    assert main(["serve", str(tmp_path / "none"), *shlex.split(options.replace(TLS, ""))]) == 2
    assert "no such folder" in capsys.readouterr().err, "the address alone is a reason to refuse it"
