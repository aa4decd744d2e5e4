"""`cnna.publish`: compiles a quantised model for the batches that a server wants, and adds it to a repository as a new version."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from cnna.host.model.answers import WHOLE
from cnna.host.model.session import InferenceSession
from cnna.host.samples.arrays import Arrays
from cnna.jobs.data import Data, Table, called, check_channels, opened, prepared, table_of
from cnna.jobs.detector import check_wanted, with_heads
from cnna.jobs.given import GivenModel, Progress, Shapes, Warn, Warnings, name_of, quiet, shaped, with_tools
from cnna.jobs.options.configurations import GivenConfig, config_of
from cnna.jobs.result import ASIDE, Result
from cnna.spec.artifact import Artifact, stored_model
from cnna.spec.checks.archive import is_archive
from cnna.spec.config import Config
from cnna.spec.counts import many
from cnna.spec.errors import CheckError, UserError, about_model
from cnna.spec.machine import MOST_BATCH
from cnna.spec.samples.preprocess import from_entry

if TYPE_CHECKING:
    from cnna.compiler.frontend.source_model import SourceModel
    from cnna.serve.models.fallback import Spare
    from cnna.serve.models.signature import Signature

BATCHES = (1, 4, 8)
SAMPLES = 4
ADVICE = f"must be numbers within 1..{MOST_BATCH}, such as {','.join(map(str, BATCHES))}"


@dataclass(frozen=True, eq=False, kw_only=True)
class Published(Result):
    """A new version. artifacts, labels: how many. samples: of the golden answers. notes: the lines that `warn` got.

    difference: of the fallback's answers, if there is one. named: outputs whose classes have names. on_pictures: how pictures
    became inputs.
    """

    folder: str
    model: str
    version: str
    artifacts: int
    labels: int
    samples: int = field(metadata=ASIDE)
    difference: float | None = field(metadata=ASIDE)
    named: Sequence[str] = field(metadata=ASIDE)
    on_pictures: str | None = field(metadata=ASIDE)
    notes: tuple[str, ...] = field(metadata=ASIDE)

    def __str__(self) -> str:
        spare = "" if self.difference is None else f"; a fallback whose answers differ by at most {self.difference:.3g}"
        classes = f"; {many(self.labels, 'name')} of classes of {', '.join(self.named)}" if self.labels else ""
        counts = f"{many(self.artifacts, 'artifact')}, golden answers to {many(self.samples, 'sample')}"
        lines = [] if self.on_pictures is None else [self.on_pictures]
        return "\n".join([*lines, f"{self.folder}: {counts}{spare}{classes}"])


@with_tools
def publish(
    model: GivenModel,
    repository: str | PathLike[str],
    name: str,
    configs: GivenConfig | Sequence[GivenConfig],
    *,
    version: str | None = None,
    batches: Sequence[int] = BATCHES,
    data: Data | None = None,
    limit: int = SAMPLES,
    labels: str | PathLike[str] | None = None,
    fallback: str | None = None,
    detector: str | None = None,
    preprocess: Table | None = None,
    shapes: Shapes | None = None,
    progress: Progress | None = None,
    warn: Warn | None = None,
) -> Published:
    """Compiles for each configuration and batch, compares all with golden answers of the reference, and publishes them.

    model: quantised; or the path of a .cnna, whose model is compiled anew. name: of the model there. version: None: one more than
    the highest. data: for the golden answers, `limit` samples of them; None: noise. labels: a file with names of the classes.
    fallback: "onnxruntime" keeps the model too. detector: "auto" finds a detector's heads, so that the version answers boxes,
    scores and classes; None: as a .cnna is. Nothing is added unless all has gone well. UserError: an argument does not fit.
    CheckError: a compiled model does not give its golden answers.
    """
    from cnna.serve.models import golden
    from cnna.serve.models.labels import of_outputs, read_names
    from cnna.serve.models.publication import next_version
    from cnna.serve.models.publication import publish as add
    from cnna.serve.models.signature import signature_of

    tell, warnings, stated, root = progress or quiet, Warnings(warn), table_of(preprocess), Path(repository)
    chosen, sizes = _different(configs), _batches(batches)
    if limit < 1:
        raise UserError(f"--limit {limit}: must be at least 1")
    number, names = next_version(root, name, version), [] if labels is None else read_names(Path(labels))
    check_wanted(detector)
    given, heads = _stored(model)
    wanted = detector or heads
    if wanted and fallback:
        raise UserError(
            f"{name_of(model)}: answers boxes, but --fallback {fallback} would answer the model's own outputs: leave it out"
        )
    with about_model(name_of(model)):
        source = shaped(given, shapes, warnings, name_of(model))
        artifacts = [with_heads(made, wanted, warnings) for made in _compiled(source, chosen, sizes, tell)]
    if detector and "detector" not in artifacts[0].manifest:
        raise UserError(f"{name_of(model)}: published with --detector {detector}, but no heads were found; leave the option out")
    signature = signature_of(name, artifacts[0].manifest)
    classes = of_outputs(names, signature.outputs, f"--labels {labels}") if names else {}
    inputs, on_pictures = _samples(signature, data, limit, stated, (name_of(model), warnings))
    tell(0, 0, "computing golden answers")
    outputs = answers_of(artifacts[0], "reference", inputs)
    if signature.detects and not outputs["scores"].any():
        warnings("no golden sample has a detection, so boards are tested without boxes: give pictures that have some as --input")
    for artifact in artifacts:
        each = f"{artifact.config.name}-b{artifact.manifest['batch']}"
        tell(0, 0, f"comparing {each} with them")
        wrong = golden.difference(signature.outputs, answers_of(artifact, "emulator", inputs), outputs)
        if wrong:
            raise CheckError(f"{name_of(model)}: compiled as {each}, it does not give its golden answers: {wrong}")
    spare = None if fallback is None else _spare(fallback, model, source, signature, (inputs, outputs), tell)
    folder = add(root, name, number, artifacts, inputs, outputs, spare, classes)
    return Published(
        folder=str(folder),
        model=name,
        version=number,
        artifacts=len(artifacts),
        labels=len(names),
        samples=len(next(iter(inputs.values()))),
        difference=None if spare is None else spare.difference,
        named=list(classes),
        on_pictures=on_pictures,
        notes=warnings.lines,
    )


def _stored(model: GivenModel) -> tuple[GivenModel, str | None]:
    """The model to compile, and the detector that it is, if it is the path of a .cnna. ArtifactError: as of `stored_model`."""
    if isinstance(model, str | PathLike) and is_archive(Path(model)):
        stored = stored_model(Path(model))
        return stored.model, stored.detector
    return model, None


def _compiled(source: "SourceModel", configs: Sequence[Config], batches: Sequence[int], tell: Progress) -> list[Artifact]:
    """An artifact for each configuration and batch."""
    from cnna.compiler.compile import compile_model

    found = []
    for config in configs:
        for batch in batches:
            tell(0, 0, f"compiling for {config.name}, batch {batch}")
            found.append(compile_model(source, config, batch, count=tell))
    return found


def _spare(
    runtime: str, model: GivenModel, source: "SourceModel", signature: "Signature", golden: tuple[Arrays, Arrays], tell: Progress
) -> "Spare":
    """The model as a fallback. UserError: there is no such runtime. CheckError: its answers are others."""
    from cnna.serve.models import fallback

    if runtime not in fallback.NEEDS_FILE:
        raise UserError(f"--fallback {runtime}: there are {', '.join(fallback.NEEDS_FILE)}")
    with about_model(name_of(model)):
        tell(0, 0, f"comparing {runtime} with them")
        return fallback.measured(runtime, source.proto.SerializeToString(), signature, *golden)


def _batches(given: Sequence[int]) -> list[int]:
    """UserError: there is none, or one that no program takes."""
    if not given or not all(1 <= batch <= MOST_BATCH for batch in given):
        raise UserError(f"--batches {','.join(map(str, given))}: {ADVICE}")
    return sorted(set(map(int, given)))


def _different(given: GivenConfig | Sequence[GivenConfig]) -> list[Config]:
    """UserError: there is none, or two have the same name, which names their files."""
    several = [given] if isinstance(given, str | PathLike | Config) else given
    configs = [config_of(config) for config in several]
    names = [config.name for config in configs]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UserError(f"--config {twice}: is given twice")
    if not configs:
        raise UserError("--config: name at least one")
    return configs


def _samples(
    signature: "Signature", data: Data | None, limit: int, stated: Table, about: tuple[str, Warn]
) -> tuple[Arrays, str | None]:
    """Those of a caller, with pictures as floats, or noise that is the same on every computer; and what is done to pictures."""
    shapes = {tensor.name: tensor.shape for tensor in signature.inputs}
    types = {tensor.name: tensor.dtype for tensor in signature.inputs if tensor.dtype in WHOLE}
    if data is None:
        rng = np.random.default_rng(1)
        sizes = {name: [limit, *(size or 1 for size in shape)] for name, shape in shapes.items()}
        return {
            name: np.zeros(size, types[name]) if name in types else rng.normal(size=size).astype(np.float32)
            for name, size in sizes.items()
        }, None
    (where, warn), given = about, table_of(stated)
    table = {**(signature.preprocess or {}), **given}
    how = from_entry(table, where, strict=False)
    check_channels(how, shapes, where, given)
    rows = opened(data, shapes, types, table, limit, warn)
    pictures = prepared(data, shapes, types, table, limit)
    found = {name: one[:] for name, one in rows.items()}
    ready = {name: how.apply(x) if x.dtype == np.uint8 and name not in types else x for name, x in found.items()}
    return ready, None if pictures is None else f"{called(data)}: {pictures}"


def answers_of(artifact: Artifact, device: str, inputs: Arrays) -> Arrays:
    """A device's answers, with the samples on axis 0."""
    from cnna.serve.models.answering import Answering

    answering, samples = Answering(artifact.manifest["name"], artifact), len(next(iter(inputs.values())))
    with InferenceSession(answering.artifact, device) as session:
        return answering.rows(session.run(None, inputs), samples)
