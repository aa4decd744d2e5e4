"""Spans of a request: queue, batch, board run, layers. Imported only where traces are wanted.

The engine only notes when things happened. Spans are made of that in a thread, once a request has ended. A caller's `traceparent`
is continued, and its sampling holds: nothing is noted of a request that is not sampled. How long a layer took is not measured: its
span is the artifact's prediction, scaled to the measured run, and says so.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.propagators.textmap import Getter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from cnna.serve.requests.request import BatchRun, Request
from cnna.serve.traces.layers import layers

MOST_WAITING = 2000  # requests that have ended and have no spans yet; of more, only the request's own span is kept
NANO = 1_000_000_000


class RequestTrace:
    """One request's. The front sets `request` once it has been admitted."""

    def __init__(self, span: Span) -> None:
        self.span = span
        self.request: Request | None = None


class _Headers(Getter[Mapping[str, str]]):
    """Reads headers and metadata, whose names are in lower case."""

    def get(self, carrier: Mapping[str, str], key: str) -> list[str] | None:
        found = carrier.get(key)
        return None if found is None else [str(found)]

    def keys(self, carrier: Mapping[str, str]) -> list[str]:
        return list(carrier)


class Tracing:
    """Makes spans with a provider. close: makes those that are due, and sends them."""

    def __init__(self, provider: TracerProvider) -> None:
        self._provider, self._tracer = provider, provider.get_tracer("cnna")
        self._propagator, self._getter = TraceContextTextMapPropagator(), _Headers()
        self._thread = ThreadPoolExecutor(1, "cnna-traces")
        self._waiting = 0

    @contextmanager
    def request(self, headers: Mapping[str, str], protocol: str) -> Iterator[RequestTrace | None]:
        """A request, from here to the end of the block; None: it is not sampled. An error of the block is the span's."""
        context = self._propagator.extract(headers, getter=self._getter)
        span = self._tracer.start_span("infer", context, SpanKind.SERVER, {"cnna.protocol": protocol})
        if not span.is_recording():
            yield None
            return
        trace = RequestTrace(span)
        try:
            yield trace
        except Exception as error:
            span.set_status(Status(StatusCode.ERROR, " ".join(str(error).split())))
            raise
        finally:
            self._end(trace)

    def close(self) -> None:
        """Ends in order. What cannot be sent is lost."""
        self._thread.shutdown()
        self._provider.shutdown()

    def _end(self, trace: RequestTrace) -> None:
        now, wall, request = time.monotonic(), time.time_ns(), trace.request
        if request is None or self._waiting >= MOST_WAITING:
            trace.span.end(wall)
            return
        self._waiting += 1
        self._thread.submit(self._spans, trace.span, request, now, wall)

    def _spans(self, span: Span, request: Request, now: float, wall: int) -> None:
        """now, wall: the end, in seconds of the loop and in nanoseconds since 1970."""

        def at(seconds: float) -> int:
            return wall - int((now - seconds) * NANO)

        try:
            span.update_name(f"infer {request.model}")
            named: dict[str, Any] = {"cnna.model": request.model, "cnna.version": request.version, "cnna.samples": request.samples}
            span.set_attributes({**named, "cnna.request_id": request.request_id})
            context = set_span_in_context(span)
            queue = self._tracer.start_span("queue", context, start_time=at(request.admitted))
            queue.end(at(now if request.begun is None else request.begun))
            for run in request.runs or ():
                self._batch(context, run, at)
        finally:
            span.end(wall)
            self._waiting -= 1

    def _batch(self, context: Any, run: BatchRun, at: Callable[[float], int]) -> None:
        about: dict[str, Any] = {"cnna.model": run.model, "cnna.board": run.board}
        about |= {"cnna.batch": run.compiled.batch, "cnna.config": run.compiled.config}
        batch = self._tracer.start_span(
            "batch", context, attributes={**about, "cnna.samples": run.samples}, start_time=at(run.sent)
        )
        if run.error:
            batch.set_status(Status(StatusCode.ERROR, run.error))
        else:
            begun = max(run.sent, run.ended - run.seconds)  # the answer is the end of the run; the batch may have waited before
            clocks = {"cnna.predicted_clocks": run.compiled.clocks}
            board = self._tracer.start_span("board run", set_span_in_context(batch), attributes=clocks, start_time=at(begun))
            inside, length = set_span_in_context(board), run.ended - begun
            for layer in layers(run.compiled.path):
                told: dict[str, Any] = {"cnna.op": layer.op, "cnna.predicted": True}
                if layer.clocks is not None:
                    told["cnna.predicted_clocks"] = layer.clocks
                one = self._tracer.start_span(layer.name, inside, attributes=told, start_time=at(begun + layer.start * length))
                one.end(at(begun + layer.end * length))
            board.end(at(run.ended))
        batch.end(at(run.ended))


def exporting(url: str | None, log: Callable[..., None]) -> Tracing:
    """Sends spans over OTLP/HTTP to a collector; None: to where the OTEL_* variables say, which hold for all else too."""
    resource = Resource.create()
    if str(resource.attributes.get(SERVICE_NAME, "")).startswith("unknown_service"):
        resource = resource.merge(Resource({SERVICE_NAME: "cnna"}))
    logger = logging.getLogger("opentelemetry")
    logger.addHandler(_Log(log))
    logger.propagate = False
    provider = TracerProvider(resource=resource)
    endpoint = None if url is None else url.rstrip("/").removesuffix("/v1/traces") + "/v1/traces"
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint)))
    return Tracing(provider)


class _Log(logging.Handler):
    """What OpenTelemetry logs, as lines of ours: that a collector cannot be reached is no fault of a request."""

    def __init__(self, log: Callable[..., None]) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Keeps the first line, without a traceback."""
        self._log("warning", "traces", cause=record.getMessage().partition("\n")[0])
