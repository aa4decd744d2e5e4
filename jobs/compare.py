"""`cnna.compare`: two runs, reports or configurations side by side, layer by layer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import Any, TypeAlias

from cnna.jobs.charts import chart_library
from cnna.jobs.given import with_tools
from cnna.jobs.report import Reported
from cnna.jobs.result import Result
from cnna.spec.files import read_bytes, write_text

Compareable: TypeAlias = str | PathLike[str] | Reported | Mapping[str, Any]


@dataclass(frozen=True, eq=False, kw_only=True)
class Compared(Result):
    """Both sides, in clocks an image. ratio: of the second to the first. layers: clocks of each in both, and their difference."""

    a: Mapping[str, Any]
    b: Mapping[str, Any]
    ratio: float
    layers: Sequence[Mapping[str, Any]]

    def page(self, cache: str | PathLike[str] | None = None) -> str:
        """A page of HTML with a bar for each layer's difference. ToolError: the package of the charts is missing."""
        from cnna.compiler.report import compare

        return compare.html(self.figures(), chart_library(cache))

    def save(self, path: str | PathLike[str], cache: str | PathLike[str] | None = None) -> Path:
        """Writes the page. UserError: it cannot be written."""
        write_text(Path(path), self.page(cache))
        return Path(path)

    def __str__(self) -> str:
        from cnna.compiler.report import compare

        return compare.text(self.figures())


@with_tools
def compare(first: Compareable, second: Compareable) -> Compared:
    """Compares two runs or reports, in clocks an image.

    Each is a `Reported`, the path of figures that `cnna run --json` or `cnna report --json` has written, or such figures, as `last`
    of a session. DataError: figures of another kind, of a device that counts no clocks, or of different networks.
    """
    from cnna.compiler.report import compare as compiler

    sides = []
    for one, name in ((first, "the first"), (second, "the second")):
        if isinstance(one, str | PathLike):
            found, name = compiler.read(read_bytes(Path(one)), fspath(one)), fspath(one)
        else:
            found = one.figures() if isinstance(one, Reported) else dict(one)
        sides.append(compiler.side(found, name))
    return Compared(**compiler.compared(*sides))
