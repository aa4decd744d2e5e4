"""Moves what a worker has towards what is wanted: one for each worker, so nothing here outlives it.

`work` does all that goes to a worker but batches, one thing after another: it frees what is not wanted any more, loads and tests
what is, and does what the catalogue asks. When there is nothing to do, it waits until something has happened.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from cnna.serve.boards.board_spec import BoardSpec
from cnna.serve.boards.limits import Limits
from cnna.serve.boards.live import LiveWorker
from cnna.serve.boards.process import LostError
from cnna.serve.lifecycle.boards import DIFFERS, HELD, READY, STARTING, WITHOUT, BoardLife, Next, Step, next_step
from cnna.serve.models.version import Compiled, Version
from cnna.serve.requests.history import Log
from cnna.spec.errors import BusyError, CheckError, CnnaError, LateError, RunError, UserError


class Board(Protocol):
    """What it asks of the board that has the worker."""

    spec: BoardSpec
    limits: Limits
    ratio: float
    log: Log
    wanted: Callable[[], list[Version]]
    lost: Callable[[Version, str], None]  # it must do without a version
    life: BoardLife

    def fitting(self, version: Version) -> tuple[Compiled, ...]:
        """The artifacts of a version that it runs."""

    def happened(self, step: Next) -> None:
        """Takes a step in its life."""

    def say_changed(self) -> None:
        """It may take batches that it could not take before."""


class Reconciler:
    """held: what has become of the versions that were wanted of this worker."""

    def __init__(self, board: Board, worker: LiveWorker) -> None:
        self._board, self._process, self._loaded = board, worker.process, worker.loaded
        self.held: dict[Version, str] = {}
        self._wrong: dict[Version, CheckError] = {}  # how those differ whose answers do
        self._asked: deque[tuple[Callable[[], Awaitable[None]], asyncio.Future[None]]] = deque()
        self._woken, self._idle = asyncio.Event(), asyncio.Event()  # something has happened; there is nothing to do

    async def work(self) -> str:
        """Does what there is to do, until the worker has ended; returns why."""
        gone = asyncio.create_task(self._process.gone.wait())
        gone.add_done_callback(lambda _: self.look())
        try:
            while not self._process.gone.is_set():
                self._woken.clear()
                if self._asked:
                    await self._carry_out(*self._asked.popleft())
                elif (step := self._next()) is not None:
                    await self._take(step)
                elif self._board.life.state == STARTING:
                    self._board.happened(self._board.life.loaded())
                else:
                    self._idle.set()
                    await self._woken.wait()
        finally:
            gone.cancel()
        return self._process.cause

    def end(self, cause: str) -> None:
        """The worker has ended: whoever waits for it is told."""
        while self._asked:
            _, done = self._asked.popleft()
            if not done.done():
                done.set_exception(LostError(f"board {self._board.spec.name}: {cause}"))
        self._idle.set()

    async def ask(self, command: Callable[[], Awaitable[None]]) -> None:
        """Has something done in its turn. LostError: the worker ends first."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._asked.append((command, done))
        self._woken.set()
        await done

    def look(self) -> None:
        """Compares what is with what is wanted once more."""
        self._woken.set()

    async def catch_up(self) -> None:
        """Waits until there is nothing to do. What the board does without is tried again."""
        self.held = {version: how for version, how in self.held.items() if self._runs(version)}
        self._idle.clear()
        self._woken.set()
        await self._idle.wait()

    def _next(self) -> Step[Version] | None:
        wanted = [version for version in self._board.wanted() if self._board.fitting(version)]
        return next_step(wanted, self.held, self._agrees, lambda version: self._board.spec.takes(version.runtime))

    def _runs(self, version: Version) -> bool:
        return any(self._loaded.seconds(version, one) is not None for one in self._board.fitting(version))

    def _agrees(self, version: Version) -> bool:
        return version.golden is not None and self._runs(version)

    async def _carry_out(self, command: Callable[[], Awaitable[None]], done: "asyncio.Future[None]") -> None:
        """Does what was asked, unless nobody waits for it any more. An error is for whoever asked."""
        error: BaseException | None = LostError(f"board {self._board.spec.name}: the board was closed")
        try:
            if not done.done():
                await command()
            error = None
        except Exception as found:
            error = found
        finally:
            if not done.done():
                done.set_result(None) if error is None else done.set_exception(error)

    async def _take(self, step: Step[Version]) -> None:
        """Goes one step towards what is wanted. While it starts, the board itself may be at fault: its errors are raised."""
        version = step.version
        if step.what == "free":
            await self.close(version)
        elif step.what == "drop":
            await self._drop(version, self._wrong[version])
        elif step.what == "load":
            try:
                await self._load(version)
            except LostError:
                if self._board.life.state != READY:
                    raise
            if self._board.life.state == READY:
                self._board.say_changed()
        elif self._board.life.state == READY:
            self._process.kill(str(self._wrong[version]))
        else:
            raise self._wrong[version]

    async def _load(self, version: Version) -> None:
        """One that is not for this board, or is damaged, keeps no other one from it. A wrong fallback takes nothing from it."""
        spare = version.runtimes()[1:] if self._board.spec.takes(version.runtime) else []
        error = await self._tried(version, [version.runtime] if spare else (), "version")
        if isinstance(error, CheckError):
            self.held[version], self._wrong[version] = DIFFERS, error
        elif error is not None:
            await self._drop(version, error)
        else:
            self.held[version] = HELD
            if spare and (error := await self._tried(version, spare, "fallback")) is not None:
                self._warn("fallback not on board", version, error)
                await self.close(version, spare)

    async def _tried(self, version: Version, runtimes: Sequence[str], what: str) -> CnnaError | None:
        """Loads and tests; returns what is wrong with the version. One that is busy may answer later.

        Raises an error with which the worker has ended, or that may be the board's fault since it has not served yet.
        """
        try:
            await self.open(version, runtimes)
        except (BusyError, LateError) as error:
            self._warn(f"{what} not tested", version, error)
            self._loaded.trust(version, self._board.fitting(version), self._board.limits.hang_seconds)
        except (UserError, RunError) as error:
            starts = self._board.life.state != READY and isinstance(error, RunError) and not isinstance(error, CheckError)
            if starts or isinstance(error, LostError):
                raise
            return error
        return None

    async def _drop(self, version: Version, error: CnnaError) -> None:
        """Does without a version."""
        self._warn("version not on board", version, error)
        await self.close(version)
        self.held[version] = WITHOUT
        self._board.lost(version, str(error))

    async def open(self, version: Version, runtimes: Sequence[str] = ()) -> None:
        """Loads and tests a version, or its artifacts for some runtimes. Errors are those of `EngineBoard.load`."""
        many = [one for one in self._board.fitting(version) if not runtimes or one.runtime in runtimes]
        ratio = await self._loaded.load(version, many)
        self._board.ratio = self._board.ratio if ratio is None else ratio

    async def close(self, version: Version, runtimes: Sequence[str] = ()) -> None:
        """Frees a version, or its artifacts for some runtimes."""
        if not runtimes:
            self.held.pop(version, None)
        await self._loaded.unload(version, [one for one in self._board.fitting(version) if not runtimes or one.runtime in runtimes])

    def _warn(self, event: str, version: Version, error: CnnaError) -> None:
        self._board.log("warning", event, cause=str(error), board=self._board.spec.name, model=version.model, version=version.name)
