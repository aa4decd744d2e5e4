"""The last error of a command, kept in the cache folder for `cnna doctor --report`, without what is the user's own.

Messages name files, nodes and sizes of the user's model. So a word of a message is kept only if it stands in the source of cnna
that the error came through: such words are ours. All others, a path or a node's name among them, become `…`.
"""

import json
import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from cnna.spec.files import default_cache

FILE = "last-error.json"
LEFT_OUT, FOREIGN = "…", "a file of the user's"
WORD = re.compile(r"[\w./~\\@-]+")
NUMBER = re.compile(r"\d{1,9}(x\d{1,9}){0,4}")  # counts and sizes; a number with a fraction may be a value
ENDINGS = (".onnx", ".cnna", ".npz", ".npy", ".json", ".yaml", ".html", ".png", ".jpg", ".csv", ".txt", ".py")
ARGUMENTS = ("--config", "--board", "--device", "--batch", "--batches", "--ddr", "--method", "--effort")  # whose values are told
VALUE = re.compile(r"[a-z0-9_,=.-]{1,120}")
# A word of a value is told where it stands in one of these: presets, parameters, kinds of boards and devices, methods.
VALUES = ("spec/config.py", "spec/ddr.py", "spec/boards.py", "serve/boards/board_spec.py", "cli/run.py", "jobs/quantize.py")
PACKAGE = Path(__file__).resolve().parent.parent.parent  # of a clone and of site-packages alike: cli/ lies in it
MOST_FRAMES = 60


def keep(error: BaseException, arguments: Sequence[str], exit_code: int, version: str, internal: bool) -> None:
    """Keeps an error. A cache that cannot be written is no second error."""
    entry = entry_of(error, arguments, exit_code, version, internal)
    with suppress(OSError):
        folder = default_cache()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        part = folder / f".{FILE}.{os.getpid()}.part"
        part.write_text(json.dumps(entry, indent=1) + "\n")
        part.replace(folder / FILE)


def entry_of(error: BaseException, arguments: Sequence[str], exit_code: int, version: str, internal: bool) -> dict[str, Any]:
    """What is kept: when, of which command, one line, and where it came from; all frames if the fault is our own."""
    frames = list(_frames(error.__traceback__))
    files = [file for file, _, _ in frames if _own(file)]
    said = [_shown(file) + (f":{line}, {function}" if _shown(file) != FOREIGN else "") for file, line, function in frames]
    own = [line for line, (file, _, _) in zip(said, frames, strict=True) if _own(file)]
    return {
        "at": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "version": version,
        "command": " ".join(_command(arguments)),
        "exit_code": exit_code,
        "kind": type(error).__name__,
        "line": told(" ".join(str(error).split()), words_of(files)),
        "where": said[-MOST_FRAMES:] if internal else own[-1:],
    }


def read() -> dict[str, Any] | None:
    """The last error that was kept; None: there is none."""
    try:
        found = json.loads((default_cache() / FILE).read_text())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def words_of(files: Sequence[Path]) -> frozenset[str]:
    """The words of these files of ours, in small letters."""
    found = set[str]()
    for file in {*files, PACKAGE / "cli" / "main.py", PACKAGE / "spec" / "errors.py"}:
        with suppress(OSError, UnicodeDecodeError):
            found |= {word.strip(".-").lower() for word in WORD.findall(file.read_text())}
    return frozenset(found)


def told(text: str, words: frozenset[str]) -> str:
    """A message with our words and numbers alone."""

    def one(match: "re.Match[str]") -> str:
        word = match.group()
        bare = word.strip(".-")
        if bare.lower() in words or NUMBER.fullmatch(bare) or not bare:
            return word
        return LEFT_OUT + next((ending for ending in ENDINGS if bare.lower().endswith(ending)), "")

    return WORD.sub(one, text)


def _command(arguments: Sequence[str]) -> Iterator[str]:
    """The command and its options by name. Values are left out, but for names and numbers of ours: a file, a board and a parameter
    may have a name of the user's.
    """
    before, known = "", words_of([PACKAGE / file for file in VALUES])
    for place, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        if place == 0 and re.fullmatch(r"[a-z]+", argument):
            yield argument
        elif re.fullmatch(r"--?[a-z][a-z-]*", name):
            ours = equals and name in ARGUMENTS and VALUE.fullmatch(value)
            yield f"{name}={_value(value, known)}" if ours else name
        elif before in ARGUMENTS and VALUE.fullmatch(argument):
            yield _value(argument, known)
        elif before != LEFT_OUT:
            yield LEFT_OUT
        before = argument


def _value(text: str, known: frozenset[str]) -> str:
    """The value of an option, with our words and numbers alone."""
    return re.sub(r"[^,=]+", lambda part: part.group() if NUMBER.fullmatch(part.group()) else told(part.group(), known), text)


def _frames(trace: TracebackType | None) -> Iterator[tuple[Path, int, str]]:
    """File, line and function, from `main` to where the error came from."""
    while trace is not None:
        code = trace.tb_frame.f_code
        yield Path(code.co_filename).resolve(), trace.tb_lineno, code.co_name
        trace = trace.tb_next


def _own(file: Path) -> bool:
    """Whether a file is of cnna. A clone may also have an environment in it, and files of the user."""
    if not file.is_relative_to(PACKAGE):
        return False
    first, *rest = file.relative_to(PACKAGE).parts
    return (PACKAGE / first / "__init__.py").is_file() if rest else first in ("__init__.py", "__main__.py")


def _shown(file: Path) -> str:
    """A file below what everybody has: cnna, a folder of packages, or Python's own library. The user's have names of his own."""
    if _own(file):
        return Path("cnna", file.relative_to(PACKAGE)).as_posix()
    for folder in ("site-packages", "dist-packages"):
        if folder in file.parts:
            return Path(*file.parts[file.parts.index(folder) + 1 :]).as_posix()
    library = Path(json.__file__).resolve().parent.parent
    return Path("python", file.relative_to(library)).as_posix() if file.is_relative_to(library) else FOREIGN
