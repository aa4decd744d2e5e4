"""Arrays that a user gives: .npy or .npz, matched to a model's inputs by name and checked before anything runs."""

import sys
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
from numpy.typing import NDArray

from cnna.host.model.inputs import integers, shared
from cnna.spec.errors import DataError
from cnna.spec.files import read_bytes, writing

Arrays = dict[str, NDArray[Any]]
CLASSES = "y"  # one class number for each sample, as `cnna models` writes them beside the samples: never an input


def read_arrays(
    path: Path, inputs: Mapping[str, Sequence[int | None]], allow_uint8: bool = False, types: Mapping[str, str] | None = None
) -> Arrays:
    """The arrays of a file, by input name: float32 [n, ...] with one n of at least 1 (uint8 where `allow_uint8`).

    inputs: shape of each input without its batch axis; None where any size will do. types: those of integer or bool inputs. A
    single array is a single input, whatever its name; where there are several arrays, the one called `x` is. An array without the
    axis of samples, beside others that have it, serves all samples. DataError: names file, array and what was expected.
    """
    found = shared(_match(path, arrays_of(path), list(inputs)), inputs)
    kinds = types or {}
    arrays = {name: _checked(path, name, found[name], shape, allow_uint8, kinds.get(name)) for name, shape in inputs.items()}
    counts = {name: len(array) for name, array in arrays.items()}
    if len(set(counts.values())) > 1:
        raise DataError(f"{path}: the inputs have different numbers of samples: {counts}")
    if not next(iter(counts.values())):
        raise DataError(f"{path}: has no sample (shape {next(iter(arrays.values())).shape})")
    return arrays


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
    if Path(path).is_dir():
        raise DataError(f"{path}: a folder, not arrays; name the .npy or .npz file in it")
    data = read_bytes(path)
    found = _loaded(path, data) if data.startswith((b"\x93NUMPY", b"PK\x03\x04", b"PK\x05\x06")) else None
    if found is None or not all(isinstance(array, np.ndarray) for array in found.values()):  # bytes: another kind of archive
        raise DataError(f"{path}: not a .npy or .npz file, as numpy.save and numpy.savez write")
    return found


def _loaded(path: Path, data: bytes) -> Arrays:
    """What numpy finds in a file that begins as one of its own."""
    try:
        with BytesIO(data) as file:
            loaded = np.load(file, allow_pickle=False)
            if isinstance(loaded, np.ndarray):
                return {"x": loaded}
            with loaded:
                return {name: loaded[name] for name in loaded.files}
    except Exception as error:  # zipfile, zlib, struct and numpy each raise their own for a damaged file
        if "allow_pickle" in str(error):
            raise DataError(f"{path}: holds objects, not numbers; save it as float32") from None
        raise DataError(f"{path}: cannot be read as numpy arrays ({error}): truncated or damaged; copy or save it again") from None


def _match(path: Path, arrays: Arrays, inputs: list[str]) -> Arrays:
    """Finds the array of each input. A note names the arrays that are left over, unless they are the samples' classes."""
    if not arrays:
        raise DataError(f"{path}: has no array")
    if len(inputs) == 1 and inputs[0] not in arrays:
        name = "x" if "x" in arrays else next(iter(arrays)) if len(arrays) == 1 else None
        if name is None:
            raise DataError(f"{path}: has arrays {', '.join(arrays)}, but the model's input is {inputs[0]} (or x)")
        matched = {inputs[0]: arrays.pop(name)}
    else:
        missing = [name for name in inputs if name not in arrays]
        if missing:
            raise DataError(f"{path}: has no array for input {', '.join(missing)}; it has {', '.join(arrays)}")
        matched = {name: arrays.pop(name) for name in inputs}
    if left := [name for name, array in arrays.items() if name != CLASSES or array.ndim != 1]:
        print(f"note: {path}: ignoring {', '.join(left)}", file=sys.stderr)
    return matched


def _checked(
    path: Path, name: str, array: NDArray[Any], shape: Sequence[int | None], allow_uint8: bool, kind: str | None
) -> NDArray[Any]:
    """The array as float32 (or uint8, or the integers of `kind`). DataError: it does not fit the input."""
    where = f"{path}: input {name}"
    fits = array.ndim == len(shape) + 1 and all(want in (None, have) for want, have in zip(shape, array.shape[1:], strict=True))
    if not fits:
        wanted = ", ".join(["N", *("any" if size is None else str(size) for size in shape)])
        raise DataError(f"{where} has shape {list(array.shape)}, but the model wants [{wanted}]")
    if kind:
        return integers(array, kind, where)
    if array.dtype == np.uint8 and not allow_uint8:
        raise DataError(
            f"{where} is uint8, but the model has no preprocessing: give float32, "
            "or store it with cnna quantize --scale --mean --std"
        )
    if array.dtype == np.uint8:
        return array
    if array.dtype.kind != "f":
        raise DataError(f"{where} is {array.dtype}, but the model wants float32")
    with np.errstate(over="ignore"):
        values = np.ascontiguousarray(array, np.float32)
    if not np.isfinite(values).all():
        raise DataError(f"{where} has values that are not finite in float32 (NaN, infinity or beyond 3.4e38)")
    return values
