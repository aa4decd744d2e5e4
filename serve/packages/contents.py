"""What of a repository goes into a package: the versions that a server would serve, checked as it checks them."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from cnna.serve.models.repository import REMOTE, Repository, open_repository
from cnna.serve.models.settings import version_name
from cnna.serve.models.version import Version
from cnna.spec.errors import UserError
from cnna.spec.files import make_folder


@dataclass(frozen=True, eq=False)
class Contents:
    """The versions, by model. pipelines: models made of others. remote: names of the versions of models of other servers."""

    repository: Repository
    versions: dict[str, tuple[Version, ...]]
    pipelines: tuple[str, ...]
    remote: dict[str, tuple[str, ...]]

    def names(self) -> list[str]:
        """Models with their versions, and pipelines."""
        return [f"{model}/{name}" for model, names in self.chosen().items() for name in names] + list(self.pipelines)

    def chosen(self) -> dict[str, tuple[str, ...]]:
        """The names of the versions, by model."""
        return {model: tuple(one.name for one in many) for model, many in self.versions.items()} | self.remote


def contents_of(path: Path) -> Contents:
    """What a server would serve of a repository, or of one .cnna. UserError: a file is not sound, or there is nothing to serve.

    Other servers are not asked: where this one will run, they may be reached, and not here.
    """
    repository = open_repository(path)
    versions, pipelines, remote = {}, [], {}
    for model in repository.models():
        if repository.has_pipeline(model):
            repository.pipeline(model)
            pipelines.append(model)
            continue
        settings = repository.settings(model)
        names = settings.chosen(repository.versions(model))
        if not names:
            raise UserError(repository.why_no_versions(model))
        if settings.runtime == REMOTE:
            for name in names:
                repository.check_remote(model, name, settings)
            remote[model] = tuple(names)
            continue
        versions[model] = tuple(repository.version(model, name, settings) for name in names)
    if not versions and not pipelines and not remote:
        raise UserError("; ".join(reversed(repository.ignored())))
    return Contents(repository, versions, tuple(pipelines), remote)


@contextmanager
def filling(path: Path, contents: Contents) -> Iterator[None]:
    """Makes the folder of a package, which is filled inside of this. What ends early leaves nothing in it.

    UserError: it is there and not empty, cannot be made or filled, or is in the repository.
    """
    root = Path(os.path.realpath(contents.repository.root))
    if contents.repository.single is None and Path(os.path.realpath(path)).is_relative_to(root):
        raise UserError(f"{path}: is in the repository, where it would be a model; name a folder outside of {root}")
    there = path.exists()
    if there and (not path.is_dir() or any(path.iterdir())):
        raise UserError(f"{path}: is there already; give a folder that does not exist, or is empty")
    make_folder(path)
    try:
        yield
    except BaseException as error:
        with suppress(OSError):  # what cannot be removed does not hide the cause
            _empty(path)
            if not there:
                path.rmdir()
        if isinstance(error, OSError):
            raise UserError(_words(error, path)) from None
        raise


def _empty(folder: Path) -> None:
    """Removes what is in a folder. The folder itself, or a link to it, is the user's and stays as it was."""
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)


def _words(error: OSError, path: Path) -> str:
    """Which file could not be made, and why. A whole tree that could not be copied is a list of those."""
    if isinstance(error, shutil.Error):
        _, place, why = error.args[0][0]
        return f"{place}: {why}"
    return f"{error.filename2 or error.filename or path}: {(error.strerror or str(error)).lower()}"


def copy_models(contents: Contents, folder: Path) -> None:
    """Copies the repository, or makes one of a single .cnna. Versions that nobody is served are left out."""
    repository = contents.repository
    if repository.single is not None:
        place = folder / repository.single / "1"
        place.mkdir(parents=True)
        shutil.copy(repository.root, place / repository.root.name)
        return
    chosen = contents.chosen()
    for model in repository.models():
        wanted = chosen.get(model, ())
        (folder / model).mkdir(parents=True)
        for path in sorted((repository.root / model).iterdir()):
            if path.name.startswith(".") or (path.is_dir() and version_name(path.name) and path.name not in wanted):
                continue
            (shutil.copytree if path.is_dir() else shutil.copy)(path, folder / model / path.name)
