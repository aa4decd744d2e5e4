"""A board's life: an operator's reset, versions that it refuses, and who is at fault when its worker is ended."""

import asyncio
import errno
import itertools
import os
import signal
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from cnna.serve.boards.board_spec import BoardSpec
from cnna.serve.boards.limits import Limits
from cnna.serve.boards.process import Answer, LostError, WorkerProcess
from cnna.serve.boards.slot import Slot
from cnna.serve.engine.board import EngineBoard
from cnna.serve.engine.core import Core
from cnna.serve.models.repository import open_repository
from cnna.spec.errors import DataError

Within = Callable[[Coroutine[Any, Any, None]], None]


def nothing(*_: Any, **__: Any) -> None:
    """A log, or somebody to tell, that nobody reads."""


def test_an_operators_reset_is_no_failure(within: Within) -> None:
    """A board that was reset four times would be out at its first failure, and stay away for a minute each time."""

    async def life() -> None:
        said: list[str] = []
        limits = Limits(pause_seconds=(3600.0, 3600.0))
        board = EngineBoard(BoardSpec("a"), limits, list, nothing, lambda level, event, **more: said.append(event))
        await board.settled.wait()
        for number in range(3):
            before = board.pid
            board.reset()
            while board.state != "ready" or board.pid == before:
                await asyncio.sleep(0.01)
            assert (board.life.failures, board.life.resets) == (0, number + 1)
        assert said == ["board ready", *["board reset", "board ready"] * 3]
        await board.close()

    within(life())


def test_a_version_that_a_board_refuses_keeps_no_other_back(
    published: Path, within: Within, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One version that is not for this board's accelerator would keep the board away for ever once its worker has died."""
    repository, load = open_repository(published), WorkerProcess.load

    def refused(self: WorkerProcess, key: str, path: str, golden: str | None) -> "asyncio.Future[Answer]":
        future = load(self, key, path, golden)
        if key == "digits/1/tiny-b8":
            future = asyncio.get_running_loop().create_future()
            future.set_exception(DataError("it was compiled for another accelerator"))
        return future

    async def life() -> None:
        version = repository.version("digits", "1")
        monkeypatch.setattr(WorkerProcess, "load", refused)
        said: list[Any] = []
        board = EngineBoard(
            BoardSpec("a"), Limits(), lambda: [version], nothing, lambda level, event, **more: said.append((event, more))
        )
        await board.settled.wait()
        assert (board.state, board.loaded) == ("ready", [])
        assert ("version not on board", "it was compiled for another accelerator") in [(e, more.get("cause")) for e, more in said]
        await board.close()

    within(life())


@pytest.mark.parametrize("hangs", [False, True])
def test_only_a_batch_that_hangs_is_at_fault(within: Within, hangs: bool) -> None:
    """A batch would fail for good, or a version be taken back, because an operator has reset boards."""

    async def life() -> None:
        worker = WorkerProcess(BoardSpec("a"))
        await worker.start()
        running = [worker.unload("k"), worker.unload("k")]
        worker.kill("a cause", busy=hangs)
        lost = await asyncio.gather(*running, return_exceptions=True)
        assert [error.first for error in lost if isinstance(error, LostError)] == [hangs, False]
        await worker.close()

    within(life())


@pytest.mark.parametrize("dies", [False, True])
def test_a_worker_that_has_just_ended_takes_no_batch(within: Within, dies: bool) -> None:
    """Between its end and what the board hears of it, a batch would go to a worker whose memory is closed, and be lost."""

    async def life() -> None:
        board = EngineBoard(BoardSpec("a"), Limits(), list, nothing, nothing)
        await board.settled.wait()
        assert board.free
        assert board.worker is not None
        assert board.pid is not None
        if dies:
            os.kill(board.pid, signal.SIGKILL)
            while not board.worker.process.gone.is_set():
                await asyncio.sleep(0)
        else:
            board.fail("the accelerator stopped")
        assert not board.free
        await board.close()

    within(life())


def test_a_board_can_be_closed_when_its_worker_has_just_started(within: Within, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server's end would wait for ever: before Python 3.12, `wait_for` forgets a cancellation in this moment."""
    start = WorkerProcess.start

    async def life() -> None:
        async def started(self: WorkerProcess) -> None:
            await start(self)
            asyncio.get_running_loop().call_soon(lambda: closing.append(asyncio.create_task(board.close())))

        closing: list[asyncio.Task[None]] = []
        monkeypatch.setattr(WorkerProcess, "start", started)
        board = EngineBoard(BoardSpec("a"), Limits(), list, nothing, nothing)
        while not closing:
            await asyncio.sleep(0)
        await closing[0]
        assert board.state == "closed"

    within(life())


def test_a_server_that_is_closed_while_it_starts_waits_for_no_board(
    published: Path, within: Within, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever awaits the start would wait for ever; or the log would have each model refused by a board that was closed."""

    async def run() -> None:
        async def start(self: WorkerProcess) -> None:
            began.set()
            await asyncio.Event().wait()

        began, said = asyncio.Event(), list[str]()
        monkeypatch.setattr(WorkerProcess, "start", start)
        core = Core(open_repository(published), [BoardSpec("a")], log=lambda level, event, **more: said.append(event))
        starting = asyncio.create_task(core.start())
        await began.wait()
        await core.close()
        done, _ = await asyncio.wait([starting], timeout=10.0)  # no expectation: it ends the test
        assert done
        assert said == []

    within(run())


def test_a_worker_that_cannot_be_started_is_started_later(within: Within, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that has no file left for a moment, since many clients have come, would be without the board for ever."""
    create, calls, closed = os.memfd_create, itertools.count(), list[int]()

    def created(name: str, flags: int) -> int:
        if next(calls) == 2:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return create(name, flags)

    def close(self: Slot, closes: Callable[[Slot], None] = Slot.close) -> None:
        closed.append(self.file)
        closes(self)

    monkeypatch.setattr("cnna.serve.boards.process.os.memfd_create", created)
    monkeypatch.setattr(Slot, "close", close)

    async def life() -> None:
        board = EngineBoard(BoardSpec("a"), Limits(pause_seconds=(0.0, 0.0)), list, nothing, nothing)
        await board.settled.wait()
        assert "Too many open files" in board.life.cause
        assert len(closed) == 2, "the files that it had"
        while board.state != "ready":
            await asyncio.sleep(0.01)
        await board.close()

    within(life())
