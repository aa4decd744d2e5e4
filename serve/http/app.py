"""The routes of the HTTP front. A mistake of a client is answered with a 4xx and one line; so is what the engine refuses, with 503.

Health is open to all, and so are the files of the console, which show nothing by themselves. Everything else needs the server's
token, if it has one.
"""

import hmac
import json
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from cnna.serve.engine.core import Core
from cnna.serve.http import body, pages
from cnna.serve.http.metrics import metrics
from cnna.serve.protocol import described, parameters
from cnna.serve.protocol.overview import overview
from cnna.serve.protocol.photographs import decoded
from cnna.spec.errors import BusyError, CnnaError, DataError, LateError, NoTokenError, RunError, UnknownError, UserError
from cnna.spec.json_text import json_text

if TYPE_CHECKING:  # OpenTelemetry is installed where traces are wanted
    from cnna.serve.traces.tracing import RequestTrace, Tracing

MOST_BYTES = 64 << 20  # of a body
SMALL_BYTES = 1 << 20  # of a body that is no inference request
Handler = Callable[[Request], Awaitable[Response]]


class TooLargeError(UserError):
    """A body exceeds its limit."""


class App:
    """The handlers, all for one engine."""

    def __init__(
        self, core: Core, version: str, token: str | None = None, most_bytes: int = MOST_BYTES, tracing: "Tracing | None" = None
    ) -> None:
        self.core, self.version, self.token, self.most_bytes, self.tracing = core, version, token, most_bytes, tracing

    def asgi(self) -> Starlette:
        """The ASGI application."""
        one = "/v2/models/{model}"
        two = one + "/versions/{version}"
        routes = [
            self._route("/v2", self._server, open_to_all=True),
            self._route("/v2/health/live", self._live, open_to_all=True),
            self._route("/v2/health/ready", self._ready, open_to_all=True),
            self._route("/v2/models/stats", self._all_stats),
            *(self._route(f"{path}/ready", self._model_ready, open_to_all=True) for path in (one, two)),
            *(self._route(f"{path}/config", self._config) for path in (one, two)),
            *(self._route(f"{path}/stats", self._stats) for path in (one, two)),
            *(self._route(f"{path}/infer", self._infer, "POST") for path in (one, two)),
            *(self._route(path, self._metadata) for path in (one, two)),
            self._route("/v2/repository/index", self._index, "POST"),
            self._route("/v2/repository/models/{model}/load", self._load, "POST"),
            self._route("/v2/repository/models/{model}/unload", self._unload, "POST"),
            self._route("/v2/boards", self._boards),
            self._route("/v2/boards/{board}/reset", self._reset, "POST"),
            self._route("/metrics", self._metrics),
            self._route("/v2/console", self._overview),
            self._route("/", self._page, open_to_all=True),
            self._route("/console/{file}", self._file, open_to_all=True),
        ]
        plain = {404: self._no_route, 405: self._no_route}
        made = Starlette(routes=routes, exception_handlers=plain)
        made.router.redirect_slashes = False  # to an address that the client's own `Host` names
        return made

    def _route(self, path: str, handler: Handler, method: str = "GET", open_to_all: bool = False) -> Route:
        async def answer(request: Request) -> Response:
            try:
                if not open_to_all:
                    self._check_token(request)
                if method == "POST":
                    self._check_origin(request)
                return await handler(request)
            except ClientDisconnect:
                return Response(status_code=499)
            except CnnaError as error:
                return refused(error)
            except Exception as error:  # our own fault: the client gets one line, the log the rest
                cause = " ".join(f"internal error: {type(error).__name__}: {error}".split())
                self.core.log("error", "internal error", cause=cause, path=path)
                return said({"error": cause}, 500)

        return Route(path, answer, methods=[method])

    def _check_token(self, request: Request) -> None:
        if self.token is None:
            return
        given = request.headers.get("authorization", "")
        if not hmac.compare_digest(given.encode(), f"Bearer {self.token}".encode()):
            raise NoTokenError("this needs the header `Authorization: Bearer TOKEN` with the server's token")

    def _check_origin(self, request: Request) -> None:
        """Any page of a browser may send a POST to this computer. Browsers name the page's server; no other page has the token."""
        origin = request.headers.get("origin")
        if (
            self.token is None
            and origin is not None
            and origin.partition("://")[2].lower() != request.headers.get("host", "").lower()
        ):
            raise ForeignError(f"a page of {origin[:100]!r} may not ask this server, which has no token; use --token-file")

    async def _no_route(self, request: Request, error: Any) -> Response:
        return said({"error": f"there is no {request.method} {request.url.path[:200]}"}, error.status_code)

    # --- health and metadata ---

    async def _server(self, request: Request) -> Response:
        return said(described.server(self.version))

    async def _live(self, request: Request) -> Response:
        return said({"live": True})

    async def _ready(self, request: Request) -> Response:
        return _readiness(self.core.why_not_ready())

    async def _model_ready(self, request: Request) -> Response:
        try:
            return _readiness(described.why_not_ready(self.core, *_names(request)))
        except UnknownError as error:
            return _readiness(str(error), 404)

    async def _metadata(self, request: Request) -> Response:
        return said(described.metadata(self.core, *_names(request)))

    async def _config(self, request: Request) -> Response:
        return said(described.config(self.core, *_names(request)))

    async def _stats(self, request: Request) -> Response:
        return said(described.statistics(self.core, *_names(request)))

    async def _all_stats(self, request: Request) -> Response:
        return said(described.statistics(self.core))

    async def _metrics(self, request: Request) -> Response:
        text, kind = metrics(self.core)
        return Response(text, media_type=kind)

    # --- the console ---

    async def _overview(self, request: Request) -> Response:
        return said(overview(self.core, self.version))

    async def _page(self, request: Request) -> Response:
        return pages.page(self.token is not None)

    async def _file(self, request: Request) -> Response:
        found = pages.file(request.path_params["file"])
        if found is None:
            raise UnknownError(f"the console has no file {request.path_params['file'][:100]!r}")
        return found

    # --- inference ---

    async def _infer(self, request: Request) -> Response:
        encoding = request.headers.get("content-encoding", "identity")
        if encoding != "identity":
            raise DataError(f"content-encoding {encoding[:30]!r}: bodies must be sent as they are")
        traced = nullcontext() if self.tracing is None else self.tracing.request(request.headers, "http")
        with traced as trace, self.core.budget.request() as take:
            data = await self._body(request, self.most_bytes, take)
            check = partial(described.check_names, self.core, *_names(request))
            return await self._answered(request, body.read(data, request.headers.get(body.LENGTH), check), trace)

    async def _answered(self, request: Request, asked: body.Asked, trace: "RequestTrace | None") -> Response:
        model, version = _names(request)
        names = [one.name for one in asked.outputs or ()]
        given = await decoded(self.core, model, version, asked.inputs)
        more = {"request_id": asked.request_id or "", "outputs": names, "scale_seconds": given.seconds, **asked.more}
        admitted = self.core.admit(model, given.inputs, version, runs=None if trace is None else [], **more)
        if trace is not None:
            trace.request = admitted
        result = await admitted.future
        data, length = body.write(asked, replace(result, outputs=given.back(result.outputs)))
        if length is None:
            return Response(data, media_type="application/json")
        return Response(data, headers={body.LENGTH: str(length)}, media_type="application/octet-stream")

    async def _body(self, request: Request, most: int, take: Callable[[int], None] = lambda count: None) -> bytes:
        """The whole body. TooLargeError: it has more bytes than `most`; no more of it is read then. take: called for each part."""
        parts, size = [], 0
        async for part in request.stream():
            parts.append(part)
            size += len(part)
            if size > most:
                raise TooLargeError(f"a body has at most {most:,} bytes; send fewer samples in a request")
            take(len(part))
        return parts[0] if len(parts) == 1 else b"".join(parts)

    # --- repository and boards ---

    async def _index(self, request: Request) -> Response:
        return said(described.index(self.core, (await self._object(request)).get("ready") is True))

    async def _load(self, request: Request) -> Response:
        parameters.of_repository((await self._object(request)).get("parameters", {}))
        refused = await self.core.catalogue.load(request.path_params["model"])
        if refused:
            raise DataError("; ".join(f"model {one.model}, version {one.name}: {one.reason}" for one in refused))
        return said({})

    async def _unload(self, request: Request) -> Response:
        parameters.of_repository((await self._object(request)).get("parameters", {}))
        await self.core.catalogue.unload(request.path_params["model"])
        return said({})

    async def _boards(self, request: Request) -> Response:
        return said(described.boards(self.core))

    async def _reset(self, request: Request) -> Response:
        name = request.path_params["board"]
        board = self.core.board(name)
        if board is None:
            raise UnknownError(f"there is no board {name!r}; there are {', '.join(one.spec.name for one in self.core.boards)}")
        board.reset()
        return said({})

    async def _object(self, request: Request) -> dict[str, Any]:
        """The body of a request whose body is an object or empty."""
        data = await self._body(request, SMALL_BYTES)
        try:
            found = json.loads(data, parse_constant=body.no_number) if data.strip() else {}
        except (ValueError, RecursionError) as error:
            raise DataError(f"the body is not JSON: {error}") from None
        if not isinstance(found, dict):
            raise DataError("the body must be an object, or empty")
        return found


class ForeignError(UserError):
    """A page of another server asks."""


CODES = (
    (NoTokenError, 401),
    (ForeignError, 403),
    (TooLargeError, 413),
    (UnknownError, 404),
    (UserError, 400),
    (LateError, 504),
    (RunError, 503),
)


def refused(error: CnnaError) -> Response:
    """The answer for an error: its code, and its one line."""
    code = next((code for kind, code in CODES if isinstance(error, kind)), 500)
    headers = {"retry-after": str(int(error.seconds))} if isinstance(error, BusyError) else {}
    return said({"error": " ".join(str(error).split())}, code, headers)


def said(value: Any, code: int = 200, headers: dict[str, str] | None = None) -> Response:
    """An answer in JSON."""
    return Response(json_text(value).encode(), code, headers, "application/json")


def _readiness(why_not: str | None, code: int = 503) -> Response:
    return said({"ready": True}) if why_not is None else said({"ready": False, "error": " ".join(why_not.split())}, code)


def _names(request: Request) -> tuple[str, str | None]:
    return request.path_params["model"], request.path_params.get("version")
