"""A worker as the engine uses it: its process, what it has loaded, the slots that are free for batches, and whether it hangs."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from cnna.host.model.detector import Settings
from cnna.serve.boards.board_spec import BoardSpec
from cnna.serve.boards.limits import Limits
from cnna.serve.boards.loaded import LoadedVersions, key_of
from cnna.serve.boards.messages import Notice
from cnna.serve.boards.process import QUEUED, SLOTS, Answer, WorkerProcess
from cnna.serve.boards.slot import Slot
from cnna.serve.boards.watch import Watch
from cnna.serve.models.version import Compiled, Version
from cnna.serve.runtimes.interface import Call

BRIEF_SECONDS = 3e-3  # of batches that are on a board: one more may follow them


class LiveWorker:
    """One worker, from its start to its end. told: is given what it says beside its answers. seconds: predicted, of its batches."""

    def __init__(self, spec: BoardSpec, limits: Limits, told: Callable[[Notice], None]) -> None:
        self._limits = limits
        self.process = WorkerProcess(spec, told)
        self.watch = Watch(lambda: self.process, lambda cause: self.process.kill(cause, True))
        self.loaded = LoadedVersions(self.process, self.watch, limits.load_seconds)
        self.seconds = 0.0
        self._most = 0  # batches at once
        self._free: list[Slot] = []

    async def start(self) -> None:
        """LostError, TimeoutError: it does not start."""
        await asyncio.wait_for(self.process.start(), self._limits.load_seconds)
        self._most = SLOTS + (QUEUED if self.process.places > QUEUED else 0)
        self._free = self.process.slots[: self._most]

    @property
    def free(self) -> bool:
        """Whether it can take a batch. One that has just ended takes none, though nobody has heard of it yet.

        A board with a queue of runs takes one more behind two, so that it need not wait for the next to come, if these are brief:
        what comes later, however urgent, waits no longer than behind two batches, or than that.
        """
        if self.process.gone.is_set():
            return False
        return self._most - len(self._free) < SLOTS or (bool(self._free) and self.seconds < BRIEF_SECONDS)

    @property
    def idle(self) -> bool:
        """Whether it has no batch."""
        return len(self._free) == self._most

    def run(
        self,
        version: Version,
        compiled: Compiled,
        samples: int,
        inputs: Mapping[str, Sequence[NDArray[Any]]],
        call: Call,
        detect: Settings | None = None,
    ) -> "asyncio.Future[Answer]":
        """Sends a batch. Its slot is free again when the future has ended, and whoever wanted the outputs has them."""
        slot, seconds = self._free[-1], self.loaded.seconds(version, compiled)
        assert seconds is not None
        limit = max(self._limits.hang_seconds, self._limits.hang_times * seconds)
        if compiled.place is not None and compiled.bounded:
            limit += max(0.0, call.until - asyncio.get_running_loop().time())
        sizes = [tensor.sample_bytes * samples for tensor in version.signature.outputs]
        given = None if compiled.place is None else call
        running = self.process.run(key_of(version, compiled), slot, inputs, sizes, given, detect)
        future = self.watch.timed(running, limit, renewed=False)
        self._free.pop()
        self.seconds += compiled.seconds
        future.add_done_callback(lambda _: self._back(slot, compiled.seconds))
        return future

    async def close(self, cause: str) -> None:
        """Lets it end in order, though the server may end meanwhile: nobody else would wait for the process."""
        closing = asyncio.create_task(self.process.close(cause))
        try:
            await asyncio.shield(closing)
        except asyncio.CancelledError:
            await closing
            raise

    def _back(self, slot: Slot, seconds: float) -> None:
        self.seconds = max(0.0, self.seconds - seconds)
        self._free.append(slot)
