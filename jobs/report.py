"""`cnna.report`: what an artifact costs, layer by layer, as predicted and, with a run's figures, as measured."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from os import PathLike, fspath
from pathlib import Path
from typing import Any, TypeAlias

from cnna.jobs.charts import chart_library
from cnna.jobs.compile import Compiled
from cnna.jobs.given import native_host, with_tools
from cnna.jobs.measured import read_measured
from cnna.jobs.options.ddr import Ddr
from cnna.jobs.result import ASIDE, Result, picture_html
from cnna.spec.artifact import Artifact, held
from cnna.spec.boards import ddr_of
from cnna.spec.ddr import DdrSpeed
from cnna.spec.errors import DataError
from cnna.spec.files import write_bytes, write_text
from cnna.spec.json_text import json_text
from cnna.spec.names import called

GivenArtifact: TypeAlias = str | PathLike[str] | bytes | Artifact | Compiled
Figures: TypeAlias = Mapping[str, Any]
PICTURE = ".png"
UNNAMED = "the figures"  # what errors call measured figures that have no file


@dataclass(frozen=True, eq=False, kw_only=True)
class Reported(Result):
    """What an artifact costs (docs/report.md). All figures are of a whole batch. What was not measured is None.

    layers: a table of figures for each. predicted, measured: of the whole. timeline: when engines work. artifact: what is reported.
    """

    name: str
    config: str
    described: str
    clock_mhz: int
    board_ddr: Mapping[str, int]
    batch: int
    macs: int
    macs_per_cycle: int
    vector_macs_per_cycle: int
    ddr_bytes_per_cycle: int
    ddr_limit: str
    cpu_macs: int
    program_writes: int
    segments: Mapping[str, int]
    coded_layers: Sequence[str]
    pieces: Sequence[Figures]
    piece_times: Sequence[Figures]
    device: str | None
    predicted: Figures
    to_boxes: Figures | None
    measured: Figures | None
    engines: Sequence[Figures]
    layers: Sequence[Figures]
    graph: Figures
    timeline: Mapping[str, Any]
    feature_words: int
    memory: Any
    ddr: Any
    artifact: Artifact = field(metadata=ASIDE)
    run: Figures | None = field(metadata=ASIDE)
    speed: DdrSpeed = field(metadata=ASIDE)

    def slowest(self, count: int = 10) -> list[Figures]:
        """The layers of most clocks, measured where they were, else predicted; the slowest first."""
        key = "predicted_cycles" if self.measured is None else "cycles"
        return sorted(self.layers, key=lambda layer: -(layer[key] or 0))[:count]

    def page(self, cache: str | PathLike[str] | None = None) -> str:
        """A page of HTML. cache: where the JavaScript of its charts is kept. ToolError: the package that has it is missing."""
        from cnna.compiler.report.html import html

        return html(self.figures(), chart_library(cache))

    def picture(self) -> bytes:
        """A PNG: engines over time, layers' clocks, and roofline."""
        file = BytesIO()
        self._draw(file)
        return file.getvalue()

    def save(self, path: str | PathLike[str], cache: str | PathLike[str] | None = None) -> Path:
        """Writes the picture if the name ends in .png, else the page. UserError: it cannot be written."""
        if Path(path).suffix.lower() == PICTURE:
            write_bytes(Path(path), self.picture())
        else:
            write_text(Path(path), self.page(cache))
        return Path(path)

    def save_trace(self, path: str | PathLike[str]) -> Path:
        """Writes the timeline of engines and host, for chrome://tracing or Perfetto. UserError: it cannot be written."""
        from cnna.compiler.report.trace import trace

        write_text(Path(path), json_text(trace(self.artifact, self.run, self.speed, native_host())))
        return Path(path)

    def _draw(self, file: BytesIO) -> None:
        from cnna.compiler.report.picture import picture

        picture(self.figures(), file)

    def __str__(self) -> str:
        from cnna.compiler.report.table import table

        return table(self.figures())

    def _repr_html_(self) -> str:
        return picture_html(self._draw, str(self))


def artifact_of(given: GivenArtifact) -> Artifact:
    """A compiled model, from any form of it. ArtifactError: the file cannot be read."""
    return held(given)


@with_tools
def report(artifact: GivenArtifact, measured: str | PathLike[str] | Figures | None = None, *, ddr: Ddr | None = None) -> Reported:
    """Says what each layer costs.

    artifact: the path of a .cnna, its content, or what is compiled already. measured: figures of a run, as the path of what
    `cnna run --json` has written, or themselves, such as `last` of a session. ddr: another DDR than the board's to predict with.
    ArtifactError: the .cnna cannot be read. DataError: the figures are of another artifact.
    """
    speed = ddr or Ddr()
    speed.given(), speed.named()
    found = artifact_of(artifact)
    place = fspath(measured) if isinstance(measured, str | PathLike) else UNNAMED
    run = read_measured(Path(place)) if isinstance(measured, str | PathLike) else measured
    from cnna.compiler.report import report as compiler

    try:
        memory = speed.predicted(ddr_of(found.config), run, found.config.ports)
        figures = compiler.figures(found, run, memory, native_host())
    except DataError as error:  # about the measured figures
        raise DataError(f"{place}: {error}") from None
    if isinstance(artifact, str | PathLike):
        figures["name"] = called(figures["name"], Path(artifact))
    return Reported(**figures, artifact=found, run=run, speed=memory)
