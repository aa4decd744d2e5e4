"""Samples that are read when they are asked for, a few at a time, so that a file of any size needs the memory of one batch.

A `Rows` stands where an array [N, ...] may: it has its shape, type and length, and `rows[a:b]` is an array. Arrays of integers are
checked here too, and those that are the same for all samples are repeated.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cnna.spec.errors import DataError

CHUNK = 1 << 22  # bytes that are looked at together where all samples are


@dataclass(frozen=True, eq=False)
class Rows:
    """N samples. read: those from one number on to another, not included. close: closes the file until samples are read again."""

    shape: tuple[int, ...]
    dtype: "np.dtype[Any]"
    read: Callable[[int, int], NDArray[Any]]
    close: Callable[[], None] = lambda: None

    @property
    def ndim(self) -> int:
        """Axes, that of the samples included."""
        return len(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, which: "slice | NDArray[Any]") -> NDArray[Any]:
        """The samples of a slice of step 1, or of an array of numbers."""
        if isinstance(which, np.ndarray):
            return np.concatenate([self.read(int(number), int(number) + 1) for number in which])
        start, stop, step = which.indices(len(self))
        assert step == 1
        return self.read(start, max(start, stop))

    def whole(self) -> NDArray[Any]:
        """All of it, also where it has no axis of samples."""
        return self.read(0, self.shape[0] if self.shape else 0)

    def first(self, count: int | None) -> "Rows":
        """No more than the first `count`."""
        return self if count is None else replace(self, shape=(len(range(len(self))[:count]), *self.shape[1:]))

    def mapped(self, change: Callable[[NDArray[Any]], NDArray[Any]], dtype: Any, shape: tuple[int, ...] | None = None) -> "Rows":
        """What `change` makes of the samples, of another type, and of the `shape` of one sample if that changes."""
        inside = self.shape[1:] if shape is None else shape
        return Rows((len(self), *inside), np.dtype(dtype), lambda start, stop: change(self.read(start, stop)), self.close)

    def chunks(self) -> Iterator[NDArray[Any]]:
        """All samples in order, some megabytes at a time."""
        each = max(1, int(np.prod(self.shape[1:])) * self.dtype.itemsize)
        step = max(1, CHUNK // each)
        for start in range(0, len(self), step):
            yield self[start : start + step]


def rows_of(array: NDArray[Any]) -> Rows:
    """An array that is in memory."""
    return Rows(array.shape, array.dtype, lambda start, stop: array[start:stop] if array.ndim else array)


Given: TypeAlias = "NDArray[Any] | Rows"


def integers(x: NDArray[Any], dtype: str, where: str) -> NDArray[Any]:
    """An array as an input of integers or bool. DataError: its values do not fit `dtype`; the message begins with `where`."""
    if x.dtype.kind not in "biu":
        raise DataError(f"{where} is {x.dtype}, but the model wants {dtype}")
    found = x.astype(dtype)
    if not np.array_equal(found, x):
        raise DataError(f"{where} has values that {dtype} does not hold (it is {x.dtype})")
    return found


def shared(arrays: Mapping[str, Any], shapes: Mapping[str, Sequence[int | None]]) -> dict[str, Any]:
    """The arrays with a row for each sample: one without that axis, beside others that have it, is the same for all samples."""
    several = [len(x) for name, x in arrays.items() if x.ndim == len(shapes[name]) + 1]
    found = dict(arrays)
    for name, x in arrays.items():
        if several and x.ndim == len(shapes[name]):
            found[name] = np.broadcast_to(x.whole() if isinstance(x, Rows) else x, (several[0], *x.shape))
    return found
