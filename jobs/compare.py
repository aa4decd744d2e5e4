"""`cnna.compare`: two runs, reports or configurations, layer by layer; and the same for evaluations and benchmarks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import Any, TypeAlias

from cnna.jobs.bench import Benched
from cnna.jobs.charts import chart_library
from cnna.jobs.eval import Evaluated
from cnna.jobs.given import with_tools
from cnna.jobs.report import Reported
from cnna.jobs.result import Result
from cnna.jobs.run import Ran
from cnna.spec.errors import DataError
from cnna.spec.files import read_bytes, write_text

Compareable: TypeAlias = str | PathLike[str] | Reported | Ran | Mapping[str, Any]
Benchmark: TypeAlias = str | PathLike[str] | Benched | Mapping[str, Any]
Evaluation: TypeAlias = str | PathLike[str] | Evaluated | Mapping[str, Any]


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

    Each is a `Reported`, a `Ran`, the path of figures that `cnna run --json` or `cnna report --json` has written, or such figures,
    as `last` of a session. DataError: figures of another kind, of a device that counts no clocks, or of different networks.
    """
    from cnna.compiler.report import compare as compiler

    return Compared(**compiler.compared(*(compiler.side(*one) for one in _both(first, second))))


@dataclass(frozen=True, eq=False, kw_only=True)
class ComparedEvaluations(Result):
    """Two evaluations. same_samples: whether differences are taken sample by sample. models: each pair with its figures."""

    kind: str
    task: str
    main: str
    a: Mapping[str, Any]
    b: Mapping[str, Any]
    same_samples: bool
    models: Sequence[Mapping[str, Any]]

    def page(self) -> str:
        """A page of HTML with the samples that changed."""
        from cnna.evaluate import compare

        return compare.html(self.figures())

    def save(self, path: str | PathLike[str]) -> Path:
        """Writes the page. UserError: it cannot be written."""
        write_text(Path(path), self.page())
        return Path(path)

    def __str__(self) -> str:
        from cnna.evaluate import compare

        return compare.text(self.figures())


@with_tools
def compare_evaluations(first: Evaluation, second: Evaluation) -> ComparedEvaluations:
    """Compares two evaluations of one task: their figures, and the answers that changed where both have measured the same samples.

    Each is an `Evaluated`, the path of figures that `cnna eval --json` has written, or such figures. DataError: one is no
    evaluation, or they are of two tasks.
    """
    from cnna.evaluate import compare as evaluations

    sides = []
    both = _both(first, second)
    for found, name in both:
        if not evaluations.is_evaluation(found):
            other = ", as the other is" if any(evaluations.is_evaluation(one) for one, _ in both) else ""
            raise DataError(f"{name}: not what `cnna eval --json` writes{other}; an evaluation compares with another")
        sides.append(evaluations.side(found, name))
    return ComparedEvaluations(**evaluations.compared(*sides))


@dataclass(frozen=True, eq=False, kw_only=True)
class ComparedBenchmarks(Result):
    """Two benchmarks. rows: each figure of both, and their ratio. changed: what else is not the same, in both."""

    kind: str
    a: Mapping[str, Any]
    b: Mapping[str, Any]
    changed: Mapping[str, Sequence[Any]]
    rows: Sequence[Mapping[str, Any]]

    def __str__(self) -> str:
        from cnna.evaluate.speed import compare

        return compare.text(self.figures())


@with_tools
def compare_benchmarks(first: Benchmark, second: Benchmark) -> ComparedBenchmarks:
    """Compares two benchmarks: the rows that both have, and what else has changed, such as versions and settings.

    Each is a `Benched`, the path of figures that `cnna bench --json` has written, or such figures. DataError: one is no benchmark,
    or they have no row in common.
    """
    from cnna.evaluate.speed import compare as benchmarks

    both = _both(first, second)
    for found, name in both:
        if not benchmarks.is_benchmark(found):
            raise DataError(f"{name}: not what `cnna bench --json` writes; a benchmark compares with another")
    a, b = (benchmarks.checked(found, name) for found, name in both)
    return ComparedBenchmarks(**benchmarks.compared(a, b, (both[0][1], both[1][1])))


def _both(
    first: "Compareable | Evaluated | Benched", second: "Compareable | Evaluated | Benched"
) -> list[tuple[dict[str, Any], str]]:
    """The figures of both, and what errors call them."""
    from cnna.compiler.report import compare as compiler

    found = []
    for one, name in ((first, "the first"), (second, "the second")):
        if isinstance(one, str | PathLike):
            found.append((compiler.read(read_bytes(Path(one)), fspath(one)), fspath(one)))
        else:
            found.append((one.figures() if isinstance(one, Result) else dict(one), name))
    return found
