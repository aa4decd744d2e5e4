"""Behind a port's request splitter: slots that wait for their banks, and the way back of the words that were read.

Flags of banks cover all regions: bank b of region r is bit `r * banks + b`.
"""

from functools import reduce
from operator import or_

from amaranth import Cat, Const, Module, Mux, Shape, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cnna.hw.base.attributes import COPY, KEEP, PAIR
from cnna.hw.base.slices import slices
from cnna.hw.base.timing import delayed
from cnna.hw.memory.request_splitter import one_hot, part_layout, region_bits, row_bits
from cnna.spec.config import Config

CHOICE_BITS = 64  # of a word that one copy of the lane's bank number selects: 256 loads a bit
READ_CLOCKS = 3  # from the clock of a grant to the one with the bank's word at its output: port register, RAM, its register


def slot_layout(config: Config, request: data.StructLayout) -> data.StructLayout:
    """What the slots keep of a part beside its rows and words."""
    part = part_layout(config, request)
    kept = ("active", "bank", "tag", "last", "complete")
    return data.StructLayout({name: field.shape for name, field in part if name in kept})


def all_of(flags: Value) -> Value:
    """Whether all flags are set. A carry chain computes it, which is fast for any number of flags."""
    return (Cat(Const(1, 1), flags) + 1)[-1]


def chosen(m: Module, values: list[Value], index: Value) -> Value:
    """values[index]; anything where `index` is beyond the last. One LUT selects among four values, then one among four of those.

    Attributes keep the nets between: left to itself, synthesis uses seven LUTs for a bit of sixteen values where five suffice.
    """
    fours = [_of_four(values[first : first + 4], index[:2]) for first in range(0, len(values), 4)]
    if len(fours) == 1:
        return fours[0]
    between = [Signal(len(four), name="between", attrs=KEEP) for four in fours]
    m.d.comb += [signal.eq(four) for signal, four in zip(between, fours, strict=True)]
    return chosen(m, between, index[2:])


def _of_four(values: list[Value], index: Value) -> Value:
    """values[index] of up to four, as a tree of two-way multiplexers."""
    for bit in index:
        pairs = [values[at : at + 2] for at in range(0, len(values), 2)]
        values = [Mux(bit, pair[-1], pair[0]) for pair in pairs]
    return values[0]


class BankSlots(wiring.Component):
    """Holds a part, bank by bank, until every bank has been granted. Takes the next part in the clock of the last grant.

    A bank that it `asks` for is `granted` in the same clock unless slots of higher priority ask for it; `higher` has what those
    ask for, by slots, then bank. `row` and `words` are what each granted bank gets. `complete` is set in the clock of a request's
    last grant. `part` is the part that the slots hold. `whole`: as of the splitter.
    """

    def __init__(self, config: Config, request: data.StructLayout, higher: int, whole: bool = False) -> None:
        self._config, self._request, self._above = config, request, higher
        self._writes = "words" in request.members
        banks, flags = config.banks, config.regions * config.banks
        super().__init__(
            {
                "i": In(stream.Signature(part_layout(config, request, whole))),
                "asks": Out(flags),
                "granted": Out(flags),
                "row": Out(data.ArrayLayout(row_bits(config, whole), banks)),
                "complete": Out(1),
                "part": Out(slot_layout(config, request)),
            }
            | ({"higher": In(data.ArrayLayout(flags, higher))} if higher else {})
            | ({"words": Out(data.ArrayLayout(8 * config.ci, banks))} if self._writes else {})
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        full = Signal()
        moves = Signal()
        part = self.i.p
        kept = Signal(self.part.shape(), reset_less=True)
        free = Signal(len(self.asks), attrs=KEEP)  # kept: a LUT alone stands between `asks` and the carry chain
        if self._above:
            m.d.comb += free.eq(~(self.asks & reduce(or_, (self.higher[user] for user in range(self._above)))))
            m.d.comb += moves.eq(all_of(free))
        else:
            m.d.comb += [free.eq((1 << len(free)) - 1), moves.eq(1)]
        m.d.comb += [
            self.granted.eq(self.asks & free),
            self.i.ready.eq(moves),
            self.part.eq(kept),
            self.complete.eq(full & moves & self.part.complete),
        ]
        with m.If(moves):
            m.d.sync += [full.eq(self.i.valid), *(kept[name].eq(part[name]) for name, _ in kept.shape())]
        with m.Else():
            m.d.sync += self.asks.eq(~free)
        for bank in range(self._config.banks):
            self._take(m, bank, moves, free)
        return m

    def _take(self, m: Module, bank: int, moves: Signal, free: Signal) -> None:
        """Loads the slot of one bank from the lane that needs it."""
        part, lane, lanes = self.i.p, self.i.p.lane[bank], range(len(self.i.p.active))
        region = chosen(m, [part.region[lane] for lane in lanes], lane)
        with m.If(moves):
            for number in range(self._config.regions):
                wanted = self.i.valid & part.needs[bank] & (region == number)
                m.d.sync += self.asks[number * self._config.banks + bank].eq(wanted)
        # Once its bank has been granted, a slot may already load the next part's row and words: it does not ask with them.
        for name in ("row", "words") if self._writes else ("row",):
            mine = Signal(len(part[name][0]), name=f"{name}_of_bank{bank}", reset_less=True)
            option = chosen(m, [part[name][lane] for lane in lanes], lane)
            m.d.comb += getattr(self, name)[bank].eq(mine)
            with m.If(free[bank :: self._config.banks].all()):
                m.d.sync += mine.eq(option)


class LaneChoice(wiring.Component):
    """Some bits of a lane's word. Takes those of `bank` (of a clock ago) if the lane was `active` and the bank hits; else holds.

    It has a copy of the bank's number that drives these bits alone; attributes keep it apart from the other copies.
    """

    def __init__(self, bits: int, banks: int) -> None:
        super().__init__(
            {
                "options": In(data.ArrayLayout(bits, banks)),
                "hits": In(banks),
                "active": In(1),
                "bank": In(range(banks)),
                "o": Out(bits),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        active, bank = (delayed(m, value, 1, attrs=COPY) for value in (self.active, self.bank))
        answer = Signal(self.o.shape(), reset_less=True)
        option = chosen(m, list(self.options), bank)
        with m.If(active & self.hits.bit_select(bank, 1)):
            m.d.sync += answer.eq(option)
        m.d.comb += self.o.eq(answer)
        return m


class ReadAnswers(wiring.Component):
    """Returns the banks' words to their lanes, part by part, and answers when a request is complete.

    `granted`, `complete` and `part` come from the port's slots in the clock of the grant; `words` are the outputs of all banks.
    """

    def __init__(self, config: Config, request: data.StructLayout, response: data.StructLayout) -> None:
        self._config, self._bits = config, Shape.cast(response["words"].shape.elem_shape).width
        super().__init__(
            {
                "granted": In(config.regions * config.banks),
                "complete": In(1),
                "part": In(slot_layout(config, request)),
                "words": In(data.ArrayLayout(unsigned(self._bits), config.regions * config.banks)),
                "o": Out(stream.Signature(response, always_ready=True)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        banks, regions = self._config.banks, self._config.regions
        granted = delayed(m, self.granted, READ_CLOCKS - 1, attrs=PAIR)
        words = Signal(data.ArrayLayout(self._bits, banks), reset_less=True)  # by bank, of the region that was granted
        hit = Signal(banks, reset_less=True)
        hits = Signal(banks, reset_less=True)
        tag = Signal(self.o.p.tag.shape(), reset_less=True)
        for bank in range(banks):
            flags = [granted[number * banks + bank] for number in range(regions)]
            region = Signal(region_bits(self._config), name=f"region_of_bank{bank}", reset_less=True)
            m.d.sync += region.eq(one_hot(flags, [Const(number, len(region)) for number in range(regions)]))
            m.d.sync += words[bank].eq(chosen(m, [self.words[number * banks + bank] for number in range(regions)], region))
            m.d.sync += [hit[bank].eq(Cat(flags).any()), hits[bank].eq(hit[bank])]

        part = delayed(m, self.part, READ_CLOCKS)
        m.d.sync += self.o.valid.eq(delayed(m, self.complete, READ_CLOCKS + 1, cleared=True))
        m.d.sync += tag.eq(delayed(m, part.tag, 1))
        m.d.comb += self.o.p.tag.eq(tag)
        for lane in range(len(part.active)):
            found = []
            for number, bits in enumerate(slices(self._bits, CHOICE_BITS)):
                m.submodules[f"lane{lane}_{number}"] = choice = LaneChoice(bits.stop - bits.start, banks)
                m.d.comb += [
                    choice.options.eq(Cat(words[bank][bits] for bank in range(banks))),
                    choice.hits.eq(hits),
                    choice.active.eq(part.active[lane]),
                    choice.bank.eq(part.bank[lane]),
                ]
                found.append(choice.o)
            m.d.comb += self.o.p.words[lane].eq(Cat(found))
        return m
