"""The tables behind lanes: an item's results are looked up, each in a memory that two lanes share.

A memory is a block RAM of 18 Kbit with two ports, one for each lane. It has 512 rows of two entries. Two bits choose the *bank* of
128 rows: banks 0 and 1 hold tables in turn, so that one is loaded while items still use the other. Bank IDENTITY gives what it is
asked for. It comes with the bitstream and is never written. Items without a table use it, so nothing leads around the memory.

Both ports write in clocks in which no item stands at the memories: two entries each, port 0 in even rows and port 1 in odd ones.
No item under way uses the bank that is written (`table_credit.py`), so it does not matter which clocks these are.

`Tables` consists of `TableBundle`s, each a module by itself with its own copies of what all memories share.
"""

from amaranth import Cat, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from cnna.hw.base.attributes import COPY
from cnna.hw.base.timing import delayed
from cnna.spec.config import TABLE_BYTES

BANKS = 2  # that are loaded
IDENTITY = BANKS  # the bank that gives what it is asked for
BANK_BITS = 2  # of an item's bank
WRITE_BYTES = 4  # of a table in a clock
WRITES = TABLE_BYTES // WRITE_BYTES
LATENCY = 2  # clocks: the memory, and its output register
BUNDLE_LANES = 4  # at most in one bundle: two block RAMs of 18 Kbit fill one place on the chip
_ROWS = TABLE_BYTES // 2  # in a bank


class TableWrite(data.Struct):
    """Four bytes of a table: entries 4 * `place` and those behind it."""

    valid: unsigned(1)
    bank: range(BANKS)
    place: range(WRITES)
    entries: data.ArrayLayout(8, WRITE_BYTES)


def _identity() -> list[int]:
    """What the memory holds at first: zeros, but for bank IDENTITY."""
    return [0] * (IDENTITY * _ROWS) + [2 * row | (2 * row + 1) << 8 for row in range(_ROWS)]


class TableBundle(wiring.Component):
    """An even number of lanes. All but `i` comes a clock before the clock that it is for."""

    def __init__(self, count: int) -> None:
        assert count % 2 == 0, f"{count} lanes cannot share memories in pairs"
        self.count = count
        ports = {"bank": In(BANK_BITS), "writing": In(1), "place": In(range(WRITES)), "entries": In(8 * WRITE_BYTES)}
        super().__init__(ports | {"i": In(8 * count), "o": Out(8 * count)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        writing = Signal(name="writing_copy", attrs=COPY)
        m.d.sync += writing.eq(self.writing)
        bank, place, entries = (delayed(m, value, 1, attrs=COPY) for value in (self.bank, self.place, self.entries))
        for pair in range(0, self.count, 2):
            m.submodules[f"memory{pair}"] = memory = Memory(shape=16, depth=4 * _ROWS, init=_identity())
            for port in range(2):
                lane = pair + port
                index, into, out = self.i.word_select(lane, 8), memory.write_port(), memory.read_port()
                address = Cat(Mux(writing, Cat(port, place), index[1:]), bank)
                m.d.comb += [
                    *(into.en.eq(writing), into.addr.eq(address), into.data.eq(entries.word_select(port, 16))),
                    *(out.en.eq(1), out.addr.eq(address)),
                ]
                m.d.comb += self.o.word_select(lane, 8).eq(self._chosen(m, out.data, index[0]))
        return m

    def _chosen(self, m: Module, row: Value, odd: Value) -> Value:
        """The entry, behind one LUT; `odd` is the index's lowest bit, from the clock in which the row is asked for."""
        kept = delayed(m, row, 1)
        return Mux(delayed(m, odd, LATENCY), kept[8:], kept[:8])


class Tables(wiring.Component):
    """`lanes` lookups a clock, LATENCY clocks late: `o` is the entry of `i` in `bank`'s table. It cannot be stopped.

    `bank` comes a clock before `i`. So does `write`: in the clock behind it no item may stand at `i`.
    """

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes
        values = data.ArrayLayout(signed(8), lanes)
        super().__init__({"bank": In(BANK_BITS), "write": In(TableWrite), "i": In(values), "o": Out(values)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        write, bank = self.write, Mux(self.write.valid, self.write.bank, self.bank)
        for start in range(0, self.lanes, BUNDLE_LANES):
            count = min(BUNDLE_LANES, self.lanes - start)
            m.submodules[f"bundle{start}"] = one = TableBundle(count)
            lanes = slice(8 * start, 8 * (start + count))
            m.d.comb += [
                *(one.bank.eq(bank), one.writing.eq(write.valid), one.place.eq(write.place)),
                *(one.entries.eq(write.entries), one.i.eq(self.i.as_value()[lanes])),
                self.o.as_value()[lanes].eq(one.o),
            ]
        return m
