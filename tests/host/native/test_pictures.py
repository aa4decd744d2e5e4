"""Scaling pictures: natively and in numpy byte for byte, and within a unit of Pillow."""

import numpy as np
import pytest
from PIL import Image

from cnna.host.native import library, pictures
from cnna.spec.errors import DataError
from cnna.spec.samples import resampling
from cnna.spec.samples.resampling import FILTERS, Filter

from .cases import pictures as drawn

PILLOW = {"bilinear": Image.Resampling.BILINEAR, "area": Image.Resampling.BOX}


@pytest.mark.parametrize("kind", FILTERS)
def test_scaling_gives_numpys_bytes_and_pillows_within_a_unit(kind: Filter):
    """A camera's picture would reach the model otherwise than the pictures it was calibrated with."""
    for picture, size in drawn(150, seed=1):
        found = pictures.resize(picture, size, kind)
        assert np.array_equal(found, resampling.resize(picture, size, kind))
        if picture.shape[2] in (1, 3):  # Pillow takes four channels for colours with alpha, which it weighs
            other = Image.fromarray(picture[..., 0] if picture.shape[2] == 1 else picture)
            scaled = np.asarray(other.resize(size[::-1], PILLOW[kind])).reshape(found.shape)
            assert np.abs(found.astype(int) - scaled).max() <= 1


@pytest.mark.parametrize("kind", FILTERS)
@pytest.mark.parametrize("rows", [6000, 1 << 15])
@pytest.mark.parametrize("wanted", [1, 5, 32, 224])
def test_a_picture_may_shrink_a_thousandfold(kind: Filter, rows: int, wanted: int):
    """Thousands of weights are rounded: a rest that one pixel bears would outweigh all others."""
    rng = np.random.default_rng(wanted)
    ramp = np.linspace(0, 255, rows * 2).astype(np.uint8).reshape(rows, 2, 1)
    for picture in (rng.integers(0, 256, (rows, 2, 1), np.uint8), ramp):
        found = pictures.resize(picture, (wanted, 2), kind)
        assert np.array_equal(found, resampling.resize(picture, (wanted, 2), kind))
        scaled = np.asarray(Image.fromarray(picture[..., 0]).resize((2, wanted), PILLOW[kind]))
        assert np.abs(found[..., 0].astype(int) - scaled).max() <= 1


@pytest.mark.parametrize("kind", FILTERS)
@pytest.mark.parametrize("value", [0, 1, 127, 255])
def test_a_plain_colour_stays(kind: Filter, value: int):
    """Weights that do not add up to one would make every picture darker or brighter."""
    plain = np.full((31, 17, 3), value, np.uint8)
    assert (pictures.resize(plain, (5, 90), kind) == value).all()


def test_rows_may_lie_anywhere():
    """A camera's rows have a pitch of their own; a flipped picture has a negative one."""
    frame = np.random.default_rng(2).integers(0, 256, (20, 40, 3), np.uint8)
    for view in (frame[:, 3:33], frame[::-1], frame[:, ::-1], frame[::2, ::2], frame[..., ::-1]):
        assert np.array_equal(pictures.resize(view, (9, 11)), pictures.resize(np.ascontiguousarray(view), (9, 11)))


FRAME = np.random.default_rng(3).integers(0, 256, (20, 40, 3), np.uint8)


@pytest.mark.parametrize("there", [True, False], ids=["native", "numpy"])
@pytest.mark.parametrize(
    ("picture", "size", "said"),
    [
        (FRAME.astype(np.float32), (9, 11), r"uint8 \[rows, columns, channels\], not float32 \[20, 40, 3\]"),
        (FRAME.astype(np.uint16), (9, 11), "not uint16"),
        (FRAME.view(np.int8), (9, 11), "not int8"),
        (FRAME[..., 0], (9, 11), r"not uint8 \[20, 40\]"),
        (FRAME[:0], (9, 11), r"not uint8 \[0, 40, 3\]"),
        (FRAME[..., :0], (9, 11), r"not uint8 \[20, 40, 0\]"),
        (FRAME, (0, 5), "0 rows and 5 columns"),
        (FRAME, (-1, 4), "-1 rows and 4 columns"),
        (FRAME, (9.5, 3), "9.5 rows and 3 columns"),
    ],
)
def test_what_is_no_picture_is_refused_in_a_line(picture, size, said: str, there: bool, monkeypatch: pytest.MonkeyPatch):
    """A float's bytes would be scaled as if they were pixels; other mistakes would end in numpy's words, or in none."""
    if not there:
        monkeypatch.setattr(library, "native", lambda: library.Found(None, "a test"))
    with pytest.raises(DataError, match=said):
        pictures.resize(picture, size)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_view_that_repeats_pixels_is_a_picture(axis: int):
    """A broadcast view has strides of 0, which no pitch of rows has."""
    view = np.broadcast_to(FRAME.take([0], axis), FRAME.shape)
    assert np.array_equal(pictures.resize(view, (9, 11)), resampling.resize(view, (9, 11)))
