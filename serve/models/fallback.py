"""What answers for a version where no board can: `fallback: onnxruntime` in model.yaml, and `model.onnx` in the version.

`fallback.json`, which `cnna publish --fallback` writes beside it, has its digest, and how far its answers may be from the golden
ones. It computes in floats what an accelerator computes in integers, so its answers may differ by a unit.
"""

import hashlib
import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cnna.serve.models import golden
from cnna.serve.models.signature import Arrays, Signature, units_of
from cnna.serve.models.version import Compiled, Version
from cnna.serve.runtimes.describe import described
from cnna.serve.runtimes.installed import opened
from cnna.serve.runtimes.interface import Call, Description, Place, Runtime
from cnna.spec.checks.json_kinds import is_number
from cnna.spec.errors import ArtifactError, CheckError
from cnna.spec.files import read_bytes

FILE, MODEL = "fallback.json", "model.onnx"
NEEDS_FILE = ("onnxruntime",)  # the fallbacks that have a model in the version


@dataclass(frozen=True)
class Spare:
    """A model that is published beside artifacts. tolerance: by output. difference: the greatest to the golden answers."""

    model: bytes
    tolerance: Mapping[str, float]
    difference: float


def measured(runtime: str, model: bytes, signature: Signature, inputs: Arrays, outputs: Arrays) -> Spare:
    """Compares a model's answers with golden ones. Its tolerance is a unit of int8, or twice the difference if that is more.

    Where no unit is known, since floats were computed behind the accelerator, 1 % of the greatest value is taken for it.

    ArtifactError: it takes or gives other tensors than the artifacts. CheckError: whole numbers differ.
    """
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / MODEL).write_bytes(model)
        one = opened(runtime, Place(signature.model, "", Path(folder)))
        described_here = one.describe()
        if (wrong := _different(signature, described_here)) is not None:
            raise ArtifactError(f"fallback {runtime}: the model {wrong}")
        found = _in_batches(one, described_here.batch, inputs)
        one.close()
    units, tolerance, most = units_of(signature), dict[str, float](), 0.0
    for tensor in signature.outputs:
        want = outputs[tensor.name].astype(np.float64)
        apart = _greatest_difference(f"fallback {runtime}: output {tensor.name}", found[tensor.name].astype(np.float64), want)
        unit = units.get(tensor.name, float(np.abs(want[np.isfinite(want)]).max(initial=0.0)) / 100)
        tolerance[tensor.name], most = max(unit, 2 * apart), max(most, apart)
    if wrong := golden.difference(signature.outputs, found, outputs, tolerance):
        raise CheckError(f"fallback {runtime}: {wrong}")
    return Spare(model, tolerance, most)


def _greatest_difference(where: str, found: NDArray[np.float64], want: NDArray[np.float64]) -> float:
    """CheckError: a value is finite on one side only, so that no tolerance would do."""
    if found.shape != want.shape:
        raise CheckError(f"{where} is {list(found.shape)}, not {list(want.shape)}")
    differ = ~((found == want) | (np.isnan(found) & np.isnan(want)))
    apart = np.abs(found[differ] - want[differ])
    if not np.isfinite(apart).all():
        raise CheckError(f"{where} has NaN or infinity where the golden answer has another value")
    return float(apart.max(initial=0.0))


def write(folder: Path, spare: Spare) -> None:
    """Adds a model and its description to a version that is being published."""
    (folder / MODEL).write_bytes(spare.model)
    said = {"model": MODEL, "sha256": hashlib.sha256(spare.model).hexdigest(), "tolerance": dict(spare.tolerance)}
    (folder / FILE).write_text(json.dumps(said, indent=1) + "\n")


def _in_batches(one: Runtime, batch: int, inputs: Arrays) -> Arrays:
    """A runtime's answers to any number of samples."""
    samples = len(next(iter(inputs.values())))
    parts = []
    for start in range(0, samples, batch):
        parts.append(one.run({name: array[start : start + batch] for name, array in inputs.items()}, Call()))
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def with_fallback(version: Version, runtime: str, place: Place) -> Version:
    """The version, with another runtime that stands in for its own.

    ArtifactError: the version has no model for it, or another one than was published, or it takes or gives other tensors.
    """
    tolerance = _tolerance(place.folder, version.signature) if runtime in NEEDS_FILE else None
    found = described(runtime, place)
    if (wrong := _different(version.signature, found)) is not None:
        raise ArtifactError(f"{place.folder}: fallback {runtime}: {wrong}; publish the version again")
    compiled = Compiled(place.folder, runtime, found.batch, 0, found.seconds, runtime, place, found.bounded, tolerance)
    return replace(version, compiled={**version.compiled, runtime: (compiled,)})


def _tolerance(folder: Path, signature: Signature) -> dict[str, float]:
    path = folder / FILE
    if not path.is_file():
        raise ArtifactError(f"{path}: is not there, but model.yaml says fallback; publish the version with --fallback onnxruntime")
    try:
        said = json.loads(read_bytes(path))
        digest, tolerance = said["sha256"], {tensor.name: said["tolerance"][tensor.name] for tensor in signature.outputs}
    except (ValueError, KeyError, TypeError):
        raise ArtifactError(f"{path}: has no digest, or no tolerance for an output; publish the version again") from None
    if not all(is_number(value) and value >= 0 for value in tolerance.values()):
        raise ArtifactError(f"{path}: a tolerance is no number from 0 up; publish the version again")
    if hashlib.sha256(read_bytes(folder / MODEL)).hexdigest() != digest:
        raise ArtifactError(f"{folder / MODEL}: is not what was published: its SHA-256 differs; publish the version again")
    return tolerance


def _different(signature: Signature, found: Description) -> str | None:
    """How a fallback's tensors differ from the version's."""
    for what, wanted, have in (("input", signature.inputs, found.inputs), ("output", signature.outputs, found.outputs)):
        there = {tensor.name: tensor for tensor in have}
        if {tensor.name for tensor in wanted} != set(there):
            return f"has {what}s {', '.join(there)}, not {', '.join(tensor.name for tensor in wanted)}"
        for tensor in wanted:
            other = there[tensor.name]
            if (other.dtype, other.shape, other.rows) != (tensor.dtype, tensor.shape, tensor.rows):
                return f"{what} {tensor.name} is {other.dtype} {other.served_shape}, not {tensor.dtype} {tensor.served_shape}"
    return None
