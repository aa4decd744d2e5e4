"""`--against M.onnx`: how far a compiled model differs from the float model, or from any other, tensor by tensor.

The inner tensors are the integer reference's, which equal those of emulator and RTL (`--check`). The outputs are those of the
device that ran. The other model runs in onnxruntime. Tensors are matched by name; a fused layer has the name of its last node.
Those whose names the other model does not have are matched by their values (`matched`). What is equalised is compared as we have
it: so it costs as many decibels here as in the quantiser's report.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnna.host.model.answers import outputs_of
from cnna.host.model.divergence import DECIBELS, Divergence, OutputDivergence
from cnna.host.model.session import InferenceSession
from cnna.host.samples.arrays import Arrays
from cnna.host.samples.rows import Given
from cnna.jobs.given import GivenModel, name_of, source_of
from cnna.jobs.matched import Factors, Match, alike, matched, named
from cnna.jobs.options.metrics import metric_of
from cnna.spec.artifact import Artifact
from cnna.spec.counts import many
from cnna.spec.errors import DataError, ModelError, about_model
from cnna.spec.names import in_line
from cnna.spec.samples.preprocess import from_entry
from cnna.spec.verdicts import TOP1, decibel_text

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
    matches: Mapping[str, Match] = field(default_factory=dict)  # tensors that the other model calls otherwise
    missing: Sequence[str] = ()  # tensors that were not found there

    @property
    def worst(self) -> list[Divergence]:
        """All tensors that could be compared, the least signal to noise first."""
        same = {match.name for match in self.matches.values() if match.scales is None}
        inside = same.union(tensor.name for tensor in self.tensors)
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
            "tensors": [{**tensor.figures(), **self._otherwise(tensor.name)} for tensor in self.tensors],
            "missing": list(self.missing),
            "outputs": [output.figures() for output in self.outputs],
        }

    def _otherwise(self, name: str) -> dict[str, Any]:
        """What the other model calls a tensor, and whether its channels are scaled there; empty: it has the same name."""
        match = self.matches.get(name)
        return {} if match is None else {"other": match.name, "scaled": match.scales is not None}

    def label(self, name: str) -> str:
        """What a row of the table calls a tensor."""
        match = self.matches.get(name)
        if match is None:
            return name
        return f"{name} ({match.name}{', scaled' * (match.scales is not None)})"


def compare(
    artifact: Artifact,
    inputs: Mapping[str, Given],
    answers: Mapping[str, NDArray[Any]],
    other: Any,
    progress: Progress | None = None,
    metrics: Mapping[str, str] | None = None,
    original: Any = None,
) -> Against:
    """What the artifact has answered to `inputs`, and its tensors on the way, beside another model, an `OtherModel`.

    metrics: by which outputs are judged (`metric_options`). original: of the session that has answered. UserError: the metrics name
    an output that is not there.
    """
    total, batch = len(next(iter(inputs.values()))), artifact.manifest["batch"]
    apart = {output.name: output.apart(answers, total) for output in outputs_of(artifact.manifest)}
    there = [name for name in apart if name in other.outputs]
    outputs = {name: OutputDivergence(name, metric=metric_of(name, metrics or {}, there)) for name in there}
    tensors: dict[str, Divergence] = {}
    matches: dict[str, Match] = {}
    factors = factors_of(artifact)
    with InferenceSession(artifact, "reference", original=original) as reference:
        for number in range(total):
            if not number % batch:
                reference.run(None, {name: array[number : number + batch] for name, array in inputs.items()})
                ours = {name: x for name, x in reference.tensors().items() if name not in inputs}
            sample = _in_float(artifact, {name: array[number : number + 1] for name, array in inputs.items()})
            if not number:
                matches, other = _matches({name: x[:1] for name, x in ours.items()}, other, sample, factors)
            theirs = other.run(sample)
            for name, match in matches.items():
                mine = ours[name][number % batch : number % batch + 1]
                if match.name in theirs and alike(mine, theirs[match.name]):
                    tensors.setdefault(name, Divergence(name)).extend(mine, match.as_ours(theirs[match.name], mine.shape[1]))
            for name, output in outputs.items():
                output.compare(apart[name][number], theirs[name])
            if progress:
                progress(number + 1, total)
    otherwise = {name: match for name, match in matches.items() if match.name != name or match.scales is not None}
    missing = [name for name in ours if name not in tensors]
    return Against(other.name, total, [*tensors.values()], [*outputs.values()], len(ours), otherwise, missing)


def _matches(ours: Arrays, other: Any, sample: Arrays, factors: Factors) -> tuple[dict[str, Match], Any]:
    """Where each tensor is in the other model, in the order in which ours are made, and that model with these tensors to show."""
    theirs = other.run(sample)
    known = {n: m for n, m in named(ours, theirs, factors, other.scaled).items() if alike(ours[n], theirs[m.name])}
    if len(known) == len(ours):
        return known, other
    try:
        every = other.showing().run(sample)
    except ModelError:  # onnxruntime does not show all that is inside
        return known, other
    rest, taken = {name: x for name, x in ours.items() if name not in known}, {match.name for match in known.values()}
    found = {**known, **matched(rest, {name: y for name, y in every.items() if name not in taken}, factors)}
    matches = {name: found[name] for name in ours if name in found}
    return matches, other.showing({match.name for match in matches.values()})


def open_other(model: GivenModel, artifact: Artifact, inputs: Mapping[str, Given]) -> Any:
    """The model to compare with. ModelError, DataError: it cannot be read or run, or has other inputs or outputs."""
    from cnna.compiler.frontend.onnx_import import read_model
    from cnna.compiler.frontend.other_model import OtherModel

    before = {name for name, _ in factors_of(artifact).values()}
    path = name_of(model)
    other = OtherModel(read_model(source_of(model), path), path, names_in(artifact) | before)
    other.check_inputs(list(inputs))
    names = [entry["name"] for entry in artifact.manifest["model_outputs"]]
    if not {*names} & {*other.outputs}:
        raise DataError(f"{path} has outputs {', '.join(other.outputs)}, but the .cnna has {', '.join(names)}: not the same model")
    return other


def check_metrics(artifact: Artifact, other: Any, metrics: Mapping[str, str]) -> None:
    """UserError: `metrics` name an output that cannot be compared. Said before a device runs."""
    outputs = [output.name for output in outputs_of(artifact.manifest) if output.name in other.outputs]
    for name in outputs:
        metric_of(name, metrics, outputs)


def factors_of(artifact: Artifact) -> Factors:
    """Which of the artifact's tensors are equalised: the name before, and what each channel was divided by."""
    from onnx import ModelProto

    from cnna.compiler.frontend.scaled_channels import stored

    with about_model(artifact.manifest["name"]):
        return stored(ModelProto.FromString(artifact.model))


def names_in(artifact: Artifact) -> set[str]:
    """Every tensor that the artifact's programs make or read."""
    programs = [program.manifest for program in artifact.programs]
    ports = {port["name"] for manifest in programs for port in (*manifest["inputs"], *manifest["outputs"])}
    return ports.union(*(manifest["tensors"] for manifest in programs))


def lines(found: Against) -> list[str]:
    """What is printed: the worst tensors, the first that is far, and the outputs."""
    shown, more = found.worst[:WORST], found.worst[WORST:]
    scaled = sum(match.scales is not None for match in found.matches.values())
    by_value = sum(match.by_value for match in found.matches.values())
    said = [
        f"against {found.name}: {len(found.tensors)} of the {many(found.known, 'tensor')} on the accelerator are in it, "
        f"{f'{scaled} of them equalised, with other scales of their channels, ' if scaled else ''}"
        f"{f'{by_value} found by value since their names differ, ' if by_value else ''}"
        f"{many(found.samples, 'sample')}; the worst {f'{WORST} ' if more else ''}first"
    ]
    width = max([6, *(len(found.label(one.name)) for one in shown)])
    said.append(f"{'tensor':{width}}  signal to noise  cosine  greatest  mean (of the range)")
    for one in shown:
        cosine = "     -" if one.cosine is None else f"{one.cosine:6.4f}"
        far = f"{one.greatest / one.span:8.2%}  {one.mean / one.span:.3%}"
        said.append(f"{found.label(one.name):{width}}  {_decibels(one):>15}  {cosine}  {far}")
    if more:
        said.append(f"{len(more)} more have at least {_decibels(more[0])}; --json F writes all")
    if first := next((tensor for tensor in found.tensors if tensor.decibels < FAR), None):
        said.append(f"the first below {FAR:g} dB, in the order of the model: {first.name}")
    if found.missing:
        said.append(f"not found in it, by name or by value: {in_line(found.missing)}")
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
    if output.same_top is not None and output.judged.choice[0] == TOP1:
        said += f", the same greatest value in {output.same_top} of {compared}"
    said += f"; judged by {output.judged.said}, since {output.judged.choice[1]}: {output.verdict}"
    if output.unlike:
        said += f"; {output.unlike} of {output.samples} answers have another shape"
    return said


def _decibels(one: Divergence) -> str:
    """As a user reads it."""
    if math.isfinite(one.decibels):
        return decibel_text(one.decibels)
    return "equal" if one.decibels > 0 else "no signal"


def _in_float(artifact: Artifact, sample: Arrays) -> Arrays:
    """One sample as the network behind the preprocessing takes it."""
    preprocess = artifact.manifest["preprocess"]
    if preprocess is None:
        return sample
    stored = from_entry(preprocess, "preprocess", strict=False)
    return {name: stored.apply(x) if x.dtype == np.uint8 else x for name, x in sample.items()}
