"""Programs that compress their standard input with one of the writers in `sim/rtl`, and data to try them with."""

import subprocess
from pathlib import Path

import numpy as np

PROGRAM = """
#include <cstdio>
#include <string>
#include <unistd.h>
#include "HEADER"
int main() {
    std::string text;
    char part[4096];
    for (ssize_t got; (got = read(0, part, sizeof part)) > 0;) text.append(part, got);
    CALL
    return fwrite(made.data(), 1, made.size(), stdout) != made.size();
}
"""


def compiled(root: Path, folder: Path, header: str, call: str) -> Path:
    """The program. call: C++ that makes the string `made` of `text`."""
    (folder / "main.cpp").write_text(PROGRAM.replace("HEADER", header).replace("CALL", call))
    warnings = ("-Wall", "-Wextra", "-Werror", "-fsanitize=undefined", "-fno-sanitize-recover")
    line = ["g++", "-O1", *warnings, f"-I{root / 'sim' / 'rtl'}", "-o", folder / "compress", folder / "main.cpp"]
    subprocess.run([str(word) for word in line], check=True)
    return folder / "compress"


def compressed(program: Path, data: bytes) -> bytes:
    """What the program makes of the data."""
    return subprocess.run([program], input=data, capture_output=True, check=True).stdout


def cases() -> dict[str, bytes]:
    """Data of each kind, and sizes around the formats' limits."""
    rng = np.random.default_rng(1)
    sizes = (0, 1, 3, 4, 5, 11, 12, 13, 16, 17, 19, 20, 33, 257, 258, 259, 260, 261, 262, 263, 274, 275, 516, 520, 529, 530, 70_000)
    found = {f"{size} zeros": bytes(size) for size in sizes}
    found |= {f"{size} at random": rng.bytes(size) for size in (1, 14, 15, 16, 269, 270, 271, 524, 525, 5000)}
    for apart in (32_767, 32_768, 32_769, 65_535, 65_536):
        found[f"{apart} apart"] = (part := rng.bytes(400)) + rng.bytes(apart - 400) + part + rng.bytes(66_000)
    found["each length"] = b"".join((part := rng.bytes(300)) + part[:length] for length in range(4, 300))
    found["each distance"] = b"".join(
        (part := rng.bytes(6)) + rng.bytes(size) + part for size in (*range(40), *range(60, 3000, 97))
    )
    found["a counter"] = np.arange(20_000, dtype=np.uint16).tobytes()
    found["few values"] = rng.integers(0, 3, 30_000).astype(np.uint8).tobytes()
    found["bits as letters"] = np.repeat(rng.integers(48, 50, 3000), rng.integers(1, 40, 3000)).astype(np.uint8).tobytes()
    return found
