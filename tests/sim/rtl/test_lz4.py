"""The LZ4 that waveforms are written with, against a reader of the format."""

from pathlib import Path

import pytest

from .compressors import cases, compiled, compressed

CALL = """
    const int size = static_cast<int>(text.size());
    std::string made(LZ4_compressBound(size), 'x');
    made.resize(LZ4_compress_default(text.data(), &made[0], size, static_cast<int>(made.size())));
"""


@pytest.fixture(scope="module")
def compressor(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that compresses its standard input."""
    return compiled(root, tmp_path_factory.mktemp("lz4"), "lz4.h", CALL)


def expanded(block: bytes) -> bytes:
    """What a block of LZ4 holds, with the rules for its end."""
    made, at, begins = bytearray(), 0, -1

    def length(half: int) -> int:
        nonlocal at
        total = half
        while half == 15:
            total += block[at]
            at += 1
            if block[at - 1] != 255:
                break
        return total

    while True:
        token = block[at]
        at += 1
        count = length(token >> 4)
        made += block[at : at + count]
        at += count
        if at == len(block):
            assert not token & 15
            assert begins < 0 or (count >= 5 and len(made) - begins >= 12), "the end of a block is literals"
            return bytes(made)
        distance = int.from_bytes(block[at : at + 2], "little")
        at += 2
        match, begins = length(token & 15) + 4, len(made)
        assert 0 < distance <= begins
        for _ in range(match):
            made.append(made[-distance])


def test_every_block_holds_what_was_compressed(compressor: Path) -> None:
    """A viewer would show other values, or stop reading."""
    for name, data in cases().items():
        block = compressed(compressor, data)
        assert expanded(block) == data, name
        assert len(block) <= len(data) + len(data) // 255 + 16, name


def test_what_repeats_becomes_small(compressor: Path) -> None:
    """A waveform of ten thousand clocks would take four times the disk, as with a writer that only stores."""
    data = cases()
    small = {name: len(compressed(compressor, data[name])) for name in ("70000 zeros", "few values")}
    assert small["70000 zeros"] < 300
    assert small["few values"] < 22_000
