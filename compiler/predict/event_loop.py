"""A clock for `predict`'s model of the accelerator, and what its engines share: DDR, weight rings, unit counts.

A process is a generator: what it yields says when it can go on, as far as is known now. The one that can first goes on.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import inf

from cnna.compiler.predict.flow_rates import AtWork, Flow, Speeds
from cnna.compiler.predict.read_order import ReadOrder
from cnna.spec.commands import Command
from cnna.spec.config import Config
from cnna.spec.planned import DdrSpeed
from cnna.spec.regmap import COUNTED

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


class Machine:
    """The accelerator at one time, `now`. weight_ports: ports that bring weights abreast; port 0 brings the vector ring's too."""

    def __init__(self, config: Config, memory: DdrSpeed) -> None:
        self.config, self.memory = config, memory
        self.now = 0.0
        self.units: dict[str, list[float]] = {engine: [] for engine in COUNTED}  # when each was finished
        self.weight_ports = [1, config.ports - 1][: config.ports]
        columns = [Column() for _ in self.weight_ports]
        self.rings = (Ring(config.ring_words, columns), Ring(config.vector_ring_words, [Column()]))
        self.work = AtWork.idle(config.ports)
        ports = {f"weight{part}": ports for part, ports in enumerate(self.weight_ports)}
        self.reads = ReadOrder(self.work, config.ports)
        self._speeds = Speeds(config, memory, ports | {"load": config.ports, "store": config.ports})

    def play(self, processes: dict[str, Process]) -> None:
        """Until every process stands still for ever."""
        processes = dict(sorted({**processes, "speeds": self._looking()}.items()))
        waiting = {name: next(process) for name, process in processes.items()}
        names = list(waiting)
        while True:
            self._speeds.set(self.work, self.now)
            clocks = [ready() for ready in waiting.values()]
            clock = min(clocks)
            if clock == inf:
                return
            name = names[clocks.index(clock)]  # of several, the first by name
            passed = max(clock - self.now, 0.0)
            self.now += passed
            for flow in self.work.flows.values():
                flow.left -= flow.speed * passed
            following = next(processes[name], None)
            if following:
                waiting[name] = following
            else:
                del waiting[name]
                names.remove(name)

    def after(self, clocks: float) -> Ready:
        """Ready so many clocks from now."""
        clock = self.now + clocks
        return lambda: clock

    def end_unit(self, engine: str, clocks: int) -> float:
        """Notes that others see an engine's next unit so many clocks from now; answers when that is."""
        self.units[engine].append(self.now + clocks)
        return self.now + clocks

    def loaded(self, beats: float) -> Ready:
        """Ready when DDR has brought so many beats of loads since the program's start."""
        return lambda: self.reads.when_moved(beats, self.now)

    def flow(self, name: str, amount: float, most: float) -> Process:
        """A flow, from its beginning to its end."""
        flow = self.work.flows[name] = Flow(amount, most)
        self.work.changed = True
        yield lambda: self.now + max(flow.left, 0.0) / flow.speed
        del self.work.flows[name]
        self.work.changed = True

    def ports_of(self, part: int) -> range:
        """The ports of a part of `weight_ports`."""
        return range(1) if part == 0 else range(1, self.config.ports)

    def wait_for_beats(self, part: int, beats: int) -> None:
        """Some ports are still to get so many beats more for the rings; less, where they have come."""
        for port in self.ports_of(part):
            self.work.waiting[port] += beats
            self.work.asked[port] += max(beats, 0)

    def _looking(self) -> Process:
        """Wakes the machine when speeds are to be looked at again."""
        while True:
            yield lambda: max(self._speeds.until, self.now)
