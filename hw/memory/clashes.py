"""Which ports' beats have to wait, so that those which go on together need different banks of feature memory.

Used by `load` and `store`. Beats that share a bank would hold up all of their request, and ports of runs that lie a multiple of
the banks apart would stay abreast, sharing one bank after another; a port that waits by itself falls a beat behind, and is past it.
"""

from amaranth import Cat, Const, Value
from amaranth.lib import stream
from amaranth.utils import ceil_log2

from cnna.spec.config import Config


def clashes(config: Config, beats: list[stream.Interface]) -> list[Value]:
    """For each port whether its beat shares a bank with a lower port's, be that one to wait too.

    beats: streams with the `active` lanes and their `address`es. The lowest port that has a beat never waits.
    """
    found: list[Value] = []
    for number, beat in enumerate(beats):
        shared = [lower.valid & _shared(config, lower.payload, beat.payload) for lower in beats[:number]]
        found.append(Cat(shared).any() if shared else Const(0))
    return found


def _shared(config: Config, one: Value, other: Value) -> Value:
    """Whether active lanes of two beats need the same bank, of whatever region."""
    lanes, bits = range(config.beat_words), ceil_log2(config.banks)
    return Cat(
        one.active[a] & other.active[b] & (one.address[a][:bits] == other.address[b][:bits]) for a in lanes for b in lanes
    ).any()
