"""Of which kinds the arguments of jobs are: a wrong kind is said in one line, before any work, and not by whatever meets it first.

`KINDS` has one entry for each name of a parameter, since a name means the same in every job; those that a job means otherwise stand
in OWN. Values, such as a batch of 0, are checked by the job that knows their limits.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from functools import wraps
from numbers import Integral, Real
from os import PathLike, fspath
from typing import Any, NamedTuple, ParamSpec, TypeVar

import numpy as np

from cnna.spec.config import Config
from cnna.spec.errors import ArgumentError
from cnna.spec.names import in_short
from cnna.spec.samples.preprocess import Preprocess

ONNX = "ModelProto"  # a type's name: the package may be missing, and is not imported for this

Taken = ParamSpec("Taken")
Given = TypeVar("Given")


class Kind(NamedTuple):
    """What may be given. words: for the message."""

    words: str
    fits: Callable[[Any], bool]


def check(job: Callable[..., Any], signature: inspect.Signature, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """ArgumentError: an argument is of a wrong kind. TypeError: one is missing, or there is none of that name."""
    own = OWN.get(job.__name__, {})
    for name, value in signature.bind(*args, **kwargs).arguments.items():
        kind = own.get(name) or KINDS.get(name)
        default = signature.parameters[name].default
        if kind is None or value is default or (value is None and default is None) or kind.fits(value):
            continue
        nothing = ", or None" if default is None else ""
        raise ArgumentError(f"{name} must be {kind.words}{nothing}, not {in_short(value)}")


def checked(job: Callable[Taken, Given]) -> Callable[Taken, Given]:
    """The job, or method, which refuses arguments of a wrong kind."""
    signature = inspect.signature(job)

    @wraps(job)
    def done(*args: Taken.args, **kwargs: Taken.kwargs) -> Given:
        check(job, signature, args, kwargs)
        return job(*args, **kwargs)

    return done


def check_fields(value: Any) -> None:
    """As `check`, for the fields of a dataclass of options, whose defaults are None."""
    for field in fields(value):
        given, kind = getattr(value, field.name), KINDS[field.name]
        if given is not None and not kind.fits(given):
            raise ArgumentError(f"{field.name} must be {kind.words}, or None, not {in_short(given)}")


def is_path(value: Any) -> bool:
    """Whether it names a file or folder."""
    return isinstance(value, str | PathLike)


def _is_place(value: Any) -> bool:
    """Whether a file or folder may have that name; a file that is read, and is not there, has an error of its own."""
    return is_path(value) and "\0" not in str(fspath(value))


def is_whole(value: Any) -> bool:
    """Whether it is a whole number; True and False are none."""
    return isinstance(value, Integral) and not isinstance(value, bool | np.bool_)


def is_number(value: Any) -> bool:
    """Whether it is a number that can be compared."""
    return isinstance(value, Real) and not isinstance(value, bool | np.bool_)


def is_one(value: Any, *names: str) -> bool:
    """Whether it is of one of our own types, or a ModelProto, by name: their modules import this one, or may be missing."""
    bases = [base for base in type(value).__mro__ if base.__name__ == ONNX or base.__module__.startswith("cnna.")]
    return any(base.__name__ in names for base in bases)


def _is_model(value: Any) -> bool:
    return is_path(value) or isinstance(value, bytes) or is_one(value, ONNX, "Quantized")


def _are_models(value: Any) -> bool:
    several = isinstance(value, Sequence) and not isinstance(value, str | bytes)
    return _is_model(value) or (several and all(map(_is_model, value)))


def _are_numbers(value: Mapping[Any, Any]) -> bool:
    return all(isinstance(name, str) and is_number(one) for name, one in value.items())


def _is_artifact(value: Any) -> bool:
    return is_path(value) or isinstance(value, bytes) or is_one(value, "Compiled", "Artifact")


def _is_shapes(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(isinstance(name, str) and _are_sizes(sizes) for name, sizes in value.items())
    return _are_sizes(value)


def _are_sizes(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes) and all(map(is_whole, value))


def _is_data(value: Any) -> bool:
    return is_path(value) or (isinstance(value, np.ndarray | Mapping | Iterable) and not isinstance(value, bytes))


def _are_configs(value: Any) -> bool:
    several = value if isinstance(value, Sequence) and not isinstance(value, str | bytes) else [value]
    return all(isinstance(one, str | PathLike | Config) for one in several)


def _are_paths(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes) and all(map(_is_place, value))


def _are_texts(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, Sequence) and all(isinstance(one, str) for one in value))


def _is_metrics(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(isinstance(one, str) for pair in value.items() for one in pair)
    return isinstance(value, str)


def _is_comparable(value: Any) -> bool:
    return is_path(value) or isinstance(value, Mapping) or is_one(value, "Reported", "Ran")


def _is_evaluation(value: Any) -> bool:
    return is_path(value) or isinstance(value, Mapping) or is_one(value, "Evaluated")


def _is_benchmark(value: Any) -> bool:
    return is_path(value) or isinstance(value, Mapping) or is_one(value, "Benched")


def _is_function(value: Any) -> bool:
    return isinstance(value, str) or callable(value)


def _of(*types: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, types)


PATH, WHOLE, NUMBER, FLAG, TEXT = (
    Kind("a path", _is_place),
    Kind("a whole number", is_whole),
    Kind("a number", is_number),
    Kind("True or False", _of(bool, np.bool_)),
    Kind("a text", lambda value: isinstance(value, str) and value != "" and "\0" not in value),
)
CALLBACK = Kind("a function", callable)
MODEL = Kind("a path, the bytes of an ONNX file, an onnx.ModelProto or what cnna.quantize gave", _is_model)
ARTIFACT = Kind("the path of a .cnna, its bytes, a Compiled or an Artifact", _is_artifact)
TABLE = Kind("a table, such as {'scale': 1 / 255}, or a Preprocess", _of(Mapping, Preprocess))
FUNCTION = Kind("FILE.py:NAME, or a function", _is_function)
KINDS: Mapping[str, Kind] = {
    **dict.fromkeys(
        ("output", "dump", "trace", "cache", "journal", "images", "base", "truth", "repository", "path", "folder", "checkpoint"),
        PATH,
    ),
    **dict.fromkeys(
        (
            "batch",
            "dsp",
            "bram",
            "uram",
            "lut",
            "jobs",
            "limit",
            "seed",
            "top",
            "offset",
            "ignored",
            "effort",
            "from_cycle",
            "to_cycle",
        ),
        WHOLE,
    ),
    **dict.fromkeys(("bytes_per_cycle", "latency", "mts", "tensors", "count", "jobs", "tries", "epochs"), WHOLE),
    **dict.fromkeys(("min_score", "overlap", "search", "link", "target_fps", "target_ms", "fewer_clocks", "max_loss"), NUMBER),
    **dict.fromkeys(("cpu", "examine", "check", "skip_unreadable", "resume", "again"), FLAG),
    **dict.fromkeys(
        (
            "method",
            "detector",
            "board",
            "layer",
            "module",
            "at",
            "address",
            "name",
            "version",
            "fallback",
            "task",
            "judged",
            "coordinates",
            "fit",
            "road",
            "objective",
            "executor",
            "sampler",
        ),
        TEXT,
    ),
    **dict.fromkeys(("progress", "warn", "found"), CALLBACK),
    **dict.fromkeys(("metric", "decode"), FUNCTION),
    "against": MODEL,
    "artifact": ARTIFACT,
    "batches": Kind("batches, such as (1, 4, 8)", _are_sizes),
    "configs": Kind("a configuration, or several, each as text, a cnna.Config, or the path of a .cnna or .json", _are_configs),
    "columns": Kind("two columns, as in 'file,label'", _are_texts),
    "config": Kind("a configuration as text, a cnna.Config, or the path of a .cnna or .json", _of(str, PathLike, Config)),
    **dict.fromkeys(("data", "test", "finetune"), Kind("a path, an array, arrays by input name, or batches of these", _is_data)),
    "ddr": Kind("a cnna.Ddr, such as cnna.Ddr(bytes_per_cycle=16)", lambda one: is_one(one, "Ddr")),
    "device_options": Kind("a table of options of the device", _of(Mapping)),
    "fc_bits": Kind("8, 4 or 'auto'", lambda one: is_whole(one) or isinstance(one, str)),
    "labels": Kind("a path, or an array of classes", _of(str, PathLike, np.ndarray)),
    "measured": Kind("a path or figures of a run", _of(str, PathLike, Mapping)),
    "matrix": Kind("a path of a YAML file, or the same as a table", _of(str, PathLike, Mapping)),
    "metrics": Kind("the name of a metric, or names by output", _is_metrics),
    "model": MODEL,
    "preprocess": TABLE,
    **dict.fromkeys(
        ("axes", "sweep"), Kind("names, such as ['dsp', 'bram']", lambda value: not isinstance(value, str) and _are_texts(value))
    ),
    "choices": PATH,
    "reports": Kind("paths, such as ['p.html', 'p.json']", _are_paths),
    "energy": Kind("numbers by name, such as {'mac': 0.3, 'ddr': 160}", lambda one: isinstance(one, Mapping) and _are_numbers(one)),
    "weights": Kind("numbers, such as (3, 1)", lambda value: isinstance(value, Sequence) and all(map(is_number, value))),
    "ddr_traffic": NUMBER,
    **dict.fromkeys(
        ("clock", "ddr_speed"),
        Kind("whole numbers, such as (125, 250)", lambda value: isinstance(value, Sequence) and all(map(is_whole, value))),
    ),
    "shapes": Kind("sizes by input name, such as {'x': (1, 3, 64, 64)}, or the sizes of the only input", _is_shapes),
    **dict.fromkeys(("first", "second"), Kind("a path, a Reported, a Ran, or figures", _is_comparable)),
}
ANY_MODEL = Kind(f"{MODEL.words}; or a .cnna, a Compiled or an Artifact", lambda one: _is_model(one) or _is_artifact(one))
OWN: Mapping[str, Mapping[str, Kind]] = {
    "compile": {"model": ANY_MODEL},
    "compare_evaluations": dict.fromkeys(("first", "second"), Kind("a path, an Evaluated, or figures", _is_evaluation)),
    "explore": {"model": Kind(f"{MODEL.words}; or several", _are_models), **dict.fromkeys(("search", "confirm_size"), WHOLE)},
    "compare_benchmarks": dict.fromkeys(("first", "second"), Kind("a path, a Benched, or figures", _is_benchmark)),
    "publish": {"labels": PATH},
    "eval": {"data": PATH, "labels": PATH},
    "load": {"path": Kind("a path, or the bytes of a .cnna", lambda one: is_path(one) or isinstance(one, bytes))},
}
