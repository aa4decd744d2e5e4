"""Estimates the clocks of each command alone, and from queues and waits, when each command of a program begins and ends.

The compiler and `explore` compare plans by these estimates. They include the steps of the engines, the rates of their writers, the
bandwidth and latency of DDR, and the clocks that the vector engine loses if it reads a region that it or the array writes. Reports
show the figures of `predict` instead.
"""

from collections import deque
from collections.abc import Iterable
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cnna.compiler.cost.engine_steps import Fields, command_steps, table_clocks
from cnna.compiler.lower.kernels import Range
from cnna.compiler.lower.layout import together
from cnna.spec.config import BEAT_BYTES, Config
from cnna.spec.ddr import PLANNED, DdrSpeed
from cnna.spec.machine import QUEUE_COMMANDS
from cnna.spec.program.commands import Command, commands
from cnna.spec.program.decks import located, sets_on
from cnna.spec.program.ring_words import brought_words
from cnna.spec.regmap import COUNTED, VECTOR_OPS, command_fields

FILL_CLOCKS = {"load": 20, "weight": 0, "conv": 70, "vector": 45, "store": 20}  # pipeline fill and drain of a command
OWN_CONFLICT = 0.9  # clocks that a group's reads wait for an earlier group's two writes in the same region (measured)
ARRAY_CONFLICT = 0.5  # clocks that a group's reads wait for each write of the array in the same region (measured: 0.3 to 0.6)
RING_OF = {"conv": 0, "vector": 1}  # from which an engine takes weights
WAITS = {engine: (f"wait_{engine}_enable", f"wait_{engine}_count", f"wait_{engine}_step") for engine in COUNTED}
Clocks = NDArray[np.int64]


def ddr_bytes(engine: str, fields: Fields, config: Config) -> int:
    """Bytes that a command moves over AXI, in whole beats."""
    if engine in ("load", "store"):
        run = -(-fields["run"] * config.ci // BEAT_BYTES) * BEAT_BYTES
        return run * fields["runs"] * fields["blocks"]
    if engine == "weight":
        return fields["beats"] * BEAT_BYTES * fields["repeat"] * (1 if fields["ring"] else config.ports)
    return 0


def estimated_cycles(engine: str, fields: Fields, config: Config, memory: DdrSpeed = PLANNED) -> int:
    """Clocks for which a command keeps its engine busy if nothing else disturbs it."""
    if engine == "conv":
        work = command_steps(engine, fields, config)
        return work.clocks + work.times + table_clocks(fields, work) + FILL_CLOCKS[engine]
    if engine == "vector":
        work = command_steps(engine, fields, config)
        lost = OWN_CONFLICT * _own_region(fields, config) if work.each > work.written else 0
        depthwise = VECTOR_OPS[fields["op"]] == "depthwise"  # then the engine takes parameters between two blocks
        params = config.vector_param_words * (1 if fields["uniform"] else work.times) if depthwise else 0
        late = table_clocks(fields, work) + FILL_CLOCKS[engine]
        return int(work.times * work.groups * max(work.written, work.each + lost)) + params + late
    ports = 1 if engine == "weight" and fields["ring"] else config.ports
    clocks = -(-ddr_bytes(engine, fields, config) // min(memory.bytes_per_cycle, BEAT_BYTES * ports))
    if engine == "weight":
        return clocks
    return max(clocks, moving_clocks(fields, config)) + memory.latency_cycles + FILL_CLOCKS[engine]


def moving_clocks(fields: Fields, config: Config) -> int:
    """Clocks that feature memory needs for the words of a load or store.

    Each port moves a run of its own, one beat a clock. It takes longer if one bank holds more words than there are such clocks.
    """
    total = fields["runs"] * fields["blocks"]
    places = [divmod(n, fields["runs"]) for n in range(min(config.ports, total))]
    starts = [
        sets_on(fields.get("fm", 0), block, config.depth) * fields["fm_block"] + run * fields["fm_run"] for block, run in places
    ]
    rounds, rest = divmod(fields["run"], config.banks)
    last = [(start + word) % config.banks for start in starts for word in range(rest)]
    fullest = len(starts) * rounds + max((last.count(bank) for bank in set(last)), default=0)
    return -(-total // config.ports) * max(-(-fields["run"] // config.beat_words), fullest)


def _own_region(fields: Fields, config: Config) -> float:
    """Probability that the source and the destination of a unit of a vector command lie in the same region."""
    units = [(low, min(low + config.chunk_blocks, fields["blocks"])) for low in range(0, fields["blocks"], config.chunk_blocks)]
    depth = config.depth
    found = (together(walked("src", fields, unit, depth), walked("dst", fields, unit, depth), config) for unit in units)
    return sum(found) / len(units)


def walked(prefix: str, fields: Fields, blocks: Range, depth: int) -> Range:
    """The range of words of a deck in which the pixels of these blocks begin, for a `src` or `dst` walk."""
    images = fields["images"]
    first, last = (sets_on(fields[prefix], block, depth) for block in (blocks[0], blocks[1] - 1))
    counts = (images * fields["out_height"] * fields["out_width"], images * fields["out_height"], images, last - first + 1)
    moves = [(count - 1) * fields[f"{prefix}_{step}"] for count, step in zip(counts, ("x", "row", "image", "block"), strict=True)]
    base = fields[prefix] + first * fields[f"{prefix}_block"]
    if prefix == "src":  # the first tap may lie in the padding
        base -= fields["first_x"] * (fields["src_kx"] // max(fields["stride_dilation_x"], 1))
        base -= fields["first_y"] * (fields["src_ky"] // max(fields["stride_dilation_y"], 1))
    base = located(base, 0, depth)
    return base + sum(min(move, 0) for move in moves), base + sum(max(move, 0) for move in moves) + 1


class EstimatedSpan(NamedTuple):
    """When an engine works on a command, in clocks from start."""

    engine: str
    begin: int
    end: int


def timeline(program: bytes, config: Config, memory: DdrSpeed = PLANNED) -> list[EstimatedSpan]:
    """A span for each command of a program. As in the accelerator, queues hold writes, and engines wait for units and weights."""
    return timeline_of(commands(program), config, memory)


class CommandFigures(NamedTuple):
    """What the estimate needs to know of a command whatever it waits for.

    cycles: as of `estimated_cycles`. words: that it brings into a ring. writes: of the array, and the range that they go to.
    sources: of each unit of the vector engine, the range that it reads.
    """

    cycles: int
    units: int
    words: int = 0
    writes: int = 0
    span: Range = (0, 1)
    sources: tuple[Range, ...] = ()


KnownFigures = dict[tuple[Any, ...], CommandFigures]  # by engine and all fields but the waits
PLAIN = {
    engine: itemgetter(*(name for name in command_fields(engine) if not name.startswith("wait_")))
    for engine in ("load", "weight", "conv", "vector", "store")
}


def timeline_of(
    program: Iterable[Command], config: Config, memory: DdrSpeed = PLANNED, known: KnownFigures | None = None
) -> list[EstimatedSpan]:
    """As `timeline`, of a program's commands. known: of other programs with the same configuration and DDR; gets those of this."""
    player = _Estimator(config, memory, {} if known is None else known)
    clock = written = 0
    for command in program:
        clock = player.play(command, clock + command.pc - written)
        written = command.pc
    return player.spans


def _figures(command: Command, config: Config, memory: DdrSpeed) -> CommandFigures:
    engine, fields = command.engine, vars(command.f)
    cycles, units, depth = estimated_cycles(engine, fields, config, memory), command.units(config.chunk_blocks), config.depth
    if engine == "weight":
        return CommandFigures(cycles, units, words=int(brought_words(fields, config)))
    if engine == "conv":
        work = command_steps(engine, fields, config)
        span = walked("dst", fields, (0, fields["dst_blocks"]), depth)
        return CommandFigures(cycles, units, writes=work.groups * work.times * work.written, span=span)
    if engine != "vector":
        return CommandFigures(cycles, units)
    ranges = [(low, min(low + config.chunk_blocks, fields["blocks"])) for low in range(0, fields["blocks"], config.chunk_blocks)]
    return CommandFigures(cycles, units, sources=tuple(walked("src", fields, own, depth) for own in ranges))


class _Writing(NamedTuple):
    """The writes of a command of the array: when they begin and end, how many there are a clock, and to which words."""

    begin: int
    end: int
    rate: float
    span: Range


class _Estimator:
    """The progress of every engine while the commands of a program are handled one after another."""

    def __init__(self, config: Config, memory: DdrSpeed, known: KnownFigures) -> None:
        self.config, self.memory, self.known = config, memory, known
        self.spans: list[EstimatedSpan] = []
        self.free = {"load": 0, "weight": 0, "conv": 0, "vector": 0, "store": 0}  # clock at which an engine is free
        self.units: dict[str, list[int]] = {engine: [] for engine in COUNTED}  # clock at which each unit was finished
        self.queues: dict[str, deque[int]] = {engine: deque(maxlen=QUEUE_COMMANDS) for engine in self.free}  # ends of commands
        self.coming: dict[int, deque[int]] = {0: deque(), 1: deque()}  # by ring: clock at which each weight stream is complete
        # By ring: the fraction of the last stream that did not fit at first and came as words were freed.
        self.over: dict[int, float] = {0: 0, 1: 0}
        self.consumed: dict[int, int] = {0: 0, 1: 0}  # by ring: clock at which its last reader was done
        self.writing: list[_Writing] = []  # writes of the array's latest commands

    def play(self, command: Command, clock: int) -> int:
        """Handles a command whose GO can be written at `clock` or later. Returns the clock at which it is written."""
        engine, fields = command.engine, vars(command.f)
        own = engine, *PLAIN[engine](fields)
        if own not in self.known:
            self.known[own] = _figures(command, self.config, self.memory)
        figures = self.known[own]
        queue = self.queues[engine]
        if len(queue) == QUEUE_COMMANDS:
            clock = max(clock, queue[0])
        begin = max(clock, self.free[engine])
        if engine == "weight":
            end = self._bring(fields["ring"], begin, figures)
        else:
            begin, end = self._work(command, begin, figures)
        queue.append(end)
        self.free[engine] = end - (FILL_CLOCKS[engine] if engine in ("conv", "vector") else 0)
        self.spans.append(EstimatedSpan(engine, begin, end))
        return clock

    def _bring(self, ring: int, begin: int, figures: CommandFigures) -> int:
        """Brings a weight stream. Words that do not fit into the ring come as the earlier reader frees words."""
        size = self.config.vector_ring_words if ring else self.config.ring_words
        words, duration = figures.words, figures.cycles
        ahead = min(words, size)
        self.over[ring] = (words - ahead) / max(words, 1)
        end = max(begin + duration, self.consumed[ring] + duration * (words - ahead) // max(words, 1))
        self.coming[ring].append(end + self.memory.latency_cycles)
        return end

    def _work(self, command: Command, begin: int, figures: CommandFigures) -> tuple[int, int]:
        """Does the units one after another, each after its waits are met. The last one ends only after its weights have come."""
        engine, units, done = command.engine, figures.units, self.units[command.engine]
        waits = self._waits(command, units)
        fill = FILL_CLOCKS[engine] + (self.memory.latency_cycles if engine in ("load", "store") else 0)
        each, clock, first, sources = (figures.cycles - fill) / units, float(begin), None, figures.sources
        for unit in range(units):
            for finished, count, step in waits:
                number = count + unit * step
                if number and finished[number - 1] > clock:
                    clock = finished[number - 1]
            first = clock if first is None else first
            clock += each + (self._disturbed(sources[unit], clock, each) if sources else 0)
            done.append(int(clock + fill))
        end, begin = int(clock + fill), int(first or begin)
        if engine in RING_OF:
            ring = RING_OF[engine]
            while self.coming[ring]:
                end = max(end, self.coming[ring].popleft() + int(each))
            self.consumed[ring] = end
            done[-1] = end
            self.free["weight"] = max(self.free["weight"], int(begin + self.over[ring] * (end - begin)))
            self.over[ring] = 0
        if engine == "conv":
            self.writing = [*self.writing[-1:], _Writing(begin, end, figures.writes / max(end - begin, 1), figures.span)]
        return begin, end

    def _disturbed(self, source: Range, clock: float, each: float) -> float:
        """Clocks that the writes of the array cost a unit of the vector engine that begins at `clock`. source: what it reads."""
        lost = 0.0
        for writing in self.writing:
            share = together(source, writing.span, self.config)
            slow = min(ARRAY_CONFLICT * writing.rate * share, 0.6)  # lost fraction of the clocks in which both work
            both = max(0.0, min(writing.end - max(clock, writing.begin), each / (1 - slow)))
            lost += slow * both
        return lost

    def _waits(self, command: Command, units: int) -> list[tuple[list[int], int, int]]:
        """For each engine that it waits for: when its units are finished, for how many the first unit waits, and each more."""
        found, fields = [], vars(command.f)
        for engine, (enable, number, each) in WAITS.items():
            if fields[enable]:
                count, step, done = fields[number], fields[each], self.units[engine]
                most = count + (units - 1) * step
                who = f"the {command.engine} command at write {command.pc}"
                assert most <= len(done), f"{who} waits for {most} units of {engine}; earlier commands make {len(done)}"
                found.append((done, count, step))
        return found


def total_cycles(spans: Iterable[EstimatedSpan]) -> int:
    """Clocks from start until every engine has finished."""
    return max((span.end for span in spans), default=0)
