"""What both copies of `streams.py` are made of: the host's request, the packet it asks for, its bursts, and how it ended."""

from amaranth import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from cnna.hw.base.ports import BURST_BEATS, BUS_BITS, ReadBurst
from cnna.hw.dma.runs import BEAT_ADDRESS_BITS, BEAT_SHIFT
from cnna.spec.config import BEAT_BYTES
from cnna.spec.regmap import REGISTERS, STREAM_ERRORS

SIZE_BITS = 32
ILLEGAL, RESPONSE, EARLY_END, LATE_END = (STREAM_ERRORS.index(e) for e in ("illegal", "response", "early_end", "late_end"))
STATUS = data.StructLayout({field.name: field.bits for field in REGISTERS["STREAM_IN_STATUS"].fields})


class CopyRequest(wiring.Signature):
    """What the host asks for, seen from the register file; `start` pulses, only while the copy is not busy."""

    def __init__(self) -> None:
        super().__init__({"start": Out(1), "address": Out(BUS_BITS), "bytes": Out(SIZE_BITS)})


class CopyBursts(wiring.Component):
    """The bursts of a copy, each up to the next multiple of 256 bytes, one in two clocks; `stop` ends them."""

    start: In(1)  # only while `idle`
    stop: In(1)
    address: In(BEAT_ADDRESS_BITS)
    beats: In(SIZE_BITS - BEAT_SHIFT + 1)  # not 0
    burst: Out(stream.Signature(ReadBurst))
    idle: Out(1)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        address, left, last = Signal.like(self.address), Signal.like(self.beats), Signal()
        beats = self.burst.payload.beats
        m.d.comb += self.burst.payload.address.eq(address << BEAT_SHIFT)
        with m.FSM(name="cutting"):
            with m.State("IDLE"):
                m.d.comb += self.idle.eq(1)
                m.d.sync += [address.eq(self.address), left.eq(self.beats)]
                with m.If(self.start):
                    m.next = "SIZE"
            with m.State("SIZE"):
                to_boundary = BURST_BEATS - address[:4]
                m.d.sync += [beats.eq(Mux(left < to_boundary, left, to_boundary)), last.eq(left <= to_boundary)]
                m.next = "OFFER"
                with m.If(self.stop):
                    m.next = "IDLE"
            with m.State("OFFER"):
                m.d.comb += self.burst.valid.eq(1)
                with m.If(self.burst.ready):
                    m.d.sync += [address.eq(address + beats), left.eq(left - beats)]
                    m.next = "SIZE"
                with m.If(self.stop | (self.burst.ready & last)):
                    m.next = "IDLE"
        return m


class Packet(wiring.Component):
    """Checks a request and counts its transfers. `begins` pulses for a legal one, after which the rest is known.

    `one`: the next transfer is the last. `keep`: its bytes. `moves` counts on.
    """

    request: In(CopyRequest())
    moves: In(1)
    begins: Out(1)
    illegal: Out(1)
    address: Out(BEAT_ADDRESS_BITS)
    beats: Out(SIZE_BITS - BEAT_SHIFT + 1)
    one: Out(1)
    keep: Out(BEAT_BYTES)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        asked, checked, size, left = Signal(), Signal(), Signal(SIZE_BITS), Signal.like(self.beats)
        low, wrong, mask = Signal(BEAT_SHIFT), Signal(), Signal(BEAT_BYTES)  # mask: the last transfer's bytes
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


def packet_of(m: Module, request: wiring.PureInterface, moves: Value, failed: Value) -> tuple[Packet, CopyBursts]:
    """A copy's packet and its bursts, as submodules: `moves` counts the packet's transfers on, `failed` ends the bursts."""
    m.submodules.packet = packet = Packet()
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
    """The status register: the first cause stays, `failed` is set with it; an illegal request, or `over`, ends the copy."""
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
