"""The `.cnna` file: everything a device needs to run a compiled model, in one checked zip. docs/artifact.md lists its contents.

It needs numpy alone, because boards read it. A file is either sound as a whole, or refused with one line.
"""

import hashlib
import json
import os
import shlex
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias, cast

from cnna.spec.checks import archive, soundness
from cnna.spec.checks.archive import DIGEST, MANIFEST, MODEL
from cnna.spec.config import Config, ConfigError
from cnna.spec.ddr import PLANNED, DdrSpeed
from cnna.spec.errors import ArtifactError, UserError
from cnna.spec.files import write_bytes
from cnna.spec.manifest import (
    ACCELERATOR,
    CPU,
    PIECES,
    CommonEntries,
    CpuEntry,
    Manifest,
    ModelEntries,
    PieceEntry,
    ProgramEntry,
    ProgramManifest,
    StoredManifest,
    misfit,
)
from cnna.spec.program.commands import UnsoundError
from cnna.spec.regmap import VERSION

FORMAT = "cnna"
# The schema that is written, and the oldest that is read; schema 1 has no folded inputs, those before TRACED no traced batch.
SCHEMA, OLDEST = 5, 1
OLDEST_PROGRAMS = (1, 4)  # the oldest register map whose programs are played: before, words of the vector ring had 16 bytes
PROGRAM_FILES = ("program.bin", "constants.bin")  # of a piece on the accelerator, each behind the piece's number
OLD_ENDS = {"cpu_head": "head.onnx", "cpu_tail": "tail.onnx"}  # the two CPU parts before PIECES: the manifest's entry, and the file

Source: TypeAlias = str | os.PathLike[str] | bytes  # the path of a .cnna file, or its content
Need = Callable[[bool, str], None]  # refuses the file, with a text that says why, unless the first argument is true


@dataclass(frozen=True)
class ProgramPiece:
    """A piece of a model that runs on the accelerator. `program` is (offset u32, value u32) pairs, little endian."""

    manifest: ProgramManifest
    program: bytes
    constants: bytes

    @property
    def config(self) -> Config:
        """The accelerator that the program was made for."""
        return Config(**self.manifest["config"])

    @property
    def predicted_for(self) -> DdrSpeed:
        """The DDR for which the manifest's clocks hold."""
        return DdrSpeed(**self.manifest["predicted"]["ddr"]) if "predicted" in self.manifest else PLANNED

    def predicted_clocks(self, ddr: DdrSpeed | None = None) -> int:
        """Clocks of one batch from start to done: those of the manifest or, for a slower `ddr`, an upper bound.

        An artifact from before they were stored gives the sum of the layers' estimates, which may be a quarter off.
        """
        found = self.manifest.get("predicted")
        clocks: int = found["cycles"] if found else sum(layer["predicted_cycles"] for layer in self.manifest["layers"])
        return clocks if ddr is None else ceil(clocks * ddr.times_slower(self.predicted_for, self.config))


@dataclass(frozen=True)
class CpuPiece:
    """A piece of a model that runs on the CPU: its entry, and its ONNX model."""

    manifest: CpuEntry
    model: bytes


Piece = ProgramPiece | CpuPiece


@dataclass(frozen=True)
class Artifact:
    """A compiled model: pieces in the order in which they run. `model` is the quantised ONNX model that it was made from."""

    manifest: Manifest
    pieces: tuple[Piece, ...]
    model: bytes

    @property
    def config(self) -> Config:
        """The accelerator that the programs were made for."""
        return Config(**self.manifest["config"])

    @property
    def programs(self) -> tuple[ProgramPiece, ...]:
        """The pieces that run on the accelerator."""
        return tuple(piece for piece in self.pieces if isinstance(piece, ProgramPiece))

    @property
    def program(self) -> ProgramPiece:
        """The only piece on the accelerator. ArtifactError: there are several, or none."""
        programs = self.programs
        if len(programs) != 1:
            raise ArtifactError(f"{self.manifest['name']}: it has {len(programs)} pieces on the accelerator; this is for one alone")
        return programs[0]

    @property
    def predicted_for(self) -> DdrSpeed:
        """The DDR for which the manifest's clocks hold."""
        return self.programs[0].predicted_for if self.programs else PLANNED

    def predicted_clocks(self, ddr: DdrSpeed | None = None) -> int:
        """The predicted clocks of all programs, one after another."""
        return sum(program.predicted_clocks(ddr) for program in self.programs)


class StoredModel(NamedTuple):
    """The model that an artifact was compiled from, as ONNX, and for what.

    detector: the family of its heads, in lower case; None: it has none.
    """

    model: bytes
    config: Config
    batch: int
    detector: str | None = None


def artifact_of(manifest: ModelEntries, pieces: Sequence[tuple[PieceEntry, Sequence[bytes]]], model: bytes) -> Artifact:
    """An artifact from its parts. manifest: all but the pieces' entries. pieces: entry, and (program, constants) or (model,)."""
    common: CommonEntries = {
        "isa": manifest["isa"],
        "config": manifest["config"],
        "name": manifest["name"],
        "batch": manifest["batch"],
    }
    whole: Manifest = {**manifest, "pieces": [entry for entry, _ in pieces]}
    return Artifact(whole, tuple(_piece(common, entry, *files) for entry, files in pieces), model)


def _piece(common: CommonEntries, entry: PieceEntry, *files: bytes) -> Piece:
    if entry["kind"] == CPU:
        return CpuPiece(entry, *files)
    return ProgramPiece({**common, **entry}, *files)


def _files(number: int, kind: str) -> list[str]:
    """Names of the files of a piece."""
    return [f"piece{number}.{name}" for name in (PROGRAM_FILES if kind == ACCELERATOR else ("onnx",))]


def save(artifact: Artifact, path: str | os.PathLike[str]) -> None:
    """Writes the file whole, so that no half-written artifact is ever seen.

    ArtifactError: the folder cannot be written, or the contents would not be read back.
    """
    path = Path(path)
    contents = {MODEL: artifact.model}
    for number, piece in enumerate(artifact.pieces):
        files = (piece.program, piece.constants) if isinstance(piece, ProgramPiece) else (piece.model,)
        contents |= dict(zip(_files(number, piece.manifest["kind"]), files, strict=True))
    members = {name: {"bytes": len(data), "sha256": digest_of(data)} for name, data in contents.items()}
    manifest = {**artifact.manifest, "format": FORMAT, "schema": SCHEMA, "members": members}
    _check(path, manifest, contents)
    text = json.dumps(manifest, sort_keys=True, allow_nan=False, separators=(",", ":")).encode()
    packed = archive.pack(path, {MANIFEST: text, DIGEST: digest_of(text).encode(), **contents})
    try:
        write_bytes(path, packed)
    except UserError as error:
        raise ArtifactError(f"{error}: cannot be written") from None


class Holder(Protocol):
    """What holds an artifact, such as what `cnna.compile` gives."""

    @property
    def artifact(self) -> Artifact: ...


def held(given: "Source | Artifact | Holder") -> Artifact:
    """An artifact, from any form of it. ArtifactError: as of `load`."""
    inside: Any = getattr(given, "artifact", given)
    return inside if isinstance(inside, Artifact) else load(inside)


def load(source: Source) -> Artifact:
    """Reads and checks a whole file, or its bytes. ArtifactError: it is not as `save` leaves it; one line says what differs."""
    if isinstance(source, bytes):
        path = Path("the given bytes")
        contents = archive.unpack(path, source)
    elif isinstance(source, str | os.PathLike):
        path = Path(source)
        contents = archive.unpack(path)
    else:
        raise ArtifactError(f"a model is the path of a .cnna file, or its bytes, not {type(source).__name__}")
    text, digest = contents.pop(MANIFEST), contents.pop(DIGEST)
    if digest.strip() != digest_of(text).encode():
        raise ArtifactError(f"{path}: altered: {MANIFEST} does not have the digest in {DIGEST}; compile it again")
    try:
        found = _manifest(path, text)
        if found["schema"] < PIECES:
            found, contents = _in_pieces(found, contents)
        manifest = _check(path, found, contents)
    except (TypeError, KeyError, AttributeError, struct.error) as error:
        raise ArtifactError(f"{path}: {MANIFEST} is malformed ({error}); compile it again") from error
    entries = [
        (entry, [contents[name] for name in _files(number, entry["kind"])]) for number, entry in enumerate(manifest["pieces"])
    ]
    return artifact_of(manifest, entries, contents[MODEL])


def stored_model(path: Path) -> StoredModel:
    """What an artifact was compiled from, whatever its schema is and whether its programs can be played here.

    ArtifactError: it is no whole archive, was altered, or does not say for what it was compiled.
    """
    contents = archive.unpack(path)
    text, model = contents[MANIFEST], contents[MODEL]
    if contents[DIGEST].strip() != digest_of(text).encode():
        raise ArtifactError(f"{path}: altered: {MANIFEST} does not have the digest in {DIGEST}; compile its ONNX model")
    try:
        manifest = json.loads(text)
        config, batch = Config(**manifest["config"]), manifest["batch"]
        kept = manifest["members"][MODEL]["sha256"]
    except (ValueError, RecursionError, KeyError, TypeError, ConfigError) as error:
        remedy = "compile its ONNX model, with --config"
        raise ArtifactError(f"{path}: {MANIFEST} does not say for what it was compiled ({error}); {remedy}") from None
    if type(batch) is not int or kept != digest_of(model):
        raise ArtifactError(f"{path}: altered: {MODEL} or its batch is not what {MANIFEST} says; compile its ONNX model")
    family = manifest["detector"].get("family") if isinstance(manifest.get("detector"), dict) else None
    return StoredModel(model, config, batch, family.lower() if isinstance(family, str) else None)


def _in_pieces(old: dict[str, Any], contents: dict[str, bytes]) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Manifest and files of an older schema, in which a program may have a CPU part before it (head) and one behind it (tail)."""
    program = {key: old[key] for key in (*ProgramEntry.__annotations__, "predicted", "activation_bytes") if key in old}
    head, tail = ([_old_end(old[key])] if old[key] else [] for key in OLD_ENDS)
    pieces = [*head, {**program, "kind": ACCELERATOR}, *tail]
    renamed = dict(zip(PROGRAM_FILES, _files(len(head), ACCELERATOR), strict=True))
    renamed |= dict(zip(OLD_ENDS.values(), (*_files(0, CPU), *_files(len(head) + 1, CPU)), strict=True))
    whole = {key: value for key, value in old.items() if key not in (*program, *OLD_ENDS)}
    members = {renamed.get(name, name): entry for name, entry in old["members"].items()}
    files = {renamed.get(name, name): data for name, data in contents.items()}
    return {**whole, "macs": old["macs"], "cpu_macs": 0, "pieces": pieces, "members": members}, files


def _old_end(operators: Any) -> dict[str, Any]:
    """The entry of a head or tail. Older files have no MACs and no predicted time for it, and do not say what it needs."""
    return {"kind": CPU, "operators": operators, "numpy": True, "macs": 0, "seconds": 0.0}


def _manifest(path: Path, text: bytes) -> dict[str, Any]:
    """The manifest's object, after a check that format and schema are known."""
    try:
        manifest = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"{path}: {MANIFEST} is not JSON: {error}") from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise ArtifactError(f"{path}: not a .cnna file ({MANIFEST} does not say format {FORMAT!r}); `cnna compile` makes one")
    try:
        json.dumps(manifest, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ArtifactError(
            f"{path}: {MANIFEST} holds a name that is no text (half of a pair of UTF-16); compile it again"
        ) from None
    schema = manifest.get("schema")
    if not isinstance(schema, int) or isinstance(schema, bool):
        raise ArtifactError(f"{path}: {MANIFEST} has no schema number; compile it again")
    if schema > SCHEMA:
        raise ArtifactError(f"{path}: written by a newer cnna (schema {schema}, this one reads {SCHEMA}); update cnna")
    if schema < OLDEST:
        again = _again(path)
        raise ArtifactError(f"{path}: of an older schema ({schema}, this cnna reads {OLDEST} to {SCHEMA}); rebuild it: {again}")
    return manifest


def _again(path: Path) -> str:
    """The command that rebuilds an artifact from the model in it."""
    return f"cnna compile {shlex.quote(str(path)) if path.exists() else 'FILE.cnna'}"


def _check(path: Path, found: Mapping[str, Any], contents: Mapping[str, bytes]) -> StoredManifest:
    """The manifest, after a check that it is sound and that the members match it. ArtifactError: the first fault."""

    def need(true: bool, what: str) -> None:
        if not true:
            raise ArtifactError(f"{path}: {what}; compile it again")

    wrong = misfit(found)
    need(wrong is None, f"{MANIFEST} has no proper '{wrong}'")
    manifest = cast(StoredManifest, found)
    _check_members(need, manifest, contents)
    isa = manifest["isa"]
    if (isa[0], isa[1]) < OLDEST_PROGRAMS:
        oldest = f"this cnna plays those from {OLDEST_PROGRAMS[0]}.{OLDEST_PROGRAMS[1]} on"
        raise ArtifactError(f"{path}: its programs are for register map {isa[0]}.{isa[1]}, {oldest}; rebuild it: {_again(path)}")
    need(isa[0] == VERSION[0], f"its programs are for register map {isa[0]}.{isa[1]}, this cnna has {VERSION[0]}.{VERSION[1]}")
    try:
        config = Config(**manifest["config"])
    except (ConfigError, TypeError) as error:
        raise ArtifactError(f"{path}: {MANIFEST} has no proper 'config': {error}") from error
    try:
        soundness.check(manifest, config, contents)
    except UnsoundError as error:
        raise ArtifactError(f"{path}: {error}; compile it again") from None
    return manifest


def _check_members(need: Need, manifest: StoredManifest, contents: Mapping[str, bytes]) -> None:
    """Checks that the archive's members are those of the manifest and its pieces, to the bit."""
    members = manifest["members"]
    wanted = {MODEL, *(name for number, entry in enumerate(manifest["pieces"]) for name in _files(number, entry["kind"]))}
    strange, missing = sorted(set(contents) - wanted), sorted(wanted - set(contents))
    need(not strange, f"altered: the archive also holds {', '.join(strange)}")
    need(not missing, f"altered: the archive lacks {', '.join(missing)}")
    need(set(members) == set(contents), f"altered: {MANIFEST} lists {', '.join(sorted(members))} as members")
    for name, data in contents.items():
        entry = members[name]
        need(entry["bytes"] == len(data), f"altered: {name} has {len(data)} bytes")
        need(entry["sha256"] == digest_of(data), f"altered: {name} does not have the digest in {MANIFEST}")


def digest_of(data: bytes) -> str:
    """The digest that the manifest has of a member, and the archive of the manifest."""
    return hashlib.sha256(data).hexdigest()
