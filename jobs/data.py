"""Samples that callers give: a path, arrays, or batches of arrays; and how pictures and uint8 arrays become a model's input."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cnna.host.samples import pictures
from cnna.host.samples.arrays import fitted
from cnna.host.samples.given import open_samples
from cnna.host.samples.preparation import Preparation, preparation
from cnna.host.samples.rows import Rows, rows_of
from cnna.jobs.given import Note, Warn
from cnna.spec.errors import DataError, ModelError
from cnna.spec.samples.preprocess import Preprocess, channels_of, from_entry

Batch: TypeAlias = NDArray[Any] | Mapping[str, NDArray[Any]]  # of the only input, or by input name; samples in the first axis
Data: TypeAlias = str | PathLike[str] | Batch | Iterable[Batch]
Table: TypeAlias = Mapping[str, Any] | Preprocess  # how pictures become the input (docs/preprocess.md)
ONLY = "x"  # what an array without a name is called; an only input takes it, whatever its own name
SAMPLES = "the samples"  # what errors call data that have no file


class Prepared:
    """What is done to the pictures of a folder, in a line and as figures."""

    def __init__(self, found: Preparation, count: int) -> None:
        self._found, self._count = found, count

    def __str__(self) -> str:
        return f"{self._count} picture{'s' * (self._count != 1)}: {self._found.line()}"

    def figures(self) -> dict[str, Any]:
        """For `--json`."""
        return self._found.figures()


def called(data: Data) -> str:
    """What errors call the samples."""
    return fspath(data) if isinstance(data, str | PathLike) else SAMPLES


def opened(
    data: Data,
    inputs: Mapping[str, Sequence[int | None]],
    types: Mapping[str, str],
    table: Mapping[str, Any],
    limit: int | None,
    warn: Warn,
) -> dict[str, Rows]:
    """The first `limit` samples for each input, as of `open_samples`. DataError: they do not fit the model."""

    def note(line: str) -> None:
        warn(Note(line))

    if isinstance(data, str | PathLike):
        return open_samples(Path(data), inputs, types, table, limit, note)
    arrays = {name: rows_of(array) for name, array in gathered(data).items()}
    return fitted(SAMPLES, arrays, inputs, bool(table), types, limit, note)


def gathered(data: Batch | Iterable[Batch]) -> dict[str, NDArray[Any]]:
    """The arrays by name; batches are put together. DataError: batches of different inputs or shapes, or what is no array."""
    batches = [data] if isinstance(data, np.ndarray | Mapping) else [*data]
    named = [each if isinstance(each, Mapping) else {ONLY: each} for each in batches]
    if not named:
        raise DataError(f"{SAMPLES}: there is no batch")
    if any(each.keys() != named[0].keys() for each in named):
        raise DataError(f"{SAMPLES}: batches name different inputs: {', '.join(sorted({', '.join(each) for each in named}))}")
    try:
        arrays = {name: [np.asarray(each[name]) for each in named] for name in named[0]}
        return {name: parts[0] if len(parts) == 1 else np.concatenate(parts) for name, parts in arrays.items()}
    except ValueError as error:
        raise DataError(f"{SAMPLES}: batches cannot be put together: {' '.join(str(error).split())}") from None


def table_of(given: Table | None) -> dict[str, Any]:
    """How pictures become the input, as a table. ModelError: as of `checked_table`."""
    return checked_table(given.entry() if isinstance(given, Preprocess) else {} if given is None else given)


def checked_table(table: Mapping[str, Any]) -> dict[str, Any]:
    """The table. ModelError: it has a value that does not exist."""
    for name, value in table.items():
        from_entry({name: value}, f"--{name}")
    std = np.atleast_1d(table.get("std", 1)).tolist()
    if not all(value > 0 for value in std):
        raise ModelError(f"--std {' '.join(f'{value:g}' for value in std)}: must be above 0 and finite")
    return dict(table)


def prepared(
    data: Data,
    inputs: Mapping[str, Sequence[int | None]],
    types: Mapping[str, str],
    table: Mapping[str, Any],
    limit: int | None = None,
) -> Prepared | None:
    """What `opened` does to the pictures of a folder or file; None for arrays."""
    if not isinstance(data, str | PathLike) or not pictures.are_pictures(Path(data)):
        return None
    ((name, shape),) = inputs.items()
    files = pictures.find(Path(data))[:limit]
    return Prepared(preparation(shape, from_entry(table, fspath(data), strict=False), name in types, files), len(files))


def check_channels(how: Preprocess, inputs: Mapping[str, Sequence[int | None]], where: str, given: Collection[str] = ()) -> None:
    """DataError: means or deviations are neither one number nor one for each channel. where: what says them; given: options."""
    for shape in inputs.values():
        channels = channels_of(tuple(shape), how.layout)
        for name, values in (("mean", how.mean), ("std", how.std)):
            if len(values) not in (1, channels):
                said = f"--{name} {' '.join(f'{value:g}' for value in values)}" if name in given else where
                there = f"{channels} channel{'s' * (channels != 1)}"
                raise DataError(f"{said}: {name} has {len(values)} values, but the input has {there}")
