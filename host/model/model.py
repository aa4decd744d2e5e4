"""`Model`: what lies under `InferenceSession`. It runs the batches of one artifact through its pieces on one device.

Users take `cnna.InferenceSession`. The compiler's tests and the simulation take a `Model`, which hands arrays through as they are.
"""

import importlib
import inspect
import threading
import time
import weakref
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from cnna.host.device.accelerator import Accelerator, take_turn
from cnna.host.device.limits import whole
from cnna.host.model.answers import outputs_of
from cnna.host.model.flight import Flight, Job, Route, Way, jobs_of
from cnna.host.model.inputs import Arrays
from cnna.host.model.planned import Plan, PlannedFlight
from cnna.host.native.detect import Decoder
from cnna.host.samples.rows import Given
from cnna.spec.artifact import Artifact, Holder, Source, held
from cnna.spec.config import Config
from cnna.spec.device import Device, Profiler, Recorder
from cnna.spec.errors import DataError, RunError, ToolError
from cnna.spec.extras import install
from cnna.spec.metrics import Figures, RunRecords, summary

CHECKING = "a comparison with the reference (--check)"  # that a user may ask for
# By device: the module with open_device(config, **options).
SIMULATED = {"emulator": "cnna.sim.emulator.emulator", "rtl": "cnna.sim.rtl.cosim"}

MOST_CPU_THREADS = 1024

Opened = TypeVar("Opened", bound="Model")


class Executor(Protocol):
    """Runs a batch of int8 tensors, by port name: an `Accelerator`, or the reference."""

    counters: dict[str, int]

    def run(self, inputs: Mapping[str, NDArray[np.int8]]) -> dict[str, NDArray[np.int8]]:
        """int8 [batch, C, H, W] by port. An `Accelerator` takes what is not converted yet as well."""


@runtime_checkable
class Keeper(Protocol):
    """An executor that keeps the outputs of all layers."""

    def real(self) -> Arrays:
        """The tensors of the last batch as real numbers, [batch, C, H, W] by name."""


@dataclass
class Seen:
    """What is known of one program's runs since `run` was called: the sum of their counters, and the rest of the last run."""

    counters: list[dict[str, int]] = field(default_factory=list)
    profile: list[dict[str, Any]] | None = None
    timeline: list[tuple[int, str, int]] | None = None
    weights: list[tuple[int, int]] | None = None
    agreement: Any = None


class Model:
    """One artifact, ready to run on one device. It closes the device if it opened it.

    device: "emulator", "rtl", "reference" or a `Device`. `options` go to the device that is opened. With `check`, every tensor that
    a command writes is compared, in every batch, with the other executions (CheckError: the first difference). `last` has the
    figures of the last `run`, and `agreement` says what was found equal. `cpu_agreement` says how far the pieces on the CPU have
    agreed with the quantised model so far. `cpu_threads`: of onnxruntime, for these pieces; None: as many as it likes. `original`:
    that of another model of the same artifact, which is not read again then.

    Any thread may use it; the runs of one model follow each other.
    """

    on_board = False  # whether the seconds it measures are those of hardware

    def __init__(
        self,
        artifact: Source | Artifact | Holder,
        device: str | Device = "emulator",
        check: bool = False,
        cpu_threads: int | None = None,
        original: Any = None,
        **options: Any,
    ) -> None:
        self.artifact = held(artifact)
        self.manifest = self.artifact.manifest
        self.check = check
        self._original = original
        self._last: Figures = {}
        self._ran: tuple[Any, float, int, float | None] | None = None  # a run that has no figures yet: what was seen, and more
        self.device: Device | None = None if isinstance(device, str) else device
        self._owned = isinstance(device, str)
        self.device_name = device if isinstance(device, str) else device.name
        threads = None if cpu_threads is None else whole("cpu_threads", cpu_threads, 1, MOST_CPU_THREADS)
        self._route = Route(self.artifact, threads, quickly=not check)
        self.cpu_agreement: Any = None
        if check and len(self.artifact.programs) < len(self.artifact.pieces):
            checking = _tools("cnna.sim.reference.cpu_pieces", CHECKING)
            checked = checking.CpuCheck(self.artifact, self.original.source)
            self._route.watch, self.cpu_agreement = checked.check, checked.found
        self._outputs = outputs_of(self.manifest)
        self._plan: Plan | None = None  # of batches that need no way of their own
        self._seen: list[Seen] = []
        self._executors: list[Executor] = []
        self._one_run, self._one_job = threading.RLock(), threading.Lock()
        self._streams: weakref.WeakSet[Generator[Any, None, None]] = weakref.WeakSet()  # those that may be open
        self._closed = False
        try:
            self._executors = self._open(device, options)
        except BaseException:
            self.close()
            raise

    def run(self, x: "Given | Mapping[str, Given]", plan: Plan | None = None) -> Any:
        """The answers to all samples of float32 [N, C, H, W], batch by batch: float32, or integers where the model has them.

        A model with preprocessing also takes uint8 pictures, [N, C, H, W] or [N, H, W, C]. The answer to one sample has the shape
        that the source model gives it. Several answers are joined along the batch's axis, or stacked on a new first axis if there
        is none; outputs whose size depends on the data are then called `NAME.0`, `NAME.1`, ... (docs/artifact.md).

        A mapping of input names gives a dict by output name. A model of one input also takes an array, and returns the array of its
        single output (or a dict of several). `Rows` may stand for an array: its samples are read batch by batch. DataError: names,
        shapes or types do not fit. plan: of `detecting`.
        """
        self._check_open()
        with self._one_run:
            return self._run(x, plan or self._plan)

    def _run(self, x: "Given | Mapping[str, Given]", plan: Plan | None) -> Any:
        started = time.perf_counter()
        planned = plan.flight(x) if plan is not None else None
        if planned is not None:
            self._forget_seen()
            self._fly(planned)
            self._ran = self._seen, time.perf_counter() - started, planned.samples, None
            return self._answer(x, planned.outputs)
        inputs = self._route.inputs.rows(x)
        samples, batch = len(next(iter(inputs.values()))), self.manifest["batch"]
        self._forget_seen()
        flights = (
            Flight.of(self._route, {name: rows[start : start + batch] for name, rows in inputs.items()})
            for start in range(0, samples, batch)
        )
        landed, cpu_seconds = [], 0.0
        for flight in self._through(flights):
            landed.append(self._landed(flight))
            cpu_seconds += flight.cpu_seconds
        self._ran = self._seen, time.perf_counter() - started, samples, cpu_seconds
        return self._answer(x, self._joined(landed))

    def detecting(self, decoder: Decoder) -> Plan | None:
        """A plan for `run` and `stream` whose answers are detections (`Plan.detecting`), but for batches that it does not know."""
        return None if self._plan is None else self._plan.detecting(decoder)

    def at_once(self, x: Any, plan: Plan | None = None) -> Arrays | None:
        """What `run` returns for a dict, if the model has a shorter way for such a feed now; None: nothing was done."""
        return None

    def _fly(self, flight: PlannedFlight) -> None:
        """Takes a planned batch through its only run."""
        for _ in self._through([flight]):
            pass

    def stream(self, batches: "Iterable[Given | Mapping[str, Given]]", plan: Plan | None = None) -> Generator[Any, None, None]:
        """Yields the answers to arrays of at most `batch` samples each, in order. A board prepares the next array meanwhile.

        A board's accelerator belongs to this model until the iterator ends, or it or the model is closed. plan: of `detecting`.
        """
        opened = self._streamed(batches, plan)
        self._streams.add(opened)
        return opened

    def _streamed(self, batches: "Iterable[Given | Mapping[str, Given]]", plan: Plan | None) -> Generator[Any, None, None]:
        waiting: list[Any] = []  # the user's arrays

        def prepared() -> Iterator[Flight | PlannedFlight]:
            for x in batches:
                flight = self.flight(x, plan)
                waiting.append(x)
                yield flight

        self._forget_seen()
        for flight in self._through(prepared(), counted=False):
            outputs = flight.outputs if isinstance(flight, PlannedFlight) else self.landed(flight)
            yield self._answer(waiting.pop(0), outputs)

    def flight(self, x: "Given | Mapping[str, Given]", plan: Plan | None = None) -> Flight | PlannedFlight:
        """A batch before its first piece. DataError: it does not fit, or has too many samples. plan: of `detecting`."""
        if self._closed:
            self._check_open()
        plan = plan or self._plan
        if plan is not None and (planned := plan.flight(x)) is not None:
            return planned
        inputs = self._route.inputs.checked(x)
        samples = len(next(iter(inputs.values())))
        if samples > self.manifest["batch"]:
            raise DataError(f"{self.manifest['name']}: {samples} samples at once, its batch is {self.manifest['batch']}")
        return Flight.of(self._route, inputs)

    def landed(self, flight: Flight | PlannedFlight) -> Arrays:
        """The outputs of a batch after its last piece, by name."""
        return flight.outputs if isinstance(flight, PlannedFlight) else self._joined([self._landed(flight)])

    def close(self) -> None:
        """Ends open iterators, and closes the device if this model opened it."""
        self._closed = True
        self._end_streams()
        if self._owned and self.device is not None:
            with self._one_run:  # another thread's run ends first
                self.device.close()
                self.device = None

    def _end_streams(self) -> None:
        for opened in list(self._streams):
            with suppress(ValueError):  # another thread is inside; its iterator ends before the next batch
                opened.close()

    def _check_open(self) -> None:
        if self._closed:
            raise RunError(f"model {self.manifest['name']} is closed")

    def __enter__(self: Opened) -> Opened:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # --- opening ---

    def _open(self, device: str | Device, options: dict[str, Any]) -> list[Executor]:
        """The executors, one for each of the model's programs."""
        if device == "reference" or not isinstance(device, str):
            check_options(self.device_name, options, ())
        if device == "reference":
            reference = _tools("cnna.sim.reference.reference", "device reference").Reference
            return [reference(graph) for graph in self.original.graphs]
        if isinstance(device, str):
            if device not in SIMULATED:
                raise DataError(f"there is no device {device!r}; there are {', '.join([*SIMULATED, 'reference'])}")
            if not self.artifact.programs:
                return []
            self.device = open_device(device, self.artifact.config, **options)
        assert self.device is not None
        executors: list[Executor] = [Accelerator(self.device, program) for program in self.artifact.programs]
        if executors:
            take_turn(executors, executors[-1])  # the last one was placed last, so the registers hold its words
        if self.check and isinstance(self.device, Recorder):  # only now: placing has reset the device
            self.device.start_log()
        return executors

    # --- batches ---

    def _through(self, flights: Iterable[Way], counted: bool = True) -> Iterator[Way]:
        """The batches in order, each after it has been through all pieces. counted: whether the counters of runs are kept."""
        if not self._executors:
            for flight in flights:
                flight.advance()
                yield flight
            return
        waiting: list[Way] = []
        programs = len(self._executors)
        for answers, counters in self._run_jobs(jobs_of(flights, waiting, programs), counted):
            flight = waiting.pop(0)
            assert flight.program is not None
            if counted:
                self._seen[flight.program].counters.append(counters)
            last = flight.program == programs - 1
            flight.take(answers)
            if last:
                flight.advance()
                yield flight

    def _run_jobs(
        self, jobs: Iterable[Job | None], counted: bool
    ) -> Iterator[tuple[Mapping[str, NDArray[np.int8]], dict[str, int]]]:
        """The answers to each job, by port, and the counters of its run, if they are `counted`."""
        for job in jobs:
            if job is not None:
                answers = self._run_job(job)
                yield answers, self._executors[job.program].counters

    def _run_job(self, job: Job) -> Mapping[str, NDArray[np.int8]]:
        with self._one_job:
            return self._run_alone(job)

    def _run_alone(self, job: Job) -> Mapping[str, NDArray[np.int8]]:
        piece, executor, seen = self.artifact.programs[job.program], self._executors[job.program], self._seen[job.program]
        take_turn(self._executors, executor)
        answers = executor.run(job.ports) if isinstance(executor, Accelerator) else executor.run(job.int8())
        if isinstance(self.device, Profiler):
            seen.profile, seen.timeline = self.device.profile(piece), self.device.timeline()
            seen.weights = self.device.weights(piece)
        if self.check:
            found = _tools("cnna.sim.check", CHECKING).compare(piece, self._golden(job), job.int8(), answers, self.device)
            seen.agreement = found if seen.agreement is None else seen.agreement + found
        return answers

    def _golden(self, job: Job) -> Any:
        """Every tensor of a job as the reference computes it from the model in the artifact."""
        reference = _tools("cnna.sim.reference.reference", CHECKING)
        return reference.run(self.original.graphs[job.program], job.int8())

    @property
    def original(self) -> Any:
        """The model in the artifact, a `cnna.sim.reference.reference.Original`: it is read once for all that compares with it."""
        if self._original is None:
            self._original = _tools("cnna.sim.reference.reference", CHECKING).Original(self.artifact)
        return self._original

    # --- answers and figures ---

    def _landed(self, flight: Flight) -> tuple[Arrays, list[Arrays]]:
        """The model's outputs of a batch: those that the accelerator gives in order, for all samples, and the others for each
        sample.
        """
        whole = {o.name: flight.whole[o.name] for o in self._outputs if o.name in flight.whole}
        whole = {o.name: whole[o.name] for o in self._outputs if o.name in whole and o.in_order(whole[o.name])}
        others = [o.name for o in self._outputs if o.name not in whole]
        singles = [flight.sample(number) for number in range(flight.samples)] if others else []
        return whole, [{name: values[name] for name in others} for values in singles]

    def _joined(self, landed: Sequence[tuple[Arrays, list[Arrays]]]) -> Arrays:
        """The outputs of several batches by name."""
        outputs: Arrays = {}
        for output in self._outputs:
            if output.name in landed[0][0]:
                outputs |= output.whole(np.concatenate([whole[output.name] for whole, _ in landed]))
            else:
                outputs |= output.joined([values[output.name] for _, singles in landed for values in singles])
        return outputs

    @staticmethod
    def _answer(x: "Given | Mapping[str, Given]", outputs: Arrays) -> Any:
        """What `run` returns for x."""
        return outputs if type(x) is dict or len(outputs) > 1 or isinstance(x, Mapping) else next(iter(outputs.values()))

    def _forget_seen(self) -> None:
        self._seen = [Seen() for _ in self._executors]

    @property
    def agreement(self) -> Any:
        """What `check` found equal in the last `run`, over all programs; None: nothing was compared."""
        return _agreement(self._seen)

    @property
    def last(self) -> Figures:
        """The figures of the last `run`, made when they are asked for: they cost more than a run."""
        if self._ran is not None:
            self._last, self._ran = self._figures(*self._ran), None
        return self._last

    def tensors(self) -> Arrays:
        """Every layer's output for the last batch, as real numbers [batch, C, H, W] by name. Only device "reference" has them."""
        keepers = [executor for executor in self._executors if isinstance(executor, Keeper)]
        return {name: x for keeper in keepers for name, x in keeper.real().items()}

    def _figures(self, ran: Sequence[Seen], wall_seconds: float, samples: int, cpu_seconds: float | None) -> Figures:
        runs = [RunRecords([run for run in seen.counters if run], seen.profile, seen.timeline, seen.weights) for seen in ran]
        pieces = len(self.artifact.programs) < len(self.artifact.pieces)
        cpu = cpu_seconds / samples if pieces and cpu_seconds is not None else None
        rate = samples / wall_seconds if self.on_board else None
        return summary(self.artifact, self.device_name, runs, wall_seconds, True if _agreement(ran) else None, cpu, rate)


def _agreement(ran: Sequence[Seen]) -> Any:
    """What was found equal in some runs; None: nothing was compared."""
    found = [seen.agreement for seen in ran if seen.agreement is not None]
    return _tools("cnna.sim.check", CHECKING).together(found) if found else None


def open_device(device: str, config: Config, **options: Any) -> Device:
    """A simulated device by name. ToolError: what it needs is not installed. DataError: it has no such option."""
    open_one = _tools(SIMULATED[device], f"device {device}").open_device
    known = [name for name in inspect.signature(open_one).parameters if name != "config"]
    check_options(device, options, known)
    try:
        opened: Device = open_one(config, **options)
    except ModuleNotFoundError as missing:
        raise _missing(f"device {device}", missing) from None
    return opened


def check_options(device: str, options: Iterable[str], known: Collection[str]) -> None:
    """DataError: there is an option that the device does not have."""
    if unknown := [name for name in options if name not in known]:
        raise DataError(f"device {device} has no option {', '.join(unknown)}; it has {', '.join(known) or 'none'}")


def _tools(module: str, what: str) -> Any:
    """A module of the tools, which a board does not have. ToolError: it, or what it needs, is missing; what: the user asked for."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as missing:
        raise _missing(what, missing) from None


def _missing(what: str, missing: ModuleNotFoundError) -> ToolError:
    """The error that says which package is not installed."""
    return ToolError(f"{what} needs {missing.name}, which is not installed: {install('tools')}")
