"""The boards of a host as resources of its Ray node, and which replica has which of them. It knows nothing of Ray.

A host offers `cnna_board`, as many as it has, and a resource `cnna_board:TEXT` for each, whose name is the text of `--board`.
"""

import fcntl
import getpass
import hashlib
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cnna.serve.boards.board_spec import BoardSpec, board_spec, board_specs
from cnna.serve.ray.scaling import BOARD
from cnna.spec.errors import BusyError, UserError

MARK = f"{BOARD}:"


@dataclass(frozen=True)
class Claim:
    """A board that this process has. file: its lock, which the system gives back when the process ends, however that happens."""

    spec: BoardSpec
    file: int

    def release(self) -> None:
        """Lets another process have the board."""
        os.close(self.file)


def resources(boards: Sequence[str]) -> dict[str, float]:
    """What a host with these boards offers. UserError: one of them is none, or two have one name."""
    if not board_specs(list(boards)):
        raise UserError("a host needs a --board, such as --board left=emulator")
    return {BOARD: float(len(boards)), **{f"{MARK}{text}": 1.0 for text in boards}}


def boards_of(offered: Mapping[str, float]) -> list[BoardSpec]:
    """The boards that a node offers, by its resources."""
    return [board_spec(name.removeprefix(MARK)) for name in sorted(offered) if name.startswith(MARK)]


def host_name(nodes: Sequence[Mapping[str, Any]], node: str) -> str:
    """What the host with this id is called. Where two that offer boards have one name, a piece of the id is added.

    nodes: as `ray.nodes` lists them.
    """
    names = [one["NodeName"] for one in nodes if one["Alive"] and one["Resources"].get(BOARD)]
    own = str(next(one["NodeName"] for one in nodes if one["NodeID"] == node))
    return own if names.count(own) < 2 else f"{own}-{node[:6]}"


def claim(specs: Sequence[BoardSpec], node: str) -> Claim:
    """The first board that no other replica of this node has. BusyError: all are taken."""
    folder = Path(tempfile.gettempdir()) / f"cnna-boards-{getpass.getuser()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    for spec in specs:
        file = os.open(folder / hashlib.sha256(f"{node} {spec.name}".encode()).hexdigest()[:32], os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(file)
            continue
        return Claim(spec, file)
    names = ", ".join(spec.name for spec in specs) or "none"
    raise BusyError(f"each board of this host is taken; it has {names}")
