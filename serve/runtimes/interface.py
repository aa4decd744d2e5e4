"""What a runtime is: a class that opens a version, says what it takes and gives, and answers batches (docs/serving/reference.md).

class Mine:
    def __init__(self, place: Place) -> None: ...        opens R/M/V; UserError: the version is at fault
    def describe(self) -> Description: ...               once, after it was opened
    def run(self, inputs: Arrays, call: Call) -> Arrays: ...
    def close(self) -> None: ...

Its entry point stands in the group `cnna.serve.runtimes`, under the name that model.yaml gives as `runtime`. A worker process has
its objects, and calls them one after another in one thread. Errors of `run`: DataError (the samples are at fault: the client is
told), LateError (`call.until` has passed), BusyError or any other (it cannot answer now: the batch is tried again, then refused).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cnna.spec.errors import (
    ArtifactError,
    BusyError,
    CheckError,
    CnnaError,
    DataError,
    LateError,
    ModelError,
    RunError,
    ToolError,
    UnknownError,
    UserError,
)
from cnna.spec.manifest import PreprocessEntry

Arrays = dict[str, NDArray[Any]]
CNNA = "cnna"  # the runtime of accelerators
ANY = 0  # `rows` of an output that has as many rows as its data want
USUAL_BATCH = 8
FLOATS = ("float16", "float32", "float64")
_ERRORS = (
    *(UserError, ModelError, ArtifactError, DataError, ToolError, UnknownError),
    *(RunError, CheckError, BusyError, LateError),
)


@dataclass(frozen=True)
class Tensor:
    """An input or output. shape: of the answer to, or the input of, one sample, without the samples' axis; None: not fixed.

    rows: of the output for each sample, on axis 0; ANY: as many as there are, so that requests do not share a batch. exact: it is
    the same on every computer, so golden answers are equal to the bit. classes: so many do its numbers stand for; None: its values
    are no classes.
    """

    name: str
    dtype: str
    shape: tuple[int | None, ...]
    rows: int = 1
    exact: bool = True
    classes: int | None = None

    @property
    def sample_bytes(self) -> int:
        """Bytes of the answer to one sample. For outputs only; 0 where the size is not fixed."""
        return self.rows * int(np.prod([size or 0 for size in self.shape])) * np.dtype(self.dtype).itemsize

    @property
    def served_shape(self) -> list[int]:
        """As metadata shows it: -1 stands for the samples, and for a size that is not fixed."""
        return [-1, *(-1 if size is None else size for size in self.shape)]


@dataclass(frozen=True)
class Place:
    """A version, for a runtime. folder: R/M/V. options: what model.yaml says under the runtime's name."""

    model: str
    version: str
    folder: Path
    options: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """For another process."""
        return {"model": self.model, "version": self.version, "folder": str(self.folder), "options": dict(self.options)}

    @staticmethod
    def from_json(given: Mapping[str, Any]) -> "Place":
        """What `as_json` gave."""
        return Place(given["model"], given["version"], Path(given["folder"]), given["options"])


@dataclass(frozen=True)
class Call:
    """A batch's circumstances. until: its deadline, a time of `time.monotonic`. request_id: of its first request that has one."""

    until: float = float("inf")
    request_id: str = ""


@dataclass(frozen=True)
class Description:
    """What a version takes and gives: floats or whole numbers, the samples on axis 0.

    batch: the most samples that `run` gets. seconds: what it takes for a whole batch, as far as that is known. bounded: `run` ends
    by `call.until` by itself, so that its worker is not thought to hang before. preprocess: what the runtime does to uint8 pictures
    that are given for floats; None: it takes none.
    """

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    batch: int = USUAL_BATCH
    seconds: float = 0.001
    bounded: bool = False
    preprocess: PreprocessEntry | None = None

    def as_json(self) -> dict[str, Any]:
        """For another process."""
        return {
            "inputs": [vars(tensor) for tensor in self.inputs],
            "outputs": [vars(tensor) for tensor in self.outputs],
            **{name: getattr(self, name) for name in ("batch", "seconds", "bounded", "preprocess")},
        }

    @staticmethod
    def from_json(given: Mapping[str, Any]) -> "Description":
        """What `as_json` gave."""
        tensors = {name: tuple(tensor_of(entry) for entry in given[name]) for name in ("inputs", "outputs")}
        return Description(**{**given, **tensors})


def misfit(tensors: Sequence[Tensor], found: Arrays, samples: int) -> str | None:
    """The first output that is missing, or is not as it was described. None: the answers to so many samples fit."""
    for tensor in tensors:
        if tensor.name not in found:
            return f"there is no output {tensor.name} in the answer, which has {', '.join(found) or 'none'}"
        y = found[tensor.name]
        shape = (len(y) if tensor.rows == ANY and y.ndim else samples * tensor.rows, *tensor.shape)
        if y.dtype != tensor.dtype or y.ndim != len(shape) or any(s not in (None, n) for s, n in zip(shape, y.shape, strict=True)):
            return f"output {tensor.name} is {y.dtype} {list(y.shape)}, but was described as {tensor.dtype} {list(shape)}"
    return None


def tensor_of(entry: Mapping[str, Any]) -> Tensor:
    """A tensor from its entry in JSON."""
    return Tensor(**{**entry, "shape": tuple(entry["shape"])})


class Runtime(Protocol):
    """An opened version."""

    def __init__(self, place: Place) -> None: ...

    def describe(self) -> Description:
        """What it takes and gives."""

    def run(self, inputs: Arrays, call: Call) -> Arrays:
        """The outputs by name, with the samples on axis 0. inputs: at most `batch` samples; valid during the call."""

    def close(self) -> None:
        """Frees it."""


def name_of(error: CnnaError) -> str:
    """An error's class, as `error_of` reads it in another process."""
    return next((kind.__name__ for kind in type(error).__mro__ if kind in _ERRORS), RunError.__name__)


def error_of(name: str, text: str) -> CnnaError:
    """The error again."""
    kind = next((kind for kind in _ERRORS if kind.__name__ == name), RunError)
    return kind(text)
