"""`cnna explore`: the speed of a network on every configuration of a grid that fits a chip.

It compiles the network for each and predicts its program as reports do; it simulates nothing. Configurations are compared by images
a second from picture to answer, at the slow end of what is modelled of the host: a quicker accelerator is of no use to a host that
is slower still. DSP slices are exact, and block RAM follows from the shapes of the large memories. LUTs are a fit to synthesised
configurations (`sizes.py`).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import BinaryIO

from cnna.compiler.compile import compile_graph
from cnna.compiler.explore.sizes import Budget, bram36, dsp48e2, luts, uram288
from cnna.compiler.graph.ir import Graph
from cnna.compiler.placements import Pieces
from cnna.compiler.report.axis_numbers import linear
from cnna.spec.boards import ZCU102, Board, board_of
from cnna.spec.config import BEAT_BYTES, OPTIONS, Config, ConfigError, as_dict, preset
from cnna.spec.ddr import DdrSpeed
from cnna.spec.errors import ModelError, UserError
from cnna.spec.host_time.cortex_a53 import Range
from cnna.spec.host_time.end_to_end import EndToEnd, end_to_end, rates
from cnna.spec.manifest import ACCELERATOR, PieceEntry
from cnna.spec.metrics import REPORT_MHZ

PIX, CI, CO = (2, 4, 8, 16), (4, 8, 16), (4, 8, 16, 32, 64)
BANK_WORDS, RING_WORDS = (512, 1024, 2048, 4096, 8192), (512, 1024)
REGIONS, PORTS = 4, 4
MEMORIES = 2  # sizes of feature memory that are tried for each array: the greatest that fit
LEAST_SHARE = 4  # an array takes at least a quarter of the DSPs: smaller ones are for smaller chips
BATCHES = (2, 4)  # tried beside batch 1, on the best configurations
BEST = 4
SIZE_INCHES = (9.0, 6.0)  # of the picture
NEAR = 0.07  # share of each axis within which only one of two points is named
Say = Callable[[int, int, str], object]
ALONE, TO_ANSWER = "fps, accelerator alone", "fps, picture to answer"  # headings


@dataclass(frozen=True)
class Point:
    """A configuration, a batch and their prediction. `bytes`: DDR traffic of a batch, reads and writes. whole: with the host."""

    config: Config
    batch: int
    dsp: int
    bram36: float
    uram288: int
    luts: int
    cycles: int
    bytes: int
    macs: int
    whole: EndToEnd

    @property
    def alone(self) -> float:
        """Images a second of the accelerator alone, at the configuration's clock."""
        return self.batch * self.config.clock_mhz * 1e6 / self.cycles

    @property
    def answered(self) -> Range:
        """Images a second from picture to answer, at both ends of what is modelled of the host."""
        found = self.whole.fps()
        assert found is not None, "the compiler says what pieces on the CPU take"
        return found

    @property
    def fps(self) -> float:
        """Images a second by which configurations are compared: from picture to answer, at the slow end."""
        return self.answered.slow

    @property
    def utilization(self) -> float:
        """Share of the array's multiply-accumulates that the network uses."""
        return self.macs * self.batch / (self.cycles * self.config.macs)

    def figures(self) -> dict[str, int | float | str]:
        """For JSON."""
        sizes = ("pix", "ci", "co", "ports", "regions", "bank_words", "ring_words")
        return {
            "config": option(self.config),
            **{name: getattr(self.config, name) for name in sizes},
            "batch": self.batch,
            "dsp48e2": self.dsp,
            "bram36": self.bram36,
            "uram288": self.uram288,
            "luts": self.luts,
            "predicted_cycles": self.cycles,
            "clock_mhz": self.config.clock_mhz,
            "predicted_fps": self.alone,
            "predicted_fps_at_300mhz": self.batch * REPORT_MHZ * 1e6 / self.cycles,
            "fps_end_to_end": self.fps,
            "fps_end_to_end_quick": self.answered.quick,
            "predicted_mac_utilization": self.utilization,
            "predicted_ddr_bytes": self.bytes,
        }


def option(config: Config) -> str:
    """The text by which `--config` names a configuration: the preset of its board, and what differs from it."""
    key = board_of(config).key
    base, own = ({**as_dict(each), **{name: int(getattr(each, name)) for name in OPTIONS}} for each in (preset(key), config))
    return ",".join([key, *(f"{key}={value}" for key, value in own.items() if key != "name" and value != base.get(key))])


def configurations(budget: Budget, board: Board = ZCU102) -> list[Config]:
    """The legal configurations of the grid that fit, for a board, and the board's preset. UserError: there is none."""
    own = preset(board.key)
    found = [own] if budget.holds(own) and dsp48e2(own) >= budget.dsp / LEAST_SHARE else []
    for pix, ci, co in product(PIX, CI, CO):
        sizes = [config for config in _memories(board, budget, pix, ci, co) if budget.holds(config)]
        if not sizes or dsp48e2(sizes[0]) < budget.dsp / LEAST_SHARE:
            continue
        greatest = sorted({config.bank_words for config in sizes})[-MEMORIES:]
        found += [config for config in sizes if config.bank_words in greatest and option(config) != board.key]
    if not found:
        raise UserError(f"no configuration fits in {budget}; the smallest array takes {_smallest()}")
    return found


def _smallest() -> str:
    config = Config("smallest", min(PIX), min(CI), min(CO), 1, REGIONS, BANK_WORDS[0], RING_WORDS[0], 512)
    return f"{dsp48e2(config)} DSP48E2, {bram36(config):g} BRAM36 and {luts(config):,} LUTs"


def _memories(board: Board, budget: Budget, pix: int, ci: int, co: int) -> Iterator[Config]:
    """One array with each size of memories and as many ports as it can have; nothing if the array is not legal."""
    ports = next((n for n in (PORTS, 2, 1) if ci * co % (BEAT_BYTES * n) == 0), 1)
    for bank_words, ring_words in product(BANK_WORDS, RING_WORDS):
        name = f"{board.key}-{pix}x{ci}x{co}, {bank_words} bank words, {ring_words} ring words"
        clock, uram = preset(board.key).clock_mhz, budget.uram288 > 0
        try:
            yield Config(name, pix, ci, co, ports, REGIONS, bank_words, ring_words, 512, clock, uram=uram)
        except ConfigError:
            return


def explore(
    pieces: Callable[[Config], Pieces],
    configs: Sequence[Config],
    batch: int | None,
    say: Say,
    memory: DdrSpeed | None = None,
    native: bool = True,
) -> tuple[list[Point], int]:
    """The predictions of all configurations, and how many configurations cannot run the network.

    pieces: those of the network for a configuration. batch: None tries 1 everywhere, then BATCHES on the best. `say` is
    called with steps done, all steps, and what is compiled. memory, native: as of `evaluate`. ModelError: no configuration can run
    the network; the message is that of the last one.
    """
    points: list[Point] = []
    refused: ModelError | None = None
    steps = len(configs) + (0 if batch else BEST * len(BATCHES))
    for number, config in enumerate(configs):
        say(number, steps, config.name)
        try:
            points.append(evaluate(pieces(config), config, batch or 1, memory, native))
        except ModelError as error:
            refused = error
    if not points and refused:
        raise refused
    missing = len(configs) - len(points)
    best = [] if batch else _for_batches(points)
    for number, (point, images) in enumerate(product(best, BATCHES), len(configs)):
        say(number, len(configs) + len(best) * len(BATCHES), f"{point.config.name}, batch {images}")
        points.append(evaluate(pieces(point.config), point.config, images, memory, native))
    return points, missing


def _for_batches(points: Sequence[Point]) -> list[Point]:
    """The quickest to the answer, and the quickest accelerators: behind a slow host, those may lead in larger batches alone."""
    found = ranked(points)[:BEST]
    return found + [point for point in sorted(points, key=lambda p: -p.alone)[:BEST] if point not in found]


def evaluate(
    pieces: Sequence[Graph | PieceEntry], config: Config, batch: int, memory: DdrSpeed | None = None, native: bool = True
) -> Point:
    """Compiles and predicts. pieces: of a model, in their order. ModelError: one of them does not fit.

    memory: None is the DDR of the configuration's board. native: whether the host has its native library.
    """
    entries: list[PieceEntry] = []
    for piece in pieces:
        entries.append(compile_graph(piece, config, batch).entry(memory=memory) if isinstance(piece, Graph) else piece)
    programs = [entry for entry in entries if entry["kind"] == ACCELERATOR]
    moved = sum(layer["ddr_read_bytes"] + layer["ddr_write_bytes"] for program in programs for layer in program["layers"])
    cycles = sum(program["predicted"]["cycles"] for program in programs)
    taken = dsp48e2(config), bram36(config), uram288(config), luts(config)
    whole = end_to_end(entries, cycles, config.clock_mhz, batch, native)
    return Point(config, batch, *taken, cycles, moved, sum(program["macs"] for program in programs), whole)


def ranked(points: Iterable[Point]) -> list[Point]:
    """The quickest first; of points that are equally quick the smallest, then the one whose accelerator is quicker."""
    return sorted(points, key=lambda p: (-p.fps, p.dsp, p.bram36, -p.alone, p.batch))


def pareto(points: Iterable[Point]) -> list[Point]:
    """The points that no other point matches or beats in speed, DSPs and block RAM together, quickest first.

    Of equal points it keeps one.
    """
    kept: list[Point] = []
    for point in ranked(points):
        if not any(other.dsp <= point.dsp and other.bram36 <= point.bram36 for other in kept):
            kept.append(point)
    return kept


def table(points: Sequence[Point]) -> str:
    """A line for each point."""
    sized = ("pix", "ci", "co", "bank words", "ring words", "batch", "DSP48E2", "BRAM36", "LUTs")
    rows: list[tuple[str, ...]] = [(*sized, "clocks", ALONE, TO_ANSWER, "util.", "DDR bytes", "--config")]
    for p in points:
        c = p.config
        sizes = (c.pix, c.ci, c.co, c.bank_words, c.ring_words, p.batch)
        figures = (
            f"{p.dsp:,}",
            f"{p.bram36:g}",
            f"{p.luts:,}",
            f"{p.cycles:,}",
            f"{p.alone:,.1f}",
            rates(p.answered),
            f"{p.utilization:.1%}",
            f"{p.bytes:,}",
        )
        rows.append((*map(str, sizes), *figures, option(c)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [[text.rjust(width) for text, width in zip(row[:-1], widths, strict=False)] + [row[-1]] for row in rows]
    return "\n".join("  ".join(line) for line in lines)


def picture(name: str, points: Sequence[Point], budget: Budget, file: Path | BinaryIO) -> None:
    """Writes a PNG."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=SIZE_INCHES, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    drawn = sorted(points, key=lambda p: -p.bram36)  # of the points at one place, the cheapest is drawn last and seen
    dots = axes.scatter([p.dsp for p in drawn], [p.fps for p in drawn], c=[p.bram36 for p in drawn], cmap="viridis", s=30)
    figure.colorbar(dots, ax=axes, label="BRAM36")
    front = steps(points)
    axes.plot([p.dsp for p in front], [p.fps for p in front], drawstyle="steps-post", color="gray", zorder=0, label="none quicker")
    named: list[Point] = []
    for p in front:
        if any(abs(p.dsp - o.dsp) < NEAR * budget.dsp and abs(p.fps - o.fps) < NEAR * front[-1].fps for o in named):
            continue  # its name would lie on the other one's
        named.append(p)
        about = f"{p.config.pix}x{p.config.ci}x{p.config.co}" + (f" b{p.batch}" if p.batch > 1 else "")
        axes.annotate(about, (p.dsp, p.fps), xytext=(-4, 5), textcoords="offset points", fontsize=8, ha="right")
    axes.margins(x=0.12, y=0.1)
    axes.set_xlabel(f"DSP48E2, of {budget.dsp:,} (numbers: PIX x CI x CO)")
    axes.set_ylabel(f"images a second from picture to answer, slow end, modelled ({points[0].whole.way})")
    linear(axes.xaxis)
    linear(axes.yaxis)
    axes.set_title(f"{name}, at most {budget}")
    axes.legend(loc="lower right")
    figure.savefig(file, dpi=110, format="png")


def steps(points: Sequence[Point]) -> list[Point]:
    """The points that are quicker than every point with no more DSPs, sorted by DSPs."""
    found: list[Point] = []
    for point in sorted(pareto(points), key=lambda p: (p.dsp, -p.fps)):
        if not found or point.fps > found[-1].fps:
            found.append(point)
    return found
