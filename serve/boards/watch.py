"""Finds a worker that hangs: one that does not answer its oldest command in time.

A worker runs commands in order, so only the oldest one is timed."""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from cnna.serve.boards.process import Answer, WorkerProcess

LATE = 0.1  # seconds: a timer that comes so much later says that the front itself was stopped, or kept from running
LEAST_STARVED = 0.02  # seconds without a processor that a worker gets back


@dataclass(frozen=True, eq=False)
class Timed:
    """What has no answer yet. limit: seconds for it. renewed: whether these begin anew with each sign of life."""

    future: "asyncio.Future[Answer]"
    limit: float
    renewed: bool


class Watch:
    """Of one board. worker: its process now. hangs: is told why, if it hangs."""

    def __init__(self, worker: Callable[[], WorkerProcess | None], hangs: Callable[[str], None]) -> None:
        self._worker, self._hangs = worker, hangs
        self._outstanding: deque[Timed] = deque()
        self.timer: asyncio.TimerHandle | None = None

    def timed(self, future: "asyncio.Future[Answer]", limit: float, renewed: bool = True) -> "asyncio.Future[Answer]":
        """Times a command that was sent; returns its future."""
        command = Timed(future, limit, renewed)
        self._outstanding.append(command)
        if len(self._outstanding) == 1:
            self._arm()
        future.add_done_callback(lambda _: self._landed(command))
        return future

    def alive(self, waits: float | None) -> None:
        """A sign of life. waits: seconds for which the worker may wait for something before it begins; 0: it waits no more."""
        if self._outstanding and (self._outstanding[0].renewed or waits is not None):
            self._arm(waits or 0.0)

    def _landed(self, command: Timed) -> None:
        self._outstanding.remove(command)
        self._arm()

    def _arm(self, more: float = 0.0) -> None:
        if self.timer is not None:
            self.timer.cancel()
        self.timer = None
        if self._outstanding:
            limit = self._outstanding[0].limit + more
            self._wait(limit, limit)

    def _wait(self, seconds: float, limit: float) -> None:
        """Waits so long. limit: what the worker was given in all."""
        loop, worker = asyncio.get_running_loop(), self._worker()
        due, since = loop.time() + seconds, None if worker is None else worker.scheduled()
        self.timer = loop.call_at(due, self._overdue, due, seconds, limit, since)

    def _overdue(self, due: float, seconds: float, limit: float, since: tuple[float, float] | None) -> None:
        """The time is over. The worker gets it again if this process stood still too: the answer may be there.

        It gets back what it had no processor for.
        """
        worker = self._worker()
        starved = 0.0 if worker is None else worker.starved(since, seconds)
        if asyncio.get_running_loop().time() - due > LATE:
            self._arm()
        elif starved > LEAST_STARVED:
            self._wait(starved, limit)
        else:
            self._hangs(f"it hangs: no answer in {limit:.2f} s")
