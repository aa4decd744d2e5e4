"""The configurations that `cnna explore` compares: a grid of arrays and memories, as far as they are legal and fit."""

from collections.abc import Iterator
from itertools import product

from cnna.compiler.explore.point import option
from cnna.compiler.explore.sizes import Budget, bram36, dsp48e2, luts
from cnna.spec.boards import ZCU102, Board
from cnna.spec.config import BEAT_BYTES, Config, ConfigError, preset
from cnna.spec.errors import UserError

PIX, CI, CO = (2, 4, 8, 16), (4, 8, 16), (4, 8, 16, 32, 64)
BANK_WORDS, RING_WORDS = (512, 1024, 2048, 4096, 8192), (512, 1024)
REGIONS, PORTS = 4, 4
MEMORIES = 2  # sizes of feature memory that are tried for each array: the greatest that fit
LEAST_SHARE = 4  # an array takes at least a quarter of the DSPs: smaller ones are for smaller chips


def configurations(budget: Budget, board: Board = ZCU102) -> list[Config]:
    """The legal configurations of the grid that fit, for a board, and the board's preset. UserError: there is none."""
    own = preset(board.key)
    found = [own] if budget.holds(own) and dsp48e2(own) >= budget.dsp / LEAST_SHARE else []
    for pix, ci, co in product(PIX, CI, CO):
        sizes = [config for config in _memories(board, budget, pix, ci, co) if budget.holds(config)]
        if not sizes or dsp48e2(sizes[0]) < budget.dsp / LEAST_SHARE:
            continue
        greatest = sorted({config.bank_words for config in sizes})[-MEMORIES:]
        found += [config for config in sizes if config.bank_words in greatest and option(config) != board.key]
    if not found:
        raise UserError(f"no configuration fits in {budget}; the smallest array takes {_smallest()}")
    return found


def _smallest() -> str:
    config = Config("smallest", min(PIX), min(CI), min(CO), 1, REGIONS, BANK_WORDS[0], RING_WORDS[0], 512)
    return f"{dsp48e2(config)} DSP48E2, {bram36(config):g} BRAM36 and {luts(config):,} LUTs"


def _memories(board: Board, budget: Budget, pix: int, ci: int, co: int) -> Iterator[Config]:
    """One array with each size of memories and as many ports as it can have; nothing if the array is not legal."""
    ports = next((n for n in (PORTS, 2, 1) if ci * co % (BEAT_BYTES * n) == 0), 1)
    for bank_words, ring_words in product(BANK_WORDS, RING_WORDS):
        name = f"{board.key}-{pix}x{ci}x{co}, {bank_words} bank words, {ring_words} ring words"
        clock, uram = preset(board.key).clock_mhz, budget.uram288 > 0
        try:
            yield Config(name, pix, ci, co, ports, REGIONS, bank_words, ring_words, 512, clock, uram=uram)
        except ConfigError:
            return
