"""Loads and stores clock by clock: what DDR has moved at each AXI port, and what the ports ask of feature memory. Used by `speeds`.

The model follows `hw/dma/load.py` and `hw/dma/store.py`. Runs are dealt to the ports, whose beats wait in FIFOs. The beats that
the ports hold at one time form one request, except those that share a bank with a lower port's.
"""

from collections import deque
from math import inf

from cnna.compiler.cost.engine_steps import Fields
from cnna.compiler.predict.shared_port import User
from cnna.spec.config import Config
from cnna.spec.machine import BURST_BEATS, LOAD_ROOM_BEATS, STORE_ROOM_BEATS

State = tuple[tuple[int, float, tuple[int, ...], tuple[int, ...]], ...]


class Transfer(User):
    """A load's writes or a store's reads, for those whose turn at feature memory it is. done, size: beats.

    A beat waits in its port's FIFO; of a store, room for it does. following: the load whose beats come next.
    """

    def __init__(self, engine: str, fields: Fields, config: Config) -> None:
        super().__init__()
        self._fields, self._config = fields, config
        self._store = engine == "store"
        self._room = STORE_ROOM_BEATS if self._store else LOAD_ROOM_BEATS
        self._beat_words, self._bank_count = config.beat_words, config.banks
        self._region_words = config.banks * config.bank_words
        self._run_beats = -(-fields["run"] // config.beat_words)
        runs = fields["runs"] * fields["blocks"]
        self._share = [-(-(runs - port) // config.ports) * self._run_beats for port in range(min(config.ports, runs))]
        self.size = sum(self._share)
        self._moved = [0 for _ in self._share]  # to or from feature memory, by port
        self._waiting = [min(beats, self._room) if self._store else 0 for beats in self._share]
        self._needs: list[tuple[int, int] | None] = [None for _ in self._share]  # `_banks` of each port's next beat, once known
        self.following: Transfer | None = None
        self.asked = 0  # ports that have asked for their first burst: runs are dealt to one after the other

    def go_to(self, beats: float) -> None:
        """As if DDR had moved so many beats in all: ports go on, or back, abreast, as far apart as they are."""
        read_ahead = sum(self._room - waiting for waiting in self._waiting) if self._store else 0
        each = round((beats + read_ahead - self.done) / len(self._share))
        self._moved = [min(max(moved + each, 0), share) for moved, share in zip(self._moved, self._share, strict=True)]
        self._needs = [None for _ in self._share]
        self.done = float(sum(self._moved))

    def state(self) -> State:
        """Where it stands, for `restore`; what the load to follow has is part of it."""
        own = (self.asks, self.done, tuple(self._moved), tuple(self._waiting))
        return (own, *self.following.state()) if self.following else (own,)

    def restore(self, state: State) -> None:
        """Goes back to where it stood."""
        (self.asks, self.done, moved, waiting), *others = state
        self._moved, self._waiting = list(moved), list(waiting)
        self._needs = [None for _ in self._share]
        if self.following and others:
            self.following.restore(tuple(others))

    def offer(self, clock: int) -> int:
        """The next request."""
        self.over = self._moved == self._share
        return self._joined()

    def bring(self, port: int, others: int = 0) -> bool:
        """Lets DDR move a beat of a port, or of the load to follow, if one is to come; `others` share the FIFO with it."""
        if port >= len(self._share):
            return False
        waiting = self._waiting[port]
        if waiting < min(self._room - others, self._share[port] - self._moved[port]):
            self._waiting[port] += 1
            return True
        if self.following is None:
            return False
        self.following.asked = len(self._share)
        return self.following.bring(port, waiting)

    def brought(self, port: int) -> float:
        """Beats of a port that DDR has brought."""
        return self._moved[port] + self._waiting[port] if port < len(self._share) else inf

    def _joined(self) -> int:
        """One request: a beat of each port that has one, except where a lower port uses its bank (`hw/dma/runs.py`)."""
        asked, goes, needs, moved = 0, 0, self._needs, self._moved
        for port, waiting in enumerate(self._waiting):
            if waiting and moved[port] < self._share[port]:
                banks, places = needs[port] = needs[port] or self._banks(port)
                if not banks & asked:
                    goes |= places
                    self._waiting[port] -= 1
                    moved[port] += 1
                    needs[port] = None
                    self.done += 1
                asked |= banks
        return goes

    def _banks(self, port: int) -> tuple[int, int]:
        """What a port's next beat needs: a bit for each bank, whatever its region, and one for each bank of every region."""
        config, fields = self._config, self._fields
        run, beat = divmod(self._moved[port], self._run_beats)
        block, row = divmod(run * config.ports + port, fields["runs"])
        low = beat * config.beat_words
        first = fields["fm"] + block * fields["fm_block"] + row * fields["fm_run"] + low
        banks, places = 0, 0
        count = min(self._beat_words, fields["run"] - low)
        region, place = divmod(first, self._region_words)
        while count:  # one time, unless the beat's words go over the end of a region or of the banks
            bank = place % self._bank_count
            piece = min(count, self._bank_count - bank)
            mask = (1 << piece) - 1 << bank
            banks |= mask
            places |= mask << region * self._bank_count
            count, place = count - piece, place + piece
            if place == self._region_words:
                region, place = region + 1, 0
        return banks, places


class Ddr:
    """What DDR moves in a clock: of each port in turn a beat read, then one written, as long as it has bytes (`sim/rtl/ddr.cpp`).

    others: beats that the rings and the sequencer are still to get, by port; their bursts and a load's take turns, but for those
    that the load asked for before: `behind` says in order after how many beats of the port's load so many others come.
    """

    def __init__(self, beats: float, ports: int) -> None:
        self.load: Transfer | None = None
        self.store: Transfer | None = None
        self.others = [0 for _ in range(ports)]
        self.behind: list[deque[tuple[float, int]]] = [deque() for _ in range(ports)]
        self._beats, self._left, self._first = beats, 0.0, 0
        self._turn = [0 for _ in range(ports)]  # beats of two bursts that a port has read, a load's first

    def clock(self) -> None:
        """The port that is asked first is another one each clock in which a beat can go."""
        ports, left = len(self.others), min(self._left + self._beats, self._beats + 1)
        self._first += left >= 1
        if self.load:
            self.load.asked += 1
        wanted = self.load or self.store or any(self.others)
        for step in range(ports if wanted else 0):
            if left < 1:
                break
            port = (self._first + step) % ports
            if self._read(port):
                left -= 1
            if left >= 1 and self.store and self.store.bring(port):
                left -= 1
        self._left = left

    def _read(self, port: int) -> bool:
        turn, others, behind = self._turn[port], self.others[port] > 0, self.behind[port]
        if not self.load and not others:
            return False
        if self.load and behind and self.load.brought(port) < behind[0][0]:
            turn, others = 0, False
        first = others and turn >= BURST_BEATS
        if not first and self.load and port < self.load.asked and self.load.bring(port):
            self._turn[port] = turn + 1 if others else 0
        elif others:
            self.others[port] -= 1
            self._turn[port] = (turn + first) % (2 * BURST_BEATS)
            if behind:
                load, beats = behind.popleft()
                if beats > 1:
                    behind.appendleft((load, beats - 1))
        else:
            return False
        return True
