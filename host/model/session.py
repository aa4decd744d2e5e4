"""`cnna.InferenceSession`: a compiled model on any device, shaped like onnxruntime's class of that name (docs/python.md).

with cnna.InferenceSession("m.cnna", device="rtl") as session:
    (scores,) = session.run(None, {"image": x})
"""

import os
import threading
import weakref
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent import futures
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from cnna.host.board.board_device import BoardDevice
from cnna.host.board.overlay import open_overlay
from cnna.host.model.answers import NodeArg, listed, node_arg, outputs_of, type_name
from cnna.host.model.board_model import BoardModel
from cnna.host.model.buffers import InputBuffer, Memory, buffer_on, form, handed_over
from cnna.host.model.inputs import Arrays
from cnna.host.model.model import SIMULATED, Model, check_options
from cnna.host.model.planned import Plan
from cnna.host.native.detect import Decoder
from cnna.host.samples.rows import Given
from cnna.spec.artifact import Artifact, Holder, Source
from cnna.spec.config import Config
from cnna.spec.device import Device, state_of
from cnna.spec.errors import DataError, RunError
from cnna.spec.manifest import Manifest
from cnna.spec.metrics import Figures
from cnna.spec.names import in_line, in_short

DEVICES = (*SIMULATED, "reference")
BIT = ".bit"
BOARD_OPTIONS = ("retries", "timeout_seconds", "turn_seconds", "cpu_threads")
Feed: TypeAlias = "Mapping[str, Given]"
Waited = TypeVar("Waited")


class Pending(Future[Any]):
    """A run that was begun: a `Future` whose time-out says what the accelerator is doing.

    name: of the model. closed: whether its session is. doing: what the accelerator is doing, for the end of a line. break_off: ends
    the session's runs in the background.
    """

    def __init__(self, name: str, closed: Callable[[], bool], doing: Callable[[], str], break_off: Callable[[], None]) -> None:
        super().__init__()
        self._name, self._closed, self._doing, self._break_off = name, closed, doing, break_off

    def result(self, timeout: float | None = None) -> Any:
        """What `run` would have returned, after at most `timeout` seconds; TimeoutError: it is not there yet."""
        return self._waited(super().result, timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """The error of the run, or None; waits as `result` does."""
        try:
            return self._waited(super().exception, timeout)
        except RunError as closed:
            return closed

    def _waited(self, wait: Callable[[float | None], Waited], timeout: float | None) -> Waited:
        try:
            return wait(timeout)
        except futures.CancelledError:
            if self._closed():
                raise RunError(f"model {self._name} was closed before this run began") from None
            raise
        except futures.TimeoutError:
            if self.done():  # it ended meanwhile, or the run itself ended in a time-out
                return wait(0)
            raise TimeoutError(f"model {self._name} has no answer after {timeout:g} s{self._doing()}") from None
        except KeyboardInterrupt:  # else the end of the session, or of Python, would wait for a run that hangs
            self._break_off()
            raise


class InferenceSession:
    """One artifact, ready to run on one device: the path of a .cnna file, its bytes, or what `cnna.compile` gave.

    It closes the device if it opened it.

    device: "emulator", "rtl" or "reference"; the path of a cnna.bit, a `pynq.Overlay`, or a pynq device that holds one; or a
    `spec.device.Device`. With `check`, every tensor that a command writes is compared with the other executions (CheckError); a
    board shows outputs alone. `options` go to the device: docs/python.md has them.
    """

    def __init__(
        self,
        path_or_artifact: Source | Artifact | Holder,
        device: Any = "emulator",
        *,
        check: bool = False,
        **options: Any,
    ) -> None:
        self._closed, self._changing = False, threading.Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._worker: int | None = None  # the pool's thread
        self._begun: weakref.WeakSet[Pending] = weakref.WeakSet()  # runs in the background
        self._model = _opened(path_or_artifact, device, check, options)
        self._outputs = {output.name: output for output in outputs_of(self._model.manifest)}
        self._names = list(self._outputs)
        self._buffers: list[Memory] = []

    def run(self, output_names: Sequence[str] | None, input_feed: Feed, run_options: Any = None) -> list[Any]:
        """The answers to all samples of the arrays in `input_feed`, in the order of `output_names`; None: all outputs.

        Each input is an array of float32 [N, ...], of integers where the model has them, or of uint8 pictures where it stores
        preprocessing. An output whose size depends on the data is a list of arrays if there are several samples. `run_options` is
        there for programs that were written for onnxruntime; nothing reads it. DataError: names, shapes or types do not fit.
        RunError: the accelerator stopped, or the session is closed.
        """
        if self._closed:
            self._check_open()
        names = self._names if output_names is None else self._chosen(output_names)
        answers = self._model.at_once(input_feed)
        if answers is None:
            answers = self._model.run(_feed(input_feed))
        return listed(names, answers)

    def run_async(self, output_names: Sequence[str] | None, input_feed: Feed, run_options: Any = None) -> "Future[list[Any]]":
        """Begins a `run` in the background. Runs that were begun this way follow each other in order.

        Ctrl-C while `result` waits ends the run that a board computes, and those that wait behind it.
        """
        names, pending = self._chosen(output_names), Pending(self.name, lambda: self._closed, self._doing, self._break_off)
        feed: Feed = dict(_feed(input_feed))  # the caller may change its own before the run begins

        def fulfil() -> None:
            self._worker = threading.get_ident()
            if pending.set_running_or_notify_cancel():
                try:
                    pending.set_result(self.run(names, feed))
                except KeyboardInterrupt:
                    pending.set_exception(RunError(f"model {self.name}: Ctrl-C has ended this run"))
                except BaseException as error:
                    pending.set_exception(error)

        with self._changing:
            self._check_open()
            if self._pool is None:
                self._pool = ThreadPoolExecutor(1, thread_name_prefix="cnna")
            self._begun.add(pending)
            self._pool.submit(fulfil)
        return pending

    def stream(self, output_names: Sequence[str] | None, feeds: Iterable[Feed]) -> Iterator[list[Any]]:
        """Yields what `run` returns for each feed, in order. A board prepares the next feed while it computes one.

        A feed has at most as many samples as the batch that the model was compiled for. A board's accelerator belongs to this
        session until the iterator ends, or it or the session is closed.
        """
        self._check_open()
        if not isinstance(feeds, Iterable):
            raise DataError(f"{self.name}: feeds are dicts of arrays, one after another, not {type(feeds).__name__}")
        names = self._chosen(output_names)
        return self._yielded(names, self._model.stream(map(_feed, feeds)))

    def detecting(self, decoder: Decoder) -> Plan | None:
        """As of `Model`: for `answers` and `answers_of`. `Detector` knows what to do with it."""
        return self._model.detecting(decoder)

    def answers(self, input_feed: Feed, plan: Plan | None) -> Arrays:
        """As `run`, by name; with a plan of `detecting`, detections instead."""
        if self._closed:
            self._check_open()
        found = self._model.at_once(input_feed, plan)
        answers: Arrays = self._model.run(_feed(input_feed), plan) if found is None else found
        return answers

    def answers_of(self, feeds: Iterable[Feed], plan: Plan | None) -> Iterator[Arrays]:
        """As `stream`, by name; with a plan of `detecting`, detections instead."""
        self._check_open()
        return self._yielded(None, self._model.stream(map(_feed, feeds), plan))

    def _yielded(self, names: Sequence[str] | None, answers: Generator[Any, None, None]) -> Iterator[Any]:
        try:
            for answer in answers:
                yield answer if names is None else listed(names, answer)
        except ValueError:  # another thread is ending it, in `close`
            self._check_open()
            raise
        finally:
            with suppress(ValueError):
                answers.close()

    def buffer(self, input_name: str) -> NDArray[Any]:
        """Memory for a batch of an input, for a camera to fill again and again; a board packs from it without a copy before.

        An array [batch, ...] of zeros: uint8 with channels last where the model stores preprocessing for pictures, else of the
        input's type. On a board it is contiguous, and `physical_address` is for a camera's DMA; elsewhere it is a plain array. Hand
        over the array or a slice of it, and leave its bytes alone until the answer is there: a stream needs several. Each call
        gives another, which is freed with the session. DataError: there is no such input. RunError: no memory is left, or the
        session is closed.
        """
        self._check_open()
        shape, dtype = form(self.manifest, input_name)
        board = self.device
        if not isinstance(board, BoardDevice) or not board.maps_memory:
            return np.zeros(shape, dtype)
        made = buffer_on(board, input_name, shape, dtype)
        assert made.memory is not None
        self._buffers.append(made.memory)
        return made

    def get_inputs(self) -> list[NodeArg]:
        """Name, shape and type of each input."""
        return [NodeArg(e["name"], ["N", *e["shape"]], type_name(e["dtype"])) for e in self.manifest["model_inputs"]]

    def get_outputs(self) -> list[NodeArg]:
        """Name, shape and type of each output. Without an 'N', answers to several samples are stacked on a new first axis."""
        return [node_arg(output) for output in self._outputs.values()]

    def close(self) -> None:
        """Waits for the run in progress, ends open iterators, and frees what the session holds.

        Runs of `run_async` that have not begun end with a RunError. On a board, a RunError says that a run in another thread does
        not end; its memory is not freed then.
        """
        with self._changing:
            self._closed, pool, self._pool = True, self._pool, None
        for pending in list(self._begun):
            pending.cancel()
        try:
            if pool is not None:
                pool.shutdown(wait=threading.get_ident() != self._worker)  # a future's callback may close the session
        finally:
            self._model.close()
        for memory in self._buffers:
            memory.open = False
        self._buffers.clear()

    def __enter__(self) -> "InferenceSession":
        self._check_open()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        if kind is KeyboardInterrupt:
            self._break_off()
        self.close()

    def __reduce__(self) -> NoReturn:
        """TypeError: another process needs a session of its own."""
        raise TypeError(f"model {self.name}: a session cannot be copied or pickled; let each process open the file itself")

    def __repr__(self) -> str:
        closed = ", closed" if self._closed else ""
        what = f"{self.name!r} for {self.config.name}, batch {self.manifest['batch']}"
        return f"<cnna.InferenceSession {what}, on {self.device_name}{closed}>"

    # --- what is known of it ---

    @property
    def name(self) -> str:
        """The model's name."""
        return str(self.manifest["name"])

    @property
    def artifact(self) -> Artifact:
        """What runs."""
        return self._model.artifact

    @property
    def manifest(self) -> Manifest:
        """What the artifact says of itself (docs/artifact.md)."""
        return self._model.manifest

    @property
    def config(self) -> Config:
        """The configuration of the accelerator for which the model was compiled."""
        return self._model.artifact.config

    @property
    def device_name(self) -> str:
        """What figures call the device: "emulator", "rtl", "reference" or "pynq"."""
        return self._model.device_name

    @property
    def device(self) -> Device | None:
        """The device; None for the reference, and where the model has nothing for the accelerator."""
        return self._model.device

    @property
    def last(self) -> Figures:
        """The figures of the last `run`, as `cnna run --json` writes them."""
        return self._model.last

    @property
    def agreement(self) -> Any:
        """What `check` found equal in the last `run`; None: nothing was compared."""
        return self._model.agreement

    @property
    def cpu_agreement(self) -> Any:
        """How far the pieces on the CPU have agreed with the quantised model so far, with `check`."""
        return self._model.cpu_agreement

    @property
    def memory(self) -> dict[int, int]:
        """The bytes of everything that the session keeps on a board, by bus address; empty elsewhere."""
        return self._model.memory if isinstance(self._model, BoardModel) else {}

    @property
    def original(self) -> Any:
        """The quantised model in the artifact, read once: `original=` hands it to another session of the same artifact."""
        return self._model.original

    def tensors(self) -> Arrays:
        """Every layer's output for the last batch, as real numbers [batch, C, H, W] by name. Only "reference" has them."""
        return self._model.tensors()

    # --- inside ---

    def _check_open(self) -> None:
        if self._closed:
            raise RunError(f"model {self.name} is closed")

    def _chosen(self, names: Sequence[str] | None) -> list[str]:
        if isinstance(names, str | bytes):
            raise DataError(f"{self.name}: output_names is a list, such as [{in_short(names)}]; None stands for all outputs")
        try:
            chosen = list(() if names is None else names) or list(self._outputs)
        except TypeError:
            raise DataError(f"{self.name}: output_names is a list of names or None, not {type(names).__name__}") from None
        if unknown := [name for name in chosen if not isinstance(name, str) or name not in self._outputs]:
            raise DataError(f"{self.name} has outputs {in_line(self._outputs)}; unknown: {in_line(map(str, unknown))}")
        return chosen

    def _break_off(self) -> None:
        """Ends the run in the background on a board, as Ctrl-C ends `run`, and those that have not begun."""
        for pending in list(self._begun):
            pending.cancel()
        if isinstance(self._model, BoardModel) and self._worker is not None:
            self._model.board.turns.break_off(self._worker)

    def _doing(self) -> str:
        """What an accelerator on a board is doing, for a message."""
        return f": {state_of(self.device)}" if isinstance(self.device, BoardDevice) else ""


def _opened(artifact: Source | Artifact | Holder, device: Any, check: bool, options: dict[str, Any]) -> Model:
    """The model on its device. DataError: there is no such device, or `check` is neither True nor False."""
    if not isinstance(check, bool):
        raise DataError(f"check={in_short(check)}: must be True or False")
    if isinstance(device, str | os.PathLike) and Path(device).suffix == BIT:
        device = open_overlay(Path(device))
    if isinstance(device, BoardDevice) or hasattr(device, "ip_dict"):
        if check:
            raise DataError("a board shows no inner tensors to check: compare its outputs with a session on the reference")
        check_options("pynq", options, BOARD_OPTIONS)
        return BoardModel(artifact, device, **options)
    if not isinstance(device, str) and all(hasattr(device, name) for name in ("read", "write", "allocate", "load", "store")):
        return Model(artifact, device, check, **options)
    if not isinstance(device, str) or device not in DEVICES:
        raise DataError(f"there is no device {in_short(device)}; there are {', '.join(DEVICES)}, a cnna{BIT} and a pynq.Overlay")
    return Model(artifact, device, check, **options)


def _feed(feed: Any) -> Feed:
    if type(feed) is not dict and not isinstance(feed, Mapping):  # a look at the type is soonest done
        raise DataError(f"input_feed is a dict of arrays by input name, not {type(feed).__name__}")
    for x in feed.values():
        if type(x) is InputBuffer:
            return handed_over(feed)
    return feed
