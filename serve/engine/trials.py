"""Tests versions on boards, before they are named to anybody. What is not served in the end is freed."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

from cnna.serve.engine.board import EngineBoard
from cnna.serve.models.version import Version
from cnna.serve.requests.history import Log
from cnna.spec.errors import BusyError, CheckError, CnnaError, LateError, RunError, UserError


class Trials:
    """On these boards. need: awaited for each runtime that a version wants. wanted: the versions that are served."""

    def __init__(
        self, boards: Sequence[EngineBoard], need: Callable[[str], Awaitable[None]], wanted: Callable[[], list[Version]], log: Log
    ) -> None:
        self._boards, self._need, self._wanted, self._log = boards, need, wanted, log
        self._freeing: set[asyncio.Task[None]] = set()  # asyncio itself keeps no task that nobody waits for

    @asynccontextmanager
    async def of(self, many: Sequence[Version]) -> AsyncIterator[None]:
        """While versions are tested. Those that are not served in the end are freed, whatever has ended it.

        They are freed even if whoever waits for it goes too.
        """
        try:
            yield
        finally:
            freeing = asyncio.create_task(self._free_unserved(many))
            self._freeing.add(freeing)
            freeing.add_done_callback(self._freeing.discard)
            await asyncio.shield(freeing)

    async def _free_unserved(self, many: Sequence[Version]) -> None:
        for version in many:
            if version not in self._wanted():
                await self.free(version)

    async def free(self, version: Version) -> None:
        """Frees what a version keeps on the boards."""
        await asyncio.gather(*(board.unload(version) for board in self._boards), return_exceptions=True)

    async def test(self, version: Version) -> None:
        """Loads a version on all boards that are ready. RunError, BusyError: none could; says why.

        If its golden answers differ on all boards, the version is wrong. If they differ on some, these boards are wrong.
        """
        for runtime in version.runtimes():
            await self._need(runtime)
        takers, found = await self._tried(version, [version.runtime])
        good = [board for board, error in found.items() if error is None and board.runs(version)]
        for board, error in found.items():
            if isinstance(error, CheckError) and good:
                board.fail(str(error))
        sound = not any(isinstance(error, (UserError, CheckError)) for error in found.values())
        spare = (good or sound) and await self._spare(version)
        if good or spare:
            return
        boards = [f"board {board.spec.name} is {board.state}: {board.life.cause}" for board in takers if board not in found]
        errors = [error for error in found.values() if error]
        text = "; ".join(dict.fromkeys([*map(str, errors), *boards])) or f"there is no board for the runtime {version.runtime}"
        busy = errors and all(isinstance(error, (BusyError, LateError)) for error in errors)
        raise BusyError(text) if busy else RunError(text)

    async def _spare(self, version: Version) -> bool:
        """Loads a version's fallback. Whether it is there and can answer; why not is in the log."""
        _, found = await self._tried(version, version.runtimes()[1:])
        for board, error in found.items():
            if error is not None:
                known = {"model": version.model, "version": version.name, "board": board.spec.name}
                self._log("error", "fallback refused", cause=str(error), **known)
                await board.unload(version, version.runtimes()[1:])
        return any(error is None for error in found.values())

    async def _tried(
        self, version: Version, runtimes: Sequence[str]
    ) -> tuple[list[EngineBoard], dict[EngineBoard, CnnaError | None]]:
        """The boards for these runtimes, and how the version was loaded on those that are ready. One may become so meanwhile."""
        found: dict[EngineBoard, CnnaError | None] = {}
        takers = [board for board in self._boards if any(map(board.spec.takes, runtimes))]
        while new := [board for board in takers if board.state == "ready" and board not in found]:
            done = await asyncio.gather(*(board.load(version, runtimes) for board in new), return_exceptions=True)
            for board, error in zip(new, done, strict=True):
                if error is not None and not isinstance(error, CnnaError):
                    error = RunError(f"board {board.spec.name}: internal error: {type(error).__name__}: {error}")
                found[board] = error
        return takers, found
