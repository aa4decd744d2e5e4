"""Builds the native host library from the sources beside this file: by pip through setup.py, or for another processor by hand.

    python host/native/build.py --compiler aarch64-linux-gnu-g++ -o libcnna_host.so.0

It imports nothing of cnna, because setup.py runs it before cnna is installed.
"""

import argparse
import hashlib
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

FOLDER = Path(__file__).parent
NAME = "libcnna_host.so.0"  # with a number at its end, since Python would take `.so` for a module of its own
FLAGS = (
    *("-std=c++17", "-O3", "-fPIC", "-shared", "-fvisibility=hidden", "-pthread"),
    "-ffp-contract=off",  # a fused multiply-add rounds once where numpy rounds twice
    *("-Wall", "-Wextra", "-Wconversion"),
)


def sources() -> list[Path]:
    """The library's sources and headers, in order of their names."""
    return sorted(path for path in FOLDER.iterdir() if path.suffix in (".cpp", ".h"))


def digest() -> str:
    """SHA-256 of the sources' names and texts: a library that was built from others is not used."""
    found = hashlib.sha256()
    for path in sources():
        found.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()


def command(output: Path, compiler: str | None = None, flags: Sequence[str] = ()) -> list[str]:
    """The call of the compiler that makes the library; by default of CXX, else of g++."""
    files = [str(path) for path in sources() if path.suffix == ".cpp"]
    chosen = compiler or os.environ.get("CXX", "g++")
    return [*chosen.split(), *FLAGS, *flags, f'-DCNNA_SOURCES="{digest()}"', "-o", str(output), *files]


def main() -> None:
    """Builds the library from the command line."""
    parser = argparse.ArgumentParser(description="Build cnna's native host library.")
    parser.add_argument("--compiler", help="the C++ compiler (default: $CXX, else g++)")
    parser.add_argument("-o", "--output", type=Path, required=True, help="the library to write")
    parser.add_argument("flags", nargs="*", help="more flags for the compiler, after --")
    given = parser.parse_args()
    raise SystemExit(subprocess.run(command(given.output, given.compiler, given.flags), check=False).returncode)


if __name__ == "__main__":
    main()
