"""A plan of a model's batches, made once: for models whose batch is one run on the accelerator, which the run loop completes.

The first feed of a type and shape goes through every check (`inputs`). The plan remembers what came of it, so that a feed like it
costs a look-up, its address and one call. Whatever the plan does not know takes the way of every other model (`flight`).
"""

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple, Optional, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cnna.host.model.answers import Output
from cnna.host.model.flight import Flight, Job, Route
from cnna.host.model.tails import tails
from cnna.host.native import loop
from cnna.host.native.detect import Decoder
from cnna.host.native.library import CDetector, CTensor
from cnna.host.native.tensors import Packing, address_of

MOST_FORMS = 256  # that a plan remembers
BLOCK_BYTES = 1 << 16  # of answers that are allocated together: a caller that keeps one keeps those beside it
KINDS = {np.dtype(np.uint8), np.dtype(np.float32)}

BOXES, SCORES, CLASSES, COUNT = DETECTED = tuple(f"detected {what}" for what in ("boxes", "scores", "classes", "count"))

Given = Sequence[NDArray[Any]]


class Form(NamedTuple):
    """What is known of feeds of one type and shape.

    samples: in each. arrays: of their jobs, in which `tensors` lack but the addresses. copied: whether the caller may change its
    arrays while its batch waits.
    """

    samples: int
    arrays: loop.Arrays
    tensors: list[CTensor]
    copied: bool


class PlannedFlight:
    """A batch with a plan, to be used as a `Flight`: it has one job, and its outputs when that has ended."""

    __slots__ = ("form", "given", "outputs", "plan", "program", "samples")
    cpu_seconds = None  # the run loop's thread does not say

    def __init__(self, plan: "Plan", form: Form, given: Given) -> None:
        self.plan, self.form, self.given, self.samples = plan, form, given, form.samples
        self.program: int | None = 0
        self.outputs: dict[str, Any]

    def advance(self) -> "PlannedJob | None":
        """Its job; None: it has ended."""
        return None if self.program is None else PlannedJob(0, self)

    def take(self, answers: dict[str, Any]) -> None:
        """Notes that the job has ended, which has filled its outputs."""
        self.program = None


class PlannedJob(NamedTuple):
    """The run of a planned batch: a `Job` for the run loop alone."""

    program: int
    flight: PlannedFlight

    def int8(self) -> Any:
        """As of `Job`. DataError: a tensor has NaN."""
        plan = self.flight.plan
        named = dict(zip(plan.names, self.flight.given, strict=True))
        job = Flight.of(plan.route, plan.route.inputs.checked(named)).advance()
        assert job is not None
        return job.int8()


Begun: TypeAlias = tuple[Job | PlannedJob, dict[str, NDArray[Any]], NDArray[np.uint32]]  # a job, its outputs, and its counters


class Answers:
    """Room for the answers of an output, batch after batch: fresh arrays with their addresses, small ones several at a time.

    kind: of their elements, float32, int8, or int64 for what is no tensor of the accelerator.
    """

    def __init__(self, output: Output, batch: int, kind: str = "float32") -> None:
        shape = output.shape or ()
        assert None not in shape
        sizes = [size for size in shape if size is not None]
        self.name = output.name
        self.rows = sizes[0] if sizes and output.batch_axis == 0 else 1  # of a sample
        self.shape = (batch * self.rows, *sizes[1:]) if sizes and output.batch_axis == 0 else tuple(sizes)
        self.elements = prod(self.shape)
        self.kind, self._dtype = kind, np.dtype(kind)
        self._count = max(1, BLOCK_BYTES // (self.elements * self._dtype.itemsize))
        self._left: list[tuple[NDArray[Any], int]] = []

    def fresh(self) -> tuple[NDArray[Any], int]:
        """An array that nobody has had, and where it is."""
        if not self._left:
            block = np.empty((self._count, *self.shape), self._dtype)
            first, step = block.ctypes.data, block.strides[0]
            self._left = [(block[number, ...], first + number * step) for number in range(self._count)]
        return self._left.pop()


class Plan:
    """What is known of a model before its batches come. One thread at a time may begin batches.

    rooms: for the answers of each output port, which are the model's own, or for detections. batch: the samples of a run.
    """

    def __init__(
        self,
        route: Route,
        packings: Sequence[Packing],
        rooms: Sequence[Answers],
        softmax: Sequence[int] = (),
        detector: CDetector | None = None,
    ) -> None:
        self.route, self.names = route, [packing.port["name"] for packing in packings]
        self.batch = route.manifest["batch"]
        self._packings = packings
        self._forms: dict[Any, Form | None] = {}
        self.rooms, self._softmax, self._detector = rooms, softmax, detector

    @classmethod
    def of(cls, route: Route, outputs: Sequence[Output]) -> Optional["Plan"]:
        """The plan of a model; None: it needs more than one run, or work that the run loop does not do."""
        found = tails(route, outputs)
        if found is None or route.watch is not None:
            return None
        manifest = route.manifest
        ports = route.programs[0].manifest["inputs"]
        if [port["name"] for port in ports] != [entry["name"] for entry in manifest["model_inputs"]]:
            return None
        of_port = sorted(zip(found, outputs, strict=True), key=lambda pair: pair[0].port)
        rooms = [Answers(output, manifest["batch"], tail.kind) for tail, output in of_port]
        return cls(route, [route.inputs.packing(port) for port in ports], rooms, [tail.softmax for tail, _ in of_port])

    def detecting(self, decoder: Decoder) -> Optional["Plan"]:
        """The plan of the same batches whose answers are detections, by the names of DETECTED, which the run loop finds on the
        accelerator's own words. None: it cannot.
        """
        names, most = [port["name"] for port in self.route.programs[0].manifest["outputs"]], decoder.settings.most
        detector = decoder.on_ports(names)
        if detector is None or set(names) & set(DETECTED):
            return None
        shapes = {BOXES: (1, most, 4), SCORES: (1, most), CLASSES: (1, most), COUNT: (1,)}
        kinds = {BOXES: "float32", SCORES: "float32", CLASSES: "int64", COUNT: "int64"}
        rooms = [Answers(Output(name, shapes[name], kinds[name], 0), self.batch, kinds[name]) for name in DETECTED]
        return Plan(self.route, self._packings, rooms, detector=detector)

    def flight(self, x: Any) -> PlannedFlight | None:
        """A batch like one that the plan knows; None: another. DataError: as of `Inputs.checked`."""
        given: Any = [x]
        if type(x) is dict:
            try:
                given = [*map(x.__getitem__, self.names)]
            except KeyError:
                return None
            if len(x) != len(given):
                return None
        elif len(self.names) != 1:
            return None
        key: Any = None
        for one in given:
            if type(one) is not np.ndarray or not one.flags.c_contiguous:
                return None
            key = one.dtype, one.shape, key
        form = self._forms.get(key) or self._learnt(key, given)
        if form is None:
            return None
        return PlannedFlight(self, form, [one.copy() for one in given] if form.copied else given)

    def _learnt(self, key: Any, given: Given) -> Form | None:
        """What the general checks make of a feed, if the plan can do the same."""
        if key in self._forms:
            return self._forms[key]
        found = list(self.route.inputs.checked(dict(zip(self.names, given, strict=True))).values())
        if any(len(x) > self.batch for x in found) or len(self._forms) >= MOST_FORMS:
            return None
        same = all(x.dtype in KINDS and x.dtype == y.dtype and x.size == y.size for x, y in zip(given, found, strict=True))
        tensors = [packing.tensor(x) for packing, x in zip(self._packings, found, strict=True)]
        known = [tensor for tensor in tensors if tensor is not None]
        copied = any(x.ctypes.data != y.ctypes.data for x, y in zip(given, found, strict=True))
        self._forms[key] = self._form(len(found[0]), known, copied) if same and len(known) == len(found) else None
        return self._forms[key]

    def known(self, key: Any) -> Form | None:
        """The form of feeds that the plan has met; key: types and shapes, as `flight` chains them."""
        return self._forms.get(key)

    def arrays(self, tensors: Sequence[CTensor]) -> loop.Arrays:
        """C arrays of jobs with inputs of a form."""
        return loop.Arrays(
            tensors,
            [packing.table for packing in self._packings],
            [0] * len(self.rooms),
            [answers.kind for answers in self.rooms],
            [answers.elements for answers in self.rooms],
            self._softmax,
            self._detector,
        )

    def _form(self, samples: int, tensors: list[CTensor], copied: bool) -> Form:
        arrays = self.arrays(tensors)
        return Form(samples, arrays, list(arrays.tensors), copied)

    def begin(self, running: loop.Loop, job: PlannedJob) -> Begun:
        """Hands a batch over. Its outputs are the model's answers, which are there when it has ended."""
        arrays, outputs = self._filled(job.flight)
        return job, outputs, running.submit_arrays(job.program, arrays, job.flight)

    def run(self, running: loop.Loop, job: PlannedJob) -> tuple[Begun, bool]:
        """As `begin`, by `Loop.run_arrays`: whether it has ended."""
        arrays, outputs = self._filled(job.flight)
        counters, ended = running.run_arrays(job.program, arrays, job.flight)
        return (job, outputs, counters), ended

    def _filled(self, flight: PlannedFlight) -> tuple[loop.Arrays, dict[str, NDArray[Any]]]:
        """A batch's C arrays, and room for its answers."""
        form, given = flight.form, flight.given
        for number, tensor in enumerate(form.tensors):  # sooner done than `zip` with `strict`
            tensor.data = address_of(given[number])
        arrays, outputs = form.arrays, {}
        for number, answers in enumerate(self.rooms):
            y, arrays.places[number] = answers.fresh()
            outputs[answers.name] = y if form.samples == self.batch else y[: form.samples * answers.rows]
        flight.outputs = outputs
        return arrays, outputs
