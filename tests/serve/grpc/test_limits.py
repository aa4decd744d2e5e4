"""What the gRPC front takes from clients at once."""

import asyncio
import socket
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from cnna.serve.fronts.listening import Listening
from cnna.serve.grpc import front
from cnna.serve.grpc.front import GrpcFront

from ..engine.fakes import core_of

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])  # and an empty SETTINGS frame (RFC 9113)
FRAME, SETTING, MAX_CONCURRENT_STREAMS = 9, 6, 3  # bytes of a frame's head, and of a setting; a setting's number
PATIENCE_SECONDS = 10.0


async def greeted(port: int) -> tuple[bytes, socket.socket]:
    """What the server answers to a new connection: its SETTINGS, or nothing and the end."""
    connection = socket.create_connection(("127.0.0.1", port))
    connection.settimeout(PATIENCE_SECONDS)
    try:
        connection.sendall(PREFACE)
        return await asyncio.to_thread(connection.recv, 4096), connection
    except ConnectionError:
        return b"", connection


def test_connections_have_a_limit(
    tmp_path: Path, within: Callable[[Coroutine[Any, Any, None]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients that say nothing would take all files of the server, and a board that fails then could not be started again."""
    monkeypatch.setattr(front, "MOST_CONNECTIONS", 2)

    async def run() -> None:
        core, _ = core_of(tmp_path, "a")
        server = GrpcFront(core, Listening("127.0.0.1", 0), "9.9")
        port = int((await server.start()).rpartition(":")[2])
        had = [await greeted(port) for _ in range(3)]
        assert [bool(answer) for answer, _ in had] == [True, True, False]
        had[0][1].close()
        answer, again = await greeted(port)
        while not answer:  # until the server has noticed
            again.close()
            await asyncio.sleep(0.01)
            answer, again = await greeted(port)
        for one in (again, *(one for _, one in had)):
            one.close()
        await server.stop()

    within(run())


def test_calls_of_a_connection_have_a_limit(tmp_path: Path, within: Callable[[Coroutine[Any, Any, None]], None]) -> None:
    """One connection could begin calls without end, each of which takes memory."""

    async def run() -> None:
        core, _ = core_of(tmp_path, "a")
        server = GrpcFront(core, Listening("127.0.0.1", 0), "9.9")
        answer, connection = await greeted(int((await server.start()).rpartition(":")[2]))
        length = int.from_bytes(answer[:3], "big")
        body = answer[FRAME : FRAME + length]
        settings = {
            int.from_bytes(body[at : at + 2], "big"): int.from_bytes(body[at + 2 : at + SETTING], "big")
            for at in range(0, length, SETTING)
        }
        assert settings[MAX_CONCURRENT_STREAMS] == front.MOST_CALLS
        connection.close()
        await server.stop()

    within(run())
