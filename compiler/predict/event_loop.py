"""The event loop of `predict`'s model, and the state that its engines share: reads of DDR, weight rings and unit counts.

A process is a generator. It yields the clock at which it can continue, or what says at which clock that is (`ready`), such as a
flow that has to pass before. The loop resumes the process with the earliest clock.

Nearly all resumptions bring weights: requests, answers, and words that the array takes, which change rings and flows alone. They
are quiet, and small machines of states rather than generators: `Steps`. A wait that depends on neither rings nor flows, nor on the
present clock, is `Lasting`: the loop asks it again only after resumptions that are not quiet.
A clock that is final is yielded as a number, because the loop asks every wait after every resumption.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf
from typing import Final

from cnna.compiler.predict.active_engines import ActiveEngines, Flow
from cnna.compiler.predict.flow_rates import FlowRates
from cnna.compiler.predict.known_stretches import KnownStretches
from cnna.compiler.predict.ready import Lasting, Ready, Steps
from cnna.compiler.predict.rings import Column, Ring
from cnna.spec.config import BEAT_BYTES, Config
from cnna.spec.ddr import DdrSpeed
from cnna.spec.machine import LOAD_ROOM_BEATS
from cnna.spec.program.commands import Command
from cnna.spec.regmap import COUNTED

RATES: Final = "speeds"  # name of the process that wakes the loop when rates must be set again
Process = Iterator[Ready | float]  # a float: the clock is known


class Waiting:
    """A process that waits. clock: at which it can continue, as far as it is known. ready: what says so; None: it is known.

    number: of several that can continue, that of the lowest number does.
    """

    def __init__(self, process: Process, number: int) -> None:
        self._process, self.number = process, number
        self._steps: Steps | None = None  # what the process waits for, if it is several waits
        self.clock = inf
        self.ready: Ready | None = None
        self.lasting = False  # whether that is `Lasting`

    @property
    def steady(self) -> bool:
        """Whether `clock` stays as it is while processes are quiet."""
        return self._steps is None and (self.ready is None or self.lasting)

    def go_on(self, now: float) -> bool:
        """Lets the process go on to its next wait. Returns whether it was quiet."""
        steps = self._steps
        if steps is not None and steps.go_on(now):
            self.clock, self.ready = steps.at, None if steps.at < inf else steps
            return True
        following = next(self._process, inf)
        while isinstance(following, Steps) and not following.go_on(now):
            following = next(self._process, inf)
        self._steps, self.ready, self.clock, self.lasting = None, None, inf, False
        if isinstance(following, float):
            self.clock = following
        elif isinstance(following, Steps):
            self._steps, self.clock, self.ready = following, following.at, None if following.at < inf else following
        elif isinstance(following, Lasting):
            self.clock = following.clock(now)
            if self.clock == inf:
                self.ready, self.lasting = following, True
        else:
            self.ready = following
        return False


NEVER: Final = Waiting(iter(()), -1)


class RatesDue(Steps):
    """Comes whenever rates must be set again."""

    def __init__(self, speeds: FlowRates) -> None:
        super().__init__()
        self._speeds = speeds

    def go_on(self, now: float) -> bool:
        """There is no end."""
        return True

    def clock(self, now: float) -> float:
        """That clock; the present one if it has passed."""
        return self._speeds.until if self._speeds.until > now else now


class ReadOrder:
    """The beats that loads have requested from DDR since the program's start, over all ports.

    A port answers reads in the order of the requests (`hw/axi/read_master.py`). So weights come after the beats that loads
    requested earlier, and a load comes after the weights before it (`weight_ports.when_answered`).
    """

    def __init__(self, work: ActiveEngines, ports: int) -> None:
        self._work, self._ports = work, ports
        self._whole = 0.0  # beats of the loads whose requests are complete
        self._asking: list[tuple[float, int, int]] = []  # of the others: the clock of the first request, beats, and beats a clock

    def begin(self, beats: int, now: float, pace: int) -> None:
        """Notes that a load begins to request `beats` beats, `pace` a clock. It goes on as the FIFOs of its ports have room."""
        self._asking.append((now, beats, pace))

    def asked(self, now: float) -> float:
        """Beats that have been requested."""
        if not self._asking:
            return self._whole
        room = self.moved + LOAD_ROOM_BEATS * self._ports
        while self._asking and self._part(0, now) == self._asking[0][1] and self._whole + self._asking[0][1] <= room:
            self._whole += self._asking.pop(0)[1]
        parts = 0.0
        for number in range(len(self._asking)):
            parts += self._part(number, now)
        return min(self._whole + parts, room)

    def under_way(self, now: float) -> bool:
        """Whether beats have been requested that DDR has not brought."""
        return self.asked(now) > self.moved

    def _part(self, number: int, now: float) -> float:
        begun, beats, pace = self._asking[number]
        return min(beats, (now - begun) * pace)

    @property
    def moved(self) -> float:
        """Beats that DDR has brought."""
        flow = self._work.load
        return self._work.begun - (max(flow.left, 0.0) / BEAT_BYTES if flow else 0.0)

    def when_moved(self, beats: float, now: float) -> float:
        """The clock at which DDR has brought `beats` beats; inf: not known yet."""
        left = beats - self.moved
        if left <= 0:
            return 0.0
        flow = self._work.load
        return now + left * BEAT_BYTES / flow.speed if flow and flow.speed else inf


class Loaded(Ready):
    """Comes when DDR has brought `beats` beats of loads."""

    def __init__(self, reads: ReadOrder, beats: float) -> None:
        self._reads, self._beats = reads, beats

    def clock(self, now: float) -> float:
        """As far as it is known while the load's rate stays."""
        return self._reads.when_moved(self._beats, now)


@dataclass
class Queue:
    """The commands of an engine, each with the clock at which the engine gets it. released: how many of them are finished."""

    commands: list[tuple[Command, float]] = field(default_factory=list)
    released: int = 0

    def when_handed(self, number: int) -> float:
        """The clock at which the engine gets its command of that number; inf: not known yet."""
        return self.commands[number][1] if number < len(self.commands) else inf

    def when_released(self, number: int) -> float:
        """0 if the engine has finished its command of that number, or if `number` is negative; inf: not yet."""
        return 0.0 if self.released > number else inf


class Handed(Lasting):
    """As `Queue.when_handed`."""

    def __init__(self, queue: Queue, number: int) -> None:
        self._queue, self._number = queue, number

    def clock(self, now: float) -> float:
        """inf: not known yet."""
        return self._queue.when_handed(self._number)


class Released(Lasting):
    """As `Queue.when_released`."""

    def __init__(self, queue: Queue, number: int) -> None:
        self._queue, self._number = queue, number

    def clock(self, now: float) -> float:
        """inf: not yet."""
        return self._queue.when_released(self._number)


class EventLoop:
    """The state of the accelerator at the clock `now`. weight_ports: the ports in each part; port 0 also fills the vector ring.

    known: as of `FlowRates`.
    """

    def __init__(self, config: Config, memory: DdrSpeed, known: KnownStretches | None = None) -> None:
        self.config, self.memory = config, memory
        self.now = 0.0
        self.units: dict[str, list[float]] = {engine: [] for engine in COUNTED}  # the clock at which each unit was finished
        self.weight_ports = [1, config.ports - 1][: config.ports]
        columns = [Column() for _ in self.weight_ports]
        self.rings = (Ring(config.ring_words, columns), Ring(config.vector_ring_words, [Column()]))
        self.work = ActiveEngines.idle(config.ports)
        ports = {f"weight{part}": ports for part, ports in enumerate(self.weight_ports)}
        self.reads = ReadOrder(self.work, config.ports)
        self._speeds = FlowRates(config, memory, ports | {"program": 1, "load": config.ports, "store": config.ports}, known)

    def run(self, processes: dict[str, Process]) -> None:
        """Runs the processes until none can continue."""
        names = sorted({*processes, RATES})
        waiting = [Waiting(processes.get(name) or iter([RatesDue(self._speeds)]), number) for number, name in enumerate(names)]
        speeds, work, quiet = self._speeds, self.work, False
        others, steady = list[Waiting](), NEVER  # steady: that of the steady processes that can continue first
        for one in waiting:
            one.go_on(self.now)
        while True:
            speeds.set(work, self.now)
            if not quiet:
                others.clear()
                steady = self._first_steady(waiting, others)
            first = self._first(others, steady)
            clock = first.clock
            if clock == inf:
                return
            if clock > self.now:
                passed = clock - self.now
                self.now += passed
                for flow in work.passing:
                    flow.left -= flow.speed * passed
            quiet = first.go_on(self.now)

    def _first_steady(self, waiting: list[Waiting], others: list[Waiting]) -> Waiting:
        """The steady process that can continue first; of several, the first one; if none can, one of no known clock.

        Adds those that are not steady to `others`.
        """
        now, found, clock = self.now, NEVER, inf
        for one in waiting:
            if one.steady:
                ready = one.ready
                if ready is not None:
                    one.clock = ready.clock(now)
                if one.clock < clock:
                    found, clock = one, one.clock
            else:
                others.append(one)
        return found

    def _first(self, others: list[Waiting], steady: Waiting) -> Waiting:
        """The process that can continue first, of those that are not steady and the first steady one."""
        now, found, clock, number = self.now, steady, steady.clock, steady.number
        for one in others:
            ready = one.ready
            own = one.clock if ready is None else ready.clock(now)
            if own < clock or (own == clock and one.number < number):
                found, clock, number = one, own, one.number
        found.clock = clock
        return found

    def after(self, clocks: float) -> float:
        """The clock that comes `clocks` clocks after the present one."""
        return self.now + clocks

    def end_unit(self, engine: str, clocks: int) -> float:
        """Notes that other engines see the next unit of `engine` after `clocks` clocks. Returns that clock."""
        self.units[engine].append(self.now + clocks)
        return self.now + clocks

    def loaded(self, beats: float) -> Ready:
        """Comes when DDR has brought `beats` beats of loads since the program's start."""
        return Loaded(self.reads, beats)

    def flow(self, name: str, amount: float, most: float) -> Process:
        """A process that lasts until a flow of this amount has passed."""
        yield self.begin_flow(name, amount, most)
        self.end_flow(name)

    def begin_flow(self, name: str, amount: float, most: float) -> Flow:
        """A flow of this amount, which begins to pass. `end_flow` has to be called when it has."""
        flow = Flow(amount, most)
        self.work.begin(name, flow)
        return flow

    def end_flow(self, name: str) -> None:
        """Notes that a flow has passed."""
        self.work.end(name)
