"""`.cnna` files that somebody has edited, with right digests again: a reader must refuse or survive them.

`edit` changes one or a few things of an artifact, as the seed says; `write` makes a file of it without a check.
"""

import hashlib
import json
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from cnna.spec import artifact as files
from cnna.spec.artifact import Artifact, Piece, ProgramPiece
from cnna.spec.regmap import BY_OFFSET, ENGINES

GONE = object()
VALUES: tuple[object, ...] = (
    GONE, None, "", "other", "\ud800", 0, -1, 1, 2, 7, 1 << 31, 1 << 32, 1 << 62, 1.5, 1e-300, 1e300, True, [], {}, [1], [[]],
)  # fmt: skip
Way = tuple[Any, ...]


def edit(artifact: Artifact, rng: np.random.Generator) -> tuple[str, Artifact]:
    """An edited copy, and a description of what was changed."""
    kinds: list[Callable[[Artifact, np.random.Generator], tuple[str, Artifact]]] = [
        _manifest,
        _manifest,
        _program,
        _program,
        _member,
    ]
    return kinds[int(rng.integers(len(kinds)))](artifact, rng)


def write(path: Path, artifact: Artifact) -> None:
    """Writes the file, whatever it contains, with the digests of its contents."""
    contents = {files.MODEL: artifact.model}
    for number, piece in enumerate(artifact.pieces):
        contents |= {f"piece{number}.{name}": data for name, data in _files(piece).items()}
    members = {name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in contents.items()}
    manifest = {"format": files.FORMAT, "schema": files.SCHEMA, **artifact.manifest, "members": members}
    text = json.dumps(manifest).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in {files.MANIFEST: text, files.DIGEST: hashlib.sha256(text).hexdigest().encode(), **contents}.items():
            archive.writestr(name, data)


def _files(piece: Piece) -> dict[str, bytes]:
    """A piece's files, by the ends of their names."""
    if isinstance(piece, ProgramPiece):
        return {"program.bin": piece.program, "constants.bin": piece.constants}
    return {"onnx": piece.model}


def with_files(
    artifact: Artifact, number: int, program: bytes | None = None, constants: bytes | None = None, model: bytes | None = None
) -> Artifact:
    """Replaces files of one piece: of a program the first two, on the CPU the model."""
    pieces, old = list(artifact.pieces), artifact.pieces[number]
    if isinstance(old, ProgramPiece):
        assert model is None
        own = (old.program if program is None else program, old.constants if constants is None else constants)
        pieces[number] = ProgramPiece(old.manifest, *own)
    else:
        assert program is None
        assert constants is None
        pieces[number] = replace(old, model=old.model if model is None else model)
    return replace(artifact, pieces=tuple(pieces))


def entries(value: Any, where: Way = ()) -> list[Way]:
    """The path to every entry of a JSON value."""
    keys = list(value) if isinstance(value, Mapping) else range(len(value)) if isinstance(value, list) else []
    return [way for key in keys for way in [(*where, key), *entries(value[key], (*where, key))]]


def changed(value: Any, way: Way, new: Any) -> Any:
    """The JSON value with another entry at a place, or without it (GONE)."""
    if not way:
        return new
    copy = dict(value) if isinstance(value, Mapping) else list(value)
    copy[way[0]] = changed(value[way[0]], way[1:], new)
    if copy[way[0]] is GONE:
        del copy[way[0]]
    return copy


def _manifest(artifact: Artifact, rng: np.random.Generator) -> tuple[str, Artifact]:
    manifest: Any = {key: value for key, value in artifact.manifest.items() if key != "members"}  # JSON, soon of any form
    said = []
    for _ in range(int(rng.integers(1, 3))):
        level = int(rng.integers(1, 6))  # without this, nearly all edits would hit the many commands
        ways = [way for way in entries(manifest) if len(way) <= level]
        way = ways[int(rng.integers(len(ways)))]
        old = manifest
        for key in way:
            old = old[key]
        new = _other(old, rng)
        manifest = changed(manifest, way, new)
        said.append(f"{'.'.join(map(str, way))} = {'gone' if new is GONE else repr(new)[:60]}")
    return "; ".join(said), replace(artifact, manifest=manifest)


def _other(old: Any, rng: np.random.Generator) -> Any:
    """Another value: of any kind, or close to the old one."""
    near: list[Any] = []
    if isinstance(old, int):
        near = [old + 1, old - 1, 2 * old, old // 2, -old, old + 16]
    elif isinstance(old, float):
        near = [-old, old * 1e30, old * 1e-30, 0.0]
    elif isinstance(old, list):
        near = [old[1:], old[:-1], [*old, *old], old[::-1], [*old, 1]]
    elif isinstance(old, str):
        near = [f"{old}2", "input", "output", "workspace", "x", "y", "conv", "store", "int64", "file"]
    choices = near if near and rng.random() < 0.5 else VALUES
    return choices[int(rng.integers(len(choices)))]


def _program(artifact: Artifact, rng: np.random.Generator) -> tuple[str, Artifact]:
    writes, said = np.frombuffer(artifact.program.program, "<u4").reshape(-1, 2).copy(), []
    legal = [register.offset for register in BY_OFFSET.values() if register.block in ENGINES]
    for _ in range(int(rng.integers(1, 5))):
        at, kind = int(rng.integers(len(writes))), int(rng.integers(6))
        if kind == 0:
            writes[at, 0] = rng.choice(legal)
        elif kind == 1:
            writes[at, 1] = rng.integers(1 << 32)
        elif kind == 2:
            writes[at, 1] ^= 1 << int(rng.integers(32))
        elif kind == 3:
            writes[at, 1] = rng.choice([0, 1, 2, 15, 16, 255, 1 << 13, 1 << 19, (1 << 32) - 16])
        elif kind == 4:
            writes[at, 1] += np.uint32(rng.choice([1, 2, 16]))
        else:
            writes[at] = writes[int(rng.integers(len(writes)))]
        register = BY_OFFSET.get(int(writes[at, 0]))
        said.append(f"write {at}: {register.name if register else hex(writes[at, 0])} = {writes[at, 1]:#x}")
    return "; ".join(said), with_files(artifact, artifact.pieces.index(artifact.program), program=writes.tobytes())


def _member(artifact: Artifact, rng: np.random.Generator) -> tuple[str, Artifact]:
    choices: list[tuple[str, int | None, bytes]] = [("model", None, artifact.model)]
    for place, piece in enumerate(artifact.pieces):
        choices.append(("constants", place, piece.constants) if isinstance(piece, ProgramPiece) else ("model", place, piece.model))
    name, number, old = choices[int(rng.integers(len(choices)))]

    def with_data(data: bytes) -> Artifact:
        return replace(artifact, model=data) if number is None else with_files(artifact, number, **{name: data})

    data = np.frombuffer(old, np.uint8).copy()
    at, kind = int(rng.integers(len(data))), int(rng.integers(5))
    if kind == 0 and name != "constants":
        return f"{name} cut at {at}", with_data(data[:at].tobytes())
    if kind == 1 and name != "constants":
        return f"another {name}", with_data(next((other for what, _, other in choices if what == name and other is not old), old))
    many = 1 if kind < 4 else 20
    where = rng.integers(len(data), size=many)
    data[where] = rng.integers(256, size=many, dtype=np.uint8)
    return f"{name}: bytes {where.tolist()[:5]}", with_data(data.tobytes())
