"""The banks of feature memory that the beats of loads and stores need. For `ddr_beats`, which moves the beats.

There are two masks for a beat: `needs` has a bit for each bank number, `places` a bit for each bank of every region. Beats that
move in one clock must need different bank numbers, even in different regions. Other engines are held up by the banks themselves.
"""

from functools import lru_cache
from typing import Final

import numpy as np

from cnna.compiler.cost.engine_steps import Fields
from cnna.compiler.lower.layout import region_words
from cnna.spec.config import BEAT_BYTES, Config
from cnna.spec.program.decks import address_words, located, sets_on

AHEAD_BEATS: Final = 64  # whose banks are looked up together: each stretch looks them up anew, and a run may have thousands
KEPT_RUNS: Final = 2048  # whose beats are kept: some 10 MB


class Banks:
    """The banks of some beats in their order."""

    def __init__(self, needs: list[int], places: list[int]) -> None:
        self.needs, self.places = needs, places


class RunBanks:
    """The banks of the beats of a load's or store's runs.

    fixed: all that they depend on besides the configuration, and where the runs lie in DDR.
    """

    def __init__(self, fields: Fields, config: Config, size: int) -> None:
        self._fm, self._fm_block, self._fm_run = fields["fm"], fields["fm_block"], fields["fm_run"]
        self._run, self._runs = fields["run"], fields["runs"]
        self.ddr_run, self.ddr_block = fields.get("ddr_run", 0) // BEAT_BYTES, fields.get("ddr_block", 0) // BEAT_BYTES
        self.fixed = (self._fm, self._fm_block, self._fm_run, self._run, self._runs, self.ddr_run, self.ddr_block, size)
        self._size, self._ports, self._beat_words = size, config.ports, config.beat_words
        self._bank_count, self._region_words, self._depth = config.banks, region_words(config), config.depth
        self._address_mask = address_words(config.depth) - 1
        self._first_deck = 1 if self._depth > 1 and self._fm > self._address_mask else 0  # in which the first block lies
        self._single: Banks | None = None
        self._known: dict[int, Banks] = {}  # by place and words: many runs are alike

    def single_beats(self) -> Banks:
        """The banks of each run, where a run is a single beat: all at once, since each beat has another run."""
        if self._single is None:
            self._single = self._single_beats()
        return self._single

    def of_run(self, run: int, beat: int, beats: int) -> Banks:
        """The banks of so many beats of a run, AHEAD_BEATS at most, from number `beat` on."""
        block, row = run // self._runs, run % self._runs
        step, count = self._beat_words, self._bank_count
        sets = block if self._depth == 1 else (block + self._first_deck) >> 1
        first = self._fm + sets * self._fm_block + row * self._fm_run + beat * step
        address = first & self._address_mask
        region, place = address // self._region_words, address % self._region_words
        left = self._run - beat * step
        own = min(left, beats * step)
        if place + own <= self._region_words and min(step, self._run) <= count:
            key = (region * count + place % count) * AHEAD_BEATS * BEAT_BYTES + own
            banks = self._known.get(key)
            if banks is None:
                banks = self._known[key] = _beats_of(count, step, region * count + place % count, own)
            return banks
        banks = Banks([], [])
        for number in range(beats):
            needs, places = self._beat_at(first + number * step, min(step, left - number * step))
            banks.needs.append(needs)
            banks.places.append(places)
        return banks

    def _single_beats(self) -> Banks:
        blocks, rows = np.divmod(np.arange(self._size), self._runs)
        first = self._fm + sets_on(self._fm, blocks, self._depth) * self._fm_block + rows * self._fm_run
        words = located(first, np.zeros_like(first), self._depth)
        region, place = np.divmod(words, self._region_words)
        whole = (place + self._run <= self._region_words) & (self._run <= self._bank_count)
        known = {number: _table(self._bank_count, number, self._run) for number in np.unique(region[whole]).tolist()}
        banks = Banks([], [])
        for word, number, bank, inside in zip(
            first.tolist(), region.tolist(), (place % self._bank_count).tolist(), whole.tolist(), strict=True
        ):
            needs, places = known[number][bank] if inside else self._banks_around(word, self._run)
            banks.needs.append(needs)
            banks.places.append(places)
        return banks

    def _beat_at(self, word: int, words: int) -> tuple[int, int]:
        """The banks of a beat of so many words, by its first one, which may lie beyond the region of its run."""
        region, place = divmod(located(word, 0, self._depth), self._region_words)
        if place + words > self._region_words or words > self._bank_count:
            return self._banks_around(word, words)
        return _table(self._bank_count, region, words)[place % self._bank_count]

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
def _table(banks: int, region: int, words: int) -> list[tuple[int, int]]:
    """The banks of a beat of so many words in a region, by its first bank."""
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
    found.append(last[(bank + (beats - 1) * step) % banks])
    return Banks([needs for needs, _ in found], [places for _, places in found])
