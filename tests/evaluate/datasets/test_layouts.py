"""The layouts of data with classes: which class each sample has, and what is said of faulty data."""

from pathlib import Path

import numpy as np
import pytest

from cnna.evaluate.datasets.labels import read_labels
from cnna.evaluate.datasets.layouts import CLASSIFICATION, Reading, read_data
from cnna.spec.errors import DataError, UserError

from .. import made


def classes_in(path: Path, labels: tuple[str, ...] | None = None, columns: list[str] | None = None) -> list[tuple[str, int]]:
    """Name and class of each sample."""
    found = read_data(path, CLASSIFICATION, Reading(labels, columns))
    return list(zip(found.names, found.targets, strict=True))


def test_folders_are_numbered_by_labels_by_their_numbers_or_by_their_names(tmp_path: Path) -> None:
    """Classes numbered in another order than the model's make its accuracy that of chance."""
    data = made.class_folder(tmp_path / "d", dict.fromkeys(made.COLOURS, 1))
    assert classes_in(data) == [("blue/0.png", 0), ("green/0.png", 1), ("red/0.png", 2)]
    assert classes_in(data, made.RED_FIRST) == [("blue/0.png", 2), ("green/0.png", 1), ("red/0.png", 0)]
    for name in ("10", "9"):
        made.picture(tmp_path / "n" / name / "a.jpg", (9, 9, 9))
    assert classes_in(tmp_path / "n") == [("10/a.jpg", 10), ("9/a.jpg", 9)]
    assert "its folders are numbered in the order of their names, blue is 0" in read_data(data, CLASSIFICATION, Reading()).notes[0]
    with pytest.raises(DataError, match=r"d/blue: there is no class 'blue'; there are red, green"):
        classes_in(data, ("red", "green"))


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("file,label\na/1.png,2\nb.png,0\n", None),
        ("\ufeffFilename;Class\na/1.png;2\n\nb.png;0\n", None),
        ("split\tclass\tpath\n" + "test\t2\ta/1.png\ntest\t0\tb.png\n", None),
        ("a,b,label\n7,2,a/1.png\n7,0,b.png\n", ["label", "b"]),
        ('file,label\n"a/1.png","blue"\n"b.png","red"\n', None),
    ],
)
def test_a_csv_is_read_by_its_header(tmp_path: Path, text: str, columns: list[str] | None) -> None:
    """Spreadsheets write semicolons, byte order marks and columns of their own."""
    (tmp_path / "d.csv").write_text(text, encoding="utf-8")
    assert classes_in(tmp_path / "d.csv", made.RED_FIRST, columns) == [("a/1.png", 2), ("b.png", 0)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty; its first line names the columns"),
        ("a.png,3\nb.png,4\n", r"line 1 \(a.png, 3\) has no column for the file .* or --columns FILE,LABEL"),
        ("file,name\na.png,x\n", "has no column for the label"),
        ("file,label\n", "has a header, but no sample below it"),
        ("file,label\na.png\n", "line 2: has 1 cells, but the header has 2"),
        ("file,label\na.png,1\nb.png,\n", "line 3: there is no class ''"),
        ("file,label\na.png,blu\n", r"line 2: there is no class 'blu'; did you mean blue\?"),
        ("file,label\na.png,-1\n", "line 2: there is no class '-1'"),
    ],
)
def test_a_faulty_csv_is_one_line(tmp_path: Path, text: str, said: str) -> None:
    """The line must be named, or a user would search in thousands."""
    (tmp_path / "d.csv").write_text(text)
    with pytest.raises(DataError, match=rf"d.csv: .*{said}" if text else said):
        classes_in(tmp_path / "d.csv", made.RED_FIRST)


def test_files_of_a_csv_may_lie_anywhere(tmp_path: Path) -> None:
    """Lists of pictures are often made with whole paths."""
    elsewhere = made.picture(tmp_path / "e" / "a.png", (1, 2, 3))
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "d.csv").write_text(f"file,label\n{elsewhere},1\n../e/a.png,0\n")
    found = read_data(tmp_path / "d" / "d.csv", CLASSIFICATION, Reading())
    assert list(found.names) == [str(elsewhere), "../e/a.png"]
    assert all(found.source.picture(number) is not None for number in range(2))


def test_names_without_labels_and_files_that_are_no_text_are_one_line(tmp_path: Path) -> None:
    """A name says nothing of the model's number for it."""
    (tmp_path / "d.csv").write_text("file,label\na.png,cat\n")
    with pytest.raises(DataError, match=r"d.csv: line 2: the label 'cat' is no whole number from 0 up; --labels F"):
        classes_in(tmp_path / "d.csv")
    (tmp_path / "b.csv").write_bytes(b"\xff\xfe\x00x")
    with pytest.raises(DataError, match=r"b.csv: not a text file in UTF-8"):
        classes_in(tmp_path / "b.csv")
    with pytest.raises(DataError, match=r"has no column called file2"):
        classes_in(tmp_path / "d.csv", columns=["file2", "label"])
    with pytest.raises(UserError, match="--columns names columns of a CSV file"):
        classes_in(made.class_folder(tmp_path / "d"), columns=["a", "b"])


def test_labels_are_one_name_a_line(tmp_path: Path) -> None:
    """A last empty line is no class."""
    (tmp_path / "l.txt").write_text("red\ngreen \n\n")
    assert read_labels(tmp_path / "l.txt") == ("red", "green")
    (tmp_path / "l.json").write_text('["red", "green"]')
    assert read_labels(tmp_path / "l.json") == ("red", "green")
    (tmp_path / "e.txt").write_text("\n")
    with pytest.raises(DataError, match=r"e.txt: has no name"):
        read_labels(tmp_path / "e.txt")


@pytest.mark.parametrize("y", [np.array([0.5, 1]), np.array([-1, 1]), np.array([["a"], ["b"]]), np.zeros((2, 3), int)])
def test_classes_of_arrays_are_whole_numbers(tmp_path: Path, y: np.ndarray) -> None:
    """One-hot rows, shares and names would be compared as if they were classes."""
    with pytest.raises(DataError, match=r"d.npz: y is .*; it must hold the number of one class a sample"):
        classes_in(made.arrays(tmp_path / "d.npz", x=np.zeros((2, 3), np.float32), y=y))


def test_arrays_of_different_lengths_are_one_line(tmp_path: Path) -> None:
    """Classes would be those of other samples."""
    with pytest.raises(DataError, match=r"d.npz: y is for 3 samples, but the arrays have 2"):
        classes_in(made.arrays(tmp_path / "d.npz", x=np.zeros((2, 3), np.float32), y=np.zeros(3, int)))
    with pytest.raises(DataError, match=r"d.npz: has no sample"):
        classes_in(made.arrays(tmp_path / "d.npz", x=np.zeros((0, 3), np.float32), y=np.zeros(0, int)))
