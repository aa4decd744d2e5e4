"""Traces: a request's spans lie in each other as its time did, continue the caller's trace, and cost nothing where nobody asks."""

import asyncio
import http.server
import itertools
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import grpc.aio
import numpy as np
import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from cnna.host.selftest.selftest_network import path_of, pictures
from cnna.serve.boards.board_spec import board_specs
from cnna.serve.boards.limits import Limits
from cnna.serve.boards.process import LostError
from cnna.serve.engine.core import Core
from cnna.serve.fronts.listening import Listening
from cnna.serve.grpc import open_inference_pb2 as pb
from cnna.serve.grpc.front import GrpcFront
from cnna.serve.grpc.service import SERVICE
from cnna.serve.http.app import App
from cnna.serve.models.repository import open_repository
from cnna.serve.traces.layers import layers
from cnna.serve.traces.tracing import Tracing, exporting

from ..engine.fakes import core_of
from ..http.asgi import call

Within = Callable[[Coroutine[Any, Any, None]], None]
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
HEADER = f"00-{TRACE}-{PARENT}-01"
ONE = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [1, 1]}]}


class Memory:
    """Keeps spans."""

    def __init__(self) -> None:
        self._exporter, provider = InMemorySpanExporter(), TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracing = Tracing(provider)

    def spans(self) -> list[ReadableSpan]:
        """All, in the order in which they began."""
        self.tracing.close()
        return sorted(self._exporter.get_finished_spans(), key=lambda span: (span.start_time or 0, span.name != "queue"))


def children(spans: list[ReadableSpan], parent: ReadableSpan) -> list[ReadableSpan]:
    return [span for span in spans if span.parent is not None and span.parent.span_id == parent.context.span_id]


def lies_within(span: ReadableSpan, other: ReadableSpan) -> bool:
    rounding = 2_000  # nanoseconds: a float of seconds since the start of the computer
    begin, end, first, last = (int(time or 0) for time in (span.start_time, span.end_time, other.start_time, other.end_time))
    return first - rounding <= begin <= end <= last + rounding


def test_spans_go_from_the_request_to_its_layers(within: Within) -> None:
    """Nobody could say where the time of a slow request went, or would look for it in another trace than the caller's."""
    memory, image = Memory(), pictures()[:1]

    async def run() -> None:
        core = Core(open_repository(path_of("tiny")), board_specs(["a=emulator"]), Limits(hang_seconds=600.0))
        front = GrpcFront(core, Listening("127.0.0.1", 0), "9.9", memory.tracing)
        address = (await front.start()).removeprefix("grpc://")
        await core.start()
        entry = {"name": "picture", "datatype": "UINT8", "shape": list(image.shape), "data": image.reshape(-1).tolist()}
        app = App(core, "9.9", tracing=memory.tracing).asgi()
        answer = await call(app, "POST", "/v2/models/tiny/infer", {"id": "7", "inputs": [entry]}, traceparent=HEADER)
        assert answer.code == 200
        request = pb.ModelInferRequest(model_name="tiny", raw_input_contents=[image.tobytes()])
        request.inputs.add(name="picture", datatype="UINT8", shape=image.shape)
        async with grpc.aio.insecure_channel(address) as channel:
            method = channel.unary_unary(f"/{SERVICE}/ModelInfer", pb.ModelInferRequest.SerializeToString)
            await method(request, metadata=[("traceparent", HEADER)])
        await front.stop()
        await core.close()

    within(run())
    spans, predicted = memory.spans(), layers(path_of("tiny"))
    assert {format(span.context.trace_id, "032x") for span in spans} == {TRACE}
    roots = [span for span in spans if span.name == "infer tiny"]
    assert [dict(span.attributes or {})["cnna.protocol"] for span in roots] == ["http", "grpc"]
    for root in roots:
        assert root.parent is not None
        assert format(root.parent.span_id, "016x") == PARENT
        queue, batch = children(spans, root)
        (board,) = children(spans, batch)
        found = children(spans, board)
        assert (queue.name, batch.name, board.name) == ("queue", "batch", "board run")
        assert dict(batch.attributes or {})["cnna.board"] == "a"
        assert sorted(span.name for span in found) == sorted(layer.name for layer in predicted)
        assert all(dict(span.attributes or {})["cnna.predicted"] for span in found)
        pairs = [(queue, root), (batch, root), (board, batch), *((span, board) for span in found)]
        assert all(lies_within(inner, outer) for inner, outer in pairs)
        assert sum((span.end_time or 0) - (span.start_time or 0) for span in found) == pytest.approx(
            (board.end_time or 0) - (board.start_time or 0), abs=2_000 * len(found)
        )


def test_failures_and_retries_are_seen(tmp_path: Path, within: Within) -> None:
    """A request that was slow since a board died would look like one that waited."""
    memory = Memory()

    async def run() -> None:
        core, (one, two) = core_of(tmp_path, "a", "b")
        app = App(core, "9.9", tracing=memory.tracing).asgi()
        answer = asyncio.ensure_future(call(app, "POST", "/v2/models/m/infer", ONE))
        while not (one.running or two.running):
            await asyncio.sleep(0)
        first, other = (one, two) if one.running else (two, one)
        await first.answer(LostError("board: its worker died", True))
        await other.answer()
        assert (await answer).code == 200
        assert (await call(app, "POST", "/v2/models/none/infer", ONE)).code == 404

    within(run())
    spans = memory.spans()
    batches = [span for span in spans if span.name == "batch"]
    assert [span.status.status_code for span in batches] == [StatusCode.ERROR, StatusCode.UNSET]
    assert batches[0].status.description == "board: its worker died"
    good, bad = (span for span in spans if span.name.startswith("infer"))
    assert good.status.status_code == StatusCode.UNSET
    assert bad.status.description == "there is no model 'none'; there are m"


def test_a_request_that_is_not_sampled_leaves_nothing(tmp_path: Path, within: Within) -> None:
    """Every request would be kept, although the caller samples one in a thousand."""
    memory = Memory()

    async def run() -> None:
        core, (board,) = core_of(tmp_path, "a")
        app = App(core, "9.9", tracing=memory.tracing).asgi()
        answer = asyncio.ensure_future(call(app, "POST", "/v2/models/m/infer", ONE, traceparent=HEADER[:-1] + "0"))
        while not board.running:
            await asyncio.sleep(0)
        assert board.running[0][0].ranges[0].request.runs is None
        await board.answer()
        assert (await answer).code == 200

    within(run())
    assert not memory.spans()


def test_nobody_pays_who_does_not_ask() -> None:
    """A server without the extra `trace` would not start, or import what it does not use."""
    code = "import sys, cnna.cli.serving.serve, cnna.serve.http.front, cnna.serve.grpc.front; print('opentelemetry' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.fixture
def collector() -> Iterator[tuple[str, list[tuple[str, bytes]]]]:
    """Its address, and what it has been sent."""
    had: list[tuple[str, bytes]] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:  # the name is http.server's
            had.append((self.path, self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", had
        server.shutdown()


def test_a_collector_gets_them(collector: tuple[str, list[tuple[str, bytes]]]) -> None:
    """Spans would be made and thrown away; or what a collector's absence causes would not be a line of our log."""
    address, had = collector
    for url in (address, address + "/v1/traces"):
        tracing = exporting(url, lambda *_, **__: None)
        with tracing.request({}, "http"):
            pass
        tracing.close()
    assert [path for path, _ in had] == ["/v1/traces"] * 2
    assert all(b"infer" in body and b"cnna" in body for _, body in had)


def test_layers_fill_the_run() -> None:
    """Layers would overlap, or leave a part of the run to nobody."""
    found = layers(path_of("tiny"))
    assert found[0].start == 0
    assert found[-1].end == pytest.approx(1)
    assert all(one.end == pytest.approx(two.start) for one, two in itertools.pairwise(found))
    assert json.dumps(found)
    assert np.all(np.diff([one.start for one in found]) >= 0)
    assert layers(Path("none.cnna")) == ()
