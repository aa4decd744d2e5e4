"""The journal of a search: a file with what was measured, from which the same command goes on after it was ended."""

import json
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

import numpy as np

from cnna.pruning.search import Memory
from cnna.spec.errors import UserError
from cnna.spec.files import read_bytes, write_text
from cnna.spec.json_text import json_text

KIND = "cnna pruning journal, distances"


def digest(model: bytes, samples: Mapping[str, np.ndarray], about: str) -> str:
    """What a journal belongs to. about: the configuration, the source of the compiler, and what is done to samples."""
    found = sha256(model)
    for name, value in sorted(samples.items()):
        found.update(f"{name} {value.dtype} {value.shape} ".encode())
        found.update(np.ascontiguousarray(value).tobytes())
    found.update(about.encode())
    return found.hexdigest()


def opened(path: Path | None, belongs: str) -> Memory:
    """What a journal holds, to be written with each change; None: nothing is kept. UserError: it is of another search."""
    if path is None:
        return Memory()
    memory = Memory()
    if path.exists():
        memory = _read(path, belongs)
    memory.changed = lambda found: _write(path, belongs, found)
    return memory


def _read(path: Path, belongs: str) -> Memory:
    try:
        kept = json.loads(read_bytes(path))
        if kept["kind"] != KIND:
            raise ValueError
        other = kept["of"] != belongs
        damage = {str(key): float(value) for key, value in kept["damage"].items()}
        clocks = {
            str(key): (int(total), {int(n): int(c) for n, c in nodes.items()}) for key, (total, nodes) in kept["clocks"].items()
        }
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UserError(f"{path}: is no journal of cnna prune; remove it, or name another file with --journal") from None
    if other:
        raise UserError(
            f"{path}: is of another model, other samples, another configuration or version; remove it, or name one with --journal"
        )
    return Memory(damage, clocks)


def _write(path: Path, belongs: str, memory: Memory) -> None:
    write_text(path, json_text({"kind": KIND, "of": belongs, "damage": memory.damage, "clocks": memory.clocks}) + "\n")
