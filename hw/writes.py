"""Program writes: checked, kept in shadow registers, queued as commands.

They come from the sequencer or, in a program that the host plays, from AXI4-Lite (`regfile.py`). A write takes a clock each
in four stages: decode, check of its field limits, verdict, act.
"""

from amaranth import Cat, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from cnna.hw.command import command_layout
from cnna.hw.pair import Pair
from cnna.hw.regmap import ENGINES, ERRORS, REGISTERS, Register
from cnna.hw.sequencer import ProgramWrite

SHADOWED = tuple(r for r in REGISTERS.values() if r.block in ENGINES and not r.name.endswith("_GO"))
ILLEGAL_REGISTER, ILLEGAL_VALUE = ERRORS.index("illegal_register"), ERRORS.index("illegal_value")


def slices(register: Register, word: Value) -> dict[str, Value]:
    """The fields' bits of a register's word."""
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


def command_value(engine: str, words: dict[str, Value]) -> Value:
    """An engine's command, `command_layout(engine)`, from its registers' words by name."""
    own = [register for register in SHADOWED if register.block == engine]
    return Cat(part for register in own for part in slices(register, words[register.name]).values())


class Fault(data.Struct):
    """Why a write was refused, numbered as in `regmap.ERRORS`, and where it went."""

    cause: unsigned(8)
    offset: unsigned(16)


class ProgramWrites(wiring.Component):
    """Takes a write a clock; one to a GO register whose queue is full holds all behind it.

    `done` pulses for each write that has acted; `refused` pulses instead, with `fault`, for one that may not: nothing acts
    after that until reset. `stop` keeps what is under way from acting. `end` pulses when END is taken; no more is taken
    then until `clear`. `shadow` is every engine register's word, in the order of SHADOWED.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "write": In(stream.Signature(ProgramWrite)),
                "stop": In(1),
                "clear": In(1),
                "done": Out(1),
                "refused": Out(1),
                "fault": Out(Fault),
                "end": Out(1),
                "shadow": Out(data.ArrayLayout(32, len(SHADOWED))),
                **{engine: Out(stream.Signature(command_layout(engine))) for engine in ENGINES},
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        targets = [*SHADOWED, *(REGISTERS[f"{engine.upper()}_GO"] for engine in ENGINES), REGISTERS["END"]]
        hold, closed = Signal(), Signal()
        offset1, value1, valid1 = Signal(32), Signal(32), Signal()
        hit2, offset2, value2, valid2, bad2 = Signal(len(targets)), Signal(16), Signal(32), Signal(), Signal(len(targets))
        hit3, offset3, value3, known3 = Signal(len(targets)), Signal(16), Signal(32), Signal()
        right3, wrong3, go3, wrong = Signal(), Signal(), Signal(len(ENGINES)), Signal()
        m.d.comb += self.write.ready.eq(~hold & ~closed)
        with m.If(~hold):  # decode
            m.d.sync += [
                valid1.eq(self.write.valid & ~closed),
                offset1.eq(self.write.payload.offset),
                value1.eq(self.write.payload.value),
            ]
            m.d.sync += [valid2.eq(valid1), offset2.eq(offset1), value2.eq(value1)]
            for number, register in enumerate(targets):  # check
                m.d.sync += hit2[number].eq((offset1[:16] == register.offset) & ~offset1[16:].any())
                m.d.sync += bad2[number].eq(outside(register, value1))
            m.d.sync += [offset3.eq(offset2), value3.eq(value2), hit3.eq(hit2), known3.eq(hit2.any())]  # verdict
            m.d.sync += [right3.eq(valid2 & ~wrong), wrong3.eq(valid2 & wrong)]
            go = slice(len(SHADOWED), len(SHADOWED) + len(ENGINES))
            m.d.sync += go3.eq(hit2[go] & ~bad2[go] & (valid2 & value2[0]).replicate(len(ENGINES)))
        m.d.comb += wrong.eq(~hit2.any() | (hit2 & bad2).any())
        self._act(m, hit3, value3, right3, wrong3, go3, hold, closed)
        m.d.comb += [
            self.fault.offset.eq(offset3),
            self.fault.cause.eq(Mux(known3, ILLEGAL_VALUE, ILLEGAL_REGISTER)),
        ]
        return m

    def _act(
        self, m: Module, hit: Signal, value: Signal, right: Signal, wrong: Signal, wanted: Signal, hold: Signal, closed: Signal
    ) -> None:
        """Refuses a wrong write; does what the register is for with a right one. `wanted`: its GO, if it is one that acts."""
        count, live, dead, ended = len(SHADOWED), Signal(), Signal(), Signal()
        go, go_ready = Signal(len(ENGINES)), Signal(len(ENGINES))
        m.d.comb += [
            closed.eq(dead | ended),
            live.eq(~closed & ~self.stop),
            go.eq(wanted & live.replicate(len(ENGINES))),
            hold.eq((wanted & ~go_ready).any() & live),
            self.done.eq(right & live & ~hold),
            self.refused.eq(wrong & live),
            self.end.eq(right & live & hit[-1] & value[0]),
        ]
        with m.If(self.stop | self.refused):
            m.d.sync += dead.eq(1)
        with m.If(self.end):
            m.d.sync += ended.eq(1)
        with m.Elif(self.clear):
            m.d.sync += ended.eq(0)
        with m.If(right & live):
            for number in range(count):
                with m.If(hit[number]):
                    m.d.sync += self.shadow[number].eq(value)
        words = {register.name: self.shadow[number] for number, register in enumerate(SHADOWED)}
        for number, engine in enumerate(ENGINES):
            m.submodules[f"{engine}_queue"] = queue = Pair(command_layout(engine))
            connect(m, queue.o, flipped(getattr(self, engine)))
            m.d.comb += [
                queue.i.valid.eq(go[number]),
                queue.i.payload.eq(command_value(engine, words)),
                go_ready[number].eq(queue.i.ready),
            ]
