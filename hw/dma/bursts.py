"""Cuts transfers into AXI bursts at multiples of 256 bytes, so that none crosses 4 KiB or has more than 16 beats.

`BurstCutter` cuts the word runs of load and store, a burst a clock. `CopyBursts` cuts the packets of the stream ports. A read
burst then waits for room (`ask_with_room`), and a write burst for its beats (`BurstOffer`).
"""

from amaranth import Cat, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from cnna.hw.base.ports import Burst
from cnna.hw.base.queues import SkidBuffer
from cnna.hw.base.timing import tally
from cnna.hw.dma.segments import BEAT_ADDRESS_BITS, BEAT_SHIFT
from cnna.spec.machine import BURST_BEATS, COPY_BITS, WRITES_OUTSTANDING, width

BLOCK_SHIFT = BURST_BEATS.bit_length() - 1  # of an address in beats: no burst crosses a multiple of so many
RUN_BITS = width("load", "run")  # of a run's words and beats
COPY_BEATS_BITS = COPY_BITS - BEAT_SHIFT + 1  # of a copy's beats
BURSTS = WRITES_OUTSTANDING + 2  # of a client of a write master, taken and not answered: on the bus, and on their way to it


def next_burst(address: Value, left: Value) -> tuple[Value, Value]:
    """Cuts the next burst of `left` beats from `address` (in beats), at multiples of 256 bytes: (beats, whether it is the last)."""
    to_boundary = BURST_BEATS - address[:BLOCK_SHIFT]
    return Mux(left < to_boundary, left, to_boundary), left <= to_boundary


class ByteRun(data.Struct):
    """A run's place in DDR, or the end of a command (then the other members mean nothing)."""

    address: unsigned(BEAT_ADDRESS_BITS)  # in beats
    more: unsigned(RUN_BITS)  # beats after the first
    end: unsigned(1)


class BurstCutter(wiring.Component):
    """Cuts runs into bursts, one a clock. A burst ends at a multiple of 256 bytes or with its run.

    At a command's end, `at_end` is set until `next`. All bursts before the end have then been taken.
    """

    runs: In(stream.Signature(ByteRun))
    bursts: Out(stream.Signature(Burst))
    at_end: Out(1)
    next: In(1)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        run = self.runs.payload
        block = Signal(BEAT_ADDRESS_BITS - BLOCK_SHIFT)  # where
        blocks = Signal(RUN_BITS + 1 - BLOCK_SHIFT)  # how many more
        first = Signal(BLOCK_SHIFT)  # beats within the run's first block
        last = Signal(BLOCK_SHIFT)  # beats within its last
        final = Signal()  # the next burst is the run's last
        busy = Signal()  # a run or an end is here
        end = Signal()
        cut = Signal()
        fetch = Signal()
        m.d.comb += [
            cut.eq(busy & ~end & (~self.bursts.valid | self.bursts.ready)),
            self.at_end.eq(busy & end & ~self.bursts.valid),
            fetch.eq(~busy | (cut & final) | (self.at_end & self.next)),
            self.runs.ready.eq(fetch),
        ]
        with m.If(self.bursts.ready):
            m.d.sync += self.bursts.valid.eq(0)
        with m.If(cut):
            m.d.sync += [
                self.bursts.valid.eq(1),
                self.bursts.payload.address.eq(Cat(first, block) << BEAT_SHIFT),
                self.bursts.payload.beats.eq(Mux(final, last, BURST_BEATS - 1) - first + 1),
                first.eq(0),
                block.eq(block + 1),
                blocks.eq(blocks - 1),
                final.eq(blocks == 1),
            ]
        beyond = run.address[:BLOCK_SHIFT] + run.more  # from the start of the first block to the last beat
        with m.If(fetch):
            m.d.sync += [
                busy.eq(self.runs.valid),
                Cat(first, block).eq(run.address),
                last.eq(beyond[:BLOCK_SHIFT]),
                blocks.eq(beyond[BLOCK_SHIFT:]),
                final.eq(beyond[BLOCK_SHIFT:] == 0),
                end.eq(run.end),
            ]
        return m


class CopyBursts(wiring.Component):
    """Cuts a copy into bursts, one every two clocks. A burst ends at a multiple of 256 bytes or with the copy. `stop` ends them."""

    start: In(1)  # only while `idle`
    stop: In(1)
    address: In(BEAT_ADDRESS_BITS)
    beats: In(COPY_BEATS_BITS)  # not 0
    burst: Out(stream.Signature(Burst))
    idle: Out(1)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        address = Signal.like(self.address)
        left = Signal.like(self.beats)
        last = Signal()
        beats = self.burst.payload.beats
        m.d.comb += self.burst.payload.address.eq(address << BEAT_SHIFT)
        with m.FSM(name="cutting"):
            with m.State("IDLE"):
                m.d.comb += self.idle.eq(1)
                m.d.sync += [address.eq(self.address), left.eq(self.beats)]
                with m.If(self.start):
                    m.next = "SIZE"
            with m.State("SIZE"):
                size, ends = next_burst(address, left)
                m.d.sync += [beats.eq(size), last.eq(ends)]
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


def ask_with_room(
    m: Module, bursts: stream.Interface, asks: stream.Interface, depth: int, taken: Value, stop: Value | None = None
) -> Value:
    """Passes read bursts on when the queue for their beats has room. Returns whether no beat is in the queue or asked for.

    `depth`: beats that the queue holds. `taken`: a beat leaves the queue. `stop` lets no burst through.
    """
    room = Signal(range(depth + 1), init=depth)
    enough = Signal(init=1)  # room for any burst
    asked = Signal()
    spent = Signal(5)  # the beats asked for a clock ago
    freed = Signal()
    opened = enough if stop is None else enough & ~stop
    m.d.comb += [
        asks.valid.eq(bursts.valid & opened),
        asks.payload.eq(bursts.payload),
        bursts.ready.eq(asks.ready & opened),
        asked.eq(asks.valid & asks.ready),
    ]
    m.d.sync += [
        spent.eq(Mux(asked, asks.payload.beats, 0)),
        freed.eq(taken),
        room.eq(room - spent + freed),
        # `room` does not yet include bursts asked for now and a clock ago
        enough.eq((room >= 3 * BURST_BEATS) | ((room >= BURST_BEATS) & ~asked & (spent == 0))),
    ]
    return (spent == 0) & ~freed & (room == depth)


class BurstOffer(wiring.Component):
    """Offers a write burst when all of its beats are in the queue, and counts the bursts without a B response.

    `depth`: beats that the queue holds. `pushed`: a beat enters it. `done`: a response has come. `stop` holds back bursts that are
    not offered yet. `clear` forgets the beats that no burst has taken. `unanswered`: a burst that was offered has no response.
    """

    def __init__(self, depth: int) -> None:
        self.depth = depth
        super().__init__(
            {
                "bursts": In(stream.Signature(Burst)),
                "o": Out(stream.Signature(Burst)),
                "pushed": In(1),
                "done": In(1),
                "stop": In(1),
                "clear": In(1),
                "unanswered": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.queue = queue = SkidBuffer(Burst)
        connect(m, queue.o, flipped(self.o))
        burst = self.bursts
        standing = Signal(range(self.depth + 1))  # beats in the queue that no burst has taken
        whole = Signal()  # they are enough for this burst
        taken = Signal()
        m.d.comb += [
            queue.i.valid.eq(burst.valid & whole),
            queue.i.payload.eq(burst.payload),
            burst.ready.eq(whole & queue.i.ready),
            taken.eq(burst.valid & burst.ready),
            self.unanswered.eq(tally(m, BURSTS, taken, self.done).some),
        ]
        m.d.sync += whole.eq(burst.valid & ~taken & ~self.stop & (standing >= burst.payload.beats))
        with m.If(self.clear):
            m.d.sync += standing.eq(0)
        with m.Else():
            m.d.sync += standing.eq(standing - Mux(taken, burst.payload.beats, 0) + self.pushed)
        return m
