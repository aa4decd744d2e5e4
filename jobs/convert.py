"""`cnna.convert`: a float model becomes an artifact in one step, which is compared with float on the emulator."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cnna.host.model.answers import named, outputs_of
from cnna.host.model.divergence import OutputDivergence
from cnna.host.model.session import InferenceSession
from cnna.host.samples.arrays import Arrays
from cnna.jobs import against
from cnna.jobs.compile import Compiled, cpu_entries, cpu_lines, values_of
from cnna.jobs.data import Data, Table, called
from cnna.jobs.detector import check_wanted, detector_lines, with_heads
from cnna.jobs.examine import Examination
from cnna.jobs.given import GivenModel, Progress, Shapes, Warn, Warnings, name_of, quiet, with_tools
from cnna.jobs.options.configurations import GivenConfig, config_of
from cnna.jobs.options.metrics import Metrics, metrics_given
from cnna.jobs.quantize import METHODS, Quantized, given, made, quantisation
from cnna.jobs.result import ASIDE
from cnna.spec.artifact import save
from cnna.spec.counts import many
from cnna.spec.errors import UserError, about_model
from cnna.spec.files import check_outputs
from cnna.spec.verdicts import POOR, VERDICTS

if TYPE_CHECKING:
    from cnna.sim.reference.reference import Original

LIMIT = 8  # samples of the calibration data that are compared with float


@dataclass(frozen=True, eq=False, kw_only=True)
class Converted(Compiled):
    """As `Compiled`, with how it was quantised and compared.

    mac_share: of the accelerator; None: the model has no multiply-accumulates. agreement: with float, the worst verdict on an
    output. against: what was compared. advice: a line if the agreement is poor.
    """

    mac_share: float | None
    agreement: str
    quantised: Quantized
    against: against.Against
    advice: str | None = field(metadata=ASIDE)

    def figures(self) -> dict[str, Any]:
        """As of `Compiled`; the quantised model is in no file of its own."""
        found = super().figures()
        found["quantised"].pop("output")
        return found

    def __str__(self) -> str:
        done, whole = self.quantised, self.macs + self.cpu_macs
        lines = [] if done.on_pictures is None else [done.on_pictures]
        share = "no multiply-accumulates"
        if self.mac_share is not None:
            share = f"{self.mac_share:.1%} of {whole:,} multiply-accumulates on the accelerator"
        how = f"quantised with {many(done.samples, 'sample')} ({done.quantiser.how})"
        lines.append(f"{self.output or self.artifact.manifest['name']}: for {self.config}, {how}; {share}")
        if cpu_entries(self.artifact):
            lines += cpu_lines(self.figures())
        lines += [
            *detector_lines(self.artifact),
            str(self.predicted_end_to_end),
            f"compared with float, on {self.against.samples} of the calibration samples:",
        ]
        return "\n".join([*lines, *map(against.output_line, self.against.outputs), f"agreement with float: {self.agreement}"])


@with_tools
def convert(
    model: GivenModel,
    data: Data,
    config: GivenConfig,
    *,
    method: str = "minmax",
    effort: int = 0,
    fc_bits: int | str = 8,
    preprocess: Table | None = None,
    shapes: Shapes | None = None,
    batch: int = 1,
    cpu: bool = True,
    detector: str | None = None,
    metrics: Metrics | None = None,
    limit: int = LIMIT,
    output: str | PathLike[str] | None = None,
    progress: Progress | None = None,
    warn: Warn | None = None,
) -> Converted:
    """Quantises, compiles, and compares `limit` of the samples with float, on the emulator.

    Arguments and errors are those of `quantize` and `compile`; with `detector`, what lies behind a detector's heads stays in float.
    CheckError: the emulator and the reference differ. The artifact is written after all of it, so there is never a half-finished
    file.
    """
    tell, warnings, judged = progress or quiet, Warnings(warn), metrics_given(metrics)
    if limit < 1:
        raise UserError(f"--limit {limit}: must be at least 1")
    check_wanted(detector)
    chosen = config_of(config)
    how = quantisation(method, effort, fc_bits, judged, tell)
    if output is not None:
        check_outputs({"output": Path(output)}, ())
    from cnna.compiler.compile import compile_model
    from cnna.sim.reference.reference import Original

    found = given(model, data, preprocess, shapes, warnings)
    done = made(model, data, found, replace(how, float_decode=detector is not None), Examination(), None, warnings)
    with about_model(name_of(model)):
        tell(0, 0, f"compiling for {chosen.name}")
        artifact = compile_model(done.source, chosen, batch=batch, cpu=cpu, count=tell)
    artifact = with_heads(artifact, detector, warnings)
    compared = _compared(model, Original(artifact, done.source), found.images, limit, judged, tell)
    if output is not None:
        save(artifact, output)
    place = None if output is None else Path(output)
    whole = artifact.manifest["macs"] + artifact.manifest["cpu_macs"]
    verdict = min((each.verdict for each in compared.outputs), key=VERDICTS.index)
    return Converted(
        **values_of(artifact, place),
        mac_share=artifact.manifest["macs"] / whole if whole else None,
        agreement=verdict,
        quantised=done,
        against=compared,
        advice=_advice(compared.outputs, how.effort, how.method, (str(place or "M.cnna"), called(data), name_of(model))),
        notes=warnings.lines,
    )


def _compared(
    model: GivenModel, original: "Original", images: Arrays, limit: int, metrics: Mapping[str, str], tell: Progress
) -> against.Against:
    """Compares some calibration samples on the emulator with float. CheckError: the emulator and the reference differ."""
    artifact = original.artifact
    count = len(next(iter(images.values())))
    # Spread over the file: the first may all be of one class.
    chosen = np.unique(np.linspace(0, count - 1, min(limit, count)).astype(int))
    inputs = {name: array[chosen] for name, array in images.items()}
    other = against.open_other(model, artifact, inputs)
    against.check_metrics(artifact, other, metrics)
    tell(0, 0, f"running {many(len(chosen), 'sample')} on the emulator")
    with InferenceSession(artifact, "emulator", check=True, original=original) as session:
        answers = named(outputs_of(artifact.manifest), session.run(None, inputs))

    def count_compared(done: int, total: int) -> None:
        tell(done, total, "comparing with float")

    return against.compare(artifact, inputs, answers, other, count_compared, metrics, original)


def _advice(outputs: Sequence[OutputDivergence], effort: int, method: str, names: tuple[str, str, str]) -> str | None:
    """What helps where the agreement is poor. names: of the artifact, the samples and the model."""
    poor = [output.name for output in outputs if output.verdict == POOR]
    if not poor:
        return None
    artifact, data, model = names
    more = "" if effort else "--effort 2, "
    others = " or ".join(each for each in METHODS if each != method)
    return (
        f"poor agreement with float (output {', '.join(poor)}): try {more}--method {others}, or calibration data that are more "
        f"typical; cnna run {artifact} --input {data} --device emulator --against {model} says where it begins"
    )
