"""The gRPC front on a fake board: answers, their order in a stream, and a code with one line for every mistake."""

import asyncio
import gc
import struct
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import numpy as np
import protocol
import pytest

from cnna.serve.fronts.listening import Listening
from cnna.serve.grpc import front
from cnna.serve.grpc import open_inference_pb2 as pb
from cnna.serve.grpc.front import MOST_BYTES, GrpcFront
from cnna.serve.grpc.service import SERVICE

from ..engine.fakes import FakeBoard, core_of, wanted

Within = Callable[[Coroutine[Any, Any, None]], None]


class Client:
    """Calls by name."""

    def __init__(self, channel: Any, board: FakeBoard) -> None:
        self.channel, self.board = channel, board

    async def call(self, name: str, request: Any, answer: Any, *metadata: tuple[str, str]) -> Any:
        method = self.channel.unary_unary(f"/{SERVICE}/{name}", type(request).SerializeToString, answer.FromString)
        return await method(request, metadata=metadata)

    async def infer(self, request: pb.ModelInferRequest) -> Any:
        return await self.call("ModelInfer", request, pb.ModelInferResponse)

    async def refusal(self, name: str, request: Any, answer: Any) -> tuple[Any, str]:
        try:
            await self.call(name, request, answer)
        except grpc.aio.AioRpcError as error:
            return error.code(), str(error.details())
        raise AssertionError("it was not refused")


@asynccontextmanager
async def served(folder: Path, token: str | None = None) -> AsyncIterator[Client]:
    """A server whose board answers whatever it has."""
    core, (board,) = core_of(folder, "a")
    listener = GrpcFront(core, Listening("127.0.0.1", 0, token), "9.9")
    address = (await listener.start()).removeprefix("grpc://")

    async def answer() -> None:
        while True:
            await asyncio.sleep(0.001)
            if board.running:
                await board.answer()

    answering = asyncio.ensure_future(answer())
    try:
        async with grpc.aio.insecure_channel(address) as channel:
            yield Client(channel, board)
    finally:
        answering.cancel()
        await listener.stop()


def request_of(first: float, model: str = "m", shape: Sequence[int] = (1, 2), **more: Any) -> pb.ModelInferRequest:
    request = pb.ModelInferRequest(model_name=model, id=str(first), **more)
    request.inputs.add(name="x", datatype="FP32", shape=shape)
    request.raw_input_contents.append(np.full(shape, first, np.float32).tobytes())
    return request


@pytest.mark.skipif(
    not version("grpcio-tools").startswith("1.64."),
    reason="the files were written by 1.64, which has no wheel from Python 3.13 on; another protoc writes another text",
)
def test_the_compiled_protocol_is_current() -> None:
    """Somebody has changed the interface without `make pages`."""
    for name, text in protocol.compiled().items():
        assert (protocol.FOLDER / name).read_text() == text


def test_answers_and_what_the_server_says_of_itself(tmp_path: Path, within: Within) -> None:
    """Raw and typed contents must give the same; Triton's clients read the rest before they send anything."""

    async def run() -> None:
        async with served(tmp_path) as client:
            raw = await client.infer(request_of(10))
            assert np.frombuffer(raw.raw_output_contents[0], np.float32).tolist() == wanted(1, 10, 1)[0].tolist()
            assert (raw.id, raw.model_version, list(raw.outputs[0].shape)) == ("10", "1", [1, 2])
            typed = request_of(10)
            typed.inputs[0].contents.fp32_contents[:] = [10, 10]
            del typed.raw_input_contents[:]
            assert (await client.infer(typed)).raw_output_contents == raw.raw_output_contents
            typed.outputs.add(name="y").parameters["classification"].int64_param = 1
            assert (await client.infer(typed)).outputs[0].datatype == "BYTES"
            own = client.board.core.catalogue.models["m"].versions["1"]
            assert own.version is not None
            own.version = replace(own.version, labels={"y": ["cat", "dog"]})
            (named,) = (await client.infer(typed)).raw_output_contents
            assert named == struct.pack("<I", len(named) - 4) + b"101.000000:0:cat"
            assert (await client.call("ServerReady", pb.Empty(), pb.ServerReadyResponse)).ready
            one = pb.ModelRequest(name="m")
            assert (await client.call("ModelReady", one, pb.ModelReadyResponse)).ready
            for other in (pb.ModelRequest(name="none"), pb.ModelRequest(name="m", version="9")):  # no error, as of HTTP's clients
                assert not (await client.call("ModelReady", other, pb.ModelReadyResponse)).ready
            metadata = await client.call("ModelMetadata", one, pb.ModelMetadataResponse)
            assert list(metadata.inputs[0].shape) == [-1, 2]
            config = (await client.call("ModelConfig", one, pb.ModelConfigResponse)).config
            assert (config.max_batch_size, list(config.input[0].dims), config.input[0].data_type) == (64, [2], pb.TYPE_FP32)
            stats = await client.call("ModelStatistics", one, pb.ModelStatisticsResponse)
            assert stats.model_stats[0].inference_stats.success.count == 4
            index = await client.call("RepositoryIndex", pb.RepositoryIndexRequest(), pb.RepositoryIndexResponse)
            assert [(row.name, row.state) for row in index.models] == [("m", "READY")]

    within(run())


def test_a_stream_keeps_its_order_and_survives_a_mistake(tmp_path: Path, within: Within) -> None:
    """A client tells answers of a stream by their order; one bad request must not end the others."""

    async def run() -> None:
        async with served(tmp_path) as client:
            method = client.channel.stream_stream(
                f"/{SERVICE}/ModelStreamInfer", pb.ModelInferRequest.SerializeToString, pb.ModelStreamInferResponse.FromString
            )
            requests = [request_of(number, "none" if number == 3 else "m", (1 + number % 3, 2)) for number in range(80)]
            answers = [answer async for answer in method(iter(requests))]
            assert [answer.infer_response.id for answer in answers] == [request.id for request in requests]
            assert [bool(answer.error_message) for answer in answers] == [number == 3 for number in range(80)]

    within(run())


def test_a_stream_whose_client_goes_leaves_nothing(tmp_path: Path, within: Within) -> None:
    """Boards would work for a client that has gone, before those that are there."""

    async def run() -> None:
        async with served(tmp_path) as client:
            client.board.state = "resting"
            core = client.board.core
            method = client.channel.stream_stream(
                f"/{SERVICE}/ModelStreamInfer", pb.ModelInferRequest.SerializeToString, pb.ModelStreamInferResponse.FromString
            )
            call = method(iter([request_of(number) for number in range(5)]))
            while len(core.requests) < 5:
                await asyncio.sleep(0.001)
            call.cancel()
            while core.requests:
                await asyncio.sleep(0.001)
            assert core.budget.used == 0

    within(run())


def test_a_fault_of_ours_is_one_line(tmp_path: Path, within: Within, monkeypatch: pytest.MonkeyPatch) -> None:
    """gRPC would write a traceback into the log, which has one object a line, and end a stream with it."""
    said: list[tuple[str, str]] = []

    async def run() -> None:
        async with served(tmp_path) as client:
            core = client.board.core
            monkeypatch.setattr(core, "log", lambda level, event, **more: said.append((event, more["path"])))
            monkeypatch.setattr(core, "admit", lambda *_, **__: 1 / 0)
            found, details = await client.refusal("ModelInfer", request_of(1), pb.ModelInferResponse)
            assert (found, details) == (grpc.StatusCode.INTERNAL, "internal error: ZeroDivisionError: division by zero")
            method = client.channel.stream_stream(
                f"/{SERVICE}/ModelStreamInfer", pb.ModelInferRequest.SerializeToString, pb.ModelStreamInferResponse.FromString
            )
            answers = [answer async for answer in method(iter([request_of(1), request_of(2)]))]
            assert [answer.error_message for answer in answers] == [details] * 2

    within(run())
    assert said == [("internal error", f"/{SERVICE}/{name}") for name in ("ModelInfer", "ModelStreamInfer", "ModelStreamInfer")]


def test_mistakes_have_their_codes(tmp_path: Path, within: Within) -> None:
    """A client tells its own mistake from a server that is busy by the code."""

    async def run() -> None:
        async with served(tmp_path) as client:
            short = request_of(1)
            short.raw_input_contents[0] = b"abc"
            twice = request_of(1)
            twice.raw_input_contents.append(b"")
            named = request_of(1)
            named.outputs.add(name="z")
            prior = request_of(1)
            prior.parameters["priority"].string_param = "high"
            remote, taken = request_of(1), request_of(1)
            remote.inputs[0].parameters["shared_memory_region"].string_param = "a"
            taken.outputs.add(name="y").parameters["shared_memory_region"].string_param = "a"
            cases = [
                (remote, grpc.StatusCode.INVALID_ARGUMENT, "input x: there is no shared memory here"),
                (taken, grpc.StatusCode.INVALID_ARGUMENT, "output y: there is no shared memory here"),
                (request_of(1, "none"), grpc.StatusCode.NOT_FOUND, "there is no model 'none'"),
                (request_of(1, model_version="7"), grpc.StatusCode.NOT_FOUND, "no version '7'"),
                (pb.ModelInferRequest(model_name="m"), grpc.StatusCode.INVALID_ARGUMENT, "one input, x"),
                (short, grpc.StatusCode.INVALID_ARGUMENT, "has 8 bytes, but 3 came"),
                (twice, grpc.StatusCode.INVALID_ARGUMENT, "give one for each, or none"),
                (named, grpc.StatusCode.INVALID_ARGUMENT, "no output 'z'; there are y"),
                (prior, grpc.StatusCode.INVALID_ARGUMENT, "parameter priority"),
            ]
            for request, code, said in cases:
                found, details = await client.refusal("ModelInfer", request, pb.ModelInferResponse)
                assert (found, said in details) == (code, True), details
            load = pb.RepositoryModelRequest(model_name="m")
            load.parameters["config"].string_param = "{}"
            for name in ("RepositoryModelLoad", "RepositoryModelUnload"):
                found, details = await client.refusal(name, load, pb.Empty)
                assert (found, "parameter config" in details) == (grpc.StatusCode.INVALID_ARGUMENT, True), details
            client.board.state = "resting"
            late = request_of(1)
            late.parameters["timeout"].int64_param = 1
            found, _ = await client.refusal("ModelInfer", late, pb.ModelInferResponse)
            assert found == grpc.StatusCode.DEADLINE_EXCEEDED
            client.board.core.budget.most = 3
            found, _ = await client.refusal("ModelInfer", request_of(1), pb.ModelInferResponse)
            assert found == grpc.StatusCode.RESOURCE_EXHAUSTED
            client.board.core.budget.most = 1000
            client.board.state = "out"
            found, _ = await client.refusal("ModelInfer", request_of(1), pb.ModelInferResponse)
            assert found == grpc.StatusCode.UNAVAILABLE

    within(run())


UNKNOWN = [  # calls that name a model, but for ModelReady and ModelInfer, and their answers
    ("ModelMetadata", pb.ModelMetadataResponse),
    ("ModelConfig", pb.ModelConfigResponse),
    ("ModelStatistics", pb.ModelStatisticsResponse),
]


def test_calls_for_what_is_not_there_end_in_not_found(tmp_path: Path, within: Within) -> None:
    """A client could not tell a wrong name from a server that fails; HTTP answers 404 with these words."""

    async def run() -> None:
        async with served(tmp_path) as client:
            for name, answer in UNKNOWN:
                for model, version, said in (("none", "", "there is no model 'none'"), ("m", "7", "no version '7'")):
                    request = pb.ModelRequest(name=model, version=version)
                    code, details = await client.refusal(name, request, answer)
                    assert (code, said in details) == (grpc.StatusCode.NOT_FOUND, True), (name, details)
            for name in ("RepositoryModelLoad", "RepositoryModelUnload"):
                code, details = await client.refusal(name, pb.RepositoryModelRequest(model_name="none"), pb.Empty)
                assert (code, "'none'" in details) == (grpc.StatusCode.NOT_FOUND, True), (name, details)
            for model, version in (("none", ""), ("m", "7")):
                ready = await client.call("ModelReady", pb.ModelRequest(name=model, version=version), pb.ModelReadyResponse)
                assert not ready.ready

    within(run())


def test_packed_messages_are_refused_unopened(tmp_path: Path, within: Within) -> None:
    """gRPC would unpack 64 MiB into 64 GiB before it compares that with the limit."""

    async def run() -> None:
        async with served(tmp_path) as client:
            method = client.channel.unary_unary(f"/{SERVICE}/ModelInfer", None, pb.ModelInferResponse.FromString)
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await method(bytes(MOST_BYTES + 1), compression=grpc.Compression.Gzip)
            assert caught.value.code() == grpc.StatusCode.UNIMPLEMENTED
            assert caught.value.details() == "Compression algorithm 'gzip' is disabled."
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await method(bytes(MOST_BYTES + 1))
            assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED

    within(run())


def test_a_load_goes_on_when_its_client_has_gone(tmp_path: Path, within: Within, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client whose deadline is shorter than a load would break it off each time, and the version would never be served."""
    ended: list[str] = []

    async def run() -> None:
        async with served(tmp_path) as client:
            begun, gate = asyncio.Event(), asyncio.Event()

            async def load(name: str) -> list[Any]:
                begun.set()
                try:
                    await gate.wait()
                except asyncio.CancelledError:
                    ended.append("broken off")
                    raise
                ended.append(name)
                return []

            monkeypatch.setattr(client.board.core.catalogue, "load", load)
            asked = asyncio.ensure_future(client.call("RepositoryModelLoad", pb.RepositoryModelRequest(model_name="m"), pb.Empty))
            await begun.wait()
            asked.cancel()
            await client.call("ServerLive", pb.Empty(), pb.ServerLiveResponse)  # the server has heard of it by then
            while client.board.core.budget.used:
                await asyncio.sleep(0.001)
            gate.set()
            while not ended:
                await asyncio.sleep(0.001)

    within(run())
    assert ended == ["m"]


def test_a_token_is_needed_for_all_but_health(tmp_path: Path, within: Within) -> None:
    """As over HTTP."""

    async def run() -> None:
        async with served(tmp_path, "a" * 20) as client:
            assert (await client.call("ServerReady", pb.Empty(), pb.ServerReadyResponse)).ready
            found, _ = await client.refusal("ModelInfer", request_of(1), pb.ModelInferResponse)
            assert found == grpc.StatusCode.UNAUTHENTICATED
            shown = ("authorization", "Bearer " + "a" * 20)
            assert (await client.call("ModelInfer", request_of(1), pb.ModelInferResponse, shown)).model_version == "1"

    within(run())


@pytest.mark.parametrize("name", ["ModelReady", "ModelInfer", "RepositoryModelLoad"])
def test_a_call_that_fails_is_gone_when_it_has_ended(
    tmp_path: Path, within: Within, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Each would keep its stream until Python collects its garbage, and a connection has so many: the next call is refused."""
    monkeypatch.setattr(front, "MOST_CALLS", 4)

    async def run() -> None:
        async with served(tmp_path) as client:
            method = client.channel.unary_unary(f"/{SERVICE}/{name}", None, None)
            for _ in range(12):
                with pytest.raises(grpc.aio.AioRpcError, match="bytes are no message"):
                    await method(b"\xff")

    gc.disable()
    try:
        within(run())
    finally:
        gc.enable()


@pytest.mark.parametrize("cases", [300, pytest.param(10_000, marks=pytest.mark.slow)])
def test_random_messages_never_end_in_our_fault(tmp_path: Path, within: Within, cases: int, seed: int) -> None:
    """Bytes that nobody thought of would crash the server, or end in UNKNOWN, which is a fault of ours."""

    async def run() -> None:
        rng, whole = np.random.default_rng(seed), request_of(1).SerializeToString()
        async with served(tmp_path) as client:
            method = client.channel.unary_unary(f"/{SERVICE}/ModelInfer", None, pb.ModelInferResponse.FromString)
            codes = set()
            for _ in range(cases):
                data = bytearray(whole)
                for _ in range(int(rng.integers(1, 4))):
                    data[int(rng.integers(0, len(data)))] = int(rng.integers(0, 256))
                try:
                    await method(bytes(data))
                except grpc.aio.AioRpcError as error:
                    codes.add(error.code())
            assert {code.name for code in codes} == {"INVALID_ARGUMENT", "NOT_FOUND"}

    within(run())


def test_a_wrong_name_is_named_before_its_values(tmp_path: Path, within: Within) -> None:
    """The line would count values of an input that the model does not have, and nobody look at its name."""

    async def run() -> None:
        async with served(tmp_path) as client:
            request = request_of(1.0)
            request.raw_input_contents[0] = b"1234"
            request.inputs[0].name = "X"
            code, said = await client.refusal("ModelInfer", request, pb.ModelInferResponse)
            assert (code, said) == (grpc.StatusCode.INVALID_ARGUMENT, "m has inputs x; missing: x; unknown: X (did you mean x?)")
            request.inputs[0].name = "x"
            assert "input x: FP32 [1, 2] has 8 bytes" in (await client.refusal("ModelInfer", request, pb.ModelInferResponse))[1]

    within(run())
