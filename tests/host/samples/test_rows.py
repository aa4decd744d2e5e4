"""Samples read a few at a time: equal to the whole array, whatever is asked for first, and without its memory.

And inputs that are not pictures: integers, and arrays that are the same for all samples.
"""

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from cnna.compiler.compile import compile_model
from cnna.compiler.quantise.quantise import quantise
from cnna.host.model.model import Model
from cnna.host.samples.arrays import open_rows
from cnna.host.samples.row_files import rows_in
from cnna.host.samples.rows import integers, shared
from cnna.spec.config import preset
from cnna.spec.errors import DataError

from ...compiler.written import images, written

SAVE = {"x.npy": lambda path, x: np.save(path, x), "x.npz": lambda path, x: np.savez(path, x=x)}
SAVE["packed.npz"] = lambda path, x: np.savez_compressed(path, x=x)
LARGE = (8, 3, 512, 512)  # 24 MiB in float32


@pytest.mark.parametrize("name", SAVE)
@pytest.mark.parametrize("turn", [np.ascontiguousarray, np.asfortranarray])
def test_rows_are_the_arrays(tmp_path: Path, name: str, turn) -> None:
    """A sample from a wrong place of the file would be answered like any other; arrays in Fortran's order are told apart."""
    x = np.arange(60, dtype=np.float64).reshape(5, 3, 4)
    SAVE[name](tmp_path / name, turn(x))
    rows = rows_in(tmp_path / name)["x"]
    assert (rows.shape, rows.dtype, len(rows), rows.ndim) == (x.shape, x.dtype, 5, 3)
    for start, stop in ((3, 5), (0, 2), (2, 3), (4, 9)):  # backwards too
        assert np.array_equal(rows[start:stop], x[start:stop])
    assert np.array_equal(rows[np.array([4, 1])], x[[4, 1]])
    assert np.array_equal(rows.first(2)[:], x[:2])


@pytest.mark.parametrize("name", SAVE)
def test_a_file_that_ends_too_soon_is_refused_before_a_run(tmp_path: Path, name: str) -> None:
    """The last sample of a damaged file would be missed hours later."""
    SAVE[name](tmp_path / name, np.random.default_rng(1).normal(size=(9, 1, 16, 16)).astype(np.float32))
    (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:-700])
    with pytest.raises(DataError, match="truncated or damaged"):
        open_rows(tmp_path / name, {"x": (1, 16, 16)})


def test_a_run_needs_the_memory_of_a_batch(tmp_path: Path) -> None:
    """Samples of any number fit: an array that is read whole, or one copy of it as float32, breaks the bound."""
    text = "g (float[N,3,512,512] x) => (float[N,2,64,64] y) { y = Conv <kernel_shape=[8,8], strides=[8,8]> (x, w) }"
    model = written(text, {"w": (2, 3, 8, 8)})
    artifact = compile_model(quantise(model, images(model, 1))[0], preset("tiny"))
    x = np.random.default_rng(2).normal(size=LARGE)
    np.savez(tmp_path / "x.npz", x=x)
    size, inputs = x.nbytes, {"x": LARGE[1:]}
    with Model(artifact, device="emulator") as emulator:
        expected = emulator.run({"x": x[:1]})["y"]
        del x
        tracemalloc.start()
        answers = emulator.run(open_rows(tmp_path / "x.npz", inputs))["y"]
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert np.array_equal(answers[:1], expected)
    assert peak < 0.5 * size


def test_integers_of_another_size_are_taken_where_they_fit():
    """numpy makes int64 of a list; a model's int32 must get the same numbers or refuse them."""
    found = integers(np.array([1, 2]), "int32", "input size")
    assert (found.dtype, found.tolist()) == (np.dtype("int32"), [1, 2])
    with pytest.raises(DataError, match="input size has values that uint8 does not hold"):
        integers(np.array([1, 256]), "uint8", "input size")
    with pytest.raises(DataError, match="input size is float64, but the model wants int64"):
        integers(np.array([1.5]), "int64", "input size")


def test_what_has_no_axis_of_samples_is_for_all():
    """A threshold would have to be repeated for each image by hand; a single array may never count as one for all samples."""
    shapes = {"x": (3, 2, 2), "size": (2,), "limit": ()}
    given = {"x": np.zeros((4, 3, 2, 2)), "size": np.array([5, 6]), "limit": np.array(0.5)}
    found = shared(given, shapes)
    assert found["size"].tolist() == [[5, 6]] * 4
    assert found["limit"].tolist() == [0.5] * 4
    assert shared({"x": np.zeros((3, 2, 2))}, {"x": (3, 2, 2)})["x"].shape == (3, 2, 2)
