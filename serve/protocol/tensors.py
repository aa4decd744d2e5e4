"""Tensors of the protocol: names of types, and their raw bytes, which are little endian and in C order.

An element of BYTES is its length in four bytes, and then so many bytes.
"""

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnna.serve.models.signature import CLASSES
from cnna.spec.counts import shown
from cnna.spec.errors import DataError

BYTES = "BYTES"
TYPES = {
    "BOOL": "bool",
    **{f"{sign}INT{bits}": f"{sign.lower()}int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)},
    **{f"FP{bits}": f"float{bits}" for bits in (16, 32, 64)},
}
NAMES = {dtype: name for name, dtype in TYPES.items()}
MOST_ELEMENTS = 1 << 31
MOST_TEXTS = 100_000  # elements of BYTES in a tensor: each is an object


def name_of(dtype: Any) -> str:
    """The protocol's name of a numpy type; objects are BYTES."""
    return NAMES.get(np.dtype(dtype).name, BYTES)


def checked(name: str, datatype: Any, shape: Any) -> tuple[str, tuple[int, ...]]:
    """Type and shape as a client gives them. DataError: they are none."""
    if not isinstance(datatype, str) or datatype not in (*TYPES, BYTES):
        raise DataError(f"input {name}: there is no datatype {shown(datatype)}; there are {', '.join(TYPES)} and {BYTES}")
    good = isinstance(shape, Sequence) and not isinstance(shape, str) and 0 < len(shape) <= 16
    if not good or not all(type(size) is int and 0 <= size < MOST_ELEMENTS for size in shape) or elements(shape) >= MOST_ELEMENTS:
        limits = f"1 to 16 whole numbers from 0 on, with fewer than {MOST_ELEMENTS:,} elements, like [1, 3, 224, 224]"
        raise DataError(f"input {name}: {str(shape)[:100]} is no shape; one is {limits}")
    if datatype == BYTES and elements(shape) > MOST_TEXTS:
        raise DataError(f"input {name}: {list(shape)} are more than {MOST_TEXTS:,} elements of BYTES; send fewer")
    return str(datatype), tuple(shape)


def elements(shape: Sequence[int]) -> int:
    """Their product, without overflow."""
    product = 1
    for size in shape:
        product *= size
    return product


def from_raw(name: str, datatype: str, shape: tuple[int, ...], data: bytes | memoryview) -> NDArray[Any]:
    """A tensor from its raw bytes; numbers are a view of them. DataError: they are too many or too few."""
    if datatype == BYTES:
        return _strings(name, shape, data)
    dtype = np.dtype(TYPES[datatype]).newbyteorder("<")
    wanted = elements(shape) * dtype.itemsize
    if len(data) != wanted:
        raise DataError(f"input {name}: {datatype} {list(shape)} has {wanted} bytes, but {len(data)} came")
    return np.frombuffer(data, dtype).reshape(shape)


def from_list(name: str, datatype: str, shape: tuple[int, ...], data: Any) -> NDArray[Any]:
    """A tensor from the numbers or texts of JSON, nested or flat. DataError: they are of other kinds, or too many or too few."""
    if not isinstance(data, list):
        raise DataError(f"input {name}: data must be a list")
    many = f"{elements(shape)} values of the datatype {datatype}"
    wrong = DataError(f"input {name}: data must be {many}, nested as {list(shape)} or flat")
    if datatype == BYTES:
        texts = data
        while texts and isinstance(texts[0], list):
            if not all(isinstance(part, list) for part in texts):
                raise wrong
            texts = [text for part in texts for text in part]
        if len(texts) != elements(shape) or not all(isinstance(text, str) for text in texts):
            raise wrong
        found = np.empty(len(texts), object)
        found[:] = [text.encode("utf-8", "surrogatepass") for text in texts]
        return found.reshape(shape)
    try:
        array = np.array(data)
    except (ValueError, OverflowError, RecursionError):
        raise wrong from None
    dtype = np.dtype(TYPES[datatype])
    kinds = {"b": "b", "i": "biu", "u": "biu", "f": "biuf"}[dtype.kind]
    if array.size != elements(shape) or (array.size and array.dtype.kind not in kinds):
        raise wrong
    with np.errstate(over="ignore"):
        made = array.astype(dtype)
    if dtype.kind in "iu" and not np.array_equal(made, array):
        raise DataError(f"input {name}: data has values that {datatype} does not hold")
    return made.reshape(shape)


def to_raw(array: NDArray[Any]) -> bytes:
    """A tensor's raw bytes."""
    if array.dtype.kind == "O":
        return b"".join(struct.pack("<I", len(item)) + item for item in array.reshape(-1))
    return np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()


def to_list(array: NDArray[Any]) -> list[Any]:
    """A tensor as JSON has it, flat."""
    if array.dtype.kind == "O":
        return [item.decode("utf-8", "replace") for item in array.reshape(-1)]
    found: list[Any] = array.reshape(-1).tolist()
    return found


def classes(array: NDArray[Any], count: int, labels: Sequence[str] = ()) -> NDArray[Any]:
    """The classification extension: of each sample the `count` greatest values, as texts `value:index`, [N, count].

    labels: names of the classes; if there is one for each value of a sample, the texts are `value:index:name`.
    """
    flat = array.reshape(len(array), -1)
    names = [f":{label}" for label in labels] if len(labels) == flat.shape[1] else [""] * flat.shape[1]
    texts = np.empty((len(flat), min(count, flat.shape[1])), object)
    for sample, values in enumerate(flat):
        texts[sample] = [f"{float(values[index]):f}:{index}{names[index]}".encode() for index in _greatest(values, count)]
    return texts


def ranked(outputs: Mapping[str, NDArray[Any]], name: str, count: int, labels: Sequence[str], detects: bool) -> NDArray[Any]:
    """The classification extension for an output of an answer. detects: it is a detector's.

    Of a detector's `classes`, the texts are of its `count` surest detections, with their scores as values; empty where there are
    fewer.
    """
    if not detects or name != CLASSES:
        return classes(outputs[name], count, labels)
    kinds, scores = outputs[name], outputs["scores"]
    texts = np.full((len(kinds), min(count, kinds.shape[1])), b"", object)
    for sample, place in np.argwhere(kinds[:, :count] >= 0).tolist():
        kind = int(kinds[sample, place])
        texts[sample, place] = f"{float(scores[sample, place]):f}:{kind}{f':{labels[kind]}' if labels else ''}".encode()
    return texts


def _greatest(values: NDArray[Any], count: int) -> NDArray[np.intp]:
    """Where the `count` greatest are, the greatest first; of equal ones the first. A value that is no number comes last."""
    down = -values.astype(np.float64)
    there = np.arange(len(down))
    if 0 < count < len(down):
        least = np.partition(down, count - 1)[count - 1]
        there = there if np.isnan(least) else np.flatnonzero(down <= least)
    return there[np.argsort(down[there], kind="stable")][:count]


def _strings(name: str, shape: tuple[int, ...], data: bytes | memoryview) -> NDArray[Any]:
    found, offset, count = list[bytes](), 0, elements(shape)
    while offset + 4 <= len(data) and len(found) < count:
        (length,) = struct.unpack_from("<I", data, offset)
        if offset + 4 + length > len(data):
            break
        found.append(bytes(data[offset + 4 : offset + 4 + length]))
        offset += 4 + length
    if len(found) != count or offset != len(data):
        what = f"{count} elements of BYTES, each with its length in 4 bytes before it"
        raise DataError(f"input {name}: its {len(data)} bytes are not {what}")
    array = np.empty(count, object)
    array[:] = found
    return array.reshape(shape)
