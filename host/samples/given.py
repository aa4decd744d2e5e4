"""The samples that a user gives for a model: arrays of a file, or pictures, with the table of docs/preprocess.md for them."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnna.host.samples import pictures
from cnna.host.samples.arrays import Arrays, Note, open_rows, printed, read_once
from cnna.host.samples.rows import Rows
from cnna.spec.errors import DataError, ModelError
from cnna.spec.files import read_bytes
from cnna.spec.samples.preprocess import NORMALISATION, from_entry

FILE = "preprocess.json"  # beside a model


def beside(model: Path) -> dict[str, Any]:
    """The table in a `preprocess.json` beside a model; empty if there is none. ModelError: the file is no such table."""
    path = model.parent / FILE
    if not path.exists():
        return {}
    try:
        found = json.loads(read_bytes(path))
    except ValueError as error:
        raise ModelError(f"{path}: not JSON: {error}") from None
    if not isinstance(found, dict):
        raise ModelError(f"{path}: not a JSON object with keys such as scale, mean and std (docs/preprocess.md)")
    from_entry(found, str(path))
    return found


def read_samples(
    path: Path, inputs: Mapping[str, Sequence[int | None]], types: Mapping[str, str], table: Mapping[str, Any]
) -> Arrays:
    """`open_samples`, all of them."""
    return {name: rows[:] for name, rows in open_samples(path, inputs, types, table).items()}


def open_samples(
    path: Path,
    inputs: Mapping[str, Sequence[int | None]],
    types: Mapping[str, str],
    table: Mapping[str, Any],
    limit: int | None = None,
    note: Note = printed,
) -> dict[str, Rows]:
    """The first `limit` samples: arrays of a file as of `open_rows`, or pictures of a folder or file as uint8 in the model's
    layout.

    types: those of integer inputs. table: how pictures become the input; empty if nothing says so. DataError: as of
    `pictures.read`, or nothing says how pictures become floats.
    """
    if not pictures.are_pictures(path):
        return open_rows(path, inputs, allow_uint8=bool(table), types=types, limit=limit, note=note)
    if len(inputs) != 1:
        raise DataError(f"{path}: pictures are for models of one input; this one has {', '.join(inputs)}: give an .npz")
    ((name, shape),) = inputs.items()
    if name not in types and not any(key in table for key in NORMALISATION):
        raise DataError(
            f"{path}: nothing says how pictures become floats: give --scale, --mean and --std (--scale 1/255 makes 0 to 1), or "
            f"write a {FILE} beside the model"
        )
    how = from_entry(table, str(path), strict=False)
    try:
        pictures.frame(shape, how)
    except DataError as error:
        raise DataError(f"{path}: {error}") from None
    files = pictures.find(path)[:limit]
    if not path.is_dir() and path.suffix.lower() not in pictures.KINDS:
        raise DataError(f"{path}: a picture in another format than {', '.join(pictures.KINDS)}; save it in one of them")
    if path.is_dir() and (rest := pictures.left_out(path)):
        note(f"note: {path}: ignoring {rest}; pictures are {', '.join(pictures.KINDS)} files in one folder")

    def read(start: int, stop: int) -> NDArray[Any]:
        return pictures.as_input(pictures.read(files[start:stop], shape, how), how)

    return {name: read_once(Rows((len(files), *read(0, 1).shape[1:]), np.dtype(np.uint8), read))}
