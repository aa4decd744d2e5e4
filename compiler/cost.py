"""Predicts clocks: of each command by itself, and, with queues and waits, when each begins and ends in a whole program.

First-order figures: steps of the engines, rates of their writers, DDR bandwidth and latency. Bank conflicts and engines that share
a port are not in them; `cnna report --measured` puts measured clocks beside.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cnna.hw.config import BEAT_BYTES, Config
from cnna.hw.regmap import COUNTED
from cnna.sim.commands import Command, commands

DDR_BYTES_PER_CLOCK = 48  # what is planned on, all ports together
DDR_LATENCY_CLOCKS = 120
FILL_CLOCKS = {"load": 20, "weight": 0, "conv": 50, "vector": 50, "store": 20}  # pipeline fill and drain of a command
QUEUE_COMMANDS = 2
Fields = Mapping[str, int]
Clocks = NDArray[np.int64]


@dataclass(frozen=True)
class Memory:
    """The DDR that clocks are predicted for: bytes a clock of all ports together, clocks from a read address to its first beat."""

    bytes_per_clock: int = DDR_BYTES_PER_CLOCK
    latency_clocks: int = DDR_LATENCY_CLOCKS


PLANNED = Memory()


def array_steps(fields: Fields, config: Config) -> int:
    """Steps of the array that a conv command takes, at most one a clock."""
    return pixel_groups(fields, config) * fields["chunks"] * fields["blocks"] * fields["kernel_height"] * fields["kernel_width"]


def pixel_groups(fields: Fields, config: Config) -> int:
    """Groups of `pix` output pixels of a conv or vector command."""
    return -(-fields["images"] * fields["out_height"] * fields["out_width"] // config.pix)


def ddr_bytes(engine: str, fields: Fields, config: Config) -> int:
    """Bytes that a command moves over AXI, whole beats."""
    if engine in ("load", "store"):
        run = -(-fields["run"] * config.ci // BEAT_BYTES) * BEAT_BYTES
        return run * fields["runs"] * fields["blocks"]
    if engine == "weight":
        return fields["beats"] * BEAT_BYTES * fields["repeat"] * (1 if fields["ring"] else config.ports)
    return 0


def predicted_cycles(engine: str, fields: Fields, config: Config, memory: Memory = PLANNED) -> int:
    """Clocks that a command keeps its engine busy if nothing else disturbs it.

    The writers take half a group of pixels and one block a clock: a group cannot be quicker than what it makes.
    """
    if engine == "conv":
        steps = fields["blocks"] * fields["kernel_height"] * fields["kernel_width"]
        return pixel_groups(fields, config) * fields["chunks"] * max(steps, 2 * config.chunk_blocks) + FILL_CLOCKS[engine]
    if engine == "vector":
        taps = fields["kernel_height"] * fields["kernel_width"]
        return pixel_groups(fields, config) * fields["blocks"] * max(taps, 2) + FILL_CLOCKS[engine]
    ports = 1 if engine == "weight" and fields["ring"] else config.ports
    clocks = -(-ddr_bytes(engine, fields, config) // min(memory.bytes_per_clock, BEAT_BYTES * ports))
    if engine == "weight":
        return clocks
    return max(clocks, moving_clocks(fields, config)) + memory.latency_clocks + FILL_CLOCKS[engine]


def moving_clocks(fields: Fields, config: Config) -> int:
    """Clocks in which feature memory takes or gives a load's or store's words: the ports work on a run each at the same time,
    a word of a beat after the other where they lie in one bank."""
    total = fields["runs"] * fields["blocks"]
    starts = [
        n // fields["runs"] * fields["fm_block"] + n % fields["runs"] * fields["fm_run"] for n in range(min(config.ports, total))
    ]
    banks = [(start + lane) % config.banks for start in starts for lane in range(min(config.beat_words, fields["run"]))]
    worst = max(banks.count(bank) for bank in banks)
    return -(-total // config.ports) * -(-fields["run"] // config.beat_words) * worst


@dataclass(frozen=True)
class Span:
    """When a command's engine works on it, in clocks from start."""

    engine: str
    begin: int
    end: int


def timeline(program: bytes, config: Config, memory: Memory = PLANNED) -> list[Span]:
    """A span for each command of a program: queues hold writes, engines wait for units and weights as the accelerator does."""
    player = _Player(config, memory)
    clock = written = 0
    for command in commands(program):
        clock = player.play(command, clock + command.pc - written)
        written = command.pc
    return player.spans


class _Player:
    """Progress of every engine while a program is gone through once."""

    def __init__(self, config: Config, memory: Memory) -> None:
        self.config, self.memory = config, memory
        self.spans: list[Span] = []
        self.free = {"load": 0, "weight": 0, "conv": 0, "vector": 0, "store": 0}  # clock at which an engine is free
        self.units: dict[str, list[int]] = {engine: [] for engine in COUNTED}  # when each unit was finished
        self.queues: dict[str, deque[int]] = {engine: deque(maxlen=QUEUE_COMMANDS) for engine in self.free}  # ends of commands
        self.coming: dict[int, deque[int]] = {0: deque(), 1: deque()}  # by ring: when each weight stream has come whole
        self.consumed: dict[int, int] = {0: 0, 1: 0}  # by ring: when its last reader was done

    def play(self, command: Command, clock: int) -> int:
        """Takes a command whose GO could be written at `clock`; answers when it was."""
        engine, fields = command.engine, vars(command.f)
        queue = self.queues[engine]
        if len(queue) == QUEUE_COMMANDS:
            clock = max(clock, queue[0])
        begin = max(clock, self.free[engine])
        duration = predicted_cycles(engine, fields, self.config, self.memory)
        if engine == "weight":
            end = self._bring(fields, begin, duration)
        else:
            begin, end = self._work(command, fields, begin, duration)
        queue.append(end)
        self.free[engine] = end
        self.spans.append(Span(engine, begin, end))
        return clock

    def _bring(self, fields: Fields, begin: int, duration: int) -> int:
        """A weight stream: what exceeds its ring comes as the reader before it makes room."""
        ring = fields["ring"]
        size = self.config.vector_ring_words if ring else self.config.ring_words
        words = fields["beats"] * BEAT_BYTES * fields["repeat"] // (BEAT_BYTES if ring else self.config.stripe_bytes)
        ahead = min(words, size)
        end = max(begin + duration, self.consumed[ring] + duration * (words - ahead) // max(words, 1))
        self.coming[ring].append(end + self.memory.latency_clocks)
        return end

    def _work(self, command: Command, fields: Fields, begin: int, duration: int) -> tuple[int, int]:
        """Units one after another, each after those it waits for; the last not before its weights have come."""
        engine = command.engine
        units = command.units(self.config.chunk_blocks)
        fill = FILL_CLOCKS[engine] + (self.memory.latency_clocks if engine in ("load", "store") else 0)
        each, clock, first = (duration - fill) / units, float(begin), None
        for unit in range(units):
            clock = max(clock, self._waits(fields, unit))
            first = clock if first is None else first
            clock += each
            self.units[engine].append(int(clock + fill))
        end = int(clock + fill)
        for ring in {"conv": (0,), "vector": (1,)}.get(engine, ()):
            while self.coming[ring]:
                end = max(end, self.coming[ring].popleft() + int(each))
            self.consumed[ring] = end
            self.units[engine][-1] = end
        return int(first or begin), end

    def _waits(self, fields: Fields, unit: int) -> int:
        """When the units that a unit waits for were finished."""
        ready = 0
        for engine in COUNTED:
            if fields[f"wait_{engine}_enable"]:
                count = fields[f"wait_{engine}_count"] + unit * fields[f"wait_{engine}_step"]
                ready = max(ready, self.units[engine][count - 1] if count else 0)
        return ready


def total_cycles(spans: Iterable[Span]) -> int:
    """Clocks from start until every engine has finished."""
    return max((span.end for span in spans), default=0)
