"""`cnna.explore`: the configurations that are quickest for a model within a chip's limits; `cnna.tilings`: those of one layer."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cnna.jobs.charts import chart_library
from cnna.jobs.configurations import GivenConfig, config_of
from cnna.jobs.ddr import Ddr
from cnna.jobs.given import GivenModel, Note, Progress, Shapes, Warn, Warnings, name_of, native_host, quiet, shaped, with_tools
from cnna.jobs.result import ASIDE, Result, picture_html
from cnna.spec.boards import BOARDS
from cnna.spec.config import preset
from cnna.spec.counts import many
from cnna.spec.errors import UserError, about_model
from cnna.spec.files import write_bytes, write_text
from cnna.spec.host_time.end_to_end import IN_PYTHON, NATIVELY

if TYPE_CHECKING:
    from cnna.compiler.explore.explore import Point
    from cnna.compiler.explore.layer import Choice
    from cnna.compiler.explore.sizes import Budget
    from cnna.compiler.placements import Placements

PAGES = (".html", ".htm")
NATIVE = "native"  # how the host's work is done, where its library is there


class Drawn(Result, ABC):
    """A result with a picture."""

    def picture(self) -> bytes:
        """A PNG."""
        file = BytesIO()
        self._draw(file)
        return file.getvalue()

    @abstractmethod
    def _draw(self, file: BytesIO) -> None:
        """Writes the PNG."""

    def _repr_html_(self) -> str:
        return picture_html(self._draw, str(self))


@dataclass(frozen=True, eq=False, kw_only=True)
class Explored(Drawn):
    """What was explored. dsp48e2, bram36, uram288, luts: the limits. refused: configurations that cannot run the model.

    ddr: that was predicted with. host: how its work is modelled, "native" or "python". points: all, as figures; `pareto` marks
    those that no other beats. best: these, the quickest first. notes: the lines that `warn` got.
    """

    name: str
    board: str
    dsp48e2: int
    bram36: int
    uram288: int
    luts: int | None
    refused: int
    ddr: Mapping[str, int]
    host: str
    points: Sequence[Mapping[str, Any]]
    all_points: "Sequence[Point]" = field(metadata=ASIDE)
    best: "Sequence[Point]" = field(metadata=ASIDE)
    budget: "Budget" = field(metadata=ASIDE)
    predicted_for: str = field(metadata=ASIDE)
    notes: tuple[str, ...] = field(default=(), metadata=ASIDE)

    def page(self, cache: str | PathLike[str] | None = None) -> str:
        """A page of HTML with linked plots. cache: where their JavaScript is kept. ToolError: its package is missing."""
        from cnna.compiler.explore.page import html

        return html(self.name, self.all_points, self.budget, chart_library(cache))

    def save(self, path: str | PathLike[str], cache: str | PathLike[str] | None = None) -> Path:
        """Writes the page if the name ends in .html, else the picture. UserError: it cannot be written."""
        if Path(path).suffix.lower() in PAGES:
            write_text(Path(path), self.page(cache))
        else:
            write_bytes(Path(path), self.picture())
        return Path(path)

    def _draw(self, file: BytesIO) -> None:
        from cnna.compiler.explore.explore import picture

        picture(self.name, self.all_points, self.budget, file)

    def __str__(self) -> str:
        from cnna.compiler.explore.explore import table

        clock = f"{preset(self.board).clock_mhz} MHz, the clock of {self.board}"
        alone = f"of the accelerator alone are predicted{self.predicted_for} at {clock}"
        way = NATIVELY if self.host == NATIVE else IN_PYTHON
        refused = f"; {many(self.refused, 'configuration')} cannot run the model" if self.refused else ""
        return (
            f"{table(self.best)}\nimages a second (fps) {alone}; those from picture to answer are modelled, {way}\n"
            f"of {len(self.points):,} explored, those that none beats in speed to the answer (slow end), DSP48E2 and BRAM36 at once"
            f"{refused}"
        )


@with_tools
def explore(
    model: GivenModel,
    board: str = "zcu102",
    *,
    dsp: int | None = None,
    bram: int | None = None,
    uram: int | None = None,
    lut: int | None = None,
    batch: int | None = None,
    ddr: Ddr | None = None,
    shapes: Shapes | None = None,
    progress: Progress | None = None,
    warn: Warn | None = None,
) -> Explored:
    """Compiles and predicts for every configuration that fits, and ranks them by images a second from picture to answer.

    This takes minutes for a large model. A float model is quantised with random numbers, which changes no clock. board: whose chip
    and DDR. dsp, bram, uram, lut: DSP48E2, BRAM36, URAM288 and LUTs at most; None: the board's. batch: images in a run; None: 1,
    and more for the quickest. UserError: no such board, nothing fits, or nothing of the model runs on the accelerator. ModelError:
    it cannot be read or compiled.
    """
    tell, warnings, speed = progress or quiet, Warnings(warn), ddr or Ddr()
    given = speed.given()
    if speed.named() is not None:
        raise UserError("explore predicts with the plain road to DDR; give bytes_per_cycle or latency")
    if batch is not None and batch < 1:
        raise UserError(f"--batch {batch}: must be at least 1")
    if board not in BOARDS:
        raise UserError(f"--board {board}: there is no such board; there are {', '.join(BOARDS)}")
    from cnna.compiler.explore import explore as compiler
    from cnna.compiler.explore.sizes import budget_of

    own = BOARDS[board]
    limits: dict[str, Any] = {"dsp": dsp, "bram36": bram, "luts": lut, "uram288": uram}
    budget = budget_of(own)._replace(**{name: value for name, value in limits.items() if value is not None})
    configs = compiler.configurations(budget, own)
    with about_model(name_of(model)):
        known = _placements(model, shapes, warnings)
    memory, native = speed.predicted(own.ddr), native_host()

    def say(done: int, total: int, what: str) -> None:
        tell(done, total, f"compiling for {what}")

    with about_model(name_of(model)):
        points, refused = compiler.explore(known.pieces, configs, batch, say, memory, native)
    best = compiler.pareto(points)
    return Explored(
        name=known.name,
        board=board,
        dsp48e2=budget.dsp,
        bram36=budget.bram36,
        uram288=budget.uram288,
        luts=budget.luts,
        refused=refused,
        ddr=memory.entry(),
        host=NATIVE if native else "python",
        points=[{**point.figures(), "pareto": point in best} for point in points],
        all_points=points,
        best=best,
        budget=budget,
        predicted_for=f" for {memory}" if given else "",
        notes=warnings.lines,
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class Tilings(Drawn):
    """The legal tilings of a layer, estimated for one image; the last is the compiler's. notes: the lines that `warn` got."""

    layer: str
    config: str
    tilings: "Sequence[Choice]"
    notes: tuple[str, ...] = field(default=(), metadata=ASIDE)

    def _draw(self, file: BytesIO) -> None:
        from cnna.compiler.explore.layer import picture

        picture(f"{self.layer} on {self.config}", self.tilings, file)

    def __str__(self) -> str:
        from cnna.compiler.explore.layer import best

        head = f"{self.layer} on {self.config}, {many(len(self.tilings) - 1, 'legal tiling')}, estimated for one image"
        return "\n".join([head, *best(self.tilings)])


@with_tools
def tilings(
    model: GivenModel,
    layer: str,
    config: GivenConfig = "zcu102",
    *,
    shapes: Shapes | None = None,
    warn: Warn | None = None,
) -> Tilings:
    """All legal tilings of one layer. UserError, ModelError: as of `explore`, or the model has no such layer."""
    warnings, chosen = Warnings(warn), config_of(config)
    from cnna.compiler.explore import layer as compiler

    with about_model(name_of(model)):
        choices = compiler.tilings(_placements(model, shapes, warnings).programs, chosen, layer)
    return Tilings(layer=layer, config=chosen.name, tilings=choices, notes=warnings.lines)


def _placements(model: GivenModel, shapes: Shapes | None, warn: Warn) -> "Placements":
    """The model, cut for any configuration. A float model is quantised with random numbers, which do not change its speed.

    UserError: nothing of it runs on the accelerator.
    """
    from cnna.compiler.frontend.onnx_import import to_graph
    from cnna.compiler.placements import Placements
    from cnna.compiler.quantise.calibrate import random_samples
    from cnna.compiler.quantise.quantise import quantise

    source = shaped(model, shapes, warn)
    if any(node.op_type.startswith(("QLinear", "QuantizeLinear", "DequantizeLinear")) for node in source.proto.graph.node):
        found = Placements(source)
    else:
        warn(Note(f"{name_of(model)}: float, so it is quantised with random numbers; this changes no clock"))
        found = Placements(quantise(source, random_samples(to_graph(source)))[0])
    if not found.programs:
        raise UserError(
            f"{name_of(model)}: nothing in it runs on the accelerator, so there is nothing to explore; cnna explain says why"
        )
    return found
