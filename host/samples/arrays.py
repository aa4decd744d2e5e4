"""Samples that a user gives: .npy or .npz, matched to a model's inputs by name and checked before anything runs."""

import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
from numpy.typing import NDArray

from cnna.host.samples.row_files import rows_in
from cnna.host.samples.rows import Given, Rows, integers, rows_of, shared
from cnna.spec.errors import DataError
from cnna.spec.files import writing

Arrays = dict[str, NDArray[Any]]
Note = Callable[[str], object]  # takes a line about what is left out
CLASSES = "y"  # one class number for each sample, as `cnna models` writes them beside the samples: never an input


def printed(line: str) -> None:
    """Prints a note to standard error."""
    print(line, file=sys.stderr)


def read_arrays(
    path: Path, inputs: Mapping[str, Sequence[int | None]], allow_uint8: bool = False, types: Mapping[str, str] | None = None
) -> Arrays:
    """`open_rows`, all of them."""
    return {name: rows[:] for name, rows in open_rows(path, inputs, allow_uint8, types).items()}


def open_rows(
    path: Path,
    inputs: Mapping[str, Sequence[int | None]],
    allow_uint8: bool = False,
    types: Mapping[str, str] | None = None,
    limit: int | None = None,
    beside: Collection[str] = (),
    note: Note = printed,
) -> dict[str, Rows]:
    """The arrays of a file, by input name: float32 [n, ...] with one n of at least 1 (uint8 where `allow_uint8`).

    They are read a few samples at a time: once now, to see that all can be read and have a value in the type, and again when they
    are asked for. inputs: shape of each input without its batch axis; None where any size will do. types: those of integer or bool
    inputs. limit: how many samples are wanted. beside: names of arrays that the caller reads itself; an input may have one too. A
    single array is a single input, whatever its name; where there are several arrays, the one called `x` is. An array without the
    axis of samples, beside others that have it, serves all samples. DataError: names file, array and what was expected.
    """
    there = {name: rows for name, rows in rows_in(path).items() if name not in beside or name in inputs}
    return fitted(path, there, inputs, allow_uint8, types, limit, note)


def fitted(
    path: str | Path,
    there: Mapping[str, Rows],
    inputs: Mapping[str, Sequence[int | None]],
    allow_uint8: bool = False,
    types: Mapping[str, str] | None = None,
    limit: int | None = None,
    note: Note = printed,
) -> dict[str, Rows]:
    """As `open_rows`, of arrays that are there already. path: what errors call them."""
    found = shared(_match(path, dict(there), list(inputs), note), inputs)
    kinds = types or {}
    given = {name: _first(found[name], limit) for name in inputs}
    arrays = {name: _checked(path, name, given[name], shape, allow_uint8, kinds.get(name)) for name, shape in inputs.items()}
    counts = {name: len(array) for name, array in arrays.items()}
    if len(set(counts.values())) > 1:
        raise DataError(f"{path}: the inputs have different numbers of samples: {counts}")
    if not next(iter(counts.values())):
        raise DataError(f"{path}: has no sample (shape {next(iter(arrays.values())).shape})")
    return arrays


def _first(given: Given, limit: int | None) -> Rows:
    rows = given if isinstance(given, Rows) else rows_of(given)
    return rows.first(limit) if rows.ndim else rows


def write_arrays(path: Path, arrays: Arrays) -> None:
    """Writes an .npz by rename, whatever the suffix. UserError: it cannot be written.

    Arrays may have any name. `np.savez` takes names as keywords, so it refuses those of its own parameters, such as `file`.
    """
    with writing(path) as file:
        whole = BytesIO()  # a zip that cannot be finished, as on a full disk, would complain a second time
        with ZipFile(whole, "w") as archive:
            for name, array in arrays.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)
        file.write(whole.getbuffer())


def arrays_of(path: Path) -> Arrays:
    """Every array of a .npy ("x") or .npz. UserError: it cannot be read; DataError: it is neither."""
    return {name: rows.whole() for name, rows in rows_in(path).items()}


def _match(path: str | Path, arrays: dict[str, Rows], inputs: list[str], note: Note) -> dict[str, Rows]:
    """Finds the array of each input. A note names the arrays that are left over, unless they are the samples' classes."""
    if not arrays:
        raise DataError(f"{path}: has no array")
    if len(inputs) == 1 and inputs[0] not in arrays:
        name = "x" if "x" in arrays else next(iter(arrays)) if len(arrays) == 1 else None
        if name is None:
            also = "" if inputs[0] == "x" else " (or x)"
            raise DataError(f"{path}: has arrays {', '.join(arrays)}, but the model's input is {inputs[0]}{also}")
        matched = {inputs[0]: arrays.pop(name)}
    else:
        missing = [name for name in inputs if name not in arrays]
        if missing:
            raise DataError(f"{path}: has no array for input {', '.join(missing)}; it has {', '.join(arrays)}")
        matched = {name: arrays.pop(name) for name in inputs}
    if left := [name for name, array in arrays.items() if name != CLASSES or array.ndim != 1]:
        note(f"note: {path}: ignoring {', '.join(left)}")
    return matched


def _fixed_batch(rows: Rows, shape: Sequence[int | None]) -> str:
    """What helps where the samples fit but for the first axis of a whole picture: the model has a batch that it depends on."""
    alike = (
        len(shape) > 3 and rows.ndim == len(shape) and all(a in (None, b) for a, b in zip(shape[1:], rows.shape[1:], strict=True))
    )
    return f"; if this {shape[0]} is a batch, export the model for a batch of 1, or of any size" if alike and shape[0] else ""


def _checked(path: str | Path, name: str, rows: Rows, shape: Sequence[int | None], allow_uint8: bool, kind: str | None) -> Rows:
    """The samples as float32 (or uint8, or the integers of `kind`). DataError: they do not fit the input."""
    where = f"{path}: input {name}"
    fits = rows.ndim == len(shape) + 1 and all(want in (None, have) for want, have in zip(shape, rows.shape[1:], strict=True))
    if not fits:
        wanted = ", ".join(["N", *("any" if size is None else str(size) for size in shape)])
        raise DataError(f"{where} has shape {list(rows.shape)}, but the model wants [{wanted}]{_fixed_batch(rows, shape)}")
    if kind:
        return read_once(rows.mapped(partial(integers, dtype=kind, where=where), kind))
    if rows.dtype == np.uint8 and not allow_uint8:
        raise DataError(
            f"{where} is uint8, but nothing says how it becomes floats: give float32, "
            "or --scale, --mean and --std of cnna quantize, run or publish (--scale 1/255 makes 0 to 1)"
        )
    if rows.dtype == np.uint8:
        return read_once(rows)
    if rows.dtype.kind != "f":
        raise DataError(f"{where} is {rows.dtype}, but the model wants float32")
    return read_once(rows.mapped(partial(_finite, where), np.float32))


def _finite(where: str, array: NDArray[Any]) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):
        values = np.ascontiguousarray(array, np.float32)
    if not np.isfinite(values).all():
        raise DataError(f"{where} has values that are not finite in float32 (NaN, infinity or beyond 3.4e38)")
    return values


def read_once(rows: Rows) -> Rows:
    """The same rows, all of them read: what is wrong with one sample is said before any work begins."""
    try:
        for _ in rows.chunks():
            pass
    finally:
        rows.close()
    return rows
