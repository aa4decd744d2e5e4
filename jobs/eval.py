"""`cnna.eval`: measures models on data, side by side (docs/eval.md)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from cnna.evaluate.options import File, Options, spelled_out
from cnna.jobs.compile import Compiled
from cnna.jobs.data import table_of
from cnna.jobs.given import Progress, Warn, Warnings, quiet, with_tools
from cnna.jobs.quantize import Quantized
from cnna.jobs.report import GivenArtifact, artifact_of
from cnna.jobs.result import ASIDE, Result, page_html
from cnna.spec.artifact import Artifact, save
from cnna.spec.checks.archive import BEGINNING
from cnna.spec.errors import ArgumentError
from cnna.spec.files import write_bytes, write_text

if TYPE_CHECKING:
    from onnx import ModelProto
    from typing_extensions import Unpack  # boards have Python 3.10, whose own typing lacks it

    from cnna.evaluate.result import Evaluation

Measurable: TypeAlias = "File | bytes | ModelProto | Artifact | Compiled | Quantized"
ONE = (str, bytes, PathLike, Result)  # models that Python could take for several
ONNX, CNNA = ".onnx", ".cnna"


@dataclass(frozen=True, eq=False, kw_only=True)
class Evaluated(Result):
    """Models measured on the same samples. models: each with its metrics, and their standard errors. truth: the model
    whose answers were taken for right, if any. compared_with: the base.

    differences: of each other model from it. samples: the answers to each. evaluation: the same as `cnna.evaluate` has it. notes:
    the lines that `warn` got.
    """

    kind: str
    schema: int
    task: str
    main: str
    data: Mapping[str, Any]
    classes: Sequence[str] | None
    models: Sequence[Mapping[str, Any]]
    truth: str | None
    compared_with: str | None
    differences: Sequence[Mapping[str, Any]]
    samples: Sequence[Mapping[str, Any]]
    evaluation: "Evaluation" = field(metadata=ASIDE)
    notes: tuple[str, ...] = field(default=(), metadata=ASIDE)

    def page(self) -> str:
        """A page of HTML with the samples that changed, with pictures."""
        from cnna.evaluate.page import html

        return html(self.evaluation)

    def save(self, path: File) -> Path:
        """Writes the page. UserError: it cannot be written."""
        write_text(Path(path), self.page())
        return Path(path)

    def __str__(self) -> str:
        from cnna.evaluate.text import lines

        return "\n".join(lines(self.evaluation))

    def _repr_html_(self) -> str:
        return page_html(self.page())


@with_tools
@spelled_out
def eval(  # as the command is called, whatever Python calls so
    models: "Measurable | Sequence[Measurable]",
    data: File,
    *,
    progress: Progress | None = None,
    warn: Warn | None = None,
    **options: "Unpack[Options]",
) -> Evaluated:
    """Measures models on data, each with its standard error, and compares them with one of them.

    models: .cnna and .onnx files or their content, or what `compile` and `quantize` have given. data: samples and what is right
    for them. The options are those of the command (docs/eval.md). judged: the output that counts. device: as of
    `InferenceSession`. metric may be a function of answers and target, decode one of answers and (rows, columns), preprocess a
    `Preprocess`. An evaluation of files that is interrupted goes on from its journal. UserError: a file, an option or a sample is
    at fault. RunError: the accelerator stopped.
    """
    tell, warnings = progress or quiet, Warnings(warn)
    from cnna.evaluate.evaluate import evaluate

    def count(done: int, total: int) -> None:
        tell(done, total, "measuring")

    options["preprocess"] = table_of(options.get("preprocess"))
    with _files(models if isinstance(models, Iterable) and not isinstance(models, ONE) else [models]) as paths:
        tell(0, 0, "opening the models")
        found = evaluate(paths, data, count=count, say=warnings, **options)
    return Evaluated(**found.figures(), evaluation=found, notes=warnings.lines)


@contextmanager
def _files(models: Iterable[Measurable]) -> Iterator[list[Path]]:
    """The models as files; those that are in memory lie in a folder of their own meanwhile. ArgumentError: one is no model."""
    with ExitStack() as held:
        paths = []
        for number, model in enumerate(models, 1):
            if isinstance(model, str | PathLike):
                paths.append(Path(model))
                continue
            kind, content = _content(model)
            paths.append(Path(held.enter_context(TemporaryDirectory())) / f"{kind}-{number}{ONNX if content else CNNA}")
            if content:
                write_bytes(paths[-1], content)
            else:
                save(artifact_of(cast(GivenArtifact, model)), paths[-1])  # `_content` says that it is compiled
        yield paths


def _content(model: Any) -> tuple[str, bytes | None]:
    """What a model in memory is called, and its ONNX; None: it is compiled."""
    if isinstance(model, Compiled | Artifact):
        return "compiled", None
    if isinstance(model, Quantized):
        return "quantized", model.proto.SerializeToString()
    if isinstance(model, bytes):
        return ("compiled", None) if model.startswith(BEGINNING) else ("model", model)
    if type(model).__name__ == "ModelProto":
        return "model", model.SerializeToString()
    raise ArgumentError(f"a model is a path, bytes, a ModelProto, or what compile or quantize gave, not {type(model).__name__}")
