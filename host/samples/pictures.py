"""Photographs for a model: reads JPEG and PNG files, cuts them to the input's size, and turns inputs back into pictures to look at.

For the notebooks, `cnna quantize`, `cnna run` and `cnna serve`. `picture_modes` reads a file; `preparation` tells what is done.
"""

import os
from collections.abc import Iterable, Sequence
from os.path import isdir
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cnna.host.samples.picture_modes import upright
from cnna.spec.errors import DataError
from cnna.spec.manifest import Manifest
from cnna.spec.names import in_line
from cnna.spec.samples.preprocess import Preprocess

BILINEAR = 2  # Pillow's number for it, the same in every version; its name has moved
KINDS = (".jpg", ".jpeg", ".png")
OTHERS = (".avif", ".bmp", ".gif", ".heic", ".heif", ".jfif", ".jp2", ".pgm", ".ppm", ".tif", ".tiff", ".webp")  # not looked for
MARGIN = 256 / 224  # as for ImageNet's test pictures: a picture of another size is scaled to so much more than is cut out
USUAL = Preprocess()
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet's pixels, scaled to 0..1, by channel


def find(where: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[Path]:
    """Picture files: those in a folder, by name, or those in the list. DataError: there is none, or one is missing or a folder."""
    if isinstance(where, (str, os.PathLike)):
        folder = Path(where)
        files = _in_folder(folder) if folder.is_dir() else [folder]
    else:
        files = [Path(path) for path in where]
    if not files:
        raise DataError(f"{where}: no pictures are given")
    if missing := next((path for path in files if not path.is_file()), None):
        raise DataError(f"{missing}: {'a folder, not a picture' if missing.is_dir() else 'no such file'}")
    return files


def _in_folder(folder: Path) -> list[Path]:
    """The folder's pictures. DataError: it has none."""
    found = sorted(path for path in folder.glob("*") if path.suffix.lower() in KINDS and not path.is_dir())
    if not found:
        rest = left_out(folder)
        what = f"; it has {rest}" if rest else ""
        remedy = f": save pictures as {' or '.join(KINDS)}, all in one folder" if rest else ""
        raise DataError(f"{folder}: no {', '.join(KINDS)} files{what}{remedy}")
    return found


def left_out(folder: Path) -> str:
    """What in a folder is not read though it may be meant: pictures of other kinds, and folders with pictures; empty: nothing."""
    there = sorted(path for path in folder.glob("*") if not path.name.startswith("."))
    files = [path.name for path in there if path.suffix.lower() in OTHERS and path.is_file()]
    inner = [f"{path.name}/" for path in there if path.is_dir() and _has_pictures(path)]
    return in_line([*files, *inner]) if files or inner else ""


def _has_pictures(folder: Path) -> bool:
    try:
        return any(path.suffix.lower() in (*KINDS, *OTHERS) for path in folder.iterdir())
    except OSError:  # a folder that the user may not read
        return False


def read(files: Iterable[Path | BinaryIO], shape: Sequence[int | None], how: Preprocess = USUAL) -> NDArray[np.uint8]:
    """Pictures for a model's input shape, uint8 [N, H, W, C]; grey if C is 1. shape: [C, H, W], or in the layout that `how` names.
    Files may be open.

    They are scaled and cut as `how` says. Without a size there, a picture that has the input's size stays as it is; of any other
    the shorter side is scaled, with a margin around the middle that is cut out. DataError: a file is no picture, C is neither 1
    nor 3, or the cut has another size than the input. ToolError: no Pillow.
    """
    channels, height, width = frame(shape, how)
    found = []
    for file in files:
        picture = upright(file, channels)
        size = _scaled((picture.height, picture.width), (height, width), how)
        top, left = (size[0] - height) // 2, (size[1] - width) // 2
        if min(top, left) < 0:
            raise DataError(
                f"{file}: scaled to {size[0]} rows and {size[1]} columns, fewer than the {height} x {width} to cut out; "
                f"give a greater --size, as {height},{width}"
            )
        if size != (picture.height, picture.width):
            picture = picture.resize((size[1], size[0]), BILINEAR)
        cut = picture.crop((left, top, left + width, top + height))
        pixels = np.asarray(cut, np.uint8).reshape(height, width, channels)
        found.append(pixels[..., ::-1] if how.colour == "bgr" else pixels)
    return np.stack(found)


def frame(shape: Sequence[int | None], how: Preprocess) -> tuple[int, int, int]:
    """Channels, rows and columns of the pictures. DataError: they cannot be the model's input."""
    if len(shape) != 3 or None in shape:
        raise DataError(f"the model's input {list(shape)} is no picture: it needs three axes of a fixed size")
    sizes = [int(size) for size in shape if size is not None]
    channels, height, width = sizes if how.layout == "nchw" else (sizes[2], *sizes[:2])
    if channels not in (1, 3):
        other, there = ("nchw", sizes[0]) if how.layout == "nhwc" else ("nhwc", sizes[2])
        remedy = f"; with --layout {other} it has {there}" if there in (1, 3) else ""
        raise DataError(f"a picture has 1 or 3 channels, the model's input {sizes} in {how.layout} has {channels}{remedy}")
    if how.crop not in (None, (height, width)):
        cut = " x ".join(map(str, how.crop or ()))
        remedy = f"leave --crop out, or give --crop {height},{width}"
        raise DataError(f"pictures are cut to {cut}, but the model's input is {height} x {width} pixels; {remedy}")
    return channels, height, width


def _scaled(own: tuple[int, int], wanted: tuple[int, int], how: Preprocess) -> tuple[int, int]:
    """Rows and columns to which a picture is scaled before its middle is cut out."""
    if how.size is not None and len(how.size) == 2:
        return how.size[0], how.size[1]
    if how.size is None and own == wanted:
        return own
    scale = MARGIN * max(wanted[0] / own[0], wanted[1] / own[1])
    if how.size is not None:
        scale, wanted = how.size[0] / min(own), (1, 1)
    return max(wanted[0], round(own[0] * scale)), max(wanted[1], round(own[1] * scale))


def as_input(pictures: NDArray[np.uint8], how: Preprocess) -> NDArray[np.uint8]:
    """Pictures as `read` returns them, in the layout of the model's input."""
    return pictures if how.layout == "nhwc" else np.ascontiguousarray(pictures.transpose(0, 3, 1, 2))


def are_pictures(path: Path) -> bool:
    """Whether a path that a user gives stands for pictures: a folder, or a picture file, of whatever format."""
    return isdir(path) or path.suffix.lower() in (*KINDS, *OTHERS)


class Samples(NamedTuple):
    """Samples of a model's single input, their classes if known, and a title for each."""

    x: NDArray[Any]
    classes: NDArray[Any] | None
    titles: list[str]


def samples(where: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], shape: Sequence[int], count: int) -> Samples:
    """The first so many samples: of an .npz with `x` and, if known, `y`; or pictures (uint8 [N, H, W, C]) that `find` finds."""
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
    """What a model takes for pictures, uint8 [N, H, W, C]: the same if it stores preprocessing, else float32 [N, C, H, W].

    The latter is scaled as ImageNet's models want it. Floats stay as they are. DataError: the model stores nothing, and its input
    does not have three channels.
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
    """A model's samples as pictures, [N, H, W, 1 or 3] from 0 to 1, channels first or last, whatever range they have."""
    upright = x if x.shape[1:] != tuple(shape) or x.ndim != 4 else np.moveaxis(x, 1, -1)
    pictures = upright.astype(np.float32)[..., : 3 if upright.shape[-1] >= 3 else 1]
    if x.dtype == np.uint8:
        return pictures / np.float32(255)
    axes = (1, 2, 3)
    low, high = pictures.min(axes, keepdims=True), pictures.max(axes, keepdims=True)
    return (pictures - low) / np.maximum(high - low, np.float32(1e-9))
