"""The front of a feature memory port: splits each request into parts whose lanes need different banks.

`bank_slots.py` takes the parts.
"""

from functools import reduce
from operator import or_
from typing import Any

from amaranth import Cat, Const, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from cnna.hw.base.attributes import COPY, KEEP, NET
from cnna.hw.base.slices import SlotFree, slices
from cnna.spec.config import Config
from cnna.spec.regmap import DECK_BIT


def region_bits(config: Config) -> int:
    """Bits of a region's number."""
    return max(1, ceil_log2(config.regions))


def row_bits(config: Config, whole: bool = False) -> int:
    """Bits of a row: a bank has half as many rows of `whole` sets as of words, if there are two decks."""
    return ceil_log2(config.bank_words // (config.depth if whole else 1))


def part_layout(config: Config, request: data.StructLayout, whole: bool = False) -> data.StructLayout:
    """A part of a request without bank conflicts.

    It has the request's members; `active` has this part's lanes only. Each address is split into `bank`, `row` and `region`.
    `needs`: the banks that the active lanes need. `lane`: for each bank, the lane that needs it, if one does. `complete`: this is
    the request's last part.
    """
    lanes = request["active"].shape.width
    others = {name: field.shape for name, field in request if name != "address"}
    return data.StructLayout(
        {
            **others,
            "bank": data.ArrayLayout(ceil_log2(config.banks), lanes),
            "row": data.ArrayLayout(row_bits(config, whole), lanes),
            "region": data.ArrayLayout(region_bits(config), lanes),
            "needs": unsigned(config.banks),
            "lane": data.ArrayLayout(ceil_log2(lanes), config.banks),
            "complete": unsigned(1),
        }
    )


def one_hot(flags: list[Value], values: list[Value]) -> Value:
    """The value whose flag is set; 0 where none is. At most one may be set."""
    return reduce(or_, (Mux(flag, value, 0) for flag, value in zip(flags, values, strict=True)))


def narrow_layout(layout: data.StructLayout) -> data.StructLayout:
    """A request or part without its words, which travel beside it in slices."""
    return data.StructLayout({name: field.shape for name, field in layout if name != "words"})


def placed(config: Config, address: Value, bank: Value, row: Value, region: Value, whole: bool) -> list[Any]:
    """Sets bank, row and region of an address. With two decks, the top bit of a word's row is the deck."""
    if config.depth == 1 or whole:
        return [Cat(bank, row, region).eq(address)]
    return [Cat(bank, row[:-1], region).eq(address[:DECK_BIT]), row[-1].eq(address[DECK_BIT])]


class RequestSplitter(wiring.Component):
    """Gives a part a clock, in order. A request whose lanes need different banks is one part. Latency: three clocks.

    Where lanes of a request need the same bank, each goes in a part of its own, the lowest first. `stalls`: `o.ready` may be clear.
    `whole`: with two decks, each lane reads the words of both.
    """

    def __init__(self, config: Config, request: data.StructLayout, stalls: bool, whole: bool = False) -> None:
        self._config, self._request, self._stalls, self._whole = config, request, stalls, whole
        super().__init__({"i": In(stream.Signature(request)), "o": Out(stream.Signature(part_layout(config, request, whole)))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        lanes, request = self._request["active"].shape.width, narrow_layout(self._request)
        banks = [address[: ceil_log2(self._config.banks)] for address in self.i.p.address]
        held_valid = Signal()
        work_valid = Signal()
        held, work = (Signal(request, name=n, reset_less=True) for n in ("held", "work"))
        lower = data.ArrayLayout(lanes, lanes)  # by lane: the lower lanes of the same bank
        held_same, same = (Signal(lower, name=n, reset_less=True) for n in ("held_same", "same"))
        now = Signal(lanes)  # lanes of this part
        later = Signal(lanes)  # lanes after it
        complete = Signal()  # there is none after it
        room = Signal()
        fill = Signal()
        moved = Signal()
        taken = Signal()
        m.d.comb += [fill.eq(complete | ~work_valid), moved.eq(room | ~work_valid), taken.eq(moved & fill)]
        m.submodules.ready = ready = SplitterReady()
        m.d.comb += [ready.held_valid.eq(held_valid), ready.work_valid.eq(work_valid), self.i.ready.eq(ready.ready)]
        m.d.comb += [ready.complete.eq(complete), ready.room.eq(room)]
        with m.If(self.i.ready):
            m.d.sync += [held_valid.eq(self.i.valid), *(held[name].eq(self.i.p[name]) for name, _ in request)]
            for lane in range(1, lanes):
                m.d.sync += held_same[lane].eq(Cat(banks[lane] == bank for bank in banks[:lane]))
        with m.If(taken):
            m.d.sync += [work_valid.eq(held_valid), work.eq(held), same.eq(held_same)]
        # Both choices are worked out at once: `fill` comes late in the clock.
        held_blocked, later_blocked = (Signal(lanes, name=name, attrs=KEEP) for name in ("held_blocked", "later_blocked"))
        for lane in range(lanes):
            m.d.comb += held_blocked[lane].eq((held.active & held_same[lane]).any())
            m.d.comb += later_blocked[lane].eq((later & same[lane]).any())
        with m.If(moved):
            m.d.sync += [
                now.eq(Mux(fill, held.active & ~held_blocked, later & ~later_blocked)),
                later.eq(Mux(fill, held.active & held_blocked, later & later_blocked)),
                complete.eq(~Mux(fill, (held.active & held_blocked).any(), (later & later_blocked).any())),
            ]
        self._pass_on(m, work, now, complete, work_valid, room)
        if "words" in self._request.members:
            self._pass_words(m, held_valid, work_valid, complete)
        return m

    def _pass_on(self, m: Module, work: data.View, now: Signal, complete: Signal, valid: Signal, room: Signal) -> None:
        """A register before `o`. Where `o` stalls there is a spare one, so `room` does not depend on this clock's `o.ready`."""
        layout = narrow_layout(self.o.p.shape())
        part = Signal(layout)
        out = Signal(layout, name="out", reset_less=True)
        for lane, address in enumerate(work.address):
            m.d.comb += placed(self._config, address, part.bank[lane], part.row[lane], part.region[lane], self._whole)
        for bank in range(self._config.banks):
            here = Signal(len(now), name=f"lanes_of_bank{bank}", attrs=KEEP)
            m.d.comb += here.eq(Cat(now[lane] & (part.bank[lane] == bank) for lane in range(len(now))))
            m.d.comb += part.needs[bank].eq(here.any())
            m.d.comb += part.lane[bank].eq(one_hot(list(here), [Const(lane, ceil_log2(len(now))) for lane in range(len(now))]))
        m.d.comb += [
            *(part[name].eq(work[name]) for name, _ in work.shape() if name not in ("address", "active")),
            part.active.eq(now),
            part.complete.eq(complete),
            *(self.o.p[name].eq(out[name]) for name, _ in layout),
        ]
        if not self._stalls:
            m.d.comb += room.eq(1)
            m.d.sync += [self.o.valid.eq(valid), out.eq(part)]
            return
        spare, empty = Signal(layout, name="spare", reset_less=True), Signal(init=1)
        m.d.comb += room.eq(empty)
        with m.If(self.o.ready | ~self.o.valid):
            m.d.sync += [self.o.valid.eq(valid | ~empty), out.eq(Mux(empty, part, spare)), empty.eq(1)]
        with m.Elif(valid & empty):
            m.d.sync += [empty.eq(0), spare.eq(part)]

    def _pass_words(self, m: Module, held_valid: Signal, work_valid: Signal, complete: Signal) -> None:
        """Passes a request's words beside its other members, in slices."""
        words, found = Value.cast(self.i.p.words), []
        for number, part in enumerate(slices(len(words))):
            m.submodules[f"words{number}"] = cut = SplitterWords(part.stop - part.start, self._stalls)
            m.d.comb += [
                cut.i.eq(words[part]),
                *(cut.held_valid.eq(held_valid), cut.work_valid.eq(work_valid), cut.complete.eq(complete)),
                *(cut.o_valid.eq(self.o.valid), cut.o_ready.eq(self.o.ready)),
            ]
            found.append(cut.o)
        m.d.comb += self.o.p.words.eq(Cat(found))


class SplitterReady(wiring.Component):
    """Whether the splitter takes a request. A module keeps this one LUT: within the splitter, synthesis would share its parts."""

    held_valid: In(1)
    work_valid: In(1)
    complete: In(1)
    room: In(1)
    ready: Out(1)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += self.ready.eq(~self.held_valid | ~self.work_valid | (self.complete & self.room))
        return m


class SplitterWords(wiring.Component):
    """The splitter's registers for some bits of a request's words, in step with the other registers, with enables of its own."""

    def __init__(self, bits: int, stalls: bool) -> None:
        self._stalls = stalls
        flags = ("held_valid", "work_valid", "complete", "o_valid", "o_ready")
        super().__init__({"i": In(bits), "o": Out(bits), **dict.fromkeys(flags, In(1))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        held, work, out = (Signal(self.i.shape(), name=n, reset_less=True) for n in ("held", "work", "out"))
        room = Signal(init=1, attrs=COPY)
        taken = Signal(attrs=NET)
        fetched = Signal(attrs=NET)
        m.d.comb += [self.o.eq(out), taken.eq((room | ~self.work_valid) & (self.complete | ~self.work_valid))]
        m.d.comb += fetched.eq(taken | ~self.held_valid)
        with m.If(fetched):
            m.d.sync += held.eq(self.i)
        with m.If(taken):
            m.d.sync += work.eq(held)
        if not self._stalls:
            m.d.sync += out.eq(work)
            return m
        spare = Signal(self.i.shape(), reset_less=True)
        m.submodules.last = last = SlotFree()
        m.d.comb += [last.valid.eq(self.o_valid), last.ready.eq(self.o_ready)]
        with m.If(last.free):
            m.d.sync += [out.eq(Mux(room, work, spare)), room.eq(1)]
        with m.Elif(self.work_valid & room):
            m.d.sync += [room.eq(0), spare.eq(work)]
        return m
