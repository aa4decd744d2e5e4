"""Photographs for a model: JPEG and PNG files cut to its input's size, what the model takes, and what a person can look at.

For the notebooks. Pillow, which a PYNQ image has, is imported when a file is read.
"""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cnna.spec.errors import DataError, ToolError
from cnna.spec.manifest import Manifest

BILINEAR = 2  # Pillow's number for it, which every version has; the name has moved
KINDS = (".jpg", ".jpeg", ".png")
MARGIN = 256 / 224  # of ImageNet's test pictures: the shorter side is scaled to so much more than is cut out of its middle
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet's pixels, 0 to 1, by channel


def find(where: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[Path]:
    """Picture files: those of a folder, by name, or those that are listed. DataError: there is none, or one is missing."""
    if isinstance(where, (str, os.PathLike)):
        folder = Path(where)
        files = sorted(path for path in folder.glob("*") if path.suffix.lower() in KINDS) if folder.is_dir() else [folder]
    else:
        files = [Path(path) for path in where]
    if not files:
        raise DataError(f"{where}: no {', '.join(KINDS)} files")
    if missing := next((path for path in files if not path.is_file()), None):
        raise DataError(f"{missing}: no such file")
    return files


def read(files: Iterable[Path], shape: Sequence[int]) -> NDArray[np.uint8]:
    """uint8 [N, H, W, C] of a model's input shape [C, H, W]: scaled by the shorter side, its middle cut out; grey where C is 1.

    DataError: a file is no picture, or C is neither 1 nor 3. ToolError: no Pillow.
    """
    try:
        from PIL import Image, ImageOps
    except ImportError:
        raise ToolError("pictures are read with Pillow, which is not installed: pip install pillow") from None
    channels, height, width = shape
    if channels not in (1, 3):
        raise DataError(f"a picture has 1 or 3 channels, the model's input {list(shape)} has {channels}")
    found = []
    for file in files:
        try:
            with Image.open(file) as opened:
                picture = ImageOps.exif_transpose(opened).convert("RGB" if channels == 3 else "L")
        except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
            raise DataError(f"{file}: not a picture that Pillow reads: {error}") from None
        scale = MARGIN * max(height / picture.height, width / picture.width)
        size = max(width, round(picture.width * scale)), max(height, round(picture.height * scale))
        left, top = (size[0] - width) // 2, (size[1] - height) // 2
        cut = picture.resize(size, BILINEAR).crop((left, top, left + width, top + height))
        found.append(np.asarray(cut, np.uint8).reshape(height, width, channels))
    return np.stack(found)


class Samples(NamedTuple):
    """Samples of a model's single input, their classes where these are known, and a title for each."""

    x: NDArray[Any]
    classes: NDArray[Any] | None
    titles: list[str]


def samples(where: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], shape: Sequence[int], count: int) -> Samples:
    """The first so many: of an .npz with `x` and, if they are known, `y`; or pictures (uint8 [N, H, W, C]), which `find` finds."""
    if isinstance(where, (str, os.PathLike)) and Path(where).suffix == ".npz":
        try:
            with np.load(where) as data:
                x, classes = data["x"][:count], data["y"][:count] if "y" in data else None
        except (OSError, ValueError, KeyError) as error:
            raise DataError(f"{where}: no .npz file with an array x: {error}") from None
        return Samples(x, classes, [f"is {value}" for value in classes] if classes is not None else [str(n) for n in range(len(x))])
    files = find(where)[:count]
    return Samples(read(files, shape), None, [file.stem for file in files])


def taken(pictures: NDArray[Any], manifest: Manifest) -> NDArray[Any]:
    """What a model takes of uint8 [N, H, W, C]: the same where it stores how to take pictures, else float32 [N, C, H, W].

    The latter as ImageNet's models want it. Floats are taken as they are. DataError: it stores nothing, and has not three channels.
    """
    if manifest["preprocess"] is not None or pictures.dtype != np.uint8:
        return pictures
    if pictures.shape[-1] != len(MEAN):
        raise DataError(
            f"{manifest['name']} does not say how it takes pictures: cnna quantize --scale S --mean M --std S stores it"
        )
    x = (pictures.astype(np.float32) / 255 - np.array(MEAN, np.float32)) / np.array(STD, np.float32)
    return np.ascontiguousarray(x.transpose(0, 3, 1, 2), np.float32)


def shown(x: NDArray[Any], shape: Sequence[int]) -> NDArray[np.float32]:
    """[N, H, W, 1 or 3] from 0 to 1 of a model's samples, channels first or last, whatever their numbers stand for."""
    upright = x if x.shape[1:] != tuple(shape) or x.ndim != 4 else np.moveaxis(x, 1, -1)
    pictures = upright.astype(np.float32)[..., : 3 if upright.shape[-1] >= 3 else 1]
    if x.dtype == np.uint8:
        return pictures / np.float32(255)
    axes = (1, 2, 3)
    low, high = pictures.min(axes, keepdims=True), pictures.max(axes, keepdims=True)
    return (pictures - low) / np.maximum(high - low, np.float32(1e-9))
