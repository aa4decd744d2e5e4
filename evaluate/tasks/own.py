"""A function of the user's own: `--metric FILE.py:NAME`, called as NAME(answers, target), gives a number or a dict of numbers."""

import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cnna.evaluate.tasks.task import Answers, Asked, Outline, Record, Targets, Values, Whole
from cnna.spec.errors import DataError, UserError
from cnna.spec.names import in_line


@dataclass(frozen=True)
class Own:
    """A metric that is a function. where: what messages call it. main: the name of its figure, or of its first one."""

    function: Callable[..., Any]
    where: str
    main: str
    name: str = "own"
    percent: bool = False

    def check(self, model: Asked, answers: Answers, data: Targets) -> None:
        """Nothing: the function takes what it likes."""

    def record(self, model: Asked, answers: Answers, target: Any) -> Record:
        """The numbers. DataError: the function has failed, or gives something else."""
        found = called(self.where, self.function, dict(answers), target)
        numbers = dict(found) if isinstance(found, Mapping) else {self.main: found}
        record = {}
        for name, value in numbers.items():
            try:
                record[str(name)] = _number(float(value))
            except (TypeError, ValueError, OverflowError):
                raise DataError(
                    f"{self.where}: gave {value!r:.60} for {name}; it must give a number, or a dict of numbers"
                ) from None
        return {"values": record, "nan": bool(np.isnan(list(record.values())).any())}

    def scores(self, records: Sequence[Record], data: Targets) -> dict[str, Values]:
        """The numbers of each sample; NaN where the function gave none."""
        names = dict.fromkeys(name for record in records for name in record["values"])
        return {name: np.array([_number(record["values"].get(name)) for record in records]) for name in names}

    def wholes(self, records: Sequence[Record], data: Targets) -> dict[str, Whole]:
        """None."""
        return {}

    def alike(self, record: Record, other: Record) -> float | None:
        """Nothing."""
        return None

    def words(self, record: Record, data: Targets) -> str:
        """The numbers."""
        return ", ".join(f"{name} {_number(value):.4g}" for name, value in record["values"].items())

    def right(self, target: Any, data: Targets) -> str:
        """The target, if it is short."""
        return "" if target is None or np.size(target) > 1 else str(target)

    def outlines(self, record: Record | None, target: Any, data: Targets) -> list[Outline]:
        """Nothing."""
        return []


def _number(value: Any) -> float:
    """A number of a record, where None stands for NaN. What is infinite has no mean, so it is NaN as well."""
    number = np.nan if value is None else float(value)
    return number if np.isfinite(number) else np.nan


def called(where: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """What a user's function gives. DataError: it has raised; the line says what, and in which line of its file."""
    try:
        return function(*arguments)
    except (Exception, SystemExit) as error:  # a script may end its process as well
        file = _file_of(function)
        trace, line = error.__traceback__, None
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == file:
                line = trace.tb_lineno
            trace = trace.tb_next
        place = "" if line is None else f" (line {line})"
        raise DataError(f"{where}: {type(error).__name__}: {error}{place}") from None


def _file_of(function: Callable[..., Any]) -> str | None:
    """The file of a function; None: it is of no file, such as one that is built in."""
    try:
        return inspect.getsourcefile(function)
    except TypeError:
        return None


def function_of(text: str, option: str) -> Callable[..., Any]:
    """The function that FILE.py:NAME names. UserError: there is no such file or function, or the file fails when it is read."""
    file, _, name = text.rpartition(":")
    path = Path(file)
    if not file or path.suffix != ".py":
        raise UserError(f"{option} {text}: a function is named as FILE.py:NAME")
    if not path.is_file():
        raise UserError(f"{option} {text}: {path}: no such file")
    spec = importlib.util.spec_from_file_location(f"cnna_user_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    before = list(sys.path)
    try:
        sys.path.insert(0, str(path.parent.absolute()))  # it may import what lies beside it
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise UserError(f"{option} {text}: {path} cannot be read: {type(error).__name__}: {error}") from None
    finally:
        sys.path[:] = before
    found = getattr(module, name, None)
    if not callable(found):
        there = [one for one, value in vars(module).items() if inspect.isfunction(value) and value.__module__ == module.__name__]
        raise UserError(f"{option} {text}: {path} has no function '{name}'; it has {in_line(there)}")
    return found
