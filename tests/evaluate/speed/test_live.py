"""Devices that take their own time: what they are asked, and a server of the protocol over HTTP."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import onnx
import pytest

from cnna.evaluate.speed.endpoint import LENGTH, HttpEndpoint
from cnna.evaluate.speed.live import ONNX, Device, Live, Port, opened, random_samples, tried
from cnna.spec.errors import RunError


@dataclass(frozen=True)
class Sample:
    """As LoadGen gives it."""

    id: int
    index: int


def test_samples_are_asked_in_whole_batches_and_answered_once() -> None:
    """A board's batch would be refused where it is not full, or answers would go to other samples."""
    asked: list[int] = []
    samples = {"x": np.arange(10, dtype=np.float32)[:, None]}

    def answer(inputs: Any) -> list[Any]:
        asked.append(len(inputs["x"]))
        return [inputs["x"] * 2, inputs["x"] + 1]

    done: dict[int, list[float]] = {}
    ready = threading.Event()

    def complete(answered: list[Sample], answers: Any) -> None:
        done.update({sample.id: list(row) for sample, row in zip(answered, answers, strict=True)})
        if len(done) == 7:
            ready.set()

    device = Device([Port("x", (1,), "float32")], [answer], 4, samples, 10)
    live = Live(device, complete)
    live.issue([Sample(100 + number, number) for number in range(7)])
    assert ready.wait(60)
    live.flush()
    live.close()
    assert set(asked) == {4}
    assert done == {100 + number: [2.0 * number, number + 1.0] for number in range(7)}
    assert tried(device).batch == 4


def test_what_a_device_can_do_is_tried_by_all_threads_at_once() -> None:
    """A board that answers one at a time would be asked for as many times as there are clients, and each Server be invalid."""
    board, asked = threading.Lock(), []

    def answer(inputs: Any) -> list[Any]:
        with board:
            time.sleep(0.01)
            asked.append(len(inputs["x"]))
        return [inputs["x"]]

    service = tried(Device([Port("x", (1,), "float32")], [answer] * 8, 2, None, 4))
    assert service.period_ns >= 10_000_000
    assert service.latency_ns >= 10_000_000
    assert set(asked) == {2}
    assert len(asked) >= 3 + 8


@pytest.mark.parametrize(
    ("kind", "shape", "said"),
    [
        (onnx.TensorProto.FLOAT, [], "m.onnx: input x has no axis of samples; make it a constant"),
        (onnx.TensorProto.BFLOAT16, ["N", 3], "m.onnx: input x is bfloat16, which numpy does not have; export it as float32"),
    ],
)
def test_an_input_that_cannot_be_filled_is_named(kind: int, shape: list[Any], said: str, tmp_path: Path) -> None:
    """A user would read that a list index is out of range."""
    ports = [onnx.helper.make_tensor_value_info(name, kind, shape) for name in "xy"]
    graph = onnx.helper.make_graph([onnx.helper.make_node("Identity", ["x"], ["y"])], "g", ports[:1], ports[1:])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9), tmp_path / "m.onnx")
    with pytest.raises(RunError, match=said):
        opened({"kind": ONNX, "model": str(tmp_path / "m.onnx"), "batch": 1, "inputs": None, "samples": 4})


def test_an_output_of_all_samples_together_is_refused() -> None:
    """A user would read that an array of size 1 cannot be reshaped."""
    device = Device([Port("x", (3,), "float32")], [lambda inputs: [inputs["x"].mean()]], 2, None, 4)
    with pytest.raises(RunError, match="an output of 1 numbers is not one for each of 2 samples; use a batch of 1"):
        device.ask(0, [0])


def test_random_numbers_of_rows_are_within_any_table() -> None:
    """A table of ten rows would be asked for the row 216; pictures keep the whole range of their bytes."""
    assert set(random_samples(Port("i", (50,), "int64"), 4).flat) == {0, 1}
    assert random_samples(Port("i", (50,), "uint8"), 4).max() > 1


class Handler(BaseHTTPRequestHandler):
    """A model `twice` of a server, which doubles its input; binary, and in JSON where no binary was asked."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *words: Any) -> None:
        """Says nothing."""

    def do_GET(self) -> None:
        """The model's metadata."""
        if self.path == "/v2/models/page":
            return self._send(200, b"<html>", {})
        if self.path in ("/v2/models/gone", "/v2/models/half"):
            if self.path.endswith("half"):
                self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{")
            self.close_connection = True
            return None
        if self.path.startswith("/v2/models/says"):
            return self._send(200, unquote(self.path).removeprefix("/v2/models/says").encode(), {})
        if self.path == "/v2/models/other_protocol":
            self.wfile.write(b"\x00\x00\x12\x04\n")
            return None
        if self.path not in ("/v2/models/twice", "/v2/models/zw%C3%B6lf%20%2F%20%3F"):
            return self._send(404, b"no such model", {})
        return self._send(200, json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 3]}]}).encode(), {})

    def do_POST(self) -> None:
        """An answer. A model `says...` answers the rest of its name."""
        body, length = self.rfile.read(int(self.headers["Content-Length"])), int(self.headers[LENGTH])
        if self.path.startswith("/v2/models/says"):
            said = unquote(self.path).removeprefix("/v2/models/says").removesuffix("/infer")
            return self._send(200, said.encode(), {LENGTH: "x"} if said == "x" else {})
        head = json.loads(body[:length])
        (x,) = head["inputs"]
        assert x["parameters"]["binary_data_size"] == len(body) - length
        y = np.frombuffer(body[length:], "<f4") * 2
        output: dict[str, Any] = {"name": "y", "datatype": "FP32", "shape": x["shape"]}
        if len(y) == 3:  # a server may answer in JSON all the same
            return self._send(200, json.dumps({"outputs": [{**output, "data": y.tolist()}]}).encode(), {})
        text = json.dumps({"outputs": [{**output, "parameters": {"binary_data_size": y.nbytes}}]}).encode()
        return self._send(200, text + y.tobytes(), {LENGTH: str(len(text))})

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def address() -> Iterator[str]:
    """Of the server."""
    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_server_answers_tensors(address: str) -> None:
    """Accuracy over HTTP would be of other numbers than the server's."""
    end = HttpEndpoint(address, "twice")
    assert end.inputs() == [("x", (3,), "float32")]
    for count in (1, 2):
        x = np.arange(3 * count, dtype=np.float32).reshape(count, 3)
        assert np.array_equal(end.infer({"x": x})["y"], x * 2)
    end.close()


def test_any_name_of_a_model_can_be_asked_for(address: str) -> None:
    """A name with a letter beyond ASCII would be a traceback, and one with a space a server that speaks another protocol."""
    with closing(HttpEndpoint(address, "zwölf / ?")) as end:
        assert end.inputs() == [("x", (3,), "float32")]


def test_a_server_that_refuses_or_is_not_there_is_named(address: str) -> None:
    """LoadGen would wait for an answer that never comes."""
    end = HttpEndpoint(address, "other")
    with pytest.raises(RunError, match="model other: 404 no such model"):
        end.inputs()
    end.close()
    for model, said in (("page", "does not say the inputs of page"), ("other_protocol", r"does not speak HTTP/1\.1\)")):
        with closing(HttpEndpoint(address, model)) as end, pytest.raises(RunError, match=said):
            end.inputs()
    for model in ("gone", "half"):
        with closing(HttpEndpoint(address, model)) as end, pytest.raises(RunError, match="the server ended the connection before"):
            end.inputs()
    with pytest.raises(RunError, match=r"127\.0\.0\.1:1: no server answers there \(.*refused\); cnna serve starts one"):
        HttpEndpoint("http://127.0.0.1:1", "twice").inputs()


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        *((one, "does not answer as the Open Inference Protocol says") for one in ("", "<html>", "[]", "{}", "[" * 5000, "x")),
        *((f'{{"outputs": {one}}}', "does not answer as the Open Inf") for one in ("null", "[]", "[3]", '[{"name": "y"}]')),
        ('{"outputs": [{"name": "y", "datatype": "FP32", "shape": [2, 1], "data": [1]}]}', "output y: data must be 2 values"),
        ('{"outputs": [{"name": "y", "datatype": "FP32", "shape": [-1, 2], "data": [1, 2]}]}', r"output y: \[-1, 2\] is no shape"),
        ('{"outputs": [{"name": "y", "datatype": "FP32", "shape": [3, 1], "data": [1, 2, 3]}]}', "3 numbers are no answer to 2"),
        (
            '{"outputs": [{"name": "y", "datatype": "BYTES", "shape": [2], "data": ["a", "b"]}]}',
            "output y: it has texts, not numbers",
        ),
    ],
)
def test_a_server_that_answers_rubbish_is_named(address: str, answer: str, said: str) -> None:
    """A user would read a KeyError of LoadGen's process, or a figure of answers to other samples."""
    with (
        closing(HttpEndpoint(address, f"says{answer}")) as end,
        pytest.raises(RunError, match=rf"^http://127\.0\.0\.1:\d+: model says.*{said}"),
    ):
        end.infer({"x": np.zeros((2, 3), np.float32)})


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ("[]", "has no input"),
        ('[{"name": "x", "datatype": "FP32", "shape": []}]', "input x has no axis of samples"),
        ('[{"name": "x", "datatype": "BYTES", "shape": [1]}]', "no tensor of numbers: x is BYTES"),
        ('[{"name": "x", "datatype": "FP32", "shape": [1, 1e12]}]', "a sample of input x is over 67,108,864 bytes"),
        ('[{"name": "x", "datatype": "FP32", "shape": [1, 1e999]}]', "does not say the inputs of says"),
        ("[" * 5000, "does not say the inputs of says"),
    ],
)
def test_inputs_of_which_no_samples_can_be_made_are_named(address: str, inputs: str, said: str) -> None:
    """A user would read of an internal error, or all of this computer's memory would be asked for."""
    with closing(HttpEndpoint(address, f'says{{"inputs": {inputs}}}')) as end, pytest.raises(RunError, match=said):
        end.inputs()
