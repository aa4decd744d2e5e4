"""`--against M.onnx`: how far a compiled model differs from the float model, or from any other, tensor by tensor.

The inner tensors are the integer reference's, which equal those of emulator and RTL (`--check`). The outputs are those of the
device that ran. The other model runs in onnxruntime. Tensors are matched by name; a fused layer has the name of its last node.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnna.cli.arrays import Arrays
from cnna.host.model.answers import outputs_of
from cnna.host.model.divergence import DECIBELS, Divergence, OutputDivergence, squeezed
from cnna.host.model.inputs import Given
from cnna.host.model.session import InferenceSession
from cnna.spec.artifact import Artifact
from cnna.spec.errors import DataError
from cnna.spec.preprocess import from_entry

WORST = 10  # rows to print
FAR = DECIBELS[-1]  # a tensor with less is called far; int8 alone mostly gives 25 to 45
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Against:
    """What was compared: inner tensors in the order in which they are made, then outputs. known: tensors that the artifact has."""

    name: str
    samples: int
    tensors: Sequence[Divergence]
    outputs: Sequence[OutputDivergence]
    known: int

    @property
    def worst(self) -> list[Divergence]:
        """All tensors that could be compared, the least signal to noise first."""
        inside = {tensor.name for tensor in self.tensors}
        others = [output for output in self.outputs if output.name not in inside and output.unlike < output.samples]
        return sorted([*self.tensors, *others], key=lambda one: one.decibels)

    def figures(self) -> dict[str, Any]:
        """As `--json` has them."""
        return {
            "model": self.name,
            "samples": self.samples,
            "compared": len(self.tensors),
            "known": self.known,
            "worst": self.worst[0].name if self.worst else None,
            "tensors": [tensor.figures() for tensor in self.tensors],
            "outputs": [output.figures() for output in self.outputs],
        }


def compare(
    artifact: Artifact,
    inputs: Mapping[str, Given],
    answers: Mapping[str, NDArray[Any]],
    other: Any,
    progress: Progress | None = None,
) -> Against:
    """What the artifact has answered to `inputs`, and its tensors on the way, beside another model, an `OtherModel`."""
    total, batch = len(next(iter(inputs.values()))), artifact.manifest["batch"]
    apart = {output.name: output.apart(answers, total) for output in outputs_of(artifact.manifest)}
    outputs = {name: OutputDivergence(name) for name in apart if name in other.outputs}
    tensors: dict[str, Divergence] = {}
    known: set[str] = set()
    with InferenceSession(artifact, "reference") as reference:
        for number in range(total):
            if not number % batch:
                reference.run(None, {name: array[number : number + batch] for name, array in inputs.items()})
                ours = {name: x for name, x in reference.tensors().items() if name not in inputs}
                known |= {*ours}
            theirs = other.run(_in_float(artifact, {name: array[number : number + 1] for name, array in inputs.items()}))
            for name, x in ours.items():
                mine = x[number % batch : number % batch + 1]
                if name in theirs and _alike(mine, theirs[name]):
                    tensors.setdefault(name, Divergence(name)).extend(mine, theirs[name])
            for name, output in outputs.items():
                output.compare(apart[name][number], theirs[name])
            if progress:
                progress(number + 1, total)
    return Against(other.name, total, list(tensors.values()), list(outputs.values()), len(known))


def open_other(path: Path, artifact: Artifact, inputs: Mapping[str, Given]) -> Any:
    """The model to compare with. ModelError, DataError: it cannot be read or run, or has other inputs or outputs."""
    from cnna.compiler.frontend.onnx_import import read_model
    from cnna.compiler.frontend.other_model import OtherModel

    other = OtherModel(read_model(path), str(path), names_in(artifact))
    other.check_inputs(list(inputs))
    names = [entry["name"] for entry in artifact.manifest["model_outputs"]]
    if not {*names} & {*other.outputs}:
        raise DataError(f"{path} has outputs {', '.join(other.outputs)}, but the .cnna has {', '.join(names)}: not the same model")
    return other


def names_in(artifact: Artifact) -> set[str]:
    """Every tensor that the artifact's programs make or read."""
    programs = [program.manifest for program in artifact.programs]
    ports = {port["name"] for manifest in programs for port in (*manifest["inputs"], *manifest["outputs"])}
    return ports.union(*(manifest["tensors"] for manifest in programs))


def lines(found: Against) -> list[str]:
    """What is printed: the worst tensors, the first that is far, and the outputs."""
    shown = found.worst[:WORST]
    said = [
        f"against {found.name}: {len(found.tensors)} of the {found.known} tensors on the accelerator are in it by name, "
        f"{found.samples} sample{'s' * (found.samples != 1)}; the worst first"
    ]
    width = max([6, *(len(one.name) for one in shown)])
    said.append(f"{'tensor':{width}}  signal to noise  cosine  greatest  mean (of the range)")
    for one in shown:
        cosine = "     -" if one.cosine is None else f"{one.cosine:6.4f}"
        far = f"{one.greatest / one.span:8.2%}  {one.mean / one.span:.3%}"
        said.append(f"{one.name:{width}}  {_decibels(one):>15}  {cosine}  {far}")
    if first := next((tensor for tensor in found.tensors if tensor.decibels < FAR), None):
        said.append(f"the first below {FAR:g} dB, in the order of the model: {first.name}")
    return [*said, *map(output_line, found.outputs)]


def output_line(output: OutputDivergence) -> str:
    """One output in a line, in words."""
    figures, compared = output.figures(), output.samples - output.unlike
    if not compared:
        return f"output {output.name}: has another shape in each of {output.samples} answers"
    said = f"output {output.name}: "
    if output.whole or output.decibels == math.inf:
        said += f"{figures['equal']:.4%} of its elements are equal"
    else:
        said += f"signal to noise {_decibels(output)}, greatest difference {figures['greatest']:.2%} of the range"
    if output.same_top is not None:
        said += f", the same greatest value in {output.same_top} of {compared}"
    if output.unlike:
        said += f"; {output.unlike} of {output.samples} answers have another shape"
    return said


def _decibels(one: Divergence) -> str:
    """As a user reads it."""
    if math.isfinite(one.decibels):
        return f"{one.decibels:.1f} dB"
    return "equal" if one.decibels > 0 else "no signal"


def _in_float(artifact: Artifact, sample: Arrays) -> Arrays:
    """One sample as the network behind the preprocessing takes it."""
    preprocess = artifact.manifest["preprocess"]
    if preprocess is None:
        return sample
    stored = from_entry(preprocess, "preprocess", strict=False)
    return {name: stored.apply(x) if x.dtype == np.uint8 else x for name, x in sample.items()}


def _alike(ours: NDArray[Any], theirs: NDArray[Any]) -> bool:
    """Whether one is the other but for axes of 1, or for how its axes are joined; numbers of another kind are never."""
    if theirs.dtype.kind != "f" or ours.size != theirs.size:
        return False
    return squeezed(ours.shape) == squeezed(theirs.shape) or ours.ndim != theirs.ndim
