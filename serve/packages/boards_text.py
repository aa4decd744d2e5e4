"""The boards of a package, as boards.yaml: what `--board` said, with overlays where the package puts them."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from cnna.serve.boards.board_spec import BoardSpec, board_specs
from cnna.spec.errors import UserError

FILES = ("cnna.bit", "cnna.hwh", "manifest.json")  # of an overlay; the first is what --board names
HEAD = "# The boards of this server: docs/serving/reference.md has the keys.\n"


def boards_of(texts: Sequence[str], default: str) -> list[BoardSpec]:
    """UserError: one is no board."""
    return board_specs(list(texts) or [default])


def check_overlays(specs: Sequence[BoardSpec]) -> None:
    """UserError: a file of an overlay is missing. Said before anything is written."""
    for spec in specs:
        if missing := next((path for path in _files(spec) if not path.is_file()), None):
            raise UserError(f"--board {spec.name}=...: {missing} is missing; an overlay is {', '.join(FILES)}, in one folder")


def overlays_into(specs: Sequence[BoardSpec], folder: Path, installed: str) -> list[BoardSpec]:
    """Copies overlays to folder/NAME, and names them where they will be: installed/NAME."""
    found = []
    for spec in specs:
        if not spec.overlay:
            found.append(spec)
            continue
        bit = Path(spec.overlay)
        (folder / spec.name).mkdir(parents=True)
        for path in _files(spec):
            shutil.copy(path, folder / spec.name)
        found.append(replace(spec, overlay=f"{installed}/{spec.name}/{bit.name}"))
    return found


def _files(spec: BoardSpec) -> tuple[Path, ...]:
    """Of an overlay; none where there is no overlay."""
    bit = Path(spec.overlay or "")
    return (bit, bit.with_suffix(".hwh"), bit.with_name("manifest.json")) if spec.overlay else ()


def boards_text(specs: Sequence[BoardSpec]) -> str:
    """What differs from the defaults, a board a line. JSON is YAML too."""
    lines = []
    for spec in specs:
        plain = asdict(BoardSpec(spec.name))
        said = {key: value for key, value in asdict(spec).items() if key in ("name", "kind") or value != plain[key]}
        lines.append("- {" + ", ".join(f"{key}: {json.dumps(value)}" for key, value in said.items()) + "}")
    return HEAD + "\n".join(lines) + "\n"
