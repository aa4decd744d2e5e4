"""How the host reads registers: a pipeline of two choices, first among the 16 registers of a group, then among the groups.

The copier of `run_queue.py` reads through the same pipeline, while no read of the host is in it.
"""

from collections.abc import Mapping

from amaranth import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from cnna.hw.axi.lite import AxiLiteSlave
from cnna.hw.base.attributes import COPY
from cnna.hw.control.run_queue import HELD, RunQueue
from cnna.spec.regmap import REGISTERS

COUNTERS = REGISTERS[HELD[0]].offset
COUNTERS_BITS = 7  # of an offset within the counters' block

assert COUNTERS % (1 << COUNTERS_BITS) == 0
assert HELD[-1] == "PC"


class ReadGroup(wiring.Component):
    """Chooses among up to 16 words, two clocks late. It is a module by itself: the choice of 32 bits loads its copy of the offset.

    `indices` has the offset of each of `words`, counted in words. `known` says that a word has the offset asked for; an offset
    that is not a multiple of 4 has none.
    """

    def __init__(self, indices: tuple[int, ...]) -> None:
        self.indices = indices
        super().__init__({"offset": In(6), "words": In(data.ArrayLayout(32, len(indices))), "value": Out(32), "known": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        offset = Signal(6, name="offset_copy", attrs=COPY)
        m.d.sync += [offset.eq(self.offset), self.value.eq(0), self.known.eq(0)]
        with m.Switch(offset):
            for number, index in enumerate(self.indices):
                with m.Case(4 * index):
                    m.d.sync += [self.value.eq(self.words[number]), self.known.eq(1)]
        return m


def add_reads(m: Module, slave: AxiLiteSlave, queue: RunQueue, words: Mapping[int, Value], live: Value) -> None:
    """Adds the pipeline to a module. words: by offset.

    While a program from the queue runs and `live` is not set, the host reads the counters that the queue has held.
    """
    groups: dict[int, dict[int, Value]] = {}
    for where, word in words.items():
        groups.setdefault(where // 64, {})[where // 4 % 16] = word
    source = Signal(slave.read.payload.shape())
    offset = Signal(slave.read.payload.shape())
    found = Signal()
    value = Signal(32)
    held = Signal()
    m.d.comb += source.eq(Mux(queue.copying, queue.at << 2, slave.read.payload))
    m.d.sync += [offset.eq(source), found.eq(0), value.eq(0), held.eq(0)]
    number = Signal(len(offset) - 6)  # of the group, beside its value
    m.d.sync += number.eq(offset[6:])
    with m.Switch(number):
        for index, members in groups.items():
            m.submodules[f"group{index}"] = group = ReadGroup(tuple(members))
            m.d.comb += [group.offset.eq(source[:6]), group.words.eq(Cat(members.values()))]
            with m.Case(index):
                m.d.sync += [found.eq(group.known), value.eq(Mux(held, queue.last, group.value))]
    counter = (offset[COUNTERS_BITS:] == COUNTERS >> COUNTERS_BITS) & (offset[2:COUNTERS_BITS] < len(HELD) - 1) & ~offset[:2].any()
    pc = offset == REGISTERS["PC"].offset
    m.d.comb += queue.shown.eq(Mux(pc, len(HELD) - 1, offset[2:]))
    m.d.sync += held.eq((counter | pc) & queue.queued & ~live)
    clocks = Signal(4)  # since the request, one bit each
    m.d.comb += [
        slave.read.ready.eq(~queue.claimed),
        slave.answer.valid.eq(clocks[-1]),
        slave.answer.payload.value.eq(value),
        slave.answer.payload.error.eq(~found),
        queue.reading.eq(clocks.any()),
        queue.value.eq(value),
    ]
    m.d.sync += clocks.eq(Cat(slave.read.valid & slave.read.ready, clocks[:-1]))
