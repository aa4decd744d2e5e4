"""What follows a classifier's scores: softmax, the greatest value and the k greatest, natively or by `spec.cpu_ops`, alike."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnna.host.native import library
from cnna.spec import cpu_ops


def quick() -> Mapping[str, Callable[..., Any]]:
    """The operators that `cpu_ops.CpuPart` leaves to this module, which gives the same bits without the library too.

    onnxruntime rounds otherwise in the last bit.
    """
    return {"Softmax": softmax}


def softmax(x: NDArray[Any], axis: int = -1) -> NDArray[np.float32]:
    """As `cpu_ops.softmax`."""
    rows = _rows(x, axis)
    if rows is None:
        return cpu_ops.softmax(x, axis)
    answer = np.empty_like(rows)
    code = library.native().calls.cnna_softmax(rows.ctypes.data, *_shape(rows), answer.ctypes.data)
    library.check(code, "softmax")
    return answer if axis in (-1, x.ndim - 1) else np.moveaxis(answer, -1, axis)


def argmax(x: NDArray[Any], axis: int = -1) -> NDArray[np.int64]:
    """The place of the greatest value along an axis, as numpy's `argmax`: the first of equals; NaN is the greatest."""
    rows = _rows(x, axis)
    if rows is None:
        return x.argmax(axis=axis)
    answer = np.empty(rows.shape[:-1], np.int64)
    library.check(library.native().calls.cnna_argmax(rows.ctypes.data, *_shape(rows), answer.ctypes.data), "argmax")
    return answer


def top_k(x: NDArray[Any], k: int, axis: int = -1) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """As `cpu_ops.top_k`."""
    rows = _rows(x, axis)
    if rows is None or not 0 <= k <= rows.shape[-1]:
        return cpu_ops.top_k(x, k, axis)
    shape = (*rows.shape[:-1], k)
    values, places = np.empty(shape, np.float32), np.empty(shape, np.int64)
    code = library.native().calls.cnna_top_k(rows.ctypes.data, *_shape(rows), k, values.ctypes.data, places.ctypes.data)
    library.check(code, "top-k")
    if axis in (-1, x.ndim - 1):
        return values, places
    return np.moveaxis(values, -1, axis), np.moveaxis(places, -1, axis)


def _rows(x: NDArray[Any], axis: int) -> NDArray[np.float32] | None:
    """x with the axis last, dense and aligned; None: the library cannot take it, or is not there."""
    if library.native().calls is None or x.dtype != np.float32 or not x.size or not x.ndim:
        return None
    rows = np.ascontiguousarray(x if axis in (-1, x.ndim - 1) else np.moveaxis(x, axis, -1))
    return rows if rows.flags.aligned else rows.copy()


def _shape(rows: NDArray[np.float32]) -> tuple[int, int]:
    return rows.size // rows.shape[-1], rows.shape[-1]
