"""Adds a version to a repository: writes a hidden folder and renames it, so that no server sees half a version.

The process that writes a hidden folder holds a lock on it. What a killed one has left has none, and the next one removes it.
"""

import fcntl
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from cnna.serve.models import fallback, golden
from cnna.serve.models import labels as class_names
from cnna.serve.models.repository import NAME, NAME_RULE
from cnna.serve.models.settings import version_name
from cnna.serve.models.signature import Arrays
from cnna.spec.artifact import Artifact, save
from cnna.spec.errors import UserError
from cnna.spec.files import make_folder

HIDDEN = re.compile(r"\.\d+\.\d+\.part")  # .VERSION.PROCESS.part


def next_version(root: Path, model: str, wanted: str | None = None) -> str:
    """The name of the version that will be added: `wanted`, or one more than the highest. UserError: it is there already."""
    if not NAME.fullmatch(model):
        raise UserError(f"--model {model}: {NAME_RULE}")
    folder = root / model
    there = [path.name for path in folder.iterdir() if version_name(path.name)] if folder.is_dir() else []
    if wanted is None:
        return str(max(map(int, there), default=0) + 1)
    if version_name(wanted) is None:
        raise UserError(f"--version {wanted}: versions are positive integers of at most 18 digits")
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
    labels: class_names.Labels | None = None,
) -> Path:
    """Writes a version with its golden answers; returns its folder. UserError: it cannot be written, or somebody was quicker.

    labels: names of the classes of its outputs, if they have any.
    """
    folder = root / model / version
    hidden = folder.with_name(f".{version}.{os.getpid()}.part")
    remove_left(root)
    try:
        with _owned(hidden):
            for artifact in artifacts:
                save(artifact, hidden / f"{artifact.config.name}-b{artifact.manifest['batch']}.cnna")
            golden.write(hidden / golden.FILE, inputs, outputs)
            if spare is not None:
                fallback.write(hidden, spare)
            if labels:
                class_names.write(hidden, labels)
            hidden.rename(folder)
    except OSError as error:
        raise UserError(f"{folder}: {error.strerror or error}") from None
    return folder


def remove_left(root: Path) -> None:
    """Removes the hidden folders below a repository that no process owns. It leaves those whose file system has no locks."""
    for hidden in root.glob("*/.*.part"):
        if HIDDEN.fullmatch(hidden.name):
            with suppress(OSError), _opened(hidden) as handle:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(hidden, ignore_errors=True)


@contextmanager
def _owned(hidden: Path) -> Iterator[None]:
    """Makes a hidden folder and holds its lock; at the end it is gone, unless it has another name by then."""
    handle = _locked(hidden)
    try:
        yield
    finally:
        shutil.rmtree(hidden, ignore_errors=True)
        os.close(handle)


def _locked(hidden: Path) -> int:
    """Makes a folder and locks it, again where another process has removed it before the lock was there."""
    while True:
        make_folder(hidden)
        with suppress(FileNotFoundError):
            handle = os.open(hidden, os.O_RDONLY | os.O_DIRECTORY)
            with suppress(OSError):  # of a file system without locks
                fcntl.flock(handle, fcntl.LOCK_EX)
            if hidden.exists() and os.path.samestat(os.fstat(handle), hidden.stat()):
                return handle
            os.close(handle)


@contextmanager
def _opened(folder: Path) -> Iterator[int]:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield handle
    finally:
        os.close(handle)
