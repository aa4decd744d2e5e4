"""Plays a register program from DDR: fetches it ahead in bursts and hands its writes on, one by one.

A client of port 0's read master; `writes.py` takes what it plays, at its own pace.
"""

from amaranth import Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from cnna.hw.ports import BEAT_BITS, BURST_BEATS, BUS_BITS, ReadClient
from cnna.hw.runs import BEAT_ADDRESS_BITS, BEAT_SHIFT

ROOM_BEATS = 64  # 128 writes ahead


class ProgramWrite(data.Struct):
    """One write of a register program, as it lies in memory."""

    offset: unsigned(32)
    value: unsigned(32)


class Sequencer(wiring.Component):
    """`start` (only while `idle`) plays `count` writes from `base`. `stop` drops what has not been played.

    `idle` is set when nothing is left and no burst is outstanding.
    """

    start: In(1)
    stop: In(1)
    base: In(BUS_BITS)  # a multiple of 16
    count: In(32)
    client: Out(ReadClient())
    write: Out(stream.Signature(ProgramWrite))
    idle: Out(1)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.beats = beats = SyncFIFOBuffered(width=BEAT_BITS, depth=ROOM_BEATS)
        m.d.comb += [beats.w_en.eq(self.client.beat.valid), beats.w_data.eq(self.client.beat.payload.data)]
        fetched, played = self._fetch(m, beats), self._play(m, beats)
        m.d.sync += self.idle.eq(fetched & played & ~beats.r_rdy & ~beats.w_en & ~self.start & (beats.level == 0))
        return m

    def _fetch(self, m: Module, beats: SyncFIFOBuffered) -> Signal:
        """Asks for the program's beats while there is room; answers whether none is left or outstanding."""
        burst, address, left = self.client.burst, Signal(BEAT_ADDRESS_BITS), Signal(32)
        room, expected = Signal(range(ROOM_BEATS + 1), init=ROOM_BEATS), Signal(range(ROOM_BEATS + 1))
        roomy, taken, size, fetched = Signal(init=1), Signal(), Signal(5), Signal()
        to_boundary = BURST_BEATS - address[:4]
        cut = Mux(taken, burst.payload.beats, 0)
        room_next = room - cut + (beats.r_en & beats.r_rdy)
        m.d.comb += [
            size.eq(Mux(left < to_boundary, left, to_boundary)),
            taken.eq(burst.valid & burst.ready),
            fetched.eq((left == 0) & ~burst.valid & (expected == 0)),
        ]
        m.d.sync += [
            room.eq(room_next),
            roomy.eq(room_next >= BURST_BEATS),
            expected.eq(expected + cut - beats.w_en),
        ]
        with m.If(taken):
            m.d.sync += burst.valid.eq(0)
        with m.Elif(~burst.valid & roomy & (left != 0) & ~self.stop):
            m.d.sync += [
                burst.valid.eq(1),
                burst.payload.beats.eq(size),
                burst.payload.address.eq(address << BEAT_SHIFT),
                address.eq(address + size),
                left.eq(left - size),
            ]
        with m.If(self.stop):
            m.d.sync += left.eq(0)
        with m.Elif(self.start):
            m.d.sync += [address.eq(self.base[BEAT_SHIFT:]), left.eq(self.count[1:] + self.count[0])]
        return fetched

    def _play(self, m: Module, beats: SyncFIFOBuffered) -> Signal:
        """Splits beats into their two writes; beats that nobody wants any more are dropped. Answers whether none is wanted."""
        left, high, moves, wanted = Signal(32), Signal(), Signal(), Signal()
        m.d.comb += [
            wanted.eq(left != 0),
            moves.eq(beats.r_rdy & wanted & (~self.write.valid | self.write.ready)),
            beats.r_en.eq(~wanted | (moves & (high | (left == 1)))),
        ]
        with m.If(self.write.ready):
            m.d.sync += self.write.valid.eq(0)
        with m.If(moves):
            m.d.sync += [
                self.write.valid.eq(1),
                self.write.payload.eq(beats.r_data.word_select(high, BEAT_BITS // 2)),
                high.eq(~high),
                left.eq(left - 1),
            ]
        with m.If(self.stop):
            m.d.sync += [left.eq(0), high.eq(0), self.write.valid.eq(0)]
        with m.Elif(self.start):
            m.d.sync += [left.eq(self.count), high.eq(0)]
        return ~wanted & ~self.write.valid
