"""From a ring to the lanes' tables: keeps a table's 256 bytes, and writes them in the clocks in which the memories are free.

A ring's words have 16 to 64 bytes (the vector ring) or up to 1,024 (the weight ring), so a table is some words or a part of one.
The bytes stand in slices, each a module by itself with its own copies of what all slices share: at most eight times four bytes.
"""

from amaranth import Array, Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from cnna.hw.base.attributes import COPY
from cnna.hw.base.timing import delayed
from cnna.hw.lanes.tables import BANKS, WRITE_BYTES, WRITES, TableWrite
from cnna.spec.config import TABLE_BYTES

LATENCY = 3  # clocks from a `gap` to its `write`
SLICE_PIECES = 8  # at most in a slice: a bit of the choice drives 128 LUTs
_PIECE_BITS = 8 * WRITE_BYTES


class TableSlice(wiring.Component):
    """`pieces` pieces of each of `rows` words. `load` and `into` come a clock before `word`; `o` comes two clocks after `piece`."""

    def __init__(self, pieces: int, rows: int) -> None:
        self.pieces, self.rows = pieces, rows
        numbers = dict.fromkeys(("into", "row"), In(range(max(rows, 2))))
        choice = {"piece": In(range(max(pieces, 2)))}
        super().__init__({"load": In(1), "word": In(_PIECE_BITS * pieces), "o": Out(_PIECE_BITS)} | numbers | choice)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        load = Signal(name="load_copy", attrs=COPY)
        m.d.sync += load.eq(self.load)
        row = delayed(m, self.row, 1, attrs=COPY) if self.rows > 1 else None
        piece = delayed(m, self.piece, 1, attrs=COPY)
        kept = Signal(len(self.word), reset_less=True)
        if self.rows == 1:
            with m.If(load):
                m.d.sync += kept.eq(self.word)
        else:
            m.submodules.memory = memory = Memory(shape=len(self.word), depth=self.rows, init=[])
            into, out = memory.write_port(), memory.read_port(domain="comb")
            m.d.comb += [
                *(into.en.eq(load), into.addr.eq(delayed(m, self.into, 1, attrs=COPY)), into.data.eq(self.word)),
                *(out.addr.eq(row), kept.eq(out.data)),
            ]
        chosen = Signal(_PIECE_BITS, reset_less=True)
        m.d.sync += chosen.eq(Array(kept.word_select(number, _PIECE_BITS) for number in range(self.pieces))[piece])
        m.d.comb += self.o.eq(chosen)
        return m


class TableLoader(wiring.Component):
    """Keeps one table, then writes it to `bank`.

    `load` is set a clock before `word` is the table's next word, or the part of it that counts. Once the last word has come, each
    clock with `gap` makes a write, which is at `write` LATENCY clocks later. `written` pulses with the last `gap`; from then on
    the next table may come.
    """

    def __init__(self, word_bytes: int) -> None:
        self.word_bytes = word_bytes
        self.rows = -(-TABLE_BYTES // word_bytes)
        used = min(word_bytes, TABLE_BYTES)  # of a word's bytes
        self.pieces = used // WRITE_BYTES  # in a word
        self.size = max(size for size in range(1, SLICE_PIECES + 1) if self.pieces % size == 0)  # of a slice, in pieces
        super().__init__(
            {
                "load": In(1),
                "word": In(8 * used),
                "bank": In(range(BANKS)),
                "gap": In(1),
                "write": Out(TableWrite),
                "written": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        into = Signal(range(max(self.rows, 2)))
        whole = Signal()
        pending = Signal()
        place = Signal(range(WRITES))
        row = Signal.like(into)
        part = Signal(range(64))
        piece = Signal(range(SLICE_PIECES))
        go = Signal()
        parts = self.pieces // self.size
        m.d.comb += [
            whole.eq(self.load & (into == self.rows - 1)),
            go.eq(pending & self.gap),
            self.written.eq(go & (place == WRITES - 1)),
        ]
        with m.If(self.load):
            m.d.sync += into.eq(Mux(whole, 0, into + 1))
        with m.If(whole | self.written):
            m.d.sync += pending.eq(whole)
        with m.If(go):
            m.d.sync += [place.eq(place + 1), piece.eq(piece + 1)]
            with m.If(piece == self.size - 1):
                m.d.sync += [piece.eq(0), part.eq(part + 1)]
                with m.If(part == parts - 1):
                    m.d.sync += [part.eq(0), row.eq(row + 1)]
        with m.If(self.written):
            m.d.sync += [piece.eq(0), part.eq(0), row.eq(0)]
        found = []
        for number in range(parts):
            bits = _PIECE_BITS * self.size
            m.submodules[f"slice{number}"] = one = TableSlice(self.size, self.rows)
            m.d.comb += [
                *(one.load.eq(self.load), one.word.eq(self.word.word_select(number, bits))),
                *(one.into.eq(into), one.row.eq(row), one.piece.eq(piece)),
            ]
            found.append(one.o)
        self._send(m, go, place, Array(found)[delayed(m, part, LATENCY - 1)])
        return m

    def _send(self, m: Module, go: Value, place: Value, entries: Value) -> None:
        """Drives `write`; `entries` come when the other parts have waited for them."""
        m.d.comb += [
            self.write.valid.eq(delayed(m, go, LATENCY, cleared=True)),
            self.write.place.eq(delayed(m, place, LATENCY)),
            self.write.bank.eq(delayed(m, self.bank, LATENCY)),
            self.write.entries.eq(delayed(m, Cat(entries), 1)),
        ]
