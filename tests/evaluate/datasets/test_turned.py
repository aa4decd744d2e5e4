"""Boxes and points of pictures that EXIF turns, beside where Pillow puts the pixels that they are about."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cnna.evaluate.datasets.turned import turn_of, turned_mask
from cnna.host.samples.picture_modes import ORIENTATION, upright

WIDTH, HEIGHT = 60, 40
LEFT, TOP, WIDE, HIGH = BOX = 8, 6, 20, 10


def stored(path: Path, orientation: int) -> Path:
    """A black picture with a white box, which a camera has stored lying on its side or upside down."""
    pixels = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    pixels[TOP : TOP + HIGH, LEFT : LEFT + WIDE] = 255
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    Image.fromarray(pixels).save(path, exif=exif)
    return path


def white(path: Path) -> list[int]:
    """Left, top, width and height of the white box as the picture is shown."""
    rows, columns = np.nonzero(np.asarray(upright(path, 1)) > 127)
    return [columns.min(), rows.min(), np.ptp(columns) + 1, np.ptp(rows) + 1]


@pytest.mark.parametrize("orientation", [5, 6, 7, 8])
def test_boxes_of_the_stored_picture_turn_with_it(tmp_path: Path, orientation: int) -> None:
    """A detector that is right would find nothing: its boxes would be beside those of the annotations."""
    path = stored(tmp_path / "a.png", orientation)
    turn = turn_of(path, {"width": WIDTH, "height": HEIGHT})
    assert turn.size == (WIDTH, HEIGHT)
    box = turn.box(BOX)
    assert box == pytest.approx(white(path))
    x, y, known, *unknown = turn.points([LEFT, TOP, 2, 0, 0, 0])
    assert (x in (box[0], box[0] + box[2])) is (y in (box[1], box[1] + box[3])) is (known == 2) is True
    assert unknown == [0, 0, 0]


@pytest.mark.parametrize(
    ("orientation", "size"), [(6, (HEIGHT, WIDTH)), (1, (WIDTH, HEIGHT)), (3, (WIDTH, HEIGHT)), (6, (None, None))]
)
def test_boxes_of_the_shown_picture_stay(tmp_path: Path, orientation: int, size: tuple[int, int]) -> None:
    """Annotations that were drawn over the picture as people see it would be turned away from it."""
    path = stored(tmp_path / "a.png", orientation)
    turn = turn_of(path, {"width": size[0], "height": size[1]})
    assert turn.box(BOX) == list(BOX)
    assert turn.points([1.0, 2.0, 2]) == [1.0, 2.0, 2]


@pytest.mark.parametrize("smaller", [1, 2])
@pytest.mark.parametrize("orientation", [5, 6, 7, 8])
def test_masks_of_the_stored_picture_turn_with_it(tmp_path: Path, orientation: int, smaller: int) -> None:
    """A network that is right would be judged by a mask that lies across its picture; one drawn over the shown picture stays."""
    path = stored(tmp_path / "a.png", orientation)
    with Image.open(path) as opened:
        mask = (np.asarray(opened)[::smaller, ::smaller, 0] > 127).astype(np.int64)
    shown = (np.asarray(upright(path, 1))[::smaller, ::smaller] > 127).astype(np.int64)
    assert not np.array_equal(mask, shown)
    assert np.array_equal(turned_mask(path, mask), shown)
    assert np.array_equal(turned_mask(path, shown), shown)


def test_masks_of_other_pictures_stay(tmp_path: Path) -> None:
    """A mask would be turned away from a picture that is shown as it is stored."""
    mask = np.arange(HEIGHT * WIDTH).reshape(HEIGHT, WIDTH)
    for orientation in (1, 3):
        assert np.array_equal(turned_mask(stored(tmp_path / "a.png", orientation), mask), mask)
