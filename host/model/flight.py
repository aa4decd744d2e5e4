"""A batch on its way through a model's pieces: which tensors are known, and what each piece gets.

The accelerator takes a whole batch. A piece on the CPU runs sample by sample, because it may mix the samples of a batch.
"""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from cnna.host.model.inputs import Arrays, Inputs
from cnna.host.native.answers import quick
from cnna.host.native.detect_rows import ModelRows, model_rows_of
from cnna.host.native.tensors import Feed
from cnna.spec.artifact import Artifact, ProgramPiece
from cnna.spec.cpu_ops import CpuPart, makes, reads
from cnna.spec.samples import pack

Ports = Mapping[str, NDArray[np.int8]]  # int8 [batch, C, H, W] by port


Watch = Callable[[int, Arrays, Arrays], None]  # called with the piece, the tensors known before it, and the tensors that it made


class Job(NamedTuple):
    """A run of one of the model's programs, by its number, and what its input ports get. whole: output ports wanted as int8."""

    program: int
    ports: Mapping[str, Feed]
    whole: Collection[str] = ()

    def int8(self) -> Ports:
        """The inputs as the accelerator gets them. DataError: a tensor has NaN."""
        return {name: feed.int8() for name, feed in self.ports.items()}


class NotYet(Enum):
    """What a source says that has nothing now, and may have something later. It must not wait while something runs."""

    NOT_YET = "nothing yet"


NOT_YET: Final = NotYet.NOT_YET
Asked: TypeAlias = Job | NotYet | None  # what a source of jobs says; None: the answers of the last job must be handed out first


class UnderWay(Protocol):
    """A batch that is on its way: a `Flight`, or one whose way is planned."""

    @property
    def program(self) -> int | None:
        """As of `Flight`."""

    def advance(self) -> Any:
        """As of `Flight`: a job, or None."""

    def take(self, answers: Any) -> None:
        """As of `Flight`."""


Way = TypeVar("Way", bound=UnderWay)


class Route:
    """The pieces of one model in their order; those on the CPU are ready to run. threads: of onnxruntime, as `CpuPart` has them.

    quickly: whether a detector's outputs may come from its heads by tables, in the place of its last piece.
    ToolError, ArtifactError: as of `CpuPart`.
    """

    def __init__(self, artifact: Artifact, threads: int | None = None, quickly: bool = True) -> None:
        self.manifest, self.inputs = artifact.manifest, Inputs(artifact.manifest)
        self.outputs = [entry["name"] for entry in self.manifest["model_outputs"]]
        self.whole = {e["name"]: e["dtype"] for e in self.manifest["model_outputs"] if e["dtype"] in pack.WHOLE_BYTES}
        self.steps: list[int | CpuPart | ModelRows] = []  # a program's number, or a part that runs on the CPU
        self.programs = artifact.programs
        self.watch: Watch | None = None  # sees every piece on the CPU: what it was given, all else that is known, and what it made
        rows = model_rows_of(self.manifest) if quickly else None
        for number, piece in enumerate(artifact.pieces):
            if isinstance(piece, ProgramPiece):
                self.steps.append(sum(isinstance(step, int) for step in self.steps))
                continue
            operators, made = piece.manifest["operators"], makes(piece.manifest["operators"])
            wanted = [name for name in self._wanted_after(artifact, number) if name in made]
            if rows is not None and number == len(artifact.pieces) - 1:
                self.steps.append(rows)
                self.whole |= dict.fromkeys(rows.heads.entry["heads"], "int8")
                continue
            name = f"{self.manifest['name']}: its piece {number} on the CPU"
            self.steps.append(CpuPart(piece.model, operators, wanted, name, piece.manifest["numpy"], threads, quick()))

    def _wanted_after(self, artifact: Artifact, number: int) -> list[str]:
        """The tensors that the user or a later piece reads after a piece."""
        names = list(self.outputs)
        for piece in artifact.pieces[number + 1 :]:
            if isinstance(piece, ProgramPiece):
                names += [port["name"] for port in piece.manifest["inputs"]]
            else:
                names += reads(piece.manifest["operators"])
        return list(dict.fromkeys(names))


@dataclass
class Flight:
    """One batch, and how far it has come.

    whole: tensors that have all samples in the first axis: inputs, and what the accelerator made. made: for each sample, the
    tensors that the CPU made of it alone.
    """

    route: Route
    whole: Arrays
    made: list[Arrays]
    at: int = 0  # the next step
    cpu_seconds: float = 0.0

    @classmethod
    def of(cls, route: Route, inputs: Arrays) -> "Flight":
        """inputs: [n, ...] by name, n at most the batch."""
        return cls(route, dict(inputs), [{} for _ in next(iter(inputs.values()))])

    @property
    def program(self) -> int | None:
        """The number of the program that comes next; None: a piece on the CPU comes next, or nothing."""
        step = self.route.steps[self.at] if self.at < len(self.route.steps) else None
        return step if isinstance(step, int) else None

    @property
    def samples(self) -> int:
        """Samples in this batch; the last batch may have fewer than the accelerator takes."""
        return len(self.made)

    def sample(self, number: int) -> Arrays:
        """Every tensor of one sample, with its batch axis of 1."""
        return {name: x[number : number + 1] for name, x in self.whole.items()} | self.made[number]

    def advance(self) -> Job | None:
        """Runs the pieces on the CPU that come next. Returns the accelerator's next job; None: the batch is done."""
        while self.at < len(self.route.steps):
            step = self.route.steps[self.at]
            if isinstance(step, int):
                return Job(step, self._ports(step), self.route.whole)
            began = time.perf_counter()
            found = [step.run(self.sample(number)) for number in range(self.samples)]
            self.cpu_seconds += time.perf_counter() - began
            for number, made in enumerate(found):
                if self.route.watch:
                    self.route.watch(self.at, self.sample(number), made)
                self.made[number] |= made
            self.at += 1
        return None

    def take(self, answers: Mapping[str, NDArray[Any]]) -> None:
        """Stores what the accelerator made in the job that `advance` returned: int8 by port, or real numbers."""
        assert self.program is not None
        for port in self.route.programs[self.program].manifest["outputs"]:
            q = answers[port["name"]][: self.samples]
            name, kind = port["name"], self.route.whole.get(port["name"])
            if kind:
                self.whole[name] = pack.to_whole(q, kind)
            else:
                self.whole[name] = pack.dequantise(q, port["scale"], port["zero"]) if q.dtype == np.int8 else q
        self.at += 1

    def _ports(self, program: int) -> dict[str, Feed]:
        """What each input port gets."""
        manifest = self.route.programs[program].manifest
        feeds = {}
        for port in manifest["inputs"]:
            name = port["name"]
            x = self.whole[name] if name in self.whole else np.stack([made[name] for made in self.made])
            feeds[name] = self.route.inputs.feed(port, x, manifest["batch"])
        return feeds


def jobs_of(flights: Iterable[Way], waiting: list[Way], programs: int) -> Iterator[Job | None]:
    """The jobs of batches, in an order that keeps the accelerator busy. A job's answers must be `take`n before the next job but
    one.

    Where a model has several programs, two batches alternate: A0 B0 A1 B1 ... While B0 runs on the accelerator, the host runs A's
    CPU pieces between A0 and A1. None stands for a job that cannot begin before the answers of the last one. `waiting` receives
    each job's flight, in order; whoever runs the jobs removes them.
    """
    if programs == 1:
        for flight in flights:
            only = flight.advance()
            waiting.append(flight)
            yield only
        return
    source = iter(flights)
    while group := [flight for _, flight in zip(range(2), source, strict=False)]:
        for number in range(programs):
            for flight in group:
                job = flight.advance()
                assert job is not None
                assert job.program == number
                waiting.append(flight)
                yield job
            if len(group) == 1 and number + 1 < programs:
                yield None
