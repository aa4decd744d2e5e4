"""`cnna.explore`: the configurations that are quickest for a model within a chip's limits; `cnna.tilings`: those of one layer."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from io import BytesIO
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cnna.jobs.charts import chart_library
from cnna.jobs.detector import check_wanted
from cnna.jobs.explore.confirm import Confirmation, Means, checked_size, confirmed
from cnna.jobs.explore.decoded import Decoded, decoded, hint, remedy, with_heads
from cnna.jobs.explore.sweep import (
    Early,
    aim_of,
    at_work,
    compiled,
    conditions,
    early,
    kept_of,
    nobody,
    placements,
    predicted_for,
    reached,
    several,
    space,
    speeds_of,
    spent,
    weights_of,
)
from cnna.jobs.given import GivenModel, Progress, Shapes, Warn, Warnings, name_of, quiet, with_tools
from cnna.jobs.options.configurations import GivenConfig, config_of
from cnna.jobs.options.ddr import Ddr
from cnna.jobs.result import ASIDE, Result, picture_html
from cnna.spec.config import preset
from cnna.spec.counts import listed, many
from cnna.spec.errors import UserError, about_model
from cnna.spec.exploring import SAMPLERS
from cnna.spec.files import default_cache, write_bytes, write_text
from cnna.spec.host_time.end_to_end import IN_PYTHON, NATIVELY

if TYPE_CHECKING:
    from cnna.compiler.explore.aim import Aim
    from cnna.compiler.explore.layer import Choice
    from cnna.compiler.explore.point import Point
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

    ddr: that was predicted with; empty where points say it, since several speeds were asked for. host: how its work is modelled,
    "native" or "python". points: all, as figures; `pareto` marks those that no other beats. best: these, the quickest first.
    compiled: points that were; the others were kept from before. plans: that were made for them; points that differ in DDR or clock
    alone share one. discarded: points that need not be: what they take at least says that they are not among the best. detectors:
    of each model what is known of its heads, if cnna.Detector decodes its boxes on integers; decoded: the same in lines. notes: the
    lines that `warn` got.
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
    detectors: Sequence[Mapping[str, Any] | None]
    points: Sequence[Mapping[str, Any]]
    all_points: "Sequence[Point]" = field(metadata=ASIDE)
    best: "Sequence[Point]" = field(metadata=ASIDE)
    budget: "Budget" = field(metadata=ASIDE)
    aim: "Aim" = field(metadata=ASIDE)
    compiled: int = field(metadata=ASIDE)
    plans: int = field(metadata=ASIDE)
    discarded: int = field(metadata=ASIDE)
    clocks: Sequence[int] = field(metadata=ASIDE)
    predicted_for: str = field(metadata=ASIDE)
    networks: "Sequence[Placements]" = field(metadata=ASIDE)
    speed: Ddr = field(metadata=ASIDE)
    kept: Path = field(metadata=ASIDE)
    decoded: tuple[str, ...] = field(default=(), metadata=ASIDE)
    notes: tuple[str, ...] = field(default=(), metadata=ASIDE)

    def confirm(self, count: int = 3, size: int | None = None, progress: Progress | None = None) -> Confirmation:
        """Runs the best on the simulated RTL, with random samples: by how much did the predictor miss?

        count: so many of `best`. size: the longer edge of the images, in pixels; None: their own, or a half, a quarter and so on
        until a run takes few clocks. Each configuration needs a simulator, whose build takes minutes. What was counted is kept.
        UserError: the model does not run with such images. RunError: the simulator fails.
        """
        means = Means(self.speed, self.kept, checked_size(size, self.networks), progress or quiet)
        if count < 1:
            raise UserError(f"--confirm {count}: must be at least 1")
        return Confirmation(runs=tuple(confirmed(self.best[:count], self.networks, means)))

    def page(self, cache: str | PathLike[str] | None = None) -> str:
        """A page of HTML with linked plots. cache: where their JavaScript is kept. ToolError: its package is missing."""
        from cnna.compiler.explore.page import html

        return html(self.name, self.all_points, self.budget, chart_library(cache), self.aim)

    def save(self, path: str | PathLike[str], cache: str | PathLike[str] | None = None) -> Path:
        """Writes the page if the name ends in .html, else the picture. UserError: it cannot be written."""
        if Path(path).suffix.lower() in PAGES:
            write_text(Path(path), self.page(cache))
        else:
            write_bytes(Path(path), self.picture())
        return Path(path)

    def _draw(self, file: BytesIO) -> None:
        from cnna.compiler.explore.drawn import picture

        picture(self.name, self.all_points, self.budget, file)

    def __str__(self) -> str:
        from cnna.compiler.explore.drawn import table

        clock = f"{listed([str(each) for each in self.clocks])} MHz"
        if self.clocks == [preset(self.board).clock_mhz]:
            clock += f", the clock of {self.board}"
        alone = f"of the accelerator alone are predicted{self.predicted_for} at {clock}"
        way = NATIVELY if self.host == NATIVE else IN_PYTHON
        refused = f"; {many(self.refused, 'configuration')} cannot run the model" if self.refused else ""
        return (
            f"{table(self.best, self.aim)}\nimages a second (fps) {alone}; those from picture to answer are modelled, {way}\n"
            f"of {len(self.points) + self.discarded:,} explored, {self.aim}{refused}"
            + "".join(f"\n{line}" for line in self.decoded)
        )


@with_tools
def explore(
    model: "GivenModel | Sequence[GivenModel]",
    board: str = "zcu102",
    *,
    weights: Sequence[float] | None = None,
    target_fps: float | None = None,
    target_ms: float | None = None,
    ddr_traffic: float | None = None,
    objective: str | None = None,
    axes: Sequence[str] | None = None,
    energy: Mapping[str, float] | None = None,
    sweep: Sequence[str] = (),
    dsp: int | None = None,
    bram: int | None = None,
    uram: int | None = None,
    lut: int | None = None,
    clock: Sequence[int] = (),
    batch: int | None = None,
    ddr: Ddr | None = None,
    ddr_speed: Sequence[int] = (),
    detector: str | None = None,
    shapes: Shapes | None = None,
    jobs: int = 1,
    executor: str | None = None,
    resume: bool = False,
    again: bool = False,
    search: int | None = None,
    sampler: str = SAMPLERS[0],
    seed: int = 1,
    confirm_size: int | None = None,
    cache: str | PathLike[str] | None = None,
    found: Early | None = None,
    progress: Progress | None = None,
    warn: Warn | None = None,
) -> Explored:
    """Compiles and predicts for every configuration that fits and may be among the best, and ranks them.

    This takes minutes for a large model. A float model is quantised with random numbers, which changes no clock. Several models
    share the accelerator; `weights` are their shares of the images. board: whose chip and DDR. target_fps, target_ms: what an
    answer must reach, at the slow end. ddr_traffic: million bytes through DDR that an image may take. objective: "fps" (the usual
    one; from picture to answer), "latency" or "alone", and then nothing of the answer is beaten in it and in all `axes` at once
    ("dsp" and "bram" unless others are given); or one of "dsp", "bram", "uram", "lut", "clock", "port", "ddr", "bandwidth" and
    "energy", of which the least is wanted ("dsp" is usual with a target). energy: picojoules ("mac", "bram", "ddr") and watts
    ("static") for that. sweep: of "ports", "regions", "ring", "vector" and "banks", what is tried in all sizes. dsp, bram, uram,
    lut: DSP48E2, BRAM36, URAM288 and LUTs at most; None: the board's. clock: MHz that are tried, none above the preset's, which is
    the usual one. ddr_speed: million bytes a second of DDR that are tried; none: the board's. batch: images in a run; None: 1, and
    more for the quickest. jobs: processes that compile; the result does not depend on it, and a script that asks for several needs
    `if __name__ == "__main__":`. executor: "dask://HOST:PORT", a cluster that compiles instead. What is predicted is kept in
    `cache` (None: the user's cache folder) as it comes, and never compiled twice, unless `again`. resume: something must be kept
    already. search: predicts so many points at most, those of earlier calls included, which Optuna proposes; None: all. sampler: of
    Optuna, "tpe", "nsga2" or "random", with this seed. confirm_size: is checked for a later `confirm`. detector: "auto", or a
    family of raw maps: boxes are decoded on integers, by `Detector`. found: gets the figures of each point as it comes; `pareto`
    marks those that none so far beats. UserError: no such board, objective, sampler or detector, nothing fits or reaches the
    targets, nothing of a model runs on the accelerator, or no cluster answers. ModelError: a model cannot be read or compiled.
    ToolError: processes end again and again, or a cluster has another cnna.
    """
    tell, warnings, speed = progress or quiet, Warnings(warn), ddr or Ddr()
    own, configs, budget = space(board, {"dsp": dsp, "bram36": bram, "luts": lut, "uram288": uram}, batch, speed, sweep, clock)
    check_wanted(detector)
    aim, models = aim_of(objective, axes, target_fps, target_ms, energy, ddr_traffic), several(model)
    predicted, speeds = conditions(speed, own, weights_of(weights, len(models)), clock), speeds_of(ddr_speed, speed, own, clock)
    known, heads = list["Placements"](), list[Decoded]()
    for one in models:
        with about_model(name_of(one)):
            known.append(placements(one, shapes, warnings, detector is not None))
            heads.append(decoded(known[-1], configs, detector, name_of(one), warnings))
    checked_size(confirm_size, known)
    predicted = with_heads(predicted, heads)
    from cnna.compiler.explore.explore import Sweep
    from cnna.compiler.explore.search import Search

    folder = Path(cache) if cache is not None else default_cache()
    each = zip(known, models, heads, strict=True)
    kept = [kept_of(folder, network, name_of(one), resume, again, found_in.kept_as) for network, one, found_in in each]
    with at_work(known, jobs, executor) as (source, workers), about_model(", ".join(map(name_of, models))):
        made = Sweep(source, predicted, kept, workers, aim, tell)
        early(made, found or nobody)
        how = None if search is None else Search(search, sampler, seed, folder, again)
        points, refused = compiled(made, configs, batch, speeds, how)
    best = reached(points, aim, made.discarded, made.host, predicted.native, partial(remedy, known, detector, configs))
    if made.compiled:
        hint(known, detector, configs, warnings)
    return Explored(
        name=" and ".join(network.name for network in known),
        board=board,
        dsp48e2=budget.dsp,
        bram36=budget.bram36,
        uram288=budget.uram288,
        luts=budget.luts,
        refused=refused,
        compiled=made.compiled,
        plans=made.plans,
        discarded=made.discarded,
        clocks=sorted({config.clock_mhz for config in configs}),
        ddr={} if ddr_speed else speed.predicted(own.ddr).entry(),
        host=NATIVE if predicted.native else "python",
        points=[{**point.figures(), **spent(point, aim), "pareto": point in best} for point in points],
        all_points=points,
        best=best,
        budget=budget,
        aim=aim,
        detectors=[one.figures() for one in heads],
        decoded=tuple(filter(None, map(str, heads))),
        networks=known,
        speed=speed,
        kept=folder,
        predicted_for=predicted_for(speed, own, ddr_speed),
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
        choices = compiler.tilings(placements(model, shapes, warnings).programs, chosen, layer)
    return Tilings(layer=layer, config=chosen.name, tilings=choices, notes=warnings.lines)
