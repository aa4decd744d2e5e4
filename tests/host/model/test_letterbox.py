"""Pictures of any size go into a detector's input, and boxes come back to the picture's pixels."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cnna.host.model.letterbox import GREY, placed, put, read
from cnna.spec.errors import DataError


@pytest.mark.parametrize("corner", [False, True])
@pytest.mark.parametrize("size", [(64, 64), (32, 64), (100, 30), (7, 300), (640, 480), (1, 1)])
def test_a_square_comes_back(size: tuple[int, int], corner: bool) -> None:
    """Boxes would lie beside what the network saw, by the bars or by the scale."""
    found = placed(size, (64, 64), corner)
    assert max(found.scaled[0] / 64, found.scaled[1] / 64) == 1
    whole = np.array([[0, 0, *found.scaled[::-1]]], np.float32) + np.array([found.left, found.top] * 2, np.float32)
    assert found.back(whole)[0].tolist() == pytest.approx([0, 0, size[1], size[0]], abs=1e-3)
    assert (found.top, found.left) == (0, 0) or not corner
    beyond = np.array([[-50, -50, 500, 500]], np.float32)
    assert found.back(beyond)[0].tolist() == [0, 0, size[1], size[0]]


def test_bars_are_grey_and_the_picture_stays_whole() -> None:
    """A picture would be cut or stretched, and the network would see a part of it alone, or other proportions."""
    picture = np.full((20, 40, 3), 200, np.uint8)
    into = np.zeros((64, 64, 3), np.uint8)
    found = put(picture, into, corner=False)
    assert (found.top, found.left, found.scaled) == (16, 0, (32, 64))
    assert (into[16:48] == 200).all()
    assert (into[:16] == GREY).all()
    assert (into[48:] == GREY).all()


def test_a_picture_of_the_inputs_size_stays_as_it_is() -> None:
    """Scaling would cost time and change pixels."""
    picture = np.random.default_rng(1).integers(0, 256, (64, 64, 3)).astype(np.uint8)
    into = np.zeros_like(picture)
    put(picture, into, corner=False)
    assert np.array_equal(into, picture)


def test_files_and_arrays_are_read_alike(tmp_path: Path) -> None:
    """A file's colours would be in another order than an array's, or grey would lack its channel."""
    picture = np.random.default_rng(1).integers(0, 256, (5, 7, 3)).astype(np.uint8)
    Image.fromarray(picture).save(tmp_path / "a.png")
    assert np.array_equal(read(tmp_path / "a.png", 3), picture)
    assert np.array_equal(read(str(tmp_path / "a.png"), 3), read(picture, 3))
    assert read(picture[..., 0], 1).shape == (5, 7, 1)
    assert read(tmp_path / "a.png", 1).shape == (5, 7, 1)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (np.zeros((5, 7, 3)), "uint8"),
        (np.zeros((5, 7, 4), np.uint8), r"\[5, 7, 4\]"),
        (np.zeros((0, 7, 3), np.uint8), r"\[0, 7, 3\]"),
        ("nowhere.png", "no such file"),
        (3, "not int"),
    ],
)
def test_what_is_no_picture_is_one_line(given: object, said: str) -> None:
    """The user would see a traceback of numpy, or boxes of an array that was read as another shape."""
    with pytest.raises(DataError, match=said):
        read(given, 3)
