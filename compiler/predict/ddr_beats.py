"""Simulates loads and stores clock by clock: the beats at each AXI port, and the requests to feature memory. For `beat_model`.

The model follows `hw/dma/load.py` and `hw/dma/store.py`. The ports take the word runs of a command in turn, and each port has a
FIFO of beats. In a clock, the next beats of all ports form one request to feature memory. A beat waits if it needs the same bank
as the beat of a lower port.
"""

from collections.abc import Sequence
from math import ceil, gcd
from typing import TYPE_CHECKING, Final, final

from cnna.compiler.cost.engine_steps import Fields
from cnna.compiler.predict.beat_banks import AHEAD_BEATS, Banks, RunBanks
from cnna.compiler.predict.shared_port import Requester
from cnna.spec.config import Config
from cnna.spec.machine import BURST_BEATS, LOAD_ROOM_BEATS, STORE_ROOM_BEATS

if TYPE_CHECKING:
    from mypy_extensions import i64  # to mypyc a number of the processor; to Python, which never looks at it, an int

Past = tuple[int, ...]
NO_BANKS: Final = Banks([], [])
NOTED_BITS: Final = 16  # of a note that are `PortFifo.waiting`, which is no more than a FIFO has room
PAST_CLOCKS: Final = 16  # between two notes of how far a load was


@final
class PortFifo:
    """A port's part of a transfer, `share` beats. moved: those that have gone to or from feature memory.

    waiting: for a load, the beats in the FIFO; for a store, the free places there. answered: `moved` when those beats were
    requested that can come now. coming: the banks of the next beats; the next one's are number `at`, those behind it `step` apart,
    up to number `end`. needs: the bank numbers of the next beat; 0: not known.
    """

    def __init__(self, port: int, share: int) -> None:
        self.port: i64 = port
        self.share: i64 = share
        self.moved: i64 = 0
        self.waiting: i64 = 0
        self.answered: i64 = 0
        self.needs: i64 = 0
        self.at: i64 = 0
        self.step: i64 = 1
        self.end: i64 = 0
        self.coming = NO_BANKS

    def load_beat(self) -> bool:
        """Takes a beat that DDR brings, if the port's share has one and there is room."""
        waiting, moved = self.waiting, self.moved
        taken = waiting if moved <= self.answered else waiting + moved - self.answered
        if taken < LOAD_ROOM_BEATS and waiting + moved < self.share:
            self.waiting = waiting + 1
            return True
        return False

    def store_beat(self) -> bool:
        """Gives a beat to DDR, if there is one; bursts begin when they are whole."""
        waiting, moved = self.waiting, self.moved
        there = STORE_ROOM_BEATS - waiting
        if not there or ((moved - there) % BURST_BEATS == 0 and there < BURST_BEATS and moved < self.share):
            return False
        self.waiting = waiting + 1
        return True


@final
class Transfer(Requester):
    """The writes of a load to feature memory, or the reads of a store. done, size: beats. following: the next load.

    fifos: by port. fixed: what does not change as the transfer goes on; known: its number as of `KnownStretches`.
    """

    def __init__(self, engine: str, fields: Fields, config: Config) -> None:
        super().__init__()
        self._store = engine == "store"
        self._ports: i64 = config.ports
        self._runs: i64 = fields["runs"]
        self._run_beats: i64 = -(-fields["run"] // config.beat_words)
        runs = fields["runs"] * fields["blocks"]
        shares = [-(-(runs - port) // config.ports) * self._run_beats for port in range(min(config.ports, runs))]
        self.fifos = [PortFifo(port, share) for port, share in enumerate(shares)]
        self.size: int = sum(shares)
        self._whole = float(self.size)
        self._banks = RunBanks(fields, config, self.size)
        self._ddr_run: i64 = self._banks.ddr_run  # in beats
        self._ddr_block: i64 = self._banks.ddr_block
        self.fixed = (self._store, *self._banks.fixed)
        self.known = -1
        if self._store:
            self.read_ahead(0)
        self.following: Transfer | None = None
        self.asked: i64 = 0  # ports that have requested their first burst; one port begins in each clock
        self._past: Past = ()  # every PAST_CLOCKS, `moved` by port, the oldest first

    @property
    def moved(self) -> list[int]:
        """Beats to or from feature memory, by port."""
        return [fifo.moved for fifo in self.fifos]

    @property
    def waiting(self) -> list[int]:
        """By port, as of `PortFifo`."""
        return [fifo.waiting for fifo in self.fifos]

    def put(self, moved: Sequence[int], waiting: Sequence[int]) -> None:
        """Sets both, by port. The banks of the next beats are looked up again."""
        for port, fifo in enumerate(self.fifos):
            fifo.moved, fifo.waiting, fifo.needs = moved[port], waiting[port], 0

    def note(self, latency: int) -> None:
        """Notes how far a load is. The room that it makes now is filled `latency` clocks later. To be called every PAST_CLOCKS."""
        count, past = len(self.fifos), self._past
        most = (latency // PAST_CLOCKS + 1) * count
        if len(past) == most:
            past = past[count:]
        self._past = past = past + tuple([fifo.moved for fifo in self.fifos])
        if len(past) == most:
            for port, fifo in enumerate(self.fifos):
                fifo.answered = past[port]

    def read_ahead(self, beats: int) -> None:
        """For a store that has not begun: its FIFOs hold `beats` beats in all, but at least a burst each, and no more than fit."""
        each = min(max(beats // len(self.fifos), BURST_BEATS), STORE_ROOM_BEATS)
        done: i64 = 0
        for fifo in self.fifos:
            own = min(fifo.share, each)
            fifo.moved, fifo.waiting, fifo.needs = own, STORE_ROOM_BEATS - own, 0
            done += own
        self.done = float(done)

    def go_to(self, beats: float) -> None:
        """Moves all ports to the state in which DDR has moved `beats` beats in all. The differences between the ports stay."""
        read_ahead = self.fifo if self._store else 0
        each = round((beats + read_ahead - self.done) / len(self.fifos))
        done = 0
        for fifo in self.fifos:
            fifo.moved = min(max(fifo.moved + each, 0), fifo.share)
            fifo.answered += each
            fifo.needs = 0
            done += fifo.moved
        if each:
            self._past = tuple([moved + each for moved in self._past])
        self.done, self.over = float(done), done == self.size

    @property
    def bursts(self) -> int:
        """The bursts of the port that has most. They end at multiples of 256 bytes, and with their runs."""
        beats, apart = int(self._run_beats), gcd(self._ddr_run if self._runs > 1 else self._ddr_block, BURST_BEATS)
        starts = range(0, BURST_BEATS, apart)  # within 256 bytes, of runs one after another
        each = sum(-(-(start + beats) // BURST_BEATS) for start in starts) / len(starts)
        return ceil(int(self.fifos[0].share) // beats * each)

    @property
    def pace(self) -> int:
        """Beats that a load requests in a clock, over all ports: these get one run together, and each requests a burst at most."""
        return min(int(self._run_beats), BURST_BEATS * len(self.fifos))

    @property
    def fifo(self) -> int:
        """The beats in the FIFOs of all ports, those of following loads included."""
        waiting: i64 = 0
        for fifo in self.fifos:
            waiting += fifo.waiting
        if self._store:
            return STORE_ROOM_BEATS * len(self.fifos) - waiting
        return waiting + (self.following.fifo if self.following else 0)

    def chain(self) -> "list[Transfer]":
        """The transfer and those that follow it."""
        found = list[Transfer]()
        one: Transfer | None = self
        while one is not None:
            found.append(one)
            one = one.following
        return found

    def add_position(self, numbers: list[int], pasts: list[Past]) -> None:
        """Adds all that changes as the transfer goes on, for `go_on`."""
        numbers.append(self.asks)
        numbers.append(int(self.done))
        numbers.append(int(self.over))
        numbers.append(min(self.asked, len(self.fifos)))
        for fifo in self.fifos:
            numbers.append(fifo.moved)
            numbers.append(fifo.waiting)
            numbers.append(fifo.answered)
        pasts.append(self._past)

    def go_on(self, numbers: list[int], at: int, past: Past) -> int:
        """Goes on from the position of an equal transfer, whose numbers begin with number `at`. Returns the number behind them."""
        self.asks, self.done, self._past = numbers[at], float(numbers[at + 1]), past
        self.over, self.asked = numbers[at + 2] > 0, numbers[at + 3]
        at += 4
        for fifo in self.fifos:
            fifo.moved, fifo.waiting, fifo.answered, fifo.needs = numbers[at], numbers[at + 1], numbers[at + 2], 0
            at += 3
        return at

    def add_note(self, numbers: list[int], pasts: list[Past]) -> None:
        """Adds where the transfer stands, for `go_back`."""
        numbers.append(self.asks)
        for fifo in self.fifos:
            numbers.append(fifo.moved << NOTED_BITS | fifo.waiting)
        pasts.append(self._past)

    def go_back(self, numbers: list[int], at: int, past: Past) -> int:
        """As `go_on`, to an earlier position of its own. What was requested, and whether it is over, stays."""
        self.asks, self._past = numbers[at], past
        at += 1
        done: i64 = 0
        for fifo in self.fifos:
            noted: i64 = numbers[at]
            fifo.moved, fifo.waiting, fifo.needs = noted >> NOTED_BITS, noted & (1 << NOTED_BITS) - 1, 0
            done += fifo.moved
            at += 1
        self.done = float(done)
        return at

    def offer(self, clock: int) -> int:
        """The banks of the next request: a beat of each port that has one, unless a lower port needs its bank.

        This is the rule of `hw/dma/runs.py`.
        """
        self.over = self.done == self._whole
        asked: i64 = 0
        goes, passed = 0, 0.0
        for fifo in self.fifos:
            if not fifo.waiting:
                continue
            needs = fifo.needs
            if not needs:
                if fifo.moved >= fifo.share:
                    continue
                needs = self._look_up(fifo)
            if not needs & asked:
                at = fifo.at
                goes |= fifo.coming.places[at]
                fifo.waiting -= 1
                fifo.moved += 1
                passed += 1.0
                at += fifo.step
                fifo.at = at
                fifo.needs = 0
                if at < fifo.end:
                    fifo.needs = fifo.coming.needs[at]
            asked |= needs
        self.done += passed
        return goes

    def bring(self, port: int, others: int = 0) -> bool:
        """Moves a beat between DDR and a port's FIFO if there is room, or else for the following load. False if it can do neither.

        others: beats of an earlier load in the same FIFO.
        """
        if port >= len(self.fifos):
            return False
        fifo = self.fifos[port]
        if self._store:
            return fifo.store_beat()
        late = max(fifo.moved - fifo.answered, 0)
        if fifo.waiting < LOAD_ROOM_BEATS - others - late and fifo.waiting + fifo.moved < fifo.share:
            fifo.waiting += 1
            return True
        if self.following is None:
            return False
        self.following.asked = len(self.fifos)
        return self.following.bring(port, fifo.waiting + late)

    def at_end_of_burst(self, port: int) -> bool:
        """Whether the last beat that DDR has brought to a port ended a burst: at a multiple of 256 bytes, or with its run."""
        fifo = self.fifos[port]
        brought = fifo.moved + fifo.waiting
        if brought == fifo.share:
            return self.following is None or port >= len(self.following.fifos) or self.following.at_end_of_burst(port)
        run = brought // self._run_beats
        beat = brought - run * self._run_beats
        if not beat:
            return True
        run = run * self._ports + port
        block = run // self._runs
        return (block * self._ddr_block + (run - block * self._runs) * self._ddr_run + beat) % BURST_BEATS == 0

    def _look_up(self, fifo: PortFifo) -> "i64":
        """Looks up the banks of a port's next beats. Returns the bank numbers of the next one."""
        if self._run_beats == 1:
            coming, fifo.step = self._banks.single_beats(), self._ports
            fifo.at, fifo.end = fifo.moved * self._ports + fifo.port, self.size
        else:
            run = fifo.moved // self._run_beats
            beat = fifo.moved - run * self._run_beats
            beats = min(self._run_beats - beat, AHEAD_BEATS)
            coming = self._banks.of_run(run * self._ports + fifo.port, beat, beats)
            fifo.at, fifo.end = 0, beats
        fifo.coming = coming
        fifo.needs = coming.needs[fifo.at]
        return fifo.needs
