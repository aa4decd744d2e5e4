"""A ring of words that several writers fill side by side and one engine reads, holds and frees.

The weight ring (a word is one weight for every (output, input) channel; each AXI port brings a stripe of it) and the vector
engine's parameter ring (a word is weights of some taps) are both this. `weights.py` writes; the engines read through a
`RingCursor`.
"""

from amaranth import Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from cnna.hw.base.ports import LEVEL_BITS, RingRead
from cnna.hw.base.timing import delayed
from cnna.hw.weights.codebook import PairOfBeats
from cnna.spec.config import Config
from cnna.spec.machine import BEAT_BITS


def stripe_beats(width: int, depth: int, columns: int) -> int:
    """Beats of a word in each column. ValueError: this is no whole number, or `level` cannot count so deep a ring."""
    if width % (BEAT_BITS * columns) or not 2 <= depth < 1 << LEVEL_BITS:
        raise ValueError(f"a ring of {depth} words of {width} bits in {columns} columns is not whole beats or too deep")
    return width // BEAT_BITS // columns


class WordRing(wiring.Component):
    """`depth` words of `width` bits. A word is cut into `columns` stripes. Each column's writer appends beats, the lowest first.

    A word counts in `read.level` once all of its stripes are whole. `free[c]` is the room of column c in beats; it follows written
    beats and freed words a clock later. There is no back-pressure: a writer subtracts the beats that it still expects from `free`
    and asks for no beat without room.

    With `pairs`, a writer may also append two beats in a clock, of which the first has an even number in its stripe: the memories
    of even beats get one and those of odd beats the other.
    """

    def __init__(self, width: int, depth: int, columns: int, pairs: bool = False) -> None:
        self.depth, self.columns, self.beats, self.pairs = depth, columns, stripe_beats(width, depth, columns), pairs
        assert not (pairs and self.beats % 2), "the beats of a stripe are no pairs"
        super().__init__(
            {
                "write": In(stream.Signature(PairOfBeats if pairs else BEAT_BITS, always_ready=True)).array(columns),
                "free": Out(range(depth * self.beats + 1), init=depth * self.beats).array(columns),
                "read": In(RingRead(width)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        depth = self.depth
        address = Signal(range(depth))
        sum_ = Signal(LEVEL_BITS + 1)
        wrapped = Signal(signed(LEVEL_BITS + 2))
        tail = Signal(range(depth))
        m.d.comb += [sum_.eq(tail + self.read.offset), wrapped.eq(tail + self.read.offset - depth)]
        m.d.sync += address.eq(Mux(wrapped[-1], sum_, wrapped))
        with m.If(self.read.pop):
            m.d.sync += tail.eq(Mux(tail == depth - 1, 0, tail + 1))

        words, whole = [], Signal(self.columns)
        joined = Signal()
        m.d.comb += joined.eq(whole.all())
        for column in range(self.columns):
            words += self._column(m, column, address, joined, whole)
        with m.If(self.read.pop ^ joined):  # `pop` comes late: it only enables
            m.d.sync += self.read.level.eq(Mux(joined, self.read.level + 1, self.read.level - 1))
        m.d.comb += self.read.data.eq(delayed(m, Cat(words), 1))
        return m

    def _column(self, m: Module, column: int, address: Signal, joined: Signal, whole: Signal) -> list[Signal]:
        """One column: a memory for each beat of its stripe. Returns what the memories read.

        whole[column] is set while the column has whole stripes of words that `read.level` does not count yet.
        """
        write, free, beats = self.write[column], self.free[column], self.beats
        beat = Signal(range(max(beats, 2)))
        row = Signal(range(self.depth))
        ahead = Signal(range(self.depth + 1))
        last = Signal()
        pair = write.payload.pair if self.pairs else 0
        m.d.comb += last.eq(write.valid & ((beat | pair if self.pairs else beat) == beats - 1))
        with m.If(write.valid):
            m.d.sync += beat.eq(Mux(last, 0, beat + 1 + pair if self.pairs else beat + 1))
        with m.If(last):
            m.d.sync += row.eq(Mux(row == self.depth - 1, 0, row + 1))
        with m.If(last & ~joined):
            m.d.sync += [ahead.eq(ahead + 1), whole[column].eq(1)]
        with m.Elif(joined & ~last):
            m.d.sync += [ahead.eq(ahead - 1), whole[column].eq(ahead != 1)]
        self._room(m, free, beats, write.valid, pair)

        read = []
        for index in range(beats):
            memory = Memory(shape=BEAT_BITS, depth=self.depth, init=[])
            m.submodules[f"column{column}_beat{index}"] = memory
            into, out = memory.write_port(), memory.read_port()
            mine, written = beat == index, write.payload
            if self.pairs:
                mine, written = (beat | pair) == (index | pair), write.payload.high if index % 2 else write.payload.low
            m.d.comb += [
                into.en.eq(write.valid & mine),
                into.addr.eq(row),
                into.data.eq(written),
                out.addr.eq(address),
                out.en.eq(1),
            ]
            read.append(out.data)
        return read

    def _room(self, m: Module, free: Signal, beats: int, written: Signal, pair: Value | int) -> None:
        """Counts a column's room. `pop` and `written` come late in the clock.

        For stripes of 2^n beats, `pop` only enables a count of words, and `written` only chooses between the count's successors.
        """
        spent = Mux(pair, written << 1, written) if self.pairs else written
        if beats & (beats - 1):
            m.d.sync += free.eq(free + Mux(self.read.pop, beats, 0) - spent)
            return
        bits = beats.bit_length() - 1
        lower = free[:bits]
        upper = free[bits:]
        fewer = Signal()
        m.d.comb += fewer.eq(written & (lower == 0))
        m.d.sync += lower.eq(lower - spent)
        with m.If(self.read.pop ^ fewer):
            m.d.sync += upper.eq(Cat(_stepped(upper, bit, fewer) for bit in range(len(upper))))


def _stepped(count: Value, bit: int, down: Value) -> Value:
    """A bit of `count - 1`, or without `down` of `count + 1`. Adders would be shared by synthesis, and so begin behind `down`."""
    return count[bit] ^ Mux(down, ~count[:bit].any(), count[:bit].all())


def weight_ring(config: Config) -> WordRing:
    """The weight ring of a configuration: `weights` fills it, `conv` reads it."""
    return WordRing(8 * config.ring_word_bytes, config.ring_words, config.ports, config.codebook)


def vector_ring(config: Config) -> WordRing:
    """The vector ring of a configuration: `weights` fills it, `vector` reads it."""
    return WordRing(8 * config.vector_word_bytes, config.vector_ring_words, 1)


class RingCursor(wiring.Component):
    """Where an engine stands in a ring. It uses the words one after another, holds those that it needs again, and frees the others.

    `take` uses the word under the cursor; `there` must be set. The word is on the ring's `data` RING_LATENCY clocks later. `free`
    with `take` also frees the word, for which the cursor must be on the ring's oldest word. Without `free`, `rewind` with `take`
    returns the cursor to the oldest word.
    """

    def __init__(self, width: int) -> None:
        super().__init__({"ring": Out(RingRead(width)), "take": In(1), "free": In(1), "rewind": In(1), "there": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        level, offset = self.ring.level, self.ring.offset
        m.d.comb += [self.ring.enable.eq(self.take), self.ring.pop.eq(self.take & self.free)]
        with m.If(self.take):
            m.d.sync += offset.eq(Mux(self.free | self.rewind, 0, offset + 1))
            m.d.sync += self.there.eq(Mux(self.free, level > 1, self.rewind | (offset + 1 < level)))
        with m.Else():
            m.d.sync += self.there.eq(offset < level)
        return m
