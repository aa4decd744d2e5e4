"""`golden.npz`: samples and the answers that a version must give to them before it serves, and a board before it returns.

Members are `input.NAME` and `output.NAME`, with the samples on axis 0. What comes from the accelerator must be equal to the bit;
what floats on a CPU have computed may differ by TOLERANCE, since processors round differently.
"""

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnna.serve.models.signature import Arrays, Signature, Tensor
from cnna.spec.errors import DataError, UserError, reason_of

FILE = "golden.npz"
TOLERANCE = {"rtol": 1e-4, "atol": 1e-5}


@dataclass(frozen=True, eq=False)
class Golden:
    """Inputs as a batch takes them, and the outputs that they must give."""

    inputs: Arrays
    outputs: Arrays

    @property
    def samples(self) -> int:
        """How many there are."""
        return len(next(iter(self.inputs.values())))


def read(path: Path, signature: Signature) -> Golden:
    """UserError: the file is no archive of arrays, or they do not fit the model."""
    try:
        with np.load(path, allow_pickle=False) as file:
            members = {name: np.asarray(file[name]) for name in file.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise UserError(f"{path}: no archive of golden answers: {reason_of(error)}; publish the version again") from None
    given = {name.removeprefix("input."): array for name, array in members.items() if name.startswith("input.")}
    wanted = {name.removeprefix("output."): array for name, array in members.items() if name.startswith("output.")}
    try:
        samples, inputs = signature.request(given)
    except DataError as error:
        raise UserError(f"{path}: {error}; publish the version again") from None
    for output in signature.outputs:
        have = wanted.get(output.name)
        shape = (samples * output.rows, *output.shape)
        if have is None or have.shape != shape or have.dtype != output.dtype:
            raise UserError(f"{path}: must have output.{output.name}, {output.dtype} {list(shape)}; publish the version again")
    return Golden(inputs, {output.name: wanted[output.name] for output in signature.outputs})


def write(path: Path, inputs: Mapping[str, NDArray[Any]], outputs: Mapping[str, NDArray[Any]]) -> None:
    """Writes a new file."""
    members = {f"input.{name}": array for name, array in inputs.items()} | {f"output.{name}": y for name, y in outputs.items()}
    with path.open("wb") as file:
        np.savez_compressed(file, **members)


def difference(
    outputs: tuple[Tensor, ...],
    found: Mapping[str, NDArray[Any]],
    wanted: Mapping[str, NDArray[Any]],
    tolerance: Mapping[str, float] | None = None,
) -> str | None:
    """The first place where answers differ from the golden ones, in one line; None: they agree.

    tolerance: a fallback's, by output, beside that of floats.
    """
    for output in outputs:
        have, want = found.get(output.name), wanted[output.name]
        if have is None or (have.shape, have.dtype) != (want.shape, want.dtype):
            what = "missing" if have is None else f"{have.dtype} {list(have.shape)}"
            return f"output {output.name} is {what}, not {want.dtype} {list(want.shape)}"
        exact = (output.exact and tolerance is None) or want.dtype.kind != "f"
        more = {**TOLERANCE, "atol": TOLERANCE["atol"] + (tolerance or {}).get(output.name, 0.0)}
        same = (have == want) | ((have != have) & (want != want)) if exact else np.isclose(have, want, equal_nan=True, **more)
        if not same.all():
            place = tuple(int(index) for index in np.argwhere(~same)[0])
            count = int((~same).sum())
            return (
                f"output {output.name}, element {list(place)}: {have[place]}, not {want[place]}; {count:,} of {same.size:,} differ"
            )
    return None
