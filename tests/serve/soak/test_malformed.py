"""Malformed requests to `cnna serve` over its sockets: none ends the server or is answered as a fault of ours.

tests/serve/http and tests/serve/grpc change the bodies alone, without a network; here heads, lengths and whole connections are
wrong too, and the server is the program that users start.
"""

import json
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from cnna.serve.grpc import open_inference_pb2 as pb
from cnna.serve.grpc.service import SERVICE

from .load import DEADLINE_SECONDS, SETTINGS, Images, resident

pytestmark = pytest.mark.soak
CASES = 10  # of each protocol for a second that the soak lasts: 300 in 30 s
METHOD = f"/{SERVICE}/ModelInfer"
PATIENCE_SECONDS = 0.1  # for a server that is quick
WAITS = {"timeout": DEADLINE_SECONDS, "wait_for_ready": True}  # a busy computer may take long to connect, too


@contextmanager
def served(repository: Path) -> Iterator[tuple[str, str]]:
    """The addresses of a server. It must end in order, and must not have logged a fault of ours."""
    line = [sys.executable, "-m", "cnna", "serve", str(repository), "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0"]
    log = repository.with_name("log")  # a pipe that nobody reads would stop the server when it is full
    with log.open("w") as errors, subprocess.Popen(line, stdout=subprocess.PIPE, stderr=errors, text=True) as server:
        try:
            assert server.stdout is not None
            http, over_grpc = (word.partition("://")[2] for word in server.stdout.readline().split() if "://" in word)
            before = resident(server.pid)
            yield http, over_grpc
            print(f"{(resident(server.pid) - before) / 1e6:+.1f} MB", end=", ")
            server.send_signal(signal.SIGTERM)
            server.wait(DEADLINE_SECONDS)
        finally:
            server.kill()
    assert server.returncode == 0
    events = [json.loads(row)["event"] for row in log.read_text().splitlines()]  # a traceback is no JSON
    assert not {"internal error", "board failed"} & set(events)


def changed(whole: bytes, rng: np.random.Generator) -> bytes:
    """Bytes with some of them changed, some lost and some added."""
    data = bytearray(whole)
    for _ in range(int(rng.integers(1, 5))):
        place = int(rng.integers(0, len(data)))
        if rng.random() < 0.5:
            data[place] = int(rng.integers(0, 256))
        else:
            data[place : place + int(rng.integers(0, 30))] = rng.bytes(int(rng.integers(0, 20)))
    return bytes(data)


def asked(address: str, data: bytes, patience: float = DEADLINE_SECONDS) -> bytes:
    """What a server answers to these bytes. If it says nothing for so long, it waits for more, and is told that none will come."""
    host, _, port = address.rpartition(":")
    found = b""
    with socket.create_connection((host, int(port)), DEADLINE_SECONDS) as connection, suppress(ConnectionError):
        connection.sendall(data)
        connection.settimeout(patience)
        try:
            found = connection.recv(1 << 16)
        except TimeoutError:
            connection.shutdown(socket.SHUT_WR)
        connection.settimeout(DEADLINE_SECONDS)
        while part := connection.recv(1 << 16):
            found += part
    return found


def message_of(x: Any) -> pb.ModelInferRequest:
    request = pb.ModelInferRequest(model_name="digits")
    request.inputs.add(name="image", datatype="FP32", shape=x.shape)
    request.raw_input_contents.append(x.tobytes())
    return request


def test_malformed_requests_change_nothing(
    repository: Path, images: Images, answers: Images, soak_seconds: float, seed: int
) -> None:
    """Bytes that nobody thought of would take the server down for all, or be answered with a traceback."""
    (repository / "digits" / "model.yaml").write_text(SETTINGS)
    rng, cases, x = np.random.default_rng(seed), int(CASES * soak_seconds), images[:1]
    entry = {"name": "image", "datatype": "FP32", "shape": list(x.shape), "parameters": {"binary_data_size": x.nbytes}}
    head = json.dumps({"inputs": [entry]}).encode()
    lines = ["POST /v2/models/digits/infer HTTP/1.1", "Host: a", f"Inference-Header-Content-Length: {len(head)}"]
    lines += [f"Content-Length: {len(head) + x.nbytes}", "Connection: close", "", ""]
    whole, message = "\r\n".join(lines).encode() + head + x.tobytes(), message_of(x).SerializeToString()
    codes: Counter[str] = Counter()
    with served(repository) as (http, over_grpc), grpc.insecure_channel(over_grpc) as channel:
        ask = partial(channel.unary_unary(METHOD, None, pb.ModelInferResponse.FromString), **WAITS)
        patience = PATIENCE_SECONDS
        for number in range(cases):
            if number % 20 == 0:  # a whole request, to see how quick the server is now
                began = time.monotonic()
                codes[asked(http, whole)[9:12].decode("latin-1")] += 1
                patience = max(PATIENCE_SECONDS, 5 * (time.monotonic() - began))
            answer = asked(http, changed(whole, rng), patience)
            codes[answer[9:12].decode("latin-1")] += 1
            try:
                ask(changed(message, rng))
                codes["OK"] += 1
            except grpc.RpcError as error:
                codes[error.code().name] += 1
        for _ in range(cases // 20):
            asked(over_grpc, rng.bytes(100), patience)  # no HTTP/2 at all
            asked(over_grpc, changed(whole, rng), patience)
            asked(http, rng.bytes(100), patience)
        codes[asked(http, whole.replace(b"FP32", b"FP33"))[9:12].decode("latin-1")] += 1
        assert np.frombuffer(ask(message).raw_output_contents[0], np.float32).tolist() == answers[0].tolist()
        output = json.loads(asked(http, whole).partition(b"\r\n\r\n")[2])["outputs"][0]
        assert np.array_equal(np.array(output["data"], np.float32), answers[0])
    good = {"200", "OK", "", "400", "404", "405", "408", "413", "INVALID_ARGUMENT", "NOT_FOUND", "UNIMPLEMENTED"}
    assert set(codes) <= good, codes
    assert {"200", "400", "OK", "INVALID_ARGUMENT"} <= set(codes)
    print(f"{cases} requests over each protocol: {dict(codes)}")
