"""The LZ4 that waveforms are written with, against a reader of the format."""

import subprocess
from pathlib import Path

import numpy as np
import pytest

PROGRAM = """
#include <cstdio>
#include <string>
#include <unistd.h>
#include "lz4.h"
int main() {
    std::string text;
    char part[4096];
    for (ssize_t got; (got = read(0, part, sizeof part)) > 0;) text.append(part, got);
    const int size = static_cast<int>(text.size());
    std::string made(LZ4_compressBound(size), 'x');
    made.resize(LZ4_compress_default(text.data(), &made[0], size, static_cast<int>(made.size())));
    return fwrite(made.data(), 1, made.size(), stdout) != made.size();
}
"""


@pytest.fixture(scope="module")
def compressor(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that compresses its standard input."""
    folder = tmp_path_factory.mktemp("lz4")
    (folder / "main.cpp").write_text(PROGRAM)
    warnings = ("-Wall", "-Wextra", "-Werror", "-fsanitize=undefined", "-fno-sanitize-recover")
    line = ["g++", "-O1", *warnings, f"-I{root / 'sim' / 'rtl'}", "-o", folder / "lz4", folder / "main.cpp"]
    subprocess.run([str(word) for word in line], check=True)
    return folder / "lz4"


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


def cases() -> dict[str, bytes]:
    """Data of each kind, and sizes around the format's limits."""
    rng = np.random.default_rng(1)
    found = {f"{size} zeros": bytes(size) for size in (0, 1, 4, 11, 12, 13, 16, 17, 19, 20, 33, 274, 275, 529, 530, 70_000)}
    found |= {f"{size} at random": rng.bytes(size) for size in (1, 14, 15, 16, 269, 270, 271, 524, 525, 5000)}
    found["far apart"] = (part := rng.bytes(400)) + rng.bytes(65_135) + part + rng.bytes(66_000) + part
    found["a counter"] = np.arange(20_000, dtype=np.uint16).tobytes()
    found["few values"] = rng.integers(0, 3, 30_000).astype(np.uint8).tobytes()
    return found


def test_every_block_holds_what_was_compressed(compressor: Path) -> None:
    """A viewer would show other values, or stop reading."""
    for name, data in cases().items():
        block = subprocess.run([compressor], input=data, capture_output=True, check=True).stdout
        assert expanded(block) == data, name
        assert len(block) <= len(data) + len(data) // 255 + 16, name


def test_what_repeats_becomes_small(compressor: Path) -> None:
    """A waveform of ten thousand clocks would take four times the disk, as with a writer that only stores."""
    data = cases()
    small = {name: len(subprocess.run([compressor], input=data[name], capture_output=True, check=True).stdout) for name in data}
    assert small["70000 zeros"] < 300
    assert small["few values"] < 22_000
