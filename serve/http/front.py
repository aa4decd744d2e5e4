"""Listens for HTTP, by uvicorn."""

import asyncio
import socket
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import uvicorn

from cnna.serve.engine.core import Core
from cnna.serve.fronts.listening import Listening, refusal
from cnna.serve.http.app import App
from cnna.serve.http.patience import PatientProtocol

if TYPE_CHECKING:
    from cnna.serve.traces.tracing import Tracing

BACKLOG = 2048
GRACE_SECONDS = 5


class Uvicorn(uvicorn.Server):
    """uvicorn, but signals are ours."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leaves signals alone."""
        yield


class HttpFront:
    """A server of one engine."""

    def __init__(self, core: Core, listening: Listening, version: str, tracing: "Tracing | None" = None) -> None:
        self._listening = listening
        self._server = Uvicorn(_config(App(core, version, listening.token, tracing=tracing), listening))
        self._running: asyncio.Task[None] | None = None
        self._socket: socket.socket | None = None

    async def start(self) -> str:
        """Listens, and returns the address. UserError: it cannot."""
        one = self._listening
        try:
            family = socket.getaddrinfo(one.address, one.port, type=socket.SOCK_STREAM)[0][0]
            self._socket = socket.create_server((one.address, one.port), family=family, backlog=BACKLOG)
            # Connections inherit it. asyncio sets it only for sockets that name their protocol, which this one does not; without it
            # an answer's body waits until the client has acknowledged the head: 40 ms.
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except (OSError, UnicodeError) as error:
            raise refusal("--http", one, f"{getattr(error, 'strerror', None) or error}") from None
        self._running = asyncio.create_task(self._server.serve(sockets=[self._socket]))
        return f"http{'s' if one.certificate else ''}://{one.host}:{self._socket.getsockname()[1]}"

    @property
    def connections(self) -> Collection[Any]:
        """uvicorn's protocols of the connections that are open."""
        return self._server.server_state.connections

    async def stop(self) -> None:
        """Ends connections that are open, after GRACE_SECONDS at most."""
        self._server.should_exit = True
        if self._running is not None:
            await self._running
        if self._socket is not None:
            self._socket.close()


def _config(app: App, listening: Listening) -> uvicorn.Config:
    return uvicorn.Config(
        app.asgi(),
        lifespan="off",
        log_config=None,
        log_level="critical",
        access_log=False,
        http=PatientProtocol,
        server_header=False,
        backlog=BACKLOG,
        timeout_graceful_shutdown=GRACE_SECONDS,
        h11_max_incomplete_event_size=1 << 16,
        ssl_certfile=listening.certificate,
        ssl_keyfile=listening.key,
    )
