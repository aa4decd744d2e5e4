"""A clock for `predict`'s model of the accelerator, and what its engines share: DDR, weight rings, unit counts.

A process is a generator: what it yields says when it can go on, as far as is known now. The one that can first goes on.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from math import inf

from cnna.compiler.cost import Memory
from cnna.compiler.kernels import Range
from cnna.compiler.regions import together
from cnna.hw.config import BEAT_BYTES, Config
from cnna.hw.regmap import COUNTED
from cnna.sim.commands import Command

APART = 2.0  # clocks of a step of a load whose ports do not go side by side any more, so that two meet in a bank (measured)
DISTURBED = 0.5  # more where the array or the vector engine uses the load's region all the time (measured)
MEETING = 0.73  # clocks that a read of the vector engine waits for a write of the array that takes one of its banks (measured)
MOST_SLOWED = 0.6  # of the vector engine's clocks
OPEN_BEATS = 32 * 16  # of a port: bursts that its read master has under way, beats of a burst
NOWHERE: Range = (-1, 0)  # in no region
Ready = Callable[[], float]  # the clock at which a process can go on; inf: another one must do something first
Process = Iterator[Ready]


@dataclass
class Column:
    """What some ports have brought of a ring: words asked for, and when each count of them had come."""

    asked: int = 0
    counts: list[int] = field(default_factory=list)
    clocks: list[float] = field(default_factory=list)

    def came(self, word: int) -> float:
        """When that many words had come; inf: not known yet."""
        at = bisect_left(self.counts, word)
        return (self.clocks[at] if at < len(self.clocks) else inf) if word else 0.0


@dataclass
class Ring:
    """A ring of weights; words are counted from the program's start. taken: those that its reader has begun with."""

    size: int
    columns: list[Column]
    freed: int = 0
    taken: int = 0

    def came(self, word: int) -> float:
        """When that many words had come whole; inf: not known yet."""
        return max(column.came(word) for column in self.columns)

    def when_taken(self, piece: int) -> float:
        """From when on the last `piece` words that were taken can be stepped through, one a clock, none before it comes."""
        return self.came(self.taken) - piece


@dataclass
class Flow:
    """What is left of a transfer, in bytes, or of the vector engine's work, in clocks. most: of it a clock."""

    left: float
    most: float
    speed: float = 0.0


@dataclass
class Queue:
    """Commands on their way to an engine, with the clock at which it has them; how many it has let go."""

    commands: list[tuple[Command, float]] = field(default_factory=list)
    released: int = 0

    def when_handed(self, number: int) -> float:
        """When the engine has its command of that number; inf: not known yet."""
        return self.commands[number][1] if number < len(self.commands) else inf

    def when_released(self, number: int) -> float:
        """0 if the engine has let go of its command of that number, or there is none; inf: not yet."""
        return 0.0 if self.released > number else inf


@dataclass
class Requests:
    """What a port, or some side by side, have asked of DDR for the rings: column, words of it then, beats of each port, when.

    And the command that ends so. open: beats that have not come.
    """

    made: list[tuple[Column, int, int, float, Command | None]] = field(default_factory=list)
    open: int = 0

    def when_open(self, beats: int) -> float:
        """0 if a port may ask for so many beats more; inf: not yet."""
        return 0.0 if self.open + beats <= OPEN_BEATS else inf

    def when_answered(self, number: int, latency: int) -> float:
        """When DDR can begin to answer the request of that number; inf: not known yet."""
        return self.made[number][3] + latency if number < len(self.made) else inf


class Machine:
    """The accelerator at one time, `now`. weight_ports: ports that bring weights abreast; port 0 brings the vector ring's too."""

    def __init__(self, config: Config, memory: Memory) -> None:
        self.config, self.memory = config, memory
        self.now = 0.0
        self.units: dict[str, list[float]] = {engine: [] for engine in COUNTED}  # when each was finished
        self.weight_ports = [1, config.ports - 1][: config.ports]
        columns = [Column() for _ in self.weight_ports]
        self.rings = (Ring(config.ring_words, columns), Ring(config.vector_ring_words, [Column()]))
        self.flows: dict[str, Flow] = {}
        self.writing: tuple[float, Range] = (0.0, NOWHERE)  # of the array: writes a clock, to which words
        self.reading: Range = NOWHERE  # of the vector engine
        self.loading: Range = NOWHERE  # to which words
        self.behind = False  # whether the load followed another one at once
        self._meeting = MEETING * (config.half + config.pix - 1) / config.banks
        self._together = cache(lambda a, b: together(a, b, config))
        self._ports = {"load": config.ports, "store": config.ports}
        self._ports |= {f"weight{part}": ports for part, ports in enumerate(self.weight_ports)}

    def play(self, processes: dict[str, Process]) -> None:
        """Until every process stands still for ever."""
        waiting = {name: next(process) for name, process in processes.items()}
        while True:
            self._set_speeds()
            clock, name = min((ready(), name) for name, ready in waiting.items())
            if clock == inf:
                return
            passed = max(clock - self.now, 0.0)
            self.now += passed
            for flow in self.flows.values():
                flow.left -= flow.speed * passed
            following = next(processes[name], None)
            waiting[name] = following or _never

    def after(self, clocks: float) -> Ready:
        """Ready so many clocks from now."""
        clock = self.now + clocks
        return lambda: clock

    def flow(self, name: str, amount: float, most: float) -> Process:
        """A flow, from its beginning to its end."""
        flow = self.flows[name] = Flow(amount, most)
        yield lambda: self.now + max(flow.left, 0.0) / flow.speed
        del self.flows[name]

    def _set_speeds(self) -> None:
        """DDR is shared evenly by the ports of all who move something, up to `most`; no port reads over a beat a clock.

        A load is slower behind another one and beside engines in its region, the vector engine beside the array.
        """
        left, reads = float(self.memory.bytes_per_clock), float(BEAT_BYTES * self.config.ports)
        sharers = sorted(self.flows.keys() & self._ports.keys(), key=lambda name: self.flows[name].most / self._ports[name])
        ports = sum(self._ports[name] for name in sharers)
        readers = ports - (self._ports["store"] if "store" in self.flows else 0)
        for name in sharers:
            flow, own = self.flows[name], self._ports[name]
            flow.speed = min(flow.most, left * own / ports)
            if name != "store":
                flow.speed = min(flow.speed, reads * own / readers)
                reads, readers = reads - flow.speed, readers - own
            left, ports = left - flow.speed, ports - own
        rate, span = self.writing
        if "load" in self.flows and self.config.ports > 1:
            flow = self.flows["load"]
            met = max(rate * self._together(self.loading, span), self._together(self.loading, self.reading))
            if self.behind or met:
                flow.speed = min(flow.speed, BEAT_BYTES * self.config.ports / (APART + DISTURBED * min(met, 1.0)))
        if "vector" in self.flows:
            self.flows["vector"].speed = 1 - min(self._meeting * rate * self._together(self.reading, span), MOST_SLOWED)


def _never() -> float:
    return inf
