"""Memory that the processor caches and the accelerator does not see: when a board may use it, and who has proved that it works.

Linux lets a program clean and invalidate lines, but a kernel may refuse that, do it slowly, or map memory in another way. So memory
stays uncached until `cnna board selftest` has compared both on the board. What it found is kept in a file for each board, kernel,
bitstream and library, because the test is another process than those that run models. Another one of them is tried anew.
"""

import hashlib
import json
import logging
import platform
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cnna.host.native.cache import Cache
from cnna.spec.errors import UserError
from cnna.spec.files import default_cache, make_folder, write_text

FOLDER = "boards"  # in the cache folder
BOARD_NAMES = (Path("/proc/device-tree/chosen/pynq_board"), Path("/proc/device-tree/model"))
UNPROVED = (
    "memory is not cached, because nobody has tried it with this board, kernel, bitstream and library: run cnna board selftest"
)


@dataclass(frozen=True)
class Proof:
    """A file that says that cached memory works. of: what this is true of."""

    folder: Path
    of: Mapping[str, str]

    @property
    def path(self) -> Path:
        """The file, whose name tells boards, kernels, bitstreams and libraries apart."""
        return self.folder / f"{hashlib.sha256(self._text().encode()).hexdigest()[:16]}.json"

    def stands(self) -> bool:
        """Whether a self-test has found that it works."""
        try:
            return self.path.read_text() == self._text()
        except (OSError, UnicodeDecodeError):
            return False

    def keep(self) -> None:
        """Writes the file. UserError: it cannot be written."""
        make_folder(self.folder)
        write_text(self.path, self._text())

    def drop(self) -> None:
        """Removes the file."""
        with suppress(OSError):
            self.path.unlink(missing_ok=True)

    def _text(self) -> str:
        return json.dumps(dict(self.of), indent=1, sort_keys=True) + "\n"


def proof_of(bit: Path | None, library: str, folder: Path | None = None) -> Proof:
    """The proof for this board and kernel with a bitstream and a native library, which is named by its digest."""
    of = {
        "board": next(filter(None, map(_said, BOARD_NAMES)), platform.node()),
        "kernel": f"{platform.release()} {platform.version()} {platform.machine()}",
        "bitstream": hashlib.sha256(bit.read_bytes()).hexdigest() if bit is not None and bit.is_file() else "",
        "library": library,
    }
    return Proof((default_cache() if folder is None else folder) / FOLDER, of)


def _said(path: Path) -> str:
    try:
        return path.read_text().strip("\0 \n")
    except (OSError, UnicodeDecodeError):
        return ""


class CachedMemory:
    """The cached memory of one board. allocate: a number of bytes to a pynq buffer. `on`: whether models get such memory."""

    def __init__(self, allocate: Callable[[int], Any], cache: Cache, proof: Proof) -> None:
        self.allocate, self.cache, self.proof = allocate, cache, proof
        self.on = proof.stands()
        self._said = self.on

    def conclude(self, good: bool) -> str:
        """Turns it on or off for good, and keeps or drops the proof. Returns what went wrong with the file, or nothing."""
        self.on, self._said = good, True
        if not good:
            self.proof.drop()
            return ""
        try:
            self.proof.keep()
        except UserError as error:
            return f"; this holds for this process alone: {error}"
        return ""

    @contextmanager
    def tried(self, on: bool) -> Iterator[None]:
        """Turns it on or off for the block: for the test that decides."""
        before, said = self.on, self._said
        self.on, self._said = on, True
        try:
            yield
        finally:
            self.on, self._said = before, said

    def allowed(self) -> bool:
        """Whether it is on. If it is not, this says so once, in a line of the log."""
        if not self._said:
            self._said = True
            logging.getLogger(__name__).warning(UNPROVED)
        return self.on

    def __str__(self) -> str:
        """For `cnna board info`."""
        return "cached, as the self-test has tried" if self.on else UNPROVED
