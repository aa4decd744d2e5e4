"""The configurations that `cnna explore` compares: a grid of arrays and memories, as far as they are legal and fit."""

from collections.abc import Collection, Iterator
from dataclasses import replace
from itertools import product

from cnna.compiler.explore.point import option
from cnna.compiler.explore.sizes import Budget, bram36, dsp48e2, luts
from cnna.spec.boards import ZCU102, Board
from cnna.spec.config import BEAT_BYTES, Config, ConfigError, preset
from cnna.spec.errors import UserError

PIX, CI, CO = (2, 4, 8, 16), (4, 8, 16), (4, 8, 16, 32, 64)
BANK_WORDS, RING_WORDS = (512, 1024, 2048, 4096, 8192), (512, 1024)
REGIONS, PORTS, VECTOR_RING_WORDS = 4, 4, 512
MEMORIES = 2  # sizes of feature memory that are tried for each array: the greatest that fit
SWEPT = {  # values of what is not swept unless that is asked for
    "ports": (1, 2, 4),
    "regions": (1, 2, 3, 4),
    "ring": (256, 512, 1024, 2048),
    "vector": (256, 512, 1024),
    "banks": BANK_WORDS,
}


def configurations(
    budget: Budget, board: Board = ZCU102, swept: Collection[str] = (), clocks: Collection[int] = ()
) -> list[Config]:
    """The legal configurations of the grid that fit, for a board, and the board's preset.

    swept: names of SWEPT of which all values are tried, and not one or two. clocks: MHz at which each is tried; none: the preset's,
    which is taken to be the greatest that is met. UserError: there is none, no such name, or a clock is above it.
    """
    most = preset(board.key).clock_mhz
    for clock in clocks:
        if not 1 <= clock <= most:
            raise UserError(f"--clock {clock}: must be within 1..{most} MHz; {most} is the clock of {board.key}")
    for name in swept:
        if name not in SWEPT:
            raise UserError(f"--sweep {name}: there is no such one; there are {', '.join(SWEPT)}")
    own = preset(board.key)
    found = [own] if budget.holds(own) else []
    for pix, ci, co in product(PIX, CI, CO):
        sizes = [config for config in _memories(board, budget, (pix, ci, co), swept) if budget.holds(config)]
        greatest = sorted({config.bank_words for config in sizes})[0 if "banks" in swept else -MEMORIES :]
        found += [config for config in sizes if config.bank_words in greatest and option(config) != board.key]
    if not found:
        raise UserError(f"no configuration fits in {budget}; the smallest array takes {_smallest()}")
    return [_at(config, clock, board) for config in found for clock in sorted(set(clocks))] if clocks else found


def _at(config: Config, clock_mhz: int, board: Board) -> Config:
    """A configuration at another clock. Its name begins with its board's."""
    if clock_mhz == config.clock_mhz:
        return config
    name = f"{config.name}, {clock_mhz} MHz" if "-" in config.name else f"{board.key}-preset, {clock_mhz} MHz"
    return replace(config, name=name, clock_mhz=clock_mhz)


def _smallest() -> str:
    config = Config("smallest", min(PIX), min(CI), min(CO), 1, REGIONS, BANK_WORDS[0], RING_WORDS[0], VECTOR_RING_WORDS)
    return f"{dsp48e2(config)} DSP48E2, {bram36(config):g} BRAM36 and {luts(config):,} LUTs"


def _memories(board: Board, budget: Budget, array: tuple[int, int, int], swept: Collection[str]) -> Iterator[Config]:
    """One array with each size of memories and as many ports as it can have; nothing if the array is not legal."""
    pix, ci, co = array
    most = next((n for n in (PORTS, 2, 1) if ci * co % (BEAT_BYTES * n) == 0), 1)
    clock, uram = preset(board.key).clock_mhz, budget.uram288 > 0
    several = {
        "ports": [n for n in SWEPT["ports"] if n <= most] if "ports" in swept else [most],
        "regions": SWEPT["regions"] if "regions" in swept else [REGIONS],
        "banks": BANK_WORDS,
        "ring": SWEPT["ring"] if "ring" in swept else RING_WORDS,
        "vector": SWEPT["vector"] if "vector" in swept else [VECTOR_RING_WORDS],
    }
    for ports, regions, bank_words, ring_words, vector in product(*several.values()):
        name = f"{board.key}-{pix}x{ci}x{co}, {bank_words} bank words, {ring_words} ring words"
        name += f", {ports} ports" * ("ports" in swept) + f", {regions} regions" * ("regions" in swept)
        name += f", {vector} vector ring words" * ("vector" in swept)
        try:
            yield Config(name, pix, ci, co, ports, regions, bank_words, ring_words, vector, clock, uram=uram)
        except ConfigError:
            continue
