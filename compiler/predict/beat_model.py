"""Simulates DDR clock by clock: which ports read and write a beat. `ddr_beats` has the loads and stores. Used by `flow_rates`."""

from typing import Final

from cnna.compiler.predict.ddr_beats import PAST_CLOCKS, State, Transfer
from cnna.compiler.predict.shared_port import Clocked
from cnna.spec.machine import BURST_BEATS

DdrPosition = tuple[float, int, int, tuple[int, ...], tuple[int, ...]]
Behind = tuple[tuple[float, int], ...]
NOTED_CLOCKS: Final = 16  # interval at which the positions of loads and stores are noted


class BeatModel(Clocked):
    """The beats that DDR moves in each clock (`sim/rtl/ddr_plain.h`): each port in turn reads and writes a beat, up to its rate.

    others: by port, the beats for the rings and the sequencer that have not come. Their bursts alternate with those of a load, but
    beats that a load requested earlier come first (`set_behind`).
    """

    def __init__(self, beats: float, ports: int, latency: int) -> None:
        self._latency, self._clocks = latency, 0
        self.load: Transfer | None = None
        self.store: Transfer | None = None
        self.others = [0 for _ in range(ports)]
        self.set_behind([() for _ in range(ports)])
        self._beats = beats
        self._most = beats + 1
        self._left = 0.0
        self._first = 0
        self._orders = [[(first + step) % ports for step in range(ports)] for first in range(ports)]
        self._turn = [0 for _ in range(ports)]  # position in the present pair of bursts: first the load's, then the other

    def set_behind(self, behind: list[Behind]) -> None:
        """Says what comes first. By port, in order, pairs (beats of the load that come first, beats of `others` that follow)."""
        self._behind = behind
        self._pair = [0 for _ in behind]  # by port: the present pair's number
        self._first_beats = [-1.0 for _ in behind]  # by port, of the present pair: the load's beats; negative: there is no pair
        self._left_beats = [0 for _ in behind]  # by port, of the present pair: the beats of `others` that are left
        for port, pairs in enumerate(behind):
            if pairs:
                self._first_beats[port], self._left_beats[port] = pairs[0]

    def behind_ports(self) -> tuple[tuple[int, Behind], ...]:
        """What `set_behind` has set, before a clock has passed: each port at which it differs from the port before."""
        behind = self._behind
        return tuple([(port, behind[port]) for port in range(len(behind)) if not port or behind[port] is not behind[port - 1]])

    def position(self) -> DdrPosition:
        """Where the model stands, for `go_on`, without what `load`, `store` and `set_behind` hold."""
        return self._left, self._first % len(self.others), self._clocks % PAST_CLOCKS, tuple(self.others), tuple(self._turn)

    def go_on(self, position: DdrPosition) -> None:
        """Goes on from an earlier position. What `set_behind` says is not restored: each stretch sets it."""
        self._left, self._first, self._clocks, others, turns = position
        self.others[:], self._turn[:] = others, turns

    def clock(self) -> None:
        """Moves the beats of one clock. The first port to be served changes after every clock in which a beat can move."""
        load, store, others, left = self.load, self.store, self.others, self._left + self._beats
        if left > self._most:
            left = self._most
        if left >= 1:
            self._first += 1
        if load:
            load.asked += 1
            self._clocks += 1
            if self._clocks % PAST_CLOCKS == 0:
                load.note(self._latency)
        if left >= 1 and (load or store or any(others)):
            for port in self._orders[self._first % len(others)]:
                if others[port]:
                    if self._read(port):
                        left -= 1
                elif load and port < load.asked and load.bring(port):
                    self._turn[port] = 0
                    left -= 1
                if store and left >= 1 and store.bring(port):
                    left -= 1
                if left < 1:
                    break
        self._left = left

    def alone(self, clocks: int) -> None:
        """As `clock`, for `clocks` clocks without a load or store. Nothing holds up the beats for the rings then."""
        others, left, due = self.others, self._left, sum(self.others)
        before = list(others)
        for clock in range(clocks):
            if left == self._most and not due:
                self._first += clocks - clock
                break
            left = min(left + self._beats, self._most)
            if left < 1:
                continue
            self._first += 1
            if due:
                for port in self._orders[self._first % len(others)]:
                    if others[port]:
                        others[port] -= 1
                        due -= 1
                        left -= 1
                        if left < 1:
                            break
        self._left = left
        for port, turn in enumerate(self._turn):
            if turn >= BURST_BEATS:  # within a burst that is not the load's
                turn += before[port] - others[port]
                self._turn[port] = turn if turn < 2 * BURST_BEATS else 0

    def _read(self, port: int) -> bool:
        """Reads a beat at a port to which beats for the rings or the sequencer have to come. False: no beat is due there."""
        load = self.load
        turn = self._turn[port]
        if load and load.brought(port) < self._first_beats[port]:
            if port < load.asked and load.bring(port):
                self._turn[port] = 0
                return True
            return False
        first = turn >= BURST_BEATS
        if not first and load and port < load.asked and load.bring(port):
            self._turn[port] = BURST_BEATS if load.at_end_of_burst(port) else turn + 1
            return True
        self.others[port] -= 1
        self._turn[port] = (turn + first) % (2 * BURST_BEATS)
        self._left_beats[port] -= 1
        if self._left_beats[port] <= 0:
            self._next_pair(port)
        return True

    def _next_pair(self, port: int) -> None:
        """Goes on to a port's next pair, if it has one (`set_behind`)."""
        pairs, number = self._behind[port], self._pair[port] + 1
        self._pair[port] = number
        self._first_beats[port] = -1.0
        if number < len(pairs):
            self._first_beats[port], self._left_beats[port] = pairs[number]


class DdrClocks(Clocked):
    """The clocks of DDR beside a stretch. notes: states of the transfers, every NOTED_CLOCKS.

    drained: the clocks until a store had ended; 0 if it had not.
    """

    def __init__(self, ddr: BeatModel, moving: list[Transfer]) -> None:
        self._ddr, self._moving, self._clocks, self.drained = ddr, moving, 0, 0
        self.notes: list[list[tuple[Transfer, State]]] = []

    def clock(self) -> None:
        """One of them."""
        if self._clocks % NOTED_CLOCKS == 0:
            self.notes.append([(transfer, transfer.state()) for transfer in self._moving])
        self._clocks += 1
        self._ddr.clock()
        store = self._ddr.store
        if store and store.over and not store.fifo and not self.drained:
            self.drained = self._clocks  # some ports end before others
