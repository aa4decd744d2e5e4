"""`cnna.explain`: what will happen to each node of a model, before it is quantised and compiled."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cnna.jobs.detector import check_wanted
from cnna.jobs.given import GivenModel, Progress, Shapes, Warn, Warnings, name_of, native_host, quiet, shaped, with_tools
from cnna.jobs.options.configurations import GivenConfig, config_of
from cnna.jobs.result import ASIDE, Result, page_html
from cnna.spec.errors import about_model
from cnna.spec.files import write_text
from cnna.spec.host_time.end_to_end import EndToEnd
from cnna.spec.host_time.piece_times import PieceTime

if TYPE_CHECKING:
    from onnx import ModelProto

    from cnna.compiler.explain.explain import Explanation
    from cnna.compiler.explain.rows import Row

DEFAULT = "zcu102"  # the configuration


@dataclass(frozen=True, eq=False, kw_only=True)
class Explained(Result):
    """What will happen to a model. MACs are of an image; those, clocks and seconds of nodes and pieces are of a batch.

    default_config: whether the caller has chosen no configuration. assumed_ranges: whether the model is not quantised yet.
    predicted_cycles, predicted_end_to_end: None if `cnna.compile` refuses the model; `problems` then say why. nodes: a row for each
    node. explanation: the same as the compiler has it. notes: the lines that `warn` got.
    """

    model: str
    default_config: bool
    name: str
    config: str
    clock_mhz: int
    ddr: Mapping[str, int]
    batch: int
    assumed_ranges: bool
    pieces: Sequence[str]
    macs: int
    cpu_macs: int
    mac_share: float
    predicted_cycles: int | None
    predicted_end_to_end: EndToEnd | None
    piece_times: "Sequence[PieceTime]"
    problems: Sequence[str]
    detector: str | None
    nodes: "Sequence[Row]"
    explanation: "Explanation" = field(metadata=ASIDE)
    proto: "ModelProto" = field(metadata=ASIDE)
    notes: tuple[str, ...] = field(default=(), metadata=ASIDE)

    @property
    def refused(self) -> bool:
        """Whether `cnna.compile` refuses the model, whatever its ranges are."""
        return self.explanation.refused

    def slowest(self, count: int = 10) -> "list[Row]":
        """The nodes that take most of the time, the slowest first."""
        return sorted((row for row in self.nodes if row.seconds), key=lambda row: -(row.seconds or 0))[:count]

    def page(self) -> str:
        """A page of HTML with the graph drawn, coloured by pieces."""
        from cnna.compiler.explain.html import html

        return html(self.explanation, self.proto, self.model, self.default_config)

    def save(self, path: str | PathLike[str]) -> Path:
        """Writes the page. UserError: it cannot be written."""
        write_text(Path(path), self.page())
        return Path(path)

    def figures(self) -> dict[str, Any]:
        """As of `Result`, with the sum of each piece's seconds."""
        found = super().figures()
        pieces = zip(found["piece_times"], self.piece_times, strict=True)
        return {**found, "piece_times": [{**entry, "seconds": time.seconds} for entry, time in pieces]}

    def __str__(self) -> str:
        from cnna.compiler.explain.text import pieces, summary, table

        parts = [table(self.explanation), pieces(self.explanation)]
        return "\n\n".join([*filter(None, parts), "\n".join(summary(self.explanation, self.model, self.default_config))])

    def _repr_html_(self) -> str:
        return page_html(self.page())


@with_tools
def explain(
    model: GivenModel,
    config: GivenConfig | None = None,
    *,
    batch: int = 1,
    detector: str | None = None,
    shapes: Shapes | None = None,
    progress: Progress | None = None,
    warn: Warn | None = None,
) -> Explained:
    """Says for each node of a float or quantised model where it will run, why, what it takes, and what would help.

    model: a path, the bytes of an ONNX file, or an `onnx.ModelProto`. config: as of `config_of`; None: zcu102. batch: images in one
    run. detector: "auto" says of any model whether it has a detector's heads, or what is missing. Nodes that cannot run are rows
    like the others; `refused` says that `cnna.compile` raises an error. UserError: there is no such configuration. ModelError: the
    model cannot be read, or the batch is not one.
    """
    check_wanted(detector)
    tell, warnings = progress or quiet, Warnings(warn)
    chosen, name = config_of(DEFAULT if config is None else config), name_of(model)
    from cnna.compiler.explain import explain as compiler

    with about_model(name):
        tell(0, 0, "load")
        read = shaped(model, shapes, warnings)
        found = compiler.explain(read, chosen, lambda what: tell(0, 0, what), batch, native_host(), detector)
    figures = found.figures()
    own = {"predicted_end_to_end": found.speed, "piece_times": found.times, "nodes": found.rows}
    about = {"model": name, "default_config": config is None, **figures, **own}
    return Explained(**about, explanation=found, proto=read.proto, notes=warnings.lines)
