"""Every error that cnna raises on purpose, and its exit code.

CnnaError
├── UserError            exit 2: the input is at fault; one line with file, node, limit and remedy
│   ├── ModelError       an ONNX model: unreadable, unsound, or with an operator or size that does not run
│   ├── ArtifactError    a .cnna file: truncated, altered, foreign, of another version
│   ├── DataError        an array, a calibration set, a labels file
│   ├── ArgumentError    an argument of a function is of a wrong kind; a TypeError too
│   ├── ToolError        a program or package that is missing; says what to install
│   ├── UnknownError     a model, version or board that a server does not have
│   └── NoTokenError     a request without the server's token
└── RunError             exit 1: the accelerator stopped, or the simulator failed
    ├── CheckError       exit 1: two executions differ; names layer, tensor and element
    ├── TimedOutError    exit 1: the accelerator stands still; says where
    ├── TurnLostError    exit 1: another process has the accelerator, though this one had not given it back
    ├── BusyError        exit 1: a server's queue is full, or nothing is ready to answer; the request may be sent again
    └── LateError        exit 1: a request's deadline has passed
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from os import PathLike, fspath
from typing import Any


class CnnaError(Exception):
    """The base of all errors; the command line ends with its `exit_code`."""

    exit_code = 1


class UserError(CnnaError):
    """What the user gave cannot be used as it is."""

    exit_code = 2


class ModelError(UserError):
    """A model that cannot be read, quantised or compiled."""


class ArtifactError(UserError):
    """A .cnna file that cannot be trusted or does not fit the device."""


class DataError(UserError):
    """Arrays that do not fit the model."""


class ArgumentError(UserError, TypeError):
    """An argument of a public function has a type that it cannot have."""


class ToolError(UserError):
    """Something that must be installed is missing."""


class UnknownError(UserError):
    """A server has no model, version or board of that name."""


class NoTokenError(UserError):
    """A request lacks the server's token."""


class RunError(CnnaError):
    """The accelerator stopped with an error or did not answer."""


class CheckError(RunError):
    """Two executions of one program differ. figures: of the run, where there is one."""

    figures: Mapping[str, Any] | None = None


@contextmanager
def about_model(path: str | PathLike[str]) -> Iterator[None]:
    """Puts the file's name in front of a ModelError that does not begin with it: passes know nodes, but not files."""
    try:
        yield
    except ModelError as error:
        name = fspath(path)
        raise error if str(error).startswith(name) else ModelError(f"{name}: {error}") from None


class TimedOutError(RunError):
    """The accelerator did not end in time."""


class TurnLostError(RunError):
    """Another process has taken the accelerator meanwhile."""


class BusyError(RunError):
    """Nothing takes a request now. seconds: after which it is worth another attempt; full: because a queue is full."""

    def __init__(self, message: str, seconds: float = 1.0, full: bool = False) -> None:
        super().__init__(message)
        self.seconds, self.full = seconds, full


class LateError(RunError):
    """A request's deadline has passed before its answer was there."""


def reason_of(error: Exception) -> str:
    """What another package's error says, in one line; its type if it says nothing."""
    details: Any = getattr(error, "details", None)  # a gRPC error has these; its own text is many lines long
    return " ".join(str(details() if callable(details) else error).split()) or type(error).__name__
