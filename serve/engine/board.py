"""A board's life. Its worker is started, loads versions, is tested with golden answers and answers batches. If it fails, all of
this begins again.

starting → ready → resting (its worker died, hung or answered wrongly) → starting → ... → out, after five failures, until an
operator resets it. The pause grows from 1 to 60 s. Failures are forgotten once it has answered FORGIVEN batches.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from cnna.serve.boards.board_spec import CPU, BoardSpec
from cnna.serve.boards.messages import Notice
from cnna.serve.boards.process import OWN, Answer, LostError, WorkerProcess
from cnna.serve.boards.slot import Slot
from cnna.serve.engine.loaded import LoadedVersions, key_of
from cnna.serve.engine.request import Batch
from cnna.serve.engine.watch import Watch
from cnna.serve.models.version import Compiled, Version
from cnna.spec.errors import BusyError, CheckError, CnnaError, LateError, RunError, UserError

FORGIVEN = 20
Log = Callable[..., None]  # level, event, and what else is known: model, version, board, cause


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
        self.state, self.cause = "starting", ""
        self.failures = 0  # in a row
        self.batches = self.resets = 0
        self.ratio = 1.0  # of measured to predicted seconds
        self.seconds = 0.0  # predicted, of the batches that it has
        self.watts: float | None = None
        self.celsius: float | None = None
        self.settled = asyncio.Event()  # it has become ready, or failed, for the first time
        self._wanted, self._changed, self._lost = wanted, changed, lost
        self._process: WorkerProcess | None = None
        self._loaded: LoadedVersions | None = None  # by this process
        self._had: list[Version] = []  # what was wanted of this process, and loaded if it could be
        self._free: list[Slot] = []
        self._config: str | None = None  # of the accelerator, once a board that has one of its own was open
        self.watch = Watch(lambda: self._process, lambda cause: self.fail(cause, True))
        self.without: set[Version] = set()  # what this worker does without
        self._operator = asyncio.Event()
        self._closed = False
        self._life = asyncio.create_task(self._live())

    # --- what the dispatcher asks ---

    @property
    def free(self) -> bool:
        """Whether it can take a batch. A worker that has just ended takes none, though `_live` has not heard of it yet."""
        return self.state == "ready" and self.lives and bool(self._free)

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
        loaded = self._loaded
        return () if loaded is None else tuple(one for one in self._fitting(version) if loaded.seconds(version, one) is not None)

    def run(self, batch: Batch, version: Version, compiled: Compiled) -> "asyncio.Future[Answer]":
        """Sends a batch. Its slot is free again when the future has ended, and whoever wanted the outputs has them."""
        assert self._process is not None
        assert self._loaded is not None
        slot, key, seconds = self._free[-1], key_of(version, compiled), self._loaded.seconds(version, compiled)
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
        self.batches += 1
        if self.batches % FORGIVEN == 0:
            self.failures = 0
        if compiled.seconds > 0:
            self.ratio += 0.1 * (seconds / compiled.seconds - self.ratio)

    def fail(self, cause: str, busy: bool = False) -> None:
        """Ends the worker: the board will be reset and tested. busy: what it does now is the cause."""
        if self._process is not None:
            self._process.kill(cause, busy)

    # --- versions ---

    async def load(self, version: Version, runtimes: Sequence[str] = ()) -> None:
        """Loads the artifacts of a version, all or those of some runtimes, and compares their golden answers.

        CheckError: they differ. BusyError, LateError: some cannot answer now; the others are loaded. RunError: a board's.
        """
        many = [one for one in self.fits(version) if not runtimes or one.runtime in runtimes]
        loaded = self._loaded
        if loaded is None:
            raise LostError(f"board {self.spec.name} is {self.state}: {self.cause}")
        ratio = await loaded.load(version, many)
        self.ratio = self.ratio if ratio is None else ratio

    async def unload(self, version: Version, runtimes: Sequence[str] = ()) -> None:
        """Frees what a version keeps here: all, or that of some runtimes."""
        if self._loaded is not None:
            many = [one for one in self._fitting(version) if not runtimes or one.runtime in runtimes]
            await self._loaded.unload(version, many)

    async def catch_up(self) -> None:
        """Loads what has become wanted since the board was started, and tries again what it does without."""
        process = self._process
        self._had = [version for version in self._had if self.runs(version)]
        try:
            while self.state == "ready" and process is self._process and await self._load_more():
                self._say_changed()
        except LostError:  # the next worker loads all
            pass
        except CheckError as error:
            if process is not None:
                process.kill(str(error))

    async def _load_more(self) -> bool:
        """Loads the versions that are wanted, and frees those that are not. Whether there were any: meanwhile there may be others.

        CheckError: golden answers differ, and none agree, so that the board itself may be at fault.
        """
        wanted = [version for version in self._wanted() if self.can(version)]
        new, old = ([one for one in some if one not in others] for some, others in ((wanted, self._had), (self._had, wanted)))
        self._had = wanted
        wrong: dict[Version, CheckError] = {}
        for version in old:
            await self.unload(version)
        for version in new:
            if version in self._wanted() and (error := await self._load_again(version)) is not None:
                wrong[version] = error
        agree = any(version.golden is not None and self.runs(version) for version in wanted if version not in wrong)
        for version, error in wrong.items():
            if not agree and self.spec.takes(version.runtime):
                raise error
            await self._drop(version, error)
        return bool(new or old)

    async def _load_again(self, version: Version) -> CheckError | None:
        """Returns how a version answers wrongly. One that is not for this board, or is damaged, keeps no other one from it.

        One that is busy, such as a remote one, may answer later.
        """
        spare = version.runtimes()[1:] if self.spec.takes(version.runtime) else []
        try:
            await self.load(version, [version.runtime] if spare else ())
        except (BusyError, LateError) as error:
            more = {"board": self.spec.name, "model": version.model, "version": version.name}
            self.log("warning", "version not tested", cause=str(error), **more)
            if self._loaded is not None:
                self._loaded.trust(version, self.fits(version), self.limits.hang_seconds)
        except CheckError as error:
            return error
        except (UserError, RunError) as error:
            if isinstance(error, LostError) or (isinstance(error, RunError) and self.state != "ready"):
                raise  # while it starts, the board itself may be at fault
            await self._drop(version, error)
        else:
            self.without.discard(version)
        if spare and version not in self.without:
            await self._load_spare(version, spare)
        return None

    async def _load_spare(self, version: Version, spare: Sequence[str]) -> None:
        """Loads a version's fallback, where this board has its own runtime too. A wrong one takes nothing from the version."""
        more = {"board": self.spec.name, "model": version.model, "version": version.name}
        try:
            await self.load(version, spare)
        except (BusyError, LateError) as error:
            self.log("warning", "fallback not tested", cause=str(error), **more)
            if self._loaded is not None:
                self._loaded.trust(version, self.fits(version), self.limits.hang_seconds)
        except (UserError, CheckError) as error:
            self.log("warning", "fallback not on board", cause=str(error), **more)
            await self.unload(version, spare)

    async def _drop(self, version: Version, error: CnnaError) -> None:
        """Does without a version."""
        self.without.add(version)
        more = {"board": self.spec.name, "model": version.model, "version": version.name}
        self.log("warning", "version not on board", cause=str(error), **more)
        await self.unload(version)
        self._lost(self, version, str(error))

    # --- its life ---

    async def _live(self) -> None:
        while not self._closed:
            self.state = "starting"
            process = None
            try:
                process = self._process = WorkerProcess(self.spec, self.told)
                await asyncio.wait_for(process.start(), self.limits.load_seconds)
                if self._closed:  # before Python 3.12, `wait_for` forgets a cancellation that comes as its task ends
                    raise asyncio.CancelledError
                self._config = process.config or self._config
                self._loaded = LoadedVersions(process, self.watch, self.limits.load_seconds)
                self.without, self._had = set(), []
                while await self._load_more():
                    pass
                self._free = process.slots[: len(process.slots) - OWN]
                self.state, self.cause = "ready", ""
                self.log("info", "board ready", board=self.spec.name)
                self._say_changed()
                await process.gone.wait()
                self.cause = process.cause
            except (CnnaError, OSError, asyncio.TimeoutError) as error:
                self.cause = str(error) or "its worker did not start in time"
            except Exception as error:  # our own fault: the board must come back all the same
                self.cause = f"internal error: {type(error).__name__}: {error}"
            finally:
                self._ended()
                if process is not None:
                    await process.close(self.cause or "the board was closed")
            self.failures += not self._operator.is_set()
            await self._rest()

    def _ended(self) -> None:
        """Nothing is loaded, and nothing can be taken."""
        self._process, self._loaded, self._free, self.state = None, None, [], "resting"
        self.watts = self.celsius = None

    def _say_changed(self) -> None:
        """Lets others act on its state. They have a turn of their own: whatever goes wrong there is not this board's."""
        self.settled.set()
        asyncio.get_running_loop().call_soon(self._changed)

    async def _rest(self) -> None:
        """Waits for the end of the pause, or for an operator."""
        out = self.failures >= self.limits.failures
        self.state = "out" if out else "resting"
        shortest, longest = self.limits.pause_seconds
        pause = min(longest, shortest * 2.0 ** min(self.failures - 1, 60))
        if self._operator.is_set():
            self.log("info", "board reset", board=self.spec.name, cause=self.cause)
        else:
            more = {} if out else {"pause_seconds": pause}
            self.log("error", "board out" if out else "board failed", board=self.spec.name, cause=self.cause, **more)
        self._say_changed()
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._operator.wait(), None if out else pause)
        self._operator.clear()
        self.resets += 1

    def reset(self) -> None:
        """An operator's: the board starts again at once, whatever its state, with no failure counted."""
        self.failures = 0
        self.fail("an operator reset the board")
        self._operator.set()

    async def close(self) -> None:
        """Ends the worker."""
        self._closed = True
        self._life.cancel()
        await asyncio.wait([self._life])
        self.state = "closed"

    def can(self, version: Version) -> bool:
        """Whether it has artifacts of a version to run."""
        return bool(self._fitting(version))

    def _fitting(self, version: Version) -> tuple[Compiled, ...]:
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
            "loaded": [] if self._loaded is None else self._loaded.names,
        }
