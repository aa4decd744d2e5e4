"""Scales pictures natively, or by `spec.samples.resampling`, alike."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnna.host.native import library
from cnna.spec.errors import DataError
from cnna.spec.samples import resampling
from cnna.spec.samples.resampling import FILTERS, Filter

MOST_PIXELS, MOST_CHANNELS = 1 << 15, 16  # along an axis, and of a pixel, that the library takes


def resize(picture: NDArray[np.uint8], size: tuple[int, int], kind: Filter = "bilinear") -> NDArray[np.uint8]:
    """A picture, uint8 [rows, columns, channels] with rows of any pitch, in so many rows and columns. DataError: it is none."""
    _check(picture, size)
    calls = library.native().calls
    rows, columns, channels = picture.shape
    if calls is None or max(*picture.shape[:2], *size) > MOST_PIXELS or channels > MOST_CHANNELS:
        return resampling.resize(picture, size, kind)
    if picture.strides[1:] != (channels, 1) or abs(picture.strides[0]) < columns * channels:
        picture = np.ascontiguousarray(picture)
    answer = np.empty((*size, channels), np.uint8)
    whole = (rows, columns, channels, picture.strides[0], FILTERS.index(kind))
    code = calls.cnna_resize(picture.ctypes.data, *whole, answer.ctypes.data, *size, answer.strides[0])
    library.check(code, "scaling a picture")
    return answer


def _check(picture: NDArray[Any], size: tuple[int, int]) -> None:
    """The library would take the bytes of other types for pixels."""
    if picture.dtype != np.uint8 or picture.ndim != 3 or not picture.size:
        raise DataError(f"a picture to scale is uint8 [rows, columns, channels], not {picture.dtype} {list(picture.shape)}")
    if not all(isinstance(pixels, int | np.integer) and pixels > 0 for pixels in size):
        raise DataError(f"a picture cannot have {size[0]} rows and {size[1]} columns: give whole numbers of pixels, at least 1")
