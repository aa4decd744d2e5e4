"""Segments of DDR: their bases and sizes, and the check that a transfer stays within its segment.

The check stands beside the transfer's path, so no transfer waits for it. `runs.py` checks runs, `weights.py` stripes. A fault halts
the masters before the transfer's first AXI address can go out: it takes BOUND_CLOCKS here and one clock in `faults.py`; its
register makes `control.py` halt them at once.
"""

from amaranth import Module, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from cnna.spec.config import BEAT_BYTES
from cnna.spec.machine import BUS_BITS
from cnna.spec.regmap import SEGMENTS, SIZE_BITS

BEAT_SHIFT = BEAT_BYTES.bit_length() - 1
BEAT_ADDRESS_BITS = BUS_BITS - BEAT_SHIFT  # of an address in beats
SIZE_BEAT_BITS = SIZE_BITS - BEAT_SHIFT
SEGMENT_SIZES = data.ArrayLayout(unsigned(SIZE_BEAT_BITS), len(SEGMENTS))  # in beats; all bits set: no limit
SEGMENT_BASES = data.ArrayLayout(unsigned(BUS_BITS), len(SEGMENTS))  # in bytes
BOUND_CLOCKS = 3  # from `check` to `outside`


class SegmentCheck(wiring.Component):
    """Sets `outside`, BOUND_CLOCKS after a `check`, if beats `at`..`at + more` do not all lie in the segment.

    `segment` and `more` must be stable from two clocks before the first check to the last check, `origin` (the segment's base) from
    the first to the last. Addresses are in beats. Differences are modulo the bus's size, so a transfer before the segment counts as
    far behind it.
    """

    def __init__(self, more_bits: int) -> None:
        super().__init__(
            {
                "sizes": In(SEGMENT_SIZES),
                "segment": In(range(len(SEGMENTS))),
                "origin": In(BEAT_ADDRESS_BITS),
                "more": In(more_bits),
                "at": In(BEAT_ADDRESS_BITS),
                "check": In(1),
                "outside": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        size = Signal(SIZE_BEAT_BITS)
        room = Signal(SIZE_BEAT_BITS)  # for the first beat of a transfer
        nowhere = Signal()
        place = Signal(BEAT_ADDRESS_BITS)
        checked = Signal()
        limited = Signal()
        beyond = Signal()
        far = Signal()
        wanted = Signal()
        left = size - self.more
        m.d.sync += [size.eq(self.sizes[self.segment]), room.eq(left), nowhere.eq(left < 0), limited.eq(~size.all())]
        m.d.sync += [
            place.eq(self.at - self.origin),
            checked.eq(self.check),
            beyond.eq(place[:SIZE_BEAT_BITS] >= room),
            far.eq(nowhere | place[SIZE_BEAT_BITS:].any()),
            wanted.eq(checked & limited),
            self.outside.eq(wanted & (beyond | far)),
        ]
        return m
