"""The weight engine: streams weights and parameters from DDR into the two rings, ahead of their use.

Each port brings its stripe of every word of the weight ring at its own pace (`WeightPort`). Port 0 alone fills the vector ring.
A port asks for a burst only if the ring has room for it.
"""

from amaranth import Cat, Const, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from cnna.hw.base.attributes import KEEP
from cnna.hw.base.ports import ReadClient, command_layout
from cnna.hw.base.queues import RegisteredFifo, SkidBuffer
from cnna.hw.base.timing import tally
from cnna.hw.dma.bursts import next_burst
from cnna.hw.dma.segments import BEAT_ADDRESS_BITS, BEAT_SHIFT, SEGMENT_BASES, SEGMENT_SIZES, SegmentCheck
from cnna.hw.weights.codebook import KIND_BITS, CodeDecoder, PairOfBeats
from cnna.hw.weights.ring import stripe_beats
from cnna.spec.codebook import BOOKS, CODES
from cnna.spec.config import Config
from cnna.spec.machine import BEAT_BITS, BURST_BEATS, BUS_BITS, READS_OUTSTANDING, width

BEATS_BITS, TIMES_BITS = width("weight", "beats"), width("weight", "repeat")
PATIENCE_CLOCKS = 32  # that a burst waits for room before it is cut to the room that is left
BURSTS = READS_OUTSTANDING + 2  # of a port, asked for and not complete: on the bus, and on their way to it


class Stripe(data.Struct):
    """What one port brings for one command."""

    ring: unsigned(1)
    address: unsigned(BEAT_ADDRESS_BITS)
    beats: unsigned(BEATS_BITS)
    times: unsigned(TIMES_BITS)


def room_bits(width: int, depth: int, columns: int) -> int:
    """The width of `WordRing.free` for a ring of that size."""
    return (depth * stripe_beats(width, depth, columns)).bit_length()


class RingWrite(wiring.Signature):
    """A column of a ring, seen from the writer: its room in beats, and beats, or `pairs` of them, without back-pressure."""

    def __init__(self, bits: int, pairs: bool = False) -> None:
        super().__init__({"free": In(bits), "beat": Out(stream.Signature(PairOfBeats if pairs else BEAT_BITS, always_ready=True))})


class CodedStripe(data.Struct):
    """A stripe of an accelerator with books, and what its beats are."""

    ring: unsigned(1)
    address: unsigned(BEAT_ADDRESS_BITS)
    beats: unsigned(BEATS_BITS)
    times: unsigned(TIMES_BITS)
    kind: unsigned(KIND_BITS)


class WeightPort(wiring.Component):
    """Streams its stripes in order. It fills one column of each of its rings, `ring0`..; `bits` has the widths of their room.

    With books, beats for `ring0` pass a decoder. Their room is counted in beats of the ring, which the decoder writes later.
    """

    def __init__(self, config: Config, bits: tuple[int, ...]) -> None:
        self.config, self.coded, self.bits = config, config.codebook, bits
        self.shape = CodedStripe if self.coded else Stripe
        super().__init__(
            {
                "stripe": In(stream.Signature(self.shape)),
                "client": Out(ReadClient()),
                "busy": Out(1),
                **{f"ring{number}": Out(RingWrite(width, self.coded and number == 0)) for number, width in enumerate(bits)},
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        rings = [getattr(self, f"ring{number}") for number in range(len(self.bits))]
        burst, beat = self.client.burst, self.client.beat
        tag = unsigned(1 + KIND_BITS) if self.coded else unsigned(1)  # which ring each of up to BURSTS is for, and its kind
        m.submodules.order = order = RegisteredFifo(tag, 2 * READS_OUTSTANDING)
        ring = Signal()
        asked = Signal()
        room = Signal(max(self.bits))
        ended = Signal()
        kind = Signal(KIND_BITS, name="kind") if self.coded else Const(0)
        of_ring = order.o.payload[0] if self.coded else order.o.payload
        spent = Signal(6 if self.coded else 5)  # beats of a ring asked for a clock ago
        spent_ring = Signal()  # for which ring
        m.d.comb += [
            asked.eq(burst.valid & burst.ready),
            order.push.eq(asked),
            order.item.eq(Cat(ring, kind) if self.coded else ring),
        ]
        m.d.comb += [ended.eq(beat.valid & beat.payload.last), order.o.ready.eq(ended)]
        m.d.sync += [spent.eq(Mux(asked, self._ring_beats(burst.payload.beats, kind), 0)), spent_ring.eq(ring)]

        rooms = []
        for number, (column, bits) in enumerate(zip(rings, self.bits, strict=True)):
            expected, mine = Signal(bits, name=f"expected{number}"), Signal(name=f"mine{number}")
            m.d.comb += mine.eq(beat.valid & (of_ring == number))
            came = mine
            if self.coded and number == 0:
                came = self._decode(m, column, mine, beat.payload.data, order.o.payload[1:])
            else:
                m.d.comb += [column.beat.valid.eq(mine), column.beat.payload.eq(beat.payload.data)]
            m.d.sync += expected.eq(expected + Mux(spent_ring == number, spent, 0) - came)
            rooms.append((column.free - expected)[:bits])
        m.d.sync += room.eq(Mux(ring, rooms[-1], rooms[0]) - spent)
        idle = self._ask(m, ring, room, kind)
        m.d.comb += self.busy.eq(self.stripe.valid | ~idle | tally(m, BURSTS, asked, ended).some)
        return m

    def _ring_beats(self, beats: Value, kind: Value) -> Value:
        """The beats of a ring that so many beats of a kind become."""
        return Mux(kind == CODES, beats << 1, Mux(kind == BOOKS, 0, beats)) if self.coded else beats

    def _decode(self, m: Module, column: wiring.PureInterface, mine: Signal, beat: Value, kind: Value) -> Value:
        """Sends the beats for a column through the decoder. Returns how many beats of the ring are written in this clock."""
        m.submodules.decoder = decoder = CodeDecoder(self.config)
        m.d.comb += [decoder.i.valid.eq(mine), decoder.i.payload.data.eq(beat), decoder.i.payload.kind.eq(kind)]
        connect(m, decoder.o, flipped(column.beat))
        return Mux(decoder.o.payload.pair, decoder.o.valid << 1, decoder.o.valid)

    def _ask(self, m: Module, ring: Signal, room: Signal, kind: Signal | Const) -> Signal:
        """Asks for one burst after another, cut at multiples of 256 bytes. Returns whether no stripe is under way.

        A burst waits until the ring has room for all of it, for PATIENCE_CLOCKS at most: the engine may free words only once it has
        the words that fit now.
        """
        burst, stripe = self.client.burst, Signal(self.shape)
        address = Signal(BEAT_ADDRESS_BITS)
        left = Signal(BEATS_BITS)
        beats = Signal(5)
        last = Signal()
        idle = Signal()
        enough = Signal()
        waited = Signal(range(PATIENCE_CLOCKS + 1))
        m.d.comb += [ring.eq(stripe.ring), burst.payload.beats.eq(beats), burst.payload.address.eq(address << BEAT_SHIFT)]
        if self.coded:
            m.d.comb += kind.eq(stripe.kind)
            room = Mux(kind == CODES, room >> 1, Mux(kind == BOOKS, BURST_BEATS, room))  # in beats of the bus
        with m.FSM(name="asking"):
            with m.State("IDLE"):
                m.d.comb += [idle.eq(1), self.stripe.ready.eq(1)]
                m.d.sync += [
                    stripe.eq(self.stripe.payload),
                    address.eq(self.stripe.payload.address),
                    left.eq(self.stripe.payload.beats),
                ]
                with m.If(self.stripe.valid):
                    m.next = "SIZE"
            with m.State("SIZE"):
                size, ends = next_burst(address, left)
                m.d.sync += [beats.eq(size), last.eq(ends), waited.eq(0)]
                m.next = "ROOM"
            with m.State("ROOM"):
                m.d.comb += enough.eq(room >= beats)  # `room` is a clock old; it includes the last burst asked for
                m.d.sync += waited.eq(Mux(waited[-1], waited, waited + 1))
                with m.If(enough):
                    m.next = "ASK"
                with m.Elif(waited[-1] & (room != 0)):
                    m.d.sync += [beats.eq(room), last.eq(0)]
                    m.next = "ASK"
            with m.State("ASK"):
                m.d.comb += burst.valid.eq(1)
                with m.If(burst.ready):
                    m.d.sync += [address.eq(address + beats), left.eq(left - beats)]
                    m.next = "SIZE"
                    with m.If(last):
                        m.d.sync += [address.eq(stripe.address), left.eq(stripe.beats), stripe.times.eq(stripe.times - 1)]
                        with m.If(stripe.times == 1):
                            m.next = "IDLE"
        return idle


class Weights(wiring.Component):
    """Splits each command into a stripe for each port. A port may be a few commands ahead of another.

    `busy` is set from a command's arrival until its last beat has come. `outside` pulses for a stripe beyond its segment.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self.shape = CodedStripe if config.codebook else Stripe
        weight_bits = room_bits(8 * config.ring_word_bytes, config.ring_words, config.ports)
        vector_bits = room_bits(8 * config.vector_word_bytes, config.vector_ring_words, 1)
        self.bits = (weight_bits, vector_bits)
        super().__init__(
            {
                "command": In(stream.Signature(command_layout("weight", config.codebook))),
                "segments": In(SEGMENT_BASES),
                "sizes": In(SEGMENT_SIZES),
                "clients": Out(ReadClient()).array(config.ports),
                "ring": Out(RingWrite(weight_bits, config.codebook)).array(config.ports),
                "vector_ring": Out(RingWrite(vector_bits)),
                "busy": Out(1),
                "outside": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        count, command = self.config.ports, self.command.payload
        stripe = Signal(self.shape)
        turn = Signal(count, init=1)
        give = Signal()
        ready = Signal(count)  # a clock ago
        busy = Signal(count)
        queued = Signal(count)
        waits = Signal(attrs=KEEP)  # a command or stripe; the ports' `busy` come later in the clock
        for number in range(count):
            m.submodules[f"queue{number}"] = queue = SkidBuffer(self.shape)
            m.submodules[f"port{number}"] = port = WeightPort(self.config, self.bits if number == 0 else self.bits[:1])
            connect(m, queue.o, port.stripe)
            connect(m, port.client, flipped(self.clients[number]))
            connect(m, port.ring0, flipped(self.ring[number]))
            if number == 0:
                connect(m, port.ring1, flipped(self.vector_ring))
            m.d.comb += [
                queue.i.payload.eq(stripe),
                queue.i.valid.eq(give & turn[number]),
                *(busy[number].eq(port.busy), queued[number].eq(queue.o.valid)),
            ]
            m.d.sync += ready[number].eq(queue.i.ready)  # a queue's turn comes again after three clocks at the soonest

        base = Signal(BUS_BITS)
        m.d.comb += [
            stripe.ring.eq(command.ring),
            stripe.address.eq(base[BEAT_SHIFT:]),
            stripe.beats.eq(command.beats),
            stripe.times.eq(command.repeat),
            *([stripe.kind.eq(command.code)] if self.config.codebook else []),
            waits.eq(self.command.valid | queued.any()),
            self.busy.eq(waits | busy.any()),
        ]
        m.submodules.bound = bound = SegmentCheck(BEATS_BITS)
        m.d.sync += bound.more.eq(command.beats - 1)
        m.d.comb += [
            bound.sizes.eq(self.sizes),
            bound.segment.eq(command.seg),
            bound.at.eq(stripe.address),
            bound.check.eq(give),
            self.outside.eq(bound.outside),
        ]
        with m.FSM(name="weights"):
            with m.State("IDLE"):
                m.d.sync += [base.eq(self.segments[command.seg]), turn.eq(1)]
                with m.If(self.command.valid):
                    m.next = "BASE"
            with m.State("BASE"):
                m.d.sync += [bound.origin.eq(base[BEAT_SHIFT:]), base.eq(base + command.ddr)]
                m.next = "GIVE"
            with m.State("GIVE"):
                m.d.comb += give.eq(1)
                with m.If((turn & ready).any()):
                    m.d.sync += [base.eq(base + command.port), turn.eq(Cat(turn[-1], turn[:-1]))]
                    with m.If(turn[-1] | command.ring):
                        m.d.comb += self.command.ready.eq(1)
                        m.next = "IDLE"
        return m
