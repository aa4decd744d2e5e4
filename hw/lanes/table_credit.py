"""A head's side of the tables: takes a table's words, and decides when it may and when a group that uses the table may end.

The tables of an engine stand in two banks in turn (`tables.py`). A new one goes into the bank that the newest does not stand in.
The items of earlier commands may still be on their way to the memories then, and read that bank.
"""

from amaranth import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from cnna.hw.base.attributes import KEEP
from cnna.hw.base.ports import RING_LATENCY
from cnna.hw.base.timing import delayed, tally
from cnna.hw.lanes.tables import BANK_BITS, BANKS


class TableCredit(wiring.Component):
    """Counts a table's `words` and the groups of each bank that are under way, at most `groups`.

    `start`: a command that loads a table begins. From the clock behind it, `fetching` is set until all words have been taken;
    `fetches` is its value of the next clock. The head takes a word by `take`, and only after a clock with `may_fetch`. Then no
    group needs the bank that the table goes into, and no table waits to be written. `load` is set a clock before the ring's data
    is a word.

    `uses`: the command uses the newest table. `hold` is set while that table is not yet written; then no group may end. `end`
    ends a group, and `bank` is the bank of its items. `written` comes when a table has been written, and `passed` when a group of
    a bank has left the memories. `newest` is the bank of the newest table.
    """

    def __init__(self, words: int, groups: int) -> None:
        self.words, self.groups = words, groups
        super().__init__(
            {
                **dict.fromkeys(("start", "take", "uses", "end", "written"), In(1)),
                **dict.fromkeys(("fetching", "fetches", "may_fetch", "load", "hold"), Out(1)),
                "passed": In(BANKS),
                "newest": Out(range(BANKS)),
                "bank": Out(BANK_BITS),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        under_way: list[Value] = []
        for bank in range(BANKS):
            ends = self.end & self.uses & (self.newest == bank)
            under_way.append(tally(m, self.groups, ends, self.passed[bank]).some)
        word = Signal(range(max(self.words, 2)))
        fetch = Signal()
        last = Signal()
        ready = Signal(init=1)
        # `take` comes late in the clock: what `fetches` is with it and without it is worked out before
        if_taken, if_not = (Signal(name=name, attrs=KEEP) for name in ("if_taken", "if_not"))
        m.d.comb += [
            fetch.eq(self.fetching & self.take),
            last.eq(fetch & (word == self.words - 1)),
            if_taken.eq(self.start | (self.fetching & (word != self.words - 1))),
            if_not.eq(self.start | self.fetching),
            self.fetches.eq(Mux(self.take, if_taken, if_not)),
            self.may_fetch.eq(ready & ~Mux(self.newest, *under_way)),
            self.load.eq(delayed(m, fetch, RING_LATENCY - 1, cleared=True)),
            self.hold.eq(self.uses & (self.fetching | ~ready)),
            self.bank.eq(Cat(self.newest & self.uses, ~self.uses)),
        ]
        m.d.sync += self.fetching.eq(self.fetches)
        with m.If(fetch):
            m.d.sync += word.eq(Mux(last, 0, word + 1))
        with m.If(last):
            m.d.sync += [ready.eq(0), self.newest.eq(~self.newest)]
        with m.Elif(self.written):
            m.d.sync += ready.eq(1)
        return m
