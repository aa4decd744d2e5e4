"""Copies between the stream ports and DDR, beside the engines: `StreamIn` from `s_axis` to DDR, `StreamOut` from DDR to `m_axis`.

Each way copies one packet at a time: any number of bytes, at an address that is a multiple of 16. The copies are the last clients
of port 0's masters (`read_master.py`, `write_master.py`). If a copy stops early, its packet is taken or sent up to a TLAST, so
that the other end of the stream is ready for the next packet.
"""

from amaranth import Cat, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from cnna.hw.axi.buses import AxiStream
from cnna.hw.base.ports import ReadClient, WriteBeat, WriteClient
from cnna.hw.base.queues import RegisteredFifo, SkidBuffer
from cnna.hw.base.timing import tally
from cnna.hw.dma.bursts import BurstOffer, CopyBursts, ask_with_room
from cnna.hw.dma.segments import BEAT_ADDRESS_BITS, BEAT_SHIFT
from cnna.spec.config import BEAT_BYTES
from cnna.spec.machine import BEAT_BITS, BUS_BITS, COPY_BITS
from cnna.spec.regmap import REGISTERS, STREAM_ERRORS

ILLEGAL, RESPONSE, EARLY_END, LATE_END = (STREAM_ERRORS.index(e) for e in ("illegal", "response", "early_end", "late_end"))
STATUS = data.StructLayout({field.name: field.bits for field in REGISTERS["STREAM_IN_STATUS"].fields})


class CopyRequest(wiring.Signature):
    """What the host asks for, seen from the register file. `start` pulses only while the copy is not busy."""

    def __init__(self) -> None:
        super().__init__({"start": Out(1), "address": Out(BUS_BITS), "bytes": Out(COPY_BITS)})


class CopyPacket(wiring.Component):
    """Checks a request and counts its transfers. `begins` pulses for a legal request; the other outputs are valid from then on.

    `one`: the next transfer is the packet's last. `keep`: which of its bytes exist. `moves` counts one transfer.
    """

    request: In(CopyRequest())
    moves: In(1)
    begins: Out(1)
    illegal: Out(1)
    address: Out(BEAT_ADDRESS_BITS)
    beats: Out(COPY_BITS - BEAT_SHIFT + 1)
    one: Out(1)
    keep: Out(BEAT_BYTES)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        asked = Signal()
        checked = Signal()
        size = Signal(COPY_BITS)
        left = Signal.like(self.beats)
        low = Signal(BEAT_SHIFT)
        wrong = Signal()
        mask = Signal(BEAT_BYTES)  # the last transfer's bytes
        m.d.sync += [asked.eq(self.request.start), checked.eq(asked), wrong.eq((low != 0) | (size == 0))]
        m.d.sync += [self.begins.eq(checked & ~wrong), self.illegal.eq(checked & wrong)]
        with m.If(self.request.start):
            m.d.sync += [size.eq(self.request.bytes), Cat(low, self.address).eq(self.request.address)]
        rest = size[:BEAT_SHIFT]
        m.d.sync += self.beats.eq((size + BEAT_BYTES - 1)[BEAT_SHIFT:])
        m.d.sync += mask.eq(Mux(rest == 0, (1 << BEAT_BYTES) - 1, (1 << rest) - 1))
        full = (1 << BEAT_BYTES) - 1
        with m.If(checked):
            m.d.sync += [left.eq(self.beats), self.one.eq(self.beats == 1), self.keep.eq(Mux(self.beats == 1, mask, full))]
        with m.Elif(self.moves):
            m.d.sync += [left.eq(left - 1), self.one.eq(left == 2), self.keep.eq(Mux(left == 2, mask, full))]
        return m


def packet_of(m: Module, request: wiring.PureInterface, moves: Value, failed: Value) -> tuple[CopyPacket, CopyBursts]:
    """A copy's packet and its bursts, as submodules. `moves` counts one transfer of the packet; `failed` ends the bursts."""
    m.submodules.packet = packet = CopyPacket()
    m.submodules.bursts = bursts = CopyBursts()
    connect(m, flipped(request), packet.request)
    m.d.comb += [
        packet.moves.eq(moves),
        bursts.start.eq(packet.begins),
        bursts.address.eq(packet.address),
        bursts.beats.eq(packet.beats),
        bursts.stop.eq(failed),
    ]
    return packet, bursts


def report(
    m: Module, start: Value, status: data.View, failed: Signal, causes: list[tuple[Value, int]], response: Value, over: Value
) -> None:
    """Keeps the status register. The first cause stays and sets `failed`. An illegal request, or `over`, ends the copy."""
    m.d.comb += failed.eq(status.cause != 0)
    with m.If(start):
        m.d.sync += [status.busy.eq(1), status.done.eq(0), status.cause.eq(0), status.response.eq(0)]
    with m.Else():
        for condition, cause in reversed(causes):
            with m.If(condition & ~failed):
                m.d.sync += status.cause.eq(cause)
                m.d.sync += status.response.eq(response if cause == RESPONSE else 0)
        with m.If((status.cause == ILLEGAL) | over):
            m.d.sync += [status.busy.eq(0), status.done.eq(status.busy & ~failed | status.done)]


OUT_BEATS = 256  # that wait for `m_axis`, or are asked for: a beat a clock at up to 240 clocks latency
IN_BEATS = 128  # that wait for the write master


class StreamTransfer(data.Struct):
    """A transfer of a stream port."""

    data: unsigned(BEAT_BITS)
    keep: unsigned(BEAT_BYTES)
    last: unsigned(1)


class AnsweredBeat(data.Struct):
    """A beat from DDR with its response."""

    data: unsigned(BEAT_BITS)
    response: unsigned(2)


class StreamIn(wiring.Component):
    """Copies from `axis` to DDR. `bad` and `response` come with the client's `done`.

    A wrong transfer is not written, nor are the others of its burst: it is the last transfer that is counted, so its burst never
    goes out.
    """

    request: In(CopyRequest())
    axis: In(AxiStream())
    client: Out(WriteClient())
    bad: In(1)
    response: In(2)
    status: Out(STATUS)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        status = self.status
        failed = Signal()
        pushed = Signal()
        packet, bursts = packet_of(m, self.request, pushed, failed)
        m.submodules.beats = beats = RegisteredFifo(WriteBeat, IN_BEATS)
        m.submodules.coming = coming = SkidBuffer(StreamTransfer)
        accepts = Signal()  # TLAST is to come to the port
        opened = Signal()  # TLAST is to come here
        begun = Signal()  # the copy is under way
        came, moves = coming.o, Signal()
        self._arrive(m, coming, accepts)
        free = tally(m, IN_BEATS, pushed, beats.o.valid & beats.o.ready)
        m.d.comb += [
            came.ready.eq(opened & free.room),  # there will be room: the beats that fill the queue are in bursts that were offered
            moves.eq(came.valid & came.ready),
            pushed.eq(moves & ~failed),
            beats.push.eq(pushed),
            beats.item.data.eq(came.payload.data),
            beats.item.strobe.eq(came.payload.keep),
        ]
        unanswered = self._write(m, bursts, beats, pushed, failed)
        rest = Signal()  # only beats that no burst will take are left
        over = Signal()
        m.d.comb += over.eq(rest & ~free.some)
        m.d.sync += rest.eq(begun & ~opened & bursts.idle & ~unanswered & ~over)
        with m.If(packet.begins):
            m.d.sync += [accepts.eq(1), opened.eq(1), begun.eq(1)]
        with m.Else():
            m.d.sync += accepts.eq(accepts & ~(self.axis.tvalid & self.axis.tready & self.axis.tlast))
            m.d.sync += [opened.eq(opened & ~(moves & came.payload.last)), begun.eq(begun & ~over)]
        m.d.comb += beats.o.ready.eq(self.client.beat.ready | (rest & failed))
        lacks = (packet.keep & ~came.payload.keep).any() | (came.payload.last & ~packet.one)
        extra = (came.payload.keep & ~packet.keep).any() | (packet.one & ~came.payload.last)
        causes = [(self.bad, RESPONSE), (pushed & lacks, EARLY_END), (pushed & extra, LATE_END), (packet.illegal, ILLEGAL)]
        report(m, self.request.start, status, failed, causes, self.response, over)
        return m

    def _arrive(self, m: Module, coming: SkidBuffer, accepts: Value) -> None:
        """Registers what comes on the port. Nothing is taken outside of a copy's packet."""
        axis, into = self.axis, coming.i
        m.d.comb += [
            into.payload.data.eq(axis.tdata),
            into.payload.keep.eq(axis.tkeep),
            into.payload.last.eq(axis.tlast),
            into.valid.eq(axis.tvalid & accepts),
            axis.tready.eq(into.ready & accepts),
        ]

    def _write(self, m: Module, bursts: CopyBursts, beats: RegisteredFifo, pushed: Value, failed: Value) -> Value:
        """Offers the bursts, and gives their beats. Returns whether a burst that was offered has no B response."""
        m.submodules.offer = offer = BurstOffer(IN_BEATS)
        connect(m, bursts.burst, offer.bursts)
        connect(m, offer.o, flipped(self.client.burst))
        m.d.comb += [
            offer.pushed.eq(pushed),
            offer.done.eq(self.client.done),
            offer.stop.eq(failed),
            offer.clear.eq(self.request.start),
            self.client.beat.payload.eq(beats.o.payload),
            self.client.beat.valid.eq(beats.o.valid),
        ]
        return offer.unanswered


class StreamOut(wiring.Component):
    """Copies from DDR to `axis`. `response` comes with each of the client's beats; a bad one ends the packet at that beat."""

    request: In(CopyRequest())
    axis: Out(AxiStream())
    client: Out(ReadClient())
    response: In(2)
    status: Out(STATUS)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        status = self.status
        failed = Signal()
        moves = Signal()
        packet, bursts = packet_of(m, self.request, moves, failed)
        m.submodules.beats = beats = RegisteredFifo(AnsweredBeat, OUT_BEATS, late=True)
        m.submodules.going = going = SkidBuffer(StreamTransfer)
        opened = Signal()  # TLAST is yet to go
        begun = Signal()  # the copy is under way
        over = Signal()  # the copy is over
        bad, item = Signal(), going.i.payload
        idle = self._read(m, bursts, beats, failed)
        m.d.comb += [
            bad.eq(beats.o.payload.response != 0),
            item.data.eq(beats.o.payload.data),
            item.keep.eq(packet.keep),
            item.last.eq(packet.one | bad),
            going.i.valid.eq(opened & beats.o.valid),
            moves.eq(going.i.valid & going.i.ready),
            beats.o.ready.eq(~opened | going.i.ready),
        ]
        with m.If(packet.begins):
            m.d.sync += [opened.eq(1), begun.eq(1)]
        with m.Else():
            m.d.sync += [opened.eq(opened & ~(moves & item.last)), begun.eq(begun & ~over)]
        axis, out = self.axis, going.o
        m.d.comb += [axis.tdata.eq(out.payload.data), axis.tkeep.eq(out.payload.keep), axis.tlast.eq(out.payload.last)]
        m.d.comb += [axis.tvalid.eq(out.valid), out.ready.eq(axis.tready)]
        m.d.sync += over.eq(begun & ~opened & ~out.valid & idle & ~over)
        causes = [(moves & bad, RESPONSE), (packet.illegal, ILLEGAL)]
        report(m, self.request.start, status, failed, causes, beats.o.payload.response, over)
        return m

    def _read(self, m: Module, bursts: CopyBursts, beats: RegisteredFifo, failed: Value) -> Value:
        """Asks for bursts that have room. Returns whether none is left, outstanding or in the queue."""
        beat = self.client.beat
        m.d.comb += [
            beats.push.eq(beat.valid),
            beats.item.data.eq(beat.payload.data),
            beats.item.response.eq(self.response),
        ]
        empty = ask_with_room(m, bursts.burst, self.client.burst, OUT_BEATS, beats.o.valid & beats.o.ready, failed)
        return bursts.idle & empty
