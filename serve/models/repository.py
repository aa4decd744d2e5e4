"""A repository: a folder with a folder for each model, and in that one for each version.

R/digits/model.yaml              settings; may be missing
R/digits/3/tiny-b1.cnna          version 3, compiled for the configuration `tiny` and batch 1
R/digits/3/tiny-b4.cnna          the same for batch 4
R/digits/3/golden.npz            answers that it must give
R/digits/3/labels.json           names of its classes; may be missing
R/reader/pipeline.yaml           a model that is made of others

Where model.yaml names another runtime, a version holds what that one reads (`model.onnx`), or nothing (`remote`).
A single `M.cnna` is a repository of one model with one version. Nothing outside the folder is ever read; links must not lead out.
"""

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path

from cnna.serve.models.answering import seconds_of
from cnna.serve.models.fallback import with_fallback
from cnna.serve.models.golden import FILE as GOLDEN
from cnna.serve.models.golden import read
from cnna.serve.models.labels import stored
from cnna.serve.models.pipeline import FILE as PIPELINE
from cnna.serve.models.pipeline import Pipeline, pipeline_of
from cnna.serve.models.settings import FILE as SETTINGS
from cnna.serve.models.settings import Settings, settings_of, version_name
from cnna.serve.models.signature import Signature, described_signature, signature_of
from cnna.serve.models.thresholds import check
from cnna.serve.models.version import Compiled, Version
from cnna.serve.runtimes.describe import described
from cnna.serve.runtimes.installed import opened
from cnna.serve.runtimes.interface import CNNA, Place
from cnna.spec.artifact import Artifact, load
from cnna.spec.errors import ArtifactError, CnnaError, RunError, UnknownError, UserError, reason_of

REMOTE = "remote"  # the runtime of models of other servers
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")  # of a model: no separator, no leading dot
NAME_RULE = "a model's name has letters, digits, `_`, `.` and `-` alone, and no leading dot"
FILES = frozenset({".cnna", ".onnx"})  # that a version may hold
ARTIFACT = re.compile(r"(?P<config>[\w,=.-]+)-b(?P<batch>[1-9]\d{0,5})\.cnna")


@dataclass(frozen=True)
class Repository:
    """A folder of models, or one file. `single`: the name of the only model, where it is a file."""

    root: Path
    single: str | None = None

    def models(self) -> list[str]:
        """The names of the models that are there now."""
        if self.single is not None:
            return [self.single]
        return sorted(entry.name for entry in _entries(self.root) if NAME.fullmatch(entry.name) and entry.is_dir())

    def ignored(self) -> list[str]:
        """Why folders are no models that look like some, and why there is none at all: a line each."""
        if self.single is not None:
            return []
        there = [entry for entry in _entries(self.root) if not entry.name.startswith(".")]
        found = [f"{entry}: ignored; {NAME_RULE}" for entry in there if entry.is_dir() and not NAME.fullmatch(entry.name)]
        if self.models():
            return sorted(found)
        files = [entry.name for entry in there if _is_model(entry)]
        help_ = "cnna publish adds one"
        if files:
            above = "the folder that has the model's folder" if version_name(self.root.resolve().name) else "a folder of models"
            help_ = f"{files[0]} lies in it itself; give {above}{', or the file' if files[0].endswith('.cnna') else ''}"
        return [*sorted(found), f"no model in {self.root}: {help_}"]

    def why_no_versions(self, model: str) -> str:
        """What is wrong with a folder that has no version to serve, in one line."""
        folder = self._folder(model)
        if names := self.versions(model):
            return f"{folder / SETTINGS}: asks for versions that are not there; there are {', '.join(names)}"
        there = sorted(_entries(folder))
        files = [entry.name for entry in there if _is_model(entry)]
        others = [entry.name for entry in there if entry.is_dir() and not entry.name.startswith(".")]
        if files and version_name(model):
            help_ = f"it is a version itself; give the folder above {self.root}"
        elif files:
            help_ = f"{files[0]} belongs into a folder of it, such as {folder / '1'}"
        elif others:
            help_ = f"{others[0]} is no version, since versions are integers from 1 on; cnna publish makes one"
        else:
            help_ = "cnna publish makes one"
        return f"{folder}: no versions; {help_}"

    def settings(self, model: str) -> Settings:
        """How it is served. UserError: model.yaml is wrong, or a link out of the repository."""
        path = self._folder(model) / SETTINGS
        return settings_of(path) if self.single is None and path.is_file() else Settings()

    def has_pipeline(self, model: str) -> bool:
        """Whether it is made of others."""
        return self.single is None and NAME.fullmatch(model) is not None and os.path.isfile(self.root / model / PIPELINE)

    def pipeline(self, model: str) -> Pipeline:
        """How it is made of others. UserError: pipeline.yaml is wrong."""
        return pipeline_of(self._folder(model) / PIPELINE)

    def versions(self, model: str) -> list[str]:
        """The names of its versions that are there now, in ascending order. UserError: its folder cannot be read."""
        folder = self._folder(model)
        if self.single is not None or self.has_pipeline(model):
            return ["1"]
        names = [entry.name for entry in _entries(folder) if entry.is_dir() and version_name(entry.name)]
        return sorted(names, key=int)

    def version(self, model: str, name: str, settings: Settings | None = None) -> Version:
        """Reads a version and checks all of its files. settings: the model's, if they are known.

        UserError: one of them is not sound; the line names it. RunError: another runtime cannot say now what it takes.
        """
        if self.single is not None:
            return _version(model, name, [self.root], None)
        if version_name(name) is None:
            raise UnknownError(f"{name!r} is no version: versions are integers")
        folder = self._folder(model) / name
        if not folder.is_dir():
            raise UnknownError(f"{folder}: no such version; there are {', '.join(self.versions(model)) or 'none'}")
        settings = self.settings(model) if settings is None else settings
        for path in (folder, *_entries(folder)):
            self._check_inside(path)
        golden = folder / GOLDEN if (folder / GOLDEN).is_file() else None
        place = Place(model, name, folder, settings.options.get(settings.runtime, {}))
        if settings.runtime != CNNA:
            found = _by_runtime(settings.runtime, place, golden)
        elif files := sorted(folder.glob("*.cnna")):
            found = _version(model, name, files, golden)
        else:
            raise ArtifactError(f"{folder}: holds no .cnna; cnna publish makes versions")
        found = replace(found, labels=stored(folder, found.signature.outputs))
        if settings.detector is not None:
            own = check(self._folder(model) / SETTINGS, settings.detector, found.signature, name)
            found = replace(found, labels={**found.labels, **own})
        if settings.fallback is None:
            return found
        return with_fallback(found, settings.fallback, replace(place, options=settings.options.get(settings.fallback, {})))

    def check_remote(self, model: str, name: str, settings: Settings) -> None:
        """UserError: what model.yaml says of a model of another server is wrong. The other server is not asked."""
        for path in (self._folder(model) / name, *_entries(self._folder(model) / name)):
            self._check_inside(path)
        opened(REMOTE, Place(model, name, self._folder(model) / name, settings.options.get(REMOTE, {}))).close()

    def _folder(self, model: str) -> Path:
        """UnknownError: there is no such model. The name cannot lead out of the repository."""
        if self.single is not None and model == self.single:
            return self.root
        if self.single is not None or not NAME.fullmatch(model) or not (self.root / model).is_dir():
            raise UnknownError(f"there is no model {model!r}; there are {', '.join(self.models()) or 'none'}")
        for path in (self.root / model, self.root / model / SETTINGS, self.root / model / PIPELINE):
            self._check_inside(path)
        return self.root / model

    def _check_inside(self, path: Path) -> None:
        """UserError: a link leads out of the repository."""
        if not path.resolve().is_relative_to(self.root.resolve()):
            raise UserError(f"{path}: leads to {path.resolve()}, out of the repository; copy it here")


def _is_model(path: Path) -> bool:
    return path.suffix in FILES and path.is_file()


def _entries(folder: Path) -> list[Path]:
    """UserError: it cannot be read."""
    try:
        return list(folder.iterdir())
    except OSError as error:
        raise UserError(f"{folder}: {error.strerror or error}") from None


def open_repository(path: Path) -> Repository:
    """The repository in a folder, or of one .cnna. UserError: the path is neither.

    A file is read at once: nothing could ever be served if it is not sound, whereas a folder has other versions, or gets them.
    """
    path = Path(path)
    if path.is_dir():
        return Repository(path)
    if path.is_file():
        if path.suffix == ".onnx":
            raise UserError(f"{path}: an ONNX model; give a .cnna, which `cnna compile` makes, or a repository")
        name = path.stem
        if not NAME.fullmatch(name):
            raise UserError(f"{path}: {NAME_RULE}; rename the file")
        found = Repository(path, name)
        found.version(name, "1")
        return found
    raise UserError(f"{path}: no such folder or file; give a repository or a .cnna")


def _version(model: str, name: str, files: list[Path], golden: Path | None) -> Version:
    found: dict[str, dict[int, Compiled]] = {}
    signature: Signature | None = None
    for path in files:
        artifact = load(path)
        own = signature_of(str(path), artifact.manifest)
        if signature is not None and own != signature:
            raise ArtifactError(f"{path}: takes or gives other tensors than {files[0].name}; publish the version again")
        signature = signature or own
        compiled = _compiled(path, artifact)
        named = ARTIFACT.fullmatch(path.name)
        if len(files) > 1 and (named is None or int(named["batch"]) != compiled.batch or named["config"] != compiled.config):
            raise ArtifactError(f"{path}: must be called {compiled.config}-b{compiled.batch}.cnna after what it was compiled for")
        found.setdefault(compiled.config, {})[compiled.batch] = compiled
    assert signature is not None
    by_config = {config: tuple(batches[batch] for batch in sorted(batches)) for config, batches in found.items()}
    return Version(model, name, signature, by_config, None if golden is None else read(golden, signature))


def _compiled(path: Path, artifact: Artifact) -> Compiled:
    clocks = artifact.predicted_clocks()
    return Compiled(path, artifact.config.name, artifact.manifest["batch"], clocks, seconds_of(artifact, artifact.config.clock_mhz))


def _by_runtime(runtime: str, place: Place, golden: Path | None) -> Version:
    """A version as another runtime describes it."""
    found = described(runtime, place)
    if not found.inputs or not found.outputs:
        raise ArtifactError(f"{place.folder}: runtime {runtime}: a version needs at least one input and one output")
    signature = described_signature(place.model, found)
    compiled = Compiled(place.folder, runtime, found.batch, 0, found.seconds, runtime, place, found.bounded)
    answers = None if golden is None else read(golden, signature)
    return Version(place.model, place.version, signature, {runtime: (compiled,)}, answers, runtime)


def refusal_of(error: Exception) -> CnnaError:
    """Why a load was refused, in one line, whatever has ended it."""
    if isinstance(error, CnnaError):
        return error
    if isinstance(error, OSError):
        where = error.filename or "the model's files"
        return UserError(f"{where}: {error.strerror or reason_of(error)}; mend it and load the model again")
    return RunError(f"internal error: {type(error).__name__}: {reason_of(error)}")
