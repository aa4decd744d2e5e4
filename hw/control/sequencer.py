"""Plays a register program from DDR: fetches it ahead in bursts and hands on its writes one by one.

The sequencer is a client of port 0's read master. `writes.py` takes its writes and may hold it back.
"""

from amaranth import Module, Mux, ResetInserter, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from cnna.hw.base.ports import ReadClient
from cnna.hw.base.queues import RegisteredFifo, SkidBuffer
from cnna.hw.dma.bursts import next_burst
from cnna.hw.dma.segments import BEAT_ADDRESS_BITS, BEAT_SHIFT
from cnna.spec.machine import BEAT_BITS, BURST_BEATS, BUS_BITS

ROOM_BEATS = 64  # 128 writes ahead


class ProgramWrite(data.Struct):
    """One write of a register program, as it lies in memory."""

    offset: unsigned(32)
    value: unsigned(32)


class Sequencer(wiring.Component):
    """`start` (only while `idle`) plays `count` writes from address `base`. `stop` drops the writes that have not been played.

    `idle` is set when no write is left and no burst is outstanding.
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
        m.submodules.beats = beats = RegisteredFifo(unsigned(BEAT_BITS), ROOM_BEATS)
        m.d.comb += [beats.push.eq(self.client.beat.valid), beats.item.eq(self.client.beat.payload.data)]
        fetched, played = self._fetch(m, beats.o.valid & beats.o.ready), self._play(m, beats.o)
        m.d.sync += self.idle.eq(fetched & played & ~self.start)
        return m

    def _fetch(self, m: Module, freed: Value) -> Value:
        """Asks for the program's beats while there is room. Returns whether none is left to ask for, outstanding or queued."""
        burst = self.client.burst
        address = Signal(BEAT_ADDRESS_BITS)
        left = Signal(32)
        room = Signal(range(ROOM_BEATS + 1), init=ROOM_BEATS)
        spent = Signal(5)
        asked = Signal()
        idle = Signal()
        m.d.comb += [asked.eq(burst.valid & burst.ready), burst.payload.address.eq(address << BEAT_SHIFT)]
        m.d.sync += [spent.eq(Mux(asked, burst.payload.beats, 0)), room.eq(room - spent + freed)]
        with m.FSM(name="fetching"):
            with m.State("IDLE"):
                m.d.comb += idle.eq(1)
                m.d.sync += [address.eq(self.base[BEAT_SHIFT:]), left.eq(self.count[1:] + self.count[0])]
                with m.If(self.start & ~self.stop):
                    m.next = "SIZE"
            with m.State("SIZE"):
                m.d.sync += burst.payload.beats.eq(next_burst(address, left)[0])
                m.next = "ROOM"
                with m.If(self.stop | (left == 0)):
                    m.next = "IDLE"
            with m.State("ROOM"):
                with m.If(self.stop):
                    m.next = "IDLE"
                with m.Elif(room >= BURST_BEATS):
                    m.next = "ASK"
            with m.State("ASK"):
                m.d.comb += burst.valid.eq(1)
                with m.If(burst.ready):
                    m.d.sync += [address.eq(address + burst.payload.beats), left.eq(left - burst.payload.beats)]
                    m.next = "SIZE"
        return idle & (spent == 0) & (room == ROOM_BEATS)

    def _play(self, m: Module, beats: stream.Interface) -> Value:
        """Splits each beat into its two writes and drops beats that are no longer wanted. Returns whether no write is wanted."""
        m.submodules.writes = ResetInserter(self.stop)(writes := SkidBuffer(ProgramWrite))
        connect(m, writes.o, flipped(self.write))
        left = Signal(32)  # writes
        wanted = Signal()  # `left` is not 0
        one = Signal()  # `left` is 1
        high = Signal()  # the beat's second write comes next
        moves = Signal()
        m.d.comb += [
            writes.i.valid.eq(beats.valid & wanted),
            writes.i.payload.eq(beats.payload.word_select(high, BEAT_BITS // 2)),
            moves.eq(writes.i.valid & writes.i.ready),
            beats.ready.eq(~wanted | (writes.i.ready & (high | one))),
        ]
        with m.If(moves):
            m.d.sync += [high.eq(~high), left.eq(left - 1), wanted.eq(~one), one.eq(left == 2)]
        with m.If(self.stop):
            m.d.sync += [wanted.eq(0), high.eq(0)]
        with m.Elif(self.start):
            m.d.sync += [left.eq(self.count), wanted.eq(self.count != 0), one.eq(self.count == 1), high.eq(0)]
        return ~wanted & ~self.write.valid
