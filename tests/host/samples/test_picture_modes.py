"""Pictures in each mode that Pillow opens: scaled to the 8 bits that they stand for, or refused in a line."""

import io
import re
import struct
import warnings
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageCms

from cnna.host.samples import picture_modes, pictures
from cnna.spec.errors import DataError

GREY = np.arange(256, dtype=np.uint8).reshape(16, 16)
COLOURS = np.random.default_rng(3).integers(0, 256, (16, 16, 3), np.uint8)


def read(file: Path | io.BytesIO, channels: int) -> NDArray[np.int64]:
    """[16, 16, channels], of a file of 16 x 16 pixels, without any warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return pictures.read([file], (channels, 16, 16))[0].astype(np.int64)


def saved(picture: Image.Image, folder: Path, kind: str, **more: Any) -> Path:
    """The file, called .png whatever it holds: names of files prove nothing."""
    picture.save(folder / "a.png", kind, **more)
    return folder / "a.png"


def of_16_bits(kind: str, order: str = "<", bits: int = 16) -> Image.Image:
    """GREY in numbers of so many bits, as Pillow's mode `kind`."""
    numbers = np.round(GREY.astype(float) * ((1 << bits) - 1) / 255).astype(f"{order}u2")
    return Image.frombytes(kind, (16, 16), numbers.tobytes())


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(("mode", "order", "kind"), [("I;16", "<", "PNG"), ("I;16", "<", "TIFF"), ("I;16B", ">", "TIFF")])
def test_numbers_of_16_bits_are_scaled(tmp_path: Path, mode: str, order: str, kind: str, channels: int) -> None:
    """All above 255 would be white: a model would see a black and white picture, and nothing would say so."""
    found = read(saved(of_16_bits(mode, order), tmp_path, kind), channels)
    assert np.array_equal(found, np.repeat(GREY[..., None], channels, 2))


@pytest.mark.parametrize("orientation", range(1, 9))
def test_pictures_of_16_bits_are_turned(tmp_path: Path, orientation: int) -> None:
    """A camera's mark would be lost, or scale the bytes of a number apart, where the picture is not of 8 bits."""
    mark = Image.Exif()
    mark[0x0112] = orientation
    plain = read(saved(Image.fromarray(GREY), tmp_path, "PNG", exif=mark), 1)
    assert np.array_equal(read(saved(of_16_bits("I;16"), tmp_path, "PNG", exif=mark), 1), plain)
    assert np.array_equal(plain[..., 0], GREY) == (orientation == 1)


def test_a_portable_map_of_16_bits(tmp_path: Path) -> None:
    """Pillow opens it as 32-bit integers: it would be refused, or clipped."""
    (tmp_path / "a.png").write_bytes(b"P5 16 16 4095\n" + (GREY.astype(int) * 4095 // 255).astype(">u2").tobytes())
    assert abs(read(tmp_path / "a.png", 1)[..., 0] - GREY).max() <= 1


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "YCbCr", "LAB", "HSV"])
def test_every_mode_becomes_what_its_colours_are(tmp_path: Path, mode: str, channels: int) -> None:
    """A model would get another picture, or none. The colours are computed from RGB; LAB, HSV and YCbCr round on the way."""
    colours = np.repeat(GREY[..., None] // 128 * 255, 3, 2) if mode == "1" else COLOURS
    source = Image.fromarray(colours)
    if mode == "LAB":
        space = ImageCms.buildTransform(ImageCms.createProfile("sRGB"), ImageCms.createProfile("LAB"), "RGB", "LAB")
        made = ImageCms.applyTransform(source, space)
        assert made is not None
    else:
        made = source.quantize(256) if mode == "P" else source.convert(mode)
    kind = "TIFF" if mode in ("CMYK", "YCbCr", "LAB") else "PNG"
    if mode == "HSV":  # no format holds it
        file, kept = saved(made.convert("RGB"), tmp_path, kind), made.convert("RGB")
    else:
        file, kept = saved(made, tmp_path, kind), source.convert("L").convert("RGB") if mode in ("L", "LA") else source
    wanted = np.asarray(kept.convert("L"))[..., None] if channels == 1 else np.asarray(kept)
    error = abs(read(file, channels) - wanted)
    assert error.mean() <= {"P": 8, "LAB": 4, "YCbCr": 2}.get(mode, 0)


@pytest.mark.parametrize("alpha", [3, bytes(range(256))])
@pytest.mark.parametrize("channels", [1, 3])
def test_a_palettes_transparency_is_dropped(tmp_path: Path, alpha: int | bytes, channels: int) -> None:
    """Pillow would print a warning with a line of its own code for each picture of a folder."""
    made = Image.fromarray(GREY).convert("P")
    assert np.array_equal(read(saved(made, tmp_path, "PNG", transparency=alpha), channels)[..., 0], GREY)
    made = Image.fromarray(GREY)
    assert np.array_equal(read(saved(made, tmp_path, "PNG", transparency=7), channels)[..., 0], GREY)


@pytest.mark.parametrize("mode", ["La", "RGBa", "PA", "HSV"])
def test_modes_that_no_file_is_opened_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    """A plugin of Pillow's may open a file in any of its modes, some of which become others in two steps alone."""
    file = saved(Image.fromarray(GREY), tmp_path, "PNG")
    made = {
        "La": lambda: Image.fromarray(GREY).convert("LA").convert("La"),
        "RGBa": lambda: Image.fromarray(GREY).convert("RGBA").convert("RGBa"),
        "PA": lambda: Image.fromarray(GREY).convert("P").convert("PA"),
        "HSV": lambda: Image.fromarray(GREY).convert("RGB").convert("HSV"),
    }[mode]()
    assert made.mode == mode
    monkeypatch.setattr(picture_modes, "open_picture", lambda file: made)
    assert np.array_equal(read(file, 3), np.repeat(GREY[..., None], 3, 2))


def flat(width: int, height: int) -> bytes:
    """A PNG of one bit a pixel, all black: small as a file, whatever its size."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    rows = zlib.compress(bytes(1 + (width + 7) // 8) * height, 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def test_a_large_picture_is_read_without_a_warning(tmp_path: Path) -> None:
    """Pillow warns of 90 million pixels with a line of its own code."""
    (tmp_path / "a.png").write_bytes(flat(10_000, 10_000))
    assert not read(tmp_path / "a.png", 1).any()


@pytest.mark.parametrize("size", [(20_000, 20_000), (1, picture_modes.MOST_PIXELS + 1)])
def test_a_picture_beyond_the_limit_is_refused_with_the_limit(tmp_path: Path, size: tuple[int, int]) -> None:
    """Its pixels would take the machine's memory; the line would call it no picture."""
    (tmp_path / "a.png").write_bytes(flat(size[0], 8)[:16] + struct.pack(">II", *size) + flat(size[0], 8)[24:])
    head = bytearray((tmp_path / "a.png").read_bytes())
    head[29:33] = struct.pack(">I", zlib.crc32(bytes(head[12:29])))
    (tmp_path / "a.png").write_bytes(bytes(head))
    with pytest.raises(
        DataError, match=f"a.png: {size[0]:,} x {size[1]:,} pixels; a picture may have 150,000,000; save it smaller"
    ):
        read(tmp_path / "a.png", 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert picture_modes.size_of(tmp_path / "a.png") == size[::-1]


def animated(kind: str) -> bytes:
    """Two different pictures in a file."""
    file = io.BytesIO()
    first, second = Image.fromarray(GREY), Image.fromarray(GREY[::-1].copy())
    first.save(file, kind, save_all=True, append_images=[second])
    return file.getvalue()


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG", "TIFF"])
def test_a_file_of_several_pictures_is_refused(tmp_path: Path, kind: str) -> None:
    """Only the first would be run, and nobody would miss the others. One picture in such a format is a picture."""
    (tmp_path / "a.png").write_bytes(animated(kind))
    with pytest.raises(DataError, match=f"a.png: {kind} of 2 pictures, but a sample is one; save those that you want"):
        read(tmp_path / "a.png", 3)
    assert read(saved(Image.fromarray(GREY), tmp_path, kind), 3).shape == (16, 16, 3)


def test_a_cameras_picture_with_a_preview_is_read(tmp_path: Path) -> None:
    """Telephones write them: half of a user's photographs would be refused."""
    (tmp_path / "a.jpg").write_bytes(animated("MPO"))
    assert abs(read(tmp_path / "a.jpg", 1)[..., 0] - GREY).mean() < 4


def test_numbers_without_a_white_are_refused(tmp_path: Path) -> None:
    """They would be clipped at 255, whatever their range."""
    for picture, tags in (
        (Image.fromarray(GREY.astype(np.float32) / 255), {}),
        (Image.fromarray(GREY.astype(np.int32) << 16), {}),
        (of_16_bits("I;16"), {262: 0}),  # white is 0
    ):
        file = saved(picture, tmp_path, "TIFF", tiffinfo=tags)
        with pytest.raises(DataError) as caught:
            read(file, 1)
        said = r"a\.png: mode (F|I|I;16), and nothing says which of its numbers is white; save it with 8 bits, or as a PNG of 16"
        assert re.search(said, str(caught.value)), caught.value


def test_a_damaged_file_is_named_in_a_line(tmp_path: Path) -> None:
    """Pillow's readers raise whatever they meet in a broken file; a user would see that instead of the file's name."""
    rng = np.random.default_rng(5)
    for kind in ("PNG", "JPEG", "TIFF", "GIF"):
        whole = saved(Image.fromarray(COLOURS), tmp_path, kind).read_bytes()
        for _ in range(40):
            broken = bytearray(whole[: rng.integers(4, len(whole))])
            broken[rng.integers(0, len(broken))] ^= int(rng.integers(1, 256))
            (tmp_path / "a.png").write_bytes(bytes(broken))
            said = refused(tmp_path / "a.png")
            assert said.startswith(f"{tmp_path / 'a.png'}: ") or not said
            assert "\n" not in said
            assert not re.search(r"unpack|index out of range|object|NoneType", said), said


def refused(file: Path) -> str:
    """What is said of a file; "" where it can still be read."""
    try:
        pictures.read([file], (3, 16, 16))
    except DataError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("kept", range(9))
def test_a_file_of_a_few_bytes_is_no_picture(tmp_path: Path, kept: int) -> None:
    """Pillow's readers look for more bytes than there are: the line would be Python's about its own buffers."""
    Image.new("L", (8, 8)).save(tmp_path / "whole.png")
    file = tmp_path / "p.png"
    for head in ((tmp_path / "whole.png").read_bytes(), b"\xff\xd8\xff\xe0\0\x10JFIF", bytes(9), b"x\n" * 5):
        file.write_bytes(head[:kept])
        said = refused(file)
        assert not re.search(r"buffer|unpack|index|object", said), said
        assert ("it is empty" in said) == (not kept)
        assert said.endswith("; copy or save it again, or leave it out")
