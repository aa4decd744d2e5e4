"""`cnna.bench`: measures models under the load of MLPerf's LoadGen (docs/benchmarks.md)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from io import BytesIO
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from cnna.jobs.compile import compile as compile_one
from cnna.jobs.given import Progress, Warn, Warnings, native_host, quiet, with_tools
from cnna.jobs.options.configurations import config_of
from cnna.jobs.result import ASIDE, Result, picture_html
from cnna.spec.artifact import Artifact, load
from cnna.spec.errors import UserError
from cnna.spec.files import write_bytes


@dataclass(frozen=True, eq=False, kw_only=True)
class Benched(Result):
    """A benchmark, measured with LoadGen. rows: one for each model, place, batch, scenario and device, with its figure.

    versions, commit, processor: of what has measured. files: SHA-256 of the models, by name, and of the data. matrix: what was
    asked. notes: the lines that `warn` got.
    """

    kind: str
    schema: int
    measured_with: str
    versions: Mapping[str, Any]
    commit: str | None
    processor: str
    files: Mapping[str, Any]
    matrix: Mapping[str, Any]
    rows: Sequence[Mapping[str, Any]]
    notes: tuple[str, ...] = field(default=(), metadata=ASIDE)

    def picture(self) -> bytes:
        """A PNG with a panel for each scenario. ToolError: matplotlib is missing."""
        file = BytesIO()
        self._draw(file)
        return file.getvalue()

    def save(self, path: str | PathLike[str]) -> Path:
        """Writes the picture. UserError: it cannot be written."""
        write_bytes(Path(path), self.picture())
        return Path(path)

    def _draw(self, file: BytesIO) -> None:
        from cnna.evaluate.speed.picture import picture

        picture(self.figures(), file)

    def __str__(self) -> str:
        from cnna.evaluate.speed.text import text

        return text(self.figures())

    def _repr_html_(self) -> str:
        return picture_html(self._draw, str(self))


@with_tools
def bench(
    matrix: str | PathLike[str] | Mapping[str, Any],
    *,
    journal: str | PathLike[str] | None = None,
    cache: str | PathLike[str] | None = None,
    progress: Progress | None = None,
    warn: Warn | None = None,
) -> Benched:
    """Measures each row of a matrix with LoadGen.

    matrix: the path of a YAML file, or the same as a table. Devices that are simulated run in virtual time, all others by the clock
    on the wall. journal: keeps the rows; without it one in the cache does, until all are done, so a benchmark that was interrupted
    goes on. cache: the folder of such journals and of simulators. UserError: a file or a value is at fault. ToolError: LoadGen is
    missing. RunError: a device or a server has failed.
    """
    tell, warnings = progress or quiet, Warnings(warn)
    from cnna.evaluate.speed.benchmark import Means, benchmark
    from cnna.evaluate.speed.matrix import read_matrix

    read = read_matrix(Path(matrix) if isinstance(matrix, str | PathLike) else matrix)
    _check_configurations(fspath(matrix) if isinstance(matrix, str | PathLike) else "the matrix", read.configurations)
    folder = None if cache is None else Path(cache)
    means = Means(
        load=load,
        compile=partial(_compiled, warnings),
        native=native_host(),
        rtl=_rtl_options(folder),
        journal=None if journal is None else Path(journal),
        cache=folder,
        count=tell,
        say=warnings,
    )
    return Benched(**benchmark(read, means), notes=warnings.lines)


def _check_configurations(where: str, configurations: Sequence[str]) -> None:
    """UserError: there is no such one. Said before the first row, which may take hours."""
    names: dict[str, str] = {}  # of rows, by which they are told apart
    for each in configurations:
        try:
            name = config_of(each).name
            if name in names:
                raise UserError(f"{names[name]} and {each} are one; leave one out")
            names[name] = each
        except UserError as error:
            raise UserError(f"{where}: configurations: {str(error).removeprefix('--config').lstrip(': ')}") from None


def _compiled(warn: Warnings, path: Path, config: str, batch: int) -> Artifact:
    return compile_one(path, config, batch=batch, warn=warn).artifact


def _rtl_options(cache: Path | None) -> dict[str, Any]:
    if cache is None:
        return {}
    from cnna.sim.rtl.cache import private

    return {"cache": private(cache)}
