"""Finds, for every command, the units of other engines that must finish before each of its own units begins.

The module keeps the last write and the last read of each word of feature memory and each beat of DDR. So it orders two commands if
they touch the same word, and only then. Program order is assumed to be a valid serial order.
"""

from collections.abc import Mapping, Sequence

from cnna.compiler.lower.layout import Box, FeaturePlace, Words, ddr_beats, feature_words
from cnna.compiler.plan.command import Access, PlannedCommand
from cnna.compiler.plan.conflicts import conflicts
from cnna.spec.config import BEAT_BYTES, Config
from cnna.spec.regmap import COUNT_BITS, COUNTED

FEATURES = "features"
UNNEEDED = {
    engine: dict.fromkeys((f"wait_{engine}_count", f"wait_{engine}_step", f"wait_{engine}_enable"), 0) for engine in COUNTED
}
Use = tuple[int, bool, str, int]  # of a command: the unit, whether all units do it, the space, and the number of the words there


class _LastUses:
    """For some sets of words of a space: by engine, the count of its finished units at which its last use of any of them is done.

    A space is feature memory or a segment of DDR. A use is a write, or a read. Counts of an engine only grow. So a use replaces
    what was noted of each set that shares a word with its own.
    """

    def __init__(self, space: str, size: int, used: Sequence[Words]) -> None:
        """size: of the space. used: all words that commands touch together, each once."""
        self._near = conflicts(space, size, used)
        self._counts = [[0] * (2 * len(COUNTED)) for _ in used]  # of writes, then of reads

    def latest(self, words: int) -> list[int]:
        """For each engine, the count at which its last write to any of these is done. Then the same of its last read."""
        return self._counts[words]

    def note(self, words: int, use: int, count: int) -> None:
        """Notes that an engine's last use of these is done when it has finished `count` units. use: its place in `latest`."""
        for number in self._near[words]:
            self._counts[number][use] = count


def add_waits(commands: Sequence[PlannedCommand], segments: Mapping[str, int], config: Config) -> list[PlannedCommand]:
    """The commands with their WAIT fields. segments: bytes of each DDR segment that loads and stores use."""
    sizes = {FEATURES: config.feature_words, **{name: -(-size // BEAT_BYTES) for name, size in segments.items()}}
    numbers: dict[str, dict[Words, int]] = {space: {} for space in sizes}
    deck = config.deck_words
    uses = [(_uses(c, c.reads, numbers, deck), _uses(c, c.writes, numbers, deck)) if c.units else None for c in commands]
    spaces = {space: _LastUses(space, size, list(numbers[space])) for space, size in sizes.items()}
    issued = dict.fromkeys(COUNTED, 0)
    return [
        c._replace(fields={**c.fields, **_waits(c, *both, spaces, issued)}) if both else c
        for c, both in zip(commands, uses, strict=True)
    ]


def _uses(
    command: PlannedCommand, accesses: Sequence[Access], numbers: Mapping[str, dict[Words, int]], deck_words: int
) -> list[Use]:
    """What a command reads, or what it writes, unit by unit where units differ. numbers: of words; gets those that are new."""
    found: list[Use] = []
    for access in accesses:
        whole = not access.unit_blocks
        for unit in (command.units - 1,) if whole else range(command.units):
            space, words = words_of(access, unit, deck_words)
            known = numbers[space]
            found.append((unit, whole, space, known.setdefault(words, len(known))))
    return found


def _waits(
    command: PlannedCommand, reads: Sequence[Use], writes: Sequence[Use], spaces: Mapping[str, _LastUses], issued: dict[str, int]
) -> dict[str, int]:
    """The WAIT fields of a command. Counts the command as issued."""
    own, first = COUNTED.index(command.engine), issued[command.engine]
    needs = [[0] * len(COUNTED) for _ in range(command.units)]  # by unit and engine
    for unit, whole, space, words in reads:
        written = spaces[space].latest(words)
        for need in needs if whole else (needs[unit],):
            need[:] = map(max, need, written)
    for unit, whole, space, words in writes:
        latest = spaces[space].latest(words)
        used = list(map(max, latest, latest[len(COUNTED) :]))
        # an engine's writes come after its own earlier reads and writes; only stores may overtake each other
        if space == FEATURES:
            used[own] = 0
        for need in needs if whole else (needs[unit],):
            need[:] = map(max, need, used)
    for kind, touched in enumerate((writes, reads)):
        for unit, _, space, words in sorted(touched):  # the last unit's use is the last one, if accesses overlap
            spaces[space].note(words, kind * len(COUNTED) + own, first + unit + 1)
    fields: dict[str, int] = {}
    for engine, by_unit in zip(COUNTED, zip(*needs, strict=True), strict=True):
        fields |= _wait(engine, by_unit, engine == command.engine, issued[engine])
    issued[command.engine] = first + command.units
    return fields


def _wait(engine: str, need: Sequence[int], own: bool, issued: int) -> Mapping[str, int]:
    """The WAIT register for one engine. Unit u needs `need[u]` units of that engine; earlier commands have `issued` units.

    `step` is set if unit 0 can then begin earlier, and no unit waits for a unit beyond those of earlier commands.
    """
    count, step = max(need), 0
    if not count:
        return UNNEEDED[engine]
    if not own and len(need) > 1:
        start = max(0, *(units - unit for unit, units in enumerate(need)))
        if start < count and start + len(need) - 1 <= issued:
            count, step = start, 1
    return {
        f"wait_{engine}_count": count % (1 << COUNT_BITS),
        f"wait_{engine}_step": step,
        f"wait_{engine}_enable": 1,
    }


def words_of(access: Access, unit: int, deck_words: int) -> tuple[str, Words]:
    """The memory space that one unit of a command touches, and the words (or beats) there. deck_words: as for `feature_words`."""
    box = access.box
    if access.unit_blocks:
        low = box.blocks[0] + unit * access.unit_blocks
        box = Box(box.images, (low, min(low + access.unit_blocks, box.blocks[1])), box.rows, box.columns, box.step)
    if isinstance(access.place, FeaturePlace):
        return FEATURES, feature_words(access.place, box, deck_words)
    return access.place.segment, ddr_beats(access.place, box)
