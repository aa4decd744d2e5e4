"""Picture files for a model: their size, their middle, their colours, and files that cannot be used."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from cnna.host.samples import pictures
from cnna.spec.errors import DataError
from cnna.spec.manifest import Manifest
from cnna.spec.samples.preprocess import Preprocess

from ..hand_made import requantised_copy

SHAPE = (3, 56, 56)
RED, BLUE = (255, 0, 0), (0, 0, 255)


def save(path: Path, array: np.ndarray, **more: Any) -> Path:
    """Writes a picture of uint8 [H, W] or [H, W, C]."""
    Image.fromarray(array).save(path, **more)
    return path


def striped(height: int, width: int) -> np.ndarray:
    """A red picture with a blue stripe in the middle half of the columns."""
    made = np.full((height, width, 3), RED, np.uint8)
    made[:, width // 4 : -(width // 4)] = BLUE
    return made


@pytest.mark.parametrize(("height", "width"), [(128, 256), (64, 128), (56, 112), (30, 60)])
def test_the_middle_is_cut_out_of_the_shorter_side(tmp_path: Path, height: int, width: int) -> None:
    """The picture is twice as wide as high, and the cut is 7/8 of its height: all of it must lie in the blue half."""
    found = pictures.read([save(tmp_path / "a.png", striped(height, width))], SHAPE)
    assert found.shape == (1, 56, 56, 3)
    assert found.dtype == np.uint8
    assert (found[0, :, 4:-4] == BLUE).all()


def test_the_margin_is_imagenets(tmp_path: Path) -> None:
    """A frame of an eighth around a 256-pixel picture must be cut away except for 16 pixels of it."""
    framed = np.full((256, 256, 3), RED, np.uint8)
    framed[16:-16, 16:-16] = BLUE
    whole = pictures.read([save(tmp_path / "a.png", framed)], (3, 224, 224))
    assert (whole == BLUE).all()
    framed[16], framed[-17] = RED, RED
    assert (pictures.read([save(tmp_path / "b.png", framed)], (3, 224, 224))[0, [0, -1]] == RED).all()


@pytest.mark.parametrize("shape", [(3, 40, 60), (1, 40, 60), (40, 60, 3)])
def test_a_picture_of_the_models_size_stays_as_it_is(tmp_path: Path, shape: tuple[int, ...]) -> None:
    """It would be magnified, and its edges lost: boxes and masks would lie elsewhere. A turned one counts as it is seen."""
    how = Preprocess(layout="nhwc" if shape[2] == 3 else "nchw")
    pixels = np.random.default_rng(1).integers(0, 256, (40, 60, 3), np.uint8)
    turned = Image.Exif()
    turned[0x0112] = 8  # held upright after a quarter to the left
    files = [save(tmp_path / "a.png", pixels), save(tmp_path / "b.png", np.rot90(pixels, -1).copy(), exif=turned)]
    wanted = np.asarray(Image.fromarray(pixels).convert("L"))[..., None] if shape[0] == 1 else pixels
    assert np.array_equal(pictures.read(files, shape, how), np.stack([wanted, wanted]))
    one_more = save(tmp_path / "c.png", np.pad(pixels, ((0, 1), (0, 0), (0, 0))))
    assert not np.array_equal(pictures.read([one_more], shape, how)[0], wanted)
    scaled = Image.fromarray(pixels).resize((90, 60), pictures.BILINEAR).crop((15, 10, 75, 50))
    if shape[0] == 3:
        assert np.array_equal(pictures.read(files[:1], shape, Preprocess(size=(60,)))[0], np.asarray(scaled))


def test_every_kind_of_file_is_read(tmp_path: Path) -> None:
    """Grey, transparent, palette or JPEG pictures would fail; a camera held upright says so in the file."""
    grey = np.full((60, 60), 100, np.uint8)
    save(tmp_path / "a_grey.png", grey)
    save(tmp_path / "b_alpha.PNG", np.dstack([grey] * 3 + [grey]))
    Image.fromarray(grey).convert("P").save(tmp_path / "c_palette.png")
    save(tmp_path / "d.jpeg", np.dstack([grey] * 3))
    turned = Image.Exif()
    turned[0x0112] = 6  # to be turned by a quarter
    save(tmp_path / "e.jpg", striped(100, 100), quality=95, exif=turned)
    (tmp_path / "notes.txt").write_text("no picture")
    files = pictures.find(tmp_path)
    assert [file.stem for file in files] == ["a_grey", "b_alpha", "c_palette", "d", "e"]
    found = pictures.read(files, SHAPE)
    assert (abs(found[:4].astype(int) - 100) <= 1).all()
    assert found[4, 28, 2, 2] > 200, "the stripe lies across now"
    assert found[4, 2, 28, 0] > 200
    assert pictures.read(files, (1, 20, 30)).shape == (5, 20, 30, 1)


def test_what_cannot_be_used_is_said(tmp_path: Path) -> None:
    """There must be one line with the file's name."""
    with pytest.raises(DataError, match=r"no .jpg, .jpeg, .png files"):
        pictures.find(tmp_path)
    with pytest.raises(DataError, match=r"cat.jpg: no such file"):
        pictures.find(tmp_path / "cat.jpg")
    (tmp_path / "a.png").write_bytes(b"not one")
    with pytest.raises(DataError, match=r"a.png: not a picture"):
        pictures.read(pictures.find([tmp_path / "a.png"]), SHAPE)
    with pytest.raises(DataError, match="has 4"):
        pictures.read([], (4, 8, 8))


def test_a_model_is_given_what_it_takes() -> None:
    """The model must get pixels as they are if it stores preprocessing, and else what ImageNet's models want."""
    none: Manifest = {**requantised_copy().manifest, "preprocess": None, "name": "m"}
    stored: Manifest = {**none, "preprocess": {"scale": 1.0, "mean": [0.0], "std": [1.0]}}
    x = np.random.default_rng(1).integers(0, 256, (2, 8, 8, 3), np.uint8)
    assert pictures.taken(x, stored) is x
    assert pictures.taken(x.astype(np.float32), none).shape == x.shape
    floats = pictures.taken(x, none)
    assert floats.dtype == np.float32
    assert floats[1, 2, 3, 4] == pytest.approx((x[1, 3, 4, 2] / 255 - 0.406) / 0.225, rel=1e-5)
    with pytest.raises(DataError, match="m does not say how it takes pictures"):
        pictures.taken(x[..., :1], none)


def test_samples_of_every_layout_can_be_looked_at() -> None:
    """uint8 with channels last would be drawn as if they came first."""
    x = np.random.default_rng(1).integers(0, 256, (2, 5, 6, 3), np.uint8)
    assert np.array_equal(pictures.shown(x, (3, 5, 6)), x.astype(np.float32) / np.float32(255))
    assert np.array_equal(pictures.shown(x.transpose(0, 3, 1, 2), (3, 5, 6)), x.astype(np.float32) / np.float32(255))
    floats = pictures.shown(x.transpose(0, 3, 1, 2).astype(np.float32) - 100, (3, 5, 6))
    assert (floats.min(), floats.max()) == (0, 1)
    assert pictures.shown(np.zeros((1, 1, 4, 4), np.float32), (1, 4, 4)).shape == (1, 4, 4, 1)


def test_samples_come_from_files_of_either_kind(tmp_path: Path) -> None:
    """Each sample must have a title, and the class if it is known."""
    x, y = np.zeros((4, *SHAPE), np.float32), np.arange(4)
    np.savez(tmp_path / "x.npz", x=x, y=y)
    found = pictures.samples(tmp_path / "x.npz", SHAPE, 3)
    assert found.classes is not None
    assert (found.x.shape, found.classes.tolist(), found.titles) == ((3, *SHAPE), [0, 1, 2], ["is 0", "is 1", "is 2"])
    np.savez(tmp_path / "x.npz", x=x)
    assert pictures.samples(str(tmp_path / "x.npz"), SHAPE, 2).titles == ["0", "1"]
    save(tmp_path / "cat.png", striped(60, 60))
    found = pictures.samples(tmp_path, SHAPE, 2)
    assert (found.x.shape, found.classes, found.titles) == ((1, 56, 56, 3), None, ["cat"])
    np.savez(tmp_path / "x.npz", z=x)
    with pytest.raises(DataError, match=r"x.npz: no .npz file with an array x"):
        pictures.samples(tmp_path / "x.npz", SHAPE, 2)
