"""A board: starts its worker, gives it batches, and carries out what its life says (`serve.lifecycle.boards`).

`reconciler` moves what the worker has towards what is wanted, from the worker's start to its end.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial

from cnna.serve.boards.board_spec import BoardSpec
from cnna.serve.boards.fit import fit
from cnna.serve.boards.limits import Limits
from cnna.serve.boards.live import LiveWorker
from cnna.serve.boards.messages import Notice
from cnna.serve.boards.process import Answer, LostError
from cnna.serve.engine.reconciler import Reconciler
from cnna.serve.lifecycle import boards
from cnna.serve.lifecycle.arrow import Log as LogLine
from cnna.serve.lifecycle.boards import CLOSED, READY, STARTING, BoardLife
from cnna.serve.models.version import Compiled, Version
from cnna.serve.requests.history import Log
from cnna.serve.requests.request import Batch
from cnna.spec.errors import CnnaError, RunError


class EngineBoard:
    """One board. wanted: what it must have. changed: is called when it can take something that it could not take before.

    lost: is called when it comes back without a version that it had.
    """

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
        self.watts: float | None = None
        self.celsius: float | None = None
        self.settled = asyncio.Event()  # it has become ready, or failed, for the first time, or was closed
        self.wanted, self._changed = wanted, changed
        self.lost: Callable[[Version, str], None] = partial(lost, self)
        self.worker: LiveWorker | None = None
        self._reconciler: Reconciler | None = None  # of this worker, once it takes commands
        self._config: str | None = None  # of the accelerator, once a board that has one of its own was open
        self._woken = asyncio.Event()  # something has happened to it
        self._timer: asyncio.TimerHandle | None = None  # of its pause
        self._task = asyncio.create_task(self._live())

    @property
    def state(self) -> str:
        """Of its life."""
        return self.life.state

    @property
    def held(self) -> Mapping[Version, str]:
        """What has become of the versions that were wanted of its worker."""
        return {} if self._reconciler is None else self._reconciler.held

    @property
    def loaded(self) -> list[str]:
        """The artifacts that take batches."""
        return [] if self.worker is None else self.worker.loaded.names

    # --- what the dispatcher asks ---

    @property
    def free(self) -> bool:
        """Whether it can take a batch."""
        return self.state == READY and self.worker is not None and self.worker.free

    @property
    def idle(self) -> bool:
        """Whether it has no batch."""
        return self.worker is not None and self.worker.idle

    @property
    def seconds(self) -> float:
        """Predicted, of the batches that it has."""
        return 0.0 if self.worker is None else self.worker.seconds

    @property
    def pid(self) -> int | None:
        """Of its worker; None while it has none."""
        return None if self.worker is None else self.worker.process.pid

    def fitting(self, version: Version) -> tuple[Compiled, ...]:
        """The artifacts of a version that it runs, if there are any."""
        try:
            return fit(self.spec, self._config, version)
        except RunError:
            return ()

    def runs(self, version: Version) -> tuple[Compiled, ...]:
        """The artifacts of a version that are loaded here."""
        if self.worker is None:
            return ()
        return tuple(one for one in self.fitting(version) if self.worker.loaded.seconds(version, one) is not None)

    def may_run(self, version: Version) -> bool:
        """Whether a version is loaded here, or may be: the board is not out, and has not found that it must do without."""
        return bool(self.fitting(version)) and boards.may_run(self.life, self.held.get(version), bool(self.runs(version)))

    def run(self, batch: Batch, version: Version, compiled: Compiled) -> "asyncio.Future[Answer]":
        """Sends a batch. Its slot is free again when the future has ended, and whoever wanted the outputs has them."""
        assert self.worker is not None
        return self.worker.run(version, compiled, batch.samples, batch.inputs(), batch.call(), batch.detect)

    def answered(self, compiled: Compiled, seconds: float) -> None:
        """Counts a batch that went well."""
        self.happened(self.life.answered())
        if compiled.seconds > 0:
            self.ratio += 0.1 * (seconds / compiled.seconds - self.ratio)

    def fail(self, cause: str) -> None:
        """Ends the worker: the board will be reset and tested."""
        if self.worker is not None:
            self.worker.process.kill(cause)

    # --- what the catalogue asks ---

    async def load(self, version: Version, runtimes: Sequence[str] = ()) -> None:
        """Loads the artifacts of a version, all or those of some runtimes, and compares their golden answers.

        CheckError: they differ. BusyError, LateError: some cannot answer now; the others are loaded. RunError: a board's.
        """
        fit(self.spec, self._config, version)
        if self._reconciler is None:
            raise LostError(f"board {self.spec.name} is {self.state}: {self.life.cause}")
        await self._reconciler.ask(partial(self._reconciler.open, version, runtimes))

    async def unload(self, version: Version, runtimes: Sequence[str] = ()) -> None:
        """Frees what a version keeps here: all, or that of some runtimes."""
        if self._reconciler is not None:
            with suppress(LostError):
                await self._reconciler.ask(partial(self._reconciler.close, version, runtimes))

    def look(self) -> None:
        """What is wanted may have changed."""
        if self._reconciler is not None:
            self._reconciler.look()

    async def catch_up(self) -> None:
        """Waits until the worker has what is wanted. What it does without is tried again."""
        if self.state == READY and self._reconciler is not None:
            await self._reconciler.catch_up()

    # --- its life ---

    async def _live(self) -> None:
        while self.state != CLOSED:
            cause = "the board was closed"
            try:
                self.worker = LiveWorker(self.spec, self.limits, self.told)
                await self.worker.start()
                if self.state == CLOSED:  # before Python 3.12, `wait_for` forgets a cancellation that comes as its task ends
                    raise asyncio.CancelledError
                self._config = self.worker.process.config or self._config
                self._reconciler = Reconciler(self, self.worker)
                cause = await self._reconciler.work()
            except (CnnaError, OSError, asyncio.TimeoutError) as error:
                cause = str(error) or "its worker did not start in time"
            except Exception as error:  # our own fault: the board must come back all the same
                cause = f"internal error: {type(error).__name__}: {error}"
            finally:
                await self._end(cause)
            while self.state not in (STARTING, CLOSED):
                self._woken.clear()
                await self._woken.wait()

    async def _end(self, cause: str) -> None:
        """Nothing is loaded any more, and nothing can be taken; the worker ends."""
        worker, reconciler, self.worker, self._reconciler = self.worker, self._reconciler, None, None
        self.watts = self.celsius = None
        if reconciler is not None:
            reconciler.end(cause)
        self.happened(self.life.ended(cause, self.limits.failures, self.limits.pause_seconds))
        if worker is not None:
            await worker.close(cause)

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
        self.settled.set()
        self._task.cancel()
        await asyncio.wait([self._task])

    def told(self, message: Notice) -> None:
        """The worker goes on with what it does. It may have a line for the log, or wait for something with a limit of its own."""
        if "sensors" in message:  # a thread's, which goes on if the board hangs
            self.watts, self.celsius = message["sensors"]["watts"], message["sensors"]["celsius"]
            return
        if "said" in message:
            self.log("info", "board says", board=self.spec.name, cause=message["said"])
        if self.worker is not None:
            self.worker.watch.alive(message.get("waits"))
