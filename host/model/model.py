"""`Model`: a .cnna that answers. Float arrays in, float arrays out, on the emulator, the simulated RTL, the reference or a board.

with Model("m.cnna", device="emulator") as model:
    y = model.run(x)
"""

import importlib
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from cnna.host.device.accelerator import Accelerator
from cnna.host.model.answers import outputs_of
from cnna.host.model.inputs import Arrays, Inputs
from cnna.spec import pack
from cnna.spec.artifact import Artifact, load
from cnna.spec.config import Config
from cnna.spec.cpu_ops import CpuPart, makes, reads
from cnna.spec.device import Device, Profiler, Recorder
from cnna.spec.errors import DataError, ToolError
from cnna.spec.metrics import Figures, summary

SIMULATED = {
    "emulator": "cnna.sim.emulator.emulator",
    "rtl": "cnna.sim.rtl.cosim",
}  # device: module with open_device(config, **options)

Opened = TypeVar("Opened", bound="Model")


@dataclass(frozen=True)
class KnownTensors:
    """What is known of a user's samples before the accelerator runs: their inputs [N, ...], and for each what the head made."""

    inputs: Arrays
    made: list[Arrays]

    def sample(self, number: int) -> Arrays:
        """Every tensor of one sample, its batch of one included."""
        return {name: x[number : number + 1] for name, x in self.inputs.items()} | self.made[number]


class Executor(Protocol):
    """What runs a batch of int8 tensors, by port name: an `Accelerator`, or the reference."""

    counters: dict[str, int]

    def run(self, inputs: Mapping[str, NDArray[np.int8]]) -> dict[str, NDArray[np.int8]]:
        """int8 [batch, C, H, W] by port."""


class Model:
    """One artifact, ready to run on one device, which it closes if it opened it.

    device: "emulator", "rtl", "reference" or a `Device`. `options` go to the device that is opened. With `check`, every
    batch is compared with the executions that should equal it, each tensor that a command writes (CheckError: the first
    difference). `last` has the figures of the last `run`, `agreement` what was found equal.
    """

    def __init__(
        self, artifact: str | os.PathLike[str] | Artifact, device: str | Device = "emulator", check: bool = False, **options: Any
    ) -> None:
        self.artifact = artifact if isinstance(artifact, Artifact) else load(artifact)
        self.manifest = self.artifact.manifest
        self.check = check
        self.agreement: Any = None
        self.last: Figures = {}
        self.device: Device | None = None if isinstance(device, str) else device
        self._owned = isinstance(device, str)
        self.device_name = device if isinstance(device, str) else device.name
        self._parts = {name: self._cpu_part(name) for name in ("head", "tail")}
        self._head_ports = makes(self.manifest["cpu_head"]) & {port["name"] for port in self.manifest["inputs"]}
        self._outputs = outputs_of(self.manifest)
        self._inputs = Inputs(self.manifest, straight=not self._parts["head"])
        try:
            self._executor = self._open(device, options)
        except BaseException:
            self.close()
            raise

    def run(self, x: NDArray[Any] | Mapping[str, NDArray[Any]]) -> Any:
        """The answers to all samples of float32 [N, C, H, W], batch by batch; float32, or integers where the model has them.

        Where the model has preprocessing, uint8 pictures too, [N, C, H, W] or [N, H, W, C]. One sample's answer has the shape
        that the source model gives it. Several are joined along the batch's axis, or stacked on a new first axis where there
        is none; outputs whose size depends on the data are then called `NAME.0`, `NAME.1`, ... (docs/artifact.md).

        A mapping from input names gives a dict by output name; an array, for a model of one input, gives the array of a
        single output (or the dict of several). DataError: names, shapes or types that do not fit.
        """
        started = time.perf_counter()
        known, ports, samples = self.prepare(x)
        batch = self.manifest["batch"]
        answers, counters = [], []
        self.agreement = None
        # The last batch is filled up with its last sample.
        rows = (np.minimum(np.arange(start, start + batch), samples - 1) for start in range(0, samples, batch))
        for answer, counted in self._run_batches({name: q[index] for name, q in ports.items()} for index in rows):
            answers.append(answer)
            counters.append(counted)
        whole = {name: np.concatenate([answer[name] for answer in answers])[:samples] for name in answers[0]}
        answer = self.answer(x, whole, known)
        self.last = self._figures([run for run in counters if run], time.perf_counter() - started)
        return answer

    def prepare(self, x: NDArray[Any] | Mapping[str, NDArray[Any]]) -> tuple[KnownTensors, dict[str, NDArray[np.int8]], int]:
        """What the accelerator is given for x: what is known by now, int8 by input port, and how many samples.

        DataError: as `run`.
        """
        inputs = self._inputs.checked(x)
        samples = len(next(iter(inputs.values())))
        known = KnownTensors(inputs, [{} for _ in range(samples)])
        if head := self._parts["head"]:
            known = KnownTensors(inputs, [head.run(known.sample(number)) for number in range(samples)])
        made = {name: np.stack([made[name] for made in known.made]) for name in self._head_ports}
        return known, self._inputs.to_ports(inputs | made), samples

    def answer(
        self, x: NDArray[Any] | Mapping[str, NDArray[Any]], ports: Mapping[str, NDArray[np.int8]], known: KnownTensors
    ) -> Any:
        """What `run` answers to x, from int8 by output port and the tensors that `prepare` gave."""
        outputs = self._from_ports(ports, known)
        return next(iter(outputs.values())) if not isinstance(x, Mapping) and len(outputs) == 1 else outputs

    def close(self) -> None:
        """Ends the device if this opened it."""
        if self._owned and self.device is not None:
            self.device.close()
            self.device = None

    def __enter__(self: Opened) -> Opened:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # --- opening ---

    def _open(self, device: str | Device, options: dict[str, Any]) -> Executor:
        if device == "reference":
            reference: Executor = _tools("cnna.sim.reference.reference").Reference(self.artifact, **options)
            return reference
        if isinstance(device, str):
            if device not in SIMULATED:
                raise DataError(f"there is no device {device!r}; there are {', '.join([*SIMULATED, 'reference'])}")
            self.device = open_device(device, self.artifact.config, **options)
        assert self.device is not None
        accelerator = Accelerator(self.device, self.artifact)
        if self.check and isinstance(self.device, Recorder):  # only now: what ran on the device before has been reset
            self.device.start_log()
        return accelerator

    def _cpu_part(self, name: str) -> CpuPart | None:
        operators = self.manifest["cpu_head"] if name == "head" else self.manifest["cpu_tail"]
        model = getattr(self.artifact, name)
        if not operators:
            return None
        wanted = [entry["name"] for entry in self.manifest["model_outputs"]]
        if name == "head":
            wanted += [port["name"] for port in self.manifest["inputs"]] + reads(self.manifest["cpu_tail"])
        made = makes(operators)
        return CpuPart(
            model,
            operators,
            [output for output in dict.fromkeys(wanted) if output in made],
            f"{self.manifest['name']}: its {name}.onnx",
        )

    # --- batches ---

    def _run_batches(self, batches: Iterable[Mapping[str, NDArray[np.int8]]]) -> Iterator[tuple[dict[str, Any], dict[str, int]]]:
        """The answers to each batch, by port, and the counters of its run."""
        for ports in batches:
            answers = self._run_batch(ports)
            yield answers, self._executor.counters

    def _run_batch(self, ports: Mapping[str, NDArray[np.int8]]) -> dict[str, NDArray[np.int8]]:
        answers = self._executor.run(ports)
        if self.check:
            found = _tools("cnna.sim.check").check_run(self.artifact, ports, answers, self.device)
            self.agreement = found if self.agreement is None else self.agreement + found
        return answers

    def _figures(self, counters: list[dict[str, int]], wall_seconds: float) -> Figures:
        profiler = self.device if counters and isinstance(self.device, Profiler) else None
        layers, events = (profiler.profile(self.artifact), profiler.timeline()) if profiler else (None, None)
        return summary(self.manifest, self.device_name, counters, layers, wall_seconds, True if self.agreement else None, events)

    # --- ports to floats ---

    def _from_ports(self, answers: Mapping[str, NDArray[np.int8]], known: KnownTensors) -> Arrays:
        """The model's outputs, from the accelerator's answers and what is `known` before it runs."""
        floats = {p["name"]: pack.dequantise(answers[p["name"]], p["scale"], p["zero"]) for p in self.manifest["outputs"]}
        straight = {o.name for o in self._outputs if o.name in floats and o.in_order(floats[o.name])}
        singles = [] if straight == {o.name for o in self._outputs} else self._singles(floats, known)
        outputs: Arrays = {}
        for output in self._outputs:
            if output.name in straight:
                outputs |= output.whole(floats[output.name])
            else:
                outputs |= output.joined([values[output.name] for values in singles])
        return outputs

    def _singles(self, floats: Arrays, known: KnownTensors) -> list[Arrays]:
        """Every tensor of each sample, the tail's included: it runs sample by sample, for it may mix what is in a batch."""
        singles = []
        for number in range(len(known.made)):
            values = known.sample(number) | {name: y[number : number + 1] for name, y in floats.items()}
            singles.append(values | tail.run(values) if (tail := self._parts["tail"]) else values)
        return singles


def open_device(device: str, config: Config, **options: Any) -> Device:
    """A simulated device by name. ToolError: what it needs is not installed."""
    opened: Device = _tools(SIMULATED[device]).open_device(config, **options)
    return opened


def _tools(module: str) -> Any:
    """A module of the tools, which a board has not. ToolError: it or what it needs is missing."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as missing:
        raise ToolError(f"{module} needs {missing.name}, which is not installed: pip install 'cnna[tools]'") from None
