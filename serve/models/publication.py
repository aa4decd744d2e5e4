"""Adds a version to a repository: writes a hidden folder and renames it, so that no server sees half a version."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from cnna.serve.models import fallback, golden
from cnna.serve.models.repository import NAME
from cnna.serve.models.settings import version_name
from cnna.serve.models.signature import Arrays
from cnna.spec.artifact import Artifact, save
from cnna.spec.errors import UserError
from cnna.spec.files import make_folder


def next_version(root: Path, model: str, wanted: str | None = None) -> str:
    """The name of the version that will be added: `wanted`, or one more than the highest. UserError: it is there already."""
    if not NAME.fullmatch(model):
        raise UserError(f"--model {model}: a model's name has letters, digits, `_`, `.` and `-` alone, and no leading dot")
    folder = root / model
    there = [path.name for path in folder.iterdir() if version_name(path.name)] if folder.is_dir() else []
    if wanted is None:
        return str(max(map(int, there), default=0) + 1)
    if version_name(wanted) is None:
        raise UserError(f"--version {wanted}: versions are positive integers")
    if wanted in there:
        raise UserError(f"{folder / wanted}: is there already; versions never change: leave --version out, or give another one")
    return wanted


def publish(
    root: Path,
    model: str,
    version: str,
    artifacts: Sequence[Artifact],
    inputs: Arrays,
    outputs: Arrays,
    spare: fallback.Spare | None = None,
) -> Path:
    """Writes a version with its golden answers; returns its folder. UserError: it cannot be written, or somebody was quicker."""
    folder = root / model / version
    hidden = folder.with_name(f".{version}.{os.getpid()}.part")
    make_folder(hidden)
    try:
        for artifact in artifacts:
            save(artifact, hidden / f"{artifact.config.name}-b{artifact.manifest['batch']}.cnna")
        golden.write(hidden / golden.FILE, inputs, outputs)
        if spare is not None:
            fallback.write(hidden, spare)
        hidden.rename(folder)
    except OSError as error:
        raise UserError(f"{folder}: {error.strerror or error}") from None
    finally:
        shutil.rmtree(hidden, ignore_errors=True)
    return folder
