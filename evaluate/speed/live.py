"""Devices that take their own time, as LoadGen's process asks them: onnxruntime on this computer, a board, and a server."""

import os
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cnna.evaluate.speed.grpc_endpoint import Endpoint, endpoint
from cnna.evaluate.speed.simulated import Service
from cnna.spec.errors import CnnaError, RunError

ONNX, BOARD, SERVER = KINDS = ("onnx", "board", "server")
WARM = 3  # batches that are timed before LoadGen begins; the quickest says how long one takes
TRIAL = 0.5  # seconds of such batches, which wait for all threads together and say how many a second there are
PARALLEL = 16  # threads that ask in it at least, where there are so many
FULL = 255  # of a random byte

Inputs = Mapping[str, NDArray[Any]]
Answer = Callable[[Inputs], Sequence[NDArray[Any]]]  # the outputs, [n, ...] each


class Port(NamedTuple):
    """An input. shape: of one sample. dtype: its numpy type."""

    name: str
    shape: tuple[int, ...]
    dtype: str


class Device:
    """One device with its samples in memory. answers: one function for each thread that may ask at once.

    samples: [n, ...] by input; None: random ones. batch: samples that are asked together.
    """

    def __init__(self, ports: Sequence[Port], answers: Sequence[Answer], batch: int, samples: Inputs | None, count: int) -> None:
        self.answers, self.batch, self.count = answers, batch, count
        self._samples = samples or {port.name: random_samples(port, count) for port in ports}

    def ask(self, thread: int, numbers: Sequence[int]) -> NDArray[np.float32]:
        """The answers to some samples, [n, ...]: all outputs in a row."""
        chosen = [numbers[place % len(numbers)] for place in range(self.batch)] if self.batch > 1 else list(numbers)
        outputs = self.answers[thread]({name: x[np.array(chosen)] for name, x in self._samples.items()})
        sizes = [np.asarray(y).size for y in outputs]
        if joined := next((size for size in sizes if size % len(chosen)), None):
            raise RunError(f"an output of {joined} numbers is not one for each of {len(chosen)} samples; use a batch of 1")
        flat = [np.asarray(y, np.float32).reshape(len(chosen), -1) for y in outputs]
        return np.ascontiguousarray(np.concatenate(flat, axis=1)[: len(numbers)])


class Live:
    """Samples wait in order for the threads that ask the device. An error of one ends the process: LoadGen would wait for ever."""

    def __init__(self, device: Device, complete: Callable[..., None]) -> None:
        self._device, self._complete, self._open = device, complete, True
        self._waiting, self._changed = deque[Any](), threading.Condition()
        self._threads = [threading.Thread(target=self._work, args=(n,), daemon=True) for n in range(len(device.answers))]
        for thread in self._threads:
            thread.start()

    def issue(self, query: Sequence[Any]) -> None:
        """As of `System`."""
        with self._changed:
            self._waiting.extend(query)
            self._changed.notify_all()

    def flush(self) -> None:
        """As of `System`."""

    def close(self) -> None:
        """As of `System`."""
        with self._changed:
            self._open = False
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _work(self, number: int) -> None:
        try:
            while samples := self._next():
                self._complete(samples, self._device.ask(number, [sample.index for sample in samples]))
        except BaseException as error:
            traceback.print_exc()
            print(error if isinstance(error, CnnaError) else f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
            os._exit(1)

    def _next(self) -> list[Any]:
        """A batch, or what there is of one; empty: the run is over."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or not self._open)
            return [self._waiting.popleft() for _ in range(min(self._device.batch, len(self._waiting)))]


@dataclass(frozen=True)
class Asked:
    """A sample that waits, as LoadGen gives it."""

    id: int
    index: int


def tried(device: Device) -> Service:
    """About how long a device takes, before LoadGen begins: one batch alone, and batches that wait for all threads."""
    batch, taken = [number % device.count for number in range(device.batch)], []
    for _ in range(WARM):
        began = time.perf_counter()
        device.ask(0, batch)
        taken.append(time.perf_counter() - began)
    count = max(WARM, min(PARALLEL, len(device.answers)), round(TRIAL / min(taken)))
    began = time.perf_counter()
    live = Live(device, lambda samples, answers: None)
    live.issue([Asked(number, number % device.count) for number in range(count * device.batch)])
    live.close()
    period = (time.perf_counter() - began) / count
    return Service(max(1, round(period * 1e9)), max(1, round(min(taken) * 1e9)), device.batch)


def opened(job: Mapping[str, Any]) -> Device:
    """The device of a job. kind: one of KINDS. samples: how many; inputs: the .npz that has them, None: they are random."""
    inputs = None
    if job["inputs"] is not None:
        with np.load(job["inputs"]) as arrays:
            inputs = {name: arrays[name] for name in arrays.files}
    ports, answers, batch = {ONNX: _onnx, BOARD: _board, SERVER: _server}[job["kind"]](job)
    return Device(ports, answers, batch, inputs, job["samples"])


Opened = tuple[Sequence[Port], Sequence[Answer], int]


def _onnx(job: Mapping[str, Any]) -> Opened:
    """onnxruntime as its users have it: with all its rewrites, and as many threads as it likes or as `threads` says."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    if job.get("threads"):
        options.intra_op_num_threads = job["threads"]
    session = onnxruntime.InferenceSession(job["model"], options, providers=["CPUExecutionProvider"])
    found = session.get_inputs()
    if scalar := next((one.name for one in found if not one.shape), None):
        raise RunError(f"{job['model']}: input {scalar} has no axis of samples; make it a constant of the model")
    fixed = next((one.shape[0] for one in found if isinstance(one.shape[0], int)), None)
    kinds = {"tensor(float)": "float32", "tensor(double)": "float64", "tensor(float16)": "float16", "tensor(bool)": "bool"}
    ports = [Port(one.name, sizes_of(one.shape[1:]), kinds.get(one.type, one.type[len("tensor(") : -1])) for one in found]
    for port in ports:
        if port.dtype not in {np.dtype(code).name for code in np.typecodes["All"]}:  # other packages may add bfloat16
            raise RunError(f"{job['model']}: input {port.name} is {port.dtype}, which numpy does not have; export it as float32")
    return ports, [lambda inputs: session.run(None, dict(inputs))], fixed or job["batch"]


def _board(job: Mapping[str, Any]) -> Opened:
    from cnna.host.board.overlay import open_overlay
    from cnna.host.model.session import InferenceSession
    from cnna.spec.artifact import load

    artifact = load(job["model"])
    session = ExitStack().enter_context(InferenceSession(artifact, open_overlay(job["overlay"])))
    entries = artifact.manifest["model_inputs"]
    ports = [Port(entry["name"], sizes_of(entry["shape"]), entry["dtype"]) for entry in entries]
    return ports, [lambda inputs: session.run(None, dict(inputs))], int(artifact.manifest["batch"])


def _server(job: Mapping[str, Any]) -> Opened:
    ends = [endpoint(job["address"], job["model"]) for _ in range(job["clients"])]
    return [Port(*one) for one in ends[0].inputs()], [_listed(end) for end in ends], job["batch"]


def _listed(end: Endpoint) -> Answer:
    return lambda inputs: list(end.infer(inputs).values())


def sizes_of(shape: Sequence[Any]) -> tuple[int, ...]:
    """A sample's shape; sizes that are open become 1."""
    return tuple(size if isinstance(size, int) and size > 0 else 1 for size in shape)


def random_samples(port: Port, count: int) -> NDArray[Any]:
    """Samples of no meaning: a device's time does not depend on their values."""
    made = np.random.default_rng(0)
    if np.dtype(port.dtype).kind == "f":
        return made.normal(size=(count, *port.shape)).astype(port.dtype)
    most = FULL if np.dtype(port.dtype).itemsize == 1 and port.dtype != "bool" else 2  # wider ones may be numbers of rows
    return made.integers(0, most, (count, *port.shape)).astype(port.dtype)
