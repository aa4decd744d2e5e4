"""Finds, for every command, the units of other engines that must finish before each of its own units begins.

The module keeps the last write and the last read of each word of feature memory and each beat of DDR. So it orders two commands if
they touch the same word, and only then. Program order is assumed to be a valid serial order.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cnna.compiler.lower.layout import Box, FeaturePlace, Indices, ddr_beats, feature_indices
from cnna.compiler.plan.command import Access, PlannedCommand
from cnna.spec.config import BEAT_BYTES, Config
from cnna.spec.regmap import COUNT_BITS, COUNTED

FEATURES = "features"


class _LastUses:
    """For each engine that has used a space: the count of its finished units at which its last use of each word is done.

    A space is feature memory or a segment of DDR. A use is a write, or a read.
    """

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self._sizes = sizes
        self._counts: dict[str, dict[str, NDArray[np.int32]]] = {space: {} for space in sizes}  # by space and engine

    def latest(self, space: str, words: Indices) -> list[int]:
        """For each engine, the count at which its last use of any of these words is done."""
        if isinstance(words, slice):
            assert 0 <= words.start <= words.stop <= self._sizes[space], f"words {words} lie beyond {space}"
        counts = self._counts[space]
        return [int(np.maximum.reduce(counts[engine][words])) if engine in counts else 0 for engine in COUNTED]

    def note(self, space: str, words: Indices, engine: str, count: int) -> None:
        """Notes that the engine's last use of these words is done when it has finished `count` units."""
        counts = self._counts[space]
        if engine not in counts:
            counts[engine] = np.zeros(self._sizes[space], np.int32)
        counts[engine][words] = count


class _Progress:
    """What the commands before have used, and how many units each engine has been given. deck_words: as for `feature_indices`."""

    def __init__(self, sizes: Mapping[str, int], deck_words: int) -> None:
        self.deck_words = deck_words
        self.writes, self.reads = _LastUses(sizes), _LastUses(sizes)
        self.issued = dict.fromkeys(COUNTED, 0)


def add_waits(commands: Sequence[PlannedCommand], segments: Mapping[str, int], config: Config) -> list[PlannedCommand]:
    """The commands with their WAIT fields. segments: bytes of each DDR segment that loads and stores use."""
    sizes = {FEATURES: config.feature_words, **{name: -(-size // BEAT_BYTES) for name, size in segments.items()}}
    progress = _Progress(sizes, config.deck_words)
    return [replace(c, fields={**c.fields, **_waits(c, progress)}) if c.units else c for c in commands]


def _waits(command: PlannedCommand, progress: _Progress) -> dict[str, int]:
    """The WAIT fields of a command. Counts the command as issued."""
    own = COUNTED.index(command.engine)
    needs = [[0 for _ in COUNTED] for _ in range(command.units)]  # by unit and engine
    touched: list[tuple[int, _LastUses, str, Indices]] = []
    for access in command.reads:
        for unit in range(command.units if access.unit_blocks else 1):
            space, words = words_of(access, unit, progress.deck_words)
            written = progress.writes.latest(space, words)
            for need in needs[unit : unit + 1] if access.unit_blocks else needs:
                need[:] = map(max, need, written)
            touched.append((unit if access.unit_blocks else command.units - 1, progress.reads, space, words))
    for unit, need in enumerate(needs):
        for access in command.writes:
            space, words = words_of(access, unit, progress.deck_words)
            used = list(map(max, progress.writes.latest(space, words), progress.reads.latest(space, words)))
            # an engine's writes come after its own earlier reads and writes; only stores may overtake each other
            if space == FEATURES:
                used[own] = 0
            need[:] = map(max, need, used)
            touched.append((unit, progress.writes, space, words))
    first = progress.issued[command.engine]
    for unit, uses, space, words in touched:
        uses.note(space, words, command.engine, first + unit + 1)
    fields: dict[str, int] = {}
    for engine, by_unit in zip(COUNTED, zip(*needs, strict=True), strict=True):
        fields |= _wait(engine, by_unit, engine == command.engine, progress.issued[engine])
    progress.issued[command.engine] = first + command.units
    return fields


def _wait(engine: str, need: Sequence[int], own: bool, issued: int) -> dict[str, int]:
    """The WAIT register for one engine. Unit u needs `need[u]` units of that engine; earlier commands have `issued` units.

    `step` is set if unit 0 can then begin earlier, and no unit waits for a unit beyond those of earlier commands.
    """
    count, step = max(need), 0
    start = max(0, *(units - unit for unit, units in enumerate(need)))
    if not own and start < count and start + len(need) - 1 <= issued:
        count, step = start, 1
    enable = int(count > 0 or step > 0)
    return {
        f"wait_{engine}_count": count % (1 << COUNT_BITS) if enable else 0,
        f"wait_{engine}_step": step,
        f"wait_{engine}_enable": enable,
    }


def words_of(access: Access, unit: int, deck_words: int) -> tuple[str, Indices]:
    """The memory space that one unit of a command touches, and the words (or beats) there. deck_words: as for `feature_indices`."""
    box = access.box
    if access.unit_blocks:
        low = box.blocks[0] + unit * access.unit_blocks
        box = Box(box.images, (low, min(low + access.unit_blocks, box.blocks[1])), box.rows, box.columns, box.step)
    if isinstance(access.place, FeaturePlace):
        return FEATURES, feature_indices(access.place, box, deck_words)
    return access.place.segment, ddr_beats(access.place, box)
