"""`boards.yaml`: a list of boards, each with the keys of `--board`; an overlay is found from the file's folder.

- {name: left, kind: paced, mhz: 300}
- {name: right, kind: pynq, address: 192.168.2.99, overlay: zcu102/cnna.bit}
"""

from pathlib import Path
from typing import Any

from cnna.serve.boards.board_spec import NAME, OPTIONS, BoardSpec, checked
from cnna.serve.models.yaml_file import read_yaml
from cnna.spec.errors import UserError

KEYS = ("name", "kind", "address", *OPTIONS)


def boards_of(path: Path) -> list[BoardSpec]:
    """UserError: the file is no such list, or a board in it is none; one line names file, board and remedy."""
    found = read_yaml(path, "name the boards by --board")
    if not isinstance(found, list) or not found:
        raise UserError(f"{path}: must be a list of boards, such as `- {{name: left, kind: emulator}}`")
    boards: list[BoardSpec] = []
    for number, entry in enumerate(found, 1):
        board = _board(path, f"{path}: board {number}", entry)
        if board.name in [other.name for other in boards]:
            raise UserError(f"{path}: two boards have the name {board.name}; give each one of its own")
        boards.append(board)
    return boards


def _board(path: Path, where: str, entry: Any) -> BoardSpec:
    if not isinstance(entry, dict):
        raise UserError(f"{where}: must be `key: value` lines; the keys are {', '.join(KEYS)}")
    for key, value in entry.items():
        if key not in KEYS:
            raise UserError(f"{where}: unknown key {key!r}; there are {', '.join(KEYS)}")
        if type(value) not in (str, int, float):
            raise UserError(f"{where}: {key}: {value!r} is neither a text nor a number")
    texts = {key: str(value) for key, value in entry.items()}
    name, kind, address = (texts.pop(key, None) for key in ("name", "kind", "address"))
    if name is None or kind is None or not NAME.fullmatch(name):
        raise UserError(f"{where}: needs a name of letters, digits, `_`, `.` and `-`, and a kind")
    if texts.get("overlay"):
        texts["overlay"] = str(path.parent / texts["overlay"])
    return checked(f"{where} ({name})", name, kind, address, texts)
