"""A board: starts its worker, gives it batches, and carries out what its life says (`serve.lifecycle.boards`).

`reconciler` moves what the worker has towards what is wanted, from the worker's start to its end.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from cnna.serve.boards.board_spec import CPU, BoardSpec
from cnna.serve.boards.loaded import key_of
from cnna.serve.boards.messages import Notice
from cnna.serve.boards.process import OWN, Answer, LostError, WorkerProcess
from cnna.serve.boards.slot import Slot
from cnna.serve.boards.watch import Watch
from cnna.serve.engine.reconciler import Reconciler
from cnna.serve.lifecycle import boards
from cnna.serve.lifecycle.arrow import Log as LogLine
from cnna.serve.lifecycle.boards import CLOSED, READY, STARTING, BoardLife
from cnna.serve.models.version import Compiled, Version
from cnna.serve.requests.history import Log
from cnna.serve.requests.request import Batch
from cnna.spec.errors import CnnaError, RunError


@dataclass(frozen=True)
class Limits:
    """How patient the engine is with boards. hang: at least so long, and at least so many times the warm-up. load: so long without
    a sign of life, such as that of a simulator that is being built.
    """

    hang_seconds: float = 0.25
    hang_times: float = 20.0
    load_seconds: float = 120.0
    pause_seconds: tuple[float, float] = (1.0, 60.0)
    failures: int = 5


class EngineBoard:
    """One board. changed: is called when it can take something that it could not take before. lost: when it comes back without a
    version that it had."""

    def __init__(
        self,
        spec: BoardSpec,
        limits: Limits,
        wanted: Callable[[], list[Version]],
        changed: Callable[[], None],
        log: Log,
        lost: Callable[["EngineBoard", Version, str], None] = lambda board, version, reason: None,
    ) -> None:
        self.spec, self.limits, self.log = spec, limits, log
        self.life = BoardLife()
        self.ratio = 1.0  # of measured to predicted seconds
        self.seconds = 0.0  # predicted, of the batches that it has
        self.watts: float | None = None
        self.celsius: float | None = None
        self.settled = asyncio.Event()  # it has become ready, or failed, for the first time
        self.wanted, self._changed, self._lost = wanted, changed, lost
        self._process: WorkerProcess | None = None
        self._reconciler: Reconciler | None = None  # of this process
        self._free: list[Slot] = []
        self._config: str | None = None  # of the accelerator, once a board that has one of its own was open
        self.watch = Watch(lambda: self._process, lambda cause: self.fail(cause, True))
        self._woken = asyncio.Event()  # something has happened to it
        self._timer: asyncio.TimerHandle | None = None  # of its pause
        self._task = asyncio.create_task(self._live())

    @property
    def state(self) -> str:
        """Of its life."""
        return self.life.state

    @property
    def cause(self) -> str:
        """Of its last failure."""
        return self.life.cause

    @property
    def failures(self) -> int:
        """In a row."""
        return self.life.failures

    @property
    def resets(self) -> int:
        """How often it was started again."""
        return self.life.resets

    @property
    def batches(self) -> int:
        """That it has answered."""
        return self.life.batches

    @property
    def without(self) -> set[Version]:
        """What this worker does without."""
        return set() if self._reconciler is None else self._reconciler.without

    # --- what the dispatcher asks ---

    @property
    def free(self) -> bool:
        """Whether it can take a batch. A worker that has just ended takes none, though its life has not heard of it yet."""
        return self.state == READY and self.lives and bool(self._free)

    @property
    def idle(self) -> bool:
        """Whether it has no batch."""
        return self._process is not None and len(self._free) == len(self._process.slots) - OWN

    @property
    def pid(self) -> int | None:
        """Of its worker; None while it has none."""
        return None if self._process is None else self._process.pid

    @property
    def lives(self) -> bool:
        """Whether it has a worker that has not ended."""
        return self._process is not None and not self._process.gone.is_set()

    def fits(self, version: Version) -> tuple[Compiled, ...]:
        """The artifacts of a version that it runs. RunError: it runs none; the line says why."""
        there = {name: many for name, many in version.compiled.items() if self.spec.takes(many[0].runtime)}
        if self.spec.kind == CPU and there:
            return tuple(one for many in there.values() for one in many)
        if not there:
            raise RunError(f"board {self.spec.name}: runs no models of the runtime {', '.join(version.runtimes())}")
        config = self.spec.config
        if config is None and len(there) == 1:
            return next(iter(there.values()))  # whether it fits, the board says itself
        config = config or self._config
        if config is None:
            raise RunError(f"board {self.spec.name}: there are {', '.join(there)}: say --board {self.spec.name}=...,config=")
        if config not in there:
            raise RunError(f"board {self.spec.name}: has {config}, but the version was compiled for {', '.join(there)}")
        return there[config]

    def runs(self, version: Version) -> tuple[Compiled, ...]:
        """The artifacts of a version that are loaded here."""
        one = self._reconciler
        return () if one is None else tuple(each for each in self.fitting(version) if one.seconds(version, each) is not None)

    def may_run(self, version: Version) -> bool:
        """Whether a version is loaded here, or may be: the board is not out, and has not found that it must do without."""
        how = None if self._reconciler is None else self._reconciler.held.get(version)
        return self.can(version) and boards.may_run(self.life, how, bool(self.runs(version)))

    def run(self, batch: Batch, version: Version, compiled: Compiled) -> "asyncio.Future[Answer]":
        """Sends a batch. Its slot is free again when the future has ended, and whoever wanted the outputs has them."""
        assert self._process is not None
        assert self._reconciler is not None
        slot, key, seconds = self._free[-1], key_of(version, compiled), self._reconciler.seconds(version, compiled)
        assert seconds is not None
        limit = max(self.limits.hang_seconds, self.limits.hang_times * seconds)
        call = None if compiled.place is None else batch.call()
        if call is not None and compiled.bounded:
            limit += max(0.0, call.until - asyncio.get_running_loop().time())
        process, sizes = self._process, [tensor.sample_bytes * batch.samples for tensor in version.signature.outputs]
        future = self.watch.timed(process.run(key, slot, batch.inputs(), sizes, call), limit, renewed=False)
        self._free.pop()
        self.seconds += compiled.seconds
        future.add_done_callback(lambda _: self._back(process, slot, compiled.seconds))
        return future

    def answered(self, compiled: Compiled, seconds: float) -> None:
        """Counts a batch that went well."""
        self.happened(self.life.answered())
        if compiled.seconds > 0:
            self.ratio += 0.1 * (seconds / compiled.seconds - self.ratio)

    def fail(self, cause: str, busy: bool = False) -> None:
        """Ends the worker: the board will be reset and tested. busy: what it does now is the cause."""
        if self._process is not None:
            self._process.kill(cause, busy)

    # --- what the catalogue asks ---

    async def load(self, version: Version, runtimes: Sequence[str] = ()) -> None:
        """Loads the artifacts of a version, all or those of some runtimes, and compares their golden answers.

        CheckError: they differ. BusyError, LateError: some cannot answer now; the others are loaded. RunError: a board's.
        """
        self.fits(version)
        if self._reconciler is None:
            raise LostError(f"board {self.spec.name} is {self.state}: {self.cause}")
        await self._reconciler.ask(partial(self._reconciler.open, version, runtimes))

    async def unload(self, version: Version, runtimes: Sequence[str] = ()) -> None:
        """Frees what a version keeps here: all, or that of some runtimes."""
        if self._reconciler is not None:
            with suppress(LostError):
                await self._reconciler.ask(partial(self._reconciler.close, version, runtimes))

    async def catch_up(self) -> None:
        """Waits until the worker has what is wanted. What it does without is tried again."""
        if self.state == READY and self._reconciler is not None:
            await self._reconciler.catch_up()

    # --- its life ---

    async def _live(self) -> None:
        while self.state != CLOSED:
            process, cause = None, "the board was closed"
            try:
                process = self._process = WorkerProcess(self.spec, self.told)
                await asyncio.wait_for(process.start(), self.limits.load_seconds)
                if self.state == CLOSED:  # before Python 3.12, `wait_for` forgets a cancellation that comes as its task ends
                    raise asyncio.CancelledError
                self._config = process.config or self._config
                self._free = process.slots[: len(process.slots) - OWN]
                self._reconciler = Reconciler(self, process)
                cause = await self._reconciler.work()
            except (CnnaError, OSError, asyncio.TimeoutError) as error:
                cause = str(error) or "its worker did not start in time"
            except Exception as error:  # our own fault: the board must come back all the same
                cause = f"internal error: {type(error).__name__}: {error}"
            finally:
                self._forget(cause)
                self.happened(self.life.ended(cause, self.limits.failures, self.limits.pause_seconds))
                if process is not None:
                    await _closed(process, cause)
            while self.state not in (STARTING, CLOSED):
                self._woken.clear()
                await self._woken.wait()

    def _forget(self, cause: str) -> None:
        """Nothing is loaded, and nothing can be taken."""
        if self._reconciler is not None:
            self._reconciler.end(cause)
        self._process, self._reconciler, self._free = None, None, []
        self.watts = self.celsius = None

    def happened(self, step: boards.Next) -> None:
        """Takes a step in its life, and does what follows from it."""
        self.life, effects = step
        for effect in effects:
            match effect:
                case LogLine():
                    self.log(effect.level, effect.event, board=self.spec.name, **effect.more)
                case boards.Kill():
                    self.fail(effect.cause)
                case boards.Tell():
                    self.say_changed()
                case boards.Rest():
                    self._rest(effect.seconds)
        if effects:
            self._woken.set()

    def _rest(self, seconds: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        loop = asyncio.get_running_loop()
        self._timer = None if seconds is None else loop.call_later(seconds, lambda: self.happened(self.life.rested()))

    def say_changed(self) -> None:
        """Lets others act on its state. They have a turn of their own: whatever goes wrong there is not this board's."""
        self.settled.set()
        asyncio.get_running_loop().call_soon(self._changed)

    def reset(self) -> None:
        """An operator's: the board starts again at once, whatever its state, with no failure counted."""
        self.happened(self.life.reset())

    async def close(self) -> None:
        """Ends the worker."""
        self.happened(self.life.closed())
        self._task.cancel()
        await asyncio.wait([self._task])

    def lost(self, version: Version, reason: str) -> None:
        """It must do without a version."""
        self._lost(self, version, reason)

    def can(self, version: Version) -> bool:
        """Whether it has artifacts of a version to run."""
        return bool(self.fitting(version))

    def fitting(self, version: Version) -> tuple[Compiled, ...]:
        """The artifacts of a version that it runs, if there are any."""
        try:
            return self.fits(version)
        except RunError:
            return ()

    def _back(self, process: WorkerProcess, slot: Slot, seconds: float) -> None:
        self.seconds = max(0.0, self.seconds - seconds)
        if process is self._process:
            self._free.append(slot)

    def told(self, message: Notice) -> None:
        """The worker goes on with what it does. It may have a line for the log, or wait for something with a limit of its own."""
        if "sensors" in message:  # a thread's, which goes on if the board hangs
            self.watts, self.celsius = message["sensors"]["watts"], message["sensors"]["celsius"]
            return
        if "said" in message:
            self.log("info", "board says", board=self.spec.name, cause=message["said"])
        self.watch.alive(message.get("waits"))

    def described(self) -> Mapping[str, Any]:
        """For operators."""
        return {
            "name": self.spec.name,
            "kind": self.spec.kind,
            "state": self.state,
            "cause": self.cause,
            "failures": self.failures,
            "resets": self.resets,
            "batches": self.batches,
            "outstanding_seconds": round(self.seconds * self.ratio, 6),
            "watts": self.watts,
            "celsius": self.celsius,
            "loaded": [] if self._reconciler is None else self._reconciler.names,
        }


async def _closed(process: WorkerProcess, cause: str) -> None:
    """Lets a worker end in order, though the server may end meanwhile: nobody else would wait for the process."""
    closing = asyncio.create_task(process.close(cause))
    try:
        await asyncio.shield(closing)
    except asyncio.CancelledError:
        await closing
        raise
