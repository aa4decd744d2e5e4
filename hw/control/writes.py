"""Program writes: they are checked, kept in shadow registers and queued as commands.

They come from the sequencer or, if the host plays the program, from AXI4-Lite (`regfile.py`). A write passes four stages of a
clock each: decode, check of the field limits, verdict, act.
"""

from collections.abc import Mapping, Sequence

from amaranth import Cat, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from cnna.hw.base.attributes import KEEP
from cnna.hw.base.ports import command_layout
from cnna.hw.base.queues import SkidBuffer
from cnna.hw.control.sequencer import ProgramWrite
from cnna.spec.regmap import CLEARED, ENGINES, ERRORS, REGISTERS, Register, there

ILLEGAL_REGISTER, ILLEGAL_VALUE = ERRORS.index("illegal_register"), ERRORS.index("illegal_value")


def shadowed(codebook: bool) -> tuple[Register, ...]:
    """The engines' registers in an accelerator with or without books, except those of GO."""
    return tuple(r for r in there(codebook) if r.block in ENGINES and not r.name.endswith("_GO"))


def slices(register: Register, word: Value) -> dict[str, Value]:
    """The bits of each field of a register's word, by name."""
    found, bit = {}, 0
    for field in register.fields:
        found[field.name], bit = word[bit : bit + field.bits], bit + field.bits
    return found


def outside(register: Register, word: Value) -> Value:
    """Whether a field of the word is outside its limits."""
    bad = []
    for field in register.fields:
        value, (low, high) = slices(register, word)[field.name], field.limits
        floor, ceiling = (-(1 << (field.bits - 1)), (1 << (field.bits - 1)) - 1) if field.signed else (0, (1 << field.bits) - 1)
        value = value.as_signed() if field.signed else value
        bad += [value < low] if low > floor else []
        bad += [value > high] if high < ceiling else []
    return Cat(bad).any()


def command_value(engine: str, words: Mapping[Register, Value]) -> Value:
    """An engine's command, its `command_layout`, from the words of all engines' registers."""
    return Cat(part for register, word in words.items() if register.block == engine for part in slices(register, word).values())


class Refusal(data.Struct):
    """Why a write was refused, as an index into `regmap.ERRORS`, and its offset."""

    cause: unsigned(8)
    offset: unsigned(16)


class FieldLimits(wiring.Component):
    """Which registers a word must not be written to because of their field limits: one bit for each of `targets`."""

    def __init__(self, targets: Sequence[Register]) -> None:
        self._targets = targets
        super().__init__({"word": In(32), "bad": Out(len(targets))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += self.bad.eq(Cat(outside(register, self.word) for register in self._targets))
        return m


class GoWait(wiring.Component):
    """Whether a write to a GO register waits for its engine's queue, and whether another write may come.

    It is a module by itself because the sequencer waits for it: synthesis would otherwise trade its depth for area.
    """

    wanted: In(len(ENGINES))
    go_ready: In(len(ENGINES))
    stop: In(1)
    dead: In(1)
    ended: In(1)
    hold: Out(1)
    ready: Out(1)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        closed, waits = self.dead | self.ended, (self.wanted & ~self.go_ready).any()
        m.d.comb += [self.hold.eq(waits & ~closed & ~self.stop), self.ready.eq(~closed & (~waits | self.stop))]
        return m


class ProgramWrites(wiring.Component):
    """Takes one write a clock. A write to a GO register whose queue is full holds up all writes behind it.

    `done` pulses in the clock after a write has acted. `refused` pulses, with `fault`, in the clock after a write that must not
    act; no later write acts until reset. `stop` keeps the writes under way from acting. `end` pulses when END is taken; then no
    write is taken until `clear`. `shadow` holds the word of every engine register, in the order of `shadowed`.
    """

    def __init__(self, codebook: bool) -> None:
        self.codebook, self.shadowed = codebook, shadowed(codebook)
        self.targets = (*self.shadowed, *(REGISTERS[f"{engine.upper()}_GO"] for engine in ENGINES), REGISTERS["END"])
        super().__init__(
            {
                "write": In(stream.Signature(ProgramWrite)),
                "stop": In(1),
                "clear": In(1),
                "done": Out(1),
                "refused": Out(1),
                "fault": Out(Refusal),
                "end": Out(1),
                "shadow": Out(data.ArrayLayout(32, len(self.shadowed))),
                **{engine: Out(stream.Signature(command_layout(engine, codebook))) for engine in ENGINES},
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        targets = self.targets
        hold = Signal()
        closed = Signal()
        m.submodules.go_wait = holding = GoWait()
        m.submodules.limits = limits = FieldLimits(targets)
        offset1 = Signal(32)
        value1 = Signal(32)
        valid1 = Signal()
        offset2 = Signal(16)
        value2 = Signal(32)
        valid2 = Signal()
        hit2 = Signal(len(targets))
        bad2 = Signal(len(targets))
        offset3 = Signal(16)
        value3 = Signal(32)
        hit3 = Signal(len(targets))
        known3 = Signal()
        right3 = Signal()
        wrong3 = Signal()
        go3 = Signal(len(ENGINES))
        wrong = Signal()
        m.d.comb += [hold.eq(holding.hold), self.write.ready.eq(holding.ready), limits.word.eq(value1)]
        with m.If(~hold):  # decode
            m.d.sync += [
                valid1.eq(self.write.valid & ~closed),
                offset1.eq(self.write.payload.offset),
                value1.eq(self.write.payload.value),
            ]
            m.d.sync += [valid2.eq(valid1), offset2.eq(offset1), value2.eq(value1)]
            for number, register in enumerate(targets):  # check
                m.d.sync += hit2[number].eq((offset1[:16] == register.offset) & ~offset1[16:].any())
            m.d.sync += bad2.eq(limits.bad)
            m.d.sync += [offset3.eq(offset2), value3.eq(value2), hit3.eq(hit2), known3.eq(hit2.any())]  # verdict
            m.d.sync += [right3.eq(valid2 & ~wrong), wrong3.eq(valid2 & wrong)]
            go = slice(len(self.shadowed), len(self.shadowed) + len(ENGINES))
            m.d.sync += go3.eq(hit2[go] & ~bad2[go] & (valid2 & value2[0]).replicate(len(ENGINES)))
        m.d.comb += wrong.eq(self._verdict(m, hit2, bad2))
        self._act(m, hit3, value3, right3, wrong3, go3, holding, closed)
        m.d.sync += [self.fault.offset.eq(offset3), self.fault.cause.eq(Mux(known3, ILLEGAL_VALUE, ILLEGAL_REGISTER))]
        return m

    def _verdict(self, m: Module, hit: Signal, bad: Signal) -> Value:
        """Whether the write hits no register, or one that must not get its value. Synthesis would trade its depth for area."""
        known = Signal(-(-len(hit) // 6), attrs=KEEP)
        broken = Signal(-(-len(hit) // 3), attrs=KEEP)
        m.d.comb += known.eq(Cat(hit[first : first + 6].any() for first in range(0, len(hit), 6)))
        m.d.comb += broken.eq(Cat((hit & bad)[first : first + 3].any() for first in range(0, len(hit), 3)))
        return ~known.any() | broken.any()

    def _act(
        self, m: Module, hit: Signal, value: Signal, right: Signal, wrong: Signal, wanted: Signal, holding: GoWait, closed: Signal
    ) -> None:
        """Refuses a wrong write and carries out a right one. `wanted` has the bit of the engine whose GO the write is."""
        count, live = len(self.shadowed), Signal()
        dead = Signal()
        ended = Signal()
        refused = Signal()
        go = Signal(len(ENGINES))
        go_ready = Signal(len(ENGINES))
        m.d.comb += [
            closed.eq(dead | ended),
            live.eq(~closed & ~self.stop),
            go.eq(wanted & live.replicate(len(ENGINES))),
            *(holding.wanted.eq(wanted), holding.go_ready.eq(go_ready)),
            *(holding.stop.eq(self.stop), holding.dead.eq(dead), holding.ended.eq(ended)),
            refused.eq(wrong & live),
            self.end.eq(right & live & hit[-1] & value[0]),
        ]
        m.d.sync += [self.done.eq(right & live & ~holding.hold), self.refused.eq(refused)]
        with m.If(self.stop | refused):
            m.d.sync += dead.eq(1)
        with m.If(self.end):
            m.d.sync += ended.eq(1)
        with m.Elif(self.clear):
            m.d.sync += ended.eq(0)
        with m.If(right & live):
            for number in range(count):
                with m.If(hit[number]):
                    m.d.sync += self.shadow[number].eq(value)
        with m.If(self.clear):
            m.d.sync += [self.shadow[number].eq(0) for number, r in enumerate(self.shadowed) if r.name in CLEARED]
        words = {register: self.shadow[number] for number, register in enumerate(self.shadowed)}
        for number, engine in enumerate(ENGINES):
            m.submodules[f"{engine}_queue"] = queue = SkidBuffer(command_layout(engine, self.codebook))
            connect(m, queue.o, flipped(getattr(self, engine)))
            m.d.comb += [
                queue.i.valid.eq(go[number]),
                queue.i.payload.eq(command_value(engine, words)),
                go_ready[number].eq(queue.i.ready),
            ]
