"""One picture file as 8 bits of grey or of red, green and blue, upright, whatever mode Pillow opens it in.

A mode is Pillow's name for a kind of pixel. Alpha is dropped: the colours below it are the picture's. Numbers of 16 bits give
their upper 8, as Pillow does for colours of 16 bits. Where nothing says which number is white, a picture is refused; so is a file
of several pictures, since a sample is one. Pillow, which a PYNQ image has, is imported only when a file is read.
"""

import struct
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from cnna.spec.errors import DataError, ToolError

if TYPE_CHECKING:
    from PIL.Image import Image

PLAIN = ("1", "L", "P", "RGB", "RGBA", "RGBX", "LA", "PA", "CMYK", "YCbCr", "HSV")  # Pillow converts them by itself
BEFORE = {"La": "LA", "RGBa": "RGBA", "LAB": "RGB"}  # modes that Pillow converts to this one alone
WHITE_OF_16 = ("PNG", "PPM", "JPEG2000")  # formats whose numbers Pillow scales to 16 bits, or that say that they have 16
BITS, KIND, BLACK_IS_ZERO = 258, 262, 1  # TIFF's tags of the bits of a number and of what numbers mean, and a meaning
ORIENTATION, TURNED = 0x0112, (5, 6, 7, 8)  # EXIF's tag, and its values that make columns of rows
MOST_PIXELS = 150_000_000  # of a file: 450 MB of colours; Pillow refuses somewhat more, and warns from half of that
HEAD = 16  # bytes of a file that tell its format
NOT_OPENED = (SyntaxError, IndexError, TypeError, struct.error)  # what Pillow's readers raise for a file of another format
SEVERAL = "MPO"  # a JPEG of a camera, with previews or a second view behind the picture


def upright(file: Path | BinaryIO, channels: int) -> "Image":
    """A picture of mode L for one channel, RGB for three. DataError: it is none, or cannot be scaled. ToolError: no Pillow."""
    try:
        from PIL import ImageOps
    except ImportError:
        raise ToolError("pictures are read with Pillow, which is not installed: pip install pillow") from None
    try:
        with open_picture(file) as opened:
            _check_size(file, opened)
            _check_single(file, opened)
            return _eight_bits(file, ImageOps.exif_transpose(opened), _white(opened)).convert("RGB" if channels == 3 else "L")
    except (DataError, MemoryError):
        raise
    except Exception as error:  # broken files raise whatever Pillow's readers meet in them
        raise DataError(
            f"{file}: not a picture that Pillow reads: {_reason(error)}; copy or save it again, or leave it out"
        ) from None


def _reason(error: Exception) -> str:
    """What is wrong with a file: Pillow's own words, or a plain one where Python's are about a reader's variables."""
    own = isinstance(error, (OSError, SyntaxError, EOFError))
    return " ".join(str(error).split()) if own and str(error) else "its bytes are damaged, or too few"


def size_of(file: Path) -> tuple[int, int] | None:
    """Rows and columns of a picture held upright, as the file's head says; None if it says nothing."""
    try:
        with open_picture(file) as opened:
            turned = "exif" in opened.info and opened.getexif().get(ORIENTATION) in TURNED
            return (opened.width, opened.height) if turned else (opened.height, opened.width)
    except Exception:  # as above; `upright` says what is wrong
        return None


def quarter_turn(file: Path) -> int:
    """EXIF's orientation of a picture whose columns are shown as rows; 0 for all others, and where the file says nothing."""
    try:
        with open_picture(file) as opened:
            orientation = opened.getexif().get(ORIENTATION) if "exif" in opened.info else None
            return orientation if orientation in TURNED else 0
    except Exception:  # as of `size_of`
        return 0


def open_picture(file: Path | BinaryIO, formats: Sequence[str] = ()) -> Any:
    """The file's head, read; nothing is decoded. formats: Pillow's names of those that may be; none: all that Pillow knows.

    `Image.open` does the same, but has a limit of pixels, of which it warns before a caller can look. OSError: no such format.
    """
    from PIL import Image

    if isinstance(file, Path):
        with file.open("rb") as whole:
            head = whole.read(HEAD)
    else:
        head = file.read(HEAD)
    if not head:
        raise OSError("it is empty")
    for load in (Image.preinit, Image.init):  # the usual formats, and all
        load()
        for factory, accept in (Image.OPEN[kind] for kind in formats or Image.ID if kind in Image.OPEN):
            with suppress(*NOT_OPENED):
                taken = accept(head) if accept else True
                if not taken or isinstance(taken, str):  # a text says why it cannot be read here
                    continue
                if isinstance(file, Path):
                    path: Any = str(file)  # a reader closes what it has opened itself
                    return factory(path, path)
                file.seek(0)
                return factory(file, "")
    raise OSError("its format is none that Pillow knows")


def _check_size(file: Path | BinaryIO, opened: Any) -> None:
    if opened.width * opened.height > MOST_PIXELS:
        size = f"{opened.width:,} x {opened.height:,} pixels"
        raise DataError(f"{file}: {size}; a picture may have {MOST_PIXELS:,}; save it smaller")


def _check_single(file: Path | BinaryIO, opened: Any) -> None:
    frames = getattr(opened, "n_frames", 1)
    if frames > 1 and opened.format != SEVERAL:
        raise DataError(f"{file}: {opened.format} of {frames} pictures, but a sample is one; save those that you want as files")


def _white(opened: Any) -> int:
    """The number that is white in a picture of one number of more than 8 bits a pixel; 0 if nothing says it."""
    if opened.format in WHITE_OF_16:
        return 0xFFFF
    if opened.format == "TIFF" and opened.mode.startswith("I;16") and opened.tag_v2.get(KIND) == BLACK_IS_ZERO:
        (bits,) = opened.tag_v2.get(BITS, (0,))
        return int((1 << bits) - 1)
    return 0


def _eight_bits(file: Path | BinaryIO, picture: "Image", white: int) -> "Image":
    """The picture in a mode that Pillow converts to grey and to colours. DataError: it has none."""
    from PIL import Image

    picture.info.pop("transparency", None)  # a colour or a palette's alpha: Pillow would warn of what becomes of it
    if picture.mode.startswith("I"):
        if not white:
            raise DataError(_unscaled(file, picture.mode))
        numbers = np.asarray(picture).astype(np.int64) * 0xFFFF // white
        return Image.fromarray((np.clip(numbers, 0, 0xFFFF) >> 8).astype(np.uint8))
    if picture.mode == "F":
        raise DataError(_unscaled(file, picture.mode))
    if picture.mode in BEFORE:
        return picture.convert(BEFORE[picture.mode])
    if picture.mode not in PLAIN:
        raise DataError(f"{file}: its mode {picture.mode} becomes neither grey nor colours of 8 bits; save it as RGB or grey")
    return picture


def _unscaled(file: Path | BinaryIO, mode: str) -> str:
    return f"{file}: mode {mode}, and nothing says which of its numbers is white; save it with 8 bits, or as a PNG of 16 bits"
