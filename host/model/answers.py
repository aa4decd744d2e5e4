"""A model's outputs: joins the answers to several samples to one array, along the axis to which the compiler traced the batch.

Each sample is answered as the source model answers it alone. `model_outputs` of the manifest says how answers are joined.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnna.spec.errors import ArtifactError, CheckError
from cnna.spec.manifest import TRACED, Manifest

# Types of outputs that are kept as they are.
WHOLE = ("bool", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)))


@dataclass(frozen=True)
class NodeArg:
    """An input or output. shape: sizes; 'N' stands for the samples, None for a size that depends on the data. type: as in ONNX."""

    name: str
    shape: list[int | str | None] | None
    type: str


@dataclass(frozen=True)
class Output:
    """One output of a model. `shape`: shape of the answer to one sample, with None for sizes that depend on the data.

    `batch_axis`: the axis along which answers to several samples are joined; None: they are stacked on a new first axis.
    """

    name: str
    shape: tuple[int | None, ...] | None
    dtype: str
    batch_axis: int | None

    @property
    def fixed(self) -> bool:
        """Whether the answers to all samples have the same shape."""
        return self.shape is not None and None not in self.shape

    @property
    def elements(self) -> int | None:
        """Elements of the answer to one sample; None if the number depends on the data."""
        sizes = [size for size in self.shape or () if size is not None]
        return int(np.prod(sizes)) if self.fixed else None

    def names(self, samples: int) -> list[str]:
        """The names of the answers. Answers of different shapes are told apart by the sample's number."""
        return [self.name] if self.fixed or samples == 1 else [f"{self.name}.{number}" for number in range(samples)]

    def joined(self, answers: Sequence[NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Arrays by name, from the answer to each sample.

        ArtifactError: an answer does not have the shape that the manifest states.
        """
        kind = self.dtype if self.dtype in WHOLE else np.float32
        for answer in answers:
            if self.fixed and answer.shape != self.shape:
                found, wanted = list(answer.shape), list(self.shape or ())
                raise ArtifactError(f"output {self.name} has shape {found}, but the artifact says {wanted}; compile it again")
        if not self.fixed or len(answers) == 1:
            arrays = list(answers)
        elif self.batch_axis is None:
            arrays = [np.stack(answers)]
        else:
            arrays = [np.concatenate(answers, self.batch_axis)]
        return {name: y.astype(kind, copy=False) for name, y in zip(self.names(len(answers)), arrays, strict=True)}

    def whole(self, y: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """As `joined`, but from one array [N, ...] that has all answers in raster order. Needs `in_order`."""
        kind = self.dtype if self.dtype in WHOLE else np.float32
        first, *rest = self.shape or (1,)
        return {self.name: y.reshape(len(y) * int(first or 1), *rest).astype(kind, copy=False)}

    def in_order(self, y: NDArray[Any]) -> bool:
        """Whether the answers that follow each other in y are the joined answer, except for its shape."""
        return self.batch_axis == 0 and self.fixed and self.elements == y[0].size

    def apart(self, arrays: Mapping[str, NDArray[Any]], samples: int) -> list[NDArray[Any]]:
        """The answer to each sample, from the arrays that `joined` made."""
        found = [arrays[name] for name in self.names(samples)]
        if len(found) == samples:
            return found
        return list(found[0]) if self.batch_axis is None else np.split(found[0], samples, self.batch_axis)


def outputs_of(manifest: Manifest) -> list[Output]:
    """The model's outputs in its order. In files of an older schema, shapes lack the first axis, which is the batch."""
    outputs = []
    traced = manifest.get("schema", TRACED) >= TRACED
    for entry in manifest["model_outputs"]:
        shape, axis = entry["shape"], entry["batch_axis"] if traced else 0
        if shape is not None and not traced:
            shape = [1, *shape]
        outputs.append(Output(entry["name"], None if shape is None else tuple(shape), entry["dtype"], axis))
    return outputs


def named(outputs: Sequence[Output], answers: Sequence[Any]) -> dict[str, NDArray[Any]]:
    """A session's answers by name, as files have them: those that are apart are NAME.0, NAME.1, ..."""
    found: dict[str, NDArray[Any]] = {}
    for output, answer in zip(outputs, answers, strict=True):
        apart = answer if isinstance(answer, list) else [answer]
        found |= zip(output.names(len(apart)), apart, strict=True)
    return found


def compare_answers(name: str, found: Mapping[str, NDArray[Any]], other: str, wanted: Mapping[str, NDArray[Any]]) -> str:
    """Returns `NAME == OTHER: N outputs, M elements`. CheckError: they differ; the message has the first place and both values."""
    for output, want in wanted.items():
        have = found[output]
        if have.shape != want.shape:
            raise CheckError(f"{name} != {other}: output {output} has shape {list(have.shape)}, not {list(want.shape)}")
        differ = np.argwhere(~((have == want) | (np.isnan(have) & np.isnan(want))))
        if len(differ):
            place = tuple(int(index) for index in differ[0])
            raise CheckError(
                f"{name} != {other}: output {output}, element {list(place)}: {have[place]} and {want[place]}; "
                f"{len(differ):,} of {want.size:,} elements differ"
            )
    outputs = f"{len(wanted)} output{'s' * (len(wanted) != 1)}"
    return f"{name} == {other}: {outputs}, {sum(want.size for want in wanted.values())} elements"


def listed(names: Sequence[str], answers: Mapping[str, NDArray[Any]]) -> list[Any]:
    """The answers in the order of `names`. Those whose size depends on the data are apart in `answers`, by NAME.0, NAME.1."""
    try:
        return [*map(answers.__getitem__, names)]
    except KeyError:
        pass
    apart = {name: [y for key, y in answers.items() if key.rpartition(".")[0] == name] for name in names if name not in answers}
    return [apart[name] if name in apart else answers[name] for name in names]


def type_name(dtype: str) -> str:
    """ONNX's name of the type in which arrays are taken and given."""
    return f"tensor({dtype})" if dtype in WHOLE else "tensor(float)"


def node_arg(output: Output) -> NodeArg:
    """An output as `get_outputs` gives it.

    At the axis along which answers are joined it has 'N', or '3*N' where each sample has three rows.
    """
    if output.shape is None:
        return NodeArg(output.name, None, type_name(output.dtype))
    shape: list[int | str | None] = list(output.shape)
    axis = output.batch_axis
    if axis is not None and shape[axis] is not None:
        shape[axis] = "N" if shape[axis] == 1 else f"{shape[axis]}*N"
    return NodeArg(output.name, shape, type_name(output.dtype))
