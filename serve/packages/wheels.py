"""The wheels that a package installs: cnna's, and those that it needs, from a folder that pip has filled."""

import email
import hashlib
import re
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cnna.spec.errors import UserError, reason_of

OWN = "cnna"
NEEDED = "pip wheel '.[serve]' -w wheels makes one, in a clone"
DEBIAN = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "armhf"}  # a processor's name for Python, and for Debian
ANY = "all"


@dataclass(frozen=True)
class Wheel:
    """One file, and what its metadata say. processor: "" for all."""

    path: Path
    name: str
    version: str
    licence: str
    sha256: str
    processor: str


def wheels_of(folder: Path | None) -> tuple[Wheel, ...]:
    """All wheels of a folder. UserError: there is no folder, cnna's wheel is missing, or a file is none."""
    if folder is None:
        raise UserError(f"--wheels: name the folder with the wheel of cnna and those that it needs; {NEEDED}")
    files = sorted(folder.glob("*.whl")) if folder.is_dir() else []
    found = tuple(_wheel(path) for path in files)
    if sum(wheel.name == OWN for wheel in found) != 1:
        raise UserError(f"--wheels {folder}: must hold one wheel of cnna, and those that it needs; {NEEDED}")
    return found


def processor_of(wheels: Sequence[Wheel]) -> str:
    """The processor that they are for; "": all. UserError: they are for different ones."""
    found = sorted({wheel.processor for wheel in wheels} - {""})
    if len(found) > 1:
        first, second = (next(wheel.path.name for wheel in wheels if wheel.processor == name) for name in found[:2])
        raise UserError(f"{first} is for {found[0]}, but {second} for {found[1]}: give wheels for one processor")
    return found[0] if found else ""


def _wheel(path: Path) -> Wheel:
    """UserError: it is no wheel."""
    try:
        data = path.read_bytes()
        with zipfile.ZipFile(path) as members:
            name = next(one for one in members.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", one))
            metadata = email.message_from_string(members.read(name).decode())
    except (OSError, zipfile.BadZipFile, StopIteration, UnicodeDecodeError) as error:
        raise UserError(f"{path}: no wheel: {reason_of(error) or 'it has no metadata'}; remove it") from None
    platform = path.stem.rsplit("-", 1)[-1]
    processor = next((one for one in DEBIAN if platform.endswith(one)), "")
    licence = metadata.get("License-Expression") or metadata.get("License") or ""
    digest = hashlib.sha256(data).hexdigest()
    return Wheel(path, metadata["Name"].lower(), metadata["Version"], licence.strip().split("\n")[0], digest, processor)
