"""Finds, for every command, the units of other engines that must finish before each of its own units begins.

The module keeps the last write and the last read of each word of feature memory and each beat of DDR. So it orders two commands if
they touch the same word, and only then. Program order is assumed to be a valid serial order.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from cnna.compiler.lower.layout import Box, FeaturePlace, Words, ddr_beats, feature_words
from cnna.compiler.plan.command import Access, PlannedCommand
from cnna.compiler.plan.conflicts import conflicts
from cnna.spec.config import BEAT_BYTES, Config
from cnna.spec.regmap import COUNT_BITS, COUNTED

FEATURES = "features"
NAMES = [(f"wait_{engine}_count", f"wait_{engine}_step", f"wait_{engine}_enable") for engine in COUNTED]
UNNEEDED = {name: 0 for names in NAMES for name in names}
COUNTS = 1 << COUNT_BITS


class Use(NamedTuple):
    """Words that a unit of a command reads or writes; all units do if `whole`. words: their number. chip: of feature memory."""

    unit: int
    whole: bool
    words: int
    chip: bool


@dataclass(eq=False)
class KnownUses:
    """What the commands of plans of one configuration read and write. Many commands of a plan are those of another.

    numbers: of sets of words, with their space. uses: by units and accesses, with the unit that comes last at the end.
    """

    numbers: dict[tuple[str, Words], int] = field(default_factory=dict)
    uses: dict[tuple[int, tuple[Access, ...]], Sequence[Use]] = field(default_factory=dict)

    def of(self, units: int, accesses: tuple[Access, ...], deck_words: int) -> Sequence[Use]:
        """The uses of a command with so many units. deck_words: as for `feature_words`."""
        own = units, accesses
        if own not in self.uses:
            self.uses[own] = self._found(units, accesses, deck_words)
        return self.uses[own]

    def _found(self, units: int, accesses: tuple[Access, ...], deck_words: int) -> Sequence[Use]:
        found: list[Use] = []
        for access in accesses:
            whole = not access.unit_blocks
            for unit in (units - 1,) if whole else range(units):
                words = words_of(access, unit, deck_words)
                found.append(Use(unit, whole, self.numbers.setdefault(words, len(self.numbers)), words[0] == FEATURES))
        return sorted(found)


def add_waits(
    commands: Sequence[PlannedCommand], segments: Mapping[str, int], config: Config, known: KnownUses | None = None
) -> list[PlannedCommand]:
    """The commands with their WAIT fields. segments: bytes of each DDR segment that loads and stores use.

    known: uses of other plans in a feature memory of the same size; gets those of this one.
    """
    known, deck = known or KnownUses(), config.deck_words
    uses = [(known.of(c.units, c.reads, deck), known.of(c.units, c.writes, deck)) if c.units else None for c in commands]
    spans: dict[int, tuple[int, int]] = {}
    for at, both in enumerate(uses):
        for _, _, words, _ in chain(*both) if both else ():
            spans[words] = spans.get(words, (at, at))[0], at
    sizes = {FEATURES: config.feature_words, **{name: -(-size // BEAT_BYTES) for name, size in segments.items()}}
    progress = _Progress(_near(known, spans, sizes))
    return [
        PlannedCommand(c.engine, {**c.fields, **progress.waits(c.engine, c.units, *both)}, *c[2:]) if both else c
        for c, both in zip(commands, uses, strict=True)
    ]


def _near(known: KnownUses, spans: Mapping[int, tuple[int, int]], sizes: Mapping[str, int]) -> dict[int, list[int]]:
    """For each set of words that is used, the numbers of those that share a word with it and are used later.

    spans: by number, the first and the last command that uses the words. sizes: of the spaces.
    """
    spaces: dict[str, list[Words]] = {space: [] for space in sizes}
    places: dict[str, list[int]] = {space: [] for space in sizes}
    for (space, words), number in known.numbers.items():
        if number in spans:
            spaces[space].append(words)
            places[space].append(number)
    near: dict[int, list[int]] = {}
    for space, size in sizes.items():
        own = places[space]
        found = conflicts(space, size, spaces[space], [spans[number] for number in own])
        for number, others in zip(own, found, strict=True):
            near[number] = [own[other] for other in others]
    return near


class _Progress:
    """What the commands so far have used, and how many units each engine has got.

    A use of some words is noted at all sets that share a word with them: by engine, the count of its finished units at which its
    last write is done, and its last use. Counts of an engine only grow, so the last one replaces those before.
    """

    def __init__(self, near: Mapping[int, Sequence[int]]) -> None:
        """near: of each set of words, those that share a word with it and are used later."""
        self._near = near
        self._written = [[0] * (max(near, default=0) + 1) for _ in COUNTED]  # by engine and set of words
        self._used = [[0] * (max(near, default=0) + 1) for _ in COUNTED]
        self._issued = [0] * len(COUNTED)

    def waits(self, engine: str, units: int, reads: Sequence[Use], writes: Sequence[Use]) -> dict[str, int]:
        """The WAIT fields of a command. Counts it as issued."""
        own = COUNTED.index(engine)
        whole, apart = self._needs(own, units, reads, writes)
        first = self._issued[own]
        self._issued[own] = first + units
        used, written = self._used[own], self._written[own]
        for unit, _, words, _ in reads:  # in order of units: the last unit's use is the last one, if accesses overlap
            for number in self._near[words]:
                used[number] = first + unit + 1
        for unit, _, words, _ in writes:
            count = first + unit + 1
            for number in self._near[words]:
                written[number] = count
                if used[number] < count:  # a later unit may read them
                    used[number] = count
        fields = dict(UNNEEDED)
        for other, count in enumerate(whole):
            first_needs = None
            if apart:
                need = [one[other] for one in apart]
                most = max(need)
                if most > count:  # else all units wait for as many
                    first_needs = None if other == own else _first_needs(need, count, most, self._issued[other])
                    count = most
            if count:
                name, step, enable = NAMES[other]
                fields[name] = (count if first_needs is None else first_needs) % COUNTS
                fields[step], fields[enable] = int(first_needs is not None), 1
        return fields

    def _needs(self, own: int, units: int, reads: Sequence[Use], writes: Sequence[Use]) -> tuple[list[int], list[list[int]]]:
        """How many units of each engine must have finished for all units of a command, and beside these for each of its units, if
        one has needs of its own. own: the command's engine.
        """
        whole, apart = [0] * len(COUNTED), list[list[int]]()
        for uses, noted, are_writes in ((reads, self._written, False), (writes, self._used, True)):
            for unit, all_, words, chip in uses:
                need = [counts[words] for counts in noted]
                if chip and are_writes:  # they come after the engine's own earlier uses; only stores may overtake each other
                    need[own] = 0
                if all_:
                    whole = list(map(max, whole, need))
                elif any(need):
                    apart = apart or [[0] * len(COUNTED) for _ in range(units)]
                    apart[unit] = list(map(max, apart[unit], need))
        return whole, apart


def _first_needs(need: Sequence[int], least: int, most: int, issued: int) -> int | None:
    """The units that unit 0 waits for if each unit waits for one more than the one before; None: all wait for `most`.

    They do so if unit 0 can then begin earlier, and no unit waits for a unit beyond those of earlier commands, `issued`. need: of
    each unit, and `most` is the most of it. least: what all need.
    """
    start = max(least, *(units - unit for unit, units in enumerate(need)))
    return start if start < most and start + len(need) - 1 <= issued else None


def words_of(access: Access, unit: int, deck_words: int) -> tuple[str, Words]:
    """The memory space that one unit of a command touches, and the words (or beats) there. deck_words: as for `feature_words`."""
    box = access.box
    if access.unit_blocks:
        low = box.blocks[0] + unit * access.unit_blocks
        box = Box(box.images, (low, min(low + access.unit_blocks, box.blocks[1])), box.rows, box.columns, box.step)
    if isinstance(access.place, FeaturePlace):
        return FEATURES, feature_words(access.place, box, deck_words)
    return access.place.segment, ddr_beats(access.place, box)
