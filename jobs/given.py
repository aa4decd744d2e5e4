"""What callers give to every job: a model, sizes of its inputs, and callbacks."""

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeAlias, TypeVar

from cnna.jobs.options.arguments import checked
from cnna.spec.extras import missing_tool

if TYPE_CHECKING:
    from onnx import ModelProto

    from cnna.compiler.frontend.source_model import SourceModel
    from cnna.jobs.quantize import Quantized

GivenModel: TypeAlias = "str | PathLike[str] | bytes | ModelProto | Quantized"
# Sizes of inputs that a model leaves open, by the input's name, the batch (1) first; without a name, those of the only input.
Shapes: TypeAlias = Mapping[str, Sequence[int]] | Sequence[int]
Progress: TypeAlias = Callable[[int, int, str], object]  # steps done, all steps (0: not known), what is being done
Warn: TypeAlias = Callable[[str], object]  # takes a line that a user should read
UNNAMED = "the model"  # what errors call a model that has no file

Taken = ParamSpec("Taken")
Given = TypeVar("Given")


class Note(str):
    """A line for the user that is no warning. The command line prints it as it is."""


def with_tools(job: Callable[Taken, Given]) -> Callable[Taken, Given]:
    """The job, with its arguments checked; a ToolError says how to install a package that is missing, as on a board."""
    strict = checked(job)

    @wraps(job)
    def done(*args: Taken.args, **kwargs: Taken.kwargs) -> Given:
        try:
            return strict(*args, **kwargs)
        except ImportError as missing:
            raise missing_tool(missing) from missing

    return done


def name_of(model: object) -> str:
    """What errors call a model."""
    return fspath(model) if isinstance(model, str | PathLike) else UNNAMED


def shaped(model: GivenModel, shapes: Shapes | None, warn: Warn, name: str | None = None) -> "SourceModel":
    """A model whose inputs have these sizes. name: what errors call it, where that is not its path. ModelError: as of `read`."""
    from cnna.compiler.frontend.onnx_import import read

    sizes = shapes if isinstance(shapes, Mapping) else {} if shapes is None else {"": shapes}
    return read(source_of(model), name or name_of(model), {key: tuple(each) for key, each in sizes.items()}, warn)


def source_of(model: GivenModel) -> "Path | bytes | ModelProto":
    """A model as the compiler reads it."""
    if isinstance(model, str | PathLike):
        return Path(model)
    if isinstance(model, bytes):
        return model
    from cnna.jobs.quantize import Quantized

    return model.proto if isinstance(model, Quantized) else model


def native_host() -> bool:
    """Whether what is modelled of the host is of its native library, which this installation has, or of Python alone."""
    from cnna.host.native.library import native

    return native().calls is not None


class Warnings:
    """Collects the lines that a user should read, and hands each on at once: the job may fail after it."""

    def __init__(self, warn: Warn | None) -> None:
        self._warn, self._lines = warn, list[str]()

    def __call__(self, line: str) -> None:
        self._lines.append(line)
        if self._warn is not None:
            self._warn(line)

    @property
    def lines(self) -> tuple[str, ...]:
        """All so far, in order."""
        return tuple(self._lines)


def quiet(done: int, total: int, what: str) -> None:
    """The progress that nobody watches."""
