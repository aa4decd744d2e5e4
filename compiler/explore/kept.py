"""Keeps what was predicted, so that nothing is compiled twice: by network, configuration, DDR and the compiler's own source.

A network has a file of lines of JSON, one a prediction. They are written as predictions come, so that what is interrupted is not
lost. A line that cannot be read, such as the last one of a machine that lost its power, is passed over.
"""

import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import cnna.compiler
import cnna.spec
from cnna.compiler.explore.point import Part
from cnna.spec.config import OPTIONS, Config, as_dict
from cnna.spec.ddr import DdrSpeed
from cnna.spec.errors import UserError
from cnna.spec.files import make_folder
from cnna.spec.host_time.cortex_a53 import Range
from cnna.spec.host_time.end_to_end import EndToEnd
from cnna.spec.host_time.host_work import HostWork

FOLDER = "explore"  # in the cache
DIGITS = 32
WORKS = ("stream", "single", "cpu", "packing", "decode")  # fields of EndToEnd that are work of the host


@dataclass(frozen=True)
class Refused:
    """A network does not run on a configuration. message: of the ModelError."""

    message: str


@cache
def compiler_digest() -> str:
    """Of the source of all that a prediction follows from. It takes some hundredths of a second."""
    whole = sha256()
    for room in (cnna.compiler, cnna.spec):
        (folder,) = map(Path, room.__path__)
        for file in sorted(folder.rglob("*.py")):
            whole.update(f"{file.relative_to(folder)}\0".encode() + file.read_bytes())
    return whole.hexdigest()


def key(config: Config, batch: int, memory: DdrSpeed | None, native: bool) -> str:
    """What names a prediction within a network's file. A configuration's own name has no say, but for its board."""
    sizes = {**as_dict(config), **{name: int(getattr(config, name)) for name in OPTIONS}}
    return json.dumps([sizes | {"name": config.name.split("-")[0]}, batch, memory, native], sort_keys=True)


class Kept:
    """The predictions of a network. folder: None keeps them nowhere. name: of what they follow from."""

    def __init__(self, folder: Path | None, network: str, forget: bool = False) -> None:
        """network: its digest. forget: takes none of what is kept. UserError: nothing can be written there."""
        self.name = sha256(f"{network}\0{compiler_digest()}".encode()).hexdigest()[:DIGITS]
        self._path = folder / FOLDER / f"{self.name}.jsonl" if folder is not None else None
        self._found: dict[str, Part | Refused] = {}
        if self._path is not None:
            make_folder(self._path.parent)
            if not forget:
                self._read(self._path)

    def __len__(self) -> int:
        return len(self._found)

    def get(self, name: str) -> Part | Refused | None:
        """A prediction; None: there is none yet. name: its `key`."""
        return self._found.get(name)

    def put(self, name: str, found: Part | Refused) -> None:
        """Keeps a prediction."""
        self._found[name] = found
        if self._path is None:
            return
        entry = {"refused": found.message} if isinstance(found, Refused) else asdict(found)
        line = f"\n{json.dumps([name, entry])}"  # what a command that was killed left behind ends here
        try:
            with self._path.open("a") as file:  # one write, so that lines of two commands do not mix
                file.write(line)
        except OSError as error:
            raise UserError(f"{self._path}: {error.strerror}; --cache names another folder") from None

    def _read(self, path: Path) -> None:
        text = path.read_text(errors="replace") if path.exists() else ""
        for line in text.splitlines():
            try:
                name, entry = json.loads(line)
                self._found[name] = Refused(entry["refused"]) if "refused" in entry else _part(entry)
            except (ValueError, TypeError, KeyError):
                logging.getLogger(__name__).debug("%s: a line cannot be read", path)


def _part(entry: Mapping[str, Any]) -> Part:
    """The inverse of `asdict`."""
    whole = dict(entry["whole"])
    works = {name: None if whole[name] is None else HostWork(**whole[name]) for name in WORKS}
    return Part(**{**entry, "whole": EndToEnd(**{**whole, **works, "uncounted": Range(**whole["uncounted"])})})
