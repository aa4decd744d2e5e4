"""Packing and unpacking: natively and in numpy, byte for byte."""

import numpy as np
import pytest

from cnna.host.native.tensors import Packing, Unpacking
from cnna.spec.errors import DataError
from cnna.spec.samples import pack

from .cases import drawn_port, pack_cases

COUNT = 600


def test_packing_gives_numpys_bytes():
    """A wrong border, gap, stride or table would feed the accelerator another picture."""
    for number, case in enumerate(pack_cases(COUNT, seed=1)):
        found = Packing(case.port, case.ci, case.table).packed(case.x, case.images)
        assert np.array_equal(found, case.wanted), f"case {number}: {case.x.dtype}, {case.port}, ci {case.ci}"


def test_unpacking_gives_numpys_values():
    """An answer of another channel or pixel would look like one of the model's."""
    rng = np.random.default_rng(2)
    for _ in range(COUNT):
        ci, shape = int(rng.choice([1, 3, 4, 8, 16, 24, 32])), (int(rng.integers(1, 70)), *map(int, rng.integers(1, 40, 2)))
        port, images = drawn_port(rng, ci, shape, folds=0), int(rng.integers(1, 3))
        memory = rng.integers(0, 256, images * port["image_bytes"], np.uint8)
        wanted = pack.unpack(port, memory, ci)
        assert np.array_equal(Unpacking(port, ci).int8(memory, images), wanted), (port, ci)
        real = Unpacking(port, ci).real(memory, images)
        assert np.array_equal(real, pack.dequantise(wanted, port["scale"], port["zero"])), (port, ci)


@pytest.mark.parametrize("place", [0, 5, -1])
def test_a_nan_is_refused_wherever_it_is(place):
    """int8 has no value for it: the answer would be a guess."""
    x = np.zeros((1, 3, 7, 21), np.float32)
    x.flat[place] = np.nan
    packing = Packing(drawn_port(np.random.default_rng(3), 4, (3, 7, 21), folds=0), 4)
    with pytest.raises(DataError, match="tensor x holds NaN"):
        packing.packed(x, 1)


def test_a_models_own_integers_stay_what_they_are():
    """uint8 without a table are quantised already: less 128 they are the accelerator's bytes. A division would round them anew."""
    x = np.arange(208, 256, dtype=np.uint8).reshape(1, 3, 4, 4)
    port = drawn_port(np.random.default_rng(4), 4, (3, 4, 4), folds=0)
    wanted = pack.pack(port, (x.astype(int) - 128).astype(np.int8), 4)
    assert np.array_equal(Packing(port, 4).packed(x, 1), wanted)
    assert np.array_equal(Packing(port, 4).packed((x ^ 128).view(np.int8), 1), wanted)


def test_floats_of_another_byte_order_are_converted():
    """The library would read them as other numbers."""
    x = np.linspace(-3, 3, 48, dtype=np.float32).reshape(1, 3, 4, 4)
    port = drawn_port(np.random.default_rng(4), 4, (3, 4, 4), folds=0)
    assert np.array_equal(Packing(port, 4).packed(x.astype(">f4"), 1), Packing(port, 4).packed(x, 1))


def test_memory_that_is_too_small_is_not_written():
    """A wrong size would write beyond an allocation, into another model's memory."""
    port = drawn_port(np.random.default_rng(5), 4, (3, 4, 4), folds=0)
    memory = np.full(port["image_bytes"], 77, np.uint8)
    with pytest.raises(AssertionError, match="packing x: code 2"):
        Packing(port, 4).pack_into(np.zeros((2, 3, 4, 4), np.float32), 2, memory)
    assert (memory == 77).all()
