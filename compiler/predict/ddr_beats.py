"""Simulates loads and stores clock by clock: the beats at each AXI port, and the requests to feature memory. For `beat_model`.

The model follows `hw/dma/load.py` and `hw/dma/store.py`. The ports take the word runs of a command in turn, and each port has a
FIFO of beats. In a clock, the next beats of all ports form one request to feature memory. A beat waits if it needs the same bank
as the beat of a lower port.
"""

from collections.abc import Sequence
from functools import lru_cache
from math import ceil, gcd, inf
from typing import Final

import numpy as np

from cnna.compiler.cost.engine_steps import Fields
from cnna.compiler.lower.layout import region_words
from cnna.compiler.predict.shared_port import Requester
from cnna.spec.config import BEAT_BYTES, Config
from cnna.spec.machine import BURST_BEATS, LOAD_ROOM_BEATS, STORE_ROOM_BEATS
from cnna.spec.program.decks import address_words, located, sets_on

Banks = list[tuple[int, int]]
Past = tuple[tuple[int, ...], ...]
Fixed = tuple[tuple[bool | int, ...], ...]
Position = tuple[tuple[int, float, bool, int, tuple[int, ...], tuple[int, ...], Past, tuple[int, ...]], ...]
State = tuple[tuple[int, float, tuple[int, ...], tuple[int, ...], Past], ...]
AHEAD_BEATS: Final = 64  # whose banks are looked up together: each stretch looks them up anew, and a run may have thousands
KEPT_RUNS: Final = 2048  # whose beats are kept: some 10 MB
PAST_CLOCKS: Final = 16  # between two notes of how far a load was


class PortFifo:
    """A port's part of a transfer, `share` beats. moved: those that have gone to or from feature memory.

    waiting: for a load, the beats in the FIFO; for a store, the free places there. needs, places: the banks of the next beat, as of
    `Transfer._next_run`; needs 0: not known. coming: those of this beat (number `at`), of some before it and behind it. answered:
    `moved` when those beats were requested that can come now.
    """

    def __init__(self, share: int) -> None:
        self.share, self.moved, self.waiting, self.answered = share, 0, 0, 0
        self.needs = self.places = self.at = 0
        self.coming: Banks = []


class Transfer(Requester):
    """The writes of a load to feature memory, or the reads of a store. done, size: beats. following: the next load.

    fifos: by port.
    """

    def __init__(self, engine: str, fields: Fields, config: Config) -> None:
        super().__init__()
        self._store = engine == "store"
        self._room = STORE_ROOM_BEATS if self._store else LOAD_ROOM_BEATS
        self._fm, self._fm_block, self._fm_run = fields["fm"], fields["fm_block"], fields["fm_run"]
        self._run, self._runs = fields["run"], fields["runs"]
        self._ddr_run, self._ddr_block = (fields.get(name, 0) // BEAT_BYTES for name in ("ddr_run", "ddr_block"))  # in beats
        self._ports, self._beat_words = config.ports, config.beat_words
        self._bank_count, self._region_words, self._depth = config.banks, region_words(config), config.depth
        self._address_mask = address_words(config.depth) - 1
        self._first_deck = 1 if self._depth > 1 and self._fm > self._address_mask else 0  # in which the first block lies
        self._run_beats = -(-fields["run"] // config.beat_words)
        runs = fields["runs"] * fields["blocks"]
        shares = [-(-(runs - port) // config.ports) * self._run_beats for port in range(min(config.ports, runs))]
        self.fifos = [PortFifo(share) for share in shares]
        self.size = sum(shares)
        if self._store:
            self.read_ahead(0)
        self._beats_of_runs: Banks = []  # the banks of all runs, if a run is one beat and one has been asked for
        self.following: Transfer | None = None
        self.asked = 0  # ports that have requested their first burst; one port begins in each clock
        self._past: Past = ()  # `moved` of the last clocks, every PAST_CLOCKS of them, the oldest first

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
        notes = latency // PAST_CLOCKS + 1
        self._past = (*self._past, tuple(self.moved))[-notes:]
        if len(self._past) == notes:
            answered = self._past[0]
            for port, fifo in enumerate(self.fifos):
                fifo.answered = answered[port]

    def read_ahead(self, beats: int) -> None:
        """For a store that has not begun: its FIFOs hold `beats` beats in all, but at least a burst each, and no more than fit."""
        each = min(max(beats // len(self.fifos), BURST_BEATS), self._room)
        moved = [min(fifo.share, each) for fifo in self.fifos]
        self.put(moved, [self._room - own for own in moved])
        self.done = float(sum(moved))

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
            self._past = tuple([tuple([moved + each for moved in past]) for past in self._past])
        self.done, self.over = float(done), done == self.size

    @property
    def bursts(self) -> int:
        """The bursts of the port that has most. They end at multiples of 256 bytes, and with their runs."""
        beats, apart = self._run_beats, gcd(self._ddr_run if self._runs > 1 else self._ddr_block, BURST_BEATS)
        starts = range(0, BURST_BEATS, apart)  # within 256 bytes, of runs one after another
        each = sum(-(-(start + beats) // BURST_BEATS) for start in starts) / len(starts)
        return ceil(self.fifos[0].share // beats * each)

    @property
    def fifo(self) -> int:
        """The beats in the FIFOs of all ports, those of following loads included."""
        waiting = 0
        for fifo in self.fifos:
            waiting += fifo.waiting
        if self._store:
            return self._room * len(self.fifos) - waiting
        return waiting + (self.following.fifo if self.following else 0)

    def state(self) -> State:
        """The present position, for `restore`, with that of the following load."""
        own = (self.asks, self.done, tuple(self.moved), tuple(self.waiting), self._past)
        return (own, *self.following.state()) if self.following else (own,)

    def restore(self, state: State) -> None:
        """Returns to an earlier position."""
        (self.asks, self.done, moved, waiting, self._past), *others = state
        self.put(moved, waiting)
        if self.following and others:
            self.following.restore(tuple(others))

    def fixed(self) -> Fixed:
        """What does not change as the transfer and those that follow it go on."""
        words = self._fm, self._fm_block, self._fm_run, self._run, self._runs, self._ddr_run, self._ddr_block
        own = (self._store, *words, self.size)
        return (own, *self.following.fixed()) if self.following else (own,)

    def position(self) -> Position:
        """All that changes, for `go_on`: also what `state` leaves as it is."""
        moved = tuple(self.moved), tuple(self.waiting), self._past, tuple([fifo.answered for fifo in self.fifos])
        own = (self.asks, self.done, self.over, min(self.asked, len(self.fifos)), *moved)
        return (own, *self.following.position()) if self.following else (own,)

    def go_on(self, position: Position) -> None:
        """Goes on from the position of an equal transfer."""
        (self.asks, self.done, self.over, self.asked, moved, waiting, self._past, answered), *others = position
        self.put(moved, waiting)
        for port, fifo in enumerate(self.fifos):
            fifo.answered = answered[port]
        if self.following:
            self.following.go_on(tuple(others))

    def offer(self, clock: int) -> int:
        """The banks of the next request: a beat of each port that has one, unless a lower port needs its bank.

        This is the rule of `hw/dma/runs.py`.
        """
        self.over = self.done == self.size
        asked = goes = passed = 0
        for port, fifo in enumerate(self.fifos):
            waiting = fifo.waiting
            if not waiting:
                continue
            banks = fifo.needs or self._next_run(fifo, port)
            if not banks & asked and banks:
                goes |= fifo.places
                fifo.waiting = waiting - 1
                fifo.moved += 1
                passed += 1
                at = fifo.at + 1
                fifo.at = at
                if at < len(fifo.coming):
                    fifo.needs, fifo.places = fifo.coming[at]
                else:
                    fifo.needs = 0
            asked |= banks
        self.done += passed
        return goes

    def bring(self, port: int, others: int = 0) -> bool:
        """Moves a beat between DDR and a port's FIFO if there is room, or else for the following load. False if it can do neither.

        others: beats of an earlier load in the same FIFO.
        """
        if port >= len(self.fifos):
            return False
        fifo = self.fifos[port]
        waiting, moved = fifo.waiting, fifo.moved
        if self._store:
            there = self._room - waiting
            if not there or ((moved - there) % BURST_BEATS == 0 and there < BURST_BEATS and moved < fifo.share):
                return False
            fifo.waiting = waiting + 1
            return True
        late = moved - fifo.answered
        late = late if late > 0 else 0
        if waiting < self._room - others - late and waiting + moved < fifo.share:
            fifo.waiting = waiting + 1
            return True
        if self.following is None:
            return False
        self.following.asked = len(self.fifos)
        return self.following.bring(port, waiting + late)

    def at_end_of_burst(self, port: int) -> bool:
        """Whether the last beat that DDR has brought to a port ended a burst: at a multiple of 256 bytes, or with its run."""
        fifo = self.fifos[port]
        brought = fifo.moved + fifo.waiting
        if brought == fifo.share:
            return self.following is None or port >= len(self.following.fifos) or self.following.at_end_of_burst(port)
        beat = brought % self._run_beats
        if not beat:
            return True
        run = brought // self._run_beats * self._ports + port
        return (run // self._runs * self._ddr_block + run % self._runs * self._ddr_run + beat) % BURST_BEATS == 0

    def brought(self, port: int) -> float:
        """Beats that DDR has brought to a port."""
        if port >= len(self.fifos):
            return inf
        fifo = self.fifos[port]
        return fifo.moved + fifo.waiting

    def _next_run(self, fifo: PortFifo, port: int) -> int:
        """The bank numbers of a port's next beat, whose run is looked up; 0 after the last one.

        There are two masks: a bit for each bank number, and in `places` a bit for each bank of every region.
        """
        moved = fifo.moved
        if moved >= fifo.share:
            return 0
        if self._run_beats == 1:
            self._beats_of_runs = self._beats_of_runs or self._single_beats()
            first = moved * self._ports + port
            coming = self._beats_of_runs[first : first + AHEAD_BEATS * self._ports : self._ports]
        else:
            coming = self._run_at(moved // self._run_beats, port, moved % self._run_beats)
        fifo.coming, fifo.at = coming, 0
        fifo.needs, fifo.places = coming[0]
        return fifo.needs

    def _single_beats(self) -> Banks:
        """The banks of each run, in their order, where a run is a single beat: all at once, since each beat has another run."""
        blocks, rows = np.divmod(np.arange(self.size), self._runs)
        first = self._fm + sets_on(self._fm, blocks, self._depth) * self._fm_block + rows * self._fm_run
        words = located(first, np.zeros_like(first), self._depth)
        region, place = np.divmod(words, self._region_words)
        whole = (place + self._run <= self._region_words) & (self._run <= self._bank_count)
        known = {number: _table(self._bank_count, number, self._run) for number in np.unique(region[whole]).tolist()}
        return [
            known[number][bank] if inside else self._banks_around(word, self._run)
            for word, number, bank, inside in zip(
                first.tolist(), region.tolist(), (place % self._bank_count).tolist(), whole.tolist(), strict=True
            )
        ]

    def _run_at(self, run: int, port: int, beat: int) -> Banks:
        """The banks of the next beats of a port's run of that number, AHEAD_BEATS at most. beat: the first one."""
        number = run * self._ports + port
        block, row = number // self._runs, number % self._runs
        step, count, beats = self._beat_words, self._bank_count, min(self._run_beats - beat, AHEAD_BEATS)
        sets = block if self._depth == 1 else (block + self._first_deck) >> 1
        first = self._fm + sets * self._fm_block + row * self._fm_run + beat * step
        address = first & self._address_mask
        region, place = address // self._region_words, address % self._region_words
        left, starts = self._run - beat * step, range(beats)
        if self._words(0) > count:
            return [self._banks_around(first + number * step, min(step, left - number * step)) for number in starts]
        if place + min(left, beats * step) > self._region_words:
            return [self._beat_at(first + number * step, min(step, left - number * step)) for number in starts]
        return _beats_of(count, step, region * count + place % count, min(left, beats * step))

    def _beat_at(self, word: int, words: int) -> tuple[int, int]:
        """The banks of a beat of so many words, by its first one, which may lie beyond the region of its run."""
        region, place = divmod(located(word, 0, self._depth), self._region_words)
        if place + words > self._region_words:
            return self._banks_around(word, words)
        return _table(self._bank_count, region, words)[place % self._bank_count]

    def _words(self, beat: int) -> int:
        """The words in a beat of a run."""
        return min(self._beat_words, self._run - beat * self._beat_words)

    def _banks_around(self, first: int, count: int) -> tuple[int, int]:
        """The banks, word by word, for `count` words that cross the end of a region or need a bank twice."""
        banks, places = 0, 0
        for word in range(first, first + count):
            word = located(word, 0, self._depth)
            mask = 1 << word % self._bank_count
            banks |= mask
            places |= mask << word // self._region_words * self._bank_count
        return banks, places


@lru_cache(256)
def _table(banks: int, region: int, words: int) -> Banks:
    """The banks of a beat of so many words in a region, by its first bank; as of `Transfer._next_run`."""
    bits = [(1 << words) - 1 << first for first in range(banks)]
    masks = [(mask | mask >> banks) & (1 << banks) - 1 for mask in bits]
    return [(mask, mask << region * banks) for mask in masks]


@lru_cache(KEPT_RUNS)
def _beats_of(banks: int, step: int, place: int, words: int) -> Banks:
    """The banks of the beats of a run of so many words in a region. step: words of a beat. place: the first word's bank and region.

    Many runs are alike.
    """
    region, bank = divmod(place, banks)
    beats = -(-words // step)
    whole, last = _table(banks, region, min(step, words)), _table(banks, region, words - (beats - 1) * step)
    found = [whole[(bank + number * step) % banks] for number in range(beats - 1)]
    return [*found, last[(bank + (beats - 1) * step) % banks]]
