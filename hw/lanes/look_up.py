"""Behind the lanes of a drain: their results go through the tables, and tables come from the ring. `LookUp` mostly connects."""

from amaranth import Module
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from cnna.hw.base.timing import delayed
from cnna.hw.lanes import requant, table_loader, tables
from cnna.hw.lanes.table_loader import TableLoader
from cnna.hw.lanes.tables import BANK_BITS, BANKS, Tables
from cnna.spec.config import TABLE_BYTES

LATENCY = requant.LATENCY + tables.LATENCY  # clocks from an item at the lanes to what was looked up
GAP_AHEAD = table_loader.LATENCY + 1  # clocks from a gap for the loader to the write in the memories


class LookUp(wiring.Component):
    """Looks up what `lanes` lanes answer.

    `valid`, `bank` and `last` belong to the item at the lanes' ports; `last` marks the last item of a group. `results` are the
    lanes' answers, with `results_valid`. `o` and `o_valid` come LATENCY clocks after the item. `passed` pulses for a bank
    once a group of it needs the bank no more.

    `load` is set a clock before `word` is a table's next word. The table goes into bank `newest`, and `written` pulses once it has.
    """

    def __init__(self, lanes: int, word_bytes: int) -> None:
        self.lanes, self.word_bytes = lanes, word_bytes
        values = data.ArrayLayout(8, lanes)
        super().__init__(
            {
                **dict.fromkeys(("valid", "last", "results_valid", "load", "newest"), In(1)),
                "bank": In(BANK_BITS),
                "results": In(values),
                "word": In(8 * min(word_bytes, TABLE_BYTES)),
                "written": Out(1),
                "passed": Out(BANKS),
                "o": Out(values),
                "o_valid": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.loader = loader = TableLoader(self.word_bytes)
        m.submodules.tables = found = Tables(self.lanes)
        before = delayed(m, self.valid, requant.LATENCY - GAP_AHEAD, cleared=True)
        bank = delayed(m, self.bank, requant.LATENCY - 1)
        m.d.comb += [
            *(loader.load.eq(self.load), loader.word.eq(self.word), loader.bank.eq(self.newest), loader.gap.eq(~before)),
            *(found.bank.eq(bank), found.write.eq(loader.write), found.i.eq(self.results), self.o.eq(found.o)),
            self.written.eq(loader.written),
            self.o_valid.eq(delayed(m, self.results_valid, tables.LATENCY, cleared=True)),
        ]
        for number in range(BANKS):
            last = self.valid & self.last & (self.bank == number)
            m.d.comb += self.passed[number].eq(delayed(m, last, requant.LATENCY, cleared=True))
        return m
