"""Finds for every command which units of other engines must finish before each of its own units begins.

Who last wrote and read each word of feature memory and each beat of DDR is kept exactly, so any two commands that touch the same
word are ordered, and no others. Program order is assumed to be a valid serial order.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cnna.compiler.lower.layout import Box, Place, ddr_beats, feature_indices
from cnna.compiler.plan.command import Access, PlannedCommand
from cnna.spec.config import BEAT_BYTES, Config
from cnna.spec.regmap import COUNT_BITS, COUNTED

FEATURES = "features"
Units = NDArray[np.int32]


class _LastUses:
    """For every engine and word: how many units it must have finished for its last write (or read) of the word to be done."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self.wrote = {space: np.zeros((len(COUNTED), size), np.int32) for space, size in sizes.items()}
        self.read = {space: np.zeros((len(COUNTED), size), np.int32) for space, size in sizes.items()}
        self.issued = dict.fromkeys(COUNTED, 0)


def add_waits(commands: Sequence[PlannedCommand], segments: Mapping[str, int], config: Config) -> list[PlannedCommand]:
    """The commands with their WAIT fields. segments: bytes of each DDR segment that loads and stores use."""
    sizes = {FEATURES: config.feature_words, **{name: -(-size // BEAT_BYTES) for name, size in segments.items()}}
    progress = _LastUses(sizes)
    return [replace(c, fields={**c.fields, **_waits(c, progress)}) if c.units else c for c in commands]


def _waits(command: PlannedCommand, progress: _LastUses) -> dict[str, int]:
    """WAIT fields of a command, which is then counted as issued."""
    own = COUNTED.index(command.engine)
    needs = np.zeros((command.units, len(COUNTED)), np.int64)
    touched: list[tuple[int, Units, NDArray[np.int64]]] = []
    for access in command.reads:
        for unit in range(command.units if access.unit_blocks else 1):
            space, words = words_of(access, unit)
            units = slice(unit, unit + 1) if access.unit_blocks else slice(None)
            needs[units] = np.maximum(needs[units], progress.wrote[space][:, words].max(axis=1))
            touched.append((unit if access.unit_blocks else command.units - 1, progress.read[space], words))
    for unit in range(command.units):
        for access in command.writes:
            space, words = words_of(access, unit)
            need = np.maximum(progress.wrote[space][:, words].max(axis=1), progress.read[space][:, words].max(axis=1))
            if space == FEATURES:  # an engine's writes follow its own writes and reads in order; stores may pass each other
                need[own] = 0
            needs[unit] = np.maximum(needs[unit], need)
            touched.append((unit, progress.wrote[space], words))
    first = progress.issued[command.engine]
    for unit, table, words in touched:
        table[own, words] = first + unit + 1
    fields: dict[str, int] = {}
    for index, engine in enumerate(COUNTED):
        fields |= _wait(engine, needs[:, index], engine == command.engine, progress.issued[engine])
    progress.issued[command.engine] = first + command.units
    return fields


def _wait(engine: str, need: NDArray[np.int64], own: bool, issued: int) -> dict[str, int]:
    """The WAIT register for one engine: unit u needs `need[u]` of its units, of which earlier commands give `issued`.

    Waiting step by step is used where it lets unit 0 begin earlier and never waits for a unit that no earlier command has.
    """
    count, step = int(need.max()), 0
    start = max(int((need - np.arange(len(need))).max()), 0)
    if not own and start < count and start + len(need) - 1 <= issued:
        count, step = start, 1
    enable = int(count > 0 or step > 0)
    return {
        f"wait_{engine}_count": count % (1 << COUNT_BITS) if enable else 0,
        f"wait_{engine}_step": step,
        f"wait_{engine}_enable": enable,
    }


def words_of(access: Access, unit: int) -> tuple[str, NDArray[np.int64]]:
    """The space that one unit of a command touches, and its words (or beats) there."""
    box = access.box
    if access.unit_blocks:
        low = box.blocks[0] + unit * access.unit_blocks
        box = Box(box.images, (low, min(low + access.unit_blocks, box.blocks[1])), box.rows, box.columns)
    if isinstance(access.place, Place):
        return FEATURES, feature_indices(access.place, box)
    return access.place.segment, ddr_beats(access.place, box)
