"""What a version takes and gives, as clients see it: names, types and shapes that begin with -1, whatever its batches are.

Requests are checked and cut into samples with it, and answers are put together: every input and output has the samples on axis 0.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnna.host.model.answers import WHOLE, outputs_of
from cnna.host.model.detector import MOST_BOXES
from cnna.host.model.inputs import Inputs
from cnna.host.samples.preparation import preparation
from cnna.host.samples.rows import integers
from cnna.serve.runtimes.interface import ANY, Arrays, Description, Tensor
from cnna.spec.errors import ArtifactError, DataError
from cnna.spec.manifest import ACCELERATOR, Manifest, PreprocessEntry
from cnna.spec.names import differences
from cnna.spec.samples.preprocess import from_entry

__all__ = ["Arrays", "Form", "Signature", "Tensor", "described_signature", "form_of", "rows_of", "signature_of", "units_of"]

MOVES = ("Concat", "Flatten", "Gather", "Identity", "Reshape", "Slice", "Split", "Squeeze", "Transpose", "Unsqueeze")
CLASSES = "classes"  # of a detector
Form = tuple[tuple[str, str, tuple[int, ...]], ...]  # name, dtype and shape of a sample, of each input: equal ones share a batch


@dataclass(frozen=True)
class Signature:
    """Inputs and outputs of a version. pictures: whether it takes uint8 pictures, because it stores their preprocessing.

    manifest: of an artifact; None where another runtime said what the version takes, and `described` is what it said.
    """

    model: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    pictures: bool
    manifest: Manifest | None
    described: Description | None = None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Signature):
            return NotImplemented
        return (self.inputs, self.outputs, self.pictures) == (other.inputs, other.outputs, other.pictures)

    def __hash__(self) -> int:
        return hash((self.inputs, self.outputs, self.pictures))

    @property
    def detects(self) -> bool:
        """Whether it answers boxes, because its artifacts know a detector's heads."""
        return self.manifest is not None and "detector" in self.manifest

    @property
    def preprocess(self) -> PreprocessEntry | None:
        """What the version stores of its pictures."""
        if self.manifest is not None:
            return self.manifest["preprocess"]
        return self.described.preprocess if self.described is not None else None

    def prepared(self) -> str:
        """What is done to pictures that clients send as files, in a line; "" where the version takes none."""
        if self.preprocess is None or len(self.inputs) != 1:
            return ""
        tensor = self.inputs[0]
        if self.detects:
            return f"scaled as a whole into {list(tensor.shape)}, the rest is grey; boxes are in the picture's own pixels"
        try:
            return preparation(tensor.shape, from_entry(self.preprocess, self.model, strict=False), tensor.dtype in WHOLE).line()
        except DataError:  # an input that no picture file fits; uint8 arrays may
            return ""

    @property
    def alone(self) -> bool:
        """Whether a request's answers cannot be told apart from those of others, so that it shares no batch."""
        return any(tensor.rows == ANY for tensor in self.outputs)

    def blank(self) -> Arrays:
        """One sample of zeros, where no better one is known."""
        return {x.name: np.zeros([1, *(size or 1 for size in x.shape)], x.dtype) for x in self.inputs}

    def request(self, given: Mapping[str, NDArray[Any]]) -> tuple[int, Arrays]:
        """The number of samples, and the arrays as a batch takes them. DataError: names, shapes, types or values do not fit."""
        for name, array in given.items():
            if array.ndim == 0:
                raise DataError(f"input {name} has no axis for the samples")
        if self.manifest is None:
            return self._plain(given)
        Inputs(self.manifest).rows(given)  # checks names, shapes and types; converts nothing
        ready: Arrays = {}
        for tensor in self.inputs:
            array = given[tensor.name]
            if array.ndim != len(tensor.shape) + 1:
                raise DataError(f"input {tensor.name} has shape {list(array.shape)}, but the model wants {tensor.served_shape}")
            if tensor.dtype in WHOLE:
                array = array.astype(tensor.dtype, copy=False)
            elif array.dtype != np.uint8:
                with np.errstate(over="ignore"):  # float64 beyond float32 is infinity, which saturates
                    array = array.astype(np.float32, copy=False)
                if np.isnan(array).any():
                    raise DataError(f"input {tensor.name} has NaN, which has no int8 value")
            ready[tensor.name] = array
        return len(next(iter(ready.values()))), ready

    def _plain(self, given: Mapping[str, NDArray[Any]]) -> tuple[int, Arrays]:
        """As `request`, where there is no accelerator: floats may be NaN."""
        wanted = [tensor.name for tensor in self.inputs]
        if wrong := differences(given, wanted):
            raise DataError(f"model {self.model} {wrong}")
        ready = {tensor.name: self._fitted(tensor, given[tensor.name]) for tensor in self.inputs}
        counts = {name: len(array) for name, array in ready.items()}
        if self.alone:  # a step between models: its inputs may have rows of different things, or none
            return max(1, *counts.values()), ready
        if len(set(counts.values())) > 1:
            raise DataError(f"the inputs have different numbers of samples: {counts}")
        if not (samples := next(iter(counts.values()))):
            raise DataError(f"input {wanted[0]} has no samples")
        return samples, ready

    def _fitted(self, tensor: Tensor, array: NDArray[Any]) -> NDArray[Any]:
        name, picture = tensor.name, self.pictures and array.dtype == np.uint8 and tensor.dtype not in WHOLE
        if picture and array.ndim == len(tensor.shape) + 1 == 4 and not _fits(array.shape[1:], tensor.shape):
            array = array.transpose(0, 3, 1, 2)  # channels last, where the model has them first
        if not _fits(array.shape[1:], tensor.shape):
            raise DataError(f"input {name} has shape {list(array.shape)}, but the model wants {tensor.served_shape}")
        if tensor.dtype in WHOLE:
            return integers(array, tensor.dtype, f"input {name}")
        if array.dtype.kind != "f" and not picture:
            raise DataError(f"input {name} is {array.dtype}, but the model wants {tensor.dtype}")
        with np.errstate(over="ignore"):
            return array if picture else array.astype(tensor.dtype, copy=False)


def described_signature(model: str, found: Description) -> Signature:
    """The signature of a version whose runtime said what it takes and gives."""
    return Signature(model, found.inputs, found.outputs, found.preprocess is not None, None, found)


def _fits(sizes: Sequence[int], wanted: Sequence[int | None]) -> bool:
    return len(sizes) == len(wanted) and all(want in (None, size) for size, want in zip(sizes, wanted, strict=True))


def signature_of(model: str, manifest: Manifest) -> Signature:
    """The signature of an artifact. ArtifactError: an output's size depends on the data, which no batch can hold."""
    exact, outputs = _exact(manifest), list[Tensor]()
    if "detector" in manifest:
        outputs = [*_boxes(manifest["detector"]["labels"])]
    for output in outputs_of(manifest) if not outputs else ():
        if not output.fixed or output.shape is None:
            raise ArtifactError(f"{model}: the size of output {output.name} depends on the data; such models are not served yet")
        kind = output.dtype if output.dtype in WHOLE else "float32"
        joined = output.batch_axis == 0 and len(output.shape) > 0
        rows, shape = (output.shape[0] or 1, output.shape[1:]) if joined else (1, output.shape)
        outputs.append(Tensor(output.name, kind, tuple(shape), rows, output.name in exact))
    inputs = [
        Tensor(entry["name"], entry["dtype"] if entry["dtype"] in WHOLE else "float32", tuple(entry["shape"]))
        for entry in manifest["model_inputs"]
    ]
    return Signature(model, tuple(inputs), tuple(outputs), manifest["preprocess"] is not None, manifest)


def _boxes(classes: int) -> tuple[Tensor, ...]:
    """The outputs of a detector of so many classes: floats are computed behind the accelerator."""
    return (
        Tensor("boxes", "float32", (MOST_BOXES, 4), exact=False),
        Tensor("scores", "float32", (MOST_BOXES,), exact=False),
        Tensor(CLASSES, "int64", (MOST_BOXES,), exact=False, classes=classes),
    )


def _exact(manifest: Manifest) -> set[str]:
    """The tensors that are the same on every computer: no float was computed on the way to them."""
    exact = {entry["name"] for entry in manifest["model_inputs"]}
    for piece in manifest["pieces"]:
        if piece["kind"] == ACCELERATOR:
            if all(port["name"] in exact for port in piece["inputs"]):
                exact |= {port["name"] for port in piece["outputs"]}
            continue
        for operator in piece["operators"]:
            read = [name for name in operator["inputs"] if name and name not in operator["constants"]]
            if operator["op"] in MOVES and all(name in exact for name in read):
                exact |= set(operator["outputs"])
    return exact


def units_of(signature: Signature) -> dict[str, float]:
    """What one step of int8 is worth in the outputs that come from an accelerator as they are."""
    units: dict[str, float] = {}
    for piece in signature.manifest["pieces"] if signature.manifest is not None else ():
        if piece["kind"] == ACCELERATOR:
            units |= {port["name"]: port["scale"] for port in piece["outputs"]}
            continue
        for operator in piece["operators"]:
            read = [units[name] for name in operator["inputs"] if name in units]
            if operator["op"] in MOVES and read:
                units |= dict.fromkeys(operator["outputs"], max(read))
    return {tensor.name: units[tensor.name] for tensor in signature.outputs if tensor.name in units}


def form_of(arrays: Mapping[str, NDArray[Any]]) -> Form:
    """What must be equal for samples to share a batch."""
    return tuple((name, str(array.dtype), array.shape[1:]) for name, array in sorted(arrays.items()))


def rows_of(outputs: Sequence[Tensor], answers: Mapping[str, Sequence[NDArray[Any]]]) -> Arrays:
    """The outputs with the samples on axis 0, from the answer to each sample."""
    found = {}
    for output in outputs:
        shape = [output.rows, *(size or 0 for size in output.shape)]
        found[output.name] = np.concatenate([np.asarray(answer).reshape(shape) for answer in answers[output.name]])
    return found
