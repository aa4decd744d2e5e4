"""The HTTP front without a network: what clients get for good requests, and one line with a 4xx for bad ones."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cnna.serve.http.app import MOST_BYTES, App
from cnna.serve.http.body import LENGTH
from cnna.serve.lifecycle.boards import BoardLife
from cnna.serve.lifecycle.versions import VersionLife

from ..engine.fakes import FakeBoard, core_of, wanted
from .asgi import Answer, call

Within = Callable[[Coroutine[Any, Any, None]], None]
TEN = {"name": "x", "datatype": "FP32", "shape": [2, 2], "data": [10, 10, 11, 11]}
INFER = "/v2/models/m/infer"


class Served:
    """An application with one fake board, which answers as soon as it has something."""

    def __init__(self, folder: Path, token: str | None = None, most_bytes: int = 1 << 20, **settings: Any) -> None:
        self.core, (self.board,) = core_of(folder, "a", **settings)
        self.app = App(self.core, "9.9", token, most_bytes).asgi()

    async def call(self, method: str, path: str, body: Any = b"", **headers: str) -> Answer:
        answer = asyncio.ensure_future(call(self.app, method, path, body, **headers))
        while not answer.done():
            await asyncio.sleep(0)
            board: FakeBoard = self.board
            if board.running:
                await board.answer()
        return answer.result()


def test_json_and_binary_give_the_same(tmp_path: Path, within: Within) -> None:
    """tritonclient sends binary tensors, curl JSON."""

    async def run() -> None:
        served = Served(tmp_path)
        answer = await served.call("POST", INFER, {"id": "7", "inputs": [TEN]})
        y = wanted(2, 10, 1)
        assert (answer.code, answer.headers["content-type"]) == (200, "application/json")
        assert answer.json == {
            "model_name": "m",
            "model_version": "1",
            "id": "7",
            "outputs": [{"name": "y", "datatype": "FP32", "shape": [2, 2], "data": y.reshape(-1).tolist()}],
        }
        x = np.array(TEN["data"], np.float32).tobytes()
        entry = {**{key: TEN[key] for key in ("name", "datatype", "shape")}, "parameters": {"binary_data_size": len(x)}}
        head = json.dumps({"inputs": [entry], "parameters": {"binary_data_output": True}}).encode()
        answer = await served.call("POST", "/v2/models/m/versions/1/infer", head + x, **{LENGTH: str(len(head))})
        assert answer.headers["content-type"] == "application/octet-stream"
        size = int(answer.headers[LENGTH])
        assert json.loads(answer.body[:size])["outputs"][0]["parameters"] == {"binary_data_size": y.nbytes}
        assert answer.body[size:] == y.astype(np.float32).tobytes()

    within(run())


def test_classes_and_chosen_outputs(tmp_path: Path, within: Within) -> None:
    """A client that wants the class does not want a thousand scores."""

    async def run() -> None:
        served = Served(tmp_path)
        outputs = [{"name": "y", "parameters": {"classification": 1}}]
        answer = await served.call("POST", INFER, {"inputs": [TEN], "outputs": outputs})
        assert answer.json["outputs"] == [
            {"name": "y", "datatype": "BYTES", "shape": [2, 1], "data": ["101.000000:0", "111.000000:0"]}
        ]

    within(run())


def test_classes_have_the_names_that_the_version_stores(tmp_path: Path, within: Within) -> None:
    """A client would get a number and have to know the names of a thousand classes; or get them in place of the values."""

    async def run() -> None:
        served = Served(tmp_path)
        own = served.core.catalogue.models["m"].versions["1"]
        assert own.version is not None
        own.version = replace(own.version, labels={"y": ["a cat", "d:o:g"]})
        outputs = [{"name": "y", "parameters": {"classification": 2}}]
        uneven = {**TEN, "data": [10, 12, 13, 11]}
        answer = await served.call("POST", INFER, {"inputs": [uneven], "outputs": outputs})
        assert answer.json["outputs"][0]["data"] == [
            *("121.000000:1:d:o:g", "101.000000:0:a cat"),
            *("131.000000:0:a cat", "111.000000:1:d:o:g"),
        ]
        plain = await served.call("POST", INFER, {"inputs": [uneven]})
        assert plain.json["outputs"][0]["data"] == [101, 121, 131, 111]

    within(run())


def test_what_the_server_says_of_itself(tmp_path: Path, within: Within) -> None:
    """perf_analyzer and orchestrators read these before they send anything."""

    async def run() -> None:
        served = Served(tmp_path)
        await served.call("POST", INFER, {"inputs": [TEN]})
        get = {
            path: await served.call("GET", f"/v2{path}")
            for path in ("", "/health/live", "/health/ready", "/models/m", "/models/m/config")
        }
        assert {answer.code for answer in get.values()} == {200}
        assert get[""].json["version"] == "9.9"
        assert get["/models/m"].json["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 2]}]
        assert get["/models/m/config"].json["input"] == [{"name": "x", "data_type": "TYPE_FP32", "dims": [2]}]
        stats = (await served.call("GET", "/v2/models/m/stats")).json["model_stats"]
        assert (stats[0]["inference_count"], stats[0]["execution_count"]) == (2, 1)
        assert stats[0]["batch_stats"][0]["batch_size"] == 2
        assert (await served.call("POST", "/v2/repository/index")).json == [
            {"name": "m", "version": "1", "state": "READY", "reason": ""}
        ]
        text = (await served.call("GET", "/metrics")).body.decode()
        assert 'cnna_requests_succeeded_total{model="m",version="1"} 1.0' in text
        assert 'cnna_board_ready{board="a"} 1.0' in text
        assert 'cnna_board_power_watts{board="a"}' not in text
        served.core.boards[0].watts, served.core.boards[0].celsius = 6.5, 41.0
        text = (await served.call("GET", "/metrics")).body.decode()
        assert 'cnna_board_power_watts{board="a"} 6.5' in text
        assert 'cnna_board_temperature_celsius{board="a"} 41.0' in text

    within(run())


def test_readiness_has_a_cause(tmp_path: Path, within: Within) -> None:
    """An operator would see that a model is not ready, but not why."""

    async def run() -> None:
        served = Served(tmp_path)
        model = served.core.catalogue.models["m"]
        model.becomes(model.life.with_life("1", VersionLife("UNAVAILABLE", "golden answers differ")))
        answer = await served.call("GET", "/v2/models/m/versions/1/ready")
        assert (answer.code, answer.json["ready"]) == (503, False)
        assert "golden answers differ" in answer.json["error"]
        answer = await served.call("POST", INFER, {"inputs": [TEN]})
        assert (answer.code, answer.headers["retry-after"]) == (503, "1")
        await served.core.drain(0)
        assert (await served.call("GET", "/v2/health/ready")).code == 503
        assert (await served.call("GET", "/v2/health/live")).code == 200

    within(run())


def test_the_server_says_why_it_is_not_ready(tmp_path: Path, within: Within) -> None:
    """`docs/serving/reference.md` promises the reason; an operator saw `false` alone, and had to look through the log."""

    async def run() -> None:
        served = Served(tmp_path)
        health, core = "/v2/health/ready", served.core
        assert (await served.call("GET", health)).json == {"ready": True}
        model = core.catalogue.models["m"]
        life, model.reason = model.life, "model.yaml: no such\nkey"
        model.becomes(replace(life, default=None))
        answer = await served.call("GET", health)
        said = {"ready": False, "error": "model m has no version that is ready: model.yaml: no such key"}
        assert (answer.code, answer.json) == (503, said)
        for number in range(100):
            core.catalogue.models[f"m{number}"] = model
        assert (await served.call("GET", health)).json["error"].endswith("; and 97 more models")
        core.catalogue.models, model.reason = {"m": model}, ""
        model.becomes(life)
        served.board.life = BoardLife("out", "its worker died")
        assert (await served.call("GET", health)).json["error"] == "model m: no board can answer: a: its worker died"
        core.catalogue.models = {}
        assert (await served.call("GET", health)).json["error"] == "no board can answer: a: its worker died"
        core.starting = True
        assert (await served.call("GET", health)).json["error"] == "the server is starting"
        assert (await served.call("GET", "/v2/models/m/ready")).json["error"] == "the server is starting"
        core.draining = True
        assert (await served.call("GET", health)).json["error"] == "the server is ending"

    within(run())


def test_a_model_that_is_not_there_is_not_ready(tmp_path: Path, within: Within) -> None:
    """A client that asks before it sends would need two ways to read the answer."""

    async def run() -> None:
        served = Served(tmp_path)
        for path in ("/v2/models/none/ready", "/v2/models/m/versions/9/ready"):
            answer = await served.call("GET", path)
            assert (answer.code, answer.json["ready"]) == (404, False)
            assert "there is no model 'none'" in answer.json["error"] or "no version '9'" in answer.json["error"]

    within(run())


def strictly(text: bytes) -> Any:
    """JSON, read as other languages read it."""

    def none(literal: str) -> None:
        raise AssertionError(f"{literal} is no JSON")

    return json.loads(text, parse_constant=none)


def test_values_that_json_does_not_have(tmp_path: Path, within: Within) -> None:
    """Go, Rust and browsers could not read the answer; null in the place of infinity would be another value without a word."""

    async def run() -> None:
        served = Served(tmp_path)
        x = np.array([[np.inf, 1], [np.nan, -np.inf]], np.float32)
        entry = {"name": "x", "datatype": "FP32", "shape": [2, 2], "parameters": {"binary_data_size": x.nbytes}}

        async def infer(**parameters: Any) -> Answer:
            head = json.dumps({"inputs": [entry], "parameters": parameters}).encode()
            return await served.call("POST", INFER, head + x.tobytes(), **{LENGTH: str(len(head))})

        refused = await infer()
        assert refused.code == 400
        assert "output y: JSON has no NaN and no infinity, but 3 of 4 values are one" in strictly(refused.body)["error"]
        binary = await infer(binary_data_output=True)
        size = int(binary.headers[LENGTH])
        strictly(binary.body[:size])
        assert np.array_equal(np.frombuffer(binary.body[size:], np.float32).reshape(2, 2), x * 10 + 1, equal_nan=True)
        allowed = await infer(allow_nan=True)
        assert allowed.code == 200
        assert b"[Infinity,11.0,NaN,-Infinity]" in allowed.body
        for classes in (1, 2):
            head = {"inputs": [TEN], "outputs": [{"name": "y", "parameters": {"classification": classes}}]}
            strictly((await served.call("POST", INFER, head)).body)

    within(run())


def test_numbers_of_a_request_that_json_does_not_have(tmp_path: Path, within: Within) -> None:
    """A client's division by zero would be a sample like any other."""

    async def run() -> None:
        served = Served(tmp_path)
        for text in ("NaN", "Infinity", "-Infinity"):
            body = json.dumps({"inputs": [TEN], "parameters": {"allow_nan": False}}).replace("11,", f"{text},", 1).encode()
            answer = await served.call("POST", INFER, body)
            assert (answer.code, f"it has {text}; send binary tensors" in answer.json["error"]) == (400, True)
            answer = await served.call("POST", INFER, body.replace(b"false", b"true"))
            assert (answer.code, text in answer.body.decode()) == (200, True)
            answer = await served.call("POST", "/v2/repository/index", b'{"ready": %s}' % text.encode())
            assert (answer.code, "not JSON" in answer.json["error"]) == (400, True)
        answer = await served.call("POST", INFER, {"inputs": [TEN], "parameters": {"allow_nan": 1}})
        assert "allow_nan: 1 must be true or false" in answer.json["error"]

    within(run())


def test_figures_that_are_not_finite_are_null(tmp_path: Path, within: Within) -> None:
    """A sensor that answers NaN would make the page of boards, and the console, unreadable."""

    async def run() -> None:
        served = Served(tmp_path)
        served.board.watts, served.board.celsius = float("nan"), float("inf")
        (row,) = strictly((await served.call("GET", "/v2/boards")).body)
        assert (row["name"], row["watts"], row["celsius"], row["loaded"]) == ("a", None, None, [])
        assert strictly((await served.call("GET", "/v2/console")).body)["boards"][0]["watts"] is None

    within(run())


BAD: list[tuple[Any, str]] = [
    (b"", "not JSON"),
    (b"\xff\xfe", "not JSON"),
    (b"[" * 100_000, "not JSON"),
    ([], 'the body is a list; it must be an object with a list "inputs"'),
    (b"null", "the body is null"),
    ({}, 'the body has no "inputs"'),
    ({"inputs": None}, '"inputs" is null; it must be a list'),
    ({"inputs": {"x": TEN}}, '"inputs" is an object; it must be a list'),
    ({"inputs": "x"}, '"inputs" is a text; it must be a list'),
    ({"inputs": True}, '"inputs" is a truth value; it must be a list'),
    ({"inputs": []}, "one input, x"),
    ({"inputs": [1]}, '"inputs" holds a number; each must be an object with a "name"'),
    ({"inputs": [None]}, '"inputs" holds null; each must be an object with a "name"'),
    ({"inputs": [{}]}, 'one of "inputs" has no "name"'),
    ({"inputs": [{**TEN, "name": 7}]}, 'one of "inputs" has no "name", or one that is no text'),
    ({"inputs": [{"name": "x"}]}, 'input x: has no "datatype"'),
    ({"inputs": [{**TEN, "datatype": None}]}, 'input x: has no "datatype"'),
    ({"inputs": [{**TEN, "datatype": "FP31"}]}, "there is no datatype 'FP31'; there are BOOL, "),
    ({"inputs": [{**TEN, "shape": None}]}, 'input x: has no "shape"'),
    ({"inputs": [{**TEN, "shape": []}]}, "[] is no shape; one is 1 to 16 whole numbers"),
    ({"inputs": [{**TEN, "shape": [-1, 2]}]}, "[-1, 2] is no shape; one is 1 to 16 whole numbers from 0 on"),
    ({"inputs": [{**TEN, "shape": [1 << 40, 2]}]}, "is no shape; one is 1 to 16 whole numbers from 0 on, with fewer than 2,147"),
    ({"inputs": [{**TEN, "shape": [1.0, 2]}]}, "[1.0, 2] is no shape"),
    ({"inputs": [{k: v for k, v in TEN.items() if k != "data"}]}, 'has neither "data" nor the parameter binary_data_size'),
    ({"inputs": [{**TEN, "data": None}]}, "input x: data must be a list"),
    ({"inputs": [{**TEN, "parameters": {"binary_data_size": -1}}]}, "binary_data_size is -1, but 0 bytes are left"),
    ({"inputs": [{**TEN, "shape": [2, 3]}]}, "6 values of the datatype FP32"),
    ({"inputs": [{**TEN, "parameters": 3}]}, '"parameters" must be an object'),
    ({"inputs": [{**TEN, "parameters": {"binary_data_size": 9}}]}, "binary_data_size is 9, but 0 bytes are left"),
    ({"inputs": [TEN, TEN]}, "input x is there twice"),
    ({"inputs": [TEN] * 300}, "more than 256 inputs"),
    ({"inputs": [TEN], "id": 3}, '"id" must be a text'),
    ({"inputs": [TEN], "outputs": [{"name": "z"}]}, "has no output 'z'; there are y"),
    ({"inputs": [{**TEN, "parameters": {"shared_memory_region": "a"}}]}, "input x: there is no shared memory here"),
    ({"inputs": [TEN], "outputs": [{"name": "y", "parameters": {"shared_memory_region": "a"}}]}, "output y: there is no shared"),
    (b" " * ((16 << 20) + 1), "the JSON of a request has at most 16,777,216 bytes"),
    ({"inputs": [TEN], "outputs": 3}, '"outputs" must be a list'),
    ({"inputs": [TEN], "outputs": [{"name": "y", "parameters": {"classification": 1001}}]}, "a number of classes, 1000 at most"),
    ({"inputs": [TEN], "parameters": {"priority": -1}}, "parameter priority"),
    ({"inputs": [TEN], "parameters": {"timeout": "soon"}}, "parameter timeout"),
    ({"inputs": [TEN], "parameters": {"sequence_id": []}}, "parameter sequence_id"),
    ({"inputs": [TEN], "parameters": {"binary_data_output": 1}}, "must be true or false"),
]


@pytest.mark.parametrize(("body", "said"), BAD)
def test_malformed_requests_get_one_line(tmp_path: Path, within: Within, body: Any, said: str) -> None:
    """A client would not learn what to change, or would take the server down."""

    async def run() -> None:
        answer = await Served(tmp_path, most_bytes=MOST_BYTES).call("POST", INFER, body)
        assert answer.code == 400, answer.body
        assert said in answer.json["error"]
        assert "\n" not in answer.json["error"]

    within(run())


def test_other_mistakes_have_their_codes(tmp_path: Path, within: Within) -> None:
    """A 500 would look like a fault of the server."""

    async def run() -> None:
        served = Served(tmp_path, most_bytes=2000)
        cases = [
            (404, "POST", "/v2/models/n/infer", {"inputs": [TEN]}, {}),
            (404, "POST", "/v2/models/m/versions/9/infer", {"inputs": [TEN]}, {}),
            (404, "GET", "/v2/models/..%2f/config", b"", {}),
            (404, "GET", "/v3", b"", {}),
            (405, "GET", INFER, b"", {}),
            (404, "POST", INFER + "/", b"", {"host": "evil.example"}),
            (404, "POST", "/v2/repository/models/n/load", b"", {}),
            (400, "POST", "/v2/repository/models/m/load", {"parameters": {"config": "{}"}}, {}),
            (400, "POST", "/v2/repository/models/m/unload", {"parameters": {"unload_dependents": True}}, {}),
            (400, "POST", "/v2/repository/models/m/unload", {"parameters": 3}, {}),
            (400, "POST", "/v2/repository/index", b"[]", {}),
            (404, "POST", "/v2/boards/b/reset", b"", {}),
            (413, "POST", INFER, b" " * 2001, {}),
            (400, "POST", INFER, b"{}", {LENGTH: "99"}),
            (400, "POST", INFER, b"{}", {LENGTH: "-1"}),
            (400, "POST", INFER, b"{}", {"content_encoding": "gzip"}),
        ]
        for code, method, path, body, headers in cases:
            answer = await served.call(method, path, body, **headers)
            assert (answer.code, path) == (code, path), answer.body
            assert answer.json["error"]

    within(run())


def test_a_deadline_is_a_504(tmp_path: Path, within: Within) -> None:
    """A client tells "too late" from "too busy" by it."""

    async def run() -> None:
        core, (board,) = core_of(tmp_path, "a")
        board.state = "resting"
        body = {"inputs": [TEN], "parameters": {"timeout": 1}}
        answer = await call(App(core, "9.9").asgi(), "POST", INFER, body)
        assert answer.code == 504

    within(run())


def test_open_requests_have_so_many_bytes_at_most(tmp_path: Path, within: Within) -> None:
    """Many clients with large bodies would take all memory, however short the queue is."""

    async def run() -> None:
        served = Served(tmp_path)
        served.core.budget.most = 250
        assert (await served.call("POST", INFER, {"inputs": [TEN]})).code == 200
        assert served.core.budget.used == 0
        served.core.budget.used = 200
        answer = await served.call("POST", INFER, {"inputs": [TEN]})
        assert (answer.code, "requests of 200 bytes are open" in answer.json["error"]) == (503, True)
        assert served.core.budget.used == 200

    within(run())


def test_a_page_of_another_server_cannot_ask(tmp_path: Path, within: Within) -> None:
    """Any page in a user's browser could unload models of a server on the same computer; the server's own console could not."""

    async def run() -> None:
        core, _ = core_of(tmp_path, "a")
        path = "/v2/repository/index"
        for token, origin, code in (
            (None, "http://127.0.0.1:8000", 200),
            (None, "https://evil.example", 403),
            (None, "http://127.0.0.1:8001", 403),
            (None, "null", 403),
            ("secret", "https://behind.example", 200),
        ):
            app = App(core, "9.9", token).asgi()
            headers = {"host": "127.0.0.1:8000", "origin": origin, "authorization": "Bearer secret"}
            assert (await call(app, "POST", path, **headers)).code == code, origin
        assert (await call(App(core, "9.9").asgi(), "POST", path)).code == 200

    within(run())


def test_a_token_is_needed_for_all_but_health(tmp_path: Path, within: Within) -> None:
    """Whoever reaches the port could unload models."""

    async def run() -> None:
        served = Served(tmp_path, token="a" * 20)
        for path in ("/v2/health/live", "/v2/health/ready", "/v2/models/m/ready"):
            assert (await served.call("GET", path)).code == 200
        for path in ("/metrics", "/v2/models/m", "/v2/models/stats"):
            assert (await served.call("GET", path)).code == 401
            assert (await served.call("GET", path, authorization="Bearer " + "a" * 19)).code == 401
            assert (await served.call("GET", path, authorization="Bearer \u00e9")).code == 401
            assert (await served.call("GET", path, authorization="Bearer " + "a" * 20)).code == 200
        assert (await served.call("POST", "/v2/repository/index")).code == 401

    within(run())


@pytest.mark.parametrize("cases", [300, pytest.param(10_000, marks=pytest.mark.slow)])
def test_random_requests_never_give_a_500(tmp_path: Path, within: Within, cases: int, seed: int) -> None:
    """Bytes that nobody thought of would crash the server, or show a client a fault of ours."""

    async def run() -> None:
        served, rng = Served(tmp_path), np.random.default_rng(seed)
        x = np.ones((2, 2), np.float32).tobytes()
        entry = {"name": "x", "datatype": "FP32", "shape": [2, 2], "parameters": {"binary_data_size": len(x)}}
        head = json.dumps({"id": "7", "inputs": [entry], "outputs": [{"name": "y", "parameters": {"binary_data": True}}]}).encode()
        codes = set()
        for _ in range(cases):
            data = bytearray(head + x)
            for _ in range(int(rng.integers(1, 6))):
                place = int(rng.integers(0, len(data)))
                if rng.random() < 0.5:
                    data[place] = rng.integers(0, 256)
                else:
                    data[place : place + int(rng.integers(0, 20))] = rng.bytes(int(rng.integers(0, 10)))
            length = str(len(head) + int(rng.integers(-3, 4)) * int(rng.random() < 0.2))
            answer = await served.call("POST", INFER, bytes(data), **{LENGTH: length})
            codes.add(answer.code)
            assert answer.code in (200, 400), answer.body
        assert codes == {200, 400}

    within(run())


@pytest.mark.parametrize(
    "wrong",
    [
        {"data": [1.0]},
        {"data": "text"},
        {"shape": [-1]},
        {"datatype": "FLOAT"},
        {"parameters": {"binary_data_size": 5}, "data": None},
    ],
)
def test_a_wrong_name_is_named_before_its_values(tmp_path: Path, within: Within, wrong: dict[str, Any]) -> None:
    """The line would count values of an input that the model does not have, and nobody look at its name."""

    async def run() -> None:
        served = Served(tmp_path)
        answer = await served.call("POST", INFER, {"inputs": [{**TEN, "name": "X", **wrong}]})
        assert (answer.code, answer.json["error"]) == (400, "m has inputs x; missing: x; unknown: X (did you mean x?)")
        answer = await served.call("POST", INFER, {"inputs": [{**TEN, **wrong}]})
        assert answer.code == 400
        assert answer.json["error"].startswith("input x:"), "the right name's values are what is wrong"
        answer = await served.call("POST", "/v2/models/none/infer", {"inputs": [{**TEN, "name": "X", **wrong}]})
        assert answer.json["error"].startswith("input X:"), "no model, no names: what can be known is said"

    within(run())
