"""`BoardModel`: what lies under an `InferenceSession` on a PYNQ board, real or virtual: ping-pong, turns and memory."""

import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnna.host.board.board_device import BoardDevice
from cnna.host.board.pynq_driver import open_board
from cnna.host.device.accelerator import Accelerator, run_limit
from cnna.host.device.limits import seconds, whole
from cnna.host.model import model
from cnna.host.model.at_once import AtOnce
from cnna.host.model.flight import Job
from cnna.host.model.inputs import Arrays
from cnna.host.model.model import Seen
from cnna.host.model.native_runs import NativeRuns, suits
from cnna.host.model.pingpong import PingPong, slots_of
from cnna.host.model.planned import Plan, PlannedFlight
from cnna.host.model.queued import Queued
from cnna.spec.artifact import Artifact, Holder, Source
from cnna.spec.errors import RunError
from cnna.spec.metrics import Figures

MOST_RETRIES = 1000
LATE_CLOCKS = 4_000_000  # more than RUN_LIMIT: a run that RUN_LIMIT has not stopped by then is left


@dataclass
class _Held:
    """What a model has going on at its board. runs: that have begun and not ended. native: their thread, where there is one."""

    runs: int = 0
    native: NativeRuns | None = None


class BoardModel(model.Model):
    """One artifact on the accelerator of a board: a `pynq.Overlay`, a pynq device that holds one, or a `BoardDevice`.

    Several may be resident at once, in one process or in many; they take turns, run by run. `retries`: how often a batch is tried
    again, after a soft reset, when the accelerator has stopped or hangs. `cpu_threads`: as of `Model`.

    ArtifactError: the artifact is for another accelerator.
    RunError: no memory, or no turn within `turn_seconds`; the message names the holder. DataError: a number out of range.
    """

    on_board = True

    def __init__(
        self,
        artifact: Source | Artifact | Holder,
        board: Any,
        *,
        retries: int = 1,
        timeout_seconds: float = 10.0,
        turn_seconds: float = 60.0,
        cpu_threads: int | None = None,
    ) -> None:
        self.retries = whole("retries", retries, 0, MOST_RETRIES)
        self.timeout_seconds = seconds("timeout_seconds", timeout_seconds)
        self.turn_seconds = seconds("turn_seconds", turn_seconds, zero=True)
        self.board: BoardDevice = open_board(board)
        self._made: list[int] = []
        self._held = _Held()
        self._forgotten = weakref.finalize(self, _abandon, self.board, self._made, self._held)  # of a model that nobody closes
        self._counted = threading.RLock()
        self._changed = threading.Condition(self._counted)
        self._at_once: dict[Plan | None, AtOnce] = {}  # by plan; None: the model's own
        super().__init__(artifact, device=self.board, cpu_threads=cpu_threads)

    @property
    def memory(self) -> dict[int, int]:
        """The memory plan: the bytes of everything that this model keeps on the board, by bus address."""
        return {address: self.board.buffers[address].size for address in self._made}

    def close(self) -> None:
        """Waits for runs in progress, ends open iterators, and frees the model's memory; the board stays open for others.

        RunError: a run in another thread takes more than `turn_seconds` to end; its memory is not freed.
        """
        with self._changed:
            self._closed = True
        self._end_streams()
        self._await_runs()
        if self._held.native is not None:
            self._held.native.close()
        _free(self.board, self._made)
        self._forgotten.detach()

    # --- how model.Model runs batches ---

    def _open(self, device: Any, options: dict[str, Any]) -> list[model.Executor]:
        """Places the model. It needs its turn for that, because placing resets the accelerator."""
        limits = [run_limit(program, self.board.ddr) for program in self.artifact.programs]
        self.limit_clocks = max(limits, default=0) + LATE_CLOCKS
        self.turn = TurnOf([self])
        with self.turn, self.board.kept(self._made):
            self.accelerators = [Accelerator(self.board, program, slots=slots_of(self.board)) for program in self.artifact.programs]
        if suits(self.board, self.accelerators):
            self._plan = Plan.of(self._route, self._outputs)
        return list(self.accelerators)

    def _run_jobs(
        self, jobs: Iterable[Job | None], counted: bool
    ) -> Iterator[tuple[Mapping[str, NDArray[np.int8]], dict[str, int]]]:
        """Runs jobs in ping-pong, once the turn has come."""
        with self.going(), self.turn:
            yield from self._runs().run(jobs, counted)

    def _fly(self, flight: PlannedFlight) -> None:
        """As of `Model`: without a stream's generators, which take longer than the run's own work."""
        with self.going(), self.turn:
            runs, job = self._runs(), flight.advance()
            assert isinstance(runs, NativeRuns)
            assert job is not None
            answers, counters = runs.run_alone(job)
        self._seen[job.program].counters.append(counters)
        flight.take(answers)
        plan = None if flight.plan is self._plan else flight.plan
        known = self._at_once.get(plan)
        if known is None or not known.stands(runs.loop):
            made = AtOnce.of(self, flight.plan, runs)
            self._at_once = {key: one for key, one in self._at_once.items() if key is not plan}
            if made is not None:
                self._at_once[plan] = made

    def at_once(self, x: Any, plan: Plan | None = None) -> Arrays | None:
        """As of `Model`, by `AtOnce`."""
        known = self._at_once.get(plan)
        return None if known is None else known.run(x)

    def note_run(self, counters: bytes, wall_seconds: float, samples: int) -> None:
        """Notes a run of `AtOnce`, whose figures nobody may ask for."""
        self._ran = counters, wall_seconds, samples, None

    def _figures(self, ran: Any, wall_seconds: float, samples: int, cpu_seconds: float | None) -> Figures:
        if isinstance(ran, bytes):
            runs = self._runs()
            assert isinstance(runs, NativeRuns)
            ran = [Seen([runs.figures(np.frombuffer(ran, np.uint32).tolist())])]
        return super()._figures(ran, wall_seconds, samples, cpu_seconds)

    def _runs(self) -> PingPong | NativeRuns:
        """What runs jobs, in a turn."""
        if self._held.native is not None:
            return self._held.native
        runs = runs_of(self.board, self.accelerators, self.retries)
        self._held.native = runs if isinstance(runs, NativeRuns) else None
        return runs

    def going(self) -> "Going":
        """Marks a run, from before its turn on, so that `close` waits for it. RunError: the model is closed."""
        return Going(self)

    def joined(self) -> bool:
        """As `begin_run`, of a process that has the board; False: the model is closed."""
        with self._counted:
            if self._closed:
                return False
            self._held.runs += 1
            return True

    def begin_run(self) -> None:
        """The beginning of `going`."""
        if not self.board.ours:
            raise RunError(
                f"model {self.manifest['name']} belongs to the process that this one was forked from: open it here again"
            )
        with self._changed:
            self._check_open()
            self._held.runs += 1

    def end_run(self) -> None:
        """The end of `going`, and of `joined`."""
        with self._counted:
            self._held.runs -= 1
            if self._closed:  # else nobody waits for it
                self._changed.notify_all()

    def _await_runs(self) -> None:
        """Waits until no thread is in a run. RunError: the run is this thread's own, or takes longer than a turn may."""
        name = f"model {self.manifest['name']}"
        with self._changed:
            if self._held.runs and self.board.turns.ours:
                raise RunError(f"{name} cannot be closed from inside its own run: this thread would wait for itself")
            if not self._changed.wait_for(lambda: not self._held.runs, self.turn_seconds):
                raise RunError(
                    f"{name} has been running in another thread for {self.turn_seconds:g} s: end it, then close it again"
                )


def runs_of(
    board: BoardDevice, accelerators: Sequence[Accelerator], retries: int, most: int | None = None
) -> PingPong | NativeRuns:
    """What runs jobs on a board: the native run loop where it can, else Python. Nothing is queued in a turn that can be lost.

    most: as of `NativeRuns`.
    """
    if suits(board, accelerators):
        return NativeRuns(board, accelerators, retries, most)
    if board.places and board.turns.certain:
        return Queued(board, accelerators, retries, most)
    return PingPong(board, accelerators, retries)


class Going:
    """The block of a run of a model, as `turn.Mine` is that of a turn."""

    __slots__ = ("model",)

    def __init__(self, model: BoardModel) -> None:
        self.model = model

    def __enter__(self) -> None:
        self.model.begin_run()

    def __exit__(self, *raised: object) -> None:
        self.model.end_run()


class TurnOf:
    """A turn for models of one board, within the widest of their limits; the board's own hold again for the next turn."""

    def __init__(self, models: Sequence[BoardModel]) -> None:
        names = list(dict.fromkeys(model.manifest["name"] for model in models))
        self._models, self._board = models, models[0].board
        self._what = f"model{'s' * (len(names) > 1)} {', '.join(names)}"
        self._before = self._board.timeout_seconds, self._board.limit_clocks  # the board's own, in a turn

    def __enter__(self) -> None:
        board, models = self._board, self._models
        board.turns.check_free()
        model = models[0]
        limits = model.turn_seconds, model.timeout_seconds, model.limit_clocks
        for model in models[1:]:
            limits = (
                max(limits[0], model.turn_seconds),
                max(limits[1], model.timeout_seconds),
                max(limits[2], model.limit_clocks),
            )
        board.turns.begin(self._what, limits[0])
        self._before = board.timeout_seconds, board.limit_clocks
        board.timeout_seconds, board.limit_clocks = limits[1:]

    def adopt(self) -> None:
        """Goes on with a turn of one model that the library has kept, until `__exit__`; does nothing the second time."""
        board, model = self._board, self._models[0]
        if not board.turns.held:
            self._before = board.timeout_seconds, board.limit_clocks
            board.timeout_seconds, board.limit_clocks = model.timeout_seconds, model.limit_clocks
            board.turns.adopt()

    def __exit__(self, *raised: object) -> None:
        self._board.timeout_seconds, self._board.limit_clocks = self._before
        self._board.turns.end()


def _abandon(board: BoardDevice, addresses: list[int], held: _Held) -> None:
    """Frees the memory of a model that nobody has closed. A run that still writes to it, at the interpreter's exit, is stopped."""
    if held.native is not None:
        held.native.close()
    if held.runs:
        board.reset()
    _free(board, addresses)


def _free(board: BoardDevice, addresses: list[int]) -> None:
    """Gives memory back, unless the board is gone: then its memory is gone too."""
    while addresses:
        address = addresses[-1]
        if address in board.buffers:
            try:
                board.free(address)
            except RunError:
                board.buffers.pop(address, None)
        addresses.pop()  # only now: if Ctrl-C interrupts `free`, the next call frees it
