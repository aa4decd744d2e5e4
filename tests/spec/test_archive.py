"""The zip archive of a .cnna file: anybody's zip program reads it, and weights are deflated in the way that suits them."""

import io
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest

from cnna.spec.checks import archive
from cnna.spec.errors import ArtifactError

PATH = Path("m.cnna")
RNG = np.random.default_rng(1)
WEIGHTS = np.clip(np.rint(RNG.normal(0, 30, 300_000)), -128, 127).astype(np.int8).tobytes()
TEXT = "".join(f'{{"layer": {n % 97}, "tensor": "features.{n % 89}.conv"}}, ' for n in range(10_000)).encode()
MEMBERS = {
    archive.MANIFEST: TEXT,
    archive.DIGEST: b"0" * 64,
    archive.MODEL: TEXT[:50_000] + WEIGHTS,
    "piece0.constants.bin": WEIGHTS,
    "piece0.program.bin": b"",
    "piece1.onnx": b"\0" * 100_000,
}


def test_any_reader_of_zip_archives_gets_the_members():
    """Users look into the file with a program of their own, and older versions of cnna read it with zipfile too."""
    packed = archive.pack(PATH, MEMBERS)
    with zipfile.ZipFile(io.BytesIO(packed)) as file:
        assert file.testzip() is None
        assert {info.filename: file.read(info) for info in file.infolist()} == MEMBERS
        assert {info.date_time for info in file.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert {info.external_attr >> 16 for info in file.infolist()} == {0o644}
    assert archive.unpack(PATH, packed) == MEMBERS
    assert archive.pack(PATH, MEMBERS) == packed


@pytest.mark.parametrize("name", MEMBERS)
def test_a_member_is_no_larger_than_by_the_usual_strategy(name):
    """Text repeats and weights do not; the strategy of the one makes a larger file of the other, and takes longer."""
    usual = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    size = len(usual.compress(MEMBERS[name]) + usual.flush())
    with zipfile.ZipFile(io.BytesIO(archive.pack(PATH, MEMBERS))) as file:
        packed = file.getinfo(name).compress_size
    assert packed < size if name in (archive.MODEL, "piece0.constants.bin") else packed <= size


def test_more_than_a_zip_archive_holds_is_refused_in_a_line(monkeypatch):
    """Sizes and offsets have 32 bits: a reader would look for members at other places."""

    class Great(bytes):
        def __len__(self) -> int:
            return 1 << 32

    monkeypatch.setattr(archive, "_deflated", lambda data: Great())
    with pytest.raises(ArtifactError, match=r"^m.cnna: more than the 4 GiB that a zip archive holds; [^\n]*$"):
        archive.pack(PATH, MEMBERS)
