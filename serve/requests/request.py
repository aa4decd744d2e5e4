"""A request on its way, the ranges of samples into which it is cut, and the batches that ranges of several requests make."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnna.serve.models.labels import Labels
from cnna.serve.models.signature import Arrays, Form, Tensor, form_of
from cnna.serve.models.thresholds import Wanted
from cnna.serve.models.version import Compiled
from cnna.serve.requests.stats import Stats
from cnna.serve.runtimes.interface import ANY, CNNA, Call


@dataclass(frozen=True, eq=False)
class Result:
    """The answer to a request. seconds: how long it waited, and how long its batches ran. runtime: what has computed it.

    labels: names of the classes of outputs that have some. detects: whether they are a detector's boxes, scores and classes.
    """

    model: str
    version: str
    outputs: Arrays
    wait_seconds: float
    run_seconds: float
    runtime: str = CNNA
    labels: Labels = field(default_factory=dict)
    detects: bool = False


@dataclass(eq=False)
class Request:
    """One request. Times are those of the loop. order: (priority, number); of two requests the smaller goes first.

    detect: what counts as a detection; None: the usual. scale_seconds: that its pictures took before it was admitted.
    """

    model: str
    version: str
    inputs: Arrays
    samples: int
    order: tuple[int, int]
    admitted: float
    deadline: float
    future: "asyncio.Future[Result]"
    stats: Stats = field(default_factory=Stats)  # of its version
    request_id: str = ""
    runs: "list[BatchRun] | None" = None  # None: nobody asks for them
    taken: int = 0  # samples that are in batches
    answered: int = 0
    begun: float | None = None  # when its first batch was sent
    run_seconds: float = 0.0
    decode_seconds: float = 0.0  # of these
    form: Form = ()
    outputs: Arrays = field(default_factory=dict)
    runtime: str = CNNA
    spare: str = ""  # why a fallback has answered; empty: none has
    alone: bool = False  # it shares no batch, and is not cut
    within: bool = False  # it is a step of another one
    labels: Labels = field(default_factory=dict)
    detects: bool = False
    detect: Wanted | None = None
    scale_seconds: float = 0.0

    def __post_init__(self) -> None:
        """Samples that are counted as detections by other settings share no batch."""
        own = [("", "", self.order)] if self.alone else []
        self.form = (*form_of(self.inputs), *own, *([] if self.detect is None else [("", repr(self.detect), ())]))

    @property
    def left(self) -> int:
        """Samples that wait for a batch."""
        return 0 if self.future.done() else self.samples - self.taken

    def take(self, most: int) -> "SampleRange":
        """The next samples, `most` at most, as a range for a batch."""
        found = SampleRange(self, self.taken, min(most, self.left))
        self.taken += found.count
        return found

    def answer(self, some: "SampleRange", outputs: Sequence[Tensor], batch: Mapping[str, NDArray[Any]], first: int) -> bool:
        """Keeps the answers to a range, which begins with sample `first` of its batch. Whether all are there now."""
        for tensor in outputs:
            rows = tensor.rows
            if rows == ANY:
                self.outputs[tensor.name] = batch[tensor.name].copy()
                continue
            if tensor.name not in self.outputs:
                y = batch[tensor.name]
                self.outputs[tensor.name] = np.empty((self.samples * rows, *y.shape[1:]), y.dtype)
            own = self.outputs[tensor.name][some.start * rows : (some.start + some.count) * rows]
            own[...] = batch[tensor.name][first * rows : (first + some.count) * rows]
        self.answered += some.count
        return self.answered == self.samples


@dataclass(frozen=True, eq=False)
class SampleRange:
    """`count` samples of a request, from sample `start` on."""

    request: Request
    start: int
    count: int

    def inputs(self) -> Arrays:
        """Its samples."""
        return {name: array[self.start : self.start + self.count] for name, array in self.request.inputs.items()}


@dataclass(eq=False)
class Batch:
    """Ranges that run together, all for one version. boards: the names of those that have failed with it."""

    model: str
    version: str
    ranges: list[SampleRange]
    boards: list[str] = field(default_factory=list)
    spare: str = ""  # why its version's own runtime is not asked any more

    @property
    def samples(self) -> int:
        """How many it has."""
        return sum(each.count for each in self.ranges)

    @property
    def order(self) -> tuple[int, int]:
        """Which of two goes first: that with the first request."""
        return min(each.request.order for each in self.ranges)

    @property
    def detect(self) -> Wanted | None:
        """What counts as a detection in all of its requests."""
        return self.ranges[0].request.detect

    def inputs(self) -> dict[str, list[NDArray[Any]]]:
        """Each input in parts."""
        parts = [each.inputs() for each in self.ranges]
        return {name: [part[name] for part in parts] for name in parts[0]}

    def call(self) -> Call:
        """Its circumstances: the latest deadline of its requests, and the first id."""
        requests = [each.request for each in self.ranges]
        return Call(max(one.deadline for one in requests), next((one.request_id for one in requests if one.request_id), ""))

    def drop_ended(self) -> None:
        """Leaves out ranges of requests that have been answered, refused or given up."""
        self.ranges = [each for each in self.ranges if not each.request.future.done()]


@dataclass(frozen=True, eq=False)
class BatchRun:
    """A batch that held samples of a request, for its trace. seconds: measured by the worker. error: "" if it went well.

    model: the request's, or that of a pipeline's step.
    """

    model: str
    board: str
    compiled: Compiled
    samples: int
    sent: float
    ended: float
    seconds: float
    error: str


@dataclass(frozen=True)
class NextBatch:
    """What to run next: an artifact, and how many of the waiting samples."""

    compiled: Compiled
    samples: int
