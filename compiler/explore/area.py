"""The chip area of a configuration: DSP slices exactly, block RAM from the shapes of its large memories.

`explore` compares configurations by it. Logic is not predicted, and FIFOs are left out: those of load and store, alike in all
configurations of as many ports, are a few block RAMs, others LUTs. A tool may pack a bank tighter, or not as tight.
"""

from cnna.spec.config import BEAT_BYTES, Config

MULTIPLIERS_A_LANE = 2  # of a requantiser: a 32-bit by 24-bit product
REQUANTISERS = 3  # of convolutions, of residuals, of the vector engine
TWO_PORTS = ((18, 1024, 1), (36, 1024, 2), (18, 2048, 2), (9, 4096, 2), (4, 8192, 2))  # (bits, words, halves of a BRAM36)
ONE_READS = ((36, 512, 1), *TWO_PORTS, (72, 512, 2))  # where one port only writes and the other only reads


def dsp48e2(config: Config) -> int:
    """DSP48E2: two products each in the array, one each in the depthwise lanes, two for each lane of a requantiser."""
    lanes = config.half * config.ci
    return config.macs // 2 + lanes + REQUANTISERS * MULTIPLIERS_A_LANE * lanes


def bram36(config: Config) -> float:
    """BRAM36, in halves: the banks of feature memory, the weight ring's beats, the vector engine's ring."""
    banks = config.regions * config.banks * _halves(8 * config.ci, config.bank_words, TWO_PORTS)
    beats = config.ring_word_bytes // BEAT_BYTES * _halves(8 * BEAT_BYTES, config.ring_words, ONE_READS)
    return (banks + beats + _halves(8 * BEAT_BYTES, config.vector_ring_words, ONE_READS)) / 2


def _halves(bits: int, words: int, shapes: tuple[tuple[int, int, int], ...]) -> int:
    """Halves of a BRAM36 that a memory takes, all used in one shape."""
    return min(-(-bits // width) * -(-words // depth) * halves for width, depth, halves in shapes)
