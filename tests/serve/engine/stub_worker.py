"""A worker without a process, for real boards: it answers at once, unless the test says otherwise, and remembers what it has.

With it versions, a repository and a core for such boards.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from cnna.serve.boards.board_spec import BoardSpec
from cnna.serve.boards.limits import Limits
from cnna.serve.boards.process import OWN, QUEUED, SLOTS, Answer, LostError
from cnna.serve.engine.board import EngineBoard
from cnna.serve.engine.core import Core
from cnna.serve.models.repository import Repository
from cnna.serve.models.settings import Settings
from cnna.serve.models.version import Compiled, Version
from cnna.serve.runtimes.interface import CNNA, Place

from .fakes import version_of

Within = Callable[[Coroutine[Any, Any, None]], None]
Before = Callable[[str, str, str], Awaitable[None]]  # is awaited before a board's command to a key is answered; may raise
HASTY = Limits(pause_seconds=(0.0, 0.0), failures=3)


class StubWorker:
    """Stands for a `WorkerProcess`. It answers x * 10 + the number at the end of the name of the artifact's file or folder."""

    def __init__(self, spec: BoardSpec, before: Before, config: str | None) -> None:
        self.spec, self._before = spec, before
        self.gone, self.cause, self.config, self.pid = asyncio.Event(), "", config, 1
        self.slots, self.places = [SimpleNamespace() for _ in range(SLOTS + QUEUED + OWN)], 0
        self.has: dict[str, int] = {}
        self._open: list[asyncio.Future[Answer]] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        pass

    def scheduled(self) -> None:
        return None

    def starved(self, since: None, seconds: float) -> float:
        return 0.0

    def load(self, key: str, path: str, golden: str | None) -> "asyncio.Future[Answer]":
        return self._does("load", key, lambda: self._opened(key, path))

    def open(self, key: str, runtime: str, place: Place) -> "asyncio.Future[Answer]":
        return self._does("open", key, lambda: self._opened(key, str(place.folder)))

    def unload(self, key: str) -> "asyncio.Future[Answer]":
        return self._does("unload", key, lambda: self._closed(key))

    def run(
        self, key: str, slot: Any, inputs: Mapping[str, Any], sizes: Any, call: Any = None, detect: Any = None
    ) -> "asyncio.Future[Answer]":
        return self._does("run", key, lambda: {"y": np.concatenate(inputs["x"]) * 10 + self.has[key]})

    def kill(self, cause: str, busy: bool = False) -> None:
        if not self.gone.is_set():
            self.gone.set()
            self.cause = cause
            for number, future in enumerate(self._open):
                future.set_exception(LostError(cause, busy and number == 0))
                future.exception()

    async def close(self, cause: str = "") -> None:
        self.kill(cause)

    def _opened(self, key: str, path: str) -> dict[str, Any]:
        self.has[key] = int(path.split("-")[-1])
        return {}

    def _closed(self, key: str) -> dict[str, Any]:
        self.has.pop(key, None)
        return {}

    def _does(self, what: str, key: str, answer: Callable[[], dict[str, Any]]) -> "asyncio.Future[Answer]":
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        if self.gone.is_set():
            future.set_exception(LostError(self.cause))
            return future

        async def do() -> None:
            error: Exception | None = None
            try:
                await self._before(self.spec.name, what, key)
            except Exception as raised:
                error = raised
            if future.done():
                return
            self._open.remove(future)
            if error is None:
                future.set_result(Answer(0.001, answer()))
            else:
                future.set_exception(error)

        self._open.append(future)
        self._tasks.append(asyncio.create_task(do()))
        return future


class Shelf:
    """Stands for a repository: versions of models, and their settings."""

    single = None

    def __init__(self, **versions: Version) -> None:
        self.there = {name: {version.name: version} for name, version in versions.items()}

    def models(self) -> list[str]:
        return list(self.there)

    def ignored(self) -> list[str]:
        return []

    def versions(self, model: str) -> list[str]:
        return list(self.there[model])

    def settings(self, model: str) -> Settings:
        return Settings(versions=None, max_delay_us=0)

    def has_pipeline(self, model: str) -> bool:
        return False

    def version(self, model: str, name: str, settings: Settings | None = None) -> Version:
        return self.there[model][name]


def stub_workers(monkeypatch: pytest.MonkeyPatch, before: Before, config: str | None = None) -> None:
    """Gives such workers to boards. config: that of the boards' accelerators."""
    monkeypatch.setattr("cnna.serve.boards.live.WorkerProcess", lambda spec, told: StubWorker(spec, before, config))


def version(model: str, name: str, tag: int, *runtimes: str) -> Version:
    """A version that answers x * 10 + tag, by the first of these runtimes, or by another one whose answers are 100 more."""
    compiled: dict[str, tuple[Compiled, ...]] = {}
    for number, runtime in enumerate(runtimes or (CNNA,)):
        config, path = "tiny" if runtime == CNNA else runtime, Path(f"/v-{tag + 100 * number}")
        place = None if runtime == CNNA else Place(model, name, path)
        compiled[config] = (Compiled(path, config, 8, 0, 1.0, runtime, place),)
    return replace(version_of(name), model=model, compiled=compiled, runtime=(runtimes or (CNNA,))[0])


def core_with(shelf: Shelf, *boards: BoardSpec, limits: Limits = HASTY, log: Callable[..., None] | None = None) -> Core:
    return Core(cast(Repository, shelf), boards, limits, log or (lambda level, event, **more: None))


async def until(wanted: Callable[[], bool]) -> None:
    while not wanted():
        await asyncio.sleep(0)


async def restarted(board: EngineBoard) -> None:
    """Ends its worker, and waits for the next one."""
    resets = board.life.resets
    board.fail("it died")
    await until(lambda: board.state == "out" or (board.life.resets > resets and board.state == "ready"))


def loaded(board: EngineBoard) -> Sequence[str]:
    return board.loaded
