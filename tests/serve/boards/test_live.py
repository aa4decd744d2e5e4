"""How many batches a worker has at once: two, and one more, if it is worth it and harms nobody, where runs wait in a queue."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cnna.serve.boards.board_spec import BoardSpec
from cnna.serve.boards.limits import Limits
from cnna.serve.boards.live import BRIEF_SECONDS, LiveWorker
from cnna.serve.boards.process import OWN, QUEUED, SLOTS
from cnna.serve.models.signature import Signature
from cnna.serve.models.version import Compiled, Version
from cnna.serve.runtimes.interface import Call

Within = Callable[[Coroutine[Any, Any, None]], None]
COMPILED = Compiled(Path("m.cnna"), "tiny", 1, 0, 0.0)
VERSION = cast(Version, SimpleNamespace(model="m", name="1", signature=cast(Signature, SimpleNamespace(outputs=()))))


class Process:
    """Stands for a `WorkerProcess`, whose batches end when the test says so."""

    def __init__(self, places: int) -> None:
        self.places, self.gone = places, asyncio.Event()
        self.slots = [object() for _ in range(SLOTS + QUEUED + OWN)]
        self.used = list[Any]()
        self.running = list[asyncio.Future[Any]]()

    async def start(self) -> None:
        """It takes commands at once."""

    def run(self, key: str, slot: Any, *more: Any) -> "asyncio.Future[Any]":
        self.used.append(slot)
        self.running.append(asyncio.get_running_loop().create_future())
        return self.running[-1]


async def started(monkeypatch: pytest.MonkeyPatch, places: int) -> tuple[LiveWorker, Process]:
    """A worker whose accelerator has a queue of so many places."""
    process = Process(places)
    monkeypatch.setattr("cnna.serve.boards.live.WorkerProcess", lambda *given: process)
    worker = LiveWorker(BoardSpec("a"), Limits(hang_seconds=1e6), lambda message: None)
    monkeypatch.setattr(worker, "loaded", SimpleNamespace(seconds=lambda *given: 1.0))
    monkeypatch.setattr(worker, "watch", SimpleNamespace(timed=lambda future, *given, **more: future))
    await worker.start()
    return worker, process


def give(worker: LiveWorker, seconds: float) -> None:
    """A batch that is predicted to take so long."""
    assert worker.free
    worker.run(VERSION, replace(COMPILED, seconds=seconds), 1, {}, Call())


@pytest.mark.parametrize(("places", "most"), [(0, 2), (1, 2), (2, 3)])
def test_as_many_batches_as_may_run_and_wait(within: Within, monkeypatch: pytest.MonkeyPatch, places: int, most: int) -> None:
    """The accelerator would wait for the front; without a queue the third would lie in the worker, where none may pass it."""

    async def life() -> None:
        worker, process = await started(monkeypatch, places)
        assert worker.idle
        for _ in range(most):
            give(worker, BRIEF_SECONDS / 10)
            assert not worker.idle
        assert not worker.free
        assert len(set(map(id, process.used))) == most
        assert process.slots[-1] not in process.used, "it is for golden answers"
        process.running[0].set_result(None)
        await asyncio.sleep(0)
        give(worker, BRIEF_SECONDS / 10)
        assert not worker.free
        for future in process.running[1:]:
            future.set_result(None)
        await asyncio.sleep(0)
        assert worker.idle

    within(life())


def test_none_more_behind_batches_that_take_long(within: Within, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that comes later, and is urgent, would wait behind three batches, although two keep the accelerator at work."""

    async def life() -> None:
        worker, process = await started(monkeypatch, 2)
        give(worker, BRIEF_SECONDS / 2)
        give(worker, BRIEF_SECONDS)
        assert not worker.free
        process.running[1].set_result(None)
        await asyncio.sleep(0)
        give(worker, BRIEF_SECONDS / 4)
        give(worker, 1.0)
        assert not worker.free

    within(life())
