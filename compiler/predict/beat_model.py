"""Simulates DDR clock by clock: which ports read and write a beat. `ddr_beats` has the loads and stores. Used by `flow_rates`."""

from math import ceil
from typing import TYPE_CHECKING, Final, final

from cnna.compiler.predict.ddr_beats import PAST_CLOCKS, Past, PortFifo, Transfer
from cnna.compiler.predict.shared_port import Clocked
from cnna.spec.machine import BURST_BEATS

if TYPE_CHECKING:
    from mypy_extensions import i64  # as in `ddr_beats`

Behind = tuple[tuple[float, int], ...]
NOTED_CLOCKS: Final = 16  # interval at which the positions of loads and stores are noted


@final
class Port:
    """An AXI port. load, store: what these move there.

    others: the beats for the rings and the sequencer that have not come. turn: position in the present pair of bursts: first the
    load's, then the other. first_beats, left_beats: of the present one of `pairs` (`BeatModel.set_behind`), the load's beats
    (0: there is no pair), and the beats of `others` that are left.
    """

    def __init__(self, number: int) -> None:
        self.number: i64 = number
        self.load: PortFifo | None = None
        self.store: PortFifo | None = None
        self.others: i64 = 0
        self.turn: i64 = 0
        self.pairs: Behind = ()
        self.first_beats: i64 = 0
        self.left_beats: i64 = 0
        self._pair = 0  # the present pair's number

    def set_behind(self, pairs: Behind) -> None:
        """Says what comes first here."""
        self.pairs, self._pair, self.first_beats, self.left_beats = pairs, 0, 0, 0
        self._set_pair()

    def read_other(self) -> None:
        """Reads a beat for the rings or the sequencer."""
        self.others -= 1
        turn = self.turn
        if turn >= BURST_BEATS:
            turn += 1
            if turn == 2 * BURST_BEATS:
                turn = 0
            self.turn = turn
        self.left_beats -= 1
        if self.left_beats <= 0:
            self._pair += 1
            self._set_pair()

    def _set_pair(self) -> None:
        """Begins with the present pair, if there is one."""
        self.first_beats = 0
        if self._pair < len(self.pairs):
            first, left = self.pairs[self._pair]
            self.first_beats, self.left_beats = ceil(first), left


@final
class BeatModel(Clocked):
    """The beats that DDR moves in each clock (`sim/rtl/ddr_plain.h`): each port in turn reads and writes a beat, up to its rate.

    The bursts of the rings and the sequencer alternate with those of a load, but beats that a load requested earlier come first
    (`set_behind`).
    """

    def __init__(self, beats: float, ports: int, latency: int) -> None:
        self._latency = latency
        self._clocks: i64 = 0
        self._load: Transfer | None = None
        self._store: Transfer | None = None
        self._ports = [Port(port) for port in range(ports)]
        self._beats = float(beats)
        self._most = beats + 1.0
        self._left = 0.0
        self._first: i64 = 0  # that is served first
        self._orders = [self._ports[first:] + self._ports[:first] for first in range(ports)]

    @property
    def load(self) -> Transfer | None:
        """The load at work."""
        return self._load

    @load.setter
    def load(self, load: Transfer | None) -> None:
        self._load = load
        for port in self._ports:
            port.load = load.fifos[port.number] if load is not None and port.number < len(load.fifos) else None

    @property
    def store(self) -> Transfer | None:
        """The store at work."""
        return self._store

    @store.setter
    def store(self, store: Transfer | None) -> None:
        self._store = store
        for port in self._ports:
            port.store = store.fifos[port.number] if store is not None and port.number < len(store.fifos) else None

    @property
    def others(self) -> list[int]:
        """By port, the beats for the rings and the sequencer that have not come."""
        return [port.others for port in self._ports]

    @others.setter
    def others(self, others: list[int]) -> None:
        for number, port in enumerate(self._ports):
            port.others = others[number]

    def set_behind(self, behind: list[Behind]) -> None:
        """Says what comes first. By port, in order, pairs (beats of the load that come first, beats of `others` that follow)."""
        for number, port in enumerate(self._ports):
            port.set_behind(behind[number])

    def behind_ports(self) -> tuple[tuple[int, Behind], ...]:
        """What `set_behind` has set, before a clock has passed: each port at which it differs from the port before."""
        ports = self._ports
        return tuple(
            [(port, ports[port].pairs) for port in range(len(ports)) if not port or ports[port].pairs is not ports[port - 1].pairs]
        )

    def left(self) -> float:
        """Beats that DDR has saved up."""
        return self._left

    def add_position(self, numbers: list[int]) -> None:
        """Adds where the model stands, for `go_on`, besides `left` and without what `load`, `store` and `set_behind` hold."""
        numbers.append(self._first)
        numbers.append(self._clocks % PAST_CLOCKS if self._load is not None else 0)
        for port in self._ports:
            numbers.append(port.others)
            numbers.append(port.turn)

    def go_on(self, left: float, numbers: list[int]) -> int:
        """Goes on from an earlier position. What `set_behind` says is not restored: each stretch sets it.

        Returns how many numbers the position had.
        """
        self._left, self._first = left, numbers[0]
        if self._load is not None:  # others do not count them
            self._clocks = numbers[1]
        at = 2
        for port in self._ports:
            port.others, port.turn = numbers[at], numbers[at + 1]
            at += 2
        return at

    def clock(self) -> None:
        """Moves the beats of one clock. The first port to be served changes after every clock in which a beat can move."""
        load, store, left = self._load, self._store, self._left + self._beats
        if left > self._most:
            left = self._most
        asked: i64 = 0
        if load is not None:
            asked = load.asked + 1
            load.asked = asked
            self._clocks += 1
            if self._clocks % PAST_CLOCKS == 0:
                load.note(self._latency)
        if left >= 1.0:
            first = self._first + 1
            if first == len(self._ports):
                first = 0
            self._first = first
            for port in self._orders[first]:
                if port.others:
                    if self._read(port):
                        left -= 1.0
                elif port.number < asked and load is not None:
                    fifo = port.load
                    if fifo is not None and _bring(load, fifo):
                        port.turn = 0
                        left -= 1.0
                if store is not None and left >= 1.0:
                    stored = port.store
                    if stored is not None and stored.store_beat():
                        left -= 1.0
                if left < 1.0:
                    break
        self._left = left

    def alone(self, clocks: int) -> None:
        """As `clock`, for `clocks` clocks without a load or store. Nothing holds up the beats for the rings then."""
        others = self.others
        left, due, ports = self._left, sum(others), len(others)
        for clock in range(clocks):
            if left == self._most and not due:
                self._first = (self._first + clocks - clock) % ports
                break
            left = min(left + self._beats, self._most)
            if left < 1:
                continue
            self._first = (self._first + 1) % ports
            if due:
                for port in self._orders[self._first]:
                    if port.others:
                        port.others -= 1
                        due -= 1
                        left -= 1
                        if left < 1:
                            break
        self._left = left
        for number, port in enumerate(self._ports):
            if port.turn >= BURST_BEATS:  # within a burst that is not the load's
                turn = port.turn + others[number] - port.others
                port.turn = turn if turn < 2 * BURST_BEATS else 0

    def _read(self, port: Port) -> bool:
        """Reads a beat at a port to which beats for the rings or the sequencer have to come. False: no beat is due there."""
        load, fifo = self._load, port.load
        if load is not None and fifo is not None:
            comes = port.number < load.asked
            if fifo.moved + fifo.waiting < port.first_beats:
                if comes and _bring(load, fifo):
                    port.turn = 0
                    return True
                return False
            if port.turn < BURST_BEATS and comes and _bring(load, fifo):
                port.turn += 1
                if load.at_end_of_burst(port.number):
                    port.turn = BURST_BEATS
                return True
        port.read_other()
        return True


def _bring(load: Transfer, fifo: PortFifo) -> bool:
    """Brings a beat of a load to a port, or of the loads that follow."""
    return fifo.load_beat() or (load.following is not None and load.bring(fifo.port))


class Notes:
    """The positions of the transfers of a stretch, every NOTED_CLOCKS, and those of the loads that follow. taken: how many.

    numbers, pasts: of `Transfer.add_note`. chains: of each transfer, with how many that follow it.
    """

    def __init__(self, moving: list[Transfer]) -> None:
        self.numbers, self.pasts, self.chains, self.taken = list[int](), list[Past](), list[int](), 0
        for transfer in moving:
            self.chains.append(len(transfer.chain()))

    def take(self, moving: list[Transfer]) -> None:
        """Notes the present positions."""
        self.taken += 1
        for transfer in moving:
            one: Transfer | None = transfer
            while one is not None:
                one.add_note(self.numbers, self.pasts)
                one = one.following

    def go_back(self, moving: list[Transfer], number: int) -> None:
        """Returns the transfers to their positions in the note of that number, if there is one."""
        if number >= self.taken:
            return
        at, past = number * (len(self.numbers) // self.taken), number * (len(self.pasts) // self.taken)
        for transfer, count in zip(moving, self.chains, strict=True):
            for one in transfer.chain()[:count]:
                at = one.go_back(self.numbers, at, self.pasts[past])
                past += 1


@final
class DdrClocks(Clocked):
    """The clocks of DDR beside a stretch. drained: the clocks until a store had ended; 0 if it had not."""

    def __init__(self, ddr: BeatModel, moving: list[Transfer]) -> None:
        self._ddr, self._moving = ddr, moving
        self._clocks: i64 = 0
        self.drained = 0
        self.notes = Notes(moving)

    def clock(self) -> None:
        """One of them."""
        if self._clocks % NOTED_CLOCKS == 0:
            self.notes.take(self._moving)
        self._clocks += 1
        self._ddr.clock()
        store = self._ddr.store
        if store is not None and store.over and not self.drained and not store.fifo:
            self.drained = self._clocks  # some ports end before others
