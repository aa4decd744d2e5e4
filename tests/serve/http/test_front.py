"""The socket that the HTTP front listens at."""

import asyncio
import socket
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from cnna.serve.fronts.listening import Listening
from cnna.serve.http import patience
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
        (connection,) = front.connections
        accepted = connection.transport.get_extra_info("socket")
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        writer.close()
        await front.stop()

    within(run())


HEAD = b"POST /v2/repository/index HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n"


@pytest.mark.parametrize(
    ("answered", "before", "drop", "said"),
    [
        (b"", b"", b"", "head"),  # a connection that says nothing
        (b"", b"GET /v2 HTTP/1.1\r\n", b"a: b\r\n", "head"),
        (HEAD + b"{}", b"GET /v2 HTTP/1.1\r\n", b"a: b\r\n", "head"),  # behind one that was answered
        (b"", HEAD.replace(b"2\r", b"999999\r") + b"{", b" ", "body"),
        (b"", HEAD.replace(b"Content-Length: 2", b"Transfer-Encoding: chunked"), b"1\r\n \r\n", "body"),
    ],
)
def test_a_request_that_never_ends(
    tmp_path: Path,
    within: Callable[[Coroutine[Any, Any, None]], None],
    monkeypatch: pytest.MonkeyPatch,
    answered: bytes,
    before: bytes,
    drop: bytes,
    said: str,
) -> None:
    """A few clients that send a byte now and then would keep all sockets and the memory for bodies; others would wait for ever."""

    def limited() -> None:
        monkeypatch.setattr(patience, f"{said.upper()}_SECONDS", 0.3)

    for name in ("HEAD", "BODY"):
        monkeypatch.setattr(patience, f"{name}_SECONDS", 600.0)

    async def run() -> None:
        core, _ = core_of(tmp_path, "a")
        front = HttpFront(core, Listening("127.0.0.1", 0), "9.9")
        port = int((await front.start()).rpartition(":")[2])
        if not answered:
            limited()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        if answered:
            writer.write(answered)
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
            limited()
        writer.write(before)

        async def drip() -> None:
            while not writer.is_closing():
                writer.write(drop)
                await asyncio.sleep(0.05)

        dripping, heard = asyncio.create_task(drip()), b""
        with suppress(ConnectionError):  # the server has gone before it has read the last drop
            while part := await reader.read(1000):
                heard += part
        dripping.cancel()
        assert b"HTTP/1.1 408" in heard
        assert f"the {said} of the request did not end within 0.3 s".encode() in heard
        assert core.budget.used == 0
        writer.close()
        await front.stop()

    within(run())


def test_a_long_answer_is_no_slow_request(
    tmp_path: Path, within: Callable[[Coroutine[Any, Any, None]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request that waits for a board would be ended though all of it is there."""
    monkeypatch.setattr(patience, "HEAD_SECONDS", 1.0)
    monkeypatch.setattr(patience, "BODY_SECONDS", 1.0)

    async def run() -> None:
        core, (board,) = core_of(tmp_path, "a")
        front = HttpFront(core, Listening("127.0.0.1", 0), "9.9")
        port = int((await front.start()).rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        body = b'{"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [1, 1]}]}'
        writer.write(b"POST /v2/models/m/infer HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        while not board.running:
            await asyncio.sleep(0.01)
        await asyncio.sleep(1.5)
        await board.answer()
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        writer.close()
        await front.stop()

    within(run())


def test_a_load_goes_on_when_its_client_has_gone(
    tmp_path: Path, within: Callable[[Coroutine[Any, Any, None]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that does not wait for a load would break it off each time, and the version would never be served."""
    ended: list[str] = []

    async def run() -> None:
        core, _ = core_of(tmp_path, "a")
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

        monkeypatch.setattr(core.catalogue, "load", load)
        front = HttpFront(core, Listening("127.0.0.1", 0), "9.9")
        port = int((await front.start()).rpartition(":")[2])
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST /v2/repository/models/m/load HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n")
        await begun.wait()
        writer.close()
        while front.connections:
            await asyncio.sleep(0.001)
        gate.set()
        while not ended:
            await asyncio.sleep(0.001)
        await front.stop()

    within(run())
    assert ended == ["m"]


def test_connections_have_a_limit(
    tmp_path: Path, within: Callable[[Coroutine[Any, Any, None]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients that say nothing would take all files of the server, and a board that fails then could not be started again."""
    monkeypatch.setattr(patience, "MOST_CONNECTIONS", 2)

    async def run() -> None:
        core, _ = core_of(tmp_path, "a")
        front = HttpFront(core, Listening("127.0.0.1", 0), "9.9")
        port = int((await front.start()).rpartition(":")[2])

        async def live() -> tuple[bytes, asyncio.StreamWriter]:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            with suppress(ConnectionError):
                writer.write(b"GET /v2/health/live HTTP/1.1\r\nHost: a\r\n\r\n")
                return await reader.readline(), writer
            return b"", writer

        had = [await live() for _ in range(3)]
        assert [line.startswith(b"HTTP/1.1 200") for line, _ in had] == [True, True, False]
        had[0][1].close()
        while len(front.connections) > 1:
            await asyncio.sleep(0.01)
        line, writer = await live()
        assert line.startswith(b"HTTP/1.1 200")
        for one in (writer, *(one for _, one in had)):
            one.close()
        await front.stop()

    within(run())
