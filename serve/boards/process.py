"""The front's side of a worker: starts the process, sends commands, receives answers, and notices that it has died.

All methods belong to one asyncio loop. A command's future ends in its answer, in the error that the worker reports, or in
`LostError` if the worker dies or is killed first.
"""

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from numpy.typing import NDArray

from cnna.host.model.detector import Settings
from cnna.serve.boards.board_spec import BoardSpec
from cnna.serve.boards.messages import Notice
from cnna.serve.boards.slot import Slot, aligned
from cnna.serve.runtimes.interface import Call, Place, error_of
from cnna.spec.errors import RunError

SLOTS = 2  # batches at once: one runs, the next one is there already
QUEUED = 1  # more on a board with a queue of runs: two wait in it
OWN = 1  # slots of the front itself, for golden answers
END_SECONDS = 3.0  # for a worker to end in order: longer than it takes itself

LOOK_SECONDS = 0.005
NANO = 1e9


class LostError(RunError):
    """The worker is gone, and its commands with it. first: whether it died, or hung, in this command."""

    def __init__(self, message: str, first: bool = False) -> None:
        super().__init__(message)
        self.first = first


@dataclass(frozen=True)
class Answer:
    """What the worker said. outputs: views of the slot, until it is used again. decode_seconds: of `seconds`, for boxes."""

    seconds: float
    outputs: dict[str, NDArray[Any]]
    decode_seconds: float = 0.0


class WorkerProcess:
    """One worker. `gone` is set when it has ended, for whatever reason; `cause` then says why. told: is given what the worker says
    beside its answers.
    """

    def __init__(self, spec: BoardSpec, told: Callable[[Notice], None] = lambda message: None) -> None:
        self.spec, self._told = spec, told
        self.gone = asyncio.Event()
        self.cause = ""
        self.config: str | None = None  # of the board's accelerator, where the board itself has one
        self.places = 0  # starts that may wait in its queue of runs
        self._jobs: dict[int, tuple[asyncio.Future[Answer], Slot | None]] = {}
        self._number = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None
        self._schedules: list[int] = []  # files in which Linux counts what the scheduler has given its threads, the main one first
        self.slots: list[Slot] = []
        with ExitStack() as made:  # all of them, or none
            for _ in range(SLOTS + QUEUED + OWN):
                self.slots.append(Slot(os.memfd_create(f"cnna-{spec.name}", os.MFD_CLOEXEC)))
                made.callback(self.slots[-1].close)
            made.pop_all()

    @property
    def pid(self) -> int | None:
        """Of the process; None before it was started."""
        return None if self._process is None else self._process.pid

    @property
    def exit_code(self) -> int | None:
        """How the process has ended, as `subprocess` counts it: -9 by SIGKILL. None: it has not, or was never started."""
        return None if self._process is None else self._process.poll()

    async def start(self) -> None:
        """Starts the process and waits until it takes commands. LostError: it ends before."""
        ours, theirs = socket.socketpair()
        files = [slot.file for slot in self.slots]
        given = {"control": theirs.fileno(), "slots": files, "board": self.spec.options()}
        with theirs:
            line = [sys.executable, "-m", "cnna.serve.boards.worker", json.dumps(given)]
            self._process = subprocess.Popen(line, pass_fds=[theirs.fileno(), *files], stdin=subprocess.DEVNULL)
        reader, self._writer = await asyncio.open_connection(sock=ours, limit=1 << 20)
        if self.gone.is_set():  # it was killed meanwhile
            self._writer.close()
            raise LostError(f"board {self.spec.name}: {self.cause}")
        ready: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._jobs[0] = ready, None
        self._reading = asyncio.create_task(self._read(reader))
        await ready
        main = str(self._process.pid)
        with suppress(OSError):
            for thread in sorted(Path(f"/proc/{main}/task").iterdir(), key=lambda path: path.name != main):
                self._schedules.append(os.open(thread / "schedstat", os.O_RDONLY | os.O_CLOEXEC))

    def load(self, key: str, path: str, golden: str | None) -> "asyncio.Future[Answer]":
        """Opens an artifact under this key."""
        return self._send({"do": "load", "key": key, "path": path, "golden": golden})

    def open(self, key: str, runtime: str, place: Place) -> "asyncio.Future[Answer]":
        """Opens a version of another runtime than `cnna`, on a board of the kind `cpu`."""
        return self._send({"do": "open", "key": key, "runtime": runtime, "place": place.as_json()})

    def unload(self, key: str) -> "asyncio.Future[Answer]":
        """Closes it."""
        return self._send({"do": "unload", "key": key})

    def run(
        self,
        key: str,
        slot: Slot,
        inputs: Mapping[str, Sequence[NDArray[Any]]],
        output_bytes: Sequence[int],
        call: Call | None = None,
        detect: Settings | None = None,
    ) -> "asyncio.Future[Answer]":
        """Copies a batch into a slot, each input in parts along axis 0, and runs it.

        call: for boards of the kind `cpu`. detect: what counts as a detection; None: as usual.

        It never raises: the future ends in a LostError if the process is gone, in a RunError if there is no memory for the batch.
        """
        outputs_at = sum(aligned(sum(part.nbytes for part in parts)) for parts in inputs.values())
        size = outputs_at + sum(map(aligned, output_bytes))
        if self.gone.is_set():  # its slots are closed
            return self._send({})
        try:
            slot.fit(size)
        except OSError as error:
            return _failed(RunError(f"board {self.spec.name}: no memory for a batch of {size:,} bytes: {error.strerror}"))
        entries, number = slot.write(inputs), self.slots.index(slot)
        place: dict[str, Any] = {"key": key, "slot": number, "bytes": size, "inputs": entries, "outputs_at": outputs_at}
        if detect is not None:
            place["detect"] = detect[:3]
        return self._send({"do": "run", **place} if call is None else {"do": "call", **place, **vars(call)}, slot)

    def scheduled(self) -> tuple[float, float] | None:
        """Seconds that its main thread has run, and that its threads were ready to run and had no processor. None: nobody counts.

        A wait is counted when it ends.
        """
        try:
            found = [os.pread(file, 100, 0).split() for file in self._schedules]
            return int(found[0][0]) / NANO, sum(int(waited) for _, waited, _ in found) / NANO
        except (OSError, ValueError, IndexError):
            return None

    def starved(self, since: tuple[float, float] | None, seconds: float) -> float:
        """Of the last seconds, those in which it was ready to run and had no processor. since: `scheduled` at their beginning."""
        now = self.scheduled()
        if now is None or since is None or self._process is None:
            return 0.0
        ran, waited = now[0] - since[0], now[1] - since[1]
        with suppress(OSError):
            if Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] == "R":
                waited = max(waited, seconds - ran)  # it may be waiting now
        return waited

    def kill(self, cause: str, busy: bool = False) -> None:
        """Ends the process at once. Its commands end in a LostError with this cause. busy: its first command is the cause."""
        if not self.gone.is_set():
            self._end(cause, busy=busy)

    async def close(self, cause: str = "the board was closed") -> None:
        """Lets the process end in order, or ends it, and frees its memory."""
        if not self.gone.is_set():
            self._end(cause, at_once=False)
            until = time.monotonic() + END_SECONDS
            while self._process is not None and self._process.poll() is None:
                if time.monotonic() > until:
                    self._process.kill()
                await asyncio.sleep(LOOK_SECONDS)
        if self._reading is not None:
            await asyncio.wait([self._reading])

    def _send(self, command: dict[str, Any], slot: Slot | None = None) -> "asyncio.Future[Answer]":
        if self.gone.is_set() or self._writer is None:
            return _failed(LostError(f"board {self.spec.name}: {self.cause}"))
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._number += 1
        self._jobs[self._number] = future, slot
        self._writer.write(json.dumps({"job": self._number, **command}).encode() + b"\n")
        return future

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while (line := await reader.readline()) and not self.gone.is_set():
                self._received(json.loads(line))
        except OSError:  # it died while it had something to read
            pass
        except Exception as error:  # whatever is wrong with an answer: its command must end
            self.kill(f"its worker's answers cannot be read: {type(error).__name__}: {error}", busy=True)
        if not self.gone.is_set():
            self._end("its worker died", busy=True)

    def _received(self, answer: dict[str, Any]) -> None:
        if "job" not in answer:
            self._told(cast("Notice", answer))
            return
        future, slot = self._jobs[answer["job"]]
        if slot is not None and "bytes" in answer:
            try:
                slot.fit(answer["bytes"])
            except OSError as error:
                self.kill(f"no memory for an answer of {answer['bytes']:,} bytes: {error.strerror}", busy=True)
                return
        if not future.done():
            self.config, self.places = answer.get("config", self.config), answer.get("places", self.places)
            if "error" in answer:
                future.set_exception(error_of(answer["kind"], answer["error"]))
            else:
                outputs = slot.read(answer["outputs"]) if slot is not None else {}
                future.set_result(Answer(answer["seconds"], outputs, answer.get("decode_seconds", 0.0)))
        del self._jobs[answer["job"]]  # only now: a command whose answer cannot be read ends with its worker

    def _end(self, cause: str, at_once: bool = True, busy: bool = False) -> None:
        """Says to all who wait that the process is gone, after it was made sure; not at once: it ends with its socket."""
        self.gone.set()
        if self._process is not None and at_once:
            self._process.kill()
            code = self._process.wait()  # at once: it has been killed
            if cause == "its worker died":
                cause = f"its worker died (signal {-code})" if code < 0 else f"its worker ended (code {code})"
        self.cause = cause
        for file in self._schedules:
            os.close(file)
        self._schedules = []
        if self._writer is not None:
            self._writer.close()
        jobs, self._jobs = self._jobs, {}
        for number, (future, _) in enumerate(jobs.values()):
            if not future.done():
                future.set_exception(LostError(f"board {self.spec.name}: {cause}", busy and number == 0))
                future.exception()  # whoever waits sees it; nobody is told off for not waiting
        for slot in self.slots:
            slot.close()


def _failed(error: RunError) -> "asyncio.Future[Answer]":
    """The future of a command that was not sent."""
    future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
    future.set_exception(error)
    return future
