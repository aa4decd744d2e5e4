"""Decodes weights of 4 bits on their way into the weight ring, for one port (`spec.codebook` has the formats).

A beat of codes becomes two beats of the ring in one clock, and plain beats pass. Nothing here can hold a beat back: each clock
takes a beat of any kind. It leaves two clocks after it came.

The books of a row lie in LUT RAM, once for each of its `ci` weights. The rows of a pair of beats are looked up
side by side. Which rows these are depends on the pair's place in its word. The memories of the other places give zeros, because
their registers are held in reset, so their answers and the plain beat meet in one OR.
"""

from amaranth import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from cnna.spec.codebook import BOOK_ROWS, BOOKS, CODES, ENTRIES, PLAIN, book_beats, stripe_rows, word_beats
from cnna.spec.config import BEAT_BYTES, Config
from cnna.spec.machine import BEAT_BITS

CODE_BITS = (ENTRIES - 1).bit_length()
KIND_BITS = 2
READERS = 7  # of a memory: the 8 LUTs of a slice share a writer, and each but the writer's has an address of its own (UG574)


class PairOfBeats(data.Struct):
    """What a column of the weight ring takes in a clock: both beats of a `pair`, or else one beat, which stands in both places."""

    low: unsigned(BEAT_BITS)
    high: unsigned(BEAT_BITS)
    pair: unsigned(1)


class KindOfBeat(data.Struct):
    """A beat from DDR, and what it holds, as WEIGHT_CODE says it."""

    data: unsigned(BEAT_BITS)
    kind: unsigned(KIND_BITS)


class RowBooks(wiring.Component):
    """The books of the rows that have the same place in their sets of rows: `depth` books in turn, each looked up `lanes` times.

    Where `chosen` is set, `values` has the looked-up values a clock later; otherwise it is zeros.
    """

    def __init__(self, books: int, lanes: int) -> None:
        self.books, self.lanes = books, lanes
        bits = (books * ENTRIES - 1).bit_length()
        super().__init__(
            {
                "write": In(1),
                "row": In(bits),
                "entry": In(8),
                "chosen": In(1),
                "book": In(bits - CODE_BITS),
                "codes": In(data.ArrayLayout(CODE_BITS, lanes)),
                "values": Out(data.ArrayLayout(8, lanes)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        found = Signal(8 * self.lanes)
        for first in range(0, self.lanes, READERS):
            m.submodules[f"memory{first}"] = memory = Memory(shape=8, depth=self.books * ENTRIES, init=[])
            into = memory.write_port()
            m.d.comb += [into.en.eq(self.write), into.addr.eq(self.row), into.data.eq(self.entry)]
            for lane in range(first, min(first + READERS, self.lanes)):
                out = memory.read_port(domain="comb")
                m.d.comb += [out.addr.eq(Cat(self.codes[lane], self.book)), found[8 * lane : 8 * lane + 8].eq(out.data)]
        m.d.sync += self.values.eq(Mux(self.chosen, found, 0))
        return m


class CodeDecoder(wiring.Component):
    """One port's way into its column of the weight ring. Books are kept, and give no beat."""

    def __init__(self, config: Config) -> None:
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(KindOfBeat, always_ready=True)),
                "o": Out(stream.Signature(PairOfBeats, always_ready=True)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        config, pair_rows = self.config, 2 * BEAT_BYTES // self.config.ci
        beat = Signal(BEAT_BITS)  # that came a clock ago
        is_kind = Signal(3)  # a bit for its kind
        m.d.sync += [
            beat.eq(self.i.payload.data),
            is_kind.eq(Cat(self.i.valid & (self.i.payload.kind == kind) for kind in range(3))),
        ]
        book, place = self._counts(m, is_kind)
        plain = Signal(BEAT_BITS)
        m.d.sync += [
            plain.eq(Mux(is_kind[PLAIN], beat, 0)),
            self.o.valid.eq(is_kind[PLAIN] | is_kind[CODES]),
            self.o.payload.pair.eq(is_kind[CODES]),
        ]
        low, high = plain, plain
        half = data.ArrayLayout(CODE_BITS, 2 * BEAT_BYTES)
        codes = data.View(half, beat)
        for first in range(min(BOOK_ROWS, stripe_rows(config)) // pair_rows):
            found = []
            for row in range(pair_rows):
                number = first * pair_rows + row
                m.submodules[f"books{number}"] = books = RowBooks(book_beats(config) // ENTRIES, config.ci)
                m.d.comb += [
                    books.write.eq(is_kind[BOOKS]),
                    books.row.eq(book),
                    books.entry.eq(beat.word_select(number, 8)),
                    books.chosen.eq(is_kind[CODES] & (place % (BOOK_ROWS // pair_rows) == first)),
                    books.book.eq(place // (BOOK_ROWS // pair_rows)),
                    *(books.codes[lane].eq(codes[row * config.ci + lane]) for lane in range(config.ci)),
                ]
                found.append(books.values.as_value())
            values = Cat(found)
            low, high = low | values[:BEAT_BITS], high | values[BEAT_BITS:]
        m.d.comb += [self.o.payload.low.eq(low), self.o.payload.high.eq(high)]
        return m

    def _counts(self, m: Module, is_kind: Signal) -> tuple[Signal, Signal]:
        """The number of the next beat of books, and the place of the next pair of beats in its word."""
        counts = []
        for kind, most in ((BOOKS, book_beats(self.config)), (CODES, word_beats(self.config))):
            count = Signal(range(max(most, 2)))
            with m.If(is_kind[kind]):
                m.d.sync += count.eq(Mux(count == most - 1, 0, count + 1))
            counts.append(count)
        return counts[0], counts[1]
