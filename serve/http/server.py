"""Listens, serves until a signal, and ends in order: unready, drained for at most DRAIN_SECONDS, closed.

A second signal ends it at once.
"""

import asyncio
import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import uvicorn

from cnna.serve.engine.core import Core
from cnna.serve.http.app import Front
from cnna.spec.errors import UserError

DRAIN_SECONDS = 30.0
SIGNALS = (signal.SIGINT, signal.SIGTERM)
BACKLOG = 2048


@dataclass(frozen=True)
class Listening:
    """Where the HTTP front listens, and what it asks for. certificate, key: of TLS."""

    address: str
    port: int
    token: str | None = None
    certificate: str | None = None
    key: str | None = None

    @property
    def scheme(self) -> str:
        """http, or https with TLS."""
        return "https" if self.certificate else "http"


class Uvicorn(uvicorn.Server):
    """uvicorn, but signals are ours."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leaves signals alone."""
        yield


async def serve(make: Callable[[], Core], listening: Listening, version: str, say: Callable[[str], Any] = print) -> None:
    """Serves until SIGINT or SIGTERM. UserError: the port is taken, or the address is none of this machine's."""
    with _socket(listening) as open_socket:
        core, stopping = make(), asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, _asked_to_end, stopping)
        try:
            server = Uvicorn(_config(core, listening, version))
            running = asyncio.create_task(server.serve(sockets=[open_socket]))
            starting = asyncio.create_task(core.start())
            ending = asyncio.create_task(stopping.wait())
            await asyncio.wait([starting, ending], return_when=asyncio.FIRST_COMPLETED)
            if not ending.done():
                await starting
                port = open_socket.getsockname()[1]
                say(f"serving on {listening.scheme}://{_host(listening.address)}:{port}")
                core.log("info", "serving", address=listening.address, port=port)
                await asyncio.wait([ending, running], return_when=asyncio.FIRST_COMPLETED)
            core.log("info", "draining")
            drained = await core.drain(DRAIN_SECONDS)
            server.should_exit = True
            await running
            starting.cancel()
            await core.close()
            core.log("info", "ended", drained=drained)
        finally:
            for number in SIGNALS:
                loop.remove_signal_handler(number)


def _asked_to_end(stopping: asyncio.Event) -> None:
    if stopping.is_set():
        os._exit(128 + signal.SIGTERM)  # a second signal; workers end with their sockets
    stopping.set()


def _config(core: Core, listening: Listening, version: str) -> uvicorn.Config:
    return uvicorn.Config(
        Front(core, version, listening.token).app(),
        lifespan="off",
        log_config=None,
        log_level="critical",
        access_log=False,
        server_header=False,
        backlog=BACKLOG,
        timeout_graceful_shutdown=5,
        h11_max_incomplete_event_size=1 << 16,
        ssl_certfile=listening.certificate,
        ssl_keyfile=listening.key,
    )


def _socket(listening: Listening) -> socket.socket:
    """Bound before anything is started, so that a port that is taken costs no time."""
    try:
        family = socket.getaddrinfo(listening.address, listening.port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((listening.address, listening.port), family=family, backlog=BACKLOG)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UserError(f"--http {_host(listening.address)}:{listening.port}: cannot listen: {reason}") from None


def _host(address: str) -> str:
    return f"[{address}]" if ":" in address else address
