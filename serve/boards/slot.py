"""A place in shared memory for one batch: the front writes its inputs there, the worker its outputs.

It is an anonymous file that both processes map. It has no name, so nothing is left behind whoever dies.
"""

import mmap
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

ALIGN = 64
Entry = list[Any]  # name, dtype, shape, offset


class Slot:
    """A mapped file. Views that `read` returns hold until the next `fit` that grows it, and see what is written later."""

    def __init__(self, file: int) -> None:
        self.file, self.bytes = file, 0
        self._map: mmap.mmap | None = None

    def fit(self, wanted: int) -> None:
        """Maps at least so many bytes; makes the file longer if it is shorter."""
        if self._map is not None and wanted <= self.bytes:
            return
        size = max(1, -(-wanted // mmap.PAGESIZE)) * mmap.PAGESIZE  # a batch may have no bytes
        if os.fstat(self.file).st_size < size:
            os.ftruncate(self.file, size)
        self._map = mmap.mmap(self.file, size)  # views of the old map keep it until they are gone
        self.bytes = size

    def write(self, arrays: Mapping[str, Sequence[NDArray[Any]]], offset: int = 0) -> list[Entry]:
        """Writes arrays, each given in parts along axis 0, one after another; returns what `read` needs."""
        entries: list[Entry] = []
        for name, parts in arrays.items():
            shape = [sum(len(part) for part in parts), *parts[0].shape[1:]]
            entries.append([name, parts[0].dtype.str, shape, offset])
            (whole,) = self.read([entries[-1]]).values()
            start = 0
            for part in parts:
                whole[start : start + len(part)] = part
                start += len(part)
            offset += aligned(whole.nbytes)
        return entries

    def read(self, entries: Sequence[Entry]) -> dict[str, NDArray[Any]]:
        """Views of arrays in the slot."""
        assert self._map is not None
        return {
            name: np.frombuffer(self._map, dtype, int(np.prod(shape)), offset).reshape(shape)
            for name, dtype, shape, offset in entries
        }

    def close(self) -> None:
        """Gives up the file; the memory goes with its last view."""
        if self.file >= 0:
            os.close(self.file)
        self.file, self.bytes, self._map = -1, 0, None


def aligned(size: int) -> int:
    """The next multiple of ALIGN."""
    return -(-size // ALIGN) * ALIGN
