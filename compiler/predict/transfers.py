"""Loads and stores as processes of `predict`'s event loop: a command's word runs go to the ports, and DDR moves their beats."""

from collections.abc import Callable
from itertools import count
from math import inf
from typing import Any, Final

from cnna.compiler.predict.ddr_beats import Transfer
from cnna.compiler.predict.event_loop import EventLoop, Process, Queue
from cnna.compiler.predict.ready import Lasting, Ready
from cnna.compiler.predict.weight_ports import AllAnswered, Ended, WeightPorts
from cnna.spec.config import BEAT_BYTES
from cnna.spec.ddr import DdrSpeed
from cnna.spec.machine import LOAD_ROOM_BEATS, READS_OUTSTANDING, RUNS_AHEAD, WRITES_OUTSTANDING
from cnna.spec.program.commands import Command

ASK_CLOCKS: Final = 32  # from the clock at which a store's wait is met to its first burst
BESIDE_BEATS: Final = 1  # that a store reads in a clock beside other engines, roughly; alone it reads one for each port
OUTSTANDING = {"load": READS_OUTSTANDING, "store": WRITES_OUTSTANDING}  # bursts of a port
ROUND_CLOCKS = {"load": 2, "store": 7}  # besides DDR's latency, from a burst to the one that takes its place among these
END_CLOCKS = {"load": 20, "store": 13}  # from a load's last beat, or DDR's answer to a store, until other engines see the unit


class InList(Lasting):
    """Comes when a list that grows has an entry of that number."""

    def __init__(self, entries: list[Any], number: int) -> None:
        self._entries, self._number = entries, number

    def clock(self, now: float) -> float:
        """0, or inf: not yet."""
        return 0.0 if self._number < len(self._entries) else inf


class Transfers:
    """The processes of load and store.

    queues: by engine. weights: the ports whose reads alternate with a load's. waits: says when a command's waits are met. ended: is
    told when a command was moved.
    """

    def __init__(
        self, machine: EventLoop, queues: dict[str, Queue], weights: WeightPorts, waits: Callable[[Command], Lasting], ended: Ended
    ) -> None:
        self.machine = machine
        self.queues = queues
        self.weights = weights
        self.waits = waits
        self.ended = ended
        self.dealt: dict[str, list[tuple[Command, Transfer]]] = {"load": [], "store": []}
        self.asked: list[Ready] = []  # for each load that has requested its beats: when the first one can come

    def deal(self, command: Command) -> Process:
        """Gives a command's runs to the ports in turn, one a clock, as far as there is room beside the runs of earlier commands."""
        fields, dealt, machine = vars(command.f), self.dealt[command.engine], self.machine
        yield self.waits(command)
        transfer = Transfer(command.engine, fields, machine.config)
        if dealt and command.engine == "load":
            dealt[-1][1].following = transfer
        dealt.append((command, transfer))
        runs = fields["runs"] * fields["blocks"]
        yield machine.after(deal_clocks(transfer, runs, machine.config.ports, machine.memory))
        self.queues[command.engine].released += 1

    def asking(self) -> Process:
        """Requests the beats of loads whose runs the ports have, as the FIFOs have room. Weights requested earlier come first."""
        machine, beats = self.machine, 0
        for number in count():
            yield InList(self.dealt["load"], number)
            yield machine.loaded(beats - LOAD_ROOM_BEATS * machine.config.ports)
            clock = machine.now + machine.memory.latency_cycles
            self.asked.append(AllAnswered(self.weights, self.weights.asked(), clock))
            transfer = self.dealt["load"][number][1]
            machine.reads.begin(transfer.size, machine.now, transfer.pace)
            beats += transfer.size

    def loads(self) -> Process:
        """Moves the beats that loads have requested."""
        for number in count():
            yield InList(self.asked, number)
            yield self.asked[number]
            command, transfer = self.dealt["load"][number]
            self.machine.work.begun += transfer.size
            yield from self._move(command, transfer)

    def stores(self) -> Process:
        """Moves the stores whose runs the ports have.

        A command's first burst waits for the last write response (B) of the command before (`hw/dma/store.py`). Its reads do not:
        they fill the FIFOs.
        """
        machine = self.machine
        for number in count():
            yield InList(self.dealt["store"], number)
            clock = max([machine.now + ASK_CLOCKS, *machine.units["store"][-1:]])
            command, transfer = self.dealt["store"][number]
            rate = BESIDE_BEATS if machine.work.delayed() else machine.config.ports
            transfer.read_ahead(int(rate * (clock - machine.now - ASK_CLOCKS)))
            yield machine.after(clock - machine.now)
            yield from self._move(command, transfer)

    def _move(self, command: Command, transfer: Transfer) -> Process:
        machine, engine, begin = self.machine, command.engine, self.machine.now
        machine.work.moving[engine] = transfer
        size = transfer.size * BEAT_BYTES
        yield from machine.flow(engine, size, size / least_move_clocks(engine, transfer, machine.config.ports, machine.memory))
        del machine.work.moving[engine]
        end = machine.end_unit(engine, end_clocks(engine, machine.memory))
        self.ended(command, begin, end, (begin, machine.now))


def deal_clocks(transfer: Transfer, runs: int, ports: int, memory: DdrSpeed) -> float:
    """From the clock at which the ports get a command's first run until they can get another command's. runs: of the command."""
    later = max(runs - RUNS_AHEAD * ports, 0) * transfer.size * BEAT_BYTES / (runs * memory.bytes_per_cycle)
    return max(float(runs), later)


def least_move_clocks(engine: str, transfer: Transfer, ports: int, memory: DdrSpeed) -> float:
    """The clocks in which a transfer moves if nothing holds it up: a beat at each port, but each burst beyond those outstanding
    waits.
    """
    bursts = transfer.bursts
    rounds = -(-bursts // OUTSTANDING[engine]) - 1
    beats = -(-transfer.size // ports)
    waits = rounds * (memory.latency_cycles + ROUND_CLOCKS[engine])
    rest = beats * (bursts - rounds * OUTSTANDING[engine]) / bursts
    return max(float(beats), waits + rest)


def end_clocks(engine: str, memory: DdrSpeed) -> int:
    """From a transfer's last beat until other engines see the unit. Its write responses come late."""
    return END_CLOCKS[engine] + (memory.latency_cycles if engine == "store" else 0)
