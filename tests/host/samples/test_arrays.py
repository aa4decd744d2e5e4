"""Arrays that a user gives are matched by name, checked, and refused with a reason."""

import warnings
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest

from cnna.host.samples.arrays import read_arrays, write_arrays
from cnna.spec.errors import DataError, UserError

SHAPE = {"image": [1, 2, 2]}
GOOD = np.arange(12, dtype=np.float32).reshape(3, 1, 2, 2)


def _save(folder: Path, **arrays: np.ndarray) -> Path:
    np.savez(folder / "x.npz", **arrays)
    return folder / "x.npz"


@pytest.mark.parametrize("name", ["image", "x", "anything"])
def test_one_array_of_any_name_stands_for_a_single_input(tmp_path: Path, name: str) -> None:
    """A user would have to look up the input's name."""
    read = read_arrays(_save(tmp_path, **{name: GOOD}), SHAPE)
    assert np.array_equal(read["image"], GOOD)


def test_npy_stands_for_a_single_input(tmp_path: Path) -> None:
    """.npy is the most frequent form."""
    np.save(tmp_path / "x.npy", GOOD.astype(np.float64))
    read = read_arrays(tmp_path / "x.npy", SHAPE)
    assert read["image"].dtype == np.float32
    assert np.array_equal(read["image"], GOOD)


def test_other_arrays_are_ignored_with_a_note(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Silence would hide a misspelt input, or one with the name of the classes."""
    read = read_arrays(_save(tmp_path, x=GOOD, imaeg=GOOD, y=GOOD), SHAPE)
    assert list(read) == ["image"]
    assert capsys.readouterr().err.endswith("x.npz: ignoring imaeg, y\n")


def test_classes_beside_the_samples_are_no_news(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`cnna models --test` writes them: a note with every run of the tour would send its reader to look for a mistake."""
    for name in ("x", "image"):
        assert list(read_arrays(_save(tmp_path, **{name: GOOD, "y": np.arange(3)}), SHAPE)) == ["image"]
    assert not capsys.readouterr().err


def test_a_folder_is_called_one(tmp_path: Path) -> None:
    """The line must say what to name instead."""
    with pytest.raises(DataError, match=r"a folder, not arrays; name the \.npy or \.npz file in it"):
        read_arrays(tmp_path, SHAPE)


def test_several_inputs_by_name(tmp_path: Path) -> None:
    """Two inputs would be swapped by their order in the file."""
    read = read_arrays(_save(tmp_path, b=GOOD + 1, a=GOOD), {"a": [1, 2, 2], "b": [1, None, 2]})
    assert np.array_equal(read["a"] + 1, read["b"])


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"x": GOOD[:, :, :1]}, r"shape \[3, 1, 1, 2\].*\[N, 1, 2, 2\]"),
        ({"x": GOOD[0]}, r"shape \[1, 2, 2\]"),
        ({"x": GOOD[:0]}, "no sample"),
        ({"x": GOOD.astype(np.int32)}, "int32.*float32"),
        ({"x": GOOD.astype(np.uint8)}, "uint8.*--scale, --mean and --std"),
        ({"x": np.where(GOOD == 5, np.nan, GOOD)}, "not finite"),
        ({"x": np.where(GOOD == 5, 1e300, GOOD.astype(np.float64))}, "not finite in float32"),
        ({"a": GOOD, "b": GOOD}, r"has arrays a, b.*image \(or x\)"),
        ({}, "no array"),
        ({"x": np.array([None])}, "holds objects, not numbers"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_reason(tmp_path: Path, arrays: dict[str, np.ndarray], words: str) -> None:
    """Each of these would fail deep inside, or give nonsense."""
    path = _save(tmp_path, **arrays)
    with pytest.raises(DataError, match=words) as refused:
        read_arrays(path, SHAPE)
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_name_is_not_said_twice(tmp_path: Path) -> None:
    """`x` stands for any single input; where the input is called x itself, "x (or x)" would read as a riddle."""
    with pytest.raises(DataError, match=r"the model's input is x$"):
        read_arrays(_save(tmp_path, a=GOOD, b=GOOD), {"x": next(iter(SHAPE.values()))})


def test_uint8_where_the_model_has_preprocessing(tmp_path: Path) -> None:
    """Raw pictures must pass as they are."""
    assert read_arrays(_save(tmp_path, x=GOOD.astype(np.uint8)), SHAPE, allow_uint8=True)["image"].dtype == np.uint8


@pytest.mark.parametrize("content", [b"", b"hello", b"\x93NUMPY\x01\x00", b"PK\x03\x04 not a zip"])
def test_files_that_hold_no_arrays(tmp_path: Path, content: bytes) -> None:
    """The exceptions of zipfile or numpy would reach the user."""
    (tmp_path / "x.npz").write_bytes(content)
    with pytest.raises(DataError, match=r"x\.npz"):
        read_arrays(tmp_path / "x.npz", SHAPE)


def test_an_array_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    """One of the two would be taken without a word."""
    path = tmp_path / "a.npz"
    write_arrays(path, {"x": np.zeros((1, 2), np.float32)})
    with warnings.catch_warnings(), ZipFile(path, "a") as archive:
        warnings.simplefilter("ignore")
        archive.writestr("x.npy", archive.read("x.npy"))
    with pytest.raises(DataError, match=r"a\.npz: has the array x twice"):
        read_arrays(path, {"x": (2,)})


def test_unequal_numbers_of_samples(tmp_path: Path) -> None:
    """The inputs of a sample belong together."""
    with pytest.raises(DataError, match="different numbers"):
        read_arrays(_save(tmp_path, a=GOOD, b=GOOD[:2]), {"a": [1, 2, 2], "b": [1, 2, 2]})


def test_written_arrays_read_back_under_the_name_given(tmp_path: Path) -> None:
    """numpy adds .npz to names without it; the user's name must stay."""
    write_arrays(tmp_path / "answer", {"x": GOOD})
    assert np.array_equal(read_arrays(tmp_path / "answer", SHAPE)["image"], GOOD)
    assert [path.name for path in tmp_path.iterdir()] == ["answer"]


@pytest.mark.parametrize("name", ["file", "allow_pickle", "self", "a/b", "y.npy"])
def test_an_output_may_have_any_name(tmp_path: Path, name: str) -> None:
    """`np.savez` has parameters of its own: an output with such a name would end a finished run in an internal error."""
    write_arrays(tmp_path / "y.npz", {name: GOOD, "z": GOOD + 1})
    with np.load(tmp_path / "y.npz") as read:
        assert set(read.files) == {name, "z"}
        assert np.array_equal(read[name], GOOD)
        assert np.array_equal(read["z"], GOOD + 1)


def test_an_output_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    """Half a file would have the output's name."""
    with pytest.raises(UserError, match="does not exist"):
        write_arrays(tmp_path / "no" / "y.npz", {"x": GOOD})
    with pytest.raises(UserError, match="is a folder"):
        write_arrays(tmp_path, {"x": GOOD})
    assert not list(tmp_path.iterdir())


def test_a_model_that_fixes_its_batch_is_said(tmp_path: Path) -> None:
    """Samples of the right size would be refused with one axis more than the user has ever seen, and no word on what to do."""
    file = _save(tmp_path, x=np.zeros((8, 3, 4, 4), np.float32))
    with pytest.raises(
        DataError, match=r"wants \[N, 2, 3, 4, 4\]; if this 2 is a batch, export the model for a batch of 1, or of any size"
    ):
        read_arrays(file, {"image": [2, 3, 4, 4]})
    with pytest.raises(DataError, match=r"wants \[N, 8, 4, 4\]$"):
        read_arrays(file, {"image": [8, 4, 4]})
