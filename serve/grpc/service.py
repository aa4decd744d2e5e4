"""The calls of the gRPC front. A mistake of a client ends in INVALID_ARGUMENT or NOT_FOUND with one line, as HTTP's 4xx."""

import asyncio
import hmac
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import grpc
import grpc.aio
from google.protobuf.json_format import ParseDict
from google.protobuf.message import DecodeError

from cnna.serve.engine.core import Core
from cnna.serve.grpc import messages
from cnna.serve.grpc import open_inference_pb2 as pb
from cnna.serve.protocol import described, parameters
from cnna.serve.protocol.photographs import decoded
from cnna.spec.errors import BusyError, CnnaError, DataError, LateError, NoTokenError, RunError, UnknownError, UserError

if TYPE_CHECKING:
    from cnna.serve.traces.tracing import RequestTrace, Tracing

SERVICE = "inference.GRPCInferenceService"
STREAMED = 64  # requests of one stream that may be open
Context = Any  # grpc.aio.ServicerContext, which has no types
Call = Callable[[Any, Context], Awaitable[Any]]
T = TypeVar("T")


class Service:
    """The calls, all for one engine."""

    def __init__(self, core: Core, version: str, token: str | None = None, tracing: "Tracing | None" = None) -> None:
        self.core, self.version, self.token, self.tracing = core, version, token, tracing
        self._changes: set[asyncio.Future[Any]] = set()  # asyncio itself keeps no task that nobody waits for

    def handler(self) -> Any:
        """What a grpc.aio server takes."""
        calls: dict[str, tuple[Call, Any, bool]] = {
            "ServerLive": (self._live, pb.Empty, True),
            "ServerReady": (self._ready, pb.Empty, True),
            "ModelReady": (self._model_ready, pb.ModelRequest, True),
            "ServerMetadata": (self._server, pb.Empty, True),
            "ModelMetadata": (self._metadata, pb.ModelRequest, False),
            "ModelConfig": (self._config, pb.ModelRequest, False),
            "ModelStatistics": (self._statistics, pb.ModelRequest, False),
            "ModelInfer": (self._infer, pb.ModelInferRequest, False),
            "RepositoryIndex": (self._index, pb.RepositoryIndexRequest, False),
            "RepositoryModelLoad": (self._load, pb.RepositoryModelRequest, False),
            "RepositoryModelUnload": (self._unload, pb.RepositoryModelRequest, False),
        }
        handlers = {
            name: grpc.unary_unary_rpc_method_handler(self._safely(name, call, kind, free), None, _encoded)
            for name, (call, kind, free) in calls.items()
        }
        handlers["ModelStreamInfer"] = grpc.stream_stream_rpc_method_handler(self._stream, None, _encoded)
        return grpc.method_handlers_generic_handler(SERVICE, handlers)

    def _safely(self, name: str, call: Call, kind: Any, free: bool) -> Call:
        """A call from bytes. gRPC itself would log a traceback for bytes that are no message, and call that our fault."""

        async def answer(data: bytes, context: Context) -> Any:
            try:
                if not free:
                    self._check_token(context)
                with self.core.budget.request() as take:
                    take(len(data))
                    return await call(_decoded(kind, data), context)
            except CnnaError as error:
                code, said = code_of(error), " ".join(str(error).split())
            except Exception as error:
                code, said = grpc.StatusCode.INTERNAL, self._internal(error, name)
            try:
                await context.abort(code, said)
            finally:  # gRPC keeps the error in the context, and the error this frame: together they would keep the stream
                del context

        return answer

    def _internal(self, error: Exception, name: str) -> str:
        """One line for an error that is our own fault; the log has it too."""
        cause = " ".join(f"internal error: {type(error).__name__}: {error}".split())
        self.core.log("error", "internal error", cause=cause, path=f"/{SERVICE}/{name}")
        return cause

    def _check_token(self, context: Context) -> None:
        given = dict(context.invocation_metadata() or ()).get("authorization", "")
        if self.token is not None and not hmac.compare_digest(str(given).encode(), f"Bearer {self.token}".encode()):
            raise NoTokenError("this needs the metadata `authorization: Bearer TOKEN` with the server's token")

    # --- health and metadata ---

    async def _live(self, request: Any, context: Context) -> Any:
        return pb.ServerLiveResponse(live=True)

    async def _ready(self, request: Any, context: Context) -> Any:
        return pb.ServerReadyResponse(ready=self.core.ready)

    async def _model_ready(self, request: pb.ModelRequest, context: Context) -> Any:
        try:
            return pb.ModelReadyResponse(ready=described.why_not_ready(self.core, *_names(request)) is None)
        except UnknownError:  # as Triton does: whether it is ready is asked, and it is not; the index says what there is
            return pb.ModelReadyResponse(ready=False)

    async def _server(self, request: Any, context: Context) -> Any:
        return ParseDict(described.server(self.version), pb.ServerMetadataResponse())

    async def _metadata(self, request: pb.ModelRequest, context: Context) -> Any:
        return ParseDict(described.metadata(self.core, *_names(request)), pb.ModelMetadataResponse())

    async def _config(self, request: pb.ModelRequest, context: Context) -> Any:
        return ParseDict({"config": described.config(self.core, *_names(request))}, pb.ModelConfigResponse())

    async def _statistics(self, request: pb.ModelRequest, context: Context) -> Any:
        model, version = request.name or None, request.version or None
        return ParseDict(described.statistics(self.core, model, version), pb.ModelStatisticsResponse())

    # --- repository ---

    async def _index(self, request: pb.RepositoryIndexRequest, context: Context) -> Any:
        return ParseDict({"models": described.index(self.core, request.ready)}, pb.RepositoryIndexResponse())

    async def _load(self, request: pb.RepositoryModelRequest, context: Context) -> Any:
        parameters.of_repository(messages.plain(request.parameters))
        if refused := await self._to_its_end(self.core.catalogue.load(request.model_name)):
            raise DataError("; ".join(f"model {one.model}, version {one.name}: {one.reason}" for one in refused))
        return pb.Empty()

    async def _unload(self, request: pb.RepositoryModelRequest, context: Context) -> Any:
        parameters.of_repository(messages.plain(request.parameters))
        await self.core.catalogue.unload(request.model_name)
        return pb.Empty()

    async def _to_its_end(self, change: "Coroutine[Any, Any, T]") -> T:
        """Makes a change, even if its client goes or its deadline passes: gRPC cancels the call then, but not what it has begun."""
        done = asyncio.ensure_future(change)
        self._changes.add(done)
        done.add_done_callback(self._changes.discard)
        return await asyncio.shield(done)

    # --- inference ---

    async def _infer(self, request: pb.ModelInferRequest, context: Context) -> pb.ModelInferResponse:
        metadata = {} if self.tracing is None else dict(context.invocation_metadata() or ())
        with nullcontext() if self.tracing is None else self.tracing.request(metadata, "grpc") as trace:
            return await self._answered(request, context, trace)

    async def _answered(
        self, request: pb.ModelInferRequest, context: Context, trace: "RequestTrace | None"
    ) -> pb.ModelInferResponse:
        more, left = messages.arguments_of(request), context.time_remaining()
        if left is not None:
            own = max(1, int(left * 1e6))
            more["timeout_us"] = min(own, more["timeout_us"] or own)
        model, version = request.model_name, request.model_version or None
        try:
            given = messages.inputs_of(request)
        except DataError:  # names come first: the values may be those of another input
            described.check_names(self.core, model, version, [entry.name for entry in request.inputs])
            raise
        ready = await decoded(self.core, model, version, given)
        more["scale_seconds"] = ready.seconds
        admitted = self.core.admit(model, ready.inputs, version, runs=None if trace is None else [], **more)
        if trace is not None:
            trace.request = admitted
        result = await admitted.future
        return messages.answer_of(request, replace(result, outputs=ready.back(result.outputs)))

    async def _stream(self, requests: AsyncIterator[Any], context: Context) -> AsyncIterator[pb.ModelStreamInferResponse]:
        """Answers in the order of the requests; an error is an answer too, and does not end the stream."""
        begun: asyncio.Queue[asyncio.Task[pb.ModelStreamInferResponse] | None] = asyncio.Queue(STREAMED)
        opened: set[asyncio.Task[pb.ModelStreamInferResponse]] = set()

        async def read() -> None:
            try:
                async for request in requests:
                    task = asyncio.ensure_future(self._streamed(request, context))
                    opened.add(task)
                    task.add_done_callback(opened.discard)
                    await begun.put(task)
            finally:
                await begun.put(None)

        reading = asyncio.ensure_future(read())
        try:
            while (answer := await begun.get()) is not None:
                yield await answer
        finally:
            reading.cancel()
            for task in list(opened):
                task.cancel()  # the client has gone

    async def _streamed(self, data: bytes, context: Context) -> pb.ModelStreamInferResponse:
        request = pb.ModelInferRequest()
        try:
            self._check_token(context)
            with self.core.budget.request() as take:
                take(len(data))
                request = _decoded(pb.ModelInferRequest, data)
                return pb.ModelStreamInferResponse(infer_response=await self._infer(request, context))
        except CnnaError as error:
            said = " ".join(str(error).split())
        except Exception as error:
            said = self._internal(error, "ModelStreamInfer")
        named = pb.ModelInferResponse(model_name=request.model_name, id=request.id)
        return pb.ModelStreamInferResponse(error_message=said, infer_response=named)


CODES = (
    (NoTokenError, grpc.StatusCode.UNAUTHENTICATED),
    (UnknownError, grpc.StatusCode.NOT_FOUND),
    (UserError, grpc.StatusCode.INVALID_ARGUMENT),
    (LateError, grpc.StatusCode.DEADLINE_EXCEEDED),
    (RunError, grpc.StatusCode.UNAVAILABLE),
)


def code_of(error: CnnaError) -> Any:
    """The status that an error ends in."""
    if isinstance(error, BusyError) and error.full:
        return grpc.StatusCode.RESOURCE_EXHAUSTED
    return next((code for kind, code in CODES if isinstance(error, kind)), grpc.StatusCode.INTERNAL)


def _encoded(message: Any) -> bytes:
    data: bytes = message.SerializeToString()
    return data


def _decoded(kind: Any, data: bytes) -> Any:
    """DataError: the bytes are no such message."""
    try:
        return kind.FromString(data)
    except DecodeError:
        raise DataError(f"{len(data)} bytes are no message {kind.DESCRIPTOR.name}") from None


def _names(request: pb.ModelRequest) -> tuple[str, str | None]:
    return request.name, request.version or None
