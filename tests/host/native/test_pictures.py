"""Scaling pictures: natively and in numpy byte for byte, and within a unit of Pillow."""

import numpy as np
import pytest
from PIL import Image

from cnna.host.native import pictures
from cnna.spec import resampling
from cnna.spec.resampling import FILTERS, Filter

from .cases import pictures as drawn

PILLOW = {"bilinear": Image.Resampling.BILINEAR, "area": Image.Resampling.BOX}


@pytest.mark.parametrize("kind", FILTERS)
def test_scaling_gives_numpys_bytes_and_pillows_within_a_unit(kind: Filter):
    """A camera's picture would reach the model otherwise than the pictures it was calibrated with."""
    for picture, size in drawn(150, seed=1):
        found = pictures.resize(picture, size, kind)
        assert np.array_equal(found, resampling.resize(picture, size, kind))
        other = Image.fromarray(picture[..., 0] if picture.shape[2] == 1 else picture)
        if picture.shape[2] != 4:  # Pillow takes four channels for colours with alpha, which it weighs
            scaled = np.asarray(other.resize(size[::-1], PILLOW[kind])).reshape(found.shape)
            assert np.abs(found.astype(int) - scaled).max() <= 1


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
