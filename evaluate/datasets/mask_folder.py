"""A folder with `images` and `masks`: each picture has a mask of its name, a PNG with the class of each pixel."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cnna.evaluate.datasets.dataset import WHOLE, Dataset, Pictures, SampleError
from cnna.evaluate.datasets.labels import identity_of
from cnna.evaluate.datasets.turned import turned_mask
from cnna.host.samples.picture_modes import open_picture
from cnna.host.samples.pictures import KINDS
from cnna.spec.errors import DataError, ToolError

IMAGES, MASKS = "images", "masks"
NUMBERS = ("L", "P", "1", "I;16", "I")  # modes of Pillow whose pixels are one number


def is_mask_folder(path: Path) -> bool:
    """Whether a folder has both folders."""
    return (path / IMAGES).is_dir() and (path / MASKS).is_dir()


def read_masks(path: Path, labels: tuple[str, ...] | None, skip: bool = False) -> Dataset:
    """A sample for each picture. DataError: there is none, or one has no mask and is not to be left out later (`skip`)."""
    files = sorted(file for file in (path / IMAGES).iterdir() if file.suffix.lower() in KINDS and not file.name.startswith("."))
    if not files:
        raise DataError(f"{path / IMAGES}: no {', '.join(KINDS)} files")
    masks = [path / MASKS / f"{file.stem}.png" for file in files]
    if not skip and (missing := next((mask for mask in masks if not mask.is_file()), None)):
        raise DataError(f"{missing}: no such mask; a picture's mask has its name, and is a .png")
    return Dataset(
        layout="pictures and masks",
        path=str(path),
        names=[file.name for file in files],
        targets=MaskFiles(masks, files),
        source=Pictures(files, WHOLE),
        identity=identity_of([*files, *masks], repr(labels).encode()),
        classes=labels,
    )


class MaskFiles(Sequence[Any]):
    """Masks, each read when it is asked for: int [H, W], as its picture is shown. SampleError: a file is no mask."""

    def __init__(self, files: Sequence[Path], pictures: Sequence[Path]) -> None:
        self._files, self._pictures = files, pictures

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, number: Any) -> Any:
        return turned_mask(self._pictures[number], read_mask(self._files[number]))


def read_mask(file: Path) -> NDArray[np.int64]:
    """The class of each pixel. SampleError: the file is no picture, or its pixels are colours. ToolError: no Pillow."""
    if not file.is_file():
        raise SampleError(f"{file}: no such mask")
    try:
        with open_picture(file) as opened:
            mode, pixels = opened.mode, np.asarray(opened)
    except ImportError:
        raise ToolError("masks are read with Pillow, which is not installed: pip install pillow") from None
    except Exception as error:  # broken files raise whatever Pillow's readers meet in them
        raise SampleError(f"{file}: not a mask that Pillow reads: {error}; save it again as a PNG") from None
    if mode not in NUMBERS:
        raise SampleError(f"{file}: a mask has one number a pixel, but this is {mode}; save it as a grey PNG of class numbers")
    return pixels.astype(np.int64)
