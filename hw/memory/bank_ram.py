"""One bank of feature memory: block RAM in true dual port with output registers."""

from amaranth import Module
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from cnna.hw.base.delay import delayed


class BankRam(wiring.Component):
    """`depth` words; what port A or B reads, where `_enable` is set, is at `_word` two clocks later.

    `b_write` needs `b_enable` too (see rams.py); the word before it is then what is read.

    A word that one port writes while the other reads it, in the same clock, is read as anything: users wait for
    `ports.FeatureWrite.done`. Port B has one address, for a read or a write, so that tools see two ports, not three.
    """

    def __init__(self, width: int, depth: int) -> None:
        self._width, self._depth = width, depth
        super().__init__(
            {
                "a_enable": In(1),
                "a_row": In(range(depth)),
                "a_word": Out(width),
                "b_enable": In(1),
                "b_write": In(1),
                "b_row": In(range(depth)),
                "b_data": In(width),
                "b_word": Out(width),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.memory = memory = Memory(shape=self._width, depth=self._depth, init=[])
        a, b, write = memory.read_port(), memory.read_port(), memory.write_port()
        m.d.comb += [a.en.eq(self.a_enable), a.addr.eq(self.a_row)]
        m.d.comb += [b.en.eq(self.b_enable), b.addr.eq(self.b_row)]
        m.d.comb += [write.en.eq(self.b_write), write.addr.eq(self.b_row), write.data.eq(self.b_data)]
        m.d.comb += [self.a_word.eq(delayed(m, a.data, 1)), self.b_word.eq(delayed(m, b.data, 1))]
        return m
