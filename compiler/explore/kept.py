"""Keeps what was compiled and predicted, so that nothing is done twice: by network, configuration, DDR and the compiler's source.

A network has a file of lines of JSON, one a prediction, and one of its plans. They are written as predictions come, so that what is
interrupted is not lost. A line ends in a checksum of the rest. One that cannot be read, such as the last one of a machine that lost
its power, or that is another than was written, is passed over: its points are compiled again.
"""

import json
import logging
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import cnna.compiler
import cnna.spec
from cnna.compiler.explore.planned import Planned, read, read_part, written
from cnna.compiler.explore.point import Part
from cnna.spec.config import OPTIONS, Config, as_dict
from cnna.spec.ddr import DdrSpeed
from cnna.spec.errors import UserError
from cnna.spec.files import make_folder

FOLDER = "explore"  # in the cache
DIGITS = 32
UNPLANNED = ("name", "clock_mhz")  # of a configuration, on which no plan depends
PLANS = ".plans"  # what the name of the file of plans ends in


@dataclass(frozen=True)
class Refused:
    """A network does not run on a configuration. message: of the ModelError."""

    message: str


@cache
def compiler_digest() -> str:
    """Of the source of all that a prediction follows from, and of this file, so what an older version has kept is compiled again.

    It takes some hundredths of a second.
    """
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


def plan_key(config: Config, batch: int, native: bool) -> str:
    """What names a plan within a network's file: all that the compiler looks at. It looks at no DDR, no clock and no board."""
    sizes = {**as_dict(config), **{name: int(getattr(config, name)) for name in OPTIONS}}
    return json.dumps([{name: size for name, size in sizes.items() if name not in UNPLANNED}, batch, native], sort_keys=True)


class Kept:
    """The predictions of a network, and its plans. folder: None keeps them nowhere. name: of what they follow from."""

    def __init__(self, folder: Path | None, network: str, forget: bool = False) -> None:
        """network: its digest. forget: takes none of what is kept. UserError: nothing can be read or written there."""
        self.name = sha256(f"{network}\0{compiler_digest()}".encode()).hexdigest()[:DIGITS]
        self._path = folder / FOLDER / f"{self.name}.jsonl" if folder is not None else None
        self._planned = self._path.with_suffix(PLANS) if self._path is not None else None
        self._found: dict[str, Part | Refused] = {}
        self._plans: dict[str, Planned] = {}
        self._places: dict[str, int] = {}
        if self._path is not None:
            make_folder(self._path.parent)
            if not forget:
                self._read(self._path)
                self._find_plans(self._path.with_suffix(PLANS))

    def __len__(self) -> int:
        return len(self._found)

    def get(self, name: str) -> Part | Refused | None:
        """A prediction; None: there is none yet. name: its `key`."""
        return self._found.get(name)

    def put(self, name: str, found: Part | Refused) -> None:
        """Keeps a prediction. UserError: it cannot be written."""
        self._found[name] = found
        if self._path is not None:
            entry = {"refused": found.message} if isinstance(found, Refused) else asdict(found)
            _append(self._path, [name, entry])

    def plan(self, name: str) -> Planned | None:
        """A plan; None: there is none yet, or it cannot be read. name: its `plan_key`."""
        return self._plans.get(name) if self._planned is None else self._read_plan(self._planned, name)

    def put_plan(self, name: str, plan: Planned) -> None:
        """Keeps a plan. UserError: it cannot be written."""
        if self._planned is None:
            self._plans[name] = plan
        elif name not in self._places:
            self._places[name] = _append(self._planned, [name, written(plan)])

    def _read_plan(self, path: Path, name: str) -> Planned | None:
        """It stays in its file until it is wanted: programs of small arrays are long."""
        if name not in self._places:
            return None
        with _about_file(path), path.open("rb") as file:
            file.seek(self._places[name])
            line = file.readline()
        try:
            own, entry = parsed(line)
            return read(entry) if own == name else None
        except (ValueError, TypeError, KeyError, zlib.error):
            return None

    def _find_plans(self, path: Path) -> None:
        """Where the line of each plan begins. UserError: it cannot be read."""
        if not path.exists():
            return
        place = 0
        with _about_file(path), path.open("rb") as file:
            for line in file:
                with suppress(ValueError, TypeError):  # a line that was not ended, or is damaged
                    self._places[parsed(line)[0]] = place
                place += len(line)

    def _read(self, path: Path) -> None:
        with _about_file(path):
            lines = path.read_bytes().splitlines() if path.exists() else []
        for line in filter(None, lines):
            try:
                name, entry = parsed(line)
                self._found[name] = Refused(entry["refused"]) if "refused" in entry else read_part(entry)
            except (ValueError, TypeError, KeyError):
                logging.getLogger(__name__).debug("%s: a line cannot be read", path)


@contextmanager
def _about_file(path: Path) -> Iterator[None]:
    """UserError: it cannot be read or written."""
    try:
        yield
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; --cache names another folder") from None


def _append(path: Path, entry: Sequence[Any]) -> int:
    """Writes a line, and says where it begins. UserError: it cannot be written."""
    with _about_file(path), path.open("ab") as file:  # one write, so that lines of two commands do not mix
        written = file.write(b"\n" + line_of(entry))  # what a command that was killed left behind ends here
        file.flush()
        return file.tell() - written + 1


def line_of(entry: Sequence[Any]) -> bytes:
    """A list in JSON, of which the last element is the checksum of all before it."""
    text = json.dumps(entry).encode().removesuffix(b"]")
    return text + f", {zlib.crc32(text)}]".encode()


def parsed(line: bytes) -> tuple[str, Any]:
    """The name and the entry of a line. ValueError, TypeError: it cannot be read, or has not the checksum that it says."""
    name, entry, checksum = json.loads(line)
    if checksum != zlib.crc32(line[: line.rindex(b",")]):
        raise ValueError("another checksum")
    return name, entry
