"""`cnna serve` as a user starts it: the first answer from one file, an end in order, and one line for a mistake."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cnna.cli.main import main
from cnna.host.selftest.selftest_network import ANSWERS, path_of, pictures

SECONDS = 600  # no expectation: it ends a test that would otherwise hang


@contextmanager
def served(*arguments: object) -> Iterator[tuple[subprocess.Popen[str], http.client.HTTPConnection]]:
    """A server, and a connection to it once it serves."""
    line = [sys.executable, "-m", "cnna", "serve", *map(str, arguments), "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            said = process.stdout.readline()
            assert said.startswith("serving on http://127.0.0.1:"), said
            connection = http.client.HTTPConnection("127.0.0.1", int(said.split()[2].rpartition(":")[2]), timeout=SECONDS)
            with closing(connection):
                yield process, connection
        finally:
            process.kill()


def asked(connection: http.client.HTTPConnection, method: str, path: str, body: object = None) -> tuple[int, Any]:
    connection.request(method, path, None if body is None else json.dumps(body))
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())


def test_one_command_serves_one_file_and_ends_in_order() -> None:
    """The first answer needs no repository; an orchestrator that stops the server must lose nothing and see code 0."""
    shown = pictures()[:1]
    entry = {"name": "picture", "datatype": "UINT8", "shape": list(shown.shape), "data": shown.reshape(-1).tolist()}
    with served(path_of("tiny")) as (process, connection):
        assert asked(connection, "GET", "/v2/health/ready") == (200, {"ready": True})
        code, answer = asked(connection, "POST", "/v2/models/tiny/infer", {"inputs": [entry]})
        assert code == 200
        output = answer["outputs"][0]
        with np.load(ANSWERS) as wanted:
            assert np.array_equal(np.array(output["data"], np.float32).reshape(output["shape"]), wanted["y"][:1])
        assert asked(connection, "POST", "/v2/models/tiny/infer", {"inputs": []})[0] == 400
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=SECONDS)
        assert process.returncode == 0, log
    lines = [json.loads(line) for line in log.splitlines()]
    assert [line["event"] for line in lines] == ["board ready", "version ready", "switched", "serving", "draining", "ended"]
    assert all({"ts", "level", "event"} <= set(line) for line in lines)


def test_a_signal_to_the_whole_service_loses_nothing() -> None:
    """systemd sends SIGTERM to all processes of a service: boards would fail while the server drains, and lose their batches."""
    with served(path_of("tiny")) as (process, connection):
        assert asked(connection, "GET", "/v2/health/ready")[0] == 200
        [worker] = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.kill(int(worker), signal.SIGTERM)
        shown = pictures()[:1]
        entry = {"name": "picture", "datatype": "UINT8", "shape": list(shown.shape), "data": shown.reshape(-1).tolist()}
        assert asked(connection, "POST", "/v2/models/tiny/infer", {"inputs": [entry]})[0] == 200
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=SECONDS)
    assert process.returncode == 0
    assert "board failed" not in log


def test_a_second_signal_ends_at_once(tmp_path: Path) -> None:
    """An operator would wait half a minute for a request that nobody can answer; workers must not stay behind."""
    with served(path_of("tiny"), "--board", "a=emulator,hang=2") as (process, connection):
        shown = pictures()[:1]
        entry = {"name": "picture", "datatype": "UINT8", "shape": list(shown.shape), "data": shown.reshape(-1).tolist()}
        connection.request("POST", "/v2/models/tiny/infer", json.dumps({"inputs": [entry]}))
        with closing(http.client.HTTPConnection("127.0.0.1", connection.port, timeout=SECONDS)) as other:
            while not asked(other, "GET", "/v2/console")[1]["models"][0]["versions"][0]["open"]:
                pass
        assert process.stderr is not None
        process.send_signal(signal.SIGTERM)
        while json.loads(process.stderr.readline())["event"] != "draining":
            pass
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=SECONDS)  # to the end of what the worker could write, too
        assert process.returncode == 128 + signal.SIGTERM


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["none"], "none: no such folder or file"),
        (["{half}"], "half.cnna: truncated or damaged"),
        (["{network}"], "q.onnx: an ONNX model; give a .cnna, which `cnna compile` makes"),
        (["{model}", "--http", "8000"], "must be ADDRESS:PORT"),
        (["{model}", "--http", "0.0.0.0:0"], "give --token-file, --tls-certificate and --tls-key, or --insecure"),
        (["{model}", "--http", "127.0.0.1:0", "--board", "a=gpu"], "there is no kind 'gpu'"),
        (["{model}", "--http", "127.0.0.1:0", "--boards", "{boards}"], "boards.yaml: board 1: unknown key 'speed'"),
        (["{model}", "--http", "127.0.0.1:0", "--boards", "{boards}", "--board", "a=paced"], "give one of them"),
        (["{model}", "--token-file", "{short}"], "a token of at least 16"),
        (["{model}", "--tls-key", "{short}"], "belong together"),
        (
            ["{model}", "--http", "127.0.0.1:{taken}"],
            "another program uses this port; end that one, or give --http 127.0.0.1:PORT with another (0 takes any that is free)",
        ),
        (["{model}", "--http", "127.0.0.1:0", "--otlp", "collector:4318"], "must be the URL of a collector"),
        (
            ["{model}", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:{taken}"],
            "another program uses this port; end that one, or give --grpc 127.0.0.1:PORT with another (0 takes any that is free)",
        ),
        (["{model}", "--http", "192.0.2.1:0", "--insecure"], "this machine has no such address; give --http ADDRESS:0"),
        (["{model}", "--http", "127.0.0.1:0", "--grpc", "192.0.2.1:0", "--insecure"], "give --grpc ADDRESS:0"),
        (["{model}", "--http", "no.such.invalid:0", "--insecure"], "this machine has no such address"),
    ],
)
def test_a_mistake_is_one_line(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that starts with a mistake would be found by others first."""
    monkeypatch.chdir(tmp_path)
    short = tmp_path / "token"
    short.write_text("secret\n")
    network = tmp_path / "q.onnx"
    network.write_bytes(b"")
    boards = tmp_path / "boards.yaml"
    boards.write_text("- {name: a, speed: 3}\n")
    half = tmp_path / "half.cnna"
    half.write_bytes(path_of("tiny").read_bytes()[:-500])
    with socket.create_server(("127.0.0.1", 0)) as taken:
        names = {
            "model": path_of("tiny"),
            "half": half,
            "short": short,
            "boards": boards,
            "network": network,
            "taken": taken.getsockname()[1],
        }
        assert main(["serve", *(argument.format(**names) for argument in arguments)]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert len(error.splitlines()) == 1
