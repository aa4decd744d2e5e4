"""A package of the kind `library`: one archive with the native host library and the models, and the headers to call it by.

The models' bytes become an object file by the assembler's `.incbin`, and what their manifests say becomes tables in C++. So an
application opens no file, and needs no Python.
"""

import os
import shlex
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from cnna.host.native.build import FLAGS, FOLDER, digest, sources
from cnna.serve.models.version import Version
from cnna.serve.packages.contents import Contents, filling
from cnna.serve.packages.tables import Members, models_text, registers_text
from cnna.spec.artifact import load
from cnna.spec.config import Config
from cnna.spec.errors import ToolError, UserError
from cnna.spec.files import write_bytes, write_text

ARCHIVE, HEADERS = "libcnna_models.a", ("cnna_models.h", "cnna_host.h")
OWN = Path(__file__).parent / "cpp"
LINKED = [flag for flag in FLAGS if flag != "-shared"]
BYTES = """\
.section .rodata
.balign 64
.globl _ZN11cnna_packed7membersE
_ZN11cnna_packed7membersE:
.incbin "members.bin"
.byte 0
.section .note.GNU-stack,"",%progbits
"""


@dataclass(frozen=True)
class Library:
    """What was made. config: the accelerator's. models: names with versions. archive_bytes: of the file."""

    archive: Path
    headers: tuple[Path, ...]
    config: str
    models: tuple[str, ...]
    archive_bytes: int


def make_library(contents: Contents, output: Path, config: str | None = None, compiler: str | None = None) -> Library:
    """Builds it into a folder that does not exist, or is empty. compiler: None: $CXX, else g++.

    UserError: a model needs more than a library can do. ToolError: the compiler is missing or fails.
    """
    versions = _one_each(contents)
    chosen = _config_of(versions, config)
    words = _words(compiler or os.environ.get("CXX", "") or "g++")
    archiver = _archiver(words)
    members = Members()
    models = models_text(versions, chosen.name, members)
    text = f'#include "packed.h"\n\nnamespace cnna_packed {{\n\n{models}\n{registers_text(chosen)}\n\n}}\n'
    with filling(output, contents), tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_text(folder / "packed.cpp", text)
        write_bytes(folder / "members.bin", bytes(members.data))
        write_text(folder / "members.s", BYTES)
        files = [path for path in sources() if path.suffix == ".cpp"]
        files += [OWN / "models.cpp", folder / "packed.cpp", folder / "members.s"]
        made_of = f'-DCNNA_SOURCES="{digest()}"'
        _call([words[0], *LINKED, *words[1:], made_of, f"-I{FOLDER}", f"-I{OWN}", "-c", *map(str, files)], folder)
        objects = [f"{path.stem}.o" for path in files]
        _call([archiver, "rcsD", ARCHIVE, *objects], folder)
        shutil.move(folder / ARCHIVE, output / ARCHIVE)
        headers = []
        for name in HEADERS:
            source = next(place / name for place in (OWN, FOLDER) if (place / name).is_file())
            headers.append(Path(shutil.copy(source, output / name)))
    names = tuple(f"{version.model}/{version.name}" for version in versions)
    return Library(output / ARCHIVE, tuple(headers), chosen.name, names, (output / ARCHIVE).stat().st_size)


def _words(compiler: str) -> list[str]:
    """A compiler and its options. UserError: quotes are open, or there is no word."""
    try:
        words = shlex.split(compiler)
    except ValueError as error:
        raise UserError(f"--compiler {compiler}: {str(error).lower()}") from None
    if not words:
        raise UserError(f"--compiler {compiler!r}: names no compiler")
    return words


def _one_each(contents: Contents) -> list[Version]:
    """The newest version of each model. UserError: a model is none for an accelerator."""
    if contents.pipelines:
        raise UserError(f"{contents.pipelines[0]}: is a pipeline, which a library does not run; use --as service or --as image")
    if contents.remote:
        raise UserError(f"{next(iter(contents.remote))}: is a model of another server; use --as service or --as image")
    found = [many[-1] for many in contents.versions.values()]
    for version in found:
        if version.runtime != "cnna":
            raise UserError(
                f"{version.model}: runs on {version.runtime}, which a library does not have; use --as service or --as image"
            )
    return found


def _config_of(versions: list[Version], config: str | None) -> Config:
    """UserError: it is not said which, and they have several, or not the one."""
    there = sorted(set.intersection(*({*version.compiled} - {version.runtime, "onnxruntime"} for version in versions)))
    if not there or (config is not None and config not in there):
        each = "; ".join(f"{version.model} for {', '.join(version.compiled)}" for version in versions)
        raise UserError(f"--config {config or '?'}: not all models were compiled for it ({each}); cnna publish --config adds one")
    if config is None and len(there) > 1:
        raise UserError(f"the models were compiled for {', '.join(there)}: say --config {there[0]}, for one of them")
    name = config or there[0]
    return load(versions[0].compiled[name][0].path).config


def _archiver(words: list[str]) -> str:
    """The `ar` that belongs to a compiler."""
    if shutil.which(words[0]) is None:
        raise ToolError(
            f"{words[0]} is not there: apt install g++, or g++-aarch64-linux-gnu for a board, and name it with --compiler"
        )
    said = subprocess.run([*words, "-print-prog-name=ar"], capture_output=True, text=True, check=False)
    return said.stdout.strip() or "ar"


def _call(line: list[str], folder: Path) -> None:
    """ToolError: a tool is missing or fails; its first error is in the message."""
    try:
        done = subprocess.run(line, cwd=folder, capture_output=True, text=True, check=False)
    except OSError as error:
        raise ToolError(f"{line[0]} cannot be run: {error.strerror}; apt install g++ and binutils") from None
    if done.returncode:
        said = next((text for text in done.stderr.splitlines() if "error" in text.lower()), done.stderr.strip())
        raise ToolError(f"{line[0]} fails with code {done.returncode}: {said[:300]}; name another compiler with --compiler")
