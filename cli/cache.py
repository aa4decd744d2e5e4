"""`cnna cache`: what the cache of Verilog, simulators and predictions holds, how large it is, and removing it."""

import argparse
import fcntl
import re
from pathlib import Path
from typing import NamedTuple

from cnna.cli.main import Outcome
from cnna.cli.options import add_cache_option
from cnna.spec.counts import many
from cnna.spec.errors import UserError

KINDS = {  # folder or file in the cache: what it is, and how it comes back
    "simulators": "simulators; built again when one is needed, in minutes",
    "runtime": "what simulators share; built with the next one",
    "verilog": "generated Verilog; generated again in a minute",
    "explore": "predictions of cnna explore; made again in seconds each",
}
OTHERS = "kept by tools of the clone, and libraries of pages; `clear` leaves them"
ENTRY = re.compile(r"[0-9a-f]{12,}(\.v|\.jsonl)?")  # a digest: nothing else is removed, whatever folder `--cache` names
MIB = 1 << 20


class Part(NamedTuple):
    """A part of the cache: how many entries it has, and how large they are."""

    name: str
    what: str
    entries: int
    size_bytes: int


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    parser.add_argument(
        "do",
        nargs="?",
        choices=("list", "size", "clear"),
        default="list",
        help="list its parts (default), print its size, or empty it",
    )
    add_cache_option(parser, "the folder (default: ~/.cache/cnna, below XDG_CACHE_HOME)")


def run(args: argparse.Namespace) -> Outcome:
    """Prints or clears. UserError: the folder is no cache of cnna."""
    from cnna.spec.files import default_cache

    folder: Path = args.cache or default_cache()
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder}: a file, not a cache; name its folder with --cache")
    parts = parts_of(folder)
    total = sum(part.size_bytes for part in parts)
    figures = {"folder": str(folder), "bytes": total, "parts": [part._asdict() for part in parts]}
    if args.do == "size":
        print(f"{folder}: {total / MIB:,.1f} MiB")
    elif args.do == "list":
        for part in parts:
            print(f"{part.name:12}{many(part.entries, 'entry  ', 'entries'):>14}{part.size_bytes / MIB:10,.1f} MiB  {part.what}")
        print(f"{folder}: {total / MIB:,.1f} MiB in all; `cnna cache clear` frees all but others")
    else:
        return Outcome({**figures, "cleared": _clear(folder, parts)})
    return Outcome(figures)


def parts_of(folder: Path) -> list[Part]:
    """What a cache holds, those of KINDS first."""
    found = []
    for name, what in KINDS.items():
        if (folder / name).is_dir():
            entries = [path for path in (folder / name).iterdir() if ENTRY.fullmatch(path.name)]
            found.append(Part(name, what, len(entries), sum(map(_size, entries))))
    others = [path for path in folder.iterdir() if path.name not in KINDS] if folder.is_dir() else []
    if others:
        found.append(Part("others", OTHERS, len(others), sum(map(_size, others))))
    return found


def _clear(folder: Path, parts: list[Part]) -> int:
    """Removes the entries of KINDS but simulators that are being built or started; returns the bytes that are free now.

    UserError: the folder holds none of KINDS, so that it may be no cache.
    """
    from cnna.sim.rtl.build import drop
    from cnna.sim.rtl.cache import private, remove

    if not parts:
        print(f"{folder}: there is nothing in it")
        return 0
    if not any(part.name in KINDS for part in parts):
        raise UserError(f"{folder}: holds no simulators and no Verilog, so it may be no cache of cnna; remove it yourself")
    private(folder)
    before = sum(part.size_bytes for part in parts)
    for name in KINDS if not building(folder) else ("simulators",):
        entries = [path for path in (folder / name).iterdir() if ENTRY.fullmatch(path.name)] if (folder / name).is_dir() else []
        for entry in entries:
            (drop if name == "simulators" else remove)(entry)
    left = sum(part.size_bytes for part in parts_of(folder))
    print(f"{folder}: {(before - left) / MIB:,.1f} MiB removed, {left / MIB:,.1f} MiB left")
    return before - left


def building(folder: Path) -> bool:
    """Whether a process is building a simulator, for which it may need Verilog and what simulators share."""
    for lock in (folder / "simulators").glob("*.lock"):
        try:
            with lock.open() as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:  # it has just gone
            continue
    return False


def _size(path: Path) -> int:
    """The bytes of a file, or of all files in a folder; what another process has just removed counts nothing."""
    total = 0
    for file in path.rglob("*") if path.is_dir() and not path.is_symlink() else [path]:
        try:
            status = file.lstat()
        except OSError:
            continue
        total += status.st_size if not file.is_dir() else 0
    return total
