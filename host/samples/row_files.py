"""The arrays of .npy and .npz files, read a few samples at a time."""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import IO, Any
from zipfile import ZipFile

import numpy as np
from numpy.typing import NDArray

from cnna.host.samples.rows import Rows, rows_of
from cnna.spec.errors import DataError
from cnna.spec.files import read_bytes

NPY, ZIPS = b"\x93NUMPY", (b"PK\x03\x04", b"PK\x05\x06")
HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
SUFFIX = ".npy"  # of a .npz's members
Opener = Callable[[], AbstractContextManager[IO[bytes]]]


def rows_in(path: Path) -> dict[str, Rows]:
    """Every array of a .npy ("x") or .npz. UserError: it cannot be read. DataError: it is neither, or what is read is damaged."""
    path = Path(path)
    if os.path.isdir(path):
        raise DataError(f"{path}: a folder, not arrays; name the .npy or .npz file in it")
    whole = None if os.path.isfile(path) and os.access(path, os.R_OK) else read_bytes(path)  # a pipe, or nothing that can be read

    def opened() -> AbstractContextManager[IO[bytes]]:
        return path.open("rb") if whole is None else BytesIO(whole)

    with opened() as file:
        start = file.read(len(NPY))
    if start == NPY:
        return {"x": _rows(path, opened)}
    if not start.startswith(ZIPS):
        raise _neither(path)
    source = path if whole is None else BytesIO(whole)
    with _damage(path), ZipFile(source) as archive:
        names = archive.namelist()
    arrays = [name.removesuffix(SUFFIX) for name in names]
    if twice := next((name for name in arrays if arrays.count(name) > 1), None):
        raise DataError(f"{path}: has the array {twice} twice; save it again with each name once")
    return {name.removesuffix(SUFFIX): _rows(path, partial(_member, source, name)) for name in names}


@contextmanager
def _member(source: Path | IO[bytes], name: str) -> Iterator[IO[bytes]]:
    with ZipFile(source) as archive, archive.open(name) as file:
        yield file


def _rows(path: Path, opened: Opener) -> Rows:
    """One array; whole where its samples do not follow each other, or are not all there is.

    DataError: what is read is no array, or is damaged.
    """
    with _damage(path), opened() as file:
        if file.read(len(NPY)) != NPY:
            raise _neither(path)  # another kind of archive
    with _damage(path), opened() as file:
        version = np.lib.format.read_magic(file)
        if version in HEADERS:
            shape, columns_first, dtype = HEADERS[version](file)
            if shape and not columns_first and not dtype.hasobject and 0 not in shape:
                reader = _Reader(path, opened, file.tell(), tuple(shape), dtype)
                return Rows(tuple(shape), dtype, reader.read, reader.close)
    with _damage(path), opened() as file:
        return rows_of(np.lib.format.read_array(file, allow_pickle=False))


class _Reader:
    """The samples of one array in a file, or in an archive, that stays open until the last of them is read."""

    def __init__(self, path: Path, opened: Opener, offset: int, shape: tuple[int, ...], dtype: "np.dtype[Any]") -> None:
        self._path = path
        self._opened = opened
        self._offset = offset
        self._shape = shape
        self._dtype = dtype
        self._open = ExitStack()
        self._file: IO[bytes] | None = None

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Samples from `start` on to `stop`. DataError: they cannot be read."""
        count, *sizes = self._shape
        each = self._dtype.itemsize * int(np.prod(sizes))
        with _damage(self._path):
            if self._file is None:
                self._file = self._open.enter_context(self._opened())
            self._file.seek(self._offset + start * each)  # goes back in an archive by reading it again
            data = self._file.read((stop - start) * each)
        if stop == count:
            self.close()
        with _damage(self._path):
            return np.frombuffer(data, self._dtype).reshape(stop - start, *sizes)

    def close(self) -> None:
        """Closes the file, until samples are asked for again."""
        self._file = None
        self._open.close()

    def __del__(self) -> None:
        self.close()


@contextmanager
def _damage(path: Path) -> Iterator[None]:
    """Says in a line what numpy and zipfile say of a damaged file."""
    try:
        yield
    except DataError:
        raise
    except Exception as error:  # zipfile, zlib, struct and numpy each raise their own for a damaged file
        if "allow_pickle" in str(error):
            raise DataError(f"{path}: holds objects, not numbers; save it as float32") from None
        raise DataError(f"{path}: cannot be read as numpy arrays ({error}): truncated or damaged; copy or save it again") from None


def _neither(path: Path) -> DataError:
    return DataError(f"{path}: not a .npy or .npz file, as numpy.save and numpy.savez write")
