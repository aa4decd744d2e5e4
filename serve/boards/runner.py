"""What a worker runs batches with: the emulator, as quickly as it goes or at the pace of the accelerator, or the Verilog.

A paced board computes the answers to golden samples when it loads a version, and the answer to any other sample when the sample
first comes. It gives every answer after the predicted clocks. So a figure of the engine is the same on any computer that is quick
enough.
"""

import hashlib
import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cnna.host.model.detector import Settings
from cnna.host.model.session import InferenceSession
from cnna.serve.boards.board_spec import BoardSpec
from cnna.serve.models.answering import USUAL, Answering, seconds_of
from cnna.serve.models.signature import Arrays
from cnna.spec.artifact import Artifact, load
from cnna.spec.errors import RunError

REMEMBERED = 4096  # answers of a paced board, of each version
CPU_THREADS = 1  # of onnxruntime, for pieces on the CPU: there are other workers, and the front
ALIVE_SECONDS = 1.0  # at least so long between two signs of life of a simulation

Tell = Callable[..., None]  # tells the front, beside the answers: said="a line for the log", alive=True


def silent(**message: object) -> None:
    """Tells nobody."""


class Emulator:
    """Runs artifacts, by key, on the emulator."""

    def __init__(self, spec: BoardSpec) -> None:
        self.spec = spec
        self.tell: Tell = silent
        self.decode_seconds = 0.0
        self._sessions: dict[str, InferenceSession] = {}
        self._answering: dict[str, Answering] = {}

    def load(self, key: str, path: str, known: Arrays) -> None:
        """Opens an artifact. `known`: samples that it will be asked for."""
        answering = Answering(path, load(path))
        self._sessions[key] = self.opened(answering.artifact)
        self._answering[key] = answering

    def opened(self, artifact: Artifact) -> InferenceSession:
        """An artifact on the device."""
        return InferenceSession(artifact, "emulator", cpu_threads=CPU_THREADS)

    def unload(self, key: str) -> None:
        """Closes an artifact, if it is open."""
        self._answering.pop(key, None)
        if (session := self._sessions.pop(key, None)) is not None:
            session.close()

    def run(self, key: str, inputs: Arrays, received: float, wanted: Settings = USUAL) -> Arrays:
        """The answers to a batch that was received at that time (of `time.monotonic`), with the samples on axis 0.

        wanted: what counts as a detection.
        """
        return self.computed(key, inputs, wanted)

    def computed(self, key: str, inputs: Arrays, wanted: Settings) -> Arrays:
        """The answers, by the device."""
        if key not in self._sessions:
            raise RunError(f"{key} is not loaded")
        answering, samples = self._answering[key], len(next(iter(inputs.values())))
        found = answering.rows(self._sessions[key].run(None, inputs), samples, wanted)
        self.decode_seconds = answering.decode_seconds
        return found


class Rtl(Emulator):
    """Runs artifacts on the generated Verilog, each in a simulator of its own. The first one of a configuration is built, which
    takes minutes; the front is told of each step, and that a long simulation goes on.
    """

    def __init__(self, spec: BoardSpec) -> None:
        super().__init__(spec)
        self._told = 0.0  # when it was last said that a simulation goes on

    def opened(self, artifact: Artifact) -> InferenceSession:
        return InferenceSession(artifact, "rtl", cpu_threads=CPU_THREADS, say=self._say, count=self._count)

    def _say(self, line: str) -> None:
        self.tell(said=line)

    def _count(self, clocks: int) -> None:
        if time.monotonic() - self._told >= ALIVE_SECONDS:
            self._told = time.monotonic()
            self.tell(alive=True)


class Paced(Emulator):
    """Exact answers, each batch given after the predicted clocks. Two batches follow each other without a pause."""

    def __init__(
        self, spec: BoardSpec, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], object] = time.sleep
    ) -> None:
        super().__init__(spec)
        self._clock, self._sleep = clock, sleep
        self._free = 0.0  # when the device has answered all that it was given
        self._seconds: dict[str, float] = {}
        self._known: dict[str, dict[bytes, Arrays]] = {}

    def load(self, key: str, path: str, known: Arrays) -> None:
        super().load(key, path, known)
        session = self._sessions[key]
        self._seconds[key] = seconds_of(session.artifact, self.spec.mhz or session.config.clock_mhz)
        if known:
            self._looked_up(key, known)

    def unload(self, key: str) -> None:
        super().unload(key)
        self._seconds.pop(key, None)
        if _version(key) not in map(_version, self._seconds):
            self._known.pop(_version(key), None)

    def run(self, key: str, inputs: Arrays, received: float, wanted: Settings = USUAL) -> Arrays:
        if key not in self._seconds:
            raise RunError(f"{key} is not loaded")
        self._free = max(self._free, received) + self._seconds[key]
        answers = self._looked_up(key, inputs, wanted)
        if (left := self._free - self._clock()) > 0:
            self._sleep(left)
        else:
            self._free = self._clock()  # this computer is too slow to keep the pace; time that is lost is not made up
        return answers

    def _looked_up(self, key: str, inputs: Arrays, wanted: Settings = USUAL) -> Arrays:
        """The answers to samples: those that are not known are computed and remembered, the oldest forgotten."""
        known, samples = self._known.setdefault(_version(key), {}), len(next(iter(inputs.values())))
        digests = [_digest(inputs, number, wanted) for number in range(samples)]
        self.decode_seconds = 0.0
        missing = [number for number, digest in enumerate(digests) if digest not in known]
        fresh: dict[bytes, Arrays] = {}
        if missing:
            answers = self.computed(key, {name: array[missing] for name, array in inputs.items()}, wanted)
            for place, number in enumerate(missing):
                fresh[digests[number]] = {name: np.split(y, len(missing))[place] for name, y in answers.items()}
        rows = [fresh.get(digest) or known[digest] for digest in digests]
        known.update(fresh)
        while len(known) > REMEMBERED:
            known.pop(next(iter(known)))
        return {name: np.concatenate([row[name] for row in rows]) for name in rows[0]}


class BatchRunner(Protocol):
    """What runs the batches of a board. tell: set before anything is loaded. decode_seconds: of the last batch, behind its run."""

    spec: BoardSpec
    tell: Tell
    decode_seconds: float

    def load(self, key: str, path: str, known: Arrays) -> None:
        """Opens an artifact."""

    def unload(self, key: str) -> None:
        """Closes an artifact, if it is open."""

    def run(self, key: str, inputs: Arrays, received: float, wanted: Settings = USUAL) -> Arrays:
        """The answers to a batch."""


class FaultyRunner:
    """A runner that fails as the board's options say: every Nth batch, counted from the worker's start."""

    def __init__(self, runner: Any) -> None:  # a `BatchRunner`, or one with other arguments and the same names
        self._runner, self._spec, self._batches = runner, runner.spec, 0
        self.load, self.unload = runner.load, runner.unload

    def tell_to(self, tell: Tell) -> None:
        """Lets the runner tell the front what it does."""
        self._runner.tell = tell

    @property
    def decode_seconds(self) -> float:
        """Of the last batch: how long boxes took, behind its run."""
        return float(self._runner.decode_seconds)

    def run(self, key: str, inputs: Arrays, received: Any, *wanted: Settings) -> Arrays:
        """As the runner, but for the faults. received: whatever the runner takes for it."""
        self.before()
        started = time.monotonic()
        answers = self._runner.run(key, inputs, received, *wanted)
        return self.after(answers, time.monotonic() - started)

    def before(self) -> None:
        """Dies or stands still, if it is the batch for it."""
        self._batches += 1
        if self._now(self._spec.kill):
            os.kill(os.getpid(), signal.SIGKILL)
        if self._now(self._spec.hang):
            threading.Event().wait()

    def after(self, answers: Arrays, seconds: float) -> Arrays:
        """Takes longer, or makes the answers wrong."""
        if self._spec.slow > 1:
            time.sleep((self._spec.slow - 1) * seconds)
        if self._now(self._spec.wrong):
            name = next(iter(answers))
            answers[name] = _altered(answers[name])
        return answers

    def _now(self, every: int) -> bool:
        return every > 0 and self._batches % every == 0


def runner_for(spec: BoardSpec) -> FaultyRunner:
    """What runs the batches of a board that needs no package of its own."""
    kinds: dict[str, type[Emulator]] = {"emulator": Emulator, "paced": Paced, "rtl": Rtl}
    return FaultyRunner(kinds[spec.kind](spec))


def _version(key: str) -> str:
    """The part of a key that names model and version."""
    return key.rpartition("/")[0]


def _digest(inputs: Arrays, number: int, wanted: Settings) -> bytes:
    digest = hashlib.blake2b(repr(wanted).encode(), digest_size=16)
    for name, array in sorted(inputs.items()):
        row = np.ascontiguousarray(array[number])
        digest.update(f"{name} {row.dtype.str} {row.shape} ".encode())
        digest.update(row.data)
    return digest.digest()


def _altered(y: NDArray[Any]) -> NDArray[Any]:
    """An answer with its first byte changed."""
    other = y.copy()
    other.reshape(-1).view(np.uint8)[0] ^= 1
    return other
