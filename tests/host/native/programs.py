"""Programs in C++ around the library's sources. The library is compiled once for a compiler and its flags, and kept.

With sanitizers that takes a quarter of a minute of a processor, and many tests want the same.
"""

import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from cnna.host.native import build
from cnna.sim.rtl.cache import private
from cnna.spec.files import default_cache

from ...rigs.kept import READY, kept

HERE, SECONDS = Path(__file__).parent, 300
NATIVE, ARM = "g++", "aarch64-linux-gnu-g++"
LINES = "-g1"  # a report names functions and lines; all of -g takes half as long again
ADDRESS, THREAD = ((f"-fsanitize={kind}", "-fno-sanitize-recover=all", "-O1", LINES) for kind in ("address,undefined", "thread"))


def words(compiler: str, flags: Sequence[str]) -> list[str]:
    """The first words of a compiler's call."""
    own = [flag for flag in build.FLAGS if flag != "-shared"]
    return [compiler, *own, *flags, f"-I{build.FOLDER}", f'-DCNNA_SOURCES="{build.digest()}"']


def objects(compiler: str, flags: Sequence[str]) -> list[Path]:
    """The object files of the library's sources."""

    def make(work: Path) -> None:
        (work / READY).mkdir()
        files = [str(path) for path in build.sources() if path.suffix == ".cpp"]
        subprocess.run([*words(compiler, flags), "-c", *files], cwd=work / READY, check=True, timeout=SECONDS)

    return sorted(kept(_cache(), _parts(compiler, flags), make).glob("*.o"))


def program(source: str, compiler: str, flags: Sequence[str]) -> Path:
    """The program of a source beside this file, with the library's sources."""

    def make(work: Path) -> None:
        linked = [str(HERE / source), *map(str, objects(compiler, flags)), "-o", str(work / READY)]
        subprocess.run([*words(compiler, flags), *linked], check=True, timeout=SECONDS)

    texts = (path.read_text() for path in sorted(HERE.iterdir()) if path.suffix in (".cpp", ".h"))
    return kept(_cache(), [*_parts(compiler, flags), source, *texts], make)


def _parts(compiler: str, flags: Sequence[str]) -> list[str]:
    """What the objects depend on. Reports of sanitizers name the folder of the sources."""
    return [_version(compiler), str(build.FOLDER), *words(compiler, flags)]


@cache
def _version(compiler: str) -> str:
    return subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True).stdout


def _cache() -> Path:
    return private(default_cache()) / "native"
