"""What each piece of a model takes: the nodes' own time, and what calls, starts and crossings add to it.

Clocks are predicted. All times of the host are modelled (`spec.end_to_end`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cnna.spec.config import Config
from cnna.spec.cpu_ops import only_views
from cnna.spec.host_time.cortex_a53 import run_work, seconds
from cnna.spec.host_time.end_to_end import PIECE_SECONDS
from cnna.spec.host_time.host_model import BATCH
from cnna.spec.host_time.host_work import HostWork
from cnna.spec.host_time.native_work import piece_works, planned, programs_of
from cnna.spec.manifest import ACCELERATOR, CPU, PieceEntry

HEADS = ("piece", "where", "layers", "MACs", "clocks", "us of layers", "us of calls", "us")
OF_TIMES = (
    "layers are what the nodes became, or operators on the CPU; MACs and times are of a batch: clocks are predicted, "
    "times of the CPU and of calls, starts and crossings are modelled"
)
SMALL = 1e-4  # seconds, below which tenths of a microsecond are shown


@dataclass(frozen=True)
class PieceTime:
    """A piece, for a batch. nodes: its layers, or the CPU's operators. node_seconds: theirs. more_seconds: of
    the host, for the piece as a whole.

    On the CPU these are calls of onnxruntime, one an image; on the accelerator the start, and packing what goes there and comes
    back.
    """

    kind: str
    nodes: int
    macs: int
    clocks: int | None
    node_seconds: float
    more_seconds: float

    @property
    def seconds(self) -> float:
        """All of it."""
        return self.node_seconds + self.more_seconds


def piece_times(
    entries: Sequence[PieceEntry], config: Config, batch: int, clocks: Sequence[int] | None = None, native: bool = True
) -> tuple[PieceTime, ...]:
    """The times of all pieces. They add up to those of `spec.end_to_end`. clocks: of the programs; None: those of the entries.
    native: as of `end_to_end`.
    """
    own = [entry["predicted"]["cycles"] for entry in entries if entry["kind"] == ACCELERATOR] if clocks is None else clocks
    left = iter(own)
    hosts = _hosts(entries, batch, native)
    loop = native and planned(entries)  # the run loop does what is on the CPU: with its program
    return tuple(_time(entry, config, batch, left, host, loop) for entry, host in zip(entries, hosts, strict=True))


def _hosts(entries: Sequence[PieceEntry], batch: int, native: bool) -> list[float]:
    """The host's seconds besides the operators on the CPU, for each piece. What is of a batch is with its first run."""
    if native and programs_of(entries):
        return [seconds(work.stream).middle + work.uncounted.middle for work in piece_works(entries, batch)]
    around, found = BATCH.work, list[float]()
    for entry in entries:
        work = HostWork()
        if entry["kind"] == ACCELERATOR:
            work, around = run_work(entry["inputs"], entry["outputs"], batch).plus(around), HostWork()
        found.append(seconds(work).middle)
    return found


def _time(entry: PieceEntry, config: Config, batch: int, left: Iterator[int], host: float, loop: bool) -> PieceTime:
    if entry["kind"] == CPU:
        nodes, macs = len(entry["operators"]), batch * entry["macs"]
        if loop:
            return PieceTime(entry["kind"], nodes, macs, None, 0.0, 0.0)
        call = 0.0 if entry["numpy"] and only_views(entry["operators"]) else batch * PIECE_SECONDS
        return PieceTime(entry["kind"], nodes, macs, None, batch * entry["seconds"] - call, call)
    clocks = next(left)
    return PieceTime(entry["kind"], len(entry["layers"]), batch * entry["macs"], clocks, clocks / (config.clock_mhz * 1e6), host)


def several(times: Sequence[PieceTime]) -> bool:
    """Whether there is more than one piece to tell apart. One of the CPU that only changes shapes takes no time worth a line."""
    return sum(time.kind == ACCELERATOR or time.more_seconds > 0 for time in times) > 1


def piece_lines(times: Sequence[PieceTime]) -> list[str]:
    """A table of the pieces as lines, the last of which says what the times are."""
    return [*aligned([HEADS, *(piece_cells(number, time) for number, time in enumerate(times, 1))], 2), OF_TIMES]


def piece_cells(number: int, time: PieceTime) -> tuple[str, ...]:
    """The cells of a piece, as in HEADS."""
    seconds = (time.node_seconds, time.more_seconds, time.seconds)
    clocks = "-" if time.clocks is None else f"{time.clocks:,}"
    return (str(number), time.kind, f"{time.nodes:,}", f"{time.macs:,}" if time.macs else "-", clocks, *map(microseconds, seconds))


def aligned(rows: Sequence[Sequence[str]], words: int) -> list[str]:
    """The rows as lines. words: the columns that hold words, from the left; the others hold numbers."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    cells = [
        [text.ljust(wide) if i < words else text.rjust(wide) for i, (text, wide) in enumerate(zip(row, widths, strict=True))]
        for row in rows
    ]
    return ["  ".join(row).rstrip() for row in cells]


def microseconds(seconds: float) -> str:
    """Microseconds, with a decimal where they are few."""
    return f"{seconds * 1e6:,.{1 if seconds < SMALL else 0}f}"
