"""Tensors of the protocol, in raw bytes and in JSON."""

from typing import Any

import numpy as np
import pytest

from cnna.serve.protocol import tensors
from cnna.spec.errors import DataError


@pytest.mark.parametrize("datatype", [*tensors.TYPES, tensors.BYTES])
def test_what_is_written_is_read(datatype: str, seed: int) -> None:
    """A type whose bytes are swapped, or whose values are rounded on the way, would give wrong answers."""
    rng = np.random.default_rng(seed)
    if datatype == tensors.BYTES:
        array = np.array([[b"", b"a"], [b"\xc3\xa9", b"x" * 300]], object)
    else:
        array = rng.integers(0, 2, (2, 3)).astype(tensors.TYPES[datatype])
    assert tensors.name_of(array.dtype) == datatype
    for found in (
        tensors.from_raw("x", datatype, array.shape, tensors.to_raw(array)),
        tensors.from_list("x", datatype, array.shape, tensors.to_list(array)),
    ):
        assert np.array_equal(found, array)
        assert found.dtype == array.dtype


def test_json_may_be_nested_or_flat() -> None:
    """Clients write both."""
    nested: list[Any] = [[1, 2], [3, 4]]
    assert np.array_equal(tensors.from_list("x", "FP32", (2, 2), nested), tensors.from_list("x", "FP32", (2, 2), [1, 2, 3, 4]))
    assert tensors.from_list("x", "BYTES", (1, 2), [["a", "b"]]).tolist() == [[b"a", b"b"]]


@pytest.mark.parametrize(
    ("datatype", "shape", "data"),
    [
        ("FP32", (2,), [1]),
        ("FP32", (2,), ["1", "2"]),
        ("FP32", (2,), [[1], [2, 3]]),
        ("FP32", (2,), "12"),
        ("FP32", (1,), [None]),
        ("FP32", (1,), [{}]),
        ("INT8", (1,), [128]),
        ("INT8", (1,), [1.5]),
        ("UINT8", (1,), [-1]),
        ("INT64", (1,), [1 << 80]),
        ("BOOL", (1,), [1]),
        ("BYTES", (2,), ["a"]),
        ("BYTES", (1,), [1]),
        ("BYTES", (2,), [["a"], "b"]),
    ],
)
def test_what_is_no_tensor(datatype: str, shape: tuple[int, ...], data: object) -> None:
    """Numbers would be cut or invented."""
    with pytest.raises(DataError, match="input x"):
        tensors.from_list("x", datatype, shape, data)


@pytest.mark.parametrize(
    ("datatype", "shape", "data"),
    [
        ("FP32", (2,), bytes(7)),
        ("FP32", (0,), bytes(4)),
        ("BYTES", (1,), b"\5\0\0\0abc"),
        ("BYTES", (1,), bytes(8)),
        ("BYTES", (2,), bytes(6)),
    ],
)
def test_bytes_that_do_not_fit(datatype: str, shape: tuple[int, ...], data: bytes) -> None:
    """A read past the end would show other memory."""
    with pytest.raises(DataError, match="input x"):
        tensors.from_raw("x", datatype, shape, data)


@pytest.mark.parametrize(
    ("datatype", "shape"),
    [
        ("FP8", [1]),
        (None, [1]),
        (["FP32"], [1]),
        ({}, [1]),
        ("x" * 10**6, [1]),
        ("FP32", []),
        ("FP32", [-1]),
        ("FP32", [1.0]),
        ("FP32", [True]),
        ("FP32", "1"),
        ("FP32", [1 << 20] * 4),
        ("BYTES", [1000, 101]),
    ],
)
def test_types_and_shapes_that_are_none(datatype: object, shape: object) -> None:
    """Their product would overflow, or take all memory."""
    with pytest.raises(DataError, match="input x") as caught:
        tensors.checked("x", datatype, shape)
    assert len(str(caught.value)) < 300


def test_classes_name_the_greatest_values() -> None:
    """The classification extension: the greatest first, of equal ones the lower index."""
    found = tensors.classes(np.array([[0.5, 2.0, 2.0], [3.0, 1.0, -1.0]], np.float32), 2)
    assert found.tolist() == [[b"2.000000:1", b"2.000000:2"], [b"3.000000:0", b"1.000000:1"]]


@pytest.mark.parametrize("count", [1, 5, 99, 100, 101])
def test_the_greatest_of_many_are_those_of_a_whole_sort(count: int, seed: int) -> None:
    """A map of a million values would be sorted whole for five classes, and all other clients wait; ties must not change for it."""
    rng = np.random.default_rng(seed)
    x = rng.integers(-9, 9, (3, 10, 10)).astype(np.float32)
    x[1].reshape(-1)[rng.integers(0, 100, 97)] = np.nan
    found = tensors.classes(x, count)
    wanted = np.argsort(-x.reshape(3, 100), axis=1, kind="stable")[:, :count]
    assert [[int(text.split(b":")[1]) for text in row] for row in found] == wanted.tolist()
