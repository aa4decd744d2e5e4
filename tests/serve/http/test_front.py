"""The socket that the HTTP front listens at."""

import asyncio
import socket
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from cnna.serve.engine.listening import Listening
from cnna.serve.http.front import HttpFront

from ..engine.fakes import core_of


def test_answers_are_sent_at_once(tmp_path: Path, within: Callable[[Coroutine[Any, Any, None]], None]) -> None:
    """An answer's body would wait for the client to acknowledge its head, which takes 40 ms."""

    async def run() -> None:
        core, _ = core_of(tmp_path, "a")
        front = HttpFront(core, Listening("127.0.0.1", 0), "9.9")
        port = int((await front.start()).rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /v2/health/live HTTP/1.1\r\nHost: a\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        (connection,) = front._server.server_state.connections
        accepted = connection.transport.get_extra_info("socket")
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        writer.close()
        await front.stop()

    within(run())
