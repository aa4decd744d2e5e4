"""A model's outputs: the answers to several samples as one array, along the axis that the compiler has traced the batch to.

Each sample is answered as the source model answers it alone. The manifest's `model_outputs` say what becomes of several answers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnna.spec.errors import ArtifactError, CheckError
from cnna.spec.manifest import TRACED, Manifest

WHOLE = ("bool", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)))  # types of outputs that stay as they are


@dataclass(frozen=True)
class Output:
    """One output of a model. `shape`: that of the answer to one sample, None for what depends on the data.

    `batch_axis`: along which the answers to several samples are joined; None where they are stacked on a new first axis.
    """

    name: str
    shape: tuple[int | None, ...] | None
    dtype: str
    batch_axis: int | None

    @property
    def fixed(self) -> bool:
        """Whether the answers to all samples have one shape."""
        return self.shape is not None and None not in self.shape

    @property
    def elements(self) -> int | None:
        """Of the answer to one sample; None where that depends on the data."""
        sizes = [size for size in self.shape or () if size is not None]
        return int(np.prod(sizes)) if self.fixed else None

    def names(self, samples: int) -> list[str]:
        """Under which names the answers are found: answers of different shapes are told apart by the sample's number."""
        return [self.name] if self.fixed or samples == 1 else [f"{self.name}.{number}" for number in range(samples)]

    def joined(self, answers: Sequence[NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """By name, from the answer to each sample. ArtifactError: an answer is not of the shape that the manifest says."""
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
        """As `joined`, from one array [N, ...] of all answers in raster order, where `in_order` is true."""
        kind = self.dtype if self.dtype in WHOLE else np.float32
        first, *rest = self.shape or (1,)
        return {self.name: y.reshape(len(y) * int(first or 1), *rest).astype(kind, copy=False)}

    def in_order(self, y: NDArray[Any]) -> bool:
        """Whether the answers, one after another as in y, are the joined answer but for its shape."""
        return self.batch_axis == 0 and self.fixed and self.elements == y[0].size

    def apart(self, arrays: Mapping[str, NDArray[Any]], samples: int) -> list[NDArray[Any]]:
        """The answer to each sample, from what `joined` made of them."""
        found = [arrays[name] for name in self.names(samples)]
        if len(found) == samples:
            return found
        return list(found[0]) if self.batch_axis is None else np.split(found[0], samples, self.batch_axis)


def outputs_of(manifest: Manifest) -> list[Output]:
    """The model's outputs in its order. In files of an older schema shapes lack the first axis, which is the batch."""
    outputs = []
    traced = manifest.get("schema", TRACED) >= TRACED
    for entry in manifest["model_outputs"]:
        shape, axis = entry["shape"], entry["batch_axis"] if traced else 0
        if shape is not None and not traced:
            shape = [1, *shape]
        outputs.append(Output(entry["name"], None if shape is None else tuple(shape), entry["dtype"], axis))
    return outputs


def compare_answers(name: str, found: Mapping[str, NDArray[Any]], other: str, wanted: Mapping[str, NDArray[Any]]) -> str:
    """`NAME == OTHER: N outputs, M elements`. CheckError: where they differ first, with both values."""
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
