"""The zip archive of a .cnna file: anybody's zip program reads it, and what hardly shrinks is not deflated."""

import io
import zipfile
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
    archive.MODEL: TEXT[:5_000] + WEIGHTS,
    "piece0.constants.bin": WEIGHTS,
    "piece0.program.bin": b"",
    "piece1.onnx": b"\0" * 100_000,
}


def test_any_reader_of_zip_archives_gets_the_members():
    """Users look into the file with a program of their own, and equal contents must give equal files."""
    packed = archive.pack(PATH, MEMBERS)
    with zipfile.ZipFile(io.BytesIO(packed)) as file:
        assert file.testzip() is None
        assert {info.filename: file.read(info) for info in file.infolist()} == MEMBERS
        assert {info.date_time for info in file.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert {info.external_attr >> 16 for info in file.infolist()} == {0o644}
    assert archive.unpack(PATH, packed) == MEMBERS
    assert archive.pack(PATH, MEMBERS) == packed


@pytest.mark.parametrize("name", MEMBERS)
def test_weights_are_stored_and_what_repeats_is_deflated(name):
    """To deflate weights took as long as to compile a network, and a board would inflate them at every start."""
    with zipfile.ZipFile(io.BytesIO(archive.pack(PATH, MEMBERS))) as file:
        info = file.getinfo(name)
    stored = name in (archive.MODEL, "piece0.constants.bin", "piece0.program.bin")  # the last one is empty
    assert info.compress_type == (zipfile.ZIP_STORED if stored else zipfile.ZIP_DEFLATED)
    assert stored or info.compress_size <= 0.5 * info.file_size


@pytest.mark.parametrize("members", [MEMBERS, {archive.MODEL: bytes(1 << 31)}], ids=["all", "one"])
def test_more_than_an_archive_holds_is_refused_in_a_line(monkeypatch, members):
    """zipfile writes other records from 2 GiB on, which cnna's reader takes for damage. The zeros take no memory."""
    if members is MEMBERS:
        monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 200_000)
    with pytest.raises(ArtifactError, match=r"^m.cnna: more than the 2 GiB that a .cnna file holds; [^\n]*$"):
        archive.pack(PATH, members)
