"""The zlib that waveforms are written with, against Python's."""

import zlib
from pathlib import Path

import pytest

from .compressors import cases, compiled, compressed

CALL = """
    uLongf size = compressBound(text.size());
    std::string made(size, 'x');
    const Bytef* from = reinterpret_cast<const Bytef*>(text.data());
    if (compress2(reinterpret_cast<Bytef*>(&made[0]), &size, from, text.size(), 4) != Z_OK) return 1;
    made.resize(size);
"""


@pytest.fixture(scope="module")
def compressor(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that compresses its standard input."""
    return compiled(root, tmp_path_factory.mktemp("zlib"), "zlib.h", CALL)


def test_every_stream_holds_what_was_compressed(compressor: Path) -> None:
    """A viewer would refuse the file, or show other names, values or times."""
    for name, data in cases().items():
        stream = compressed(compressor, data)
        assert zlib.decompress(stream) == data, name
        assert len(stream) <= len(data) + len(data) // 8 + 16, name


def test_what_repeats_becomes_small(compressor: Path) -> None:
    """The first values of all signals, a byte for each bit, and the times would be stored as they are."""
    data = cases()
    small = {name: len(compressed(compressor, data[name])) for name in ("70000 zeros", "few values", "bits as letters")}
    assert small["70000 zeros"] < 700
    assert small["few values"] < 18_000
    assert small["bits as letters"] < len(data["bits as letters"]) // 5
