"""What a configuration takes of a chip, and what a chip has: DSP slices, block RAM, UltraRAM, LUTs.

DSP slices are exact, and memories follow from their shapes. A tool may pack a bank in another way: a bank of `zcu102` has the
shape of eight BRAM36, and Yosys takes 7.5 for it.
LUTs are a fit to those that Yosys counted (docs/resources.json); `tests/compiler/explore/test_sizes.py` compares them.
"""

from typing import NamedTuple

from cnna.spec.boards import Board
from cnna.spec.codebook import BOOK_ROWS, book_beats, stripe_rows
from cnna.spec.config import BEAT_BYTES, TAPS, Config

FIFOS_A_PORT = 4  # BRAM36
URAM_BITS, URAM_WORDS = 72, 4096
MULTIPLIERS_A_PAIR = 2  # of two lanes of a requantiser: a 32-bit by 24-bit product of each in a clock
TWO_PORTS = ((18, 1024, 1), (36, 1024, 2), (18, 2048, 2), (9, 4096, 2), (4, 8192, 2))  # (bits, words, halves of a BRAM36)
ONE_READS = ((36, 512, 1), *TWO_PORTS, (72, 512, 2))  # where one port only writes and the other only reads
# Fitted to zcu102, zcu104 and ultra96: what all need; what a lane of the engines adds; what one of the array's pix * co sums adds
LUTS, LUTS_A_LANE, LUTS_A_SUM = 22_490, 1_775, 108.9
MEMORY_READERS = 7  # of a look-up memory of the decoder; more lanes take more memories
DECODER_LUTS = 268  # of a port's decoder, beside its look-up memories: as Yosys counted at zcu102


class Budget(NamedTuple):
    """What a configuration may take. luts and uram288: None does not bound LUTs, and 0 leaves feature memory in block RAM."""

    dsp: int
    bram36: int
    luts: int | None = None
    uram288: int = 0

    def holds(self, config: Config) -> bool:
        """Whether a configuration fits."""
        blocks = bram36(config) + small_bram36(config)
        within = dsp48e2(config) <= self.dsp and blocks <= self.bram36 and uram288(config) <= self.uram288
        return within and (self.luts is None or luts(config) <= self.luts)

    def __str__(self) -> str:
        logic = f", {self.luts:,} LUTs" if self.luts is not None else ""
        ultra = f", {self.uram288:,} URAM288" if self.uram288 else ""
        return f"{self.dsp:,} DSP48E2, {self.bram36:,} BRAM36{ultra}{logic}"


def budget_of(board: Board) -> Budget:
    """All DSP48E2 and memories of a board's chip, and the share of its LUTs that a preset may take."""
    chip = board.chip
    return Budget(chip.dsps, chip.bram36, board.lut_budget, chip.uram288)


def luts(config: Config) -> int:
    """LUTs, to some 15 %. With depth 2 they are more: 182,972 by Yosys for `zcu102x2`, 12 % above the fit."""
    without = LUTS + LUTS_A_LANE * config.half * config.ci + LUTS_A_SUM * config.pix * config.co
    return round(without) + (decoder_luts(config) if config.codebook else 0)


def decoder_luts(config: Config) -> int:
    """LUTs of the decoders of weights of 4 bits: for each of BOOK_ROWS rows, the memories that its lanes read; and the rest."""
    words = book_beats(config)  # an entry of a memory's books each
    full, rest = divmod(config.ci, MEMORY_READERS)
    row = full * _memory_luts(MEMORY_READERS, words) + _memory_luts(rest, words)
    return config.ports * (min(BOOK_ROWS, stripe_rows(config)) * row + DECODER_LUTS)


def _memory_luts(readers: int, words: int) -> int:
    """LUTs of a memory of bytes: a LUT of two bits and 32 words, or one bit and 64 words, for each reader, and for the writer.

    They come in twos, fours and eights (UG574: RAM32M, RAM32M16, RAM64X1D, RAM64M, RAM64M8).
    """
    slices = next(luts for luts in (2, 4, 8) if readers < luts)
    return max(slices, 4) * 4 if words <= 32 else slices * 8 * -(-words // 64)


def dsp48e2(config: Config) -> int:
    """DSP48E2: one for two products in the array (four with depth 2) and for each tap of the depthwise lanes, two for each two
    requantiser lanes.

    Behind the array and in the vector engine, only lanes of one channel make pairs; in the residual add any two do.
    """
    lanes = config.half * config.ci
    pairs = 2 * config.ci * -(-config.half // 2) + -(-lanes // 2)
    return config.macs // config.depth // 2 + TAPS * lanes + MULTIPLIERS_A_PAIR * pairs


def bram36(config: Config) -> float:
    """BRAM36, counted in halves: the banks of feature memory, the weight ring's beats, the vector engine's ring."""
    bank = 0 if config.uram else _halves(8 * config.depth * config.ci, config.bank_words // config.depth, TWO_PORTS)
    banks = config.regions * config.banks * bank
    beats = config.ring_word_bytes // BEAT_BYTES * _halves(8 * BEAT_BYTES, config.ring_words, ONE_READS)
    return (banks + beats + config.vector_word_beats * _halves(8 * BEAT_BYTES, config.vector_ring_words, ONE_READS)) / 2


def small_bram36(config: Config) -> float:
    """BRAM36 beside the large memories: tables behind the lanes of both engines, and the FIFOs of load and store at each port."""
    return config.half * config.ci / 2 + FIFOS_A_PORT * config.ports


def uram288(config: Config) -> int:
    """URAM288: what the banks of feature memory take of it, with 4,096 words of 72 bits in each."""
    each = -(-8 * config.ci // URAM_BITS) * -(-config.bank_words // URAM_WORDS)
    return config.regions * config.banks * each if config.uram else 0


def _halves(bits: int, words: int, shapes: tuple[tuple[int, int, int], ...]) -> int:
    """Halves of a BRAM36 that a memory takes if all of it has one shape."""
    return min(-(-bits // width) * -(-words // depth) * halves for width, depth, halves in shapes)
